package curve

import (
	"errors"
	"slices"

	"hopbench/results"
)

// Held is one measured request of many pieces beside what a curve says of it.
type Held struct {
	Cell results.Cell
	// Measured is seconds of a request while all of its burst run, with its bounds where they are known (else equal to it).
	Measured, Low, High float64
	// Projected is the curve's answer. Refused says why there is none, or which part of the answer was not measured.
	Projected Answer
	Refused   string
}

// Ratio is projected over measured; 0 without a projection.
func (h Held) Ratio() float64 {
	if !(h.Projected.Seconds > 0) || !(h.Measured > 0) {
		return 0
	}
	return h.Projected.Seconds / h.Measured
}

// Hold projects the measured requests of cells (those that carry a request's name, in pieces) from the cells of a sweep of the same path
// and operation, which must not be among them: else a cell would answer for itself.
func Hold(cells, sweep []results.Cell) ([]Held, error) {
	sweep = slices.DeleteFunc(slices.Clone(sweep), func(c results.Cell) bool { return c.Settings["request"] != "" })
	curves, _, err := FromCells(sweep)
	if err != nil {
		return nil, err
	}
	var out []Held
	for i := range cells {
		c := &cells[i]
		if c.Settings["request"] == "" || c.Descriptors <= 1 {
			continue
		}
		h := Held{Cell: *c}
		p, _, reason := point(c)
		if reason != "" || p.Rate {
			if reason == "" {
				reason = "several requests in flight on a stream: their bandwidth says nothing of one"
			}
			h.Refused = reason
			out = append(out, h)
			continue
		}
		h.Measured, h.Low, h.High = p.Seconds, p.Seconds, p.Seconds
		if p.Low > 0 && p.High >= p.Low {
			h.Low, h.High = p.Low, p.High
		}
		o := origin(c)
		at := slices.IndexFunc(curves, func(c *Curve) bool { return c.Origin.key() == o.key() })
		if at < 0 {
			h.Refused = "the sweep has nothing of this path and operation"
			out = append(out, h)
			continue
		}
		shape := []Shape{{PieceBytes: p.PieceBytes, Count: p.Descriptors}}
		if len(p.Mix) > 1 {
			shape = p.Mix
		}
		h.Projected, err = curves[at].At(shape, p.Parallel, true)
		var outside *Outside
		if errors.As(err, &outside) {
			h.Refused = outside.What
			h.Projected, err = curves[at].At(shape, p.Parallel, false)
		}
		if err != nil {
			h.Refused = err.Error()
		}
		out = append(out, h)
	}
	return out, nil
}
