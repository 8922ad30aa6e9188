package curve

import (
	"math"

	"hopbench/results"
)

const (
	leastTimes = 20  // from so many requests on a spread says something
	mostTimes  = 512 // of one cell: a page need not carry more
)

// Times are a cell's times of single requests in seconds as the spread is taken from them: at most 512, drawn evenly, of requests of many
// pieces that had the link to themselves. Nil for any other cell.
func Times(c *results.Cell) []float64 {
	if c.Concurrency > 1 || c.Depth > 1 || c.Streams > 1 || c.Descriptors <= 1 || len(c.RequestSeconds) == 0 {
		return nil
	}
	if len(c.RequestSeconds) <= mostTimes {
		return c.RequestSeconds
	}
	out := make([]float64, mostTimes)
	for i := range out {
		out[i] = c.RequestSeconds[i*len(c.RequestSeconds)/mostTimes]
	}
	return out
}

// spread pools the deviations of requests from the mean of their own cell, in logarithms.
type spread struct {
	squares        float64
	samples, cells int
}

func (s *spread) add(times []float64) {
	mean := 0.0
	for _, t := range times {
		if !(t > 0) || math.IsInf(t, 0) {
			return
		}
		mean += math.Log(t) / float64(len(times))
	}
	if len(times) < 2 {
		return
	}
	for _, t := range times {
		d := math.Log(t) - mean
		s.squares += d * d
	}
	s.samples, s.cells = s.samples+len(times), s.cells+1
}

// Spread is how much the times of requests alone on the path differ: the standard deviation of their logarithms (sigma of a lognormal),
// within cells, and how many requests it is from. ok is false below 20 of them.
func (c *Curve) Spread() (sigma float64, requests int, ok bool) {
	if c.spread.samples < leastTimes {
		return 0, c.spread.samples, false
	}
	return math.Sqrt(c.spread.squares / float64(c.spread.samples-c.spread.cells)), c.spread.samples, true
}
