package unit

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text makes text that came from elsewhere (a file, a peer, a driver) one line that does nothing but stand there: a terminal obeys no
// escape sequence in it, and no mark turns the direction in which what follows is read. Every space, line end and tab becomes one
// space; what is not printable, and what is not UTF-8, becomes its escape as in JSON, \u202e, so that a JSON string
// means the same. Whatever prints such text for people prints it so.
func Text(s string) string { return escape(s, printed) }

// Lines is the least of that, for a whole output of several lines that holds such text: only what a terminal obeys, and marks of direction, become
// their escapes. Line ends, tabs and every other character stay.
func Lines(s string) string { return escape(s, inert) }

func escape(s string, harmless func(rune) bool) string {
	at := strings.IndexFunc(s, func(r rune) bool { return !harmless(r) })
	if at < 0 {
		return s
	}
	var b strings.Builder
	b.WriteString(s[:at])
	for _, r := range s[at:] {
		switch {
		case harmless(r):
			b.WriteRune(r)
		case unicode.IsSpace(r):
			b.WriteByte(' ')
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// printed says whether a character stands for itself in a line. Marks of direction and of format (category Cf) are not printable to package unicode.
func printed(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }

// inert says whether nothing obeys a character: it is no control character and no mark of direction.
func inert(r rune) bool {
	return r == '\n' || r == '\t' || !unicode.IsControl(r) && !unicode.Is(unicode.Bidi_Control, r)
}
