package ttft

import (
	"cmp"
	"errors"
	"math"
	"slices"

	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/sim"
)

// Effect is what one mechanism does to the answer. Times are seconds.
type Effect struct {
	Mechanism string
	// P50 and P99 are the TTFT without it, and the differences what it adds
	// (negative: what it saves). Nil where there is no such figure.
	P50, P99           *float64
	AddedP50, AddedP99 *float64
	// Unserviceable says that without it the load cannot be served.
	Unserviceable string
}

// Sensitivity switches each mechanism off in turn and ranks them by what they
// do to p99 (to p50, where the samples carry no p99), largest first. One
// more row, "descriptors", moves the same bytes at the best bandwidth that the
// link showed, as if pieces cost nothing.
func Sensitivity(s *Scenario, l *link.Link) (base *Projection, effects []Effect, err error) {
	if base, err = Project(s, l); err != nil {
		return nil, nil, err
	}
	if base.Unserviceable != nil {
		return base, nil, nil
	}
	one := func(name string, p *Projection, err error) error {
		e := Effect{Mechanism: name}
		if err != nil {
			return err
		}
		if p.Unserviceable != nil {
			e.Unserviceable = p.Unserviceable.Error()
		} else {
			e.P50, e.P99 = p.Result.TTFT.P50, p.Result.TTFT.P99
			e.AddedP50, e.AddedP99 = minus(base.Result.TTFT.P50, e.P50), minus(base.Result.TTFT.P99, e.P99)
		}
		effects = append(effects, e)
		return nil
	}
	for _, m := range sim.Mechanisms() {
		if slices.Contains(s.Off, m) {
			continue
		}
		c := *s
		c.Off = append(slices.Clone(s.Off), m)
		p, err := Project(&c, l)
		if err := one(m.String(), p, err); err != nil {
			return nil, nil, err
		}
	}
	c := *s
	p, err := projectBulk(&c, l)
	if err := one("descriptors", p, err); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(effects, func(a, b Effect) int { return cmp.Compare(b.size(), a.size()) })
	return base, effects, nil
}

func (e *Effect) size() float64 {
	switch {
	case e.Unserviceable != "":
		return math.Inf(1)
	case e.AddedP99 != nil:
		return math.Abs(*e.AddedP99)
	case e.AddedP50 != nil:
		return math.Abs(*e.AddedP50)
	}
	return -1
}

func minus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - *b
	return &d
}

// projectBulk projects as if pieces cost nothing.
func projectBulk(s *Scenario, l *link.Link) (*Projection, error) {
	p := &Projection{Link: l, Scenario: s}
	p.Input, p.Output = s.Load.mean()
	g := newGeometry(s.Model, s.Layout)
	g.bulk = true
	if err := p.describe(g); err != nil {
		return nil, err
	}
	r, err := p.simulate(g, middle)
	p.Result = r
	if errors.As(err, &p.Unserviceable) {
		return p, nil
	}
	return p, err
}
