package curve

import (
	"fmt"
	"math"
	"slices"
)

// line is a measured function of one positive variable, kept as its logarithms.
type line struct {
	x, y []float64
}

// newLine sorts the points; of two with the same x the first wins.
func newLine(points [][2]float64) line {
	slices.SortStableFunc(points, func(a, b [2]float64) int {
		switch {
		case a[0] < b[0]:
			return -1
		case a[0] > b[0]:
			return 1
		}
		return 0
	})
	var l line
	for i, p := range points {
		if i > 0 && p[0] == points[i-1][0] {
			continue
		}
		l.x = append(l.x, math.Log(p[0]))
		l.y = append(l.y, math.Log(p[1]))
	}
	return l
}

// Rounding of a size that was computed must not put it outside what was measured.
const slack = 1e-9

// at interpolates linearly between the logarithms. Outside, the value of the
// nearest edge is scaled by (x/edge)^slope: slope 0 keeps it (a rate, a
// latency), 1 makes it grow with x (the time of more bytes). inside tells which.
func (l line) at(x, below, above float64) (y float64, inside bool) {
	lx := math.Log(x)
	n := len(l.x)
	switch {
	case lx < l.x[0]-slack:
		return math.Exp(l.y[0] + below*(lx-l.x[0])), false
	case lx > l.x[n-1]+slack:
		return math.Exp(l.y[n-1] + above*(lx-l.x[n-1])), false
	}
	i, found := slices.BinarySearch(l.x, lx)
	if found {
		return math.Exp(l.y[i]), true
	}
	if i == 0 {
		return math.Exp(l.y[0]), true
	}
	if i == n {
		return math.Exp(l.y[n-1]), true
	}
	f := (lx - l.x[i-1]) / (l.x[i] - l.x[i-1])
	return math.Exp(l.y[i-1] + f*(l.y[i]-l.y[i-1])), true
}

// has says whether x is a measured place and not one between two.
func (l line) has(x float64) bool {
	lx := math.Log(x)
	for _, v := range l.x {
		if math.Abs(v-lx) <= slack {
			return true
		}
	}
	return false
}

func (l line) low() float64  { return math.Exp(l.x[0]) }
func (l line) high() float64 { return math.Exp(l.x[len(l.x)-1]) }

// grid is a measured function of piece size and one more variable: a line over
// the second for each size that was measured.
type grid struct {
	size  []float64 // ascending, bytes
	lines []line
}

func newGrid(points [][3]float64) grid {
	bySize := map[float64][][2]float64{}
	for _, p := range points {
		bySize[p[0]] = append(bySize[p[0]], [2]float64{p[1], p[2]})
	}
	var g grid
	for s := range bySize {
		g.size = append(g.size, s)
	}
	slices.Sort(g.size)
	for _, s := range g.size {
		g.lines = append(g.lines, newLine(bySize[s]))
	}
	return g
}

// at interpolates in the second variable on the lines of the two sizes around
// x, and then between them. outside names what was not measured, or is empty.
// In both variables a larger value takes proportionally longer beyond the edge
// (grow 1), and a smaller one no less.
func (g grid) at(x, z float64, second string) (y float64, exact bool, outside string) {
	var across [][2]float64
	from, to := 0, len(g.size)-1
	for i, s := range g.size {
		if s <= x*(1+slack) {
			from = i
		}
		if s >= x*(1-slack) && to == len(g.size)-1 {
			to = i
		}
	}
	if g.size[from] > x*(1+slack) {
		to = from
	}
	exact = true
	for i := from; i <= max(from, to); i++ {
		v, in := g.lines[i].at(z, 0, 1)
		if !in {
			outside = fmt.Sprintf("%s %.0f, measured %.0f to %.0f with pieces of %.0f bytes", second, z, g.lines[i].low(), g.lines[i].high(), g.size[i])
		}
		exact = exact && g.lines[i].has(z)
		across = append(across, [2]float64{g.size[i], v})
	}
	l := newLine(across)
	y, in := l.at(x, 0, 1)
	if !in {
		outside = fmt.Sprintf("pieces of %.0f bytes, measured %.0f to %.0f", x, g.size[0], g.size[len(g.size)-1])
	}
	return y, exact && in && l.has(x), outside
}
