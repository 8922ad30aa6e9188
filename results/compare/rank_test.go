package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/perf/benchmath"
)

func order(pattern string) []bool {
	var sides []bool
	for _, c := range pattern {
		sides = append(sides, c == 'B')
	}
	return sides
}

func repeat(pattern string, n int) string {
	s := ""
	for range n {
		s += pattern
	}
	return s
}

// gateOrder is the order of a gate with the given rounds a side.
func gateOrder(rounds int) string { return repeat("ABBA", rounds/2) }

func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		order string
		want  int // 0: not interleaved
	}{
		{repeat("ABBA", 8), 8}, {repeat("AB", 16), 8}, {"ABBABAAB", 2}, {repeat("A", 16) + repeat("B", 16), 0},
		{"ABBA", 0}, {"ABBAABBAA", 2}, {"", 0}, {"A", 0}, {repeat("AAABBB", 4), 4}, {repeat("AAAAABBBBB", 4), 0},
	} {
		if got := len(blocks(order(c.order))); got != c.want {
			t.Errorf("%s: %d blocks, want %d", c.order, got, c.want)
		}
	}
}

// With ranks as scores, one block over everything is the plain Mann-Whitney test: benchmath must say the same.
func TestBlockedTestIsMannWhitneyInOneBlock(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var points []point
		var a, b, all []float64
		for i := range 12 {
			v := math.Round(random.NormFloat64()*8) / 8 // some ties
			points, all = append(points, point{v, i%2 == 1}), append(all, v)
			if i%2 == 1 {
				b = append(b, v)
			} else {
				a = append(a, v)
			}
		}
		want := benchmath.AssumeNothing.Compare(benchmath.NewSample(a, &benchmath.DefaultThresholds), benchmath.NewSample(b, &benchmath.DefaultThresholds)).P
		ranks, sum := doubleRanks(all), 0
		for i, p := range points {
			if p.isNew {
				sum += ranks[i]
			}
		}
		lower, upper := exactTails(points, []int{len(points)}, ranks, sum)
		if got := math.Min(1, 2*math.Min(lower, upper)); math.Abs(got-want) > 1e-9 {
			t.Fatalf("p %v, benchmath %v for %v against %v", got, want, a, b)
		}
	}
}

// The scores of three samples are 1/3, 1/3+1/2 and 1/3+1/2+1, times three; samples alike share.
func TestSavageScores(t *testing.T) {
	if got := savage(doubleRanks([]float64{5, 7, 6})); !slices.Equal(got, []int{1, 6, 3}) { // 1, 5.5, 2.5
		t.Errorf("%v", got)
	}
	if got := savage(doubleRanks([]float64{1, 1, 1, 1})); got[0] != got[3] {
		t.Errorf("%v", got)
	}
}

// What slows some rounds of both sides does not hide what every round of one side lost; and which way is fast decides.
func TestBurstsHideNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 8))
	sides := order(gateOrder(16))
	ends := blocks(sides)
	for _, fast := range []bool{true, false} {
		found := 0
		for range 200 {
			var points []point
			for _, isNew := range sides {
				v := 0.01 * random.NormFloat64()
				if random.IntN(5) == 0 { // a burst
					v -= 0.1 + 0.3*random.Float64()
				}
				if isNew {
					v -= 0.10
				}
				if !fast { // as seconds
					v = -v
				}
				points = append(points, point{v, isNew})
			}
			if test(points, ends, fast) <= 0.05/12 { // one of 12 cells
				found++
			}
			lo, hi, ok := interval(points, ends, 0.95, fast)
			if !ok || lo > hi {
				t.Fatalf("interval %v %v", lo, hi)
			}
		}
		t.Logf("fast is great %v: found in %d of 200", fast, found)
		if found < 160 {
			t.Errorf("fast is great %v: found in %d of 200", fast, found)
		}
	}
}

// What moves the machine more slowly than a block moves both sides.
func TestSwingsHideNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	sides := order(gateOrder(64))
	ends := blocks(sides)
	var points []point
	for i, isNew := range sides {
		v := 0.01*random.NormFloat64() + 0.2*math.Sin(float64(i)/12)
		if isNew {
			v -= 0.02
		}
		points = append(points, point{v, isNew})
	}
	p := test(points, ends, true)
	t.Logf("p %.2g", p)
	if p > 1e-4 {
		t.Errorf("2 %% in a machine that swings by 20 %%: p %v", p)
	}
}

func TestNormalTailsAgreeWithExact(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	sides := order(repeat("ABBA", 40))
	ends := blocks(sides)
	for range 20 {
		var points []point
		for _, s := range sides {
			points = append(points, point{random.NormFloat64(), s})
		}
		aligned := make([]float64, len(points))
		for i, p := range points {
			aligned[i] = p.log
		}
		ranks := doubleRanks(aligned)
		sum := 0
		for i, p := range points {
			if p.isNew {
				sum += ranks[i]
			}
		}
		l1, u1 := exactTails(points, ends, ranks, sum)
		l2, u2 := normalTails(points, ends, ranks, sum)
		if math.Abs(l1-l2) > 0.003 || math.Abs(u1-u2) > 0.003 {
			t.Errorf("exact %.4f %.4f, normal %.4f %.4f", l1, u1, l2, u2)
		}
	}
}

// All samples of a side alike, and the sides different: a difference, not "no difference".
func TestAllSamplesEqualOnEachSide(t *testing.T) {
	for _, o := range []string{repeat("ABBA", 8), repeat("A", 16) + repeat("B", 16)} {
		sides := order(o)
		var points []point
		for _, s := range sides {
			v := math.Log(115)
			if s {
				v = math.Log(79)
			}
			points = append(points, point{v, s})
		}
		ends := blocks(sides)
		p, least := test(points, ends, true), leastP(points, ends)
		if p > 1e-5 {
			t.Errorf("%s: p %v", o, p)
		}
		if ends != nil && math.Abs(p-least) > 1e-12 {
			t.Errorf("p %v, least %v", p, least)
		}
		lo, hi, ok := interval(points, ends, 0.95, true)
		if !ok || math.Abs(lo-math.Log(79./115)) > 1e-5 || math.Abs(hi-math.Log(79./115)) > 1e-5 {
			t.Errorf("interval %v %v %v", lo, hi, ok)
		}
	}
	same := []point{{1, false}, {1, true}, {1, true}, {1, false}}
	if p := test(same, nil, true); p != 1 {
		t.Errorf("all alike: p %v", p)
	}
}

func TestIntervalCovers(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for _, o := range []string{repeat("ABBA", 8), repeat("A", 16) + repeat("B", 16)} {
		sides := order(o)
		ends := blocks(sides)
		covered, trials := 0, 1000
		for range trials {
			var points []point
			for _, s := range sides {
				v := 0.03 * random.NormFloat64()
				if s {
					v += math.Log(0.9)
				}
				points = append(points, point{v, s})
			}
			lo, hi, ok := interval(points, ends, 0.95, true)
			if !ok {
				t.Fatal("no interval from 16 rounds a side")
			}
			if lo <= math.Log(0.9) && math.Log(0.9) <= hi {
				covered++
			}
			p := test(points, ends, true)
			if outside := lo > 0 || hi < 0; outside != (p <= 0.05) && math.Min(math.Abs(lo), math.Abs(hi)) > 1e-6 {
				t.Errorf("interval %v..%v beside p %v", lo, hi, p)
			}
		}
		if share := float64(covered) / float64(trials); share < 0.935 {
			t.Errorf("%s: covered %v", o[:8], share)
		}
	}
}

func TestRoundsNeeded(t *testing.T) {
	for _, c := range []struct {
		alpha       float64
		interleaved bool
		want        int
	}{{0.05, false, 4}, {0.05, true, 6}, {0.05 / 25, false, 7}, {0.05 / 25, true, 8}} {
		if got := roundsNeeded(c.alpha, c.interleaved); got != c.want {
			t.Errorf("alpha %v interleaved %v: %d, want %d", c.alpha, c.interleaved, got, c.want)
		}
	}
}

func TestHolm(t *testing.T) {
	p := []float64{0.01, 0.04, 0.03, 0.5}
	least := []float64{1e-9, 1e-9, 1e-9, 1e-9}
	got, part, family := holm(p, least, 0.05)
	for i, want := range []float64{0.04, 0.09, 0.09, 0.5} {
		if math.Abs(got[i]-want) > 1e-12 || !part[i] {
			t.Errorf("cell %d: %v, want %v", i, got[i], want)
		}
	}
	if family != 4 {
		t.Error(family)
	}
	// cells that can never be significant are not paid for
	least = []float64{1e-9, 0.1, 0.1, 0.1}
	got, part, family = holm(p, least, 0.05)
	if family != 1 || got[0] != 0.01 || got[1] != 1 || part[1] {
		t.Error(got, part, family)
	}
}

func TestDrift(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	false_, hit := 0, 0
	for range 500 {
		flat, sloped := make([]float64, 16), make([]float64, 16)
		for i := range flat {
			flat[i] = 0.02 * random.NormFloat64()
			sloped[i] = 0.02*random.NormFloat64() + 0.12*float64(i)/15
		}
		if _, found := drift(flat); found {
			false_++
		}
		if change, found := drift(sloped); found && change > 0.05 {
			hit++
		}
	}
	if false_ > 12 || hit < 480 {
		t.Errorf("found %d of 500 without drift, %d of 500 with", false_, hit)
	}
}

func TestPhaseBound(t *testing.T) {
	random := rand.New(rand.NewPCG(10, 11))
	for _, n := range []int{8, 10, 16, 32, 64, 200} {
		normal, heavy, two := 0, 0, 0
		const trials = 2000
		for range trials {
			a, b, c := make([]float64, n), make([]float64, n), make([]float64, n)
			for i := range n {
				a[i] = random.NormFloat64()
				b[i] = studentT3(random)
				c[i] = 0.02*random.NormFloat64() + 0.16*float64(i*2/n)
			}
			if _, f := phases(a); f {
				normal++
			}
			if _, f := phases(b); f {
				heavy++
			}
			if _, f := phases(c); f {
				two++
			}
		}
		t.Logf("n %d: found on normal %.3f, heavy-tailed %.3f, two levels 8 spreads apart %.3f", n, float64(normal)/trials, float64(heavy)/trials, float64(two)/trials)
		if normal > trials/50 || heavy > trials/20 || (n >= 16 && two < trials*9/10) {
			t.Errorf("n %d: %d, %d, %d of %d", n, normal, heavy, two, trials)
		}
	}
}

// studentT3 draws from Student's t with 3 degrees of freedom.
func studentT3(r *rand.Rand) float64 {
	var s float64
	for range 3 {
		z := r.NormFloat64()
		s += z * z
	}
	return r.NormFloat64() / math.Sqrt(s/3)
}
