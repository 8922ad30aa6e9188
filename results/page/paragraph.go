package page

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"hopbench/results/unit"
)

// width is the columns that the text takes, for text without wide runes; they only misalign a line.
func width(s string) int { return utf8.RuneCountInString(s) }

// wrap breaks a text at spaces into lines of at most n columns, where it has spaces.
func wrap(s string, n int) []string {
	var lines []string
	line := ""
	words := strings.Fields(s)
	for i, word := range words {
		if word == "%" && i > 0 {
			continue // it went with its number
		}
		if i+1 < len(words) && words[i+1] == "%" {
			word += " %"
		}
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) <= n:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// split is wrap, and breaks a word that is longer than a line as well, behind a slash where it has one.
func split(s string, n int) []string {
	var lines []string
	for _, line := range wrap(s, n) {
		r := []rune(line)
		for len(r) > n {
			at := n
			for i := n; i > n/2; i-- {
				if r[i-1] == '/' {
					at = i
					break
				}
			}
			lines, r = append(lines, string(r[:at])), r[at:]
		}
		lines = append(lines, string(r))
	}
	return lines
}

// Paragraph writes a text of any origin behind a mark, wrapped to so many columns, its further lines under its first.
func Paragraph(w io.Writer, mark, text string, columns int) {
	for i, line := range wrap(unit.Text(text), max(20, columns-width(mark))) {
		if i > 0 {
			mark = strings.Repeat(" ", width(mark))
		}
		fmt.Fprintf(w, "%s%s\n", mark, line)
	}
}

// Writer keeps the first error, so that a page is written without asking at each line.
type Writer struct {
	Err error
	w   io.Writer
}

// NewWriter writes to w until that fails.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

func (e *Writer) Write(b []byte) (int, error) {
	if e.Err != nil {
		return len(b), nil
	}
	_, e.Err = e.w.Write(b)
	return len(b), nil
}
