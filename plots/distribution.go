package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/stat"
	"hopbench/results/unit"
)

// Distribution draws the empirical distribution of latency: which part of the operations took no longer than a time, over all
// samples of a cell, on an axis that gives each nine the same room, so that the tail is seen. A panel shows one definition,
// operation, direction and size; of many sizes the least and the greatest are drawn. Runs without any distribution are ErrEmpty.
func Distribution(runs []results.Run, o Options) (*Figure, error) {
	g, err := gather(runs, func(c *results.Cell) bool { return c.Latency != nil && c.Latency.Distribution != "" })
	if err != nil {
		return nil, err
	}
	f := newFigure(o, "Distribution of latency", "Part of the operations that took no longer. Each nine of the axis has the same room.")
	type key struct {
		family family
		size   int64
	}
	var families []family
	sizes := map[family][]int64{}
	for _, e := range g.entries {
		k := family{e.Definition, e.Operation, e.Direction}
		if sizes[k] == nil {
			families = append(families, k)
		}
		if !slices.Contains(sizes[k], e.TotalBytes) {
			sizes[k] = append(sizes[k], e.TotalBytes)
		}
	}
	slices.SortStableFunc(families, func(a, b family) int {
		return cmp.Or(cmp.Compare(rank(a.operation), rank(b.operation)), cmp.Compare(rankDirection(a.direction), rankDirection(b.direction)), cmp.Compare(a.definition, b.definition))
	})
	var keys []key
	skipped := 0
	for _, k := range families {
		slices.Sort(sizes[k])
		n := len(sizes[k])
		keys = append(keys, key{k, sizes[k][0]})
		if n > 1 {
			keys = append(keys, key{k, sizes[k][n-1]})
		}
		skipped += max(0, n-2)
	}
	var notes []string
	if skipped > 0 {
		notes = append(notes, fmt.Sprintf("Of each operation the least and the greatest size are drawn, %d between them are not; choose with --cells.", skipped))
	}
	if len(keys) > mostPanels {
		notes = append(notes, fmt.Sprintf("Not drawn for want of room: %s more; choose with --cells.", unit.Count(len(keys)-mostPanels, "panel")))
		keys = keys[:mostPanels]
	}
	rows := rowsOf(g.entries)
	common := label(rows)
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	bad, lost := 0, 0
	var charts []*chart
	for _, k := range keys {
		c := &chart{title: k.family.title("Latency") + ", " + unit.Bytes(k.size), xName: "latency (seconds)", yName: "part of the operations", body: 104}
		for _, r := range rows {
			if r.family != k.family {
				continue
			}
			for _, e := range r.entries {
				if e.TotalBytes != k.size {
					continue
				}
				h, err := e.Latency.Histogram()
				if err != nil || h.Count() == 0 {
					bad++
					continue
				}
				if len(c.lines) >= mostLines {
					lost++
					continue
				}
				l := f.theme.look(slices.Index(names, r.name))
				l.hollow = hollow(e)
				c.lines = append(c.lines, line{label: r.name, look: l, points: steps(h), steps: true})
			}
		}
		if len(c.lines) > 0 {
			charts = append(charts, c)
		}
	}
	if bad > 0 {
		notes = append(notes, "Could not be read: "+unit.Count(bad, "distribution")+".")
	}
	if lost > 0 {
		notes = append(notes, fmt.Sprintf("%d more series are not drawn; choose with --cells.", lost))
	}
	if len(charts) == 0 {
		return nil, g.empty("distribution of latency")
	}
	var xs []float64
	most := 0.0
	for _, c := range charts {
		for _, l := range c.lines {
			for _, p := range l.points {
				xs = append(xs, p.X)
				most = max(most, nines(p.Y))
			}
		}
	}
	for i, c := range charts {
		c.x, c.y = decadeScale(xs, timeTick), nineScale(int(math.Ceil(most)))
		if i == len(charts)-1 {
			c.xTitle = "latency"
		}
		f.panels = append(f.panels, c)
	}
	f.Caption = g.caption(notes, common)
	return f, nil
}

// steps are the corners of a histogram's distribution. The last sample, beyond which nothing is, stands half a sample below 1.
// Corners that no eye can tell from the one before are left out.
func steps(h *stat.Histogram) []Point {
	n := float64(h.Count())
	var out []Point
	seen := int64(0)
	bars := h.Bars()
	for i, b := range bars {
		if i == 0 {
			x := (b.From + b.To) / 2
			out = append(out, Point{X: x, Y: 0, XLabel: unit.Seconds(x), YLabel: "0 %"})
		}
		seen += b.Count
		x, q := (b.From+b.To)/2, float64(seen)/n
		if seen >= h.Count() {
			q = 1 - 0.5/n
		}
		last := out[len(out)-1]
		if i < len(bars)-1 && x < last.X*1.003 && nines(q) < nines(last.Y)+0.01 {
			continue
		}
		out = append(out, Point{X: x, Y: q, XLabel: unit.Seconds(x), YLabel: percent(q)})
	}
	return out
}

func nines(q float64) float64 { return -math.Log10(1 - q) }

// nineScale is an axis of parts from 0 to that many nines.
func nineScale(n int) scale {
	n = min(max(n, 1), 12)
	s := scale{min: 0, max: 1 - pow10(-float64(n)), curve: nines}
	for i := 0; i <= n; i++ {
		q := 1 - pow10(-float64(i))
		s.ticks = append(s.ticks, tick{at: q, label: percent(q)})
		if i == 0 {
			s.ticks = append(s.ticks, tick{at: 0.5, label: "50 %", fill: true})
		}
	}
	return s
}

// percent prints a part with as many digits as its nines need.
func percent(q float64) string {
	digits := 1
	if q > 0.9 && q < 1 {
		digits = max(1, int(math.Ceil(nines(q)-1e-9))-1)
	}
	text := strconv.FormatFloat(q*100, 'f', digits, 64)
	return strings.TrimSuffix(trimZeros(text), ".") + " %"
}

func trimZeros(text string) string {
	if strings.Contains(text, ".") {
		return strings.TrimRight(text, "0")
	}
	return text
}
