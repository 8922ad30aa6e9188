package table

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"hopbench/results"
	"hopbench/results/unit"
)

// details are the tables of what stands beside the figures: costs that are paid once, phases of staged transfers,
// CPU, and what the sockets said. Each is there only where a cell has something for it.
func details(items []item) []*Table {
	var out []*Table
	for _, t := range []*Table{cold(items), phases(items), cpuTable(items), sockets(items)} {
		if t != nil {
			out = append(out, t)
		}
	}
	return out
}

// column is one figure of a details table.
type column struct {
	head string
	get  func(c item) *float64
}

// plainTable is a row a cell, with the columns that any cell has a value for. scale is over all values; a nil scale prints
// figures as they are.
func plainTable(title string, items []item, columns []column, scale func([]float64) unit.Scale) *Table {
	columns = slices.DeleteFunc(slices.Clone(columns), func(col column) bool {
		return !slices.ContainsFunc(items, func(c item) bool { return col.get(c) != nil })
	})
	var rows []item
	var all []float64
	for _, c := range items {
		has := false
		for _, col := range columns {
			if v := col.get(c); v != nil {
				has, all = true, append(all, *v)
			}
		}
		if has {
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 {
		return nil
	}
	t := &Table{Title: title, Columns: []Column{{Head: "path"}, {Head: "operation"}, {Head: "size", Align: Right}}}
	by := unit.Scale{Worth: 1}
	if scale != nil {
		by = scale(all)
	}
	for _, col := range columns {
		// A group of its own lets a wide table be split.
		t.Columns = append(t.Columns, Column{Group: col.head, Head: by.Unit, Align: Decimal})
	}
	_, varying := compare(rows)
	for _, c := range rows {
		row := []Cell{{Text: headOf(c, varying)}, {Text: c.Operation}, {Text: size(c.TotalBytes)}}
		for _, col := range columns {
			cell := Cell{Text: "-"}
			if v := col.get(c); v != nil {
				cell.Text = by.Format(*v)
				if scale == nil && *v == math.Trunc(*v) {
					cell.Text = strconv.FormatFloat(*v, 'f', -1, 64) // a count
				}
			}
			row = append(row, cell)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

func cold(items []item) *Table {
	get := func(of func(c *results.Cold) *float64) func(c item) *float64 {
		return func(c item) *float64 {
			if c.Cold == nil {
				return nil
			}
			return of(c.Cold)
		}
	}
	return plainTable("Paid once, outside every clock (cold)", items, []column{
		{"open", get(func(c *results.Cold) *float64 { return c.Open })},
		{"allocate", get(func(c *results.Cold) *float64 { return c.Allocate })},
		{"register", get(func(c *results.Cold) *float64 { return c.Register })},
		{"connect", get(func(c *results.Cold) *float64 { return c.Connect })},
		{"descriptors", get(func(c *results.Cold) *float64 { return c.Descriptors })},
		{"first use", get(func(c *results.Cold) *float64 { return c.FirstUse })},
	}, unit.TimeScale)
}

func phases(items []item) *Table {
	names := map[string]bool{}
	for _, c := range items {
		for name := range c.PhasesSeconds {
			names[name] = true
		}
	}
	order := []string{"device_to_host", "wire", "host_to_device", "sum", "overlapped"}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	var columns []column
	for _, name := range order {
		columns = append(columns, column{name, func(c item) *float64 {
			if v, ok := c.PhasesSeconds[name]; ok {
				return &v
			}
			return nil
		}})
	}
	return plainTable("Phases of one operation", items, columns, unit.TimeScale)
}

func cpuTable(items []item) *Table {
	get := func(of func(c *results.CPU) *float64) func(c item) *float64 {
		return func(c item) *float64 {
			if c.CPU == nil {
				return nil
			}
			return of(c.CPU)
		}
	}
	return plainTable("CPU seconds for 10^9 bytes", items, []column{
		{"initiator", get(func(c *results.CPU) *float64 { return c.InitiatorSecondsPerGigabyte })},
		{"target", get(func(c *results.CPU) *float64 { return c.TargetSecondsPerGigabyte })},
		{"host, everything", get(func(c *results.CPU) *float64 { return c.HostSecondsPerGigabyte })},
	}, func([]float64) unit.Scale { return unit.Scale{Unit: "s/GB", Worth: 1} })
}

func sockets(items []item) *Table {
	get := func(of func(i *results.TCPInfo) *float64) func(c item) *float64 {
		return func(c item) *float64 {
			if c.TCP == nil {
				return nil
			}
			sender := c.TCP.Initiator
			if c.Operation == "read" && c.TCP.Target != nil {
				sender = c.TCP.Target // the target sends what is read
			}
			if sender == nil {
				return nil
			}
			return of(sender)
		}
	}
	whole := func(n *int64) *float64 {
		if n == nil {
			return nil
		}
		v := float64(*n)
		return &v
	}
	micro := func(v *float64) *float64 {
		if v == nil {
			return nil
		}
		u := *v * 1e6
		return &u
	}
	return plainTable("What the sending sockets said (tcp_info)", items, []column{
		{"retransmits", get(func(i *results.TCPInfo) *float64 { return whole(i.Retransmits) })},
		{"rtt µs", get(func(i *results.TCPInfo) *float64 { return micro(i.RTTSeconds) })},
		{"cwnd segments", get(func(i *results.TCPInfo) *float64 { return whole(i.CwndSegments) })},
		{"sndbuf bytes", get(func(i *results.TCPInfo) *float64 { return whole(i.SndbufGotBytes) })},
		{"rcvbuf bytes", get(func(i *results.TCPInfo) *float64 { return whole(i.RcvbufGotBytes) })},
	}, nil)
}

// intervalTable is the lines of runs that went on until they were stopped.
func intervalTable(runs []results.Run) *Table {
	var rates []float64
	for _, r := range runs {
		for _, v := range r.Intervals {
			rates = append(rates, v.BytesPerSecond)
		}
	}
	if len(rates) == 0 {
		return nil
	}
	scale := unit.RateScale(rates)
	t := &Table{Title: "Intervals", Columns: []Column{{Head: "path"}, {Head: "from s", Align: Decimal}, {Head: "for s", Align: Decimal}, {Head: scale.Unit, Align: Decimal}, {Head: "p50 µs", Align: Decimal},
		{Head: "p99 µs", Align: Decimal}, {Head: "retransmits", Align: Right}}}
	micro := func(v *float64) Cell {
		if v == nil {
			return Cell{Text: "-"}
		}
		return Cell{Text: unit.Number(*v / 1e-6)}
	}
	for _, r := range runs {
		for _, v := range r.Intervals {
			name := v.Label
			if name == "" {
				name = v.Transport
			}
			retransmits := "-"
			if v.Retransmits != nil {
				retransmits = fmt.Sprint(*v.Retransmits)
			}
			var marks []int
			for _, w := range v.Warnings {
				marks = append(marks, t.Note(w))
			}
			t.Rows = append(t.Rows, []Cell{{Text: name}, {Text: unit.Number(v.StartSeconds)}, {Text: unit.Number(v.Seconds)}, {Text: scale.Format(v.BytesPerSecond), Marks: marks},
				micro(v.P50Seconds), micro(v.P99Seconds), {Text: retransmits}})
		}
	}
	return t
}
