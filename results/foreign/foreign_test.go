package foreign

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"hopbench/results"
)

var update = flag.Bool("update", false, "write the golden files anew")

func samples(t testing.TB) []string {
	var out []string
	for _, pattern := range []string{"testdata/*.json", "testdata/*.txt"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, files...)
	}
	if len(out) < 15 {
		t.Fatalf("only %d samples", len(out))
	}
	return out
}

func parseFile(t *testing.T, name string) *File {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(bytes.NewReader(b), "", Options{})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return f
}

// brief is a cell in one line.
func brief(c results.Cell) string {
	s := fmt.Sprintf("%s %s %s %s %s %d=%dx%d streams=%d depth=%d conc=%d %s>%s %s", c.Transport, c.Realm, c.Definition, c.Operation, c.Direction,
		c.TotalBytes, c.Descriptors, c.PieceBytes, c.Streams, c.Depth, c.Concurrency, c.InitiatorMemory, c.TargetMemory, c.Status)
	if c.Reason != "" {
		s += " (" + c.Reason + ")"
	}
	if b := c.Bandwidth; b != nil {
		s += fmt.Sprintf(" %.6g B/s", b.BytesPerSecond)
		if b.BestWindowBytesPerSecond != nil {
			s += fmt.Sprintf(" best %.6g", *b.BestWindowBytesPerSecond)
		}
	}
	if l := c.Latency; l != nil {
		s += fmt.Sprintf(" n=%d", l.Samples)
		for _, p := range []struct {
			name string
			v    *float64
		}{{"min", l.MinSeconds}, {"p50", l.P50Seconds}, {"mean", l.MeanSeconds}, {"p99", l.P99Seconds}, {"p999", l.P999Seconds}, {"max", l.MaxSeconds}} {
			if p.v != nil {
				s += fmt.Sprintf(" %s %.6g", p.name, *p.v)
			}
		}
	}
	if c.MessageRatePerSecond != nil {
		s += fmt.Sprintf(" %.6g msg/s", *c.MessageRatePerSecond)
	}
	if c.Verified != nil {
		s += fmt.Sprintf(" verified=%v", *c.Verified)
	}
	for _, w := range c.Warnings {
		s += " [" + w + "]"
	}
	return s
}

func TestSamplesGolden(t *testing.T) {
	for _, path := range samples(t) {
		name := filepath.Base(path)
		t.Run(name, func(t *testing.T) {
			f := parseFile(t, name)
			var b strings.Builder
			fmt.Fprintf(&b, "%s: %s\n", f.Format, f.Tool)
			for _, w := range f.Warnings {
				fmt.Fprintf(&b, "warning: %s\n", w)
			}
			if f.Incomplete != "" {
				fmt.Fprintf(&b, "incomplete: %s\n", f.Incomplete)
			}
			for _, c := range f.Cells {
				b.WriteString(brief(c) + "\n")
			}
			golden := filepath.Join("testdata", "golden", name+".golden")
			if *update {
				os.MkdirAll(filepath.Dir(golden), 0o755)
				os.WriteFile(golden, []byte(b.String()), 0o644)
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

// What a reader of the formats would expect, worked out by hand from the samples and not from the goldens.
func TestFiguresByHand(t *testing.T) {
	find := func(f *File, definition, operation string, size int64) *results.Cell {
		for i := range f.Cells {
			c := &f.Cells[i]
			if c.Definition == definition && c.Operation == operation && c.TotalBytes == size {
				return c
			}
		}
		t.Errorf("%s: no %s of %s, %d bytes", f.Format, definition, operation, size)
		return &results.Cell{Bandwidth: &results.Bandwidth{}, Latency: &results.Latency{}}
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got/want-1) > 1e-9 {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	f := parseFile(t, "perftest-write-bw-sweep.txt")
	c := find(f, "perftest.bandwidth.average", "write", 65536)
	near("MiB/s", c.Bandwidth.BytesPerSecond, 1041.99*1048576)
	near("Mpps", *c.MessageRatePerSecond, 16672)
	if c.Realm != "software" || c.Transport != "roce" || c.Depth != 128 || *c.Path.Initiator.PathMTUBytes != 1024 {
		t.Errorf("%+v", c)
	}
	f = parseFile(t, "perftest-read-bw-gbits.txt")
	near("Gb/s", find(f, "perftest.bandwidth.average", "read", 1048576).Bandwidth.BytesPerSecond, 391.02e9/8)
	f = parseFile(t, "perftest-write-bw-old-mb.txt")
	c = find(f, "perftest.bandwidth.average", "write", 65536)
	near("MB/sec that is MiB/s", c.Bandwidth.BytesPerSecond, 119.25*1048576)
	if c.Bandwidth.BestWindowBytesPerSecond != nil || c.Direction != "both" {
		t.Errorf("a peak of 0.00 is a figure: %+v", c)
	}
	f = parseFile(t, "perftest-send-lat.txt")
	c = find(f, "perftest.latency.half_rtt", "send", 64)
	near("p50", *c.Latency.P50Seconds, 1.05e-6)
	near("p99.9", *c.Latency.P999Seconds, 3.77e-6)
	f = parseFile(t, "perftest-read-lat.json")
	near("read latency", *find(f, "perftest.latency.completion", "read", 2).Latency.P50Seconds, 1.78e-6)
	f = parseFile(t, "perftest-write-bw.json")
	near("JSON in MiB/s", find(f, "perftest.bandwidth.average", "write", 65536).Bandwidth.BytesPerSecond, 46290.87*1048576)
	f = parseFile(t, "perftest-real-write-bw.json")
	c = find(f, "perftest.bandwidth.average", "write", 65536)
	near("perftest's own invalid JSON", c.Bandwidth.BytesPerSecond, 57.83*1048576)
	if c.Transport != "roce" || c.Realm != "software" || len(f.Warnings) == 0 {
		t.Errorf("%+v %v", c, f.Warnings)
	}
	f = parseFile(t, "perftest-real-write-lat.txt")
	if c := find(f, "perftest.latency.half_rtt", "write", 2); c.Status != "failed" || c.Latency != nil {
		t.Errorf("inf is a figure: %+v", c)
	}
	near("Gb/s", find(parseFile(t, "perftest-real-read-bw-gb.txt"), "perftest.bandwidth.average", "read", 65536).Bandwidth.BytesPerSecond, 0.34e9/8)
	f = parseFile(t, "nccl-tests-sendrecv.json")
	near("alg_bw", find(f, "nccl-tests.bandwidth.algorithm.out_of_place", "sendrecv", 67108864).Bandwidth.BytesPerSecond, 171.546176e9)
	if c := find(f, "nccl-tests.bandwidth.algorithm.in_place", "sendrecv", 67108864); c.Status != "failed" || c.Bandwidth != nil {
		t.Errorf("nan is a figure: %+v", c)
	}
	f = parseFile(t, "nccl-tests-alltoall-per-iter.json")
	if c := find(f, "nccl-tests.bandwidth.algorithm.in_place", "alltoall", 1048576); c.Status != "failed" || !strings.Contains(c.Reason, "3 elements") || c.Bandwidth != nil {
		t.Errorf("wrong elements keep a figure: %+v", c)
	}
	f = parseFile(t, "nvbandwidth-2gpu.json")
	got := map[string]string{}
	for _, c := range f.Cells {
		v := ""
		if c.Bandwidth != nil {
			v = fmt.Sprintf("%.6g", c.Bandwidth.BytesPerSecond/1e9)
		} else if c.Latency != nil {
			v = fmt.Sprintf("%.6g ns", *c.Latency.MeanSeconds*1e9)
		}
		got[fmt.Sprintf("%s %s %s>%s", c.Operation, strings.TrimPrefix(c.Definition, "nvbandwidth."), c.InitiatorMemory, c.TargetMemory)] = v
	}
	want := map[string]string{
		"host_to_device_memcpy_ce bandwidth.median host>cuda:0":                              "55.3415",
		"host_to_device_memcpy_ce bandwidth.median host>cuda:1":                              "55.2098",
		"device_to_device_memcpy_read_ce bandwidth.median cuda:0>cuda:1":                     "397.217",
		"device_to_device_memcpy_read_ce bandwidth.median cuda:1>cuda:0":                     "396.984",
		"device_to_device_bidirectional_memcpy_read_ce bandwidth.median.read1 cuda:0>cuda:1": "382.105",
		"device_to_device_bidirectional_memcpy_read_ce bandwidth.median.read1 cuda:1>cuda:0": "381.944",
		"device_to_device_bidirectional_memcpy_read_ce bandwidth.median.read2 cuda:0>cuda:1": "383.412",
		"device_to_device_bidirectional_memcpy_read_ce bandwidth.median.read2 cuda:1>cuda:0": "383.001",
		"device_to_device_bidirectional_memcpy_read_ce bandwidth.median.total cuda:0>cuda:1": "765.517",
		"device_to_device_bidirectional_memcpy_read_ce bandwidth.median.total cuda:1>cuda:0": "764.945",
		"device_to_device_latency_sm latency.load cuda:0>cuda:1":                             "1021.44 ns",
		"device_to_device_latency_sm latency.load cuda:1>cuda:0":                             "1019.87 ns",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	f = parseFile(t, "nixlbench-threads-aggregate.txt")
	c = find(f, "nixlbench.bandwidth.total", "read", 131072*64)
	near("GB/Sec", c.Bandwidth.BytesPerSecond, 22.118201e9)
	near("aggregate", find(f, "nixlbench.bandwidth.aggregate", "read", 131072*64).Bandwidth.BytesPerSecond, 88.402911e9)
	if c.Descriptors != 64 || c.InitiatorMemory != "host" || c.TargetMemory != "cuda" || c.Concurrency != 16 || c.Transport != "nixl-ucx" {
		t.Errorf("%+v", c)
	}
	f = parseFile(t, "qperf-verbose.txt")
	if len(f.Cells) != 6 {
		t.Errorf("%d cells", len(f.Cells))
	}
	f = parseFile(t, "iperf3-refused.json")
	if c := f.Cells[0]; c.Status != "failed" || !strings.Contains(c.Reason, "Connection refused") {
		t.Errorf("%+v", c)
	}
}

// Every cell must be one that the result file takes, and names its tool and that tool's definition.
func TestCellsAreRecords(t *testing.T) {
	for _, path := range samples(t) {
		f := parseFile(t, filepath.Base(path))
		var known []string
		for _, k := range Formats() {
			for _, d := range k.Definitions {
				id, _, _ := strings.Cut(d, ":")
				first := strings.Split(id, ", ")
				known = append(known, first[0])
				for _, more := range first[1:] { // "nvbandwidth.bandwidth.median.read1, .read2"
					known = append(known, first[0][:strings.LastIndex(first[0], ".")]+more)
				}
			}
		}
		var b bytes.Buffer
		w, err := results.NewWriter(&b, path, &results.Header{Schema: results.Schema, ToolVersion: "test", Started: f.Started, Hosts: f.Hosts})
		if err != nil {
			t.Fatal(err)
		}
		for i := range f.Cells {
			c := &f.Cells[i]
			if err := w.Cell(c); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if c.PeerTool == "" || !slices.Contains(known, c.Definition) {
				t.Errorf("%s: tool %q, definition %q", path, c.PeerTool, c.Definition)
			}
		}
		if err := w.Close(results.StateComplete, ""); err != nil {
			t.Error(err)
		}
		if _, err := results.Read(bytes.NewReader(b.Bytes()), path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestBadInput(t *testing.T) {
	sample := func(name string) string {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ name, format, text, want string }{
		{"empty", "", "", "empty"},
		{"blank", "", " \n\t\n", "empty"},
		{"prose", "", "hello world\n", "not recognised"},
		{"unknown format", "netperf", "x", "unknown format"},
		{"cut JSON", "", sample("iperf3-loopback.json")[:900], "cut off"},
		{"cut nvbandwidth", "", sample("nvbandwidth-2gpu.json")[:700], "cut off"},
		{"UDP", "", strings.Replace(sample("iperf3-loopback.json"), `"protocol":	"TCP"`, `"protocol":	"UDP"`, 1), "UDP"},
		{"head without rows", "", "#bytes #iterations BW average[MiB/sec]\n", "no figure"},
	} {
		_, err := Parse(strings.NewReader(c.text), c.format, Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// Known faults of the writers are mended, and said.
	f, err := Parse(strings.NewReader(strings.Replace(sample("iperf3-loopback.json"), `"host_total":`, `"x": -nan, "host_total":`, 1)+"\niperf3: interrupt - the client has terminated\n"), "", Options{})
	if err != nil || f.Cells[0].Bandwidth == nil || len(f.Warnings) != 2 {
		t.Errorf("%v %+v", err, f)
	}
	// A perftest cell without a figure is failed, not zero.
	f, err = Parse(strings.NewReader(strings.NewReplacer("1.02 ", "inf  ", "1.03 ", "inf  ").Replace(sample("perftest-send-lat.txt"))), "", Options{})
	if err != nil || f.Cells[0].Status != "failed" || f.Cells[0].Latency != nil {
		t.Errorf("%v %+v", err, f.Cells[0])
	}
}

func freePort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

// server starts a peer's server and waits until its port takes connections.
func server(t *testing.T, port, name string, args ...string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed here: %v", name, err)
	}
	c := exec.Command(name, args...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		if port == "" {
			return
		}
		if listens(t, port) {
			return
		}
	}
	t.Fatalf("%s does not listen", name)
}

// listens looks the port up in the kernel's table: a connection to find out would be iperf3's first client, and it serves one at a time.
func listens(t *testing.T, port string) bool {
	t.Helper()
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for _, line := range strings.Split(string(text), "\n") {
			// local address as HEX:PORT, remote, and state 0A: TCP_LISTEN of include/net/tcp_states.h
			if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", n)) {
				return true
			}
		}
	}
	return false
}

func output(t *testing.T, name string, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	b, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, b)
	}
	return b
}

// The peers themselves, as they print here.
func TestRealIperf3(t *testing.T) {
	port := freePort(t)
	server(t, port, "iperf3", "-s", "-B", "127.0.0.1", "-p", port)
	for _, c := range []struct {
		args      []string
		direction string
		streams   int64
	}{{nil, "forward", 1}, {[]string{"-R", "-P", "2"}, "reverse", 2}, {[]string{"--bidir"}, "both", 1}} {
		var b []byte
		for range 10 { // its server takes one client at a time, is slow to be ready for the next, and says so with status 0
			b = output(t, "iperf3", append([]string{"-c", "127.0.0.1", "-p", port, "-J", "-n", "64M", "-l", "64K"}, c.args...)...)
			if !bytes.Contains(b, []byte(`"error":`)) {
				break
			}
			time.Sleep(500 * time.Millisecond)
		}
		f, err := Parse(bytes.NewReader(b), "", Options{})
		if err != nil {
			t.Fatal(err)
		}
		cell := f.Cells[0]
		if cell.Bandwidth == nil || cell.Direction != c.direction || cell.Streams != c.streams || cell.TotalBytes != 65536 || cell.Realm != "software" || !strings.HasPrefix(cell.PeerTool, "iperf3 3") {
			t.Fatalf("%v: %s", c.args, brief(cell))
		}
		if len(f.Hosts) == 0 || f.Hosts[0].Kernel == "" || f.Started.IsZero() {
			t.Errorf("%+v", f)
		}
		var raw struct {
			End struct {
				Received struct {
					Bits float64 `json:"bits_per_second"`
				} `json:"sum_received"`
			} `json:"end"`
		}
		json.Unmarshal(b, &raw)
		got := cell.Bandwidth.BytesPerSecond
		if cell.Bandwidth.ForwardBytesPerSecond != nil {
			got = *cell.Bandwidth.ForwardBytesPerSecond
		}
		if math.Abs(got*8/raw.End.Received.Bits-1) > 1e-9 {
			t.Errorf("%v: %v B/s from %v b/s", c.args, got, raw.End.Received.Bits)
		}
	}
}

func FuzzParse(f *testing.F)       { fuzz(f, "") }
func FuzzNCCL(f *testing.F)        { fuzz(f, "nccl-tests") }
func FuzzNVBandwidth(f *testing.F) { fuzz(f, "nvbandwidth") }
func FuzzNixlbench(f *testing.F)   { fuzz(f, "nixlbench") }

// fuzz parses as one format, or as that which the input asks for. What is taken must be records.
func fuzz(f *testing.F, only string) {
	more, err := filepath.Glob("testdata/expected/n*")
	if err != nil || len(more) < 19 {
		f.Fatalf("%d more samples: %v", len(more), err)
	}
	for _, path := range append(samples(f), more...) {
		if only != "" && !strings.Contains(path, strings.TrimSuffix(only, "-tests")) {
			continue
		}
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		for i := range Formats() {
			f.Add(b, byte(i))
			if only != "" {
				break
			}
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, which byte) {
		format := only
		if all := Formats(); only == "" && int(which) < len(all) {
			format = all[which].Name
		}
		file, err := Parse(bytes.NewReader(b), format, Options{})
		if err != nil {
			return
		}
		var out bytes.Buffer
		w, err := results.NewWriter(&out, "fuzz", &results.Header{Schema: results.Schema, ToolVersion: "test", Hosts: file.Hosts})
		if err != nil {
			t.Fatal(err)
		}
		for i := range file.Cells {
			if err := w.Cell(&file.Cells[i]); err != nil {
				t.Fatalf("%v: %s", err, brief(file.Cells[i]))
			}
		}
	})
}

// An iperf3 run that names no connection shows nothing of what carried its bytes: who imports it says so.
func TestIperf3WithoutAConnection(t *testing.T) {
	text := `{"start":{"version":"iperf 3.12","test_start":{"protocol":"TCP","num_streams":1,"blksize":131072}},"end":{"sum_received":{"seconds":1,"bytes":1000,"bits_per_second":8000}}}`
	if _, err := Parse(strings.NewReader(text), "", Options{}); err == nil || !strings.Contains(err.Error(), "--realm") {
		t.Errorf("taken without a realm: %v", err)
	}
	f, err := Parse(strings.NewReader(text), "", Options{Realm: "emulated"})
	if err != nil || f.Cells[0].Realm != "emulated" {
		t.Errorf("%+v %v", f, err)
	}
}
