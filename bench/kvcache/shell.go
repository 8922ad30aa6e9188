package kvcache

import (
	"fmt"
	"strings"
)

// command is the words of one shell command and the line that it starts on.
type command struct {
	line  int
	words []string
}

// shellCommands splits a script into commands and words: quotes, backslashes, continued lines and comments as a
// POSIX shell reads them. Nothing is expanded.
func shellCommands(text string) ([]command, error) {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	var out []command
	var current command
	var word strings.Builder
	inWord := false
	line := 1
	endWord := func() {
		if inWord {
			if len(current.words) == 0 {
				current.line = line
			}
			current.words = append(current.words, word.String())
		}
		word.Reset()
		inWord = false
	}
	endCommand := func() {
		endWord()
		if len(current.words) > 0 {
			out = append(out, current)
		}
		current = command{}
	}
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\n':
			endCommand()
			line++
		case ' ', '\t':
			endWord()
		case ';', '|', '&':
			endCommand()
		case '#':
			if inWord {
				word.WriteByte(c)
				continue
			}
			for i+1 < len(text) && text[i+1] != '\n' {
				i++
			}
		case '\\':
			if i+1 >= len(text) {
				continue
			}
			i++
			if text[i] == '\n' {
				line++
				continue
			}
			inWord = true
			word.WriteByte(text[i])
		case '\'', '"':
			start := line
			inWord = true
			for i++; ; i++ {
				if i >= len(text) {
					return nil, fmt.Errorf("line %d: a quote is not closed", start)
				}
				if text[i] == c {
					break
				}
				if c == '"' && text[i] == '\\' && i+1 < len(text) && strings.IndexByte("\"\\$`\n", text[i+1]) >= 0 {
					i++
					if text[i] == '\n' {
						line++
						continue
					}
				}
				if text[i] == '\n' {
					line++
				}
				word.WriteByte(text[i])
			}
		default:
			inWord = true
			word.WriteByte(c)
		}
	}
	endCommand()
	return out, nil
}
