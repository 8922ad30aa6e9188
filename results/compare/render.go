package compare

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"strings"
	"unicode/utf8"

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
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", r.Verdict, unit.Text(r.Headline))
	r.preamble(&b, "  ")
	for i, line := range r.meshLines() {
		if i == 0 {
			b.WriteString("\n")
		}
		fmt.Fprintf(&b, "%s\n", unit.Text(line))
	}
	if shown := r.shown(); len(shown) > 0 {
		b.WriteString("\n")
		var notes footnotes
		lines := [][]string{append(append([]string{}, columns...), "note")}
		for _, row := range shown {
			lines = append(lines, append(row.fields(), notes.marks(row.notes())))
		}
		align(&b, lines)
		if len(notes.texts) > 0 {
			b.WriteString("\n")
		}
		for i, n := range notes.texts {
			fmt.Fprintf(&b, "%3d  %s\n", i+1, unit.Text(n))
		}
	}
	if len(failures) > 0 {
		b.WriteString("\nfails:\n")
		for _, f := range failures {
			fmt.Fprintf(&b, "  %s\n", unit.Text(f))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (r *Report) preamble(b *strings.Builder, indent string) {
	order := "one after the other"
	if r.Interleaved {
		order = "interleaved"
	}
	fmt.Fprintf(b, "%s%d old and %d new files, runs %s; %d of %d rows could have been found different; false verdicts at most %.3g %% a comparison\n",
		indent, r.OldFiles, r.NewFiles, order, r.Tested, r.Compared, 100*r.Alpha)
	for _, t := range r.Warnings {
		fmt.Fprintf(b, "%swarning: %s\n", indent, unit.Text(t))
	}
}

// align writes columns as wide as their widest cell; figures stand to the right.
func align(b *strings.Builder, lines [][]string) {
	width := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, c := range l {
			width[i] = max(width[i], utf8.RuneCountInString(unit.Text(c)))
		}
	}
	for _, l := range lines {
		var line strings.Builder
		for i, c := range l {
			c = unit.Text(c)
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i >= 2 && i <= 7 {
				line.WriteString(pad + c + "  ")
			} else {
				line.WriteString(c + pad + "  ")
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
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
	var pre strings.Builder
	r.preamble(&pre, "")
	for line := range strings.Lines(pre.String()) {
		fmt.Fprintf(&b, "> %s\n>\n", md(strings.TrimSpace(line)))
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
