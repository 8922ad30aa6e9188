package house

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"hopbench/bench/internal/cli"
	"hopbench/transports/all"
)

// TestPublishedFiguresAreThoseOfTheirFiles projects and draws what plots/figures publishes again, by the commands of scripts/figures.sh, and
// holds it to the bytes that are committed. The version of the tool that projected is the only thing that may differ.
func TestPublishedFiguresAreThoseOfTheirFiles(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("the published figures were drawn on amd64, and %s rounds floating-point numbers apart", runtime.GOARCH)
	}
	root := repository(t)
	script, err := os.ReadFile(filepath.Join(root, "scripts/figures.sh"))
	if err != nil {
		t.Fatal(err)
	}
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	source := regexp.MustCompile(`(?m)^RUN \?= (\S+)$`).FindSubmatch(makefile)
	if source == nil {
		t.Fatal("the Makefile names no run that the figures are drawn from")
	}
	run := string(source[1])
	t.Chdir(root)
	command := func(args ...string) []byte {
		t.Helper()
		var out, errs bytes.Buffer
		env := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Drivers: all.Drivers(), Now: time.Now, Getenv: func(string) string { return "" }}
		if status := cli.Run(env, args); status != 0 {
			t.Fatalf("%q: exit status %d: %s", args, status, errs.String())
		}
		return out.Bytes()
	}
	tool := regexp.MustCompile(`(?m)^  "tool": .*\n`)
	const out = "plots/figures/"
	draw := func(kind, name, from string) {
		t.Helper()
		for _, format := range []string{"svg", "png"} {
			file := filepath.Join(t.TempDir(), name+"."+format)
			command("plot", "--kind", kind, "--out", file, from)
			got, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(out + name + "." + format)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s%s.%s is not what its file gives: `make figures` draws it anew", out, name, format)
			}
		}
	}
	drawn := 0
	words := func(line string) []string {
		line = strings.NewReplacer(`"$run"`, run, "$out/", out).Replace(line)
		return strings.Fields(line)
	}
	for line := range strings.Lines(string(script)) {
		w := words(line)
		switch {
		case strings.HasPrefix(line, "project "):
			name := w[1]
			want, err := os.ReadFile(out + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			got := command(append(append([]string{"ttft"}, w[2:]...), "--json")...)
			if !bytes.Equal(tool.ReplaceAll(got, nil), tool.ReplaceAll(want, nil)) {
				t.Errorf("%s%s.json is not what its command gives: `make figures` projects it anew", out, name)
			}
		case strings.HasPrefix(line, "draw "):
			draw(w[1], w[2], w[3])
			drawn++
		case strings.HasPrefix(line, "for kind in "):
			kinds, _, _ := strings.Cut(strings.TrimPrefix(line, "for kind in "), ";")
			for _, kind := range strings.Fields(kinds) {
				draw(kind, "tcp-"+kind, run)
				drawn++
			}
		}
	}
	if drawn < 5 {
		t.Errorf("%d figures are drawn by scripts/figures.sh", drawn)
	}
}
