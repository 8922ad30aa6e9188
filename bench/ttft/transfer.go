package ttft

import (
	"fmt"
	"math"
	"slices"

	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/sim"
)

// bound picks the middle of a transfer time's interval, or a place in it from its fast to its slow end.
type bound float64

const (
	middle bound = -1
	fast   bound = 0 // the least time
	slow   bound = 1
)

// transfer is a link under a geometry: what the simulation asks for.
type transfer struct {
	g      *geometry
	link   *link.Link
	strict bool
	bound  bound

	answers map[*kv]curve.Answer
	notes   []string
	bounded bool
	err     error // the first; the simulation's functions cannot return one
}

func newTransfer(g *geometry, l *link.Link, strict bool, b bound) *transfer {
	return &transfer{g: g, link: l, strict: strict, bound: b, answers: map[*kv]curve.Answer{}}
}

// alone is the time of a cache with the link to itself.
func (t *transfer) alone(k *kv) (curve.Answer, error) {
	if a, ok := t.answers[k]; ok {
		return a, nil
	}
	a, err := t.link.Time(k.shape, 1, t.strict)
	if err != nil {
		return a, err
	}
	if t.g.bulk {
		a.Seconds = a.Latency + k.binding/t.link.Bulk()
		a.Bounded, a.Low, a.High = false, a.Seconds, a.Seconds
	}
	t.note(a.Notes)
	t.bounded = t.bounded || a.Bounded
	t.answers[k] = a
	return a, nil
}

func (t *transfer) note(notes []string) {
	for _, n := range notes {
		if !slices.Contains(t.notes, n) && len(t.notes) < 16 {
			t.notes = append(t.notes, n)
		}
	}
}

func (t *transfer) pick(a curve.Answer) float64 {
	if t.bound == middle {
		return a.Seconds
	}
	return max(a.Low+float64(t.bound)*(a.High-a.Low), a.Latency)
}

// demand is that of the tokens from..to. Its time is that of a prompt of as
// many tokens, scaled by the bytes: they differ where windows or states are.
func (t *transfer) demand(from, to int) sim.Demand {
	d, err := t.try(from, to)
	if err != nil && t.err == nil {
		t.err = err
	}
	return d
}

func (t *transfer) try(from, to int) (sim.Demand, error) {
	whole, err := t.g.at(to)
	if err != nil {
		return sim.Demand{}, err
	}
	part, bytes := whole, whole.wire
	if from > 0 {
		before, err := t.g.at(from)
		if err != nil {
			return sim.Demand{}, err
		}
		if part, err = t.g.at(to - from); err != nil {
			return sim.Demand{}, err
		}
		bytes = max(0, whole.wire-before.wire)
	}
	a, err := t.alone(part)
	if err != nil {
		return sim.Demand{}, err
	}
	seconds := t.pick(a)
	return sim.Demand{Bytes: bytes, Latency: a.Latency, Seconds: a.Latency + (seconds-a.Latency)*bytes/part.wire}, nil
}

// capacities are the bytes/s of all ranks that a lane of each side carries with
// 1, 2, ... requests at once, for caches like k.
func (t *transfer) capacities(k *kv) (egress, ingress []float64, err error) {
	most := int(math.Min(64, t.link.MaxParallel()))
	for n := 1; n <= most; n++ {
		a, err := t.link.Time(k.shape, float64(n), false)
		if err != nil {
			return nil, nil, err
		}
		if t.g.bulk {
			a.Seconds = a.Latency + float64(n)*k.binding/t.link.Bulk()
			a.Low, a.High = a.Seconds, a.Seconds
		}
		flow := t.pick(a) - a.Latency
		if flow <= 0 {
			return nil, nil, fmt.Errorf("%s: a request of %.0f bytes takes no longer than its latency: its bandwidth is not known", t.link.Label, k.binding)
		}
		nic := float64(n) * k.binding / flow
		egress = append(egress, nic*k.wire/k.egress)
		ingress = append(ingress, nic*k.wire/k.ingress)
	}
	return egress, ingress, nil
}
