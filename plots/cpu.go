package plots

import "hopbench/results"

// CPU draws the CPU seconds that 10^9 bytes of payload cost against their size: of the two processes together, and dotted of all
// CPUs of the hosts, which also counts the kernel's work for nobody in particular. Runs without any are ErrEmpty.
func CPU(runs []results.Run, o Options) (*Figure, error) {
	g, err := gather(runs, func(c *results.Cell) bool { return c.Bandwidth != nil && c.CPU != nil })
	if err != nil {
		return nil, err
	}
	f := newFigure(o, "CPU seconds per GB by size", "Line: both processes together (one where a transport has one). Dotted: all CPUs of the hosts. GB is 10^9 bytes.")
	panels, common, notes := sweepPanels(g, quantity{
		name: "CPU (seconds for 10^9 bytes)", axis: "CPU", tick: cpuLabel, side: "all CPUs of the hosts",
		value: func(c *results.Cell) (float64, *float64, *float64, bool) {
			v := c.CPU.InitiatorSecondsPerGigabyte
			if v == nil {
				return 0, nil, nil, false
			}
			sum := *v
			if t := c.CPU.TargetSecondsPerGigabyte; t != nil {
				sum += *t
			}
			return sum, nil, nil, true
		},
		aside: func(c *results.Cell) (float64, bool) {
			if c.CPU.HostSecondsPerGigabyte == nil {
				return 0, false
			}
			return *c.CPU.HostSecondsPerGigabyte, true
		},
	}, f.theme)
	if len(panels) == 0 {
		return nil, g.empty("CPU seconds per GB")
	}
	f.panels, f.Caption = panels, g.caption(notes, common)
	return f, nil
}

func cpuLabel(v float64) string { return timeLabel(v) + "/GB" }
