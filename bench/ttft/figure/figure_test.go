package figure

import (
	"math"
	"testing"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/prefill"
)

// base is a small deployment of Llama-3.1-8B: 131072 B a token, TP1.
func base(t testing.TB) *ttft.Scenario {
	t.Helper()
	m, err := kvcache.Load("meta-llama/Meta-Llama-3.1-8B", kvcache.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	vllm, err := engine.Find("vllm-nixl")
	if err != nil {
		t.Fatal(err)
	}
	vllm.Handover = 0
	p, err := prefill.Rate(20_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &ttft.Scenario{
		Model: m, Engine: vllm, Prefill: p, PrefillWorkers: 1, DecodeWorkers: 1, Budget: 8192, DecodeBatch: 256,
		Layout: kvcache.Options{BlockTokens: 16, Placement: kvcache.Split},
		Step:   ttft.Step{Base: 0.01, Provenance: "given"},
		Load:   ttft.Load{Concurrency: 1, Requests: 1, Input: 8000, Output: 20}, Seed: 1, Strict: true,
	}
}

func given(t testing.TB, rate float64) *link.Link {
	t.Helper()
	l, err := link.Given("link", link.Spec{Low: rate, High: rate, Latency: 1e-4})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A series against load ends where the load can no longer be served; one
// against length is bytes over bandwidth and the rest.
func TestSeries(t *testing.T) {
	s := base(t)
	s.Load = ttft.Load{Rate: 3, Requests: 5000, Input: 8000, Output: 20} // 1.2 of prefill
	series, err := AgainstLoad(s, given(t, 10e9), []float64{0.5, 1, 2, 3, 4})
	if err != nil {
		t.Fatal(err)
	}
	if len(series.Points) != 3 || series.Asymptote == nil || *series.Asymptote != 3 {
		t.Errorf("series %+v, want three points and an end at 3", series)
	}
	lengths, err := AgainstLength(s, given(t, 10e9), []int{1600, 16000})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range lengths.Points {
		if want := p.X/20_000 + 1e-4 + p.X*131072/10e9 + 0.01; math.Abs(p.TTFT-want) > 1e-9 {
			t.Errorf("%g tokens: %g s, want %g", p.X, p.TTFT, want)
		}
	}
}

// Stacks add up to about their quantile, and what cannot be served has none.
func TestStacks(t *testing.T) {
	s := base(t)
	s.Load = ttft.Load{Rate: 1, Requests: 3000, Input: 8000, Output: 20}
	good, err := ttft.Project(s, given(t, 10e9))
	if err != nil {
		t.Fatal(err)
	}
	bad, err := ttft.Project(s.Under(5, 0), given(t, 10e9))
	if err != nil {
		t.Fatal(err)
	}
	stacks := Stacks([]*ttft.Projection{good, bad})
	if len(stacks) != 2 || stacks[0].Which != "median" || stacks[1].Which != "p99" {
		t.Fatalf("stacks %+v", stacks)
	}
	if got, want := stacks[0].TTFT, *good.Result.TTFT.P50; math.Abs(got/want-1) > 0.05 {
		t.Errorf("median stack of %g s, p50 is %g", got, want)
	}
}

// Of a request alone the rates are loads all the same: it is as many requests as carry a p99, and the line rises until it ends.
func TestAgainstLoadOfARequestAlone(t *testing.T) {
	s := base(t)
	s.Load = ttft.Load{Concurrency: 1, Requests: 1, Input: 8000, Output: 20}
	series, err := AgainstLoad(s, given(t, 10e9), []float64{0.1, 2, 50})
	if err != nil {
		t.Fatal(err)
	}
	if len(series.Points) != 2 || series.Asymptote == nil || *series.Asymptote != 50 {
		t.Fatalf("%+v", series)
	}
	if a, b := series.Points[0], series.Points[1]; b.TTFT <= a.TTFT || b.P99 == nil || *b.P99 <= b.TTFT {
		t.Errorf("no queue at 2 requests/s: %+v, %+v", a, b)
	}
}
