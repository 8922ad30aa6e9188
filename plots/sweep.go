package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// quantity is what a sweep over sizes draws of each cell.
type quantity struct {
	name  string // for the list, with the unit: "bandwidth (bytes/s)"
	axis  string // for a panel's title: "Bandwidth"
	tick  func(float64) string
	value func(*results.Cell) (v float64, low, high *float64, ok bool)
	aside func(*results.Cell) (v float64, ok bool) // a second line of the same series, or nil
	side  string                                   // what that is: "p99"
	limit bool                                     // draw the physical bound
}

// family is what one panel shows: rows of one definition only.
type family struct{ definition, operation, direction string }

func (f family) title(axis string) string {
	parts := []string{axis}
	for _, s := range []string{clean(f.operation), directionText(f.direction)} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	text := strings.Join(parts, ", ")
	if f.definition != "" {
		text += " (" + clean(f.definition) + ")"
	}
	return text
}

const (
	mostPanels = 9  // of a figure
	mostLines  = 24 // of a panel
)

// row is one series of a sweep before it has a label.
type row struct {
	family  family
	name    string
	words   []string
	entries []entry
}

// sweepPanels makes a panel of each definition, operation and direction. notes go into the caption; common is what all the
// series share.
func sweepPanels(g *gathered, q quantity, t *theme) (panels []panel, common, notes []string) {
	rows := rowsOf(g.entries)
	common = label(rows)
	// The look of a series is that of its label, in all panels.
	var names []string
	for _, r := range rows {
		if !slices.Contains(names, r.name) {
			names = append(names, r.name)
		}
	}
	var families []family
	by := map[family][]*row{}
	for _, r := range rows {
		if by[r.family] == nil {
			families = append(families, r.family)
		}
		by[r.family] = append(by[r.family], r)
	}
	slices.SortStableFunc(families, func(a, b family) int {
		return cmp.Or(cmp.Compare(rank(a.operation), rank(b.operation)), cmp.Compare(rankDirection(a.direction), rankDirection(b.direction)), cmp.Compare(a.definition, b.definition))
	})
	hidden := 0
	var charts []*chart
	for _, f := range families {
		c := &chart{title: f.title(q.axis), xName: "size (bytes)", yName: q.name}
		lost := 0
		for _, r := range by[f] {
			if len(c.lines) >= mostLines {
				lost++
				continue
			}
			l := t.look(slices.Index(names, r.name))
			l.hollow = hollow(r.entries[0])
			switch r.entries[0].Provenance {
			case results.FromSource:
				l.dashes = dashed
			case results.Projected:
				l.dashes = dotted
			}
			main := line{label: r.name, look: l}
			side := line{label: r.name + ", " + q.side, look: l, plain: true}
			side.look.dashes = dotted
			for _, e := range r.entries {
				x := float64(e.TotalBytes)
				v, low, high, ok := q.value(e.Cell)
				if !ok || !finite(v) || v <= 0 || x <= 0 {
					hidden++
					continue
				}
				main.points = append(main.points, Point{X: x, Y: v, Low: low, High: high, XLabel: unit.Bytes(e.TotalBytes), YLabel: q.tick(v)})
				if q.aside != nil {
					if v, ok := q.aside(e.Cell); ok && finite(v) && v > 0 {
						side.points = append(side.points, Point{X: x, Y: v, XLabel: unit.Bytes(e.TotalBytes), YLabel: q.tick(v)})
					}
				}
			}
			if len(main.points) == 0 {
				continue
			}
			if len(side.points) > 0 && len(by[f]) <= 4 {
				c.lines = append(c.lines, side)
			}
			c.lines = append(c.lines, main)
			if q.limit {
				c.bound(r.entries)
			}
		}
		if lost > 0 {
			notes = append(notes, fmt.Sprintf("%s: series that are not drawn: %d more; choose among them with --cells.", c.title, lost))
		}
		if len(c.lines) > 0 {
			charts = append(charts, c)
		}
	}
	if hidden > 0 {
		notes = append(notes, "Not drawn for want of a positive value: "+unit.Count(hidden, "cell")+".")
	}
	if len(charts) > mostPanels {
		var left []string
		for _, c := range charts[mostPanels:] {
			left = append(left, c.title)
		}
		notes = append(notes, fmt.Sprintf("Not drawn for want of room (choose with --cells): %s.", strings.Join(first(left, 4), "; ")))
		charts = charts[:mostPanels]
	}
	scales(charts, q.tick)
	for _, c := range charts {
		panels = append(panels, c)
	}
	return panels, common, notes
}

// scales gives all charts the same axes, so that they can be compared by eye, and names the horizontal one under the last.
func scales(charts []*chart, tick func(float64) string) {
	var xs, ys []float64
	for _, c := range charts {
		for _, l := range c.lines {
			for _, p := range l.points {
				xs, ys = append(xs, p.X), append(ys, p.Y)
				// A bound that is far off the value (a first round that stalled) would flatten everything: the band is cut.
				if p.Low != nil && finite(*p.Low) && *p.Low > p.Y/10 {
					ys = append(ys, *p.Low)
				}
				if p.High != nil && finite(*p.High) && *p.High < p.Y*10 {
					ys = append(ys, *p.High)
				}
			}
		}
		for _, l := range c.limits {
			ys = append(ys, l.y)
		}
	}
	for i, c := range charts {
		c.x, c.y = byteScale(xs, 8), decadeScale(ys, tick)
		if i == len(charts)-1 {
			c.xTitle = "size of one operation"
		}
	}
}

// bound adds the physical limits of the cells, each once.
func (c *chart) bound(entries []entry) {
	for _, e := range entries {
		if e.Limit == nil || e.Limit.BytesPerSecond == nil || !finite(*e.Limit.BytesPerSecond) || *e.Limit.BytesPerSecond <= 0 {
			continue
		}
		l := limit{label: "limit " + unit.Rate(*e.Limit.BytesPerSecond) + ": " + clean(e.Limit.Source), y: *e.Limit.BytesPerSecond}
		if e.Direction == "both" {
			l.label += " (one way)"
		}
		if !slices.Contains(c.limits, l) && len(c.limits) < 6 {
			c.limits = append(c.limits, l)
		}
	}
}

func hollow(e entry) bool {
	return e.Realm == results.RealmSoftware || e.Realm == results.RealmEmulated
}

func rank(operation string) int {
	if i := slices.Index([]string{"write", "read", "send"}, operation); i >= 0 {
		return i
	}
	return 3
}

func rankDirection(d string) int {
	if i := slices.Index([]string{"forward", "reverse", "both"}, d); i >= 0 {
		return i
	}
	return 3
}

// rowsOf groups cells into series: all that differ in nothing but the size. Where one size came twice, the runs are told apart;
// where it came twice in one run, the second, third … are series of their own.
func rowsOf(entries []entry) []*row {
	type key struct {
		family family
		name   string
		words  string
		run    *results.Run
		again  int
	}
	type place struct {
		key  key
		size int64
	}
	build := func(byRun bool) (rows []*row, clash bool) {
		index := map[key]*row{}
		taken := map[place]int{}
		for _, e := range entries {
			words := attributes(e)
			k := key{family: family{e.Definition, e.Operation, e.Direction}, name: name(e), words: strings.Join(words, "\x00")}
			if byRun {
				k.run = e.run
			}
			at := place{k, e.TotalBytes}
			k.again = taken[at]
			taken[at]++
			clash = clash || k.again > 0
			r := index[k]
			if r == nil {
				r = &row{family: k.family, name: k.name, words: words}
				if byRun {
					r.words = append(r.words, runName(e.run))
				}
				if k.again > 0 {
					r.words = append(r.words, fmt.Sprintf("(%d)", k.again+1))
				}
				index[k] = r
				rows = append(rows, r)
			}
			r.entries = append(r.entries, e)
		}
		return rows, clash
	}
	rows, clash := build(false)
	if clash {
		rows, _ = build(true)
	}
	for _, r := range rows {
		slices.SortStableFunc(r.entries, func(a, b entry) int { return cmp.Compare(a.TotalBytes, b.TotalBytes) })
	}
	return rows
}

// label puts into each row's name the words that not all rows share, and returns those that all do.
func label(rows []*row) (common []string) {
	if len(rows) == 0 {
		return nil
	}
	longest := 0
	for _, r := range rows {
		longest = max(longest, len(r.words))
	}
	for i := range longest {
		word := func(r *row) string {
			if i < len(r.words) {
				return r.words[i]
			}
			return ""
		}
		same := true
		for _, r := range rows {
			same = same && word(r) == word(rows[0])
		}
		if same {
			if w := word(rows[0]); w != "" {
				common = append(common, w)
			}
			continue
		}
		for _, r := range rows {
			if w := word(r); w != "" {
				r.name += ", " + w
			}
		}
	}
	return common
}
