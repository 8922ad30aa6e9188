// Package report makes one document of result files for those who did not measure: a page of HTML that holds everything it needs
// (styles, script, figures, and the TTFT planner as WebAssembly), or Markdown for a pull request or a wiki.
//
// The page needs no network and no server, and its policy forbids both. Every string of a result file is escaped where it is
// put: by html/template in the page, by the figure's own rewriting in its SVG, by escapes of Markdown. The same files give the
// same bytes: the document carries the dates of its runs and none of its own.
package report

import (
	"fmt"
	"io"
	"path/filepath"

	"hopbench/bench/report/plan"
	"hopbench/results"
	"hopbench/results/table"
)

// MostBytes is what a page should stay under, in bytes: beyond it mail and wikis refuse attachments.
const MostBytes = 3_000_000

// Options are what a caller may choose. The zero value is a page without a planner.
type Options struct {
	Title   string   // in place of "Links compared"
	Tool    string   // that wrote the document, with its version; it stands at the foot
	Planner *Planner // nil: the page says that it has none, and shows the planner's first answer alone
}

// Planner is the TTFT planner that a page carries.
type Planner struct {
	Wasm []byte // bench/report/planner as WebAssembly, compressed with gzip
	Exec []byte // wasm_exec.js of the Go release that built it
}

// ErrDouble is wrapped by the refusal of cells that were measured through a fake library.
var ErrDouble = table.ErrDouble

// Report is what the files say, before it is written in one format or the other.
type Report struct {
	options Options

	Title    string
	Heads    []string // a line a run: what, where, when
	Summary  []string // sentences
	Planning *table.Table
	Page     *table.Page // all tables as `hopbench table` prints them
	Groups   []Group
	Evidence []Evidence
	Waived   []Waived
	Hosts    Hosts
	Figures  []*Figure
	NoFigure []string // figures that have nothing to show, and why
	Meanings []Meaning
	Warnings []string
	Tools    []string // that wrote the files

	Ask     plan.Ask
	Answer  *plan.Answer // to Ask, nil where Refused says why
	Refused string
	cells   []results.Cell
	files   []string
}

// Build reads the runs. A cell of a test double is an error that wraps ErrDouble.
func Build(runs []results.Run, o Options) (*Report, error) {
	r := &Report{options: o, Title: "Links compared", Ask: plan.Default()}
	if o.Title != "" {
		r.Title = o.Title
	}
	page, err := table.Build(runs, table.Options{})
	if err != nil {
		return nil, err
	}
	r.Page, r.Heads, r.Warnings = page, page.Head, page.Foot
	if len(page.Tables) > 0 {
		r.Planning = page.Tables[0]
	}
	names := map[string]bool{}
	for i := range runs {
		run := &runs[i]
		r.cells = append(r.cells, plan.Slim(run.Cells)...)
		if !names[run.File] {
			names[run.File] = true
			r.files = append(r.files, filepath.Base(run.File))
		}
		tool := "hopbench " + run.Header.ToolVersion
		if c := run.Header.ToolCommit; c != "" {
			tool += " (" + c + ")"
		}
		if !names["\x00"+tool] {
			names["\x00"+tool] = true
			r.Tools = append(r.Tools, tool)
		}
	}
	r.Hosts = hostsOf(runs)
	r.Meanings = meaningsOf(runs)
	r.rows(runs)
	r.summarise()
	for i := range r.Groups {
		r.Groups[i].gather()
	}
	if err := r.draw(runs); err != nil {
		return nil, err
	}
	if r.Answer, err = plan.Of(r.Ask, r.cells, r.files...); err != nil {
		r.Refused = err.Error()
	}
	return r, nil
}

// Format is a kind of document.
type Format string

// The formats.
const (
	HTML     Format = "html"
	Markdown Format = "markdown"
)

// Formats lists the formats.
func Formats() []Format { return []Format{HTML, Markdown} }

// Write writes the document. A page of HTML is whole or not written at all.
func (r *Report) Write(w io.Writer, f Format) error {
	switch f {
	case HTML:
		return r.html(w)
	case Markdown:
		return r.markdown(w)
	}
	return fmt.Errorf("no format %q: there are %s and %s", f, HTML, Markdown)
}

// NoPlanner says in words that a page has no planner, and what to do; empty where it has one.
func (r *Report) NoPlanner() string {
	if r.options.Planner != nil {
		return ""
	}
	return "This page's inputs do not recompute: the hopbench that wrote it was built without the planner. `make planner build` builds it in. Below is the answer to its first question, and the command that answers others."
}
