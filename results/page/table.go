// Package page lays text out for a terminal: paragraphs and tables that keep to a number of columns. A table that is wider is split at its
// groups of columns, long texts in it are wrapped, decimal points stand one above the other, and footnotes stand beneath. It knows nothing of what
// the tables are of.
package page

import (
	"fmt"
	"strings"
)

// Width is the columns of a page where a reader does not choose.
const Width = 100

// Align is how a column stands.
type Align int

const (
	Left Align = iota
	Right
	Decimal // right, with the decimal points one above the other
)

// Column is one column. Columns that follow each other with the same Group belong together.
type Column struct {
	Group string `json:"group,omitempty"`
	Head  string `json:"head"` // with its unit
	Align Align  `json:"-"`
}

// Table is one table, before it is drawn. Cell texts may end in footnote marks such as [1].
type Table struct {
	Title   string   `json:"title"`
	Caption []string `json:"caption,omitempty"` // lines between title and table
	Columns []Column `json:"columns"`
	Rows    [][]Cell `json:"rows"`
	Notes   []string `json:"notes,omitempty"` // note n is marked [n+1]
	Below   []string `json:"below,omitempty"` // lines beneath, without mark
}

// Cell is one cell: its text, and the footnotes that belong to it.
type Cell struct {
	Text  string `json:"text"`
	Marks []int  `json:"marks,omitempty"` // from 1
}

// Note adds a footnote, or finds the one that says the same, and returns its mark.
func (t *Table) Note(text string) int {
	for i, n := range t.Notes {
		if n == text {
			return i + 1
		}
	}
	t.Notes = append(t.Notes, text)
	return len(t.Notes)
}

// Marks are the marks of footnotes as they stand behind a text: [1,2].
func Marks(marks []int) string {
	if len(marks) == 0 {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(marks), " ", ",")
}
