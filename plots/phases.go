package plots

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// Phases draws where the time of staged transfers went: a bar for each cell that has phases, in seconds a GB of payload where
// the record says how much was moved. The tick is the time that passed: the further left of the bar's end, the more of staging
// was hidden. Runs without any phases are ErrEmpty.
func Phases(runs []results.Run, o Options) (*Figure, error) {
	g, err := gather(runs, func(c *results.Cell) bool { return len(phasesOf(c)) > 0 })
	if err != nil {
		return nil, err
	}
	if len(g.entries) == 0 {
		return nil, fmt.Errorf("phases of staged transfers: %w: it takes rows of GPU memory that was staged through the host, such as those of hopbench run --transport tcp --mem cuda:0", ErrEmpty)
	}
	f := newFigure(o, "Phases of staged transfers", "Bar: each phase by itself, over all rounds. Tick: the time that passed, as phases overlap.")
	rows := rowsOf(g.entries)
	common := label(rows)
	known := []string{"device_to_host", "wire", "host_to_device"}
	var families []family
	by := map[family][]bar{}
	parts := map[family][]string{}
	for _, r := range rows {
		if !slices.Contains(families, r.family) {
			families = append(families, r.family)
		}
		for _, e := range r.entries {
			for _, n := range phasesOf(e.Cell) {
				if !slices.Contains(parts[r.family], n) {
					parts[r.family] = append(parts[r.family], n)
				}
			}
		}
	}
	for _, k := range families {
		slices.SortStableFunc(parts[k], func(a, b string) int { return place(known, a) - place(known, b) })
	}
	lost := 0
	for _, r := range rows {
		for _, e := range r.entries {
			if len(by[r.family]) >= 40 {
				lost++
				continue
			}
			b := bar{label: r.name + ", " + unit.Bytes(e.TotalBytes)}
			moved := gigabytes(e.Cell)
			for _, n := range parts[r.family] {
				b.values = append(b.values, e.PhasesSeconds[n]/moved)
			}
			if v, ok := e.PhasesSeconds["overlapped"]; ok {
				v /= moved
				b.mark = &v
			}
			by[r.family] = append(by[r.family], b)
		}
	}
	perGB := true
	for _, e := range g.entries {
		perGB = perGB && gigabytes(e.Cell) != 1
	}
	for _, k := range families {
		s := &stacks{title: k.title("Phases"), xName: "time (seconds)", xTitle: "time", bars: by[k], total: unit.Seconds}
		if perGB {
			s.xName, s.xTitle = "time (seconds for 10^9 bytes)", "time for each GB of payload"
		}
		for _, n := range parts[k] {
			s.parts = append(s.parts, strings.ReplaceAll(clean(n), "_", " "))
		}
		var sums []float64
		for _, b := range s.bars {
			sums = append(sums, b.sum())
			if b.mark != nil {
				sums = append(sums, *b.mark)
			}
		}
		s.x = linearScale(sums, true, 6, timeTick)
		f.panels = append(f.panels, s)
	}
	var notes []string
	if lost > 0 {
		notes = append(notes, fmt.Sprintf("%d more bars are not drawn; choose with --cells.", lost))
	}
	f.Caption = g.caption(notes, common)
	return f, nil
}

// gigabytes is what the rounds of a cell moved, in 10^9 bytes, or 1 where the record does not say.
func gigabytes(c *results.Cell) float64 {
	if c.Bandwidth == nil {
		return 1
	}
	n := 0.0
	for _, ops := range c.Bandwidth.RoundsOperations {
		n += float64(ops) * float64(c.TotalBytes)
	}
	if !(n > 0) {
		return 1
	}
	return n / 1e9
}

// phasesOf lists the phases of a cell by name, without their sum and the time that passed.
func phasesOf(c *results.Cell) []string {
	var out []string
	for _, n := range slices.Sorted(maps.Keys(c.PhasesSeconds)) {
		if v := c.PhasesSeconds[n]; n != "sum" && n != "overlapped" && v > 0 && finite(v) {
			out = append(out, n)
		}
	}
	return out
}

func place(list []string, s string) int {
	if i := slices.Index(list, s); i >= 0 {
		return i
	}
	return len(list)
}
