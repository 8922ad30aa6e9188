package ask

import (
	"fmt"
	"math"

	"hopbench/bench/ttft"
	"hopbench/bench/ttft/link"
)

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
func Crossings(s *ttft.Scenario, a, b *link.Link, low, high int) ([]Crossing, error) {
	if low < 1 || high < low || high > ttft.MaxTokens {
		return nil, fmt.Errorf("crossings: lengths from %d to %d", low, high)
	}
	diff := func(n int) (float64, float64, error) {
		x, err := ttft.Alone(s, a, n)
		if err != nil {
			return 0, 0, err
		}
		y, err := ttft.Alone(s, b, n)
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
