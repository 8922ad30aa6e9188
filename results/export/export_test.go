package export

import (
	"bytes"
	"encoding/csv"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"

	"hopbench/results"
)

var update = flag.Bool("update", false, "write the golden files anew")

func p[T any](v T) *T { return &v }

func cell(size int64) results.Cell {
	return results.Cell{Transport: "tcp", Label: "tcp, same host", Realm: "software", Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward",
		PieceBytes: size, TotalBytes: size, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1,
		InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: "ok"}
}

// runs are two runs with one of each thing that may stand in a file.
func runs() []results.Run {
	b := cell(65536)
	b.Bandwidth = &results.Bandwidth{BytesPerSecond: 2e9, Low: p(1.9e9), High: p(2.1e9), SlowestWindowBytesPerSecond: p(1e9), Rounds: []float64{1.9e9, 2e9, 2.1e9}}
	b.MessageRatePerSecond, b.CPU = p(30517.0), &results.CPU{InitiatorSecondsPerGigabyte: p(0.3)}
	l := cell(64)
	l.Definition, l.Depth = "latency.half_rtt", 1
	l.Latency = &results.Latency{Samples: 3000, P50Seconds: p(1.5e-5), P90Seconds: p(1.8e-5), P99Seconds: p(3e-5), P999Seconds: p(9e-5), RoundsP50Seconds: []float64{1.4e-5, 1.5e-5, 1.6e-5}}
	waived := cell(64)
	waived.Transport, waived.Status, waived.Reason = "roce", "waived", "no RDMA device"
	wrong := cell(128)
	wrong.Bandwidth, wrong.Verified = &results.Bandwidth{BytesPerSecond: 9e9, Rounds: []float64{9e9}}, p(false)
	peer := cell(65536)
	peer.Definition, peer.PeerTool, peer.Label = "iperf3.bandwidth.received", "iperf3 3.12", "=cmd()|\"evil\"\n label"
	peer.Bandwidth = &results.Bandwidth{BytesPerSecond: 3e9}
	later := b
	later.Bandwidth = &results.Bandwidth{BytesPerSecond: 2.5e9, Rounds: []float64{2.4e9, 2.5e9, 2.6e9}}
	header := results.Header{Schema: results.Schema, ToolVersion: "v1", ToolCommit: "abc", Started: time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC), Hosts: []results.Host{{Hostname: "h\"1\\", Kernel: "6.1"}}}
	second := header
	second.Started = second.Started.Add(time.Hour)
	return []results.Run{{File: "a.jsonl", Header: header, Cells: []results.Cell{b, l, waived, wrong, peer}}, {File: "b.jsonl", Header: second, Cells: []results.Cell{later}}}
}

func TestGolden(t *testing.T) {
	for _, f := range Formats() {
		var b bytes.Buffer
		if err := Write(&b, f[0], runs()); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", f[0]+".golden")
		if *update {
			os.MkdirAll("testdata", 0o755)
			os.WriteFile(golden, b.Bytes(), 0o644)
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s:\n%s", f[0], d)
		}
	}
}

func TestDoubleIsRefused(t *testing.T) {
	r := runs()
	r[0].Cells[0].Realm = results.RealmDouble
	for _, f := range Formats() {
		if err := Write(&bytes.Buffer{}, f[0], r); err == nil {
			t.Errorf("%s exports a double's figures", f[0])
		}
	}
	if err := Write(&bytes.Buffer{}, "xml", nil); err == nil {
		t.Error("an unknown format is taken")
	}
}

// Every line is one that the benchmark format's own reader takes, units carry their direction, and no wrong figure leaves.
func TestGobenchIsRead(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "gobench", runs()); err != nil {
		t.Fatal(err)
	}
	r := benchfmt.NewReader(bytes.NewReader(b.Bytes()), "x")
	n := map[string]int{}
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			for _, v := range rec.Values {
				n[v.Unit]++
			}
			if strings.Contains(rec.Name.String(), "bytes=128") {
				t.Error("a wrong payload's figure is exported")
			}
		case *benchfmt.SyntaxError:
			t.Error(rec)
		}
	}
	if d := cmp.Diff(map[string]int{"B/s": 7, "sec/op": 3, "p99-sec/op": 1, "msg/s": 2, "cpu-initiator-sec/GB": 2}, n); d != "" {
		t.Error(d)
	}
	if r.Units().GetBetter("B/s") != 1 || r.Units().GetBetter("sec/op") != -1 || r.Units().GetBetter("msg/s") != 1 {
		t.Error("direction of a unit lost")
	}
}

// benchstat itself, as go.mod pins it.
func TestBenchstatReads(t *testing.T) {
	if testing.Short() {
		t.Skip("builds benchstat; not with -short")
	}
	dir := t.TempDir()
	for name, scale := range map[string]float64{"old.txt": 1, "new.txt": 0.8} {
		var b bytes.Buffer
		r := runs()[:1]
		r[0].Cells = r[0].Cells[:2]
		r[0].Header.ToolVersion = name // what differs between two builds must not split the table
		c := &r[0].Cells[0]
		c.Bandwidth.Rounds = nil
		for i := range 10 {
			c.Bandwidth.Rounds = append(c.Bandwidth.Rounds, scale*(1e9+1e6*float64(i)))
		}
		if err := Write(&b, "gobench", r); err != nil {
			t.Fatal(err)
		}
		os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644)
	}
	out, err := exec.Command("go", "tool", "benchstat", filepath.Join(dir, "old.txt"), filepath.Join(dir, "new.txt")).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	line := ""
	for l := range strings.Lines(string(out)) {
		if strings.Contains(l, "bytes=65536") && strings.Contains(l, "-20.") {
			line = l
		}
	}
	if line == "" || !strings.Contains(line, "p=0.000") {
		t.Errorf("benchstat sees no -20 %%:\n%s", out)
	}
	if strings.Contains(string(out), "geomean") && strings.Contains(string(out), "B/s better") {
		t.Logf("%s", out)
	}
}

func TestCSVIsRead(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "csv", runs()); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 7 {
		t.Fatal(len(rows), err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	if rows[1][at["bytes_per_second"]] != "2e+09" || rows[1][at["rounds_bytes_per_second"]] != "1.9e+09;2e+09;2.1e+09" {
		t.Error(rows[1])
	}
	if rows[4][at["bytes_per_second"]] != "" {
		t.Error("a wrong payload's figure is exported")
	}
	if !strings.HasPrefix(rows[5][at["label"]], "'=") {
		t.Errorf("a formula stands in a cell: %q", rows[5][at["label"]])
	}
}

func TestOpenMetricsIsStrict(t *testing.T) {
	var b bytes.Buffer
	if err := Write(&b, "openmetrics", runs()); err != nil {
		t.Fatal(err)
	}
	if err := strict(b.String()); err != nil {
		t.Errorf("%v\n%s", err, b.String())
	}
	if !strings.Contains(b.String(), "} 2.5e+09") || strings.Contains(b.String(), "} 2e+09") {
		t.Error("not the newest run's figure")
	}
	if strings.Contains(b.String(), "9e+09") {
		t.Error("a wrong payload's figure is exported")
	}
	// the checker is strict: each of these must be refused
	for _, bad := range []string{
		"", "a 1\n", "# TYPE a gauge\na 1\n", "# TYPE a gauge\na 1\na 2\n# EOF\n", "# TYPE a gauge\na{x=\"\n\"} 1\n# EOF\n", "# TYPE a gauge\na{x=\"1\",x=\"2\"} 1\n# EOF\n",
		"# TYPE a gauge\n# UNIT a seconds\na 1\n# EOF\n", "# TYPE a gauge\n# TYPE b gauge\na 1\n# EOF\n", "# TYPE a info\na 1\n# EOF\n", "# TYPE a gauge\na NaN x\n# EOF\n", "# TYPE a gauge\n\na 1\n# EOF\n", "# TYPE a gauge\na 1\n# EOF\nx",
		"# TYPE a gauge\na 1\n# HELP a x\n# EOF\n",
	} {
		if strict(bad) == nil {
			t.Errorf("taken: %q", bad)
		}
	}
}

var (
	sampleLine = regexp.MustCompile(`^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\\\|\\"|\\n)*)"(,|$)`)
)

// strict checks text against the OpenMetrics specification 1.0 as far as gauges, summaries and info go: every family is
// described before its samples and stands in one piece, a unit is its name's end, no set of labels stands twice,
// nothing is between the lines, and "# EOF" ends it.
func strict(s string) error {
	body, ok := strings.CutSuffix(s, "# EOF\n")
	if !ok {
		return fmt.Errorf("does not end in # EOF")
	}
	kinds, closed, seen := map[string]string{}, map[string]bool{}, map[string]bool{}
	current, sampled := "", false
	lastMetric, metricsDone := "", map[string]bool{}
	for i, line := range strings.Split(strings.TrimSuffix(body, "\n"), "\n") {
		fail := func(format string, args ...any) error {
			return fmt.Errorf("line %d %q: %s", i+1, line, fmt.Sprintf(format, args...))
		}
		if strings.HasPrefix(line, "# ") {
			f := strings.SplitN(line, " ", 4)
			if len(f) < 4 || f[1] != "TYPE" && f[1] != "UNIT" && f[1] != "HELP" {
				return fail("no descriptor")
			}
			if f[2] != current {
				if closed[f[2]] {
					return fail("family in two pieces")
				}
				if current != "" {
					closed[current] = true
					if !sampled {
						return fail("family %s without samples", current)
					}
				}
				current, sampled = f[2], false
			} else if sampled {
				return fail("descriptor behind samples")
			}
			key := f[1] + " " + f[2]
			if seen[key] {
				return fail("twice")
			}
			seen[key] = true
			if f[1] == "TYPE" {
				kinds[f[2]] = f[3]
			}
			if f[1] == "UNIT" && !strings.HasSuffix(f[2], "_"+f[3]) {
				return fail("the name does not end in its unit")
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		if m == nil {
			return fail("no sample")
		}
		suffix, ok := strings.CutPrefix(m[1], current)
		if !ok || current == "" {
			return fail("outside of its family %q", current)
		}
		allowed := map[string][]string{"gauge": {""}, "summary": {"", "_count", "_sum", "_created"}, "info": {"_info"}}[kinds[current]]
		if !contains(allowed, suffix) {
			return fail("suffix %q of a %s", suffix, kinds[current])
		}
		names, metric := map[string]bool{}, ""
		for rest := m[2]; rest != ""; {
			p := labelPair.FindStringSubmatch(rest)
			if p == nil {
				return fail("labels from %q", rest)
			}
			if names[p[1]] {
				return fail("label %s twice", p[1])
			}
			names[p[1]] = true
			if p[1] != "quantile" {
				metric += p[1] + "=" + p[2] + ","
			}
			rest = rest[len(p[0]):]
		}
		if kinds[current] == "summary" && (suffix == "") != names["quantile"] {
			return fail("quantile")
		}
		if v, err := strconv.ParseFloat(m[3], 64); err != nil || kinds[current] == "info" && v != 1 {
			return fail("value")
		}
		if key := m[1] + "{" + m[2]; seen[key] {
			return fail("set of labels twice")
		} else {
			seen[key] = true
		}
		if metric = current + metric; metric != lastMetric {
			if metricsDone[metric] {
				return fail("metrics interleaved")
			}
			metricsDone[metric], lastMetric = true, metric
		}
		sampled = true
	}
	if current == "" || !sampled {
		return fmt.Errorf("no sample at the end")
	}
	return nil
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
