package plots

import (
	"hopbench/results"
	"hopbench/results/unit"
)

// Bandwidth draws bandwidth against size: a panel for each definition, operation and direction, in it a line for each path with
// the band of its 95 % interval, and the physical limits that the cells know. Runs without any bandwidth are ErrEmpty.
func Bandwidth(runs []results.Run, o Options) (*Figure, error) {
	g, err := gather(runs, func(c *results.Cell) bool { return c.Bandwidth != nil })
	if err != nil {
		return nil, err
	}
	f := newFigure(o, "Bandwidth by size", "Line: median of the rounds. Band: its 95 % interval. GB is 10^9 bytes.")
	panels, common, notes := sweepPanels(g, quantity{
		name: "bandwidth (bytes/s)", axis: "Bandwidth", tick: rateLabel, limit: true,
		value: func(c *results.Cell) (float64, *float64, *float64, bool) {
			b := c.Bandwidth
			return b.BytesPerSecond, b.Low, b.High, true
		},
	}, f.theme)
	if len(panels) == 0 {
		return nil, g.empty("bandwidth")
	}
	f.panels, f.Caption = panels, g.caption(notes, common)
	return f, nil
}

// rateLabel prints ticks without needless digits and values with three.
func rateLabel(v float64) string {
	if round(v) {
		return rateTick(v)
	}
	return unit.Rate(v)
}

func timeLabel(v float64) string {
	if round(v) {
		return timeTick(v)
	}
	return unit.Seconds(v)
}

// round reports whether v is a single digit times a power of ten.
func round(v float64) bool {
	if !(v > 0) || !finite(v) {
		return v == 0
	}
	d := v / pow10(floorLog10(v))
	return near(d, float64(int(d+0.5)))
}
