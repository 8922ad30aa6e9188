package ttft

import (
	"fmt"
	"math"

	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/sim"
)

// Stack is one bar of a stacked figure: TTFT on one link by its parts. The
// parts of "median" are those of the requests around the 50th percentile and
// add up to about it; those of "p99" are around the 99th.
type Stack struct {
	Label      string    `json:"label"`
	Provenance string    `json:"provenance"` // of the transfer
	Which      string    `json:"which"`      // alone, median or p99
	Parts      sim.Parts `json:"-"`
	TTFT       float64   `json:"ttft_seconds"`
}

// Stacks makes the bars of projections; one that cannot be served has none.
func Stacks(projections []*Projection) []Stack {
	var out []Stack
	for _, p := range projections {
		if p.Unserviceable != nil || p.Result.TTFT.P50 == nil {
			continue
		}
		m := p.Result.Median
		out = append(out, Stack{p.Link.Label, p.Link.Provenance, "median", m, m.Sum()})
		if t := p.Result.Tail; t != nil {
			out = append(out, Stack{p.Link.Label, p.Link.Provenance, "p99", *t, t.Sum()})
		}
	}
	return out
}

// Series is a line of a figure.
type Series struct {
	Label        string        `json:"label"`
	Provenance   string        `json:"provenance"` // of the transfer
	Hypothetical bool          `json:"hypothetical"`
	Points       []SeriesPoint `json:"points"`
	// Asymptote is where an open load can no longer be served, in the unit of X;
	// nil where the series does not reach it.
	Asymptote *float64 `json:"asymptote,omitempty"`
}

// SeriesPoint is TTFT in seconds at a prompt length or a load. Low and High are
// the transfer's interval carried through; nil where there is none.
type SeriesPoint struct {
	X         float64  `json:"x"`
	TTFT      float64  `json:"ttft_seconds"`
	Low, High *float64 `json:"-"`
	P99       *float64 `json:"p99_seconds,omitempty"`
	Transfer  float64  `json:"transfer_seconds"`
}

// alone is the scenario with one request at a time of a given length.
func alone(s *Scenario, isl int) *Scenario {
	c := *s
	c.Load = Load{Concurrency: 1, Requests: 1, Input: isl, Output: max(1, s.Load.Output)}
	return &c
}

// Alone is a request's TTFT without any other, on a link.
func Alone(s *Scenario, l *link.Link, isl int) (*Projection, error) { return Project(alone(s, isl), l) }

// AgainstLength is TTFT of a request alone against its prompt's length in tokens.
func AgainstLength(s *Scenario, l *link.Link, lengths []int) (Series, error) {
	out := Series{Label: l.Label, Provenance: l.Provenance, Hypothetical: l.Hypothetical != ""}
	for _, n := range lengths {
		p, err := Alone(s, l, n)
		if err != nil {
			return out, fmt.Errorf("%d tokens: %w", n, err)
		}
		out.Points = append(out.Points, point(p, float64(n)))
	}
	return out, nil
}

func point(p *Projection, x float64) SeriesPoint {
	sp := SeriesPoint{X: x, TTFT: *p.Result.TTFT.P50, P99: p.Result.TTFT.P99, Transfer: *p.Result.Transfer.P50}
	if p.Fast != nil {
		sp.Low = p.Fast.TTFT.P50
	}
	if p.Slow != nil {
		sp.High = p.Slow.TTFT.P50
	}
	return sp
}

// AgainstLoad is p50 and p99 of TTFT against the rate in requests/s. The series
// ends at the first rate that cannot be served.
func AgainstLoad(s *Scenario, l *link.Link, rates []float64) (Series, error) {
	out := Series{Label: l.Label, Provenance: l.Provenance, Hypothetical: l.Hypothetical != ""}
	for _, r := range rates {
		p, err := Project(at(s, r, 0), l)
		if err != nil {
			return out, fmt.Errorf("%g requests/s: %w", r, err)
		}
		if p.Unserviceable != nil {
			x := r
			out.Asymptote = &x
			return out, nil
		}
		if p.Result.TTFT.P50 == nil {
			continue
		}
		out.Points = append(out.Points, point(p, r))
	}
	return out, nil
}

// Crossing is a prompt length at which two links swap places.
type Crossing struct {
	A, B   string
	Tokens int // the least length at which B is no slower than A (or A than B)
	// Faster is the label of the link that is faster from there on.
	Faster string
	TTFT   float64 // seconds, there
}

// Crossings finds the prompt lengths from low to high tokens at which the TTFT
// of a request alone is the same on two links. Links that differ by less than
// a billionth cross nowhere.
func Crossings(s *Scenario, a, b *link.Link, low, high int) ([]Crossing, error) {
	if low < 1 || high < low || high > MaxTokens {
		return nil, fmt.Errorf("crossings: lengths from %d to %d", low, high)
	}
	diff := func(n int) (float64, float64, error) {
		x, err := Alone(s, a, n)
		if err != nil {
			return 0, 0, err
		}
		y, err := Alone(s, b, n)
		if err != nil {
			return 0, 0, err
		}
		u, v := *x.Result.TTFT.P50, *y.Result.TTFT.P50
		if math.Abs(u-v) <= 1e-9*u {
			return 0, u, nil
		}
		return u - v, u, nil
	}
	var out []Crossing
	const steps = 64
	last, lastD := 0, 0.0
	for i := range steps + 1 {
		n := int(math.Round(float64(low) * math.Pow(float64(high)/float64(low), float64(i)/steps)))
		if n == last {
			continue
		}
		d, _, err := diff(n)
		if err != nil {
			return out, fmt.Errorf("%d tokens: %w", n, err)
		}
		if d == 0 {
			continue
		}
		if lastD != 0 && (d > 0) != (lastD > 0) {
			l, h := last, n
			for h-l > 1 {
				m := (l + h) / 2
				e, _, err := diff(m)
				if err != nil {
					return out, err
				}
				if e != 0 && (e > 0) == (lastD > 0) {
					l = m
				} else {
					h = m
				}
			}
			_, at, err := diff(h)
			if err != nil {
				return out, err
			}
			faster := a.Label
			if d > 0 {
				faster = b.Label
			}
			out = append(out, Crossing{A: a.Label, B: b.Label, Tokens: h, Faster: faster, TTFT: at})
		}
		last, lastD = n, d
	}
	return out, nil
}
