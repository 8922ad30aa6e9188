package plots

import (
	"cmp"
	"slices"

	"gonum.org/v1/plot/vg"
)

// spread moves boxes of the given heights, whose middles want to be at want, apart along a line until none overlaps, each as
// little as can be (the sum of squares is least), and keeps them within lo..hi where they fit there. Order is kept; boxes that
// want the same place keep the order in which they were given, the first uppermost.
func spread(want, heights []vg.Length, lo, hi vg.Length) []vg.Length {
	n := len(want)
	order := make([]int, n)
	for i := range order {
		order[i] = n - 1 - i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(want[a], want[b]) })
	// Pool adjacent violators: in coordinates from which the heights below are taken off, places must not fall.
	type pool struct {
		sum   vg.Length
		count int
	}
	var pools []pool
	foot, total := vg.Length(0), vg.Length(0)
	for _, h := range heights {
		total += h
	}
	top := max(lo, hi-total)
	for _, i := range order {
		w := want[i] - heights[i]/2 - foot
		foot += heights[i]
		pools = append(pools, pool{w, 1})
		for k := len(pools); k > 1; k = len(pools) {
			a, b := pools[k-2], pools[k-1]
			if a.sum/vg.Length(a.count) < b.sum/vg.Length(b.count) {
				break
			}
			pools = append(pools[:k-2], pool{a.sum + b.sum, a.count + b.count})
		}
	}
	out := make([]vg.Length, n)
	foot = 0
	k, left := 0, 0
	if n > 0 {
		left = pools[0].count
	}
	for _, i := range order {
		if left == 0 {
			k++
			left = pools[k].count
		}
		left--
		at := min(max(pools[k].sum/vg.Length(pools[k].count), lo), top)
		out[i] = at + foot + heights[i]/2
		foot += heights[i]
	}
	return out
}
