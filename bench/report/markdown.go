package report

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"hopbench/results/table"
	"hopbench/results/unit"
)

// markdown writes the report for a pull request or a wiki: no figures, which those do not take inline.
func (r *Report) markdown(w io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\n", md(r.Title))
	for _, line := range r.Summary {
		fmt.Fprintf(&b, "* %s\n", md(line))
	}
	b.WriteString("\n## Tables\n\n")
	if err := r.Page.Write(&b, table.Options{Format: table.Markdown}); err != nil {
		return err
	}
	b.WriteString("## What did not run, and why\n\n")
	if len(r.Waived) == 0 {
		b.WriteString("Everything that these files planned has run.\n\n")
	} else {
		rows := [][]string{}
		for _, x := range r.Waived {
			rows = append(rows, []string{x.Label, x.Status, x.Reason, orElse(x.Code, "-")})
		}
		grid(&b, []string{"transport or cell", "outcome", "reason", "code"}, rows)
	}
	if len(r.Evidence) > 0 {
		b.WriteString("## Evidence of the paths\n\n")
		for _, e := range r.Evidence {
			fmt.Fprintf(&b, "* %s\n", md(e.Label))
			for _, c := range e.Counters {
				fmt.Fprintf(&b, "  * %s\n", md(c))
			}
			for _, s := range e.Sides {
				var facts []string
				for _, f := range s.Facts {
					facts = append(facts, f[0]+" "+f[1])
				}
				fmt.Fprintf(&b, "  * %s: %s\n", md(s.Name), md(strings.Join(append(facts, s.Lines...), "; ")))
			}
		}
		b.WriteString("\n")
	}
	if len(r.Hosts.Names) > 0 {
		b.WriteString("## Hosts\n\n")
		rows := [][]string{}
		for _, x := range r.Hosts.Rows {
			rows = append(rows, append([]string{x.Name}, x.Values...))
		}
		grid(&b, append([]string{"property"}, r.Hosts.Names...), rows)
	}
	b.WriteString("## Time to first token on these links\n\nProjected, not measured.\n\n")
	if a := r.Answer; a == nil {
		fmt.Fprintf(&b, "%s\n\n", md(r.Refused))
	} else {
		fmt.Fprintf(&b, "%s\n\n", md(a.About))
		rows := [][]string{}
		for _, x := range a.Rows {
			var parts []string
			for _, p := range x.Parts {
				parts = append(parts, p.Name+" "+p.Text)
			}
			rows = append(rows, []string{x.Link, x.Provenance, x.P50, x.Interval, orElse(x.Never, strings.Join(parts, ", "))})
		}
		grid(&b, []string{"link", "transfer is", "TTFT p50", "interval", "parts"}, rows)
		for _, set := range [][]string{a.Notes, a.Assumed, a.Refused} {
			for _, line := range set {
				fmt.Fprintf(&b, "* %s\n", md(line))
			}
		}
		b.WriteString("\nThe command that gives these figures:\n\n")
		fmt.Fprintf(&b, "    %s\n\n", line(a.Command))
	}
	b.WriteString("## Definitions\n\n")
	for _, m := range r.Meanings {
		fmt.Fprintf(&b, "* %s: %s\n", md(m.ID), md(m.Text))
	}
	fmt.Fprintf(&b, "\nMeasured by %s.", md(strings.Join(r.Tools, "; ")))
	if r.options.Tool != "" {
		fmt.Fprintf(&b, " Written by %s.", md(r.options.Tool))
	}
	b.WriteString("\n")
	_, err := w.Write(b.Bytes())
	return err
}

// grid is a table of Markdown.
func grid(b *bytes.Buffer, head []string, rows [][]string) {
	write := func(cells []string) {
		for _, c := range cells {
			b.WriteString("| " + md(c) + " ")
		}
		b.WriteString("|\n")
	}
	write(head)
	b.WriteString(strings.Repeat("| --- ", len(head)) + "|\n")
	for _, r := range rows {
		write(r)
	}
	b.WriteString("\n")
}

// markup is what Markdown or HTML inside it would take for more than a letter. An address is kept from becoming a link.
var markup = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`,
	"#", `\#`, "~", `\~`, "!", `\!`, "$", `\$`, "@", "@\u200b", "://", ":\u200b//", "www.", "www\u200b.")

// md makes a text plain in Markdown: one line without markup, HTML, mentions or links.
func md(s string) string { return markup.Replace(line(s)) }

// line makes a text one line without control characters.
func line(s string) string { return strings.TrimSpace(unit.Text(s)) }
