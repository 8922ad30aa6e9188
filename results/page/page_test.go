package page

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestParagraph(t *testing.T) {
	for _, c := range []struct {
		name, mark, text, want string
		columns                int
	}{
		{"further lines stand under the first", "  [1] ", "one two three four five six", "  [1] one two three four five\n      six\n", 30},
		{"a percent sign stays with its number", "", "aaaaaaaaaaaaaaaaaaaaaaaaa 12.5 % bbb", "aaaaaaaaaaaaaaaaaaaaaaaaa\n12.5 % bbb\n", 30},
		{"an address is not cut", "", "see https://example.org/a/very/long/path/that/has/no/end now", "see\nhttps://example.org/a/very/long/path/that/has/no/end\nnow\n", 30},
		{"no text is a line", "- ", "", "- \n", 30},
		{"what a terminal would obey does not", "", "red \x1b[31m", "red \\u001b[31m\n", 30},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			Paragraph(&b, c.mark, c.text, c.columns)
			if b.String() != c.want {
				t.Errorf("%q, want %q", b.String(), c.want)
			}
		})
	}
}

func TestTable(t *testing.T) {
	cells := func(texts ...string) (row []Cell) {
		for _, text := range texts {
			row = append(row, Cell{Text: text})
		}
		return row
	}
	table := &Table{
		Title: "Rates",
		Columns: []Column{
			{Head: "path"}, {Group: "first host", Head: "GB/s", Align: Decimal}, {Group: "first host", Head: "us", Align: Right},
			{Group: "second host", Head: "GB/s", Align: Decimal}, {Group: "second host", Head: "us", Align: Right},
		},
		Rows: [][]Cell{cells("tcp/write/bandwidth.confirmed/64KiB/depth=16", "1.5", "7", "10.25", "-"), cells("roce", "24", "2", "never", "")},
	}
	table.Rows[1][0].Marks = []int{table.Note("why"), table.Note("why"), table.Note("and")}
	var b strings.Builder
	if err := table.Text(&b, 44); err != nil {
		t.Fatal(err)
	}
	const want = `Rates
                                first host
path                            GB/s  us
──────────────────────────────────────────
tcp/write/bandwidth.confirmed/   1.5   7
64KiB/depth=16
roce[1,1,2]                     24     2

                                second host
path                             GB/s  us
───────────────────────────────────────────
tcp/write/bandwidth.confirmed/  10.25   -
64KiB/depth=16
roce[1,1,2]                     never
  [1] why
  [2] and
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
	for _, columns := range []int{40, 60, 100} {
		b.Reset()
		if err := table.Text(&b, columns); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columns {
				t.Errorf("%d columns on a page of %d: %s", n, columns, line)
			}
		}
	}
}

// The first error ends the writing, and is what the page reports.
func TestWriterThatFails(t *testing.T) {
	w := NewWriter(failing{})
	Paragraph(w, "", "text", Width)
	if w.Err == nil {
		t.Error("no error")
	}
	if err := (&Table{Title: "x", Columns: []Column{{Head: "a"}}}).Text(failing{}, 0); err == nil {
		t.Error("a table has no error")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

var errFull = errorText("no space left")

type errorText string

func (e errorText) Error() string { return string(e) }
