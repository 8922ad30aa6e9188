package compare

import (
	"math"
	"math/rand/v2"
	"slices"
)

// leastForShape is the number of samples below which neither drift nor phases are looked for.
const leastForShape = 8

// drift looks for a trend over the samples of one side in their order: Kendall's test at 1 %, and
// the slope of Theil and Sen over the whole length as a relative change.
func drift(logs []float64) (change float64, found bool) {
	n := len(logs)
	if n < leastForShape {
		return 0, false
	}
	if n > 200 { // pairs grow with the square
		logs = everyNth(logs, (n+199)/200)
		n = len(logs)
	}
	s := 0
	slopes := make([]float64, 0, n*(n-1)/2)
	for i := range logs {
		for j := i + 1; j < n; j++ {
			switch {
			case logs[j] > logs[i]:
				s++
			case logs[j] < logs[i]:
				s--
			}
			slopes = append(slopes, (logs[j]-logs[i])/float64(j-i))
		}
	}
	f := float64(n)
	z := (math.Abs(float64(s)) - 1) / math.Sqrt(f*(f-1)*(2*f+5)/18)
	change = math.Expm1(median(slopes) * (f - 1))
	return change, z > 2.576
}

func everyNth(v []float64, k int) []float64 {
	var out []float64
	for i := 0; i < len(v); i += k {
		out = append(out, v[i])
	}
	return out
}

// dependent reports whether each sample is more like the one before it than chance has it: the rank
// version of von Neumann's ratio (Bartels 1982), one-sided at 2.5 %.
func dependent(logs []float64) bool {
	n := float64(len(logs))
	if len(logs) < leastForShape {
		return false
	}
	ranks := doubleRanks(logs)
	mean, whole, steps := n+1, 0.0, 0.0 // of doubled ranks
	for i, r := range ranks {
		whole += (float64(r) - mean) * (float64(r) - mean)
		if i > 0 {
			d := float64(r - ranks[i-1])
			steps += d * d
		}
	}
	if whole == 0 {
		return false
	}
	variance := 4 * (n - 2) * (5*n*n - 2*n - 9) / (5 * n * (n + 1) * (n - 1) * (n - 1))
	return (steps/whole-2)/math.Sqrt(variance) < -1.96
}

// phases looks for two levels among the samples of one side: the cut of the ordered samples that
// leaves the least spread inside the two parts. It is found where that spread is small enough beside the
// whole, each part has a fifth of the samples, and the gap is wide beside the steps inside the parts.
// phaseShare gives the bound: on normal noise it is passed about once in two hundred series.
func phases(logs []float64) (gap float64, found bool) {
	n := len(logs)
	if n < leastForShape {
		return 0, false
	}
	v := slices.Clone(logs)
	slices.Sort(v)
	sum, squares := make([]float64, n+1), make([]float64, n+1)
	for i, x := range v {
		d := x - v[0]
		sum[i+1] = sum[i] + d
		squares[i+1] = squares[i] + d*d
	}
	inside := func(a, b int) float64 {
		s := sum[b] - sum[a]
		return squares[b] - squares[a] - s*s/float64(b-a)
	}
	whole := inside(0, n)
	if whole <= 0 {
		return 0, false
	}
	smallest := max(2, n/5)
	best, at := math.Inf(1), 0
	for c := smallest; c <= n-smallest; c++ {
		if w := inside(0, c) + inside(c, n); w < best {
			best, at = w, c
		}
	}
	if at == 0 {
		return 0, false
	}
	level := func(a, b int) float64 { return v[0] + (sum[b]-sum[a])/float64(b-a) }
	gap = level(at, n) - level(0, at)
	return gap, best/whole <= phaseShare(n)
}

// phaseShare is the share of the spread that may remain inside two levels. Simulated
// on normal series; TestPhaseBound holds it.
func phaseShare(n int) float64 {
	return 0.25 - 1.6/float64(n) // 0.05 at 8, 0.15 at 16, 0.22 at 64
}

// floor is the least effect that samples of one build against itself can be told from, as a
// ratio's logarithm: the 95th percentile of |log ratio of medians| over pairs of sides drawn
// from the samples in interleaved blocks, each side of n. Where there are fewer than 2n samples the
// sides are smaller, and the figure is scaled by the square root. The draw is seeded: the same
// samples give the same floor.
func floor(logs []float64, n int) (value float64, ok bool) {
	side := min(n, len(logs)/2) &^ 1
	if side < 4 {
		return 0, false
	}
	const draws = 200
	random := rand.New(rand.NewPCG(7, uint64(len(logs))))
	effects := make([]float64, 0, draws)
	a, b := make([]float64, 0, side), make([]float64, 0, side)
	for range draws {
		a, b = a[:0], b[:0]
		start := random.IntN(len(logs) - 2*side + 1)
		for i := start; i < start+2*side; i += 4 {
			first := random.IntN(2) == 0 // A B B A or B A A B
			for j, outer := range [4]bool{true, false, false, true} {
				if outer == first {
					a = append(a, logs[i+j])
				} else {
					b = append(b, logs[i+j])
				}
			}
		}
		effects = append(effects, math.Abs(median(a)-median(b)))
	}
	slices.Sort(effects)
	return effects[draws*95/100] * math.Sqrt(float64(side)/float64(n)), true
}
