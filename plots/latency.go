package plots

import (
	"math"

	"hopbench/results"
)

// Latency draws the median latency against size with the band of its 95 % interval, and p99 where a panel has at most four
// paths and the samples suffice: a panel for each definition, operation and direction. Runs without any latency are ErrEmpty.
func Latency(runs []results.Run, o Options) (*Figure, error) {
	g, err := gather(runs, func(c *results.Cell) bool { return c.Latency != nil })
	if err != nil {
		return nil, err
	}
	f := newFigure(o, "Latency by size", "Line: median of all samples. Band: 95 % interval of the median. Dotted: p99, where there are samples enough.")
	panels, common, notes := sweepPanels(g, quantity{
		name: "latency (seconds)", axis: "Latency", tick: timeLabel, side: "p99",
		value: func(c *results.Cell) (float64, *float64, *float64, bool) {
			l := c.Latency
			if l.P50Seconds == nil {
				return 0, nil, nil, false
			}
			return *l.P50Seconds, l.P50LowSeconds, l.P50HighSeconds, true
		},
		aside: func(c *results.Cell) (float64, bool) {
			if c.Latency.P99Seconds == nil {
				return 0, false
			}
			return *c.Latency.P99Seconds, true
		},
	}, f.theme)
	if len(panels) == 0 {
		return nil, g.empty("latency")
	}
	f.panels, f.Caption = panels, g.caption(notes, common)
	return f, nil
}

func floorLog10(v float64) float64 { return math.Floor(math.Log10(v) + 1e-9) }

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }
