package sim

import (
	"errors"
	"math"
	"strings"
	"testing"

	"hopbench/bench/ttft/load"
)

// list is a load written out.
type list []load.Request

func (l *list) Next(r *load.Request) bool {
	if len(*l) == 0 {
		return false
	}
	*r, *l = (*l)[0], (*l)[1:]
	return true
}

func mustRun(t *testing.T, c Config) Result {
	t.Helper()
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if r.TTFT.Mean != nil && math.Abs(r.Mean.Sum()-*r.TTFT.Mean) > 1e-9 {
		t.Errorf("parts add up to %g, TTFT is %g", r.Mean.Sum(), *r.TTFT.Mean)
	}
	return r
}

func TestLoadThatCannotBeServed(t *testing.T) {
	for _, tc := range []struct {
		part   string
		change func(*Config)
	}{
		{"prefill", func(c *Config) { c.Prefill.Work = func(n int) float64 { return 100e-6 * float64(n) } }},
		{"prefill egress", func(c *Config) { c.Wire.Egress = []float64{1e9} }},
		{"decode ingress", func(c *Config) { c.Wire.Ingress = []float64{1e9} }},
		{"the spine", func(c *Config) { c.Wire.Spine = 1e9 }},
		{"decode", func(c *Config) { c.Decode.Batch = 2 }},
	} {
		for _, steady := range []bool{false, true} {
			c := full()
			tc.change(&c)
			c.Load, c.Steady = load.Poisson(4, 3000, load.Fixed(4000, 200), 1), steady
			r, err := Run(c)
			var u *Unserviceable
			if !errors.As(err, &u) {
				t.Errorf("%s: error %v, want unserviceable", tc.part, err)
				continue
			}
			if u.Part != tc.part || u.Utilisation < 1 {
				t.Errorf("got %s at %.2f, want %s above 1", u.Part, u.Utilisation, tc.part)
			}
			if r.TTFT.P50 != nil {
				t.Errorf("%s: a TTFT is given for a load that cannot be served", tc.part)
			}
		}
	}
}

// A pool too small for the load, with every part otherwise fast enough.
func TestPoolThatCannotServe(t *testing.T) {
	c := full()
	c.Decode.Pool = 9000 // two requests of 4200 at 1.6 s each: 1.2 a second
	c.Load = load.Poisson(2, 3000, load.Fixed(4000, 200), 1)
	_, err := Run(c)
	var u *Unserviceable
	if !errors.As(err, &u) || u.Part != "decode's KV pool" {
		t.Fatalf("error %v, want decode's KV pool to be named", err)
	}
}

func TestServiceableIsNotRefused(t *testing.T) {
	for _, rate := range []float64{1, 3, 4} { // up to 88 % of prefill
		c := full()
		c.Load, c.Steady = load.Poisson(rate, 20_000, load.Fixed(4000, 200), 9), true
		mustRun(t, c)
	}
}

func TestRequestThatFitsNoPool(t *testing.T) {
	for _, change := range []func(*Config){
		func(c *Config) { c.Prefill.Pool = 3999 },
		func(c *Config) { c.Decode.Pool = 4009 },
	} {
		c := full()
		change(&c)
		c.Load = load.Burst(1, load.Fixed(4000, 10), 1)
		if _, err := Run(c); err == nil || !strings.Contains(err.Error(), "does not fit") && !strings.Contains(err.Error(), "do not fit") {
			t.Errorf("error %v, want the pool that is too small", err)
		}
	}
}

// Ten at once over one link, transfers alone: max-min sharing of equal flows
// ends them all together, after ten times the time of one.
func TestTenShareALink(t *testing.T) {
	c := bare()
	c.Serving.Concurrent = true
	c.Wire.Demand = func(int, int) Demand { return Demand{Bytes: 1e9, Seconds: 1} }
	c.Wire.Egress = []float64{1e9}
	c.Concurrency = 10
	c.Load = load.Burst(10, load.Fixed(1, 1), 1)
	r := mustRun(t, c)
	if *r.TTFT.Min != *r.TTFT.Max || math.Abs(*r.TTFT.Max-10) > 1e-9 {
		t.Errorf("TTFT from %g to %g s, want all 10", *r.TTFT.Min, *r.TTFT.Max)
	}
	if u := *r.Utilisation.Egress; math.Abs(u-1) > 1e-9 {
		t.Errorf("egress utilisation %g, want 1", u)
	}
}

// Max-min by hand: two prefill workers, two decode workers. Flows A and B leave
// worker 0 (capacity 10), C leaves worker 1; A enters worker 0, B and C enter
// worker 1 (capacity 4 each). B and C get 2, A gets 4.
func TestMaxMin(t *testing.T) {
	f := fabric{egress: newSide([]float64{10}, 2), ingress: newSide([]float64{4}, 2), next: math.Inf(1)}
	f.start(0, 0, 0, 1, 100)
	f.start(1, 0, 1, 1, 100)
	f.start(2, 1, 1, 1, 100)
	f.divide()
	for i, want := range []float64{4, 2, 2} {
		if f.flows[i].rate != want {
			t.Errorf("flow %d has %g, want %g", i, f.flows[i].rate, want)
		}
	}
	f.flows[1].limit = 0.5 // what B leaves, C may have
	f.divide()
	for i, want := range []float64{4, 0.5, 3.5} {
		if f.flows[i].rate != want {
			t.Errorf("limited flow %d has %g, want %g", i, f.flows[i].rate, want)
		}
	}
	f.spine = 6
	f.divide()
	for i, want := range []float64{2.75, 0.5, 2.75} {
		if math.Abs(f.flows[i].rate-want) > 1e-12 {
			t.Errorf("under a spine flow %d has %g, want %g", i, f.flows[i].rate, want)
		}
	}
}

// A capacity that depends on how many share it.
func TestCapacityByNumber(t *testing.T) {
	c := bare()
	c.Serving.Concurrent = true
	c.Wire.Demand = func(int, int) Demand { return Demand{Bytes: 1e9, Seconds: 1} }
	c.Wire.Egress = []float64{1e9, 1.5e9} // two streams get more than one
	c.Concurrency = 2
	c.Load = load.Burst(2, load.Fixed(1, 1), 1)
	if r := mustRun(t, c); math.Abs(*r.TTFT.Max-2/1.5) > 1e-9 {
		t.Errorf("two at once took %g s, want %g", *r.TTFT.Max, 2/1.5)
	}
}

// Prefill's blocks are held until the transfer ends: with room for one prompt
// the second waits for the first one's transfer, not only for its prefill.
func TestPrefillHoldsBlocks(t *testing.T) {
	c := bare()
	c.Prefill.Work = func(n int) float64 { return float64(n) }
	c.Prefill.Pool = 1
	c.Wire.Demand = func(int, int) Demand { return Demand{Bytes: 5, Seconds: 5} }
	c.Load = load.Burst(2, load.Fixed(1, 1), 1)
	if r := mustRun(t, c); math.Abs(*r.TTFT.Max-12) > 1e-9 {
		t.Errorf("second request after %g s, want 1+5 of the first and 6 of its own", *r.TTFT.Max)
	}
}

// Decode reserves before the transfer: with room for one request the second
// transfer waits for the first request's last token.
func TestDecodeReserves(t *testing.T) {
	c := bare()
	c.Serving.Forwarded = false
	c.Decode.Step = func(int) float64 { return 1 }
	c.Decode.Pool = 4
	c.Wire.Demand = func(int, int) Demand { return Demand{Bytes: 5, Seconds: 5} }
	c.Load = load.Burst(2, load.Fixed(1, 3), 1)
	r := mustRun(t, c)
	// First: 5 transfer + 3 steps. Second: waits 8, then 5 and its first step.
	if math.Abs(*r.TTFT.Max-14) > 1e-9 || math.Abs(r.Mean.QueueDecode-4) > 1e-9 {
		t.Errorf("second after %g s with a mean wait of %g s, want 14 and 4", *r.TTFT.Max, r.Mean.QueueDecode)
	}
}

// A pull that does not begin within the lease has nothing left to read.
func TestLeaseEnds(t *testing.T) {
	c := bare()
	c.Serving = Serving{Pull: true, Aligned: true, Lease: 3}
	c.Decode.Step = func(int) float64 { return 1 }
	c.Decode.Pool = 11
	c.Load = load.Burst(2, load.Fixed(1, 10), 1)
	r := mustRun(t, c)
	if r.Expired != 1 || r.Completed != 1 || r.TTFT.Samples != 1 {
		t.Errorf("%d expired, %d completed, %d counted; want 1 of each", r.Expired, r.Completed, r.TTFT.Samples)
	}
	if r := mustRun(t, resetLoad(c.Without(Pools))); r.Expired != 0 || r.Completed != 2 {
		t.Errorf("without pools %d expired and %d completed, want 0 and 2", r.Expired, r.Completed)
	}
}

func resetLoad(c Config) Config {
	c.Load = load.Burst(2, load.Fixed(1, 10), 1)
	return c
}

// A pull begins, and its end is seen, at the boundaries of a step of 1 s: the
// request that arrives at 0.5 starts at 1, has its bytes at 1.2, is seen at 2
// and has its token at 3.
func TestStepBoundaries(t *testing.T) {
	c := bare()
	c.Serving = Serving{Pull: true, Aligned: true}
	c.Decode.Step = func(int) float64 { return 1 }
	c.Wire.Demand = func(int, int) Demand { return Demand{Bytes: 1, Seconds: 0.2} }
	c.Warmup = 1
	c.Load = &list{{Arrival: 0, Input: 1, Output: 10}, {Arrival: 0.7, Input: 1, Output: 1}}
	r := mustRun(t, c)
	// The first joins at 0.2: boundaries are at 1.2, 2.2, 3.2.
	if math.Abs(r.Mean.Orchestration-(0.5+0.8)) > 1e-9 || math.Abs(r.Mean.FirstDecode-1) > 1e-9 {
		t.Errorf("waited %g s for boundaries and %g s for the step, want 1.3 and 1", r.Mean.Orchestration, r.Mean.FirstDecode)
	}
	c.Load = &list{{Arrival: 0, Input: 1, Output: 10}, {Arrival: 0.7, Input: 1, Output: 1}}
	if r := mustRun(t, c.Without(Alignment)); r.Mean.Orchestration > 1e-9 {
		t.Errorf("without alignment it still waits %g s", r.Mean.Orchestration)
	}
}

// Prefixes: the second prompt shares three of four blocks with the first.
func TestPrefixCaches(t *testing.T) {
	base := func() Config {
		c := bare()
		c.Prefill.Work = func(n int) float64 { return float64(n) }
		c.Wire.Demand = func(from, to int) Demand {
			b := float64(to - from)
			return Demand{Bytes: b, Seconds: b / 10}
		}
		c.Warmup = 1
		c.Load = &list{
			{Arrival: 0, Input: 40, Output: 1, Blocks: []uint64{1, 2, 3, 4}, BlockTokens: 10},
			{Arrival: 100, Input: 40, Output: 1, Blocks: []uint64{1, 2, 3, 9}, BlockTokens: 10},
		}
		return c
	}
	c := base()
	c.Prefill.Cache = 100
	if r := mustRun(t, c); math.Abs(r.Mean.Prefill-10) > 1e-9 || math.Abs(r.Mean.Transfer-4) > 1e-9 {
		t.Errorf("prefill %g and transfer %g, want 10 (one block) and 4 (all four cross)", r.Mean.Prefill, r.Mean.Transfer)
	}
	c = base()
	c.Prefill.Cache, c.Decode.Cache = 100, 100
	if r := mustRun(t, c); math.Abs(r.Mean.Transfer-1) > 1e-9 || r.HeldTokens != 30 {
		t.Errorf("transfer %g with %d tokens held, want 1 and 30: decode holds three blocks", r.Mean.Transfer, r.HeldTokens)
	}
	c = base()
	c.Prefill.Cache = 3 // the end of a prefix is forgotten first
	if r := mustRun(t, c); math.Abs(r.Mean.Prefill-10) > 1e-9 {
		t.Errorf("prefill %g with room for three blocks, want 10", r.Mean.Prefill)
	}
	c = base()
	c.Prefill.Cache = 100
	if r := mustRun(t, c.Without(PrefixCache)); math.Abs(r.Mean.Prefill-40) > 1e-9 {
		t.Errorf("prefill %g with the cache off, want 40", r.Mean.Prefill)
	}
}

// A closed loop keeps its users busy: with one user there is no queue.
func TestClosedLoop(t *testing.T) {
	c := full()
	c.Concurrency = 1
	c.Load = load.Burst(200, load.Fixed(4000, 10), 1)
	r := mustRun(t, c)
	if r.Completed != 200 || *r.Queue.Max > 1e-9 || *r.TTFT.Max-*r.TTFT.Min > 1e-9 {
		t.Errorf("%d completed, queue %g, TTFT %g to %g", r.Completed, *r.Queue.Max, *r.TTFT.Min, *r.TTFT.Max)
	}
	c.Concurrency = 40
	c.Load = load.Burst(2000, load.Fixed(4000, 10), 1)
	if r := mustRun(t, c); *r.Utilisation.Prefill < 0.95 {
		t.Errorf("40 users keep prefill busy %g of the time", *r.Utilisation.Prefill)
	}
}

// Small prompts share an iteration and its floor.
func TestBatchShareFloor(t *testing.T) {
	c := bare()
	c.Prefill.Floor, c.Prefill.Work = 1, func(n int) float64 { return 0.01 * float64(n) }
	c.Load = load.Burst(11, load.Fixed(10, 1), 1)
	if r := mustRun(t, c); math.Abs(*r.TTFT.Max-(1.1+2.0)) > 1e-9 {
		t.Errorf("last of eleven after %g s, want 1.1 for the first and 2 for ten at once", *r.TTFT.Max)
	}
	c.Load = load.Burst(11, load.Fixed(10, 1), 1)
	if r := mustRun(t, c.Without(Batching)); math.Abs(*r.TTFT.Max-11*1.1) > 1e-9 {
		t.Errorf("one at a time the last is after %g s, want %g", *r.TTFT.Max, 11*1.1)
	}
}

func TestQuantilesNeedSamples(t *testing.T) {
	for n, want := range map[int][2]bool{5: {false, false}, 10: {true, false}, 99: {true, false}, 100: {true, true}} {
		c := full()
		c.Load = load.Poisson(1, n, load.Fixed(1000, 5), 1)
		r := mustRun(t, c)
		if (r.TTFT.P90 != nil) != want[0] || (r.TTFT.P99 != nil) != want[1] || (r.Tail != nil) != want[1] {
			t.Errorf("%d samples: p90 %v, p99 %v, tail %v", n, r.TTFT.P90 != nil, r.TTFT.P99 != nil, r.Tail != nil)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no load":           func(c *Config) { c.Load = nil },
		"prefill workers 0": func(c *Config) { c.Prefill.Workers = 0 },
		"decode workers -1": func(c *Config) { c.Decode.Workers = -1 },
		"need a push":       func(c *Config) { c.Serving.Overlap, c.Serving.Pull = Chunked, true },
		"layers 0": func(c *Config) {
			c.Serving.Overlap, c.Serving.Pull, c.Serving.Concurrent, c.Serving.Layers = Layerwise, false, true, 0
		},
		"request 0 has 0 prompt":             func(c *Config) { c.Load = load.Burst(1, load.Fixed(0, 1), 1) },
		"request 0 has -3 prompt":            func(c *Config) { c.Load = load.Burst(1, load.Fixed(-3, 1), 1) },
		"needs a decode worker from arrival": func(c *Config) { c.Serving.Overlap, c.Serving.Pull, c.Serving.Concurrent = Chunked, false, false },
	} {
		c := full()
		c.Load = load.Burst(1, load.Fixed(10, 1), 1)
		change(&c)
		if _, err := Run(c); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v, want %q in it", err, name)
		}
	}
}
