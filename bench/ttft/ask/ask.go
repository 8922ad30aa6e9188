// Package ask turns a projection round: the largest load within a limit, the
// bandwidth or the workers that a limit needs, the prompt length where links
// cross, and the break-even against an aggregated deployment. Each answer is
// found by projecting, with the same arrivals at every try.
package ask

import (
	"errors"
	"fmt"
	"math"

	"hopbench/bench/ttft"
	"hopbench/bench/ttft/link"
	"hopbench/results/unit"
)

// Quantile is the one that a limit is put on.
type Quantile string

// The quantiles of a limit.
const (
	P50 Quantile = "p50"
	P90 Quantile = "p90"
	P99 Quantile = "p99"
)

func (q Quantile) of(p *ttft.Projection) (float64, bool) {
	t := &p.Result.TTFT
	v := t.P99
	switch q {
	case P50:
		v = t.P50
	case P90:
		v = t.P90
	}
	if p.Unserviceable != nil || v == nil || p.Result.Expired > 0 {
		return 0, false
	}
	return *v, true
}

// ErrUnreachable is the error of a limit that no load, bandwidth or number of
// workers within reason meets.
var ErrUnreachable = errors.New("the limit cannot be met")

// ErrUnbounded is the error of a limit that every load within reason holds: it binds nothing.
var ErrUnbounded = errors.New("the limit is held by any load")

// within says whether the scenario holds the limit at a quantile.
func within(s *ttft.Scenario, l *link.Link, q Quantile) (bool, *ttft.Projection, error) {
	p, err := ttft.Project(s, l)
	if err != nil {
		return false, nil, err
	}
	v, ok := q.of(p)
	return ok && v <= s.Limit, p, nil
}

// MaxRate is the largest Poisson rate in requests/s whose TTFT stays within the
// scenario's limit at a quantile, to 1 %, with the projection there. The load's
// lengths and number of requests are the scenario's.
func MaxRate(s *ttft.Scenario, l *link.Link, q Quantile) (float64, *ttft.Projection, error) {
	if !(s.Limit > 0) {
		return 0, nil, errors.New("the largest rate needs a limit of TTFT")
	}
	c := *s
	c.Load.Concurrency, c.Load.Speed = 0, 0
	try := func(rate float64) (bool, *ttft.Projection, error) {
		c.Load.Rate = rate
		return within(&c, l, q)
	}
	// From a rate at which requests hardly meet one another, upwards.
	low := 1e-3
	ok, best, err := try(low)
	if err != nil {
		return 0, nil, err
	}
	if !ok {
		return 0, best, fmt.Errorf("%w: %s exceeds %g s even for a request alone", ErrUnreachable, q, s.Limit)
	}
	high := low
	for ok {
		low, high = high, high*4
		if high > 1e7 {
			return 0, nil, fmt.Errorf("%w, up to %.3g requests/s", ErrUnbounded, high)
		}
		var p *ttft.Projection
		if ok, p, err = try(high); err != nil {
			return 0, nil, err
		} else if ok {
			best = p
		}
	}
	for high/low > 1.01 {
		rate := math.Sqrt(low * high)
		ok, p, err := try(rate)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			low, best = rate, p
		} else {
			high = rate
		}
	}
	best.Scenario = s.Under(low, 0)
	return low, best, nil
}

// MaxConcurrency is the largest number of users in a closed loop whose TTFT
// stays within the limit at a quantile, with the projection there.
func MaxConcurrency(s *ttft.Scenario, l *link.Link, q Quantile) (int, *ttft.Projection, error) {
	if !(s.Limit > 0) {
		return 0, nil, errors.New("the largest concurrency needs a limit of TTFT")
	}
	c := *s
	c.Load.Rate, c.Load.Speed = 0, 0
	try := func(n int) (bool, *ttft.Projection, error) {
		c.Load.Concurrency = n
		c.Load.Requests = max(s.Load.Requests, 10*n)
		return within(&c, l, q)
	}
	ok, best, err := try(1)
	if err != nil {
		return 0, nil, err
	}
	if !ok {
		return 0, best, fmt.Errorf("%w: %s exceeds %g s even for one user", ErrUnreachable, q, s.Limit)
	}
	low, high := 1, 2
	for {
		ok, p, err := try(high)
		if err != nil {
			return 0, nil, err
		}
		if !ok {
			break
		}
		low, best = high, p
		if high >= 16384 {
			return 0, nil, fmt.Errorf("%w, up to %s", ErrUnbounded, unit.Count(high, "user"))
		}
		high *= 2
	}
	for high-low > 1 {
		n := (low + high) / 2
		ok, p, err := try(n)
		if err != nil {
			return 0, nil, err
		}
		if ok {
			low, best = n, p
		} else {
			high = n
		}
	}
	best.Scenario = s.Under(0, low)
	return low, best, nil
}

// Bandwidth is what a limit needs of a link.
type Bandwidth struct {
	// BytesPerSecond is of one NIC with the scenario's shape, to 1 %.
	BytesPerSecond float64
	// Factor is that over the link's own.
	Factor float64
	// NICs is how many of the link's own NICs for each that the layout has.
	NICs int
	// At is the projection with that bandwidth.
	At *ttft.Projection
}

// NeededBandwidth is the least bandwidth of a NIC with which the scenario's
// load stays within the limit at a quantile. An ErrUnreachable says what TTFT is with
// a link of no duration: then it is not the link that is too slow.
func NeededBandwidth(s *ttft.Scenario, l *link.Link, q Quantile) (Bandwidth, error) {
	if !(s.Limit > 0) {
		return Bandwidth{}, errors.New("the bandwidth needed asks for a limit of TTFT")
	}
	try := func(f float64) (bool, *ttft.Projection, error) { return within(s, l.Faster(f), q) }
	const top = 1e6
	ok, best, err := try(top)
	if err != nil {
		return Bandwidth{}, err
	}
	if !ok {
		if v, has := q.of(best); has {
			return Bandwidth{At: best}, fmt.Errorf("%w by any bandwidth: %s is %.3g s on a link of no duration", ErrUnreachable, q, v)
		}
		return Bandwidth{At: best}, fmt.Errorf("%w by any bandwidth: the load cannot be served on a link of no duration either", ErrUnreachable)
	}
	low, high := 1e-6, top
	for high/low > 1.01 {
		f := math.Sqrt(low * high)
		ok, p, err := try(f)
		if err != nil {
			return Bandwidth{}, err
		}
		if ok {
			high, best = f, p
		} else {
			low = f
		}
	}
	own := best.Request.BytesPerSecond
	return Bandwidth{BytesPerSecond: own, Factor: high, NICs: int(math.Ceil(high - 1e-9)), At: best}, nil
}

// Workers is the least number of workers that hold a load within the limit.
type Workers struct {
	Prefill, Decode int
	At              *ttft.Projection
}

// NeededWorkers finds the least prefill workers with plenty of decode workers,
// and then the least decode workers with those.
func NeededWorkers(s *ttft.Scenario, l *link.Link, q Quantile) (Workers, error) {
	if !(s.Limit > 0) {
		return Workers{}, errors.New("the number of workers needs a limit of TTFT")
	}
	const most = 4096
	c := *s
	least := func(set func(n int)) (int, *ttft.Projection, error) {
		high := 1
		var best *ttft.Projection
		for {
			set(high)
			ok, p, err := within(&c, l, q)
			if err != nil {
				return 0, nil, err
			}
			if ok {
				best = p
				break
			}
			if high >= most {
				return 0, p, fmt.Errorf("%w with %s", ErrUnreachable, unit.Count(high, "worker"))
			}
			high *= 2
		}
		low := high / 2
		for high-low > 1 {
			n := (low + high) / 2
			set(n)
			ok, p, err := within(&c, l, q)
			if err != nil {
				return 0, nil, err
			}
			if ok {
				high, best = n, p
			} else {
				low = n
			}
		}
		set(high)
		return high, best, nil
	}
	c.DecodeWorkers = most
	var w Workers
	var err error
	if w.Prefill, _, err = least(func(n int) { c.PrefillWorkers = n }); err != nil {
		return w, err
	}
	if w.Decode, w.At, err = least(func(n int) { c.DecodeWorkers = n }); err != nil {
		return w, err
	}
	fixed := c
	w.At.Scenario = &fixed
	return w, nil
}

// Aggregated is a deployment without disaggregation, by figures that are given.
type Aggregated struct {
	P50, P99 *float64 // TTFT in seconds under the same load; nil where not known
}

// BreakEven compares with an aggregated deployment: what disaggregation adds to
// TTFT (negative: saves), and the bandwidth of a NIC at which it adds nothing,
// nil where no bandwidth does.
type BreakEven struct {
	AddedP50, AddedP99 *float64
	At                 *Bandwidth
	// Never says why no bandwidth breaks even.
	Never string
}

// BreakEvenWith finds the break-even at the largest quantile that is given.
func BreakEvenWith(s *ttft.Scenario, l *link.Link, a Aggregated) (BreakEven, error) {
	p, err := ttft.Project(s, l)
	if err != nil {
		return BreakEven{}, err
	}
	b := BreakEven{AddedP50: minus(p.Result.TTFT.P50, a.P50), AddedP99: minus(p.Result.TTFT.P99, a.P99)}
	c := *s
	q := P50
	switch {
	case a.P99 != nil:
		c.Limit, q = *a.P99, P99
	case a.P50 != nil:
		c.Limit = *a.P50
	default:
		return b, errors.New("break-even needs the aggregated deployment's p50 or p99")
	}
	need, err := NeededBandwidth(&c, l, q)
	if errors.Is(err, ErrUnreachable) {
		b.Never = err.Error()
		return b, nil
	}
	if err != nil {
		return b, err
	}
	b.At = &need
	return b, nil
}

func minus(a, b *float64) *float64 {
	if a == nil || b == nil {
		return nil
	}
	d := *a - *b
	return &d
}
