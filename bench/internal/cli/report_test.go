package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hopbench/bench/internal/cli"
)

// reportRun runs hopbench report in a folder of its own and returns its exit status and both outputs.
func reportRun(t *testing.T, dir string, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	t.Chdir(dir)
	var out, err bytes.Buffer
	env := &cli.Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err, Now: time.Now, Getenv: func(string) string { return "" }}
	status = cli.Run(env, append([]string{"report"}, args...))
	return status, out.String(), err.String()
}

const (
	reportHeader = `{"record":"header","schema":"hopbench.results/v1","tool_version":"v1","started":"2026-12-01T09:00:00Z","hosts":[]}` + "\n"
	reportWaived = `{"record":"cell","transport":"roce","label":"roce","realm":"hardware","definition":"","operation":"","direction":"","piece_bytes":0,"total_bytes":0,"descriptors":0,"pattern":"","depth":0,"streams":0,"concurrency":0,"initiator_memory":"","target_memory":"","wait":"","status":"waived","reason":"no <b>RDMA</b> device"}` + "\n"
	reportFooter = `{"record":"footer","state":"complete","cells":1}` + "\n"
)

func TestReport(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("waived.jsonl", reportHeader+reportWaived+reportFooter)
	put("newer.jsonl", strings.Replace(reportHeader, "results/v1", "results/v2", 1)+reportFooter)
	put("double.jsonl", reportHeader+strings.Replace(reportWaived, `"hardware"`, `"double"`, 1)+reportFooter)
	put("exists.html", "mine")
	if err := os.Mkdir(filepath.Join(dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, k := range []struct {
		name   string
		args   []string
		status int
		stdout string // a part of it
		stderr string // a part of it
	}{
		{"no file", nil, 2, "", "name a result file"},
		{"missing file", []string{"gone.jsonl"}, 2, "", "gone.jsonl"},
		{"only waived", []string{"waived.jsonl", "-o", "a.html"}, 0, "a.html", "without the planner"},
		{"Markdown", []string{"waived.jsonl", "--format", "markdown"}, 0, "no &lt;b&gt;RDMA&lt;/b&gt; device", ""},
		{"Markdown by name", []string{"waived.jsonl", "-o", "a.md"}, 0, "a.md", ""},
		{"HTML to standard output", []string{"waived.jsonl", "-o", "-"}, 0, "no &lt;b&gt;RDMA&lt;/b&gt; device", "without the planner"},
		{"versions mixed", []string{"waived.jsonl", "newer.jsonl", "-o", "b.html"}, 2, "", "newer.jsonl"},
		{"double", []string{"double.jsonl", "-o", "b.html"}, 2, "", "fake library"},
		{"it exists", []string{"waived.jsonl", "-o", "exists.html"}, 2, "", "--force replaces it"},
		{"by force", []string{"waived.jsonl", "-o", "exists.html", "--force"}, 0, "exists.html", ""},
		{"a folder", []string{"waived.jsonl", "-o", "folder"}, 2, "", "it is a folder"},
		{"below a file", []string{"waived.jsonl", "-o", "waived.jsonl/x.html"}, 2, "", "not a directory"},
		{"no such folder", []string{"waived.jsonl", "-o", "nowhere/x.html"}, 2, "", "no such file or directory"},
		{"device full", []string{"waived.jsonl", "-o", "/dev/full", "--force"}, 1, "", "no space left"},
		{"no such format", []string{"waived.jsonl", "--format", "pdf"}, 2, "", "html, markdown"},
		{"empty name", []string{"waived.jsonl", "-o", ""}, 2, "", "--out is empty"},
		{"no such cell", []string{"waived.jsonl", "--cells", "tcp/*"}, 2, "", "no cell's name matches"},
	} {
		t.Run(k.name, func(t *testing.T) {
			status, stdout, stderr := reportRun(t, dir, k.args...)
			if status != k.status || !strings.Contains(stdout, k.stdout) || !strings.Contains(stderr, k.stderr) {
				t.Errorf("status %d, want %d\nstdout %.300s\nstderr %s", status, k.status, stdout, stderr)
			}
			if k.status == 2 && strings.Count(stderr, "\n") != 1 {
				t.Errorf("not one line: %s", stderr)
			}
		})
	}
	if _, err := os.Stat(filepath.Join(dir, "b.html")); err == nil {
		t.Error("a refused report left a file")
	}
	if b, err := os.ReadFile(filepath.Join(dir, "a.html")); err != nil || !bytes.Contains(b, []byte("no &lt;b&gt;RDMA&lt;/b&gt; device")) {
		t.Errorf("a.html: %v", err)
	}
}
