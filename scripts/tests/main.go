// Command tests runs go test and ends with what a reader of a long log wants: each package in one line, the output of what failed,
// and which tests were skipped, by reason. It is what `make test` runs; its arguments are those of go test.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	os.Exit(run(os.Stdout, os.Stderr, os.Args[1:]))
}

func run(stdout, stderr io.Writer, args []string) int {
	test := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	test.Stderr = stderr
	pipe, err := test.StdoutPipe()
	if err == nil {
		err = test.Start()
	}
	if err != nil {
		fmt.Fprintf(stderr, "tests: %v\n", err)
		return 1
	}
	s := newSummary(stdout)
	s.read(pipe)
	err = test.Wait()
	s.close()
	if err != nil || s.failed > 0 {
		return 1
	}
	return 0
}

// event is a line of go test -json (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string
	Test       string
	Elapsed    float64
	Output     string
}

type summary struct {
	w                       io.Writer
	output                  map[string][]string // of tests that have not ended, by package and test
	passed, failed, skipped int
	reasons                 map[string][]string // tests by the reason of their skip
	broken                  []string
}

func newSummary(w io.Writer) *summary {
	return &summary{w: w, output: map[string][]string{}, reasons: map[string][]string{}}
}

func (s *summary) read(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		var e event
		if json.Unmarshal([]byte(line), &e) == nil && e.Action != "" {
			s.take(e)
		} else if line != "" {
			fmt.Fprint(s.w, line)
		}
		if err != nil {
			return
		}
	}
}

// noise are the lines of go test that say nothing about a failure.
var noise = regexp.MustCompile(`^(=== |PASS$|ok  \t|\?   \t|testing: warning: no tests)`)

func (s *summary) take(e event) {
	key := e.Package + "\x00" + e.Test
	short := strings.TrimPrefix(e.Package, "hopbench/")
	switch e.Action {
	case "output":
		if !noise.MatchString(e.Output) {
			s.output[key] = append(s.output[key], e.Output)
		}
	case "build-output":
		fmt.Fprint(s.w, e.Output)
	case "pass", "fail", "skip":
		out := s.output[key]
		delete(s.output, key)
		if e.Test == "" {
			word := map[string]string{"pass": "ok", "fail": "FAIL", "skip": "--"}[e.Action]
			if e.Action == "skip" {
				short += ": no tests"
			}
			if e.Action == "fail" {
				s.broken = append(s.broken, short)
				s.failed++
				fmt.Fprint(s.w, strings.Join(out, ""))
			}
			fmt.Fprintf(s.w, "%-4s %s (%.1f s)\n", word, short, e.Elapsed)
			return
		}
		switch e.Action {
		case "pass":
			s.passed++
		case "skip":
			s.skipped++
			reason := reasonOf(out)
			s.reasons[reason] = append(s.reasons[reason], short+" "+e.Test)
		case "fail":
			s.failed++
			s.broken = append(s.broken, short+" "+e.Test)
			fmt.Fprint(s.w, strings.Join(out, ""))
		}
	}
}

var place = regexp.MustCompile(`^\s*[\w./-]+\.go:\d+: `)

// reasonOf is what a skipped test said last.
func reasonOf(out []string) string {
	for _, line := range slices.Backward(out) {
		if loc := place.FindStringIndex(line); loc != nil {
			return strings.TrimSpace(line[loc[1]:])
		}
	}
	return "no reason given"
}

// close prints the closing lines.
func (s *summary) close() {
	if len(s.reasons) > 0 {
		fmt.Fprintf(s.w, "\nskipped, by reason:\n")
	}
	var reasons []string
	for r := range s.reasons {
		reasons = append(reasons, r)
	}
	slices.Sort(reasons)
	for _, r := range reasons {
		fmt.Fprintf(s.w, "  %s\n", r)
		tests := s.reasons[r]
		for _, t := range tests[:min(3, len(tests))] {
			fmt.Fprintf(s.w, "    %s\n", t)
		}
		if n := len(tests) - 3; n > 0 {
			fmt.Fprintf(s.w, "    and %d more\n", n)
		}
	}
	for _, b := range s.broken {
		fmt.Fprintf(s.w, "FAILED %s\n", b)
	}
	fmt.Fprintf(s.w, "%d passed, %d skipped, %d failed\n", s.passed, s.skipped, s.failed)
}
