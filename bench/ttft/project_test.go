package ttft

import (
	"errors"
	"math"
	"strings"
	"testing"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/prefill"
	"hopbench/bench/ttft/sim"
)

// base is a small deployment of Llama-3.1-8B: 131072 B a token, TP1.
func base(t testing.TB) *Scenario {
	t.Helper()
	vllm, err := engine.Find("vllm-nixl")
	if err != nil {
		t.Fatal(err)
	}
	vllm.Handover = 0
	p, err := prefill.Rate(20_000, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &Scenario{
		Model: model(t, "meta-llama/Meta-Llama-3.1-8B"), Engine: vllm, Prefill: p, PrefillWorkers: 1, DecodeWorkers: 1, Budget: 8192, DecodeBatch: 256,
		Layout: kvcache.Options{BlockTokens: 16, Placement: kvcache.Split},
		Step:   Step{Base: 0.01, Provenance: "given"},
		Load:   Load{Concurrency: 1, Requests: 1, Input: 8000, Output: 20}, Seed: 1, Strict: true,
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

func TestAloneIsTheSum(t *testing.T) {
	p, err := Project(base(t), given(t, 10e9))
	if err != nil {
		t.Fatal(err)
	}
	want := sim.Parts{Prefill: 0.4, Transfer: 1e-4 + 8000*131072/10e9, FirstDecode: 0.01}
	if got := *p.Result.TTFT.P50; math.Abs(got-want.Sum()) > 1e-12 {
		t.Errorf("TTFT %.15g, want %.15g", got, want.Sum())
	}
	if p.Request.Descriptors != 32000 || p.Request.PieceBytes != 32768 || p.Request.WireBytes != 8000*131072 {
		t.Errorf("request %+v", p.Request)
	}
}

// 70B in bulk: prefill TP2 to decode TP8 takes four times TP8 to TP8 on equal
// NICs, for two prefill NICs carry what eight did.
func TestUnequalSides(t *testing.T) {
	s := base(t)
	s.Model = model(t, "meta-llama/Meta-Llama-3.1-70B")
	s.Layout = tp8
	l := given(t, 25e9)
	equal, err := Project(s, l)
	if err != nil {
		t.Fatal(err)
	}
	c := *s
	c.Layout.Prefill.TP = 2
	two, err := Project(&c, l)
	if err != nil {
		t.Fatal(err)
	}
	a, b := equal.Request.Seconds-1e-4, two.Request.Seconds-1e-4
	if math.Abs(b/a-4) > 1e-9 {
		t.Errorf("TP2 to TP8 takes %.3g times TP8 to TP8, want 4", b/a)
	}
	if r := two.Result.Transfer.P50; math.Abs(*r-two.Request.Seconds) > 1e-9 {
		t.Errorf("simulated alone %g s, want %g", *r, two.Request.Seconds)
	}
}

func TestIntervalsAreCarried(t *testing.T) {
	l, err := link.Given("range", link.Spec{Low: 1e9, High: 4e9})
	if err != nil {
		t.Fatal(err)
	}
	p, err := Project(base(t), l)
	if err != nil {
		t.Fatal(err)
	}
	if p.Fast == nil || p.Slow == nil {
		t.Fatal("no interval")
	}
	bytes := 8000.0 * 131072
	for _, c := range []struct{ got, want float64 }{
		{*p.Fast.TTFT.P50, 0.41 + bytes/4e9}, {*p.Result.TTFT.P50, 0.41 + bytes/2e9}, {*p.Slow.TTFT.P50, 0.41 + bytes/1e9},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("TTFT %g, want %g", c.got, c.want)
		}
	}
}

func TestWhatWasNotMeasured(t *testing.T) {
	c, err := curve.New(curve.Origin{Label: "measured", Operation: "read", Provenance: "measured"}, []curve.Point{
		{PieceBytes: 4096, Descriptors: 1, Parallel: 1, Seconds: 1e-6, Rate: true},
		{PieceBytes: 16384, Descriptors: 1, Parallel: 1, Seconds: 3e-6, Rate: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := link.Measured(c)
	s := base(t) // pieces of 32 KiB
	var out *curve.Outside
	if _, err := Project(s, l); !errors.As(err, &out) {
		t.Fatalf("error %v, want Outside", err)
	}
	s.Strict = false
	p, err := Project(s, l)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(p.Warnings, "\n"), "extrapolated: pieces of 32768") {
		t.Errorf("warnings %q", p.Warnings)
	}
	push, err := engine.Find("vllm-nixl-push")
	if err != nil {
		t.Fatal(err)
	}
	s.Engine = push
	if _, err := Project(s, l); err == nil || !strings.Contains(err.Error(), "measured with read") {
		t.Errorf("error %v: a pull's times serve a push", err)
	}
}

func TestSensitivityRanks(t *testing.T) {
	s := base(t)
	s.Layout = kvcache.Options{BlockTokens: 16, Placement: kvcache.Split}
	s.Load = Load{Rate: 1.5, Requests: 3000, Input: 8000, Output: 100}
	l, err := link.Given("link", link.Spec{Low: 10e9, High: 10e9, PerDescriptor: 5e-6})
	if err != nil {
		t.Fatal(err)
	}
	base, effects, err := Sensitivity(s, l)
	if err != nil {
		t.Fatal(err)
	}
	if len(effects) != len(sim.Mechanisms())+1 {
		t.Errorf("%d effects", len(effects))
	}
	for i, e := range effects {
		t.Logf("%-13s adds %+.4f to p50, %+.4f to p99", e.Mechanism, *e.AddedP50, *e.AddedP99)
		if i > 0 && e.size() > effects[i-1].size() {
			t.Error("not ranked")
		}
		if e.Mechanism == "descriptors" && math.Abs(*e.AddedP50-0.16) > 0.08 {
			t.Errorf("32000 pieces of 5 us add %g s", *e.AddedP50)
		}
	}
	if base.Result.TTFT.P99 == nil {
		t.Error("no base")
	}
}

func TestLoadWithoutEnd(t *testing.T) {
	s := base(t)
	s.Load = Load{Rate: 3, Requests: 5000, Input: 8000, Output: 20} // 1.2 of prefill
	p, err := Project(s, given(t, 10e9))
	if err != nil {
		t.Fatal(err)
	}
	if p.Unserviceable == nil || p.Unserviceable.Part != "prefill" || math.Abs(p.Unserviceable.Utilisation-1.2) > 0.06 {
		t.Fatalf("unserviceable %+v, want prefill at about 1.2", p.Unserviceable)
	}
	if p.Result.TTFT.P50 != nil {
		t.Error("a TTFT is given all the same")
	}
}

func TestLayerwiseAndChunked(t *testing.T) {
	sglang, err := engine.Find("sglang")
	if err != nil {
		t.Fatal(err)
	}
	s := base(t)
	s.Engine = sglang
	s.Budget = 2000
	l := given(t, 10e9)
	get := func(o sim.Overlap) float64 {
		c := *s
		c.Overlap = o
		p, err := Project(&c, l)
		if err != nil {
			t.Fatal(err)
		}
		return p.Result.Mean.Transfer
	}
	serial, chunked, layers := get(sim.Serial), get(sim.Chunked), get(sim.Layerwise)
	t.Logf("exposed: serial %.4f, chunked %.4f, layer-wise %.4f s", serial, chunked, layers)
	if !(layers < chunked && chunked < serial) || math.Abs(chunked-(1e-4+2000*131072/10e9)) > 1e-9 {
		t.Errorf("serial %g, chunked %g, layer-wise %g", serial, chunked, layers)
	}
}

func TestBadScenarios(t *testing.T) {
	l := given(t, 10e9)
	for want, change := range map[string]func(*Scenario){
		"prompt of 0 tokens":          func(s *Scenario) { s.Load.Input = 0 },
		"prompt of 1000000000 tokens": func(s *Scenario) { s.Load.Input = 1_000_000_000 },
		"output of 0":                 func(s *Scenario) { s.Load.Output = 0 },
		"a rate or a concurrency":     func(s *Scenario) { s.Load.Rate = 1 },
		"needs a rate":                func(s *Scenario) { s.Load.Concurrency = 0 },
		"0 requests":                  func(s *Scenario) { s.Load.Requests = 0 },
		"decode step of 0":            func(s *Scenario) { s.Step.Base = 0 },
		"no prefill time":             func(s *Scenario) { s.Prefill = nil },
		"no model":                    func(s *Scenario) { s.Model = nil },
		"it needs an engine that":     func(s *Scenario) { s.Overlap = sim.Chunked },
		"spread of ranks":             func(s *Scenario) { nan := math.NaN(); s.RankSigma = &nan },
		"does not fit prefill's":      func(s *Scenario) { s.PrefillPool = 100 },
	} {
		s := base(t)
		change(s)
		if _, err := Project(s, l); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// With a few requests a faster link can give a higher median: the moment within a decode step counts for more. The interval holds
// the value all the same, since it is the range over the link's interval, and says so.
func TestIntervalHoldsItsValue(t *testing.T) {
	crossed := false
	for requests := 3; requests < 12; requests++ {
		for _, l := range []link.Spec{{Low: 25e9, High: 50e9}, {Low: 12.5e9, High: 25e9}, {Low: 1e9, High: 4e9}} {
			s := base(t)
			s.Step.Base = 0.02
			s.Load = Load{Rate: 1, Requests: requests, Input: 8000, Output: 128}
			over, err := link.Given("range", l)
			if err != nil {
				t.Fatal(err)
			}
			p, err := Project(s, over)
			if err != nil {
				t.Fatal(err)
			}
			v := *p.Result.TTFT.P50
			if p.P50 == nil || p.P50.High == nil || *p.P50.Low > v || v > *p.P50.High {
				t.Errorf("%d requests over %+v: %g is outside %+v", requests, l, v, p.P50)
			}
			if *p.Fast.TTFT.P50 > v || *p.Slow.TTFT.P50 < v {
				crossed = true
				if !strings.Contains(strings.Join(p.Warnings, "\n"), "does not follow the link's speed") {
					t.Errorf("%d requests over %+v: nothing says that the ends cross: %q", requests, l, p.Warnings)
				}
			}
		}
	}
	if !crossed {
		t.Error("no case in which the ends do not bound the middle: this test shows nothing")
	}
}
