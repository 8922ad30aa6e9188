package stat

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func seq(n int, f func(i int) float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = f(i)
	}
	return v
}

func TestMedianOfFewRounds(t *testing.T) {
	for n := 1; n <= 5; n++ {
		i, err := Median(seq(n, func(i int) float64 { return float64(i + 1) }), Confidence)
		if err != nil || i.Low != nil || i.High != nil || i.Confidence != 0 {
			t.Errorf("n=%d: %+v, %v: bounds from fewer than six values", n, i, err)
		}
		if len(i.Warnings) == 0 || !strings.Contains(i.Warnings[0], "need") {
			t.Errorf("n=%d: no word on how many values are needed: %q", n, i.Warnings)
		}
	}
	i, err := Median([]float64{6, 1, 5, 2, 4, 3}, Confidence)
	if err != nil || i.Center != 3.5 || i.Low == nil || *i.Low != 1 || *i.High != 6 || i.Confidence < 0.95 {
		t.Errorf("n=6: %+v, %v", i, err)
	}
}

func TestMedianRefuses(t *testing.T) {
	for _, v := range [][]float64{nil, {}, {1, math.NaN()}, {math.Inf(1)}} {
		if i, err := Median(v, Confidence); err == nil {
			t.Errorf("Median(%v) = %+v, want an error", v, i)
		}
	}
	if _, err := Median([]float64{1}, 1); err == nil {
		t.Error("a confidence of 1 was taken")
	}
}

func TestMedianLeavesItsInput(t *testing.T) {
	v := []float64{3, 1, 2}
	Median(v, Confidence)
	if !slices.Equal(v, []float64{3, 1, 2}) {
		t.Errorf("the rounds were reordered: %v", v)
	}
}

// TestIntervalCovers checks the promise of the interval itself: over 2000 runs of ten values of a skewed
// distribution the true median lies inside in at least 95 %.
func TestIntervalCovers(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	hit := 0
	const runs = 2000
	for range runs {
		i, _ := Median(seq(10, func(int) float64 { return math.Exp(r.NormFloat64()) }), Confidence)
		if *i.Low <= 1 && 1 <= *i.High {
			hit++
		}
	}
	if float64(hit)/runs < 0.95 {
		t.Errorf("%d of %d intervals hold the true median", hit, runs)
	}
}

func TestConverged(t *testing.T) {
	if Converged([]float64{1, 1, 1, 1, 1}) {
		t.Error("five rounds converged")
	}
	if !Converged([]float64{1, 1, 1, 1, 1, 1}) {
		t.Error("six equal rounds did not converge")
	}
	if !Converged([]float64{1, 1.01, 0.99, 1.02, 0.98, 1}) {
		t.Error("2 % is not within 2.5 %")
	}
	if Converged([]float64{1, 1.05, 0.95, 1.03, 0.97, 1}) {
		t.Error("5 % is within 2.5 %")
	}
	if Converged(nil) || Converged([]float64{0, 0, 0, 0, 0, 0}) {
		t.Error("nothing, or zeros, converged")
	}
}

func TestPercentileRule(t *testing.T) {
	for n, want := range map[int64][3]bool{0: {}, 1: {}, 9: {}, 10: {true}, 99: {true}, 100: {true, true}, 999: {true, true}, 1000: {true, true, true}} {
		if got := [3]bool{Supports(0.9, n), Supports(0.99, n), Supports(0.999, n)}; got != want {
			t.Errorf("%d samples support p90, p99, p99.9: %v, want %v", n, got, want)
		}
	}
	if !Supports(0.5, 2) || Supports(1, 1000) || Supports(-0.1, 10) {
		t.Error("p50 of two, p100, or a negative one")
	}
}

func TestHistogramQuantiles(t *testing.T) {
	g := NewHistogram()
	for i := 1; i <= 1000; i++ {
		if err := g.Record(float64(i) * 1e-6); err != nil {
			t.Fatal(err)
		}
	}
	for q, want := range map[float64]float64{0.5: 500e-6, 0.9: 900e-6, 0.99: 990e-6, 0.999: 999e-6} {
		got, ok := g.Quantile(q)
		if !ok || math.Abs(got/want-1) > RelativeError {
			t.Errorf("q%v = %v, %v; want %v within %v", q, got, ok, want, RelativeError)
		}
	}
	if v, _ := g.Min(); v != 1e-6 {
		t.Errorf("min %v", v)
	}
	if v, _ := g.Max(); v != 1000e-6 {
		t.Errorf("max %v", v)
	}
	if v, _ := g.Mean(); math.Abs(v-500.5e-6) > 1e-12 {
		t.Errorf("mean %v", v)
	}
	want := seq(8, func(i int) float64 { return float64(1000-i) * 1e-6 })
	if got := g.Largest(); !slices.Equal(got, want) {
		t.Errorf("largest %v", got)
	}
}

// TestTenSamples holds a fault of another tool, whose median stayed 0 while its buffer was not half full.
func TestTenSamples(t *testing.T) {
	g := NewHistogram()
	for i := 1; i <= 10; i++ {
		g.Record(float64(i) * 100e-6)
	}
	if v, ok := g.Quantile(0.5); !ok || v < 100e-6 || v > 1000e-6 {
		t.Errorf("p50 of ten samples = %v, %v", v, ok)
	}
	if v, ok := g.Quantile(0.99); ok {
		t.Errorf("p99 of ten samples = %v", v)
	}
}

func TestHistogramAgainstExactRanks(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	g := NewHistogram()
	v := seq(5000, func(int) float64 { return 20e-9 * math.Exp(3*r.Float64()*r.NormFloat64()) })
	if err := g.Record(v...); err != nil {
		t.Fatal(err)
	}
	slices.Sort(v)
	for rank := int64(1); rank <= 5000; rank += 37 {
		got, _ := g.Rank(rank)
		if want := v[rank-1]; math.Abs(got-want) > want*RelativeError+HistogramUnit {
			t.Errorf("rank %d = %v, want %v", rank, got, want)
		}
	}
}

func TestHistogramRefuses(t *testing.T) {
	g := NewHistogram()
	for _, v := range []float64{-1e-9, math.NaN(), math.Inf(1), 1e9} {
		if g.Record(v) == nil {
			t.Errorf("a time of %v s was recorded", v)
		}
	}
	for _, f := range []func() (float64, bool){g.Min, g.Max, g.Mean, func() (float64, bool) { return g.Quantile(0.5) }} {
		if v, ok := f(); ok {
			t.Errorf("an empty histogram has %v", v)
		}
	}
	if g.Record(0) != nil {
		t.Error("a time under the clock's resolution was refused")
	}
}

func TestHistogramRoundTrip(t *testing.T) {
	g := NewHistogram()
	r := rand.New(rand.NewPCG(5, 6))
	for range 20000 {
		g.Record(10e-6 * (1 + r.ExpFloat64()))
	}
	text, err := g.Encode()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("20000 samples are %d bytes", len(text))
	back, err := DecodeHistogram(text)
	if err != nil || back.Count() != g.Count() {
		t.Fatalf("%v, %v", back, err)
	}
	for _, q := range []float64{0.01, 0.5, 0.99, 0.999} {
		a, _ := g.Quantile(q)
		b, ok := back.Quantile(q)
		if !ok || math.Abs(a/b-1) > 2*RelativeError {
			t.Errorf("q%v: %v before, %v after", q, a, b)
		}
	}
	var n int64
	for _, bar := range back.Bars() {
		n += bar.Count
		if bar.To < bar.From {
			t.Errorf("bar %+v", bar)
		}
	}
	if n != 20000 {
		t.Errorf("the bars hold %d samples", n)
	}
	for _, bad := range []string{"", "x", "HISTFAAA", strings.Repeat("A", maxEncoded+1), text[:len(text)/2]} {
		if _, err := DecodeHistogram(bad); err == nil {
			t.Errorf("%.20q was decoded", bad)
		}
	}
}

func FuzzDecodeHistogram(f *testing.F) {
	g := NewHistogram()
	g.Record(1e-6, 2e-6, 5e-3)
	text, _ := g.Encode()
	f.Add(text)
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		h, err := DecodeHistogram(s)
		if err != nil {
			return
		}
		for _, q := range []float64{0, 0.5, 0.99} {
			if v, ok := h.Quantile(q); ok && (math.IsNaN(v) || v < 0) {
				t.Fatalf("q%v = %v", q, v)
			}
		}
		h.Bars()
		h.Mean()
	})
}

func TestSlowestWindow(t *testing.T) {
	// A completion each millisecond, 1 MB each: 1 GB/s. A stall of 90 ms after the 50th.
	stamps := seq(100, func(i int) float64 {
		s := 5 + float64(i+1)*1e-3
		if i >= 50 {
			s += 0.09
		}
		return s
	})
	w, ok := SlowestWindow(5, stamps, 1e6, 1)
	// 16 completions, 15 of them 1 ms apart and one 91 ms: 16 MB in 106 ms.
	if !ok || math.Abs(w.BytesPerSecond-16e6/0.106) > 1 || math.Abs(w.Seconds-0.106) > 1e-9 {
		t.Errorf("%+v, %v", w, ok)
	}
	if f, ok := FastestWindow(5, stamps, 1e6, 1); !ok || math.Abs(f.BytesPerSecond-1e9) > 1e3 {
		t.Errorf("fastest %+v, %v", f, ok)
	}
	shuffled := slices.Clone(stamps)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	if again, _ := SlowestWindow(5, shuffled, 1e6, 1); again != w {
		t.Errorf("unsorted stamps give %+v", again)
	}
}

func TestSlowestWindowIsTheLongerOfBoth(t *testing.T) {
	// A completion a microsecond: 16 of them are 16 µs, so the window is 10 ms.
	fast := seq(50000, func(i int) float64 { return float64(i+1) * 1e-6 })
	w, ok := SlowestWindow(0, fast, 1000, 1)
	if !ok || w.Seconds < WindowSeconds-1e-12 || w.Seconds > WindowSeconds+2e-6 {
		t.Errorf("%+v, %v", w, ok)
	}
	if math.Abs(w.BytesPerSecond/1e9-1) > 1e-6 {
		t.Errorf("a steady stream's slowest window is %v", w.BytesPerSecond)
	}
	// One stamp for 64 completions: a single stamp already covers 16.
	if w, ok := SlowestWindow(0, seq(20, func(i int) float64 { return float64(i+1) * 0.02 }), 64000, 64); !ok || math.Abs(w.Seconds-0.02) > 1e-9 {
		t.Errorf("stamps of 64: %+v, %v", w, ok)
	}
}

func TestSlowestWindowAbsent(t *testing.T) {
	for name, ok := range map[string]bool{
		"15 completions": func() bool {
			_, ok := SlowestWindow(0, seq(15, func(i int) float64 { return float64(i + 1) }), 1, 1)
			return ok
		}(),
		"a round of 9 ms": func() bool {
			_, ok := SlowestWindow(0, seq(90, func(i int) float64 { return float64(i+1) * 1e-4 }), 1, 1)
			return ok
		}(),
		"no stamps": func() bool { _, ok := SlowestWindow(0, nil, 1, 1); return ok }(),
		"two clocks": func() bool {
			_, ok := SlowestWindow(9, seq(99, func(i int) float64 { return float64(i) }), 1, 1)
			return ok
		}(),
		"no bytes": func() bool {
			_, ok := SlowestWindow(0, seq(99, func(i int) float64 { return float64(i) }), 0, 1)
			return ok
		}(),
		"all at once": func() bool { _, ok := SlowestWindow(0, seq(99, func(i int) float64 { return 0 }), 1, 1); return ok }(),
	} {
		if ok {
			t.Errorf("%s have a slowest window", name)
		}
	}
}

func TestTrend(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	noise := func(s float64) float64 { return 1 + s*r.NormFloat64() }
	if got := FindTrend(seq(20, func(i int) float64 { return noise(0.01) * (1 - 0.01*float64(i)) })); !got.Drift || got.Change > -0.05 {
		t.Errorf("a fall of 20 %% was not found: %+v", got)
	}
	if got := FindTrend(seq(20, func(i int) float64 {
		if i%3 == 0 {
			return noise(0.005)
		}
		return 1.3 * noise(0.005)
	})); !got.Steps || len(got.Warnings()) == 0 {
		t.Errorf("two phases were not found: %+v", got)
	}
	if got := FindTrend(seq(20, func(i int) float64 { return 1 + 0.0001*float64(i) })); got.Drift {
		t.Errorf("a drift of 0.2 %% is a finding: %+v", got)
	}
	for _, v := range [][]float64{nil, {1}, {1, 2, 3}, seq(20, func(int) float64 { return 1 }), seq(20, func(int) float64 { return 0 }), {1, math.NaN(), 2, 3, 4, 5, 6, 7, 8, 9, 10}} {
		if got := FindTrend(v); got.Drift || got.Steps || got.P != 1 {
			t.Errorf("FindTrend(%v) = %+v", v, got)
		}
	}
}

// TestTrendFalseAlarms counts findings in noise that has none: at most 1 % drift by the level of the test, and
// two phases rarely.
func TestTrendFalseAlarms(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	drift, steps := 0, 0
	const runs = 2000
	for range runs {
		got := FindTrend(seq(16, func(int) float64 { return 1 + 0.1*r.NormFloat64() }))
		if got.Drift {
			drift++
		}
		if got.Steps {
			steps++
		}
	}
	t.Logf("of %d runs of plain noise: %d drift, %d steps", runs, drift, steps)
	if drift > runs*2/100 || steps > runs*1/100 {
		t.Errorf("of %d runs of plain noise: %d drift, %d steps", runs, drift, steps)
	}
}
