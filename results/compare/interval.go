package compare

import (
	"math"
	"slices"
)

// interval bounds the shift of the logarithms with the given confidence by inverting the test
// that gives p: it holds every shift that the test does not reject, so interval and p never
// contradict each other. It is absent where the samples are too few for the confidence.
func interval(points []point, ends []int, confidence float64, fast bool) (low, high float64, ok bool) {
	tail := (1 - confidence) / 2
	if leastP(points, ends) > 2*tail {
		return 0, 0, false
	}
	if ends == nil {
		return plainInterval(points, tail)
	}
	oldLogs, newLogs := split(points)
	lo, hi := slices.Min(newLogs)-slices.Max(oldLogs), slices.Max(newLogs)-slices.Min(oldLogs)
	span := hi - lo
	if span == 0 {
		return lo, hi, true
	}
	lo, hi = lo-1e-6*span, hi+1e-6*span
	mid := median(newLogs) - median(oldLogs)
	// Far to the left the shifted new side lies above the old one.
	above := func(s float64) float64 { // the chance of a new side as great as this one
		lower, upper := scoreSum(points, ends, s, fast)
		if fast {
			return upper
		}
		return lower
	}
	below := func(s float64) float64 {
		lower, upper := scoreSum(points, ends, s, fast)
		if fast {
			return lower
		}
		return upper
	}
	low = bisect(lo, mid, func(s float64) bool { return above(s) <= tail })
	high = bisect(hi, mid, func(s float64) bool { return below(s) <= tail })
	return low, high, true
}

// bisect finds where rejected turns from true (at outside) to false (at inside), and returns the
// outer end of the last step: never narrower than the truth.
func bisect(outside, inside float64, rejected func(float64) bool) float64 {
	if !rejected(outside) {
		return outside
	}
	for range 16 {
		m := outside + (inside-outside)/2
		if rejected(m) {
			outside = m
		} else {
			inside = m
		}
	}
	return outside
}

// plainInterval is that of Hodges and Lehmann (1963): ordered differences of every pair, cut
// where the Mann-Whitney statistic has its tails.
func plainInterval(points []point, tail float64) (low, high float64, ok bool) {
	oldLogs, newLogs := split(points)
	if len(oldLogs)*len(newLogs) > 1<<20 { // a pair of long runs: every k-th of the ordered samples carries the same quantiles
		oldLogs, newLogs = thin(oldLogs, 1024), thin(newLogs, 1024)
	}
	m, n := len(oldLogs), len(newLogs)
	differences := make([]float64, 0, m*n)
	for _, a := range oldLogs {
		for _, b := range newLogs {
			differences = append(differences, b-a)
		}
	}
	slices.Sort(differences)
	cut := mannWhitneyCut(m, n, tail)
	if cut < 0 {
		return 0, 0, false
	}
	return differences[cut], differences[len(differences)-1-cut], true
}

func thin(v []float64, n int) []float64 {
	if len(v) <= n {
		return v
	}
	slices.Sort(v)
	out := make([]float64, n)
	for i := range out {
		out[i] = v[i*len(v)/n]
	}
	return out
}

// mannWhitneyCut is the largest c with P(U <= c) <= tail, or -1.
func mannWhitneyCut(m, n int, tail float64) int {
	if m+n > 100 {
		mean := float64(m) * float64(n) / 2
		sd := math.Sqrt(float64(m) * float64(n) * float64(m+n+1) / 12)
		z := math.Sqrt2 * math.Erfinv(2*tail-1)
		return int(math.Floor(mean + z*sd - 0.5))
	}
	// counts[k][u]: ways that k of the new samples stand below old ones with statistic u
	ranks := make([]int, m+n)
	for i := range ranks {
		ranks[i] = i
	}
	sums := subsetSums(ranks, n)
	base := n * (n - 1) / 2
	var p float64
	for u := 0; u <= m*n; u++ {
		p += sums[base+u]
		if p > tail {
			return u - 1
		}
	}
	return m * n
}
