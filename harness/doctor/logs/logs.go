// Package logs knows lines that other programs of this field write when a path fails: UCX, NCCL, MPI, libibverbs, perftest,
// NIXL, Mooncake, vLLM, SGLang, CUDA, NVML, iperf3. For each it says what the line means and which codes of the fault table
// name its causes, so that the doctor can look whether this host's facts confirm one.
package logs

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strings"

	"hopbench/transports/fault"
)

// Signature is one kind of line.
type Signature struct {
	ID      string         // short name: "verbs.create-ah"
	By      string         // who writes it
	Pattern *regexp.Regexp // matches within one line
	Means   string         // what the line says, in other words
	// Causes are the codes that explain it, the likeliest first. The doctor confirms them by this host's facts.
	Causes []fault.Code
	// Do is what to do where no cause of this host is confirmed.
	Do string
}

// Match is a signature that was found, with where.
type Match struct {
	Signature *Signature
	Line      int    // of the first, from 1
	Text      string // the first line, cut
	Count     int    // how many lines
	Lines     []int  // where, the first maxLines of them
}

// Unknown are lines that look like errors and match no signature.
type Unknown struct {
	Count int   `json:"count"`
	Lines []int `json:"lines,omitempty"` // the first maxLines of them, from 1
}

const (
	maxLine = 16 << 10 // what is beyond is dropped: a line that means something says so at its start
	maxText = 300
	// maxLines are as many as a person looks up.
	maxLines = 10
)

// Scan reads a log and returns the signatures found in it, in the order of their first lines. A line may match several;
// the first in the table's order wins, which stands from the special to the general. What looks like an error and matches
// none is counted, so that a reader knows what was left out.
func Scan(r io.Reader) (out []Match, unknown Unknown, err error) {
	at := map[*Signature]int{}
	table := Table()
	br := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(br)
		if errors.Is(err, io.EOF) && line == "" {
			return out, unknown, nil
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return out, unknown, err
		}
		if s := match(table, line); s != nil {
			if i, ok := at[s]; ok {
				out[i].Count++
				if len(out[i].Lines) < maxLines {
					out[i].Lines = append(out[i].Lines, n)
				}
			} else {
				at[s] = len(out)
				out = append(out, Match{Signature: s, Line: n, Text: cut(line), Count: 1, Lines: []int{n}})
			}
		} else if alarm.MatchString(line) && !calm.MatchString(line) {
			if unknown.Count++; len(unknown.Lines) < maxLines {
				unknown.Lines = append(unknown.Lines, n)
			}
		}
		if err != nil {
			return out, unknown, nil
		}
	}
}

// Line returns the signature of one line, or nil.
func Line(line string) *Signature { return match(Table(), line) }

func match(table []*Signature, line string) *Signature {
	for _, s := range table {
		if s.Pattern.MatchString(line) {
			return s
		}
	}
	return nil
}

// readLine reads up to a newline and drops what is beyond maxLine.
func readLine(br *bufio.Reader) (string, error) {
	var b strings.Builder
	for {
		part, err := br.ReadSlice('\n')
		if room := maxLine - b.Len(); room > 0 {
			b.Write(part[:min(len(part), room)])
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		return strings.TrimRight(b.String(), "\r\n"), err
	}
}

// alarm are the words of a line that looks like an error; calm those of one that says there was none.
var (
	alarm = regexp.MustCompile(`(?i)\b(error|errors|fatal|fail|failed|failure|failures|abort|aborted|refused|denied|cannot|couldn't|unable to|timed out|not found|no such|segmentation fault|traceback|exception|panic)\b`)
	calm  = regexp.MustCompile(`(?i)\b(no|0|without|zero) (errors?|failures?)\b|\b(errors?|failures?|failed)\W{1,3}0\b`)
)

var escape = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]")

func cut(s string) string {
	s = strings.TrimSpace(escape.ReplaceAllString(s, ""))
	if r := []rune(s); len(r) > maxText {
		return string(r[:maxText]) + "…"
	}
	return s
}
