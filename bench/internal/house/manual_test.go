package house

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hopbench/bench/internal/cli"
	"hopbench/transports/all"
)

// manuals are the texts whose command lines must be commands that exist, as far as they are there.
var manuals = []string{"README.md", "CONTRIBUTING.md", "harness/METHOD.md", "results/runs/README.md", "scripts/GATE.md"}

var (
	commandLine = regexp.MustCompile(`^(?:\$ )?(?:\./)?(?:bin/)?hopbench ([a-z]+)(.*)$`)
	longFlag    = regexp.MustCompile(`(?:^|[\s\[])--([a-z][a-z0-9-]*)`)
)

// commands are the command lines of a text: the lines that begin with the program's name. Fenced says that only those inside ``` count.
func commands(text string, fenced bool) (lines []string) {
	inside := !fenced
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if fenced && strings.HasPrefix(line, "```") {
			inside = !inside
			continue
		}
		if inside && commandLine.MatchString(line) {
			line, _, _ = strings.Cut(line, " #") // a comment
			line, _, _ = strings.Cut(line, " | ")
			lines = append(lines, line)
		}
	}
	return lines
}

func TestTheManualsCommandsExist(t *testing.T) {
	root := repository(t)
	texts := map[string][]string{"bench/doc.go": commands(read(t, os.DirFS(filepath.Join(root, "bench"))).packages["."].doc, false)}
	for _, name := range manuals {
		if data, err := os.ReadFile(filepath.Join(root, name)); err == nil {
			texts[name] = commands(string(data), true)
		}
	}
	if len(texts["bench/doc.go"]) < 5 {
		t.Errorf("the command's own manual has only %d examples", len(texts["bench/doc.go"]))
	}
	help := map[string]string{}
	for name, lines := range texts {
		for _, line := range lines {
			m := commandLine.FindStringSubmatch(line)
			if _, known := help[m[1]]; !known {
				var out bytes.Buffer
				env := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &out, Drivers: all.Drivers(), Now: time.Now, Getenv: func(string) string { return "" }}
				if status := cli.Run(env, []string{m[1], "--help"}); status != 0 {
					out.Reset()
				}
				help[m[1]] = out.String()
			}
			if help[m[1]] == "" {
				t.Errorf("%s: %s: there is no subcommand %s", name, line, m[1])
				continue
			}
			for _, f := range longFlag.FindAllStringSubmatch(m[2], -1) {
				if !regexp.MustCompile(`--` + f[1] + `\b`).MatchString(help[m[1]]) {
					t.Errorf("%s: %s: %s has no flag --%s", name, line, m[1], f[1])
				}
			}
		}
	}
}

func TestCommandLinesAreFound(t *testing.T) {
	got := commands("hopbench run\n```\n$ bin/hopbench run --size 1 | less\nmake run\nhopbench plot a.jsonl # draw\n```\n", true)
	if len(got) != 2 || !strings.HasSuffix(got[0], "--size 1") || !strings.HasSuffix(got[1], "a.jsonl") {
		t.Errorf("%q", got)
	}
}
