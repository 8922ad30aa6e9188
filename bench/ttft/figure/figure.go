// Package figure gives the data of figures about time to first token: stacked
// parts, TTFT against prompt length, TTFT against load. It draws nothing.
package figure

import (
	"fmt"

	"hopbench/bench/ttft"
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
func Stacks(projections []*ttft.Projection) []Stack {
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

// AgainstLength is TTFT of a request alone against its prompt's length in tokens.
func AgainstLength(s *ttft.Scenario, l *link.Link, lengths []int) (Series, error) {
	out := Series{Label: l.Label, Provenance: l.Provenance, Hypothetical: l.Hypothetical != ""}
	for _, n := range lengths {
		p, err := ttft.Alone(s, l, n)
		if err != nil {
			return out, fmt.Errorf("%d tokens: %w", n, err)
		}
		out.Points = append(out.Points, point(p, float64(n)))
	}
	return out, nil
}

func point(p *ttft.Projection, x float64) SeriesPoint {
	sp := SeriesPoint{X: x, TTFT: *p.Result.TTFT.P50, P99: p.Result.TTFT.P99, Transfer: *p.Result.Transfer.P50}
	if p.P50 != nil {
		sp.Low, sp.High = p.P50.Low, p.P50.High
	}
	return sp
}

// AgainstLoad is p50 and p99 of TTFT against the rate in requests/s. The series
// ends at the first rate that cannot be served.
func AgainstLoad(s *ttft.Scenario, l *link.Link, rates []float64) (Series, error) {
	out := Series{Label: l.Label, Provenance: l.Provenance, Hypothetical: l.Hypothetical != ""}
	for _, r := range rates {
		p, err := ttft.Project(s.Under(r, 0), l)
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
