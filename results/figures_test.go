package results

import (
	"math"
	"strings"
	"testing"

	"hopbench/results/stat"
)

// steady is a round of n operations of the size, a stamp each, at the rate.
func steady(n int, size, rate float64) Round {
	r := Round{Bytes: float64(n) * size, Start: 100, Operations: int64(n), BytesPerStamp: size, StampEvery: 1}
	for i := range n {
		r.Stamps = append(r.Stamps, 100+float64(i+1)*size/rate)
	}
	r.End = r.Stamps[n-1]
	return r
}

func TestBandwidthOf(t *testing.T) {
	var rounds []Round
	for i := range 10 {
		rounds = append(rounds, steady(1000, 1e6, 1e9*(1+0.001*float64(i-5))))
	}
	// A stall of 100 ms in the middle of one round hides in the medians and shows in the slowest window.
	for i := 500; i < 1000; i++ {
		rounds[3].Stamps[i] += 0.1
	}
	rounds[3].End += 0.1
	b, converged, warnings, err := BandwidthOf(rounds)
	if err != nil || !converged {
		t.Fatalf("%v, converged %v", err, converged)
	}
	if math.Abs(b.BytesPerSecond/1e9-1) > 0.002 || b.Low == nil || *b.Low > b.BytesPerSecond || *b.High < b.BytesPerSecond || *b.Confidence < 0.95 {
		t.Errorf("%+v", b)
	}
	if len(b.Rounds) != 10 || len(b.RoundsSeconds) != 10 || b.RoundsOperations[0] != 1000 || math.Abs(b.Rounds[3]*b.RoundsSeconds[3]-1e9) > 1 {
		t.Errorf("rounds %v in %v", b.Rounds, b.RoundsSeconds)
	}
	// 16 completions, one of them 101 ms.
	if s := b.SlowestWindowBytesPerSecond; s == nil || math.Abs(*s-16e6/0.116) > 16e6/0.116*0.01 {
		t.Errorf("slowest window %v", s)
	}
	if len(warnings) != 0 {
		t.Errorf("warnings %q", warnings)
	}
}

// TestExactUnits holds the project's arithmetic: 10^9 bytes in one second are 10^9 bytes a second.
func TestExactUnits(t *testing.T) {
	b, converged, warnings, err := BandwidthOf([]Round{{Bytes: 1e9, Start: 5, End: 6, Operations: 1}})
	if err != nil || b.BytesPerSecond != 1e9 || converged {
		t.Errorf("%+v, %v, %v", b, converged, err)
	}
	if b.Low != nil || b.High != nil || b.Confidence != nil || b.SlowestWindowBytesPerSecond != nil {
		t.Errorf("one round has an interval or a window: %+v", b)
	}
	if len(warnings) == 0 || !strings.Contains(warnings[0], "6 samples") {
		t.Errorf("warnings %q", warnings)
	}
}

func TestFiguresRefuse(t *testing.T) {
	for name, r := range map[string][]Round{
		"none": {}, "no time": {{Bytes: 1, Start: 1, End: 1}}, "no bytes": {{End: 1}}, "time backwards": {{Bytes: 1, Start: 2, End: 1}}, "NaN": {{Bytes: math.NaN(), End: 1}},
		"endless": {{Bytes: 1, End: math.Inf(1)}},
	} {
		if b, _, _, err := BandwidthOf(r); err == nil {
			t.Errorf("%s: %+v", name, b)
		}
	}
	for name, r := range map[string][][]float64{"none": {}, "an empty round": {{1e-6}, {}}, "negative": {{-1}}, "NaN": {{math.NaN()}}} {
		if l, _, _, err := LatencyOf(r); err == nil {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestLatencyOf(t *testing.T) {
	var rounds [][]float64
	for range 10 {
		var r []float64
		for i := 1; i <= 100; i++ {
			r = append(r, float64(i)*1e-6)
		}
		rounds = append(rounds, r)
	}
	l, converged, _, err := LatencyOf(rounds)
	if err != nil || !converged || l.Samples != 1000 || len(l.RoundsP50Seconds) != 10 {
		t.Fatalf("%+v, %v, %v", l, converged, err)
	}
	for name, c := range map[string]struct {
		got  *float64
		want float64
	}{"min": {l.MinSeconds, 1e-6}, "p50": {l.P50Seconds, 50e-6}, "p90": {l.P90Seconds, 90e-6}, "p99": {l.P99Seconds, 99e-6}, "p99.9": {l.P999Seconds, 100e-6}, "max": {l.MaxSeconds, 100e-6}, "mean": {l.MeanSeconds, 50.5e-6}} {
		if c.got == nil || math.Abs(*c.got/c.want-1) > stat.RelativeError {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	h, err := l.Histogram()
	if err != nil || h.Count() != 1000 {
		t.Errorf("histogram: %v", err)
	}
	if _, err := (&Latency{}).Histogram(); err == nil {
		t.Error("a record without a distribution has one")
	}
}

// TestPercentilesAreAbsent holds that too few samples leave a percentile out, rather than 0 or the largest.
func TestPercentilesAreAbsent(t *testing.T) {
	for n, want := range map[int][3]bool{1: {}, 9: {}, 10: {true}, 99: {true}, 100: {true, true}, 999: {true, true}, 1000: {true, true, true}} {
		l, _, _, err := LatencyOf([][]float64{make([]float64, n)})
		if err != nil {
			t.Fatal(err)
		}
		if got := [3]bool{l.P90Seconds != nil, l.P99Seconds != nil, l.P999Seconds != nil}; got != want {
			t.Errorf("%d samples: p90, p99, p99.9 present: %v, want %v", n, got, want)
		}
		if l.P50Seconds == nil {
			t.Errorf("%d samples have no median", n)
		}
	}
}
