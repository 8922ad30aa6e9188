package compare

import (
	"math"
	"math/bits"
	"slices"

	"golang.org/x/perf/benchmath"
)

// A point is one sample of a cell in the order of time. What is tested is the logarithm of the
// value, so that a ratio is a difference.
type point struct {
	log   float64
	isNew bool
}

// exactLimit is the number of samples up to which the null distribution of a blocked test is
// counted out; above it the normal approximation is used, with the exact mean and variance. At
// 200 samples the two agree to three digits of p.
const exactLimit = 200

// blockLimit is the largest block of an interleaved order. A B B A gives blocks of four; six and eight
// come about where a round of one side is missing.
const blockLimit = 8

// blocks cuts an order of samples into the shortest balanced pieces of at least four:
// A B B A B A A B gives two of four. It returns nil where the order does not alternate
// closely enough, as in A A A A B B B B, for then nothing separates a difference of the builds from a
// drift of the machine.
func blocks(sides []bool) []int {
	var ends []int
	start, balance := 0, 0
	for i, isNew := range sides {
		if isNew {
			balance++
		} else {
			balance--
		}
		if balance == 0 && i+1-start >= 4 {
			ends = append(ends, i+1)
			start = i + 1
		}
	}
	if start < len(sides) { // what is left over joins the last block
		if len(ends) == 0 {
			return nil
		}
		ends[len(ends)-1] = len(sides)
	}
	start = 0
	for _, end := range ends {
		if end-start > blockLimit {
			return nil
		}
		start = end
	}
	if len(ends) < 2 {
		return nil
	}
	return ends
}

// scoreSum compares the sides within interleaved blocks: every sample gets a score by its rank among all, and the null distribution is that of
// relabelling inside each block, exactly. A drift or a phase of the machine that is slower than a block makes no verdict.
//
// The scores are Savage's (1956), growing towards the fast side: what disturbs a machine only ever slows it, in bursts that may last for some rounds, so
// what a build can do shows in its fast rounds, and slow ones say little. On steady noise this finds about what Mann-Whitney's test finds, and on
// bursts far more (POWER.md, on recorded noise). fast says that great values are the fast ones. shift is taken off the new side first. It returns
// P(T <= t) and P(T >= t), where a great T is a faster new side.
func scoreSum(points []point, ends []int, shift float64, fast bool) (lower, upper float64) {
	n := len(points)
	values := make([]float64, n)
	for i, p := range points {
		v := p.log
		if p.isNew {
			v -= shift
		}
		if !fast {
			v = -v
		}
		values[i] = v
	}
	scores := savage(doubleRanks(values))
	t := 0
	for i, p := range points {
		if p.isNew {
			t += scores[i]
		}
	}
	if n > exactLimit {
		return normalTails(points, ends, scores, t)
	}
	return exactTails(points, ends, scores, t)
}

// savage gives each sample the expected value of its rank's exponential order statistic, as an integer: the greatest of n has the sum of 1/n to 1/1.
// Samples alike share the middle of their ranks.
func savage(doubled []int) []int {
	n := len(doubled)
	expected := make([]float64, n+1) // by rank
	for r := 1; r <= n; r++ {
		expected[r] = expected[r-1] + 1/float64(n-r+1)
	}
	scores := make([]int, n)
	for i, d := range doubled {
		scores[i] = int(math.Round(float64(n) * (expected[d/2] + expected[(d+1)/2]) / 2))
	}
	return scores
}

// doubleRanks gives each value twice its mid-rank, an integer.
func doubleRanks(v []float64) []int {
	order := make([]int, len(v))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		switch {
		case v[a] < v[b]:
			return -1
		case v[a] > v[b]:
			return 1
		}
		return 0
	})
	ranks := make([]int, len(v))
	for i := 0; i < len(order); {
		j := i + 1
		for j < len(order) && v[order[j]]-v[order[i]] <= 1e-12*math.Max(1, math.Abs(v[order[i]])) {
			j++ // alike to rounding: the alignment must not break a tie by its last bit
		}
		for k := i; k < j; k++ {
			ranks[order[k]] = i + 1 + j // twice the mean of i+1 .. j
		}
		i = j
	}
	return ranks
}

// exactTails counts out every relabelling inside the blocks. ranks are whatever scores the samples have.
func exactTails(points []point, ends []int, ranks []int, t int) (lower, upper float64) {
	total := 0
	for _, r := range ranks {
		total += r
	}
	buf := make([]float64, 2*(total+1))
	dist, next := buf[:total+1], buf[total+1:]
	dist[0] = 1
	start, low, high := 0, 0, 0 // the sums so far lie in [low, high]
	for _, end := range ends {
		picked := 0
		for i := start; i < end; i++ {
			if points[i].isNew {
				picked++
			}
		}
		if end-start > blockLimit { // one block over many samples
			sums := subsetSums(ranks[start:end], picked)
			next = next[:0]
			next = append(next, make([]float64, total+1)...)
			for i, w := range sums {
				if w == 0 {
					continue
				}
				for j := low; j <= high && i+j <= total; j++ {
					next[i+j] += w * dist[j]
				}
			}
			low, high = 0, total
		} else {
			var chosen [70]int // C(8, 4)
			sums := chooseSums(chosen[:0], ranks[start:end], picked)
			weight := 1 / float64(len(sums))
			least, most := slices.Min(sums), slices.Max(sums)
			clear(next[low+least : high+most+1])
			for _, i := range sums {
				for j := low; j <= high; j++ {
					next[i+j] += weight * dist[j]
				}
			}
			low, high = low+least, high+most
		}
		dist, next = next, dist
		start = end
	}
	for s := low; s <= high; s++ {
		if s <= t {
			lower += dist[s]
		}
		if s >= t {
			upper += dist[s]
		}
	}
	return math.Min(1, lower), math.Min(1, upper)
}

// chooseSums appends the sum of every subset of the given size.
func chooseSums(out []int, values []int, size int) []int {
	for mask := range 1 << len(values) {
		if bits.OnesCount(uint(mask)) != size {
			continue
		}
		sum := 0
		for i, v := range values {
			if mask&(1<<i) != 0 {
				sum += v
			}
		}
		out = append(out, sum)
	}
	return out
}

// subsetSums gives the share of the subsets of the given size that have each sum.
func subsetSums(values []int, size int) []float64 {
	total := 0
	for _, v := range values {
		total += v
	}
	table := make([][]float64, size+1)
	for i := range table {
		table[i] = make([]float64, total+1)
	}
	table[0][0] = 1
	for seen, v := range values {
		for k := min(size, seen+1); k >= 1; k-- {
			for s := total; s >= v; s-- {
				table[k][s] += table[k-1][s-v]
			}
		}
	}
	all := binomial(len(values), size)
	for s := range table[size] {
		table[size][s] /= all
	}
	return table[size]
}

func normalTails(points []point, ends []int, ranks []int, t int) (lower, upper float64) {
	var mean, variance float64
	start := 0
	for _, end := range ends {
		k, picked := float64(end-start), 0.0
		var sum, squares float64
		for i := start; i < end; i++ {
			r := float64(ranks[i])
			sum += r
			squares += r * r
			if points[i].isNew {
				picked++
			}
		}
		m := sum / k
		mean += picked * m
		if k > 1 {
			variance += picked * (k - picked) / (k * (k - 1)) * (squares - k*m*m)
		}
		start = end
	}
	if variance <= 0 {
		return 1, 1
	}
	sd := math.Sqrt(variance)
	d := float64(t) - mean
	return normalCDF((d + 0.5) / sd), normalCDF((0.5 - d) / sd)
}

// test is the two-sided p of "the two sides are alike": within blocks where the order
// interleaves, else the plain Mann-Whitney test of benchmath. fast says that great values are the fast ones.
func test(points []point, ends []int, fast bool) float64 {
	if ends != nil {
		lower, upper := scoreSum(points, ends, 0, fast)
		return math.Min(1, 2*math.Min(lower, upper))
	}
	oldLogs, newLogs := split(points)
	c := benchmath.AssumeNothing.Compare(
		benchmath.NewSample(oldLogs, &benchmath.DefaultThresholds),
		benchmath.NewSample(newLogs, &benchmath.DefaultThresholds))
	if math.IsNaN(c.P) {
		return 1 // every sample of both sides is the same
	}
	return c.P
}

// leastP is the smallest p that the test can give with these numbers of samples.
func leastP(points []point, ends []int) float64 {
	if ends == nil {
		a, b := 0, 0
		for _, p := range points {
			if p.isNew {
				b++
			} else {
				a++
			}
		}
		if a == 0 || b == 0 {
			return 1
		}
		return math.Min(1, 2/binomial(a+b, a))
	}
	least, start := 2.0, 0
	for _, end := range ends {
		picked := 0
		for i := start; i < end; i++ {
			if points[i].isNew {
				picked++
			}
		}
		least /= binomial(end-start, picked)
		start = end
	}
	return math.Min(1, least)
}

// roundsNeeded is the number of rounds a side from which the test can give a p of at most
// alpha: in blocks of four, or in any order.
func roundsNeeded(alpha float64, interleaved bool) int {
	for n := 2; n < 1000; n++ {
		least := 2 / binomial(2*n, n)
		if interleaved {
			if n%2 == 1 || n < 4 {
				continue
			}
			least = 2 / math.Pow(6, float64(n/2))
		}
		if least <= alpha {
			return n
		}
	}
	return 1000
}

func split(points []point) (oldLogs, newLogs []float64) {
	for _, p := range points {
		if p.isNew {
			newLogs = append(newLogs, p.log)
		} else {
			oldLogs = append(oldLogs, p.log)
		}
	}
	return oldLogs, newLogs
}

// median sorts v.
func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	slices.Sort(v)
	if h := len(v) / 2; len(v)%2 == 1 {
		return v[h]
	} else {
		return v[h-1] + (v[h]-v[h-1])/2
	}
}

func binomial(n, k int) float64 {
	r := 1.0
	for i := 1; i <= k; i++ {
		r *= float64(n-k+i) / float64(i)
	}
	return math.Round(r)
}

func normalCDF(z float64) float64 { return 0.5 * math.Erfc(-z/math.Sqrt2) }
