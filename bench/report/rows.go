package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// Group is the cells of one definition: they alone can be compared with each other.
type Group struct {
	ID, Title, Definition, Meaning string
	Heads                          []Head
	Rows                           []Row
	Common                         []string // what all rows have alike, in place of a column for each
}

// Head is the head of a column.
type Head struct {
	Text, Long string // Long is read out and shown on hovering
	Number     bool
}

// Row is one cell.
type Row struct {
	Cells    []Value
	Evidence int // which Evidence, from 1; 0 is none
	Status   string
	Warnings []string
}

// Value is the text of a cell of a table, and what it sorts by; Sort is empty where there is no value.
type Value struct{ Text, Sort string }

// Evidence is the path that bytes took, as both sides found it; rows share it.
type Evidence struct {
	N         int
	Label     string
	Sides     []Side
	Counters  []string
	Files     []string
	signature string
}

// Side is one side's evidence.
type Side struct {
	Name  string
	Facts [][2]string
	Lines []string // what was read, and where
}

// Waived is a transport that did not run, with the reason.
type Waived struct{ Label, Status, Reason, Code, File string }

// rows fills in groups, evidence and what did not run.
func (r *Report) rows(runs []results.Run) {
	groups := map[string]*Group{}
	var order []string
	seen := map[string]bool{}
	for i := range runs {
		run := &runs[i]
		file := runName(run, len(runs) > 1)
		for j := range run.Cells {
			c := &run.Cells[j]
			if !c.HasFigure() || c.Bandwidth == nil && c.Latency == nil {
				w := waivedOf(c, file)
				if key := fmt.Sprint(w); !seen[key] {
					seen[key] = true
					r.Waived = append(r.Waived, w)
				}
				continue
			}
			g := groups[c.Definition]
			if g == nil {
				g = newGroup(c, len(runs) > 1)
				groups[c.Definition], order = g, append(order, c.Definition)
			}
			row := rowOf(c, file, len(runs) > 1)
			row.Evidence = r.evidence(c, file)
			g.Rows = append(g.Rows, row)
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return definitionRank(a) - definitionRank(b) })
	for i, d := range order {
		g := groups[d]
		g.ID = "cells-" + strconv.Itoa(i+1)
		r.Groups = append(r.Groups, *g)
	}
}

func runName(run *results.Run, several bool) string {
	name := base(run.File)
	if several && !run.Header.Started.IsZero() {
		name += ", " + run.Header.Started.UTC().Format("2006-01-02 15:04:05")
	}
	return name
}

func base(name string) string { return name[strings.LastIndexAny(name, `/\`)+1:] }

func waivedOf(c *results.Cell, file string) Waived {
	w := Waived{Label: orElse(c.Label, c.Transport), Status: c.Status, Reason: c.Reason, Code: c.Code, File: file}
	switch {
	case c.Verified != nil && !*c.Verified && w.Reason == "":
		w.Status, w.Reason = "failed", "the payload was wrong"
	case w.Reason == "" && c.Status == results.StatusOK:
		w.Status, w.Reason = "no figure", "the cell has neither a bandwidth nor a latency"
	case w.Reason == "":
		w.Reason = "the file gives no reason"
	}
	if c.Definition != "" && c.Status != results.StatusWaived {
		w.Label += ", " + strings.TrimSpace(c.Operation+" of "+unit.Bytes(c.TotalBytes)) + ", " + c.Definition
	}
	return w
}

func orElse(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// definitionRank puts bandwidth before latency and the project's own before others'.
func definitionRank(d string) int {
	for i, known := range meanings {
		if known.ID == d {
			return i
		}
	}
	if strings.HasPrefix(d, "bandwidth") {
		return len(meanings)
	}
	return len(meanings) + 1
}

func newGroup(c *results.Cell, several bool) *Group {
	g := &Group{Definition: c.Definition, Title: "Cells by " + c.Definition, Meaning: meaningOf(c.Definition)}
	g.Heads = []Head{{Text: "path", Long: "label made from the evidence"}, {Text: "realm", Long: "hardware, software or emulated"}, {Text: "operation"}, {Text: "direction"},
		{Text: "size", Long: "bytes of one operation", Number: true}, {Text: "pieces", Long: "descriptors of one operation", Number: true}, {Text: "depth", Long: "operations in flight", Number: true},
		{Text: "streams", Long: "connections or queue pairs", Number: true}, {Text: "at once", Long: "requests at once", Number: true}, {Text: "memory"}}
	if c.Bandwidth != nil {
		g.Heads = append(g.Heads, Head{"GB/s", "median of the rounds, 10^9 bytes a second", true}, Head{"low", "lower bound of the median, GB/s", true}, Head{"high", "upper bound of the median, GB/s", true},
			Head{"slowest", "slowest window of a round, GB/s", true}, Head{"CPU s/GB", "CPU seconds for 10^9 bytes, initiator and target together", true})
	} else {
		g.Heads = append(g.Heads, Head{"p50 µs", "median of all samples, microseconds", true}, Head{"low", "lower bound of the median of the rounds, microseconds", true},
			Head{"high", "upper bound of the median of the rounds, microseconds", true}, Head{"p99 µs", "of at least 100 samples", true}, Head{"p99.9 µs", "of at least 1000 samples", true},
			Head{"max µs", "largest sample", true})
	}
	g.Heads = append(g.Heads, Head{Text: "status", Long: "ok or partial; whether the interval of the median converged; warnings"})
	if several {
		g.Heads = append(g.Heads, Head{Text: "run"})
	}
	return g
}

// settings are the columns that go where all rows have the same in them: what is left are the columns that tell rows apart.
var settings = map[string]func(string) string{
	"realm": func(v string) string { return v }, "operation": func(v string) string { return v }, "direction": func(v string) string { return v },
	"pieces": func(v string) string { return v + " a request" }, "depth": func(v string) string { return "depth " + v },
	"streams": func(v string) string { return v }, "at once": func(v string) string { return v + " at once" }, "memory": func(v string) string { return v + " memory" },
}

// gather takes columns out whose value all rows share.
func (g *Group) gather() {
	for i := len(g.Heads) - 1; i >= 0; i-- {
		say := settings[g.Heads[i].Text]
		if say == nil || len(g.Rows) < 2 || slices.ContainsFunc(g.Rows, func(r Row) bool { return r.Cells[i].Text != g.Rows[0].Cells[i].Text }) {
			continue
		}
		if v := g.Rows[0].Cells[i].Text; v != "-" {
			if word, ok := map[string]string{"pieces": "piece", "streams": "stream", "at once": "request"}[g.Heads[i].Text]; ok {
				n, _ := strconv.Atoi(v) // a count is one
				v = counted(n, word)
			}
			g.Common = append([]string{say(v)}, g.Common...)
		}
		g.Heads = slices.Delete(g.Heads, i, i+1)
		for j := range g.Rows {
			g.Rows[j].Cells = slices.Delete(g.Rows[j].Cells, i, i+1)
		}
	}
}

func rowOf(c *results.Cell, file string, several bool) Row {
	count := func(n int64) Value {
		if n == 0 {
			return Value{Text: "-"}
		}
		return Value{strconv.FormatInt(n, 10), strconv.FormatInt(n, 10)}
	}
	plain := func(s string) Value {
		if s == "" {
			return Value{Text: "-"}
		}
		return Value{s, s}
	}
	label := orElse(c.Label, c.Transport)
	for _, extra := range []string{c.Schedule, c.PeerTool, c.View, notMeasured(c.Provenance), rail(c.Rail), pair(c)} {
		if extra != "" && !strings.Contains(label, extra) {
			label += ", " + extra
		}
	}
	if c.RateBytesPerSecond != nil {
		label += ", held to " + unit.Rate(float64(*c.RateBytesPerSecond))
	}
	memory := c.InitiatorMemory
	if c.TargetMemory != c.InitiatorMemory {
		memory += " to " + c.TargetMemory
	}
	if w := c.InitiatorGPUWay; w != "" || c.TargetGPUWay != "" {
		if c.TargetGPUWay != w {
			w = strings.Trim(w+" to "+c.TargetGPUWay, " ")
		}
		memory += ", " + w
	}
	shown := unit.Bytes(c.TotalBytes)
	if c.TotalBytes == 0 { // another tool's, which does not say
		shown = "unknown"
	}
	size := Value{shown, strconv.FormatInt(c.TotalBytes, 10)}
	if c.TotalBytes <= 0 {
		size = Value{Text: "-"}
	}
	row := Row{Status: c.Status, Warnings: c.Warnings, Cells: []Value{plain(label), plain(c.Realm), plain(c.Operation), plain(c.Direction), size,
		count(c.Descriptors), count(c.Depth), count(c.Streams), count(c.Concurrency), plain(memory)}}
	scaled := func(v *float64, worth float64) Value {
		if v == nil {
			return Value{Text: "-"}
		}
		return Value{unit.Number(*v / worth), strconv.FormatFloat(*v, 'g', 7, 64)}
	}
	if b := c.Bandwidth; b != nil {
		row.Cells = append(row.Cells, scaled(&b.BytesPerSecond, 1e9), scaled(b.Low, 1e9), scaled(b.High, 1e9), scaled(b.SlowestWindowBytesPerSecond, 1e9), scaled(cpuOf(c), 1))
	} else {
		l := c.Latency
		row.Cells = append(row.Cells, scaled(l.P50Seconds, 1e-6), scaled(l.P50LowSeconds, 1e-6), scaled(l.P50HighSeconds, 1e-6), scaled(l.P99Seconds, 1e-6), scaled(l.P999Seconds, 1e-6), scaled(l.MaxSeconds, 1e-6))
	}
	status := c.Status
	if c.Converged != nil && !*c.Converged {
		status += ", not converged"
	}
	if c.Verified != nil && *c.Verified {
		status += ", payload checked"
	}
	if c.Counters != nil && c.Counters.Agree != nil && !*c.Counters.Agree {
		status += ", COUNTERS DISAGREE"
	}
	row.Cells = append(row.Cells, plain(status))
	if several {
		row.Cells = append(row.Cells, plain(file))
	}
	return row
}

func notMeasured(provenance string) string {
	if provenance == results.Measured {
		return ""
	}
	return provenance
}

func rail(name string) string {
	if name == "" {
		return ""
	}
	return "rail " + name
}

func pair(c *results.Cell) string {
	if c.InitiatorHost == "" && c.TargetHost == "" {
		return ""
	}
	return c.InitiatorHost + " to " + c.TargetHost
}

// cpuOf is what both sides' CPUs spent for 10^9 bytes, nil where the initiator's is not known.
func cpuOf(c *results.Cell) *float64 {
	if c.CPU == nil || c.CPU.InitiatorSecondsPerGigabyte == nil {
		return nil
	}
	v := *c.CPU.InitiatorSecondsPerGigabyte
	if t := c.CPU.TargetSecondsPerGigabyte; t != nil {
		v += *t
	}
	return &v
}
