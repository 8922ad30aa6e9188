package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestPlot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.jsonl")
	const header = `{"record":"header","schema":"hopbench.results/v1","tool_version":"v1","started":"2026-01-02T03:04:05Z","hosts":[{"hostname":"alpha"}]}` + "\n"
	const cell = `{"record":"cell","transport":"tcp","label":"tcp, same host","realm":"software","definition":"bandwidth.confirmed","operation":"write","direction":"forward","piece_bytes":4096,"total_bytes":4096,"descriptors":1,"pattern":"contiguous","depth":1,"streams":1,"concurrency":1,"initiator_memory":"host","target_memory":"host","wait":"spin","status":"ok","bandwidth":{"bytes_per_second":1e9,"rounds":[1e9]}}` + "\n"
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("run.jsonl", header+cell)
	double := write("double.jsonl", header+strings.Replace(cell, `"software"`, `"double"`, 1))
	empty := write("empty.jsonl", "")
	none := write("none.jsonl", header)
	graph := write("probe.json", `{"graph":{"boxes":[{"id":"a","kind":"root","label":"pci0000:00","rank":0}],"lines":[]}}`)
	svg := filepath.Join(dir, "b.svg")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"one figure", []string{file, "--metric", "bandwidth", "--out", svg}, 0, "b.svg"},
		{"it exists", []string{file, "--out", svg}, 2, "--force replaces it"},
		{"force", []string{file, "--out", svg, "--force"}, 0, "b.svg"},
		{"a folder", []string{file, "-o", filepath.Join(dir, "figures"), "--format", "svg,png,pdf"}, 0, "bandwidth.pdf"},
		{"topology", []string{graph, "--kind", "topology", "--out", filepath.Join(dir, "t.png")}, 0, "t.png"},
		{"topology of something else", []string{file, "--kind", "topology", "--out", filepath.Join(dir, "u.png")}, 2, "not the output of hopbench probe"},
		{"no values", []string{file, "--kind", "latency", "--out", filepath.Join(dir, "l.svg")}, 2, "nothing to draw"},
		{"empty out", []string{file, "--out", ""}, 2, "--out is empty"},
		{"bandwidth as SVG and PNG by default", []string{file, "-o", filepath.Join(dir, "default")}, 0, "bandwidth.png"},
		{"what has no values by default is said", []string{file, "-o", filepath.Join(dir, "default"), "--force"}, 0, "no values for latency"},
		{"what was asked for has no values", []string{file, "-o", filepath.Join(dir, "asked"), "--kind", "bandwidth,latency"}, 2, "latency: nothing to draw"},
		{"all kinds", []string{file, "-o", filepath.Join(dir, "all"), "--kind", "all", "--theme", "dark"}, 0, "bandwidth.svg"},
		{"two kinds in one file", []string{file, "-o", filepath.Join(dir, "two.svg"), "--kind", "bandwidth,latency"}, 2, "name a folder"},
		{"kinds of other files", []string{file, "-o", dir, "--kind", "bandwidth,ratio"}, 2, "ask for it alone"},
		{"theme", []string{file, "--theme", "drak"}, 2, "did you mean dark?"},
		{"no format", []string{file, "--format", ""}, 2, "--format"},
		{"a folder that is a file", []string{file, "-o", filepath.Join(file, "figures")}, 2, "run.jsonl/figures"},
		{"ratio", []string{file, file, "--kind", "ratio", "-o", filepath.Join(dir, "r.svg")}, 0, "r.svg"},
		{"no file", []string{"--out", svg}, 2, "name a result file"},
		{"extension", []string{file, "--out", filepath.Join(dir, "b.gif")}, 2, ".svg, .png or .pdf"},
		{"kind", []string{file, "--kind", "bandwith", "--out", svg}, 2, "did you mean bandwidth?"},
		{"double", []string{double, "--out", svg, "--force"}, 2, "realm double"},
		{"empty", []string{empty, "--out", svg, "--force"}, 2, "empty.jsonl"},
		{"a map of what has no pairs", []string{file, "--kind", "heat", "--out", filepath.Join(dir, "h.svg")}, 2, "it takes rows of hopbench mesh"},
		{"phases of what was not staged", []string{file, "--kind", "phases", "--out", filepath.Join(dir, "h.svg")}, 2, "--mem cuda:0"},
		{"no cell", []string{none, "--out", svg, "--force"}, 2, "nothing to draw"},
		{"missing folder", []string{file, "--out", filepath.Join(dir, "no", "b.svg")}, 2, "--out"},
		{"no such cell", []string{file, "--out", svg, "--force", "--cells", "roce/*"}, 2, "no cell's name matches"},
		{"width", []string{file, "--out", svg, "--force", "--width", "3"}, 2, "--width"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
			if code := Run(env, append([]string{"plot"}, c.args...)); code != c.code || !strings.Contains(out.String()+errs.String(), c.want) {
				t.Errorf("exit status %d, want %d and %q:\n%s%s", code, c.code, c.want, &out, &errs)
			}
		})
	}
}
