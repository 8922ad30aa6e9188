// Package table makes the tables of result files: the one that people plan with, one row a path, then bandwidth
// and latency with the paths side by side by size, and beneath them what could not run, with its reason.
//
// Cells share a column only where everything that they were measured by is the same, and a table only where their
// definition, operation and direction are; what differs between columns stands in their heads, what is common in the
// line under the title. Warnings travel with their number as footnotes. Cells of realm double, measured through a
// fake library, are refused.
package table

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/matrix"
	"hopbench/results/page"
	"hopbench/results/unit"
)

// Format is how tables are written.
type Format string

const (
	Text     Format = "text"
	Markdown Format = "markdown"
	CSV      Format = "csv"
	JSON     Format = "json"
)

// View is whose definitions the figures follow.
type View string

const (
	Own         View = ""            // the project's own
	Perftest    View = "perftest"    // linux-rdma/perftest's, from our samples
	NVBandwidth View = "nvbandwidth" // NVIDIA/nvbandwidth's, from our samples
)

// Options are what a reader may choose. The zero value is text of 100 columns by our own definitions.
type Options struct {
	Format Format
	View   View
	Width  int // columns of a text page; 0 is 100. Wider tables are split at a path
	// Details adds what stands beside the figures: costs paid once, phases, CPU by size, tcp_info.
	Details bool
	// Judge is how slow pairs and hosts of a mesh are told.
	Judge matrix.Judge
}

// Table is one table, before it is drawn.
type Table = page.Table

// Column, Cell and Align are its parts.
type (
	Column = page.Column
	Cell   = page.Cell
	Align  = page.Align
)

const (
	Left    = page.Left
	Right   = page.Right
	Decimal = page.Decimal
)

// Page is the tables of some runs and what stands around them.
type Page struct {
	Head   []string `json:"head,omitempty"` // what was measured, where and when: a line a run
	Tables []*Table `json:"tables"`
	Waived []string `json:"waived,omitempty"` // what did not run, and why
	Foot   []string `json:"foot,omitempty"`   // warnings of the files themselves
}

// Build makes the page of the runs. A cell of realm double is an error that names its file.
func Build(runs []results.Run, o Options) (*Page, error) {
	items, err := collect(runs)
	if err != nil {
		return nil, err
	}
	p := &Page{Head: heads(runs), Waived: waived(items)}
	for _, r := range runs {
		p.Foot = append(p.Foot, r.Warnings...)
		if r.Footer != nil && r.Footer.State != results.StateComplete {
			line := fmt.Sprintf("%s: the run is %s", r.File, r.Footer.State)
			if r.Footer.Reason != "" {
				line += ": " + r.Footer.Reason
			}
			p.Foot = append(p.Foot, line)
		}
	}
	measured := len(items)
	switch o.View {
	case Own:
		pairs, rest := ofPairs(items)
		if len(pairs) > 0 { // thousands of columns would say nothing
			items = rest
			if p.Tables, err = meshTables(runs, o); err != nil {
				return nil, err
			}
		}
		rails, others, planned := parted(items)
		if len(items) > 0 || len(pairs) == 0 {
			plan, err := planTable(planned)
			if err != nil {
				return nil, err
			}
			p.Tables = append(append(p.Tables, plan), append(railTables(rails), sweeps(others)...)...)
		}
		if t := intervalTable(runs); t != nil {
			p.Tables = append(p.Tables, t)
		}
		if t := requests(items); t != nil {
			p.Tables = append(p.Tables, t)
			if t := pieceCosts(items); t != nil {
				p.Tables = append(p.Tables, t)
			}
			// A request also pays what it finds cold; the tables above are warm.
			if t := cold(slices.DeleteFunc(slices.Clone(items), func(c item) bool { return len(c.RequestSeconds) == 0 })); t != nil && !o.Details {
				p.Tables = append(p.Tables, t)
			}
		}
		if o.Details {
			p.Tables = append(p.Tables, details(items)...)
		}
	case Perftest:
		p.Tables = perftestTables(items)
	case NVBandwidth:
		p.Tables = nvbandwidthTables(items)
	case Pairs:
		p.Tables = pairTables(items)
	case Mesh:
		if p.Tables, err = meshTables(runs, o); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("no view %q: there are %s, %s, %s and %s", o.View, Perftest, NVBandwidth, Pairs, Mesh)
	}
	if measured == 0 && !slices.ContainsFunc(runs, func(r results.Run) bool { return len(r.Intervals) > 0 }) {
		p.Foot = append(p.Foot, "no cell was measured")
	}
	return p, nil
}

// Write draws the page.
func (p *Page) Write(w io.Writer, o Options) error {
	switch o.Format {
	case Text, "":
		return p.text(w, o.Width)
	case Markdown:
		return p.markdown(w)
	case CSV:
		return p.csv(w)
	case JSON:
		return p.json(w)
	}
	return fmt.Errorf("no format %q: there are %s, %s, %s and %s", o.Format, Text, Markdown, CSV, JSON)
}

// Write builds and draws the tables of the runs. CSV of our own figures is one flat table instead, a record a
// cell. Nothing is written where Build refuses the runs.
func Write(w io.Writer, runs []results.Run, o Options) error {
	if o.Format == CSV && o.View == Own {
		items, err := collect(runs)
		if err != nil {
			return err
		}
		return writeCSV(w, items)
	}
	p, err := Build(runs, o)
	if err != nil {
		return err
	}
	return p.Write(w, o)
}

// ErrDouble is wrapped by the refusal of cells that were measured through a fake library.
var ErrDouble = errors.New("realm double: it was measured through a fake library, so no table shows it")

// item is a cell and where it stands.
type item struct {
	*results.Cell
	run  *results.Run
	file string // the run's name where several runs are shown, else ""
	// absent: waived, as is every cell of its transport in this run
	absent bool
}

func collect(runs []results.Run) ([]item, error) {
	var items []item
	names := runNames(runs)
	for i := range runs {
		r := &runs[i]
		for j := range r.Cells {
			c := &r.Cells[j]
			if c.Realm == results.RealmDouble {
				return nil, fmt.Errorf("%s: cell %d (%s): %w", r.File, j+1, c.Label, ErrDouble)
			}
			items = append(items, item{Cell: c, run: r, file: names[i]})
		}
	}
	adopt(items)
	type transport struct {
		run  *results.Run
		name string
	}
	ran := map[transport]bool{}
	for _, c := range items {
		if c.Status != results.StatusWaived {
			ran[transport{c.run, c.Transport}] = true
		}
	}
	for i, c := range items {
		items[i].absent = !ran[transport{c.run, c.Transport}]
	}
	return items, nil
}

// adopt gives a cell that ended before its path was known the label and the realm of the transport's others in
// the run, so that a size that failed stands in the column of those that did not.
func adopt(items []item) {
	type transport struct {
		run                           *results.Run
		name, initiator, target, tool string
	}
	of := func(c item) transport {
		return transport{c.run, c.Transport, c.InitiatorMemory, c.TargetMemory, c.PeerTool}
	}
	known, several := map[transport]item{}, map[transport]bool{}
	for _, c := range items {
		if !c.HasFigure() {
			continue
		}
		if k, ok := known[of(c)]; ok && (k.Label != c.Label || k.Realm != c.Realm) {
			several[of(c)] = true
		}
		known[of(c)] = c
	}
	for i, c := range items {
		k, ok := known[of(c)]
		if c.HasFigure() || c.Realm != "" || !ok || several[of(c)] {
			continue
		}
		copied := *c.Cell
		copied.Label, copied.Realm, copied.InitiatorGPUWay, copied.TargetGPUWay = k.Label, k.Realm, k.InitiatorGPUWay, k.TargetGPUWay
		items[i].Cell = &copied
	}
}

// runNames are short names that tell the runs apart, or empty ones where there is only one.
func runNames(runs []results.Run) []string {
	names := make([]string, len(runs))
	if len(runs) < 2 {
		return names
	}
	for i, r := range runs {
		names[i] = r.File[strings.LastIndexByte(r.File, '/')+1:]
		names[i] = strings.TrimSuffix(names[i], ".jsonl")
	}
	// The same base name in several folders: the whole path. The same path: the line of the run.
	for i := range runs {
		for j := range runs {
			if i != j && names[i] == names[j] && runs[i].File != runs[j].File {
				names[i], names[j] = runs[i].File, runs[j].File
			}
		}
	}
	for i := range runs {
		n := 0
		for j := range i {
			if runs[j].File == runs[i].File {
				n++
			}
		}
		if n > 0 {
			names[i] = fmt.Sprintf("%s run %d", names[i], n+1)
		}
	}
	return names
}

func heads(runs []results.Run) []string {
	var out []string
	for _, r := range runs {
		var parts []string
		if r.File != "" { // a run that is being measured has none yet
			parts = append(parts, r.File)
		}
		parts = append(parts, r.Header.Started.UTC().Format("2006-01-02 15:04 UTC"), "hopbench "+r.Header.ToolVersion)
		var hosts []string
		for _, h := range r.Header.Hosts {
			text := h.Hostname
			if h.CPUModel != "" {
				text += " (" + h.CPUModel
				if h.CPUs != nil {
					text += fmt.Sprintf(", %d CPUs", *h.CPUs)
				}
				if h.Virtualisation != "" && h.Virtualisation != "none" {
					text += ", " + h.Virtualisation
				}
				text += ")"
			}
			if !slices.Contains(hosts, text) {
				hosts = append(hosts, text)
			}
		}
		if len(hosts) > 4 {
			hosts = append(hosts[:4], fmt.Sprintf("%d more hosts", len(hosts)-4))
		}
		out = append(out, strings.Join(append(parts, hosts...), "; "))
	}
	return out
}

// waived lists the transports that did not run at all, each reason once. What was waived at some size alone stands in its
// table.
func waived(items []item) []string {
	var out []string
	for _, c := range items {
		if !c.absent {
			continue
		}
		name := c.Label
		if name == "" {
			name = c.Transport
		}
		line := name + ": " + c.Reason
		if c.Code != "" {
			line += " [" + c.Code + "]"
		}
		if c.file != "" {
			line = c.file + ": " + line
		}
		if !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// noteFor makes the footnotes of a cell's figure.
func noteFor(t *Table, c item) []int {
	var marks []int
	add := func(text string) {
		if m := t.Note(text); !slices.Contains(marks, m) {
			marks = append(marks, m)
		}
	}
	if c.Status == results.StatusPartial {
		text := "stopped before its end"
		if c.Reason != "" {
			text += ": " + c.Reason
		}
		add(text)
	}
	switch c.Provenance {
	case results.FromSource, results.Projected:
		text := c.Provenance + ", not measured"
		if c.Source != "" {
			text += ": " + c.Source
		}
		add(text)
	}
	if c.Verified != nil && !*c.Verified {
		add("the payload was not as it should be")
	}
	if c.Converged != nil && !*c.Converged {
		add("did not converge: the 95 % interval of the median is wider than 2.5 %")
	}
	if c.SamplesDropped != nil && *c.SamplesDropped > 0 {
		add(fmt.Sprintf("%d samples were left out", *c.SamplesDropped))
	}
	for _, w := range c.Warnings {
		add(w)
	}
	return marks
}

// figureless is the cell of something that has no number to show.
func figureless(t *Table, c item) Cell {
	switch c.Status {
	case results.StatusFailed:
		text := c.Reason
		if c.Code != "" {
			text += " [" + c.Code + "]"
		}
		return Cell{Text: "failed", Marks: []int{t.Note(text)}}
	case results.StatusWaived:
		return Cell{Text: "waived", Marks: []int{t.Note(c.Reason)}}
	case results.StatusPartial:
		return Cell{Text: "partial", Marks: noteFor(t, c)}
	}
	if c.Verified != nil && !*c.Verified {
		return Cell{Text: "corrupt", Marks: []int{t.Note("the payload was not as it should be: the figure is withheld")}}
	}
	return Cell{Text: "-"}
}

func size(n int64) string {
	if n == 0 { // another tool's, which does not say
		return "unknown size"
	}
	return unit.Bytes(n)
}

func deref(v *float64) []float64 {
	if v == nil {
		return nil
	}
	return []float64{*v}
}
