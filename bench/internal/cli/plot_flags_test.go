package cli

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hopbench/results"
	"hopbench/results/stat"
)

// everyFigure is a run that each kind of figure has values of: two sizes, two pairs of hosts.
func everyFigure(t *testing.T, factor float64) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	put := func(v any) {
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
	}
	put(results.Header{Schema: results.Schema, ToolVersion: "v1", Started: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Hosts: []results.Host{{Hostname: "alpha"}}})
	p := func(v float64) *float64 { return &v }
	n := int64(0)
	for _, size := range []int64{4096, 65536} {
		base := results.Cell{Transport: "tcp", Label: "tcp", Realm: results.RealmHardware, Operation: "write", Direction: "forward", PieceBytes: size, TotalBytes: size, Descriptors: 1,
			Pattern: "contiguous", Depth: 1, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host", Wait: "spin", Status: results.StatusOK}
		rounds := make([]float64, 8)
		for i := range rounds {
			rounds[i] = factor * float64(size) * 1e4 * (1 + 0.01*float64(i))
		}
		bw := base
		bw.Definition = "bandwidth.confirmed"
		bw.Bandwidth = &results.Bandwidth{BytesPerSecond: rounds[4], Low: p(rounds[1]), High: p(rounds[6]), Rounds: rounds}
		bw.CPU = &results.CPU{InitiatorSecondsPerGigabyte: p(0.2), TargetSecondsPerGigabyte: p(0.3), HostSecondsPerGigabyte: p(0.6)}
		bw.PhasesSeconds = map[string]float64{"device_to_host": 0.01, "wire": 0.02, "host_to_device": 0.01, "sum": 0.04, "overlapped": 0.021}
		put(bw)
		h := stat.NewHistogram()
		for i := range 200 {
			if err := h.Record(1e-5 + 1e-8*float64(i)); err != nil {
				t.Fatal(err)
			}
		}
		text, err := h.Encode()
		if err != nil {
			t.Fatal(err)
		}
		lat := base
		lat.Definition = "latency.half_rtt"
		lat.Latency = &results.Latency{Samples: 200, MinSeconds: p(1e-5), P50Seconds: p(1.1e-5), P90Seconds: p(1.18e-5), P99Seconds: p(1.19e-5), MaxSeconds: p(1.2e-5),
			RoundsP50Seconds: []float64{1.1e-5, 1.1e-5, 1.12e-5}, Distribution: text, DistributionUnit: p(stat.HistogramUnit)}
		put(lat)
		for _, pair := range [][2]string{{"a", "b"}, {"b", "a"}} {
			mesh := bw
			mesh.PhasesSeconds, mesh.CPU = nil, nil
			mesh.InitiatorHost, mesh.TargetHost, mesh.Schedule = pair[0], pair[1], "isolated"
			put(mesh)
		}
		n += 4
	}
	put(results.Footer{State: results.StateComplete, Cells: n})
	return b.Bytes()
}

// A flag that a kind cannot use is refused by name; any other changes the figure. None is taken and forgotten.
func TestPlotUsesOrRefusesEachFlag(t *testing.T) {
	dir := t.TempDir()
	run := func(stdin []byte, args ...string) (int, string) {
		var out, errs bytes.Buffer
		env := &Env{Stdin: bytes.NewReader(stdin), Stdout: &out, Stderr: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
		code := Run(env, args)
		return code, out.String() + errs.String()
	}
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, other := write("run.jsonl", everyFigure(t, 1)), write("other.jsonl", everyFigure(t, 1.2))
	answer := func(name string, args ...string) string {
		code, text := run(nil, append([]string{"ttft", "llama-3.1-8b", "--reference", "--json"}, args...)...)
		if code != 0 {
			t.Fatalf("ttft %v: %s", args, text)
		}
		return write(name, []byte(text))
	}
	inputs := map[string][]string{
		"ratio": {file, other}, "ttft": {answer("ttft.json", "--isl", "8000")},
		"ttft-length": {answer("length.json", "--isl", "8000", "--against-isl", "1000:16000:x2")}, "ttft-load": {answer("load.json", "--isl", "8000", "--against-rate", "0.1,0.5,1")},
		"topology": {write("probe.json", []byte(`{"graph":{"boxes":[{"id":"a","kind":"root","label":"pci0000:00","rank":0}],"lines":[]}}`))},
	}
	n := 0
	for _, kind := range plotKinds {
		t.Run(kind.name, func(t *testing.T) {
			from := inputs[kind.name]
			if from == nil {
				from = []string{file}
			}
			draw := func(flags ...string) (int, string, string) {
				n++
				to := filepath.Join(dir, kind.name+"-"+strings.Repeat("x", n)+".svg")
				code, said := run(nil, append(append([]string{"plot", "--kind", kind.name, "--out", to}, flags...), from...)...)
				b, _ := os.ReadFile(to)
				return code, said, string(b)
			}
			code, said, plain := draw()
			if code != 0 {
				t.Fatalf("exit status %d\n%s", code, said)
			}
			for _, flag := range [][]string{{"--title", "Another title"}, {"--theme", "dark"}, {"--width", "24"}, {"--cells", "*/4KiB*"}} {
				switch code, said, figure := draw(flag...); {
				case code == 2 && strings.Contains(said, flag[0]):
				case code != 0:
					t.Errorf("%v: exit status %d\n%s", flag, code, said)
				case figure == plain:
					t.Errorf("%v is taken and changes nothing", flag)
				}
			}
			if code, said, _ := draw("--format", "pdf"); code != 2 || !strings.Contains(said, "--format") {
				t.Errorf("--format beside a figure's file: exit status %d\n%s", code, said)
			}
		})
	}
}
