package sim

import (
	"math"
	"runtime"
	"testing"
	"time"

	"hopbench/bench/ttft/load"
)

// bare is a deployment in which nothing costs anything: tests give it what
// they look at.
func bare() Config {
	return Config{
		Prefill: Prefill{Workers: 1, Work: func(int) float64 { return 0 }},
		Decode:  Decode{Workers: 1, Step: func(int) float64 { return 0 }},
		Wire:    Wire{Demand: func(int, int) Demand { return Demand{} }},
		Serving: Serving{Forwarded: true},
	}
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s = %.9g, want %.9g within %g %%", what, got, want, 100*tolerance)
	} else {
		t.Logf("%s = %.9g, closed form %.9g (%+.3f %%)", what, got, want, 100*(got/want-1))
	}
}

// One server, Poisson arrivals, constant service D: the mean wait is
// rho D / (2 (1 - rho)) (Pollaczek-Khinchine with no variance of service).
func TestWaitingOfMD1(t *testing.T) {
	for _, rho := range []float64{0.3, 0.5, 0.7} {
		const service = 0.1
		c := bare()
		c.Prefill.Work = func(n int) float64 { return service * float64(n) }
		c.Prefill.Prompts = 1
		c.Load = load.Poisson(rho/service, 1_000_000, load.Fixed(1, 1), 1)
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "M/D/1 wait", *r.Queue.Mean, rho*service/(2*(1-rho)), 0.01)
		near(t, "utilisation", *r.Utilisation.Prefill, rho, 0.01)
	}
}

// A link whose transfers share it equally is a processor-sharing queue: the
// mean time is S / (1 - rho), whatever the distribution of the sizes.
func TestMeanOfProcessorSharing(t *testing.T) {
	for _, ranks := range []int{0, 1} { // constant sizes, then lognormal ones
		c := bare()
		c.Serving.Concurrent = true
		const bytes, capacity, rho = 1e9, 10e9, 0.7
		c.Wire = Wire{
			Demand: func(from, to int) Demand { return Demand{Bytes: bytes, Seconds: bytes / capacity} },
			Egress: []float64{capacity}, Ranks: ranks,
		}
		mean := bytes / capacity
		if ranks > 0 {
			c.Wire.Sigma = 0.8
			mean *= math.Exp(0.8 * 0.8 / 2)
			// The slow ranks' factor stretches the request's own limit too; leave
			// it none, so that the link alone limits.
			c.Wire.Demand = func(from, to int) Demand { return Demand{Bytes: bytes} }
		}
		c.Load = load.Poisson(rho/mean, 400_000, load.Fixed(1, 1), 7)
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "processor sharing", *r.Transfer.Mean, mean/(1-rho), 0.02)
	}
}

// The request of ranks that draw independently takes the slowest: its
// distribution is F(t)^n, so its quantile q is F's at q^(1/n).
func TestForkJoin(t *testing.T) {
	const sigma = 0.5
	quantile := func(p float64) float64 { return math.Exp(sigma * math.Sqrt2 * math.Erfinv(2*p-1)) }
	for _, ranks := range []int{1, 2, 8, 64} {
		c := bare()
		c.Serving.Concurrent = true
		c.Wire = Wire{Demand: func(int, int) Demand { return Demand{Latency: 1, Seconds: 1} }, Ranks: ranks, Sigma: sigma}
		c.Wire.Demand = func(int, int) Demand { return Demand{Bytes: 1e6, Latency: 0.5, Seconds: 1} }
		c.Load = load.Poisson(10, 400_000, load.Fixed(1, 1), 3)
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "median of the slowest rank", *r.Transfer.P50, quantile(math.Pow(0.5, 1/float64(ranks))), 0.01)
		near(t, "p99 of the slowest rank", *r.Transfer.P99, quantile(math.Pow(0.99, 1/float64(ranks))), 0.02)
	}
}

// The draw at u^(1/n) against n draws and their maximum.
func TestSlowestIsTheMaximum(t *testing.T) {
	m := newMachine(Config{Prefill: Prefill{Workers: 1}, Decode: Decode{Workers: 1}, Wire: Wire{Ranks: 8, Sigma: 0.4}})
	one := newMachine(Config{Prefill: Prefill{Workers: 1}, Decode: Decode{Workers: 1}, Wire: Wire{Ranks: 1, Sigma: 0.4}, Seed: 5})
	a, b := newHistogram(), newHistogram()
	for range 200_000 {
		a.add(m.slowest())
		top := 0.0
		for range 8 {
			top = max(top, one.slowest())
		}
		b.add(top)
	}
	near(t, "mean of the maximum", a.sum/float64(a.n), b.sum/float64(b.n), 0.005)
	near(t, "p99 of the maximum", a.quantile(0.99), b.quantile(0.99), 0.02)
}

// full is a deployment in which everything costs something.
func full() Config {
	return Config{
		Prefill: Prefill{Workers: 1, Work: func(n int) float64 { return 50e-6 * float64(n) }, Floor: 0.02, Budget: 8192, Pool: 400_000},
		Decode:  Decode{Workers: 1, Step: func(n int) float64 { return 0.008 + 1e-4*float64(n) }, Batch: 256, Pool: 400_000},
		Wire: Wire{
			Demand: func(from, to int) Demand {
				b := float64(to-from) * 131072
				return Demand{Bytes: b, Latency: 1e-3, Seconds: 1e-3 + b/20e9}
			},
			Egress: []float64{25e9}, Ingress: []float64{25e9}, Spine: 100e9,
		},
		Serving: Serving{Router: 0.001, Handover: 0.002, Pull: true, Aligned: true, Layers: 32},
	}
}

// A request alone takes the sum of its parts, to the last bits of a float.
func TestOneRequestIsTheSum(t *testing.T) {
	c := full()
	c.Load = load.Burst(1, load.Fixed(4000, 10), 1)
	r, err := Run(c)
	if err != nil {
		t.Fatal(err)
	}
	want := Parts{
		Prefill:       0.02 + 4000*50e-6,
		Transfer:      1e-3 + 4000*131072/20e9,
		Orchestration: 0.001 + 0.002,
		FirstDecode:   0.008 + 1e-4,
	}
	for _, p := range []struct {
		name      string
		got, want float64
	}{
		{"queue", r.Mean.Queue, 0}, {"prefill", r.Mean.Prefill, want.Prefill}, {"transfer", r.Mean.Transfer, want.Transfer},
		{"orchestration", r.Mean.Orchestration, want.Orchestration}, {"first decode", r.Mean.FirstDecode, want.FirstDecode},
		{"TTFT", *r.TTFT.P50, want.Sum()}, {"sum of the parts", r.Mean.Sum(), *r.TTFT.Mean},
	} {
		if math.Abs(p.got-p.want) > 1e-12 {
			t.Errorf("%s = %.15g, want %.15g", p.name, p.got, p.want)
		}
	}
}

// The overlaps of a lone request, against their formulas.
func TestOverlaps(t *testing.T) {
	exposed := func(o Overlap, layers, budget, isl int, rate float64) float64 {
		c := bare()
		c.Serving = Serving{Forwarded: true, Concurrent: true, Overlap: o, Layers: layers}
		c.Prefill.Work = func(n int) float64 { return 1e-4 * float64(n) }
		c.Prefill.Budget = budget
		c.Wire.Demand = func(from, to int) Demand {
			b := float64(to-from) * 1e5
			return Demand{Bytes: b, Latency: 1e-3, Seconds: 1e-3 + b/rate}
		}
		c.Load = load.Burst(1, load.Fixed(isl, 1), 1)
		r, err := Run(c)
		if err != nil {
			t.Fatal(err)
		}
		return r.Mean.Transfer
	}
	check := func(name string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: exposed %.9g s, want %.9g", name, got, want)
		}
	}
	const isl, fast, slow = 4000, 10e9, 0.5e9
	whole := func(rate float64) float64 { return isl * 1e5 / rate }
	serial := exposed(Serial, 1, 0, isl, fast)
	check("serial", serial, 1e-3+whole(fast))
	check("chunked with one chunk is serial", exposed(Chunked, 1, 0, isl, fast), serial)
	check("layer-wise with one layer is serial", exposed(Layerwise, 1, 0, isl, fast), serial)
	check("chunked on a fast link exposes the last chunk", exposed(Chunked, 1, 1000, isl, fast), 1e-3+whole(fast)/4)
	// On a slow link it starts after the first chunk and then never idles.
	check("chunked on a slow link", exposed(Chunked, 1, 1000, isl, slow), 0.1+1e-3+whole(slow)-0.4)
	// Layer-wise exposes max(T/L, T - P(1-1/L)); its latency is hidden once the first layer is off.
	const layers = 8
	check("layer-wise on a slow link", exposed(Layerwise, layers, 0, isl, slow), 1e-3+whole(slow)-0.4*(1-1.0/layers))
	got := exposed(Layerwise, layers, 0, isl, fast)
	if low := whole(fast) / layers; got < low-1e-9 || got > low+2e-3 {
		t.Errorf("layer-wise on a fast link: exposed %g s, want the last layer's %g and at most its latency", got, low)
	}
}

// The same seed, the same result; and a million requests in bounded memory.
func TestMillionRequests(t *testing.T) {
	if testing.Short() {
		t.Skip("a million requests take some seconds")
	}
	run := func(n int) (Result, uint64, time.Duration) {
		c := full()
		c.Wire.Ranks, c.Wire.Sigma = 8, 0.2
		c.Load, c.Steady = load.Poisson(3, n, load.Fixed(4000, 200), 1), true
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		began := time.Now()
		r, err := Run(c)
		took := time.Since(began)
		if err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return r, after.TotalAlloc - before.TotalAlloc, took
	}
	small, few, _ := run(100_000)
	big, many, took := run(1_000_000)
	t.Logf("1,000,000 requests in %v, %d bytes allocated in all (%d for 100,000)", took, many, few)
	if many > few+1<<20 {
		t.Errorf("ten times the requests allocated %d bytes instead of %d: memory grows with them", many, few)
	}
	again, _, _ := run(100_000)
	if *small.TTFT.Mean != *again.TTFT.Mean || *small.TTFT.P99 != *again.TTFT.P99 {
		t.Error("the same seed gave another result")
	}
	if math.Abs(big.Mean.Sum()-*big.TTFT.Mean) > 1e-9 {
		t.Errorf("parts add up to %g, TTFT is %g", big.Mean.Sum(), *big.TTFT.Mean)
	}
}
