package page

import (
	"fmt"
	"io"
	"strings"

	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"

	"hopbench/results/unit"
)

const (
	gap        = 2  // spaces between columns of a text page
	labelWidth = 30 // a longer text is wrapped, and a shorter one where the page is narrow
	leastWidth = 10 // but not below this
)

// A block is a column of the drawn text: one column of the table, or those of one group side by side.
type block struct {
	head  []string // lines
	rows  [][]string
	width int
	left  bool
}

// blocks lays the columns out, each cell padded to the width of its column.
func (t *Table) blocks(wrapAt int) []block {
	var out []block
	for from := 0; from < len(t.Columns); {
		to := from + 1
		for g := t.Columns[from].Group; g != "" && to < len(t.Columns) && t.Columns[to].Group == g; {
			to++
		}
		out = append(out, t.block(from, to, wrapAt))
		from = to
	}
	return out
}

func (t *Table) block(from, to, wrapAt int) block {
	b := block{rows: make([][]string, len(t.Rows)), left: to == from+1 && t.Columns[from].Align == Left}
	var heads []string
	lines := make([][][]string, len(t.Rows)) // row, column, line
	for i := range t.Rows {
		lines[i] = make([][]string, to-from)
	}
	for j := from; j < to; j++ {
		cells := t.aligned(j)
		w := width(t.Columns[j].Head)
		for i, c := range cells {
			lines[i][j-from] = []string{c}
			if t.Columns[j].Align == Left && width(c) > wrapAt {
				lines[i][j-from] = split(c, wrapAt)
			}
			for _, l := range lines[i][j-from] {
				w = max(w, width(l))
			}
		}
		for i := range cells {
			for k, l := range lines[i][j-from] {
				lines[i][j-from][k] = pad(l, w, t.Columns[j].Align)
			}
		}
		heads = append(heads, pad(t.Columns[j].Head, w, t.Columns[j].Align))
	}
	sub := strings.Join(heads, "  ")
	b.width = width(sub)
	for i := range t.Rows {
		if to == from+1 {
			b.rows[i] = lines[i][0]
			continue
		}
		var parts []string
		for _, l := range lines[i] {
			parts = append(parts, l[0])
		}
		b.rows[i] = []string{strings.Join(parts, "  ")}
	}
	if g := unit.Text(t.Columns[from].Group); g != "" {
		b.head = split(g, max(b.width, 20))
		for _, l := range b.head {
			b.width = max(b.width, width(l))
		}
	}
	b.head = append(b.head, sub)
	if to == from+1 && t.Columns[from].Align != Left {
		// A head that is wider than its only column stands over its figures' right end.
		for i := range b.head {
			b.head[i] = pad(b.head[i], b.width, Right)
		}
		for i := range b.rows {
			b.rows[i] = []string{pad(b.rows[i][0], b.width, Right)}
		}
	}
	return b
}

// aligned is the column's cells with their decimal points one above the other, and their marks behind.
func (t *Table) aligned(j int) []string {
	out := make([]string, len(t.Rows))
	texts, marks := make([]string, len(t.Rows)), make([]string, len(t.Rows))
	fraction, markWidth := 0, 0
	numeric := func(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' && !strings.ContainsAny(s, " x") }
	for i, r := range t.Rows {
		texts[i], marks[i] = unit.Text(r[j].Text), Marks(r[j].Marks)
		markWidth = max(markWidth, len(marks[i]))
		if at := strings.IndexByte(texts[i], '.'); at >= 0 && numeric(texts[i]) {
			fraction = max(fraction, len(texts[i])-at)
		}
	}
	for i := range out {
		s := texts[i]
		if t.Columns[j].Align == Decimal && numeric(s) {
			have := 0
			if at := strings.IndexByte(s, '.'); at >= 0 {
				have = len(s) - at
			}
			s += strings.Repeat(" ", fraction-have)
		}
		if t.Columns[j].Align != Left {
			out[i] = s + marks[i] + strings.Repeat(" ", markWidth-len(marks[i]))
		} else {
			out[i] = s + marks[i]
		}
	}
	return out
}

func pad(s string, n int, a Align) string {
	spaces := strings.Repeat(" ", max(0, n-width(s)))
	if a == Left {
		return s + spaces
	}
	return spaces + s
}

// Text draws the table, in several parts where its groups are wider than so many columns (0: Width).
func (t *Table) Text(out io.Writer, columns int) error {
	if columns <= 0 {
		columns = Width
	}
	w := NewWriter(out)
	fmt.Fprintln(w, unit.Text(t.Title))
	for _, c := range t.Caption {
		Paragraph(w, "", c, columns)
	}
	var all []block
	fixed, room := 0, 0
	for wrapAt := labelWidth; wrapAt >= leastWidth; wrapAt-- {
		all = t.blocks(wrapAt)
		for fixed < len(all) && t.ungrouped(fixed) {
			fixed++
		}
		room = columns + gap
		for _, b := range all[:fixed] {
			room -= b.width + gap
		}
		widest := 0 // of what may stand on a part of its own
		for _, b := range all[fixed:] {
			widest = max(widest, b.width+gap)
		}
		if room >= widest {
			break
		}
	}
	parts := [][]block{nil}
	left := room
	for _, b := range all[fixed:] {
		if n := len(parts) - 1; left < b.width+gap && len(parts[n]) > 0 {
			parts, left = append(parts, nil), room
		}
		n := len(parts) - 1
		parts[n] = append(parts[n], b)
		left -= b.width + gap
	}
	for i, part := range parts {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := draw(w, append(append([]block{}, all[:fixed]...), part...), len(t.Rows)); err != nil {
			return err
		}
	}
	for i, n := range t.Notes {
		Paragraph(w, fmt.Sprintf("  [%d] ", i+1), n, columns)
	}
	for _, line := range t.Below {
		Paragraph(w, "  ", line, columns)
	}
	return w.Err
}

// ungrouped tells whether block i is a single column: groups only follow columns without one.
func (t *Table) ungrouped(i int) bool { return i < len(t.Columns) && t.Columns[i].Group == "" }

func draw(w io.Writer, blocks []block, rows int) error {
	var buffer strings.Builder
	var align []tw.Align
	var head []string
	tall := 0
	for _, b := range blocks {
		tall = max(tall, len(b.head))
	}
	for _, b := range blocks {
		// Heads stand on the line, not under the top.
		lines := append(make([]string, tall-len(b.head)), b.head...)
		for i := range lines {
			lines[i] = pad(lines[i], b.width, Left)
		}
		head = append(head, strings.Join(lines, "\n"))
		align = append(align, tw.AlignLeft)
	}
	cell := tw.CellConfig{
		Formatting: tw.CellFormatting{AutoFormat: tw.Off, AutoWrap: tw.WrapNone},
		Alignment:  tw.CellAlignment{PerColumn: align},
		Padding:    tw.CellPadding{Global: tw.Padding{Right: strings.Repeat(" ", gap), Overwrite: true}},
	}
	t := tablewriter.NewTable(&buffer,
		tablewriter.WithConfig(tablewriter.Config{Header: cell, Row: cell, Behavior: tw.Behavior{TrimSpace: tw.Off, TrimLine: tw.Off}}),
		tablewriter.WithRenderer(renderer.NewBlueprint(tw.Rendition{
			Borders: tw.BorderNone, Symbols: tw.NewSymbols(tw.StyleLight),
			Settings: tw.Settings{
				Lines:      tw.Lines{ShowTop: tw.Off, ShowBottom: tw.Off, ShowHeaderLine: tw.On, ShowFooterLine: tw.Off},
				Separators: tw.Separators{ShowHeader: tw.On, BetweenRows: tw.Off, BetweenColumns: tw.Off},
			},
		})))
	t.Header(head)
	for i := range rows {
		row := make([]string, 0, len(blocks))
		for _, b := range blocks {
			row = append(row, strings.Join(b.rows[i], "\n"))
		}
		if err := t.Append(row); err != nil {
			return err
		}
	}
	if err := t.Render(); err != nil {
		return err
	}
	for line := range strings.Lines(buffer.String()) {
		if line = strings.TrimRight(line, " \n"); strings.HasSuffix(line, "─") {
			line = strings.TrimSuffix(line, strings.Repeat("─", gap)) // under the columns, not under the space behind them
		}
		if line != "" {
			fmt.Fprintln(w, line)
		}
	}
	return nil
}
