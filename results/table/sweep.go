package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// A shape is what one row of a sweep is about.
type shape struct {
	total, descriptors, piece int64
	pattern                   string
}

func shapeOf(c item) shape {
	if c.Descriptors <= 1 {
		return shape{total: c.TotalBytes, descriptors: 1}
	}
	return shape{c.TotalBytes, c.Descriptors, c.PieceBytes, c.Pattern}
}

// sweeps makes a table for each definition, operation and direction: bandwidth first, then latency, then the rest.
func sweeps(items []item) []*Table {
	type family struct{ metric, definition, operation, direction string }
	groups, order := map[family][]item{}, []family{}
	for _, c := range items {
		if c.absent || c.Definition == "" {
			continue // a whole transport that cannot run stands beneath the tables
		}
		f := family{c.Metric(), c.Definition, c.Operation, c.Direction}
		if groups[f] == nil {
			order = append(order, f)
		}
		groups[f] = append(groups[f], c)
	}
	place := func(s string, of ...string) int {
		if i := slices.Index(of, s); i >= 0 {
			return i
		}
		return len(of)
	}
	slices.SortStableFunc(order, func(a, b family) int {
		return cmp.Or(
			cmp.Compare(place(a.metric, "bandwidth", "latency"), place(b.metric, "bandwidth", "latency")),
			cmp.Compare(place(a.operation, "write", "read", "send"), place(b.operation, "write", "read", "send")),
			cmp.Compare(place(a.direction, "forward", "reverse", "both"), place(b.direction, "forward", "reverse", "both")))
	})
	var tables []*Table
	for _, f := range order {
		cells := groups[f]
		t := sweep(cells)
		t.Title = title(f.metric, f.definition, f.operation, f.direction)
		tables = append(tables, t)
	}
	return tables
}

func title(metric, definition, operation, direction string) string {
	way := map[string]string{"forward": "one way", "reverse": "the reverse way", "both": "both ways at once"}[direction]
	name := metric
	if metric != "" {
		name = strings.ToUpper(metric[:1]) + metric[1:]
	}
	parts := []string{name}
	for _, s := range []string{operation, way} {
		if s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, ", ") + " (" + definition + ")"
}

// field is one figure of a cell as a column.
type field struct {
	head  string
	get   func(c item) (value float64, ok bool)
	scale *unit.Scale // nil: percent, as it is
	main  bool        // carries the footnotes; shown even where every cell lacks it
}

func optional(f func(c item) *float64) func(c item) (float64, bool) {
	return func(c item) (float64, bool) {
		if v := f(c); v != nil {
			return *v, true
		}
		return 0, false
	}
}

func sweep(cells []item) *Table {
	t := &Table{}
	common, varying := compare(cells)
	if len(common) > 0 {
		t.Caption = []string{strings.Join(common, ", ")}
	}
	var columns []string // by head, in the order of the cells
	var shapes []shape
	at := map[string]map[shape]item{}
	for _, c := range cells {
		head, s := headOf(c, varying), shapeOf(c)
		if at[head] == nil {
			at[head] = map[shape]item{}
			columns = append(columns, head)
		}
		if _, twice := at[head][s]; twice {
			// The same thing twice in one run: a column of its own, so that neither hides the other.
			for n := 2; ; n++ {
				again := fmt.Sprintf("%s, again %d", head, n)
				if at[again] == nil {
					at[again] = map[shape]item{}
					columns = append(columns, again)
				}
				if _, taken := at[again][s]; !taken {
					head = again
					break
				}
			}
		}
		at[head][s] = c
		if !slices.Contains(shapes, s) {
			shapes = append(shapes, s)
		}
	}
	slices.SortFunc(shapes, func(a, b shape) int {
		return cmp.Or(cmp.Compare(a.total, b.total), cmp.Compare(a.descriptors, b.descriptors), cmp.Compare(a.piece, b.piece), cmp.Compare(a.pattern, b.pattern))
	})

	fields := fieldsOf(cells)
	lists := slices.ContainsFunc(shapes, func(s shape) bool { return s.descriptors > 1 })
	t.Columns = []Column{{Head: "size", Align: Right}}
	if lists {
		t.Columns = append(t.Columns, Column{Head: "pieces"})
	}
	for _, head := range columns {
		for _, f := range fields {
			t.Columns = append(t.Columns, Column{Group: head, Head: f.head, Align: Decimal})
		}
	}
	for _, s := range shapes {
		row := []Cell{{Text: size(s.total)}}
		if lists {
			row = append(row, Cell{Text: pieces(s)})
		}
		for _, head := range columns {
			c, there := at[head][s]
			for _, f := range fields {
				row = append(row, figure(t, c, there, f))
			}
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func pieces(s shape) string {
	if s.descriptors == 1 {
		return "1"
	}
	text := fmt.Sprintf("%d x %s", s.descriptors, size(s.piece))
	if s.piece == 0 || s.piece*s.descriptors != s.total {
		text = fmt.Sprintf("%d, up to %s", s.descriptors, size(s.piece))
	}
	return text + ", " + s.pattern
}

func figure(t *Table, c item, there bool, f field) Cell {
	if !there {
		return Cell{Text: ""}
	}
	if !c.HasFigure() {
		if f.main {
			return figureless(t, c)
		}
		return Cell{}
	}
	v, ok := f.get(c)
	if !ok {
		if f.main {
			return figureless(t, c)
		}
		return Cell{Text: "-"}
	}
	var out Cell
	if f.scale == nil {
		out.Text = unit.Significant(v, 2)
	} else {
		out.Text = f.scale.Format(v)
	}
	if f.main {
		out.Marks = noteFor(t, c)
	}
	return out
}

// fieldsOf are the figures that the cells have, in one scale for all columns.
func fieldsOf(cells []item) []field {
	var all []field
	// Another tool's definition begins with its name: what its cells hold tells what it is.
	times := slices.ContainsFunc(cells, func(c item) bool { return c.Latency != nil }) &&
		!slices.ContainsFunc(cells, func(c item) bool { return c.Bandwidth != nil })
	switch metric := cells[0].Metric(); {
	case metric == "latency" || times:
		middle := optional(func(c item) *float64 {
			switch {
			case c.Latency == nil:
				return nil
			case c.Latency.P50Seconds == nil:
				return c.Latency.MeanSeconds
			}
			return c.Latency.P50Seconds
		})
		scale := unit.TimeScale(values(cells, middle))
		of := func(head string, get func(l *results.Latency) *float64) field {
			return field{head: head + " " + scale.Unit, scale: &scale, get: optional(func(c item) *float64 {
				if c.Latency == nil {
					return nil
				}
				return get(c.Latency)
			})}
		}
		all = []field{
			of("p50", func(l *results.Latency) *float64 { return l.P50Seconds }),
			of("p99", func(l *results.Latency) *float64 { return l.P99Seconds }),
			of("p99.9", func(l *results.Latency) *float64 { return l.P999Seconds }),
			of("max", func(l *results.Latency) *float64 { return l.MaxSeconds }),
		}
		if len(values(cells, all[0].get)) == 0 { // some tools print a mean alone
			if mean := of("mean", func(l *results.Latency) *float64 { return l.MeanSeconds }); len(values(cells, mean.get)) > 0 {
				all = append([]field{mean}, all[1:]...)
			}
		}
	case metric == "rate":
		rate := optional(func(c item) *float64 { return c.MessageRatePerSecond })
		scale := unit.Scale{Unit: "messages/s", Worth: 1}
		all = []field{{head: scale.Unit, scale: &scale, get: rate}}
	default:
		get := func(of func(b *results.Bandwidth) *float64) func(c item) (float64, bool) {
			return optional(func(c item) *float64 {
				if c.Bandwidth == nil {
					return nil
				}
				return of(c.Bandwidth)
			})
		}
		median := get(func(b *results.Bandwidth) *float64 { return &b.BytesPerSecond })
		scale := unit.RateScale(values(cells, median))
		sum := ""
		if cells[0].Direction == "both" {
			sum = "sum "
		}
		all = []field{
			{head: sum + scale.Unit, scale: &scale, get: median},
			{head: "forward", scale: &scale, get: get(func(b *results.Bandwidth) *float64 { return b.ForwardBytesPerSecond })},
			{head: "reverse", scale: &scale, get: get(func(b *results.Bandwidth) *float64 { return b.ReverseBytesPerSecond })},
			{head: "±%", get: get(func(b *results.Bandwidth) *float64 {
				if b.Low == nil || b.High == nil || b.BytesPerSecond == 0 {
					return nil
				}
				v := 100 * max(*b.High-b.BytesPerSecond, b.BytesPerSecond-*b.Low) / b.BytesPerSecond
				return &v
			})},
			{head: "slowest", scale: &scale, get: get(func(b *results.Bandwidth) *float64 { return b.SlowestWindowBytesPerSecond })},
			{head: "% of limit", get: optional(func(c item) *float64 {
				// A software device has no link, so no use of one.
				if c.Realm != results.RealmHardware || c.Bandwidth == nil || c.Limit == nil || c.Limit.BytesPerSecond == nil || !(*c.Limit.BytesPerSecond > 0) {
					return nil
				}
				limit := *c.Limit.BytesPerSecond
				if c.Direction == "both" {
					limit *= 2
				}
				v := 100 * c.Bandwidth.BytesPerSecond / limit
				return &v
			})},
		}
	}
	all[0].main = true
	return slices.DeleteFunc(all, func(f field) bool { return !f.main && len(values(cells, f.get)) == 0 })
}

func values(cells []item, get func(c item) (float64, bool)) []float64 {
	var out []float64
	for _, c := range cells {
		if !c.HasFigure() {
			continue
		}
		if v, ok := get(c); ok {
			out = append(out, v)
		}
	}
	return out
}
