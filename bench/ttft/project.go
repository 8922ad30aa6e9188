package ttft

import (
	"errors"
	"fmt"
	"math"

	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/sim"
	"hopbench/results/unit"
)

// Projection is TTFT on one link under one load. Times are seconds.
type Projection struct {
	Link     *link.Link
	Scenario *Scenario
	// Input and Output are the load's mean lengths.
	Input, Output float64
	// Request is what a request of the mean length moves.
	Request Request
	// Result is the simulation with the transfer's middle; Fast and Slow are
	// those with the two ends of its interval, nil where it has none. Neither
	// end need have the least or the greatest TTFT: P50 and P99 have.
	Result     sim.Result
	Fast, Slow *sim.Result
	// P50 and P99 are the ranges of TTFT over the transfer's interval, nil where there is none.
	P50, P99 *Range
	// Unserviceable is set instead of times where no queue can hold the load.
	Unserviceable *sim.Unserviceable
	// Warnings travel with the numbers.
	Warnings []string
	// RankSigma is the spread of the ranks' times that was used, 0 where there is none.
	RankSigma float64
	// Provenance of each part: measured, reference, projected, given or assumed.
	Provenance map[string]string
}

// Request is one request's transfer alone on the link.
type Request struct {
	WireBytes   int64 // of all ranks
	RankBytes   int64 // of the decode rank with most
	NICBytes    int64 // of the NIC that binds
	NIC         string
	Descriptors int64 // that it carries
	PieceBytes  int64 // mean size of them
	Seconds     float64
	Low, High   *float64
	// BytesPerSecond is NICBytes over Seconds, and Bulk the best that the link
	// showed with any shape.
	BytesPerSecond, Bulk float64
}

// Project simulates the scenario on a link. An error is about the input: a
// field, or a transfer outside what was measured (*curve.Outside) with Strict.
// A load that cannot be served is no error: the projection says so.
func Project(s *Scenario, l *link.Link) (*Projection, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	if l.Operation != "" && l.Operation != s.Engine.Operation {
		return nil, fmt.Errorf("%s was measured with %s, and %s transfers with %s", l.Label, l.Operation, s.Engine.Name, s.Engine.Operation)
	}
	p := &Projection{Link: l, Scenario: s}
	p.Input, p.Output = s.Load.mean()
	g := newGeometry(s.Model, layerOptions(s.Layout, s.Overlap))
	if err := p.describe(g); err != nil {
		return nil, err
	}
	mid, err := p.simulate(g, middle)
	if errors.As(err, &p.Unserviceable) {
		p.Result = mid
		return p, nil
	}
	if err != nil {
		return nil, err
	}
	p.Result = mid
	if p.Request.Low != nil {
		if err := p.interval(g); err != nil {
			return nil, err
		}
	}
	p.sanity()
	return p, nil
}

func (p *Projection) warn(text string) {
	for _, w := range p.Warnings {
		if w == text {
			return
		}
	}
	p.Warnings = append(p.Warnings, text)
}

// describe fills in what a request of the mean length moves.
func (p *Projection) describe(g *geometry) error {
	s := p.Scenario
	n := max(1, int(math.Round(p.Input)))
	k, err := g.at(n)
	if err != nil {
		return err
	}
	t := newTransfer(g, p.Link, s.Strict, middle)
	a, err := t.alone(k)
	if err != nil {
		return err
	}
	b := k.layout.Binding
	r := Request{
		WireBytes: k.layout.WireBytes, NICBytes: b.Bytes, NIC: fmt.Sprintf("%s NIC %d", b.Side, b.NIC),
		Descriptors: b.Descriptors, Seconds: a.Seconds, BytesPerSecond: float64(b.Bytes) / a.Seconds, Bulk: p.Link.Bulk(),
	}
	for _, rank := range k.layout.Ranks {
		r.RankBytes = max(r.RankBytes, rank.Bytes)
	}
	if b.Descriptors > 0 {
		r.PieceBytes = b.Bytes / b.Descriptors
	}
	if a.Bounded {
		r.Low, r.High = &a.Low, &a.High
	}
	p.Request = r
	if out := s.Prefill.Outside(n); out != "" {
		if s.Strict {
			return &curve.Outside{Curve: "prefill", What: out}
		}
		p.warn("extrapolated: " + out)
	}
	for _, list := range [][]string{t.notes, p.Link.Notes} {
		for _, w := range list {
			p.warn(w)
		}
	}
	p.spread(len(k.layout.Ranks))
	if p.Link.Hypothetical != "" {
		p.warn("hypothetical: " + p.Link.Hypothetical)
	}
	if p.Link.MaxParallel() <= 1 && p.Link.Measured() != nil {
		p.warn("no cell has more than one request at once: those that share the link are taken to get together what one gets alone")
	}
	if k.layout.Estimate {
		p.warn("the model's architecture is not known: its geometry is an estimate")
	}
	p.Provenance = map[string]string{
		"transfer": p.Link.Provenance, "prefill": s.Prefill.Provenance, "first_decode": s.Step.Provenance,
		"orchestration": s.Engine.HandoverFrom, "queue": "projected", "geometry": "computed",
	}
	if s.RankSigma != nil {
		p.Provenance["rank_spread"] = "given"
	} else if p.RankSigma > 0 {
		p.Provenance["rank_spread"] = "measured"
	}
	return nil
}

// spread takes the ranks' spread: what the scenario gives, else what was measured on the link.
func (p *Projection) spread(ranks int) {
	if given := p.Scenario.RankSigma; given != nil {
		p.RankSigma = *given
		return
	}
	if sigma, _, ok := p.Link.Spread(); ok && ranks > 1 {
		p.RankSigma = sigma
	}
}

// config puts the simulation together.
func (p *Projection) config(g *geometry, t *transfer) (sim.Config, error) {
	s := p.Scenario
	k, err := g.at(max(1, int(math.Round(p.Input))))
	if err != nil {
		return sim.Config{}, err
	}
	egress, ingress, err := t.capacities(k)
	if err != nil {
		return sim.Config{}, err
	}
	tokens := 512 // of a trace's block
	c := sim.Config{
		Prefill: sim.Prefill{
			Workers: s.PrefillWorkers, Work: s.Prefill.Work, Floor: s.Prefill.Floor, Budget: s.Budget,
			Pool: s.PrefillPool, Cache: s.PrefillCache / tokens,
		},
		Decode: sim.Decode{
			Workers: s.DecodeWorkers, Batch: s.DecodeBatch, Pool: s.DecodePool, Cache: s.DecodeCache / tokens,
			Step: func(n int) float64 { return s.Step.Base + float64(n)*s.Step.PerRequest },
		},
		Wire: sim.Wire{
			Demand: t.demand, Egress: egress, Ingress: ingress, Spine: s.Spine,
			EgressLanes: lanes(s.Layout.Prefill), IngressLanes: lanes(s.Layout.Decode),
			Ranks: len(k.layout.Ranks), Sigma: p.RankSigma, Typical: s.Load.Requests == 1 && s.Load.Trace == nil,
		},
		Serving: sim.Serving{
			Overlap: s.Overlap, Layers: max(1, attentionLayers(s)), Pull: s.Engine.OnRequest, Concurrent: s.Engine.Concurrent,
			Forwarded: s.Engine.Forwarded, Router: s.Router, Handover: s.Engine.Handover, Aligned: true, Lease: s.Engine.Lease,
		},
		Load: s.Load.source(s.Seed), Concurrency: s.Load.Concurrency, Steady: s.Load.Kind() == "poisson",
		Limit: s.Limit, Seed: s.Seed,
	}
	if s.Overlap != sim.Serial {
		c.Serving.Concurrent = true // chunks need somewhere to go before prefill ends
	}
	switch n := s.Load.Requests; s.Load.Kind() {
	case "poisson":
		c.Warmup = min(n/10, 10_000)
	case "concurrency":
		if n >= 10*s.Load.Concurrency {
			c.Warmup = s.Load.Concurrency
		}
	}
	for _, m := range s.Off {
		c = c.Without(m)
	}
	return c, nil
}

// attentionLayers is the number of layers that have something to send.
func attentionLayers(s *Scenario) int {
	n := 0
	for _, l := range s.Model.Layers {
		if l.Kind != "none" && l.Kind != "shared" {
			n++
		}
	}
	return n
}

func (p *Projection) simulate(g *geometry, b bound) (sim.Result, error) {
	t := newTransfer(g, p.Link, p.Scenario.Strict, b)
	c, err := p.config(g, t)
	if err != nil {
		return sim.Result{}, err
	}
	r, err := sim.Run(c)
	if t.err != nil {
		return sim.Result{}, t.err
	}
	for _, n := range t.notes {
		p.warn(n)
	}
	return r, err
}

// sanity warns of what a reader of the numbers would want to know.
func (p *Projection) sanity() {
	r := &p.Result
	if r.Expired > 0 {
		p.warn(fmt.Sprintf("%d of %s lost their lease before decode could pull: they have no first token and are in no percentile", r.Expired, unit.Count(r.Requests, "request")))
	}
	if n := r.TTFT.Samples; n < 100 && r.Requests > 1 {
		p.warn(unit.Count(n, "sample") + ": no p99")
	}
	if p.Scenario.Load.Trace != nil && p.Scenario.Prefill.High < float64(longest(p)) {
		p.warn(fmt.Sprintf("extrapolated: the longest prompt has %d tokens, prefill was measured to %.0f", longest(p), p.Scenario.Prefill.High))
	}
}

func longest(p *Projection) int { return p.Scenario.Load.Trace.Longest() }

// Alone projects one request of a prompt length without any other.
func Alone(s *Scenario, l *link.Link, isl int) (*Projection, error) {
	c := *s
	c.Load = Load{Concurrency: 1, Requests: 1, Input: isl, Output: max(1, s.Load.Output)}
	return Project(&c, l)
}
