package matrix

import (
	"math"
	"slices"
)

// grid is the logarithms of a layer's figures, the sign such that less is slower; NaN where there is none.
type grid struct {
	n     int
	y     []float64 // n*n
	kinds []uint8   // n*n: whether a pair is across switch groups, within one, or within a host; nil: all are alike
}

// Kinds of pairs, which have a level each.
const (
	across = iota
	within
	inside // one host with several ranks
	kinds
)

func (g *grid) at(i, j int) float64 { return g.y[i*g.n+j] }

// fit is a grid taken apart: y[i][j] = level + from[i] + to[j] + rest[i][j].
type fit struct {
	grid
	level    [kinds]float64 // of the pairs of a kind
	from, to []float64      // a host's part as initiator and as target; the same slice where pairs were measured one way alone
	oneWay   bool
	rest     []float64
	sigma    float64 // the spread of the rests: a standard deviation, were they normal
	cells    int     // figures
	degree   []int   // a host's figures
}

const (
	passes = 30
	enough = 1e-7
)

// polish takes a grid apart.
func polish(g grid) *fit {
	n := g.n
	f := &fit{grid: g, from: make([]float64, n), to: make([]float64, n), rest: make([]float64, n*n), degree: make([]int, n)}
	pairs, mutual := 0, 0
	for i := range n {
		for j := range n {
			if v := g.at(i, j); v == v {
				f.cells++
				f.degree[i]++
				f.degree[j]++
				if w := g.at(j, i); w == w {
					mutual++
				} else {
					pairs++
				}
			}
		}
	}
	pairs += mutual / 2
	if f.oneWay = mutual < pairs; f.oneWay { // fewer than half of the pairs have both ways: the two parts of a host cannot be told
		f.to = f.from
	}
	copy(f.rest, g.y)
	var room []float64
	for pass := range passes {
		moved := f.levels(&room)
		if f.oneWay && pass == 0 {
			moved = max(moved, f.moveAll(&room))
		} else if f.oneWay {
			for h := range n {
				moved = max(moved, f.move(h, true, true, &room))
			}
		} else {
			for h := range n {
				moved = max(moved, f.move(h, true, false, &room))
			}
			for h := range n {
				moved = max(moved, f.move(h, false, true, &room))
			}
		}
		if moved < enough {
			break
		}
	}
	f.centre()
	f.levels(&room)
	f.spread()
	return f
}

// levels moves the medians of the rests of each kind of pair into its level.
func (f *fit) levels(room *[]float64) (moved float64) {
	for kind := range kinds {
		v := (*room)[:0]
		for k, r := range f.rest {
			if r == r && f.kind(k) == kind {
				v = append(v, r)
			}
		}
		*room = v
		if len(v) == 0 {
			continue
		}
		m := middle(v)
		f.level[kind] += m
		for k := range f.rest {
			if f.kind(k) == kind {
				f.rest[k] -= m
			}
		}
		moved = max(moved, math.Abs(m))
	}
	return moved
}

func (f *fit) kind(k int) int {
	if f.kinds != nil {
		return int(f.kinds[k])
	}
	return across
}

// move takes the median of the rests of a host's figures as its part, as initiator, as target, or both.
func (f *fit) move(h int, from, to bool, room *[]float64) float64 {
	v := (*room)[:0]
	for o := range f.n {
		if r := f.rest[h*f.n+o]; from && r == r {
			v = append(v, r)
		}
		if r := f.rest[o*f.n+h]; to && r == r {
			v = append(v, r)
		}
	}
	*room = v
	if len(v) == 0 {
		return 0
	}
	m := middle(v)
	if m == 0 {
		return 0
	}
	for o := range f.n {
		if from {
			f.rest[h*f.n+o] -= m
		}
		if to {
			f.rest[o*f.n+h] -= m
		}
	}
	if from {
		f.from[h] += m
	}
	if to && !f.oneWay {
		f.to[h] += m
	}
	return math.Abs(m)
}

// moveAll is the first step of the one-way fit: every host's median is taken before any is moved, since hosts that are moved one after the other
// take over what belongs to the next.
func (f *fit) moveAll(room *[]float64) (moved float64) {
	parts := make([]float64, f.n)
	for h := range f.n {
		v := (*room)[:0]
		for o := range f.n {
			for _, k := range []int{h*f.n + o, o*f.n + h} {
				if r := f.rest[k]; r == r {
					v = append(v, r)
				}
			}
		}
		if *room = v; len(v) > 0 {
			parts[h] = middle(v)
		}
	}
	for h, m := range parts {
		f.from[h] += m
		moved = max(moved, math.Abs(m))
		for o := range f.n {
			f.rest[h*f.n+o] -= m
			f.rest[o*f.n+h] -= m
		}
	}
	return moved
}

// centre makes the medians of the hosts' parts 0.
func (f *fit) centre() {
	shift := func(parts []float64) float64 {
		var v []float64
		for h, p := range parts {
			if f.degree[h] > 0 {
				v = append(v, p)
			}
		}
		if len(v) == 0 {
			return 0
		}
		m := middle(v)
		for h := range parts {
			parts[h] -= m
		}
		return m
	}
	a := shift(f.from)
	b := a
	if !f.oneWay {
		b = shift(f.to)
	}
	for k := range f.level {
		f.level[k] += a + b
	}
}

// parameters is how many figures the fit can make exact.
func (f *fit) parameters() int {
	p := 0
	for _, d := range f.degree {
		if d > 0 {
			p++
		}
	}
	if !f.oneWay {
		p = 2*p - 1
	}
	seen := [kinds]bool{}
	for k, v := range f.y {
		if v == v {
			seen[f.kind(k)] = true
		}
	}
	for _, s := range seen {
		if s {
			p++
		}
	}
	return max(p-1, 0)
}

// spread sets sigma: the median of the sizes of the rests, over 0.6745 as for the normal distribution. A fit by medians makes as many rests 0 as it
// has parameters, so these, the smallest, are left out.
func (f *fit) spread() {
	v := make([]float64, 0, f.cells)
	for _, r := range f.rest {
		if r == r {
			v = append(v, math.Abs(r))
		}
	}
	slices.Sort(v)
	if p := f.parameters(); p < len(v) {
		v = v[p:]
	} else if len(v) > 1 {
		v = v[len(v)-1:]
	}
	f.sigma = math.NaN()
	if len(v) > 0 {
		f.sigma = median(v) / 0.6745
	}
}

// middle is the median of figures in any order; it reorders them.
func middle(v []float64) float64 {
	k := len(v) / 2
	hi := pick(v, k)
	if len(v)%2 == 1 {
		return hi
	}
	lo := math.Inf(-1)
	for _, x := range v[:k] {
		lo = max(lo, x)
	}
	return (lo + hi) / 2
}

// pick puts the k-th smallest figure at its place, what is smaller before it, and returns it (Hoare's selection, with the median of three).
func pick(v []float64, k int) float64 {
	lo, hi := 0, len(v)-1
	for lo < hi {
		mid := lo + (hi-lo)/2
		if v[mid] < v[lo] {
			v[mid], v[lo] = v[lo], v[mid]
		}
		if v[hi] < v[lo] {
			v[hi], v[lo] = v[lo], v[hi]
		}
		if v[hi] < v[mid] {
			v[hi], v[mid] = v[mid], v[hi]
		}
		x := v[mid]
		i, j := lo, hi
		for i <= j {
			for v[i] < x {
				i++
			}
			for v[j] > x {
				j--
			}
			if i <= j {
				v[i], v[j] = v[j], v[i]
				i, j = i+1, j-1
			}
		}
		switch {
		case k <= j:
			hi = j
		case k >= i:
			lo = i
		default:
			return v[k]
		}
	}
	return v[k]
}
