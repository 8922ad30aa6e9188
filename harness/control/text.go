package control

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// clean makes a text fit for the wire and for a terminal: valid UTF-8 on one line, without control characters, at most most bytes.
func clean(s string, most int) string { return cleanText(s, most, false) }

// cleanLines is clean for a text of several lines.
func cleanLines(s string, most int) string { return cleanText(s, most, true) }

func cleanText(s string, most int, lines bool) string {
	if len(s) > most {
		s = s[:most]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, n := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && n <= 1 && len(s) > 0 {
			s = s[:len(s)-1]
		}
	}
	if plain(s) {
		return s
	}
	out := strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return '?'
		case lines && (r == '\n' || r == '\t'):
			return r
		case r == '\n' || r == '\t':
			return ' '
		case !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
	return out
}

// plain says whether a text is valid UTF-8 of printable characters only.
func plain(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}
