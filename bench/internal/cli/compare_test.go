package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hopbench/results"
)

// command runs one subcommand and returns its exit status, output and error.
func command(t *testing.T, stdin string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
	root := newRoot(env)
	root.RemoveCommand(root.Commands()...)
	root.AddCommand(newCompare(env), newExport(env), newImport(env), newTable(env))
	root.SetArgs(args)
	if err := root.Execute(); err != nil {
		return status(err), out.String(), err.Error()
	}
	return 0, out.String(), errs.String()
}

// gateRun writes a run of one cell, begun the given number of minutes after noon.
func gateRun(t *testing.T, dir string, minute int, rounds ...float64) string {
	t.Helper()
	path := filepath.Join(dir, fmt.Sprintf("%03d.jsonl", minute))
	w, err := results.Create(path, results.Refuse, &results.Header{ToolVersion: "test", Started: time.Date(2026, 11, 1, 12, minute, 0, 0, time.UTC)})
	if err != nil {
		t.Fatal(err)
	}
	c := &results.Cell{Transport: "tcp", Label: "tcp, same host", Realm: "software", Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward", TotalBytes: 65536, PieceBytes: 65536,
		Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: results.StatusOK, Bandwidth: &results.Bandwidth{BytesPerSecond: rounds[0], Rounds: rounds}}
	if err := w.Cell(c); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(results.StateComplete, ""); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCompareCommand(t *testing.T) {
	old, new := t.TempDir(), t.TempDir()
	var oldFiles, newFiles []string
	for i := range 16 {
		wobble := 1 + 0.002*float64(i%5)
		if i%4 == 0 || i%4 == 3 {
			oldFiles = append(oldFiles, gateRun(t, old, i, 1e9*wobble))
		} else {
			newFiles = append(newFiles, gateRun(t, new, i, 0.8e9*wobble))
		}
	}
	one := gateRun(t, t.TempDir(), 40, 1e9)
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	os.WriteFile(empty, nil, 0o644)
	for _, c := range []struct {
		args string
		code int
		want string // in the output or the error
	}{
		{"compare OLD NEW", 1, "-20."},
		{"compare NEW OLD", 0, "improvement"},
		{"compare OLD NEW --fail-on none", 0, "regression"},
		{"compare OLD NEW --min-effect 30%", 0, "same"},
		{"compare OLD NEW --min-effect *64KiB*=0.3", 0, "same"},
		{"compare OLD NEW --min-effect *2MiB*=0.3", 2, "no row matches"},
		{"compare OLD NEW --cells roce/*", 2, "no cell matches"},
		{"compare OLD NEW --format markdown", 1, "### ❌"},
		{"compare NEW OLD --fail-below bandwidth=2GB/s", 1, "below 2.00 GB/s"},
		{"compare NEW OLD --fail-below bandwidth:tcp/*=500MB/s", 0, ""},
		{"compare NEW OLD --fail-above latency_p50=20us", 2, "can never fail"},
		{"compare NEW OLD --fail-below speed=1", 2, "no metric"},
		{"compare NEW OLD --fail-above latency_p50=20", 2, "needs its unit"},
		{"compare NEW OLD --fail-on regresion", 2, "did you mean regression"},
		{"compare NEW OLD --metric throughput", 2, "--metric"},
		{"compare NEW OLD --alpha 0", 2, "--alpha"},
		{"compare NEW OLD --min-effect fast", 2, "--min-effect"},
		{"compare OLD", 2, "OLD and NEW"},
		{"compare OLD NEW ONE", 2, "no -- between"},
		{"compare OLDFILES -- NEWFILES", 1, "worse"},
		{"compare ONE NEW", 1, "cannot fail"},
		{"compare OLD OLD", 0, "the same file"},
		{"compare OLD OLD --fail-on regression", 1, "the same file"},
		{"compare OLD OLD --fail-on undecided", 1, "the same file stands on both sides\n"},
		{"compare OLD EMPTY", 2, "empty.jsonl"},
		{"compare OLD NONE", 2, "no such file"},
		{"compare NEW OLD --noise OLD", 0, "improvement"},
		{"compare OLD NEW --across definition", 2, "two quantities"},
	} {
		var args []string
		for _, a := range strings.Fields(c.args) {
			switch a {
			case "OLD":
				args = append(args, old)
			case "NEW":
				args = append(args, new)
			case "ONE":
				args = append(args, one)
			case "EMPTY":
				args = append(args, empty)
			case "NONE":
				args = append(args, filepath.Join(old, "none"))
			case "OLDFILES":
				args = append(args, oldFiles...)
			case "NEWFILES":
				args = append(args, newFiles...)
			default:
				args = append(args, a)
			}
		}
		code, out, message := command(t, "", args...)
		if code != c.code || !strings.Contains(out+message, c.want) {
			t.Errorf("%s: exit %d, want %d with %q:\n%s%s", c.args, code, c.code, c.want, out, message)
		}
		if _, fails, ok := strings.Cut(out, "\nfails:\n"); ok && strings.Count(fails, "stands on both sides")+strings.Count(fails, "cannot fail") > 1+strings.Count(fails, ": this comparison cannot fail") {
			t.Errorf("%s: one reason stands twice:\n%s", c.args, fails)
		}
	}
	code, out, _ := command(t, "", "compare", old, new, "--json")
	var report struct {
		Verdict string
		Rows    []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil || code != 1 || report.Verdict != "regression" || len(report.Rows) != 1 {
		t.Fatalf("exit %d, %v: %s", code, err, out)
	}
	for _, key := range []string{"transport", "definition", "total_bytes", "realm", "metric", "old", "new", "ratio", "ratio_low", "ratio_high", "p_value", "verdict"} {
		if _, ok := report.Rows[0][key]; !ok {
			t.Errorf("a row has no %s", key)
		}
	}
}

func TestImportAndExportCommands(t *testing.T) {
	samples := filepath.Join("..", "..", "..", "results", "foreign", "testdata")
	out := filepath.Join(t.TempDir(), "peers.jsonl")
	code, _, message := command(t, "", "import", filepath.Join(samples, "iperf3-loopback.json"), filepath.Join(samples, "perftest-send-lat.txt"), filepath.Join(samples, "nvbandwidth-2gpu.json"), "-o", out)
	if code != 0 || !strings.Contains(message, "does not name the buffer size") {
		t.Fatal(code, message)
	}
	runs, err := results.ReadFiles(out)
	if err != nil || len(runs) != 3 {
		t.Fatal(len(runs), err)
	}
	if h := runs[0].Header; !strings.Contains(h.Source, "iperf3 3.12") || !strings.Contains(h.Source, "sha256") || h.Hosts[0].Hostname != "vm" {
		t.Errorf("%+v", h)
	}
	if code, _, message = command(t, "", "import", filepath.Join(samples, "iperf3-loopback.json"), "-o", out); code != 2 || !strings.Contains(message, "--force") {
		t.Error(code, message)
	}
	text, err := os.ReadFile(filepath.Join(samples, "iperf3-loopback.json"))
	if err != nil {
		t.Fatal(err)
	}
	code, stdout, message := command(t, string(text), "import", "-")
	if code != 0 || strings.Count(stdout, "\n") != 3 {
		t.Error(code, stdout, message)
	}
	if code, _, message = command(t, "hello", "import", "-"); code != 2 || !strings.Contains(message, "not recognised") {
		t.Error(code, message)
	}
	if code, _, message = command(t, "", "import", "--format", "netperf", out); code != 2 {
		t.Error(code, message)
	}
	// they stand in tables beside ours, each by its own definition
	if code, stdout, message = command(t, "", "table", out); code != 0 || !strings.Contains(stdout, "iperf3.bandwidth.received") {
		t.Error(code, stdout, message)
	}
	for format, want := range map[string]string{"gobench": "def=iperf3.bandwidth.received", "csv": "perftest.latency.half_rtt", "openmetrics": "# EOF"} {
		if code, stdout, message = command(t, "", "export", "--format", format, out); code != 0 || !strings.Contains(stdout, want) {
			t.Error(format, code, message)
		}
	}
	if code, _, message = command(t, "", "export", "--format", "xml", out); code != 2 {
		t.Error(code, message)
	}
	if code, _, message = command(t, "", "export"); code != 2 {
		t.Error(code, message)
	}
	double, _ := resultFile(t, results.RealmDouble)
	if code, _, message = command(t, "", "export", double); code != 2 || !strings.Contains(message, "double") {
		t.Error(code, message)
	}
	if code, _, message = command(t, "", "compare", double, double); code != 2 || !strings.Contains(message, "double") {
		t.Error(code, message)
	}
}
