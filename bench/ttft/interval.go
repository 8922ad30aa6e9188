package ttft

import (
	"errors"
	"slices"

	"hopbench/bench/ttft/sim"
)

// Range is the least and the greatest of a quantile of TTFT, in seconds, over the interval of the link's times. High is nil where
// the slow end cannot serve the load, Low where the fast end has no such quantile.
type Range struct {
	Low, High *float64
}

// between are the places within the interval that are simulated too where its ends do not bound what lies between them.
var between = []bound{0.2, 0.4, 0.6, 0.8}

// interval simulates the same arrivals at both ends of the link's interval. A faster link need not give a lower TTFT: requests reach
// decode at other moments of its steps, and for a few requests that is more than the link's whole range. Then the places between are
// simulated too, and the range is that of all of them.
func (p *Projection) interval(g *geometry) error {
	at := func(b bound) (*sim.Result, error) {
		r, err := p.simulate(g, b)
		var never *sim.Unserviceable
		if errors.As(err, &never) {
			if b == slow {
				p.warn("at the slow end of the link's interval " + never.Error())
			}
			return nil, nil
		}
		return &r, err
	}
	var err error
	if p.Fast, err = at(fast); err != nil {
		return err
	}
	if p.Slow, err = at(slow); err != nil {
		return err
	}
	all := []*sim.Result{p.Fast, &p.Result, p.Slow}
	p50, p99 := func(r *sim.Result) *float64 { return r.TTFT.P50 }, func(r *sim.Result) *float64 { return r.TTFT.P99 }
	if !ordered(all, p50) || !ordered(all, p99) {
		for _, b := range between {
			r, err := at(b)
			if err != nil {
				return err
			}
			all = append(all, r)
		}
	}
	if !ordered([]*sim.Result{p.Fast, &p.Result, p.Slow}, p50) {
		p.warn("TTFT does not follow the link's speed: at which moment of a decode step requests arrive counts for more. The interval is the range over the link's")
	}
	p.P50, p.P99 = spanOf(all, p50, p.Slow != nil), spanOf(all, p99, p.Slow != nil)
	return nil
}

// ordered reports whether a quantile does not fall from one result to the next.
func ordered(all []*sim.Result, of func(*sim.Result) *float64) bool {
	return slices.IsSorted(values(all, of))
}

func values(all []*sim.Result, of func(*sim.Result) *float64) (out []float64) {
	for _, r := range all {
		if r == nil {
			continue
		}
		if v := of(r); v != nil {
			out = append(out, *v)
		}
	}
	return out
}

func spanOf(all []*sim.Result, of func(*sim.Result) *float64, closed bool) *Range {
	v := values(all, of)
	if len(v) == 0 {
		return nil
	}
	low, high := slices.Min(v), slices.Max(v)
	if !closed {
		return &Range{Low: &low}
	}
	return &Range{&low, &high}
}
