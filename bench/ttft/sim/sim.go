// Package sim is a discrete-event simulation of disaggregated serving, from a
// request's arrival to its first token: prefill workers that serve chunked
// batches, the KV cache's way over shared links, decode workers that look for
// work at the boundaries of their steps, and the two KV pools between them.
//
// Times are seconds, sizes bytes, lengths tokens. The same Config and the same
// load give the same Result, bit for bit. Memory grows with the number of
// requests in flight and not with the number of requests.
//
// The model, and what it leaves out, is described in ../METHOD.md.
package sim

import (
	"errors"
	"fmt"

	"hopbench/bench/ttft/load"
)

// Overlap says how the transfer lies beside prefill.
type Overlap int

// The three overlaps. With one chunk Chunked equals Serial, and with one layer
// Layerwise does.
const (
	// Serial sends nothing before the prompt's last token is computed.
	Serial Overlap = iota
	// Chunked sends each chunk when it is computed: the last is exposed.
	Chunked
	// Layerwise sends each layer of a chunk when it is computed.
	Layerwise
)

// Config is one deployment under one load. Load and the times that are
// functions must be given; a zero elsewhere means "no such limit" or "no such
// cost", as each field says.
type Config struct {
	Prefill Prefill
	Decode  Decode
	Wire    Wire
	Serving Serving

	// Load yields the requests. Concurrency 0 takes their arrival times as they
	// are (an open loop); above 0, that many users each send the next request
	// when their last one has got its last token (a closed loop).
	Load        load.Source
	Concurrency int

	// Steady says that an open load keeps its rate, so that one which can never be
	// served may be called so before its end.
	Steady bool

	// Warmup is the number of first requests left out of the statistics.
	Warmup int
	// Limit is the TTFT in seconds that goodput is counted under; 0 for none.
	Limit float64
	// Seed drives the jitter of the ranks, the only chance inside the model.
	Seed uint64
}

// Prefill describes the prefill workers.
type Prefill struct {
	Workers int
	// Work is the time that tokens 0..n of one prompt take without the floor;
	// a chunk from a to b takes Work(b)-Work(a), so attention to what is before
	// it is in its price. It must not decrease.
	Work func(tokens int) float64
	// Floor is paid once in each iteration in which a prompt begins.
	Floor float64
	// Budget is the most tokens in one iteration (vLLM: max_num_batched_tokens); 0: no limit.
	Budget int
	// Prompts is the most prompts in one iteration; 0: no limit.
	Prompts int
	// Pool is the KV pool of one worker in tokens; 0: no limit. A prompt holds
	// its blocks from its first iteration until its transfer has ended.
	Pool int
	// Cache is the prefix cache of one worker in blocks of the trace; 0: none.
	Cache int
}

// Decode describes the decode workers.
type Decode struct {
	Workers int
	// Step is the time of one step with a batch of n requests, n >= 1.
	Step func(batch int) float64
	// Batch is the most requests in one step; 0: no limit.
	Batch int
	// Pool is the KV pool of one worker in tokens; 0: no limit. A request
	// reserves its prompt and its whole output before its transfer begins.
	Pool int
	// Cache is the number of the trace's blocks that one worker still holds
	// from earlier requests: what it holds does not cross the wire; 0: none.
	Cache int
}

// Demand is what moving the KV of some tokens asks of an idle link.
type Demand struct {
	// Bytes cross the link, summed over ranks.
	Bytes float64
	// Latency is spent before the bytes flow and shares no bandwidth.
	Latency float64
	// Seconds is the time alone on the link, Latency included.
	Seconds float64
}

// Wire describes the links.
type Wire struct {
	// Demand is that of the KV of tokens from..to of a prompt.
	Demand func(from, to int) Demand
	// Egress is a prefill worker's capacity in bytes/s with 1, 2, ... requests
	// on one lane; the last entry holds beyond. Empty: no limit. Ingress is the
	// same at a decode worker.
	Egress, Ingress []float64
	// EgressLanes and IngressLanes are the numbers of separate lanes of a worker
	// (data-parallel ranks, each with NICs of its own), which requests take in
	// turn; 0 means 1. The capacities above are those of one lane.
	EgressLanes, IngressLanes int
	// Spine is the capacity in bytes/s shared by all workers; 0: no limit.
	Spine float64
	// Ranks draw their times independently around the demand, lognormal with
	// this Sigma and a median of 1, and a request takes its slowest: fork and join.
	Ranks int
	Sigma float64
	// Typical gives the slowest rank its median instead of a draw: for a request
	// alone, of which one draw says nothing.
	Typical bool
}

// Serving is how the engine and its router hand a request over.
type Serving struct {
	Overlap Overlap
	// Layers matters to Layerwise only.
	Layers int
	// Pull: decode reads after prefill, beginning at a step boundary, and holds a
	// lease on prefill's blocks. Otherwise prefill writes.
	Pull bool
	// Concurrent dispatch gives the request to decode at once, which reserves
	// its blocks, and then to prefill. Otherwise decode gets it after prefill.
	Concurrent bool
	// Forwarded: the token that prefill computed is the client's first token.
	// Otherwise decode computes it in its first step.
	Forwarded bool
	// Router is paid on arrival, and Handover between the two workers.
	Router, Handover float64
	// Aligned: decode begins pulls and sees completions only at step boundaries.
	Aligned bool
	// Lease is how long prefill holds blocks for a pull that has not begun; 0: for ever.
	Lease float64
}

// Unserviceable is the error of an open load that no queue can hold: its
// waiting grows with the length of the run, so no percentile of it means anything.
type Unserviceable struct {
	// Part names what is too small.
	Part string
	// Utilisation is the work offered over the capacity, above 1; or, with
	// Growing, the share of the capacity in use while the queue before it grew.
	Utilisation float64
	Growing     bool
}

func (e *Unserviceable) Error() string {
	if e.Growing {
		return fmt.Sprintf("the load can never be served: the queue before %s grows as long as it lasts (%s in use)", e.Part, perCent(e.Utilisation))
	}
	return fmt.Sprintf("the load can never be served: %s is asked for %s of its capacity", e.Part, perCent(e.Utilisation))
}

// perCent prints a share without decimals, and one that is absurdly large without its digits.
func perCent(share float64) string {
	if share >= 1e4 {
		return fmt.Sprintf("%.3g %%", 100*share)
	}
	return fmt.Sprintf("%.0f %%", 100*share)
}

// Run simulates. An error names the field at fault, or is an *Unserviceable;
// then the Result holds the utilisations and no times.
func Run(c Config) (Result, error) {
	if err := c.check(); err != nil {
		return Result{}, fmt.Errorf("simulate: %w", err)
	}
	m := newMachine(c)
	err := m.run()
	if err == nil {
		err = m.verdict()
	}
	r := m.result()
	if err != nil {
		return Result{Requests: r.Requests, Utilisation: r.Utilisation}, err
	}
	return r, nil
}

func (c *Config) check() error {
	switch {
	case c.Load == nil:
		return errors.New("no load")
	case c.Prefill.Workers < 1:
		return fmt.Errorf("prefill workers %d, want at least 1", c.Prefill.Workers)
	case c.Decode.Workers < 1:
		return fmt.Errorf("decode workers %d, want at least 1", c.Decode.Workers)
	case c.Prefill.Work == nil:
		return errors.New("no prefill time")
	case c.Decode.Step == nil:
		return errors.New("no decode step time")
	case c.Wire.Demand == nil:
		return errors.New("no transfer time")
	case c.Serving.Overlap != Serial && c.Serving.Pull:
		return errors.New("a pull begins after prefill: chunked and layer-wise overlap need a push")
	case c.Serving.Overlap != Serial && !c.Serving.Concurrent:
		return errors.New("overlap needs a decode worker from arrival on: concurrent dispatch")
	case c.Serving.Overlap == Layerwise && c.Serving.Layers < 1:
		return fmt.Errorf("layers %d, want at least 1", c.Serving.Layers)
	case c.Concurrency < 0 || c.Warmup < 0:
		return errors.New("concurrency and warm-up must not be negative")
	}
	return nil
}
