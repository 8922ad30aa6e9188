package ttft

import (
	"errors"
	"fmt"
	"math"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/load"
	"hopbench/bench/ttft/prefill"
	"hopbench/bench/ttft/sim"
)

// MaxTokens is the longest prompt that is projected. No model takes one near
// it, and far beyond, sizes no longer fit their integers.
const MaxTokens = 100_000_000

// Scenario is a deployment and a load, without the link.
type Scenario struct {
	Model  *kvcache.Model
	Layout kvcache.Options // Tokens is set for each prompt
	Engine engine.Preset

	Prefill        *prefill.Model
	PrefillWorkers int
	Budget         int // tokens of one prefill iteration; 0: no limit
	PrefillPool    int // tokens of KV of one prefill worker; 0: no limit
	PrefillCache   int // prefix cache of one prefill worker in tokens; 0: none

	Step          Step
	DecodeWorkers int
	DecodeBatch   int // most requests in a decode step; 0: no limit
	DecodePool    int // tokens of KV of one decode worker; 0: no limit
	DecodeCache   int // tokens that one decode worker keeps of earlier requests; 0: none

	Router  float64     // seconds before prefill
	Overlap sim.Overlap // of the engine's preset, or another
	Spine   float64     // bytes/s between all prefill and all decode workers; 0: no limit
	// RankSigma is the spread of the ranks' times (sigma of a lognormal). Nil: that of requests alone on the link, where it was
	// measured and a request has several ranks; else none.
	RankSigma *float64

	Load   Load
	Limit  float64 // of TTFT in seconds; 0: none
	Seed   uint64
	Strict bool // refuse what was not measured, instead of labelling it
	// Off lists mechanisms that are switched off.
	Off []sim.Mechanism
}

// Step is the time of a decode step with a batch of n: Base + n x PerRequest.
type Step struct {
	Base, PerRequest float64
	// Provenance is given or assumed.
	Provenance string
}

// Load is what arrives.
type Load struct {
	// Rate is requests a second with Poisson arrivals; or Concurrency users each
	// send the next request when the last has ended; or a Trace is replayed at
	// Speed times its pace. Exactly one.
	Rate        float64
	Concurrency int
	Trace       *load.Trace
	Speed       float64 // 0 means 1
	// Spread takes a trace's stamps off their coarse grid.
	Spread bool
	// Requests is how many are simulated; a trace has its own number.
	Requests int
	// Input and Output are the lengths in tokens of every request; or Lengths
	// draws them. A trace has its own.
	Input, Output int
	Lengths       load.Lengths
}

// Kind is poisson, concurrency or trace.
func (l *Load) Kind() string {
	switch {
	case l.Trace != nil && l.Concurrency == 0 && l.Rate == 0:
		return "trace"
	case l.Concurrency > 0:
		return "concurrency"
	}
	return "poisson"
}

func (l *Load) check() error {
	n := 0
	for _, has := range []bool{l.Rate > 0, l.Concurrency > 0} {
		if has {
			n++
		}
	}
	switch {
	case n > 1:
		return errors.New("a load has a rate or a concurrency, not both")
	case n == 0 && l.Trace == nil:
		return errors.New("a load needs a rate, a concurrency or a trace")
	case l.Rate < 0 || math.IsNaN(l.Rate) || math.IsInf(l.Rate, 0):
		return fmt.Errorf("rate %g", l.Rate)
	case l.Concurrency < 0 || l.Concurrency > 100_000:
		return fmt.Errorf("concurrency %d is outside 1 to 100000", l.Concurrency)
	case l.Speed < 0 || math.IsNaN(l.Speed) || math.IsInf(l.Speed, 0):
		return fmt.Errorf("speed %g", l.Speed)
	case n > 0 && (l.Requests < 1 || l.Requests > 1_000_000_000):
		return fmt.Errorf("%d requests", l.Requests)
	}
	if l.Trace == nil && l.Lengths == nil {
		if l.Input < 1 || l.Input > MaxTokens {
			return fmt.Errorf("a prompt of %d tokens is outside 1 to %d", l.Input, MaxTokens)
		}
		if l.Output < 1 || l.Output > MaxTokens {
			return fmt.Errorf("an output of %d tokens is outside 1 to %d", l.Output, MaxTokens)
		}
	}
	return nil
}

// source begins the load anew.
func (l *Load) source(seed uint64) load.Source {
	lengths := l.Lengths
	if lengths == nil && l.Trace != nil {
		lengths = l.Trace.Lengths()
	}
	if lengths == nil {
		lengths = load.Fixed(l.Input, l.Output)
	}
	switch l.Kind() {
	case "concurrency":
		return load.Burst(l.Requests, lengths, seed)
	case "poisson":
		return load.Poisson(l.Rate, l.Requests, lengths, seed)
	}
	t := l.Trace
	if l.Spread {
		t = t.Spread(seed)
	}
	speed := l.Speed
	if speed == 0 {
		speed = 1
	}
	return t.Source(speed)
}

// mean is the mean prompt and output length.
func (l *Load) mean() (input, output float64) {
	if l.Trace != nil {
		return l.Trace.Mean()
	}
	return float64(l.Input), float64(l.Output)
}

func (s *Scenario) check() error {
	switch {
	case s.Model == nil:
		return errors.New("no model")
	case s.Prefill == nil:
		return errors.New("no prefill time")
	case s.PrefillWorkers < 1 || s.DecodeWorkers < 1 || s.PrefillWorkers > 100_000 || s.DecodeWorkers > 100_000:
		return fmt.Errorf("prefill workers %d, decode workers %d: outside 1 to 100000", s.PrefillWorkers, s.DecodeWorkers)
	case !(s.Step.Base > 0) || !(s.Step.PerRequest >= 0) || math.IsInf(s.Step.Base+s.Step.PerRequest, 0):
		return fmt.Errorf("a decode step of %g s and %g s a request", s.Step.Base, s.Step.PerRequest)
	case s.Budget < 0 || s.PrefillPool < 0 || s.DecodePool < 0 || s.PrefillCache < 0 || s.DecodeCache < 0 || s.DecodeBatch < 0:
		return errors.New("a budget, pool, cache or batch is negative")
	case !(s.Router >= 0) || !(s.Engine.Handover >= 0) || math.IsInf(s.Router+s.Engine.Handover, 0):
		return fmt.Errorf("router %g s, handover %g s", s.Router, s.Engine.Handover)
	case s.RankSigma != nil && (!(*s.RankSigma >= 0) || *s.RankSigma > 5):
		return fmt.Errorf("a spread of ranks of %g is outside 0 to 5", *s.RankSigma)
	case !(s.Spine >= 0) || math.IsInf(s.Spine, 0):
		return fmt.Errorf("a spine of %g bytes/s", s.Spine)
	case s.Limit < 0:
		return fmt.Errorf("a limit of %g s", s.Limit)
	case s.Overlap != sim.Serial && s.Engine.OnRequest:
		return fmt.Errorf("%s: nothing crosses before decode asks, so there is no chunked or layer-wise overlap: it needs an engine that pushes", s.Engine.Name)
	}
	return s.Load.check()
}

// Alone says whether the load is one request that has everything to itself: no load at all.
func (l *Load) Alone() bool {
	return l.Trace == nil && l.Rate == 0 && l.Concurrency == 1 && l.Requests == 1
}

// Enough is how many requests of a load carry a p99: those that are simulated where nobody says otherwise.
func Enough(users int) int {
	if users > 0 {
		return max(1000, 20*users)
	}
	return 20_000
}

// Under is the scenario with another rate or number of users, the rest of its
// load unchanged. A request alone meets no other at any rate: then it is
// as many as carry a p99.
func (s *Scenario) Under(rate float64, users int) *Scenario {
	c := *s
	if s.Load.Alone() {
		c.Load.Requests = Enough(users)
	}
	c.Load.Rate, c.Load.Concurrency = rate, users
	return &c
}
