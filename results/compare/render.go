package compare

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"

	"hopbench/results/page"
	"hopbench/results/unit"
)

// WriteJSON writes the report as one JSON object.
func (r *Report) WriteJSON(w io.Writer) error {
	if r.Rows == nil {
		r.Rows = []Row{}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(true)
	return e.Encode(r)
}

var columns = []string{"cell", "metric", "old", "new", "change", "95 % interval", "p (Holm)", "samples", "verdict"}

// fields are the row as the columns have it.
func (r *Row) fields() []string {
	value := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return Value(r.Metric, *v)
	}
	change, bounds, p := "-", "-", "-"
	if r.Ratio != nil {
		change = Change(*r.Ratio)
	}
	if r.RatioLow != nil && r.RatioHigh != nil {
		bounds = fmt.Sprintf("%+.1f … %+.1f %%", 100*(*r.RatioLow-1), 100*(*r.RatioHigh-1))
	}
	if r.PAdjusted != nil {
		p = fmt.Sprintf("%.3f", *r.PAdjusted)
		if *r.PAdjusted < 0.001 {
			p = "<0.001"
		}
	}
	return []string{r.Cell, r.Metric, value(r.Old), value(r.New), change, bounds, p, fmt.Sprintf("%d/%d", r.OldSamples, r.NewSamples), strings.ReplaceAll(r.Verdict, "_", " ")}
}

// notes are what must be read beside the row.
func (r *Row) notes() []string {
	var n []string
	if r.FloorBroken != "" {
		n = append(n, r.FloorBroken)
	}
	if r.Reason != "" {
		n = append(n, r.Reason)
	}
	return append(n, r.Warnings...)
}

// shown are the rows that stand in a table: of a mesh those alone that changed by themselves or break a bound.
func (r *Report) shown() []*Row {
	var out []*Row
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Verdict != OfMesh || row.FloorBroken != "" {
			out = append(out, row)
		}
	}
	return out
}

// footnotes numbers the distinct notes of the rows.
type footnotes struct {
	texts []string
	at    map[string]int
}

func (f *footnotes) marks(notes []string) string {
	var m []string
	for _, n := range notes {
		if f.at == nil {
			f.at = map[string]int{}
		}
		if _, have := f.at[n]; !have {
			f.texts = append(f.texts, n)
			f.at[n] = len(f.texts)
		}
		m = append(m, fmt.Sprint(f.at[n]))
	}
	return strings.Join(m, " ")
}

// WriteText writes the report as a table for a terminal. failures are those of Failures.
func (r *Report) WriteText(w io.Writer, failures []string) error {
	b := page.NewWriter(w)
	page.Paragraph(b, r.Verdict+": ", r.Headline, page.Width)
	for _, line := range r.preamble() {
		page.Paragraph(b, "  ", line, page.Width)
	}
	for i, line := range r.meshLines() {
		if i == 0 {
			fmt.Fprintln(b)
		}
		text := strings.TrimLeft(line, " ")
		page.Paragraph(b, line[:len(line)-len(text)], text, page.Width)
	}
	if shown := r.shown(); len(shown) > 0 {
		fmt.Fprintln(b)
		var notes footnotes
		lines := [][]string{append(append([]string{}, columns...), "note")}
		for _, row := range shown {
			lines = append(lines, append(row.fields(), notes.marks(row.notes())))
		}
		align(b, lines)
		if len(notes.texts) > 0 {
			fmt.Fprintln(b)
		}
		for i, n := range notes.texts {
			page.Paragraph(b, fmt.Sprintf("%3d  ", i+1), n, page.Width)
		}
	}
	if len(failures) > 0 {
		fmt.Fprintln(b, "\nfails:")
		for _, f := range failures {
			page.Paragraph(b, "  - ", f, page.Width)
		}
	}
	return b.Err
}

// preamble is how the comparison was made, and what of that weakens it.
func (r *Report) preamble() []string {
	order := "one after the other"
	if r.Interleaved {
		order = "interleaved"
	}
	lines := []string{fmt.Sprintf("%d old and %d new files, runs %s; %d of %d rows could have been found different; false verdicts at most %.3g %% a comparison",
		r.OldFiles, r.NewFiles, order, r.Tested, r.Compared, 100*r.Alpha)}
	for _, t := range r.Warnings {
		lines = append(lines, "warning: "+t)
	}
	return lines
}

// align writes a cell's name on a line of its own and its figures beneath, in columns as wide as their widest; figures stand to the right.
func align(w io.Writer, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, c := range l[1:] {
			width[i+1] = max(width[i+1], utf8.RuneCountInString(unit.Text(c)))
		}
	}
	cell := ""
	for _, l := range lines {
		if l[0] != cell {
			cell = l[0]
			page.Paragraph(w, "", cell, page.Width)
		}
		var line strings.Builder
		for i, c := range l[1:] {
			c = unit.Text(c)
			pad := strings.Repeat(" ", width[i+1]-utf8.RuneCountInString(c))
			line.WriteString("  ")
			if i >= 1 && i <= 6 {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
		}
		fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// WriteMarkdown writes the report as a comment for a pull request: the rows that changed first, the others
// folded away.
func (r *Report) WriteMarkdown(w io.Writer, failures []string) error {
	var b strings.Builder
	mark := map[string]string{Regression: "❌", Improvement: "✅", Same: "✅", Undecided: "❔"}[r.Verdict]
	if len(failures) > 0 {
		mark = "❌"
	}
	fmt.Fprintf(&b, "### %s hopbench compare: %s\n\n%s\n\n", mark, r.Verdict, md(r.Headline))
	for _, f := range failures {
		fmt.Fprintf(&b, "- **fails**: %s\n", md(f))
	}
	if len(failures) > 0 {
		b.WriteString("\n")
	}
	var changed, others []*Row
	for _, row := range r.shown() {
		switch row.Verdict {
		case Same, Undecided, TooFew:
			if row.FloorBroken == "" {
				others = append(others, row)
				continue
			}
		}
		changed = append(changed, row)
	}
	for _, line := range r.meshLines() {
		indent := ""
		if text, ok := strings.CutPrefix(line, "  "); ok {
			indent, line = "  ", text
		}
		fmt.Fprintf(&b, "%s- %s\n", indent, md(line))
	}
	if len(r.Meshes) > 0 {
		b.WriteString("\n")
	}
	var notes footnotes
	table := func(rows []*Row) {
		fmt.Fprintf(&b, "| %s | note |\n|---|---|--:|--:|--:|--:|--:|--:|---|---|\n", strings.Join(columns, " | "))
		for _, row := range rows {
			f := row.fields()
			for i := range f {
				f[i] = md(f[i])
			}
			if row.Verdict == Worse || row.Verdict == Better {
				f[8] = "**" + f[8] + "**"
			}
			fmt.Fprintf(&b, "| %s | %s |\n", strings.Join(f, " | "), notes.marks(row.notes()))
		}
		b.WriteString("\n")
	}
	if len(changed) > 0 {
		table(changed)
	}
	if len(others) > 0 {
		fmt.Fprintf(&b, "<details><summary>%d without a change shown</summary>\n\n", len(others))
		table(others)
		b.WriteString("</details>\n\n")
	}
	for i, n := range notes.texts {
		fmt.Fprintf(&b, "%d. %s\n", i+1, md(n))
	}
	if len(notes.texts) > 0 {
		b.WriteString("\n")
	}
	for _, line := range r.preamble() {
		fmt.Fprintf(&b, "> %s\n>\n", md(line))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// md keeps the text of a file from acting as Markdown or HTML.
func md(s string) string {
	s = html.EscapeString(unit.Text(s))
	var b strings.Builder
	for _, r := range s {
		if strings.ContainsRune("\\`*_[]|~@", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
