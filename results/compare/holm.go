package compare

import (
	"math"
	"slices"
)

// holm adjusts p for the number of cells (Holm 1979), so that the chance of one false verdict in a
// whole comparison stays at alpha. A cell that could not reach alpha over the number of
// cells whatever its samples said is left out of that number first (Tarone 1990): it cannot raise a
// false alarm, so it need not be paid for. It returns the adjusted p (1 for those left out), which
// cells took part, and their number.
func holm(p, least []float64, alpha float64) (adjusted []float64, takesPart []bool, family int) {
	n := len(p)
	adjusted, takesPart = make([]float64, n), make([]bool, n)
	family = 0
	for k := 1; k <= n; k++ {
		able := 0
		for _, l := range least {
			if l <= alpha/float64(k) {
				able++
			}
		}
		if able <= k {
			family = able
			for i, l := range least {
				takesPart[i] = l <= alpha/float64(k)
			}
			break
		}
	}
	var order []int
	for i := range p {
		adjusted[i] = 1
		if takesPart[i] {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	running := 0.0
	for rank, i := range order {
		running = math.Max(running, p[i]*float64(len(order)-rank))
		adjusted[i] = math.Min(1, running)
	}
	return adjusted, takesPart, family
}
