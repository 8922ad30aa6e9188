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
func Text(s string) string {
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

// Lines is Text for a text of several lines: it keeps its line ends and tabs.
func Lines(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !harmless(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		at := strings.IndexAny(s, "\n\t")
		if at < 0 {
			at = len(s)
		}
		b.WriteString(Text(s[:at]))
		if at < len(s) {
			b.WriteByte(s[at])
			at++
		}
		s = s[at:]
	}
	return b.String()
}

// harmless says whether a rune stands for itself. Marks of direction and of format (category Cf) are not printable to the unicode package.
func harmless(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
