package cli

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hopbench/results"
)

// resultFile is a small result file of one cell in the realm.
func resultFile(t *testing.T, realm string) (path, content string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "one.jsonl")
	w, err := results.Create(path, results.Refuse, &results.Header{ToolVersion: "test"})
	if err != nil {
		t.Fatal(err)
	}
	cell := &results.Cell{Transport: "tcp", Label: "tcp, same host", Realm: realm, Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward", TotalBytes: 65536, PieceBytes: 65536,
		Descriptors: 1, Depth: 16, Streams: 1, Concurrency: 1, Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: 2.5e9, Rounds: []float64{2.5e9}}}
	if err := w.Cell(cell); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(results.StateComplete, ""); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, string(b)
}

// tableOf runs the subcommand and returns its exit status and output.
func tableOf(stdin string, args ...string) (code int, stdout, message string) {
	var out bytes.Buffer
	env := &Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: io.Discard, Getenv: func(string) string { return "" }}
	root := newRoot(env)
	for _, c := range root.Commands() {
		if c.Name() == "table" {
			root.RemoveCommand(c)
		}
	}
	root.AddCommand(newTable(env))
	root.SetArgs(append([]string{"table"}, args...))
	err := root.Execute()
	if err == nil {
		return 0, out.String(), ""
	}
	return status(err), out.String(), err.Error()
}

func TestTableCommand(t *testing.T) {
	path, content := resultFile(t, results.RealmSoftware)
	double, _ := resultFile(t, results.RealmDouble)
	foreign := filepath.Join(t.TempDir(), "foreign.jsonl")
	if err := os.WriteFile(foreign, []byte("hello\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		want        string // in the output, or in the message where code is not 0
	}{
		{"text", "", []string{path}, 0, "64 KiB            2.50"},
		{"a folder", "", []string{filepath.Dir(path)}, 0, "2.50"},
		{"standard input", content, []string{"-"}, 0, "2.50"},
		{"Markdown", "", []string{"--format", "markdown", path}, 0, "| 64 KiB |"},
		{"CSV", "", []string{"--format", "csv", path}, 0, "65536,64 KiB"},
		{"JSON", "", []string{"--json", path}, 0, `"title": "Bandwidth, write, one way (bandwidth.confirmed)"`},
		{"a view", "", []string{"--view", "perftest", path}, 0, "tcp is not verbs"},
		{"no file", "", nil, 2, "name a result file"},
		{"an absent file", "", []string{"absent.jsonl"}, 2, "absent.jsonl"},
		{"a foreign file", "", []string{foreign}, 2, "foreign.jsonl:1: not a hopbench result file"},
		{"empty input", "", []string{"-"}, 2, "standard input:1: empty"},
		{"a double", "", []string{double}, 2, "realm double"},
		{"another format", "", []string{"--format", "markdwn", path}, 2, `--format "markdwn"`},
		{"another view", "", []string{"--view", "iperf", path}, 2, `--view "iperf"`},
		{"both", "", []string{"--json", "--format", "csv", path}, 2, "choose one"},
		{"a narrow page", "", []string{"--width", "3", path}, 2, "--width 3"},
		{"an unknown flag", "", []string{"--formt", "csv", path}, 2, "did you mean --format?"},
	} {
		code, out, message := tableOf(c.stdin, c.args...)
		got := out
		if c.code != 0 {
			got = message
			if out != "" {
				t.Errorf("%s: wrote %q beside the error", c.name, out)
			}
		}
		if code != c.code || !strings.Contains(got, c.want) {
			t.Errorf("%s: exit %d, %s\n%s", c.name, code, message, got)
		}
	}
}
