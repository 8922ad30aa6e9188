package table

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/results/unit"
)

// Mesh is the view of a mesh: what is slow, how the figures lie, the matrices, and what flows do to each other.
const Mesh View = "mesh"

// ErrNoPairs is the refusal of the view of a mesh for files without one.
var ErrNoPairs = errors.New("no row is of a pair of hosts: the view mesh is for results of hopbench mesh")

const (
	// mostColumns is the most hosts of a matrix whose figures are spelt out in text and Markdown, and mostMap that of one drawn as a map.
	mostColumns, mostMap = 12, 256
	// mostFlows is how many flows of a load are listed, the slowest first. CSV and JSON have all.
	mostFlows = 16
)

// Meshes makes the tables of a mesh. In text and Markdown large matrices are drawn as maps, a character a pair; CSV and JSON have all figures.
func Meshes(m *matrix.Mesh, j matrix.Judge, f Format) []*Table {
	whole := f == CSV || f == JSON
	reports := m.Reports(j)
	var titles []string
	for _, r := range reports {
		titles = append(titles, r.Title)
	}
	short, common := parts(titles)
	tables := []*Table{suspects(reports, short)}
	if t := spread(reports, short); t != nil {
		tables = append(tables, t)
	}
	if common != "" {
		for _, t := range tables {
			t.Caption = []string{"All: " + common}
		}
	}
	for _, r := range reports {
		hosts := r.Layer.Hosts()
		switch n := len(hosts); {
		case whole || n <= mostColumns:
			tables = append(tables, figures(r, hosts))
		case n <= mostMap:
			tables = append(tables, drawn(r, hosts, j.MinEffect))
		default:
			tables = append(tables, &Table{Title: "Pairs: " + r.Title, Columns: []Column{{Head: "ranks", Align: Right}}, Rows: [][]Cell{{{Text: strconv.Itoa(n)}}},
				Below: []string{fmt.Sprintf("A map of more than %d ranks is not drawn: --format csv has the figures.", mostMap)}})
		}
	}
	loads := m.Loads()
	if len(loads) > 0 {
		tables = append(tables, loadTable(loads))
	}
	for _, l := range loads {
		tables = append(tables, flowTable(l, whole))
	}
	return tables
}

// parts are titles without what all of them have in common, and that. What kind of figure it is stays.
func parts(titles []string) (short []string, common string) {
	var all []string
	lists := make([][]string, len(titles))
	for i, t := range titles {
		lists[i] = strings.Split(t, ", ")
	}
	for i := range lists {
		short = append(short, strings.Join(slices.DeleteFunc(slices.Clone(lists[i]), func(p string) bool {
			every := p != lists[i][0] && !slices.ContainsFunc(lists, func(l []string) bool { return !slices.Contains(l, p) })
			if every && !slices.Contains(all, p) {
				all = append(all, p)
			}
			return every
		}), ", "))
	}
	return short, strings.Join(all, ", ")
}

// meshTables is the view of runs: each run is a mesh of its own.
func meshTables(runs []results.Run, o Options) ([]*Table, error) {
	var tables []*Table
	names := runNames(runs)
	for i := range runs {
		m, err := matrix.Of(matrix.Options{Hosts: matrix.Ranks(&runs[i])}, runs[i])
		if err != nil {
			return nil, err
		}
		if len(m.Layers()) == 0 {
			continue
		}
		for _, t := range Meshes(m, o.Judge, o.Format) {
			if names[i] != "" {
				t.Title = names[i] + ": " + t.Title
			}
			tables = append(tables, t)
		}
	}
	if len(tables) == 0 {
		return nil, ErrNoPairs
	}
	return tables, nil
}

// ofPairs takes the cells of pairs of hosts out of the others.
func ofPairs(items []item) (pairs, others []item) {
	for _, c := range items {
		if c.InitiatorHost != "" && c.TargetHost != "" {
			pairs = append(pairs, c)
		} else {
			others = append(others, c)
		}
	}
	return pairs, others
}

// suspects is the table that people look for: what is slow, and in which figures.
func suspects(reports []matrix.Report, titles []string) *Table {
	t := &Table{Title: "What is out of line", Columns: []Column{{Head: "what"}, {Head: "figure"}, {Head: "expected"}, {Head: "change", Align: Right}, {Head: "in which matrix"}, {Head: "how"}}}
	list := matrix.Suspects(reports)
	for _, s := range list {
		for i, r := range reports {
			for _, f := range r.Findings {
				if f.Suspect() == s.Name && f.Kind == s.Kind {
					t.Rows = append(t.Rows, []Cell{{Text: f.Name()}, {Text: r.Layer.Figure(f.Value)}, {Text: r.Layer.Figure(f.Expected)}, {Text: fmt.Sprintf("%+.0f %%", 100*f.Change)}, {Text: titles[i]}, {Text: f.How(r.Layer)}})
				}
			}
			for _, f := range r.Failures {
				if f.Suspect() == s.Name {
					t.Rows = append(t.Rows, []Cell{{Text: s.Name}, {Text: "failed"}, {}, {}, {Text: titles[i]}, {Text: f.Reason}})
				}
			}
		}
	}
	for i, r := range reports {
		if p := r.Gap; p != nil {
			how := "too few figures to be certain"
			if p.Look != "" {
				how = "look at " + p.Look + " first; " + how
			}
			t.Rows = append(t.Rows, []Cell{{Text: "pair " + strings.Join(p.Pairs, "; ")}, {Text: r.Layer.Figure(p.Value)}, {Text: r.Layer.Figure(p.Expected)}, {Text: fmt.Sprintf("%+.0f %%", 100*p.Change)}, {Text: titles[i]}, {Text: how}})
		}
	}
	if len(t.Rows) == 0 {
		t.Rows = append(t.Rows, []Cell{{Text: "nothing"}, {}, {}, {}, {}, {}})
	}
	said := map[string]bool{}
	for i, r := range reports {
		for _, d := range r.Doubts {
			line := titles[i] + ": " + d
			if len(reports) > 1 && everyone(reports, d) {
				line = d
			}
			if !said[line] {
				said[line] = true
				t.Below = append(t.Below, line)
			}
		}
	}
	return t
}

func everyone(reports []matrix.Report, doubt string) bool {
	return !slices.ContainsFunc(reports, func(r matrix.Report) bool { return !slices.Contains(r.Doubts, doubt) })
}

// spread is how the figures of each matrix lie, and what could be found in them.
func spread(reports []matrix.Report, titles []string) *Table {
	t := &Table{Title: "How the pairs' figures lie", Columns: []Column{{Head: "matrix"}, {Head: "ranks", Align: Right}, {Head: "figures", Align: Right}, {Group: "of the pairs", Head: "least", Align: Right}, {Group: "of the pairs", Head: "p5", Align: Right},
		{Group: "of the pairs", Head: "median", Align: Right}, {Group: "of the pairs", Head: "p95", Align: Right}, {Group: "of the pairs", Head: "most", Align: Right}, {Head: "noise", Align: Right}, {Group: "found from", Head: "pair", Align: Right}, {Group: "found from", Head: "host", Align: Right}}}
	percent := func(v *float64) Cell {
		if v == nil {
			return Cell{}
		}
		return Cell{Text: fmt.Sprintf("%.1f %%", 100**v)}
	}
	for i, r := range reports {
		d := r.Distribution
		if d == nil {
			continue
		}
		row := []Cell{{Text: titles[i]}, {Text: strconv.Itoa(r.Hosts)}, {Text: strconv.Itoa(d.Count)}}
		for _, v := range []float64{d.Min, d.P5, d.Median, d.P95, d.Max} {
			row = append(row, Cell{Text: r.Layer.Figure(v)})
		}
		t.Rows = append(t.Rows, append(row, percent(r.Noise), percent(r.PairFound), percent(r.HostFound)))
	}
	if len(t.Rows) == 0 {
		return nil
	}
	t.Below = []string{"Noise is the spread that the hosts do not explain. A pair, or a host, that is slower than the others by so much is found in it."}
	return t
}

// figures is a matrix with its figures: a row an initiator, a column a target.
func figures(r matrix.Report, hosts []string) *Table {
	l := r.Layer
	scale := unit.RateScale(l.Values())
	if l.Latency() {
		scale = unit.TimeScale(l.Values())
	}
	t := &Table{Title: "Pairs: " + r.Title, Columns: []Column{{Head: scale.Unit}}}
	for _, h := range hosts {
		t.Columns = append(t.Columns, Column{Head: h, Align: Decimal})
	}
	for _, from := range hosts {
		row := []Cell{{Text: from}}
		for _, to := range hosts {
			p := l.At(from, to)
			switch p.Status {
			case results.StatusOK:
				row = append(row, Cell{Text: scale.Format(p.Value)})
			case results.StatusFailed, results.StatusWaived:
				row = append(row, Cell{Text: p.Status, Marks: []int{t.Note(p.Reason)}})
			default:
				row = append(row, Cell{})
			}
		}
		t.Rows = append(t.Rows, row)
	}
	t.Below = []string{"A row is an initiator, a column a target."}
	return t
}

// drawn is a matrix as a map, a character a pair.
func drawn(r matrix.Report, hosts []string, least float64) *Table {
	l := r.Layer
	if least == 0 {
		least = 0.05
	}
	numbers := make([]byte, len(hosts))
	for i := range hosts {
		numbers[i] = byte('0' + (i+1)%10)
	}
	t := &Table{Title: "Pairs: " + r.Title, Columns: []Column{{Head: "n", Align: Right}, {Head: "initiator"}, {Head: string(numbers), Align: Right}, {Head: "median", Align: Right}}}
	centre := r.Distribution
	for i, from := range hosts {
		line := make([]byte, len(hosts))
		var own []float64
		for k, to := range hosts {
			p := l.At(from, to)
			line[k] = mark(p, centre, l.Latency(), least)
			if p.Status == results.StatusOK {
				own = append(own, p.Value)
			}
			if i == k {
				line[k] = '\\'
			}
		}
		slices.Sort(own)
		median := ""
		if d := matrix.DistributionOf(own); d != nil {
			median = l.Figure(d.Median)
		}
		t.Rows = append(t.Rows, []Cell{{Text: strconv.Itoa(i + 1)}, {Text: from}, {Text: string(line)}, {Text: median}})
	}
	middle := ""
	if centre != nil {
		middle = " of " + l.Figure(centre.Median)
	}
	t.Below = []string{fmt.Sprintf("A row is an initiator, a column the target of that number. A dot is within %.0f %% of the median%s, + better; a digit is so many tenths of what the median would be; x failed, w waived, - not measured.", 100*least, middle)}
	return t
}

// mark is the character of a pair.
func mark(p matrix.Place, centre *matrix.Distribution, latency bool, least float64) byte {
	switch p.Status {
	case results.StatusFailed:
		return 'x'
	case results.StatusWaived:
		return 'w'
	case results.StatusOK:
	default:
		return '-'
	}
	part := p.Value / centre.Median
	if latency {
		part = 1 / part
	}
	switch {
	case part > 1/(1-least):
		return '+'
	case part >= 1-least:
		return '.'
	}
	return byte('0' + min(9, int(math.Floor(part*10))))
}

// loadTable is what each schedule does to the flows in it, a row a schedule.
func loadTable(loads []matrix.Load) *Table {
	t := &Table{Title: "Flows together against each alone", Columns: []Column{{Head: "schedule"}, {Head: "against"}, {Head: "flows", Align: Right}, {Group: "sum", Head: "alone", Align: Right}, {Group: "sum", Head: "together", Align: Right},
		{Group: "slowdown", Head: "median", Align: Decimal}, {Group: "slowdown", Head: "p99", Align: Decimal}, {Group: "slowdown", Head: "largest", Align: Decimal},
		{Group: "fairness (Jain)", Head: "of figures", Align: Decimal}, {Group: "fairness (Jain)", Head: "of own", Align: Decimal}, {Group: "largest p99", Head: "alone", Align: Right}, {Group: "largest p99", Head: "together", Align: Right}}}
	number := func(v *float64, format func(float64) string) Cell {
		if v == nil {
			return Cell{}
		}
		return Cell{Text: format(*v)}
	}
	three := func(v float64) string { return fmt.Sprintf("%.3f", v) }
	var titles []string
	for _, l := range loads {
		titles = append(titles, l.Title)
	}
	short, common := parts(titles)
	if common != "" && len(loads) > 1 {
		t.Caption = []string{"All: " + common}
	} else {
		short = titles
	}
	for i, l := range loads {
		row := []Cell{{Text: short[i]}, {Text: or(l.Alone.Key.Schedule, "alone")}, {Text: strconv.Itoa(len(l.Flows))}, number(l.SumAlone, unit.Rate), number(l.Sum, unit.Rate)}
		if l.Missing > 0 {
			row[2].Marks = append(row[2].Marks, t.Note(fmt.Sprintf("%d flows have no figure, together or alone", l.Missing)))
		}
		if d := l.Slowdown; d != nil {
			row = append(row, Cell{Text: unit.Number(d.Median)}, number(l.SlowdownP99, unit.Number), Cell{Text: unit.Number(d.Max)})
		} else {
			row = append(row, Cell{}, Cell{}, Cell{})
		}
		t.Rows = append(t.Rows, append(row, number(l.Jain, three), number(l.JainOfOwn, three), number(l.P99Alone, unit.Seconds), number(l.P99, unit.Seconds)))
	}
	t.Below = []string{"Slowdown is how many times less bandwidth, or more latency, a flow has. Jain's index is 1 where all have the same: of the flows' figures, and of the part of its own figure that each keeps."}
	return t
}

// flowTable is a load flow by flow, the slowest first.
func flowTable(l matrix.Load, whole bool) *Table {
	t := &Table{Title: "Flows: " + l.Title, Columns: []Column{{Head: "initiator"}, {Head: "target"}, {Head: "alone", Align: Right}, {Head: "together", Align: Right}, {Head: "times slower", Align: Decimal}}}
	for i, f := range l.Flows {
		if i == mostFlows && !whole {
			t.Below = append(t.Below, fmt.Sprintf("%d more flows are less slow.", len(l.Flows)-i))
			break
		}
		t.Rows = append(t.Rows, []Cell{{Text: f.Initiator}, {Text: f.Target}, {Text: l.Loaded.Figure(f.Alone)}, {Text: l.Loaded.Figure(f.Loaded)}, {Text: unit.Number(f.Slowdown)}})
	}
	return t
}

func or(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
