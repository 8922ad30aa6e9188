package ask

import (
	"errors"
	"math"
	"strings"
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

func TestReverse(t *testing.T) {
	s := base(t)
	s.Limit = 0.6
	s.Load = ttft.Load{Rate: 1, Requests: 4000, Input: 8000, Output: 20}
	l := given(t, 10e9)
	rate, p, err := MaxRate(s, l, P99)
	if err != nil {
		t.Fatal(err)
	}
	if v := *p.Result.TTFT.P99; v > 0.6 {
		t.Errorf("at the largest rate p99 is %g", v)
	}
	over := s.Under(rate*1.03, 0)
	if q, err := ttft.Project(over, l); err != nil || q.Unserviceable == nil && *q.Result.TTFT.P99 <= 0.6 {
		t.Errorf("3 %% above the largest rate the limit still holds (%v)", err)
	}
	t.Logf("largest rate within 600 ms at p99: %.3f requests/s", rate)

	// A request alone: the bandwidth is bytes over what the limit leaves.
	one := base(t)
	one.Limit = 0.5
	need, err := NeededBandwidth(one, l, P50)
	if err != nil {
		t.Fatal(err)
	}
	bytes := 8000.0 * 131072
	want := bytes / (0.5 - 0.41 - 1e-4)
	if f := need.Factor * 10e9; math.Abs(f/want-1) > 0.011 {
		t.Errorf("needs %g bytes/s, want %g", f, want)
	}
	if need.NICs != 2 {
		t.Errorf("%d NICs of 10 GB/s, want 2", need.NICs)
	}
	one.Limit = 0.4 // prefill alone takes that
	if _, err := NeededBandwidth(one, l, P50); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want ErrUnreachable", err)
	}
	if _, _, err := MaxRate(one, l, P50); !errors.Is(err, ErrUnreachable) {
		t.Errorf("error %v, want ErrUnreachable", err)
	}

	users := base(t)
	users.Limit = 2
	users.Load.Requests = 400
	n, p, err := MaxConcurrency(users, l, P99)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("most users within 2 s at p99: %d (%.2f s)", n, *p.Result.TTFT.P99)
	if n < 3 || n > 6 { // 0.4 s of prefill each
		t.Errorf("%d users", n)
	}

	load := base(t)
	load.Limit = 1
	load.Load = ttft.Load{Rate: 8, Requests: 4000, Input: 8000, Output: 20}
	w, err := NeededWorkers(load, l, P99)
	if err != nil {
		t.Fatal(err)
	}
	if w.Prefill < 4 || w.Prefill > 8 { // 8/s x 0.4 s = 3.2 busy
		t.Errorf("%d prefill workers for 3.2 of work", w.Prefill)
	}
	agg := 0.5
	b, err := BreakEvenWith(base(t), l, Aggregated{P50: &agg})
	if err != nil {
		t.Fatal(err)
	}
	if b.At == nil || math.Abs(b.At.Factor*10e9/want-1) > 0.011 || math.Abs(*b.AddedP50-(0.41+1e-4+bytes/10e9-0.5)) > 1e-9 {
		t.Errorf("break-even %+v", b)
	}
}

// Two links cross where latency and bandwidth balance.
func TestCrossings(t *testing.T) {
	s := base(t)
	near, err := link.Given("near", link.Spec{Low: 1e9, High: 1e9, Latency: 0})
	if err != nil {
		t.Fatal(err)
	}
	wide, err := link.Given("wide", link.Spec{Low: 10e9, High: 10e9, Latency: 0.1})
	if err != nil {
		t.Fatal(err)
	}
	list, err := Crossings(s, near, wide, 16, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	// n x 131072 (1/1e9 - 1/1e10) = 0.1 at 847.8 tokens, by blocks of 16: 848.
	if len(list) != 1 || list[0].Tokens < 832 || list[0].Tokens > 864 || !strings.HasPrefix(list[0].Faster, "wide") {
		t.Errorf("crossings %+v, want one near 848 tokens", list)
	}
	if list, err := Crossings(s, near, near, 16, 100_000); err != nil || len(list) != 0 {
		t.Errorf("a link crosses itself: %v %v", list, err)
	}
}
