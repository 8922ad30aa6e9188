package table

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"hopbench/results/page"
	"hopbench/results/unit"
)

// escape makes a text from a file plain in Markdown: no cell ends, no markup, no HTML.
var escape = strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "`", "\\`", "*", `\*`, "[", `\[`, "]", `\]`, "#", `\#`, "~", `\~`)

func md(s string) string {
	s = escape.Replace(unit.Text(s))
	if !strings.Contains(s, "_") {
		return s
	}
	// An underscore within a word is plain; at its edge it is markup.
	r := []rune(s)
	word := func(i int) bool {
		return i >= 0 && i < len(r) && (unicode.IsLetter(r[i]) || unicode.IsDigit(r[i]))
	}
	var b strings.Builder
	for i, c := range r {
		if c == '_' && !(word(i-1) && word(i+1)) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func (p *Page) markdown(out io.Writer) error {
	w := page.NewWriter(out)
	for _, h := range p.Head {
		fmt.Fprintf(w, "%s\n\n", md(h))
	}
	for _, t := range p.Tables {
		fmt.Fprintf(w, "### %s\n\n", md(t.Title))
		for _, c := range t.Caption {
			fmt.Fprintf(w, "%s\n\n", md(c))
		}
		var align []tw.Align
		var head []string
		for _, c := range t.Columns {
			h := md(c.Head)
			if c.Group != "" {
				h = md(c.Group) + ": " + h
			}
			head = append(head, h)
			if c.Align == Left {
				align = append(align, tw.AlignLeft)
			} else {
				align = append(align, tw.AlignRight)
			}
		}
		cell := tw.CellConfig{Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone}, Alignment: tw.CellAlignment{PerColumn: align}}
		m := tablewriter.NewTable(w, tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell}), tablewriter.WithRenderer(renderer.NewMarkdown()))
		m.Header(head)
		for _, r := range t.Rows {
			var row []string
			for _, c := range r {
				row = append(row, md(c.Text)+strings.NewReplacer("[", `\[`, "]", `\]`).Replace(page.Marks(c.Marks)))
			}
			if err := m.Append(row); err != nil {
				return err
			}
		}
		if err := m.Render(); err != nil {
			return err
		}
		fmt.Fprintln(w)
		for i, n := range t.Notes {
			fmt.Fprintf(w, "\\[%d\\] %s  \n", i+1, md(n))
		}
		for _, line := range t.Below {
			fmt.Fprintf(w, "%s  \n", md(line))
		}
		if len(t.Notes)+len(t.Below) > 0 {
			fmt.Fprintln(w)
		}
	}
	if len(p.Waived) > 0 {
		fmt.Fprint(w, "### Not run here\n\n")
		for _, line := range p.Waived {
			fmt.Fprintf(w, "* %s\n", md(line))
		}
		fmt.Fprintln(w)
	}
	for _, line := range p.Foot {
		fmt.Fprintf(w, "**warning:** %s\n\n", md(line))
	}
	return w.Err
}

// csv is the tables one below the other, each record led by its table's title.
func (p *Page) csv(out io.Writer) error {
	w := csv.NewWriter(out)
	for _, t := range p.Tables {
		head := []string{"table"}
		for _, c := range t.Columns {
			if c.Group != "" {
				head = append(head, c.Group+": "+c.Head)
			} else {
				head = append(head, c.Head)
			}
		}
		w.Write(append(head, "notes"))
		for _, r := range t.Rows {
			row := []string{t.Title}
			var notes []string
			for _, c := range r {
				row = append(row, plainCSV(c.Text))
				for _, m := range c.Marks {
					notes = append(notes, t.Notes[m-1])
				}
			}
			w.Write(append(row, strings.Join(notes, "; ")))
		}
	}
	w.Flush()
	return w.Error()
}

// plainCSV keeps a spreadsheet from taking a text from a file for a formula, and a terminal from obeying it.
func plainCSV(s string) string {
	s = unit.Text(s)
	if len(s) > 1 && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return "'" + s
		}
	}
	return s
}

func (p *Page) json(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(p)
}
