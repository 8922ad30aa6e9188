package table

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hopbench/results"
	"hopbench/results/page"
)

var update = flag.Bool("update", false, "write the golden files again")

func ptr[T any](v T) *T { return &v }

// golden compares with testdata/name, and beside it shows the difference.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}

func draft(transport, label, realm, definition, operation string, n int64) results.Cell {
	return results.Cell{
		Transport: transport, Label: label, Realm: realm, Definition: definition, Operation: operation, Direction: "forward", PieceBytes: n, TotalBytes: n, Descriptors: 1,
		Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: results.StatusOK,
	}
}

// bw is a bandwidth cell of ten rounds about the rate.
func bw(t testing.TB, transport, label, realm, operation string, n int64, rate float64) results.Cell {
	t.Helper()
	c := draft(transport, label, realm, "bandwidth.confirmed", operation, n)
	r := rand.New(rand.NewPCG(uint64(n), uint64(len(label))))
	var rounds []results.Round
	for range 10 {
		operations := max(1, int64(rate*0.02/float64(n)))
		seconds := float64(operations*n) / (rate * (1 + 0.01*r.NormFloat64()))
		var stamps []float64
		for i := range min(operations, 2000) {
			stamps = append(stamps, seconds*float64(i+1)/float64(min(operations, 2000)))
		}
		per := float64(operations) / float64(len(stamps))
		rounds = append(rounds, results.Round{Bytes: float64(operations * n), End: seconds, Operations: operations, Stamps: stamps, BytesPerStamp: per * float64(n), StampEvery: int(math.Ceil(per))})
	}
	b, converged, warnings, err := results.BandwidthOf(rounds)
	if err != nil {
		t.Fatal(err)
	}
	c.Bandwidth, c.Converged, c.Warnings, c.Verified = b, &converged, warnings, ptr(true)
	c.CPU = &results.CPU{InitiatorSecondsPerGigabyte: ptr(0.183)}
	if transport != "loopback" {
		c.CPU.TargetSecondsPerGigabyte = ptr(0.214)
	}
	return c
}

func lat(t testing.TB, transport, label, realm, operation string, n int64, median float64) results.Cell {
	t.Helper()
	definition := "latency.half_rtt"
	if operation == "read" {
		definition = "latency.completion"
	}
	c := draft(transport, label, realm, definition, operation, n)
	c.Depth = 1
	r := rand.New(rand.NewPCG(uint64(n), 7))
	rounds := make([][]float64, 10)
	for i := range rounds {
		for range 150 {
			rounds[i] = append(rounds[i], median*(1+0.05*r.ExpFloat64()))
		}
	}
	l, converged, warnings, err := results.LatencyOf(rounds)
	if err != nil {
		t.Fatal(err)
	}
	c.Latency, c.Converged, c.Warnings, c.Verified = l, &converged, warnings, ptr(true)
	return c
}

func run(cells ...results.Cell) results.Run {
	return results.Run{
		File: "this.jsonl", Line: 1,
		Header: results.Header{Schema: results.Schema, ToolVersion: "v0.1.0", Started: time.Date(2026, 3, 1, 12, 30, 0, 0, time.UTC),
			Hosts: []results.Host{{Hostname: "kea", CPUModel: "Example CPU 9", CPUs: ptr(int64(2)), Virtualisation: "kvm"}}},
		Cells: cells, Footer: &results.Footer{State: results.StateComplete, Cells: int64(len(cells))},
	}
}

// typical is what a first run on a small machine gives.
func typical(t testing.TB) results.Run {
	var cells []results.Cell
	for i, n := range []int64{64, 4096, 65536, 1 << 20, 256 << 20} {
		tcp := []float64{0.00213e9, 0.31e9, 2.84e9, 5.61e9, 4.97e9}[i]
		c := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", n, tcp)
		c.Counters = &results.Counters{Unit: "bytes", Source: "/sys/class/net/lo/statistics", InitiatorSent: ptr(int64(1_073_900_000)), Payload: ptr(int64(1_073_741_824)), Agree: ptr(true)}
		c.Path = &results.Path{Initiator: &results.Side{Device: "lo", Evidence: []string{"route to 127.0.0.1 is local: netlink"}}, Target: &results.Side{Device: "lo", Evidence: []string{"route to 127.0.0.1 is local: netlink"}}}
		cells = append(cells, bw(t, "loopback", "memory copy", results.RealmSoftware, "write", n, []float64{1.9e9, 11.2e9, 12.9e9, 12.1e9, 8.4e9}[i]), c)
		r := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "read", n, tcp*0.93)
		cells = append(cells, r)
	}
	for i, n := range []int64{64, 4096, 1 << 20} {
		cells = append(cells,
			lat(t, "loopback", "memory copy", results.RealmSoftware, "write", n, []float64{48e-9, 160e-9, 85e-6}[i]),
			lat(t, "tcp", "tcp, same host", results.RealmSoftware, "write", n, []float64{14.2e-6, 15.9e-6, 196e-6}[i]))
	}
	cells = append(cells,
		results.Cell{Transport: "infiniband", Label: "infiniband", Status: results.StatusWaived, Reason: "no RDMA device under /sys/class/infiniband", Code: "rdma-no-device"},
		results.Cell{Transport: "roce", Label: "roce", Status: results.StatusWaived, Reason: "no RDMA device under /sys/class/infiniband", Code: "rdma-no-device"},
		results.Cell{Transport: "cuda-peer", Label: "cuda-peer", Status: results.StatusWaived, Reason: "libcuda.so.1 is not installed", Code: "cuda-no-library"})
	return run(cells...)
}

func render(t *testing.T, o Options, runs ...results.Run) string {
	t.Helper()
	var b bytes.Buffer
	if err := Write(&b, runs, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// check holds every text page to its width and to the rule that no figure reads as zero.
func check(t *testing.T, text string) {
	t.Helper()
	for i, line := range strings.Split(text, "\n") {
		if n := utf8.RuneCountInString(line); n > page.Width {
			t.Errorf("line %d takes %d columns: %s", i+1, n, line)
		}
		for _, word := range strings.Fields(line) {
			if strings.Trim(word, "0.") == "" && strings.Contains(word, ".") {
				t.Errorf("line %d has a figure that reads as zero: %s", i+1, line)
			}
		}
	}
}

func TestTypical(t *testing.T) {
	r := typical(t)
	for _, f := range []Format{Text, Markdown, CSV, JSON} {
		page := render(t, Options{Format: f}, r)
		golden(t, "typical."+map[Format]string{Text: "txt", Markdown: "md", CSV: "csv", JSON: "json"}[f], page)
		if f == Text {
			check(t, page)
		}
	}
}

func TestTroubled(t *testing.T) {
	ok := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 65536, 2.8e9)
	ok.Converged = ptr(false)
	partial := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 1<<20, 5.2e9)
	partial.Status, partial.Reason, partial.Warnings = results.StatusPartial, "SIGINT", []string{"the rounds drift: -8.1 % from the first third to the last"}
	failed := draft("tcp", "tcp, same host", results.RealmSoftware, "bandwidth.confirmed", "write", 256<<20)
	failed.Status, failed.Reason, failed.Code = results.StatusFailed, "peer vanished: connection reset by peer", "peer-gone"
	corrupt := bw(t, "loopback", "memory copy", results.RealmSoftware, "write", 65536, 9e9)
	corrupt.Verified = ptr(false)
	waived := draft("loopback", "memory copy", results.RealmSoftware, "bandwidth.confirmed", "write", 256<<20)
	waived.Status, waived.Reason = results.StatusWaived, "more than the memory of this machine"
	hostile := bw(t, "tcp", "<script>alert(1)</script> | `x` \x1b[31mred\nline", results.RealmSoftware, "write", 64, 3e6)
	hostile.Warnings = []string{"a | in a *warning* with \x07 and <b>"}
	r := run(ok, partial, failed, corrupt, waived, hostile)
	r.Footer = &results.Footer{State: results.StateInterrupted, Reason: "SIGINT"}
	r.Warnings = []string{"this.jsonl:9: the last line is cut short and left out"}
	page := render(t, Options{}, r)
	check(t, page)
	golden(t, "troubled.txt", page)
	if strings.ContainsAny(page, "\x1b\x07") {
		t.Error("control characters reach the terminal")
	}
	page = render(t, Options{Format: Markdown}, r)
	golden(t, "troubled.md", page)
	if strings.Contains(page, "<script") || strings.Contains(page, "<b>") {
		t.Error("HTML reaches the Markdown")
	}
	for line := range strings.Lines(page) {
		if strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "|:") {
			bars := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
			if bars != 8 && bars != 14 && bars != 11 && bars != 5 {
				t.Errorf("%d bars: %s", bars, line)
			}
		}
	}
}

func TestEmpty(t *testing.T) {
	page := render(t, Options{}, run())
	check(t, page)
	golden(t, "empty.txt", page)
	if page := render(t, Options{}); !strings.Contains(page, "no cell was measured") {
		t.Errorf("no run at all: %s", page)
	}
	for _, f := range []Format{Markdown, CSV, JSON} {
		render(t, Options{Format: f})
		for _, v := range []View{Perftest, NVBandwidth} {
			render(t, Options{Format: f, View: v}, run())
		}
	}
}

func TestOneCell(t *testing.T) {
	page := render(t, Options{}, run(bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 64, 2.1e6)))
	check(t, page)
	golden(t, "onecell.txt", page)
}

func TestOnlyWaived(t *testing.T) {
	page := render(t, Options{}, run(results.Cell{Transport: "roce", Label: "roce", Status: results.StatusWaived, Reason: "no RDMA device", Code: "rdma-no-device"}))
	check(t, page)
	golden(t, "onlywaived.txt", page)
}

func TestTwelveTransports(t *testing.T) {
	var cells []results.Cell
	for i := range 12 {
		label := fmt.Sprintf("transport-%02d, dmabuf to host, same host", i)
		for _, n := range []int64{4096, 1 << 20} {
			cells = append(cells, bw(t, fmt.Sprintf("t%d", i), label, results.RealmHardware, "write", n, 1e9*float64(i+1)))
			cells = append(cells, lat(t, fmt.Sprintf("t%d", i), label, results.RealmHardware, "write", n, 1e-6*float64(i+1)))
		}
	}
	page := render(t, Options{}, run(cells...))
	check(t, page)
	golden(t, "twelve.txt", page)
}

func TestDoubleIsRefused(t *testing.T) {
	c := bw(t, "cuda-peer", "nvlink", results.RealmDouble, "write", 64, 1e9)
	for _, f := range []Format{Text, Markdown, CSV, JSON} {
		for _, v := range []View{Own, Perftest, NVBandwidth} {
			var b bytes.Buffer
			err := Write(&b, []results.Run{run(c)}, Options{Format: f, View: v})
			if err == nil || !strings.Contains(err.Error(), "this.jsonl") || !strings.Contains(err.Error(), "double") || b.Len() > 0 {
				t.Errorf("%s %s: %v, %d bytes", f, v, err, b.Len())
			}
		}
	}
}

// TestDefinitionsApart holds that what was measured differently never shares a column.
func TestDefinitionsApart(t *testing.T) {
	a := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 65536, 2e9)
	b := a
	b.Definition = "bandwidth.notified"
	streams := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 65536, 7e9)
	streams.Streams = 4
	peer := a
	peer.Definition, peer.PeerTool = "bandwidth.iperf3.receiver", "iperf3 3.16"
	both := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 65536, 3e9)
	both.Direction, both.Bandwidth.ForwardBytesPerSecond, both.Bandwidth.ReverseBytesPerSecond = "both", ptr(1.6e9), ptr(1.4e9)
	list := bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 65536, 1e9)
	list.Descriptors, list.PieceBytes, list.Pattern = 16, 4096, "scattered"
	p, err := Build([]results.Run{run(a, b, streams, peer, both, list)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var titles []string
	for _, s := range p.Tables[1:] {
		titles = append(titles, s.Title)
	}
	want := []string{"Bandwidth, write, one way (bandwidth.confirmed)", "Bandwidth, write, one way (bandwidth.notified)", "Bandwidth, write, one way (bandwidth.iperf3.receiver)",
		"Bandwidth, write, both ways at once (bandwidth.confirmed)"}
	if d := cmp.Diff(want, titles); d != "" {
		t.Error(d)
	}
	page := render(t, Options{}, run(a, b, streams, peer, both, list))
	check(t, page)
	golden(t, "apart.txt", page)
}

func TestSeveralRuns(t *testing.T) {
	a, b := typical(t), typical(t)
	b.File = "folder/other.jsonl"
	page := render(t, Options{}, a, b)
	check(t, page)
	golden(t, "runs.txt", page)
	again := run(a.Cells[0], a.Cells[0])
	p, err := Build([]results.Run{again}, Options{})
	if err != nil || len(p.Tables) != 2 || !slices.ContainsFunc(p.Tables[1].Columns, func(c Column) bool { return strings.HasSuffix(c.Group, "again 2") }) {
		t.Errorf("the same cell twice in one run: one hides the other: %v", err)
	}
}

func TestUtilisation(t *testing.T) {
	hw := bw(t, "roce", "roce, dmabuf", results.RealmHardware, "write", 1<<20, 11.25e9)
	sw := bw(t, "tcp", "tcp", results.RealmSoftware, "write", 1<<20, 5e9)
	for _, c := range []*results.Cell{&hw, &sw} {
		c.Limit = &results.Limit{BytesPerSecond: ptr(12.5e9), Source: "port rate"}
	}
	p, err := Build([]results.Run{run(hw, sw)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for i, c := range p.Tables[1].Columns {
		if c.Head == "% of limit" {
			shown = append(shown, p.Tables[1].Rows[0][i].Text)
		}
	}
	if len(shown) != 2 || !strings.HasPrefix(shown[0], "9") && !strings.HasPrefix(shown[0], "8") || shown[1] != "-" {
		t.Errorf("use of the limit, hardware and software: %q", shown)
	}
}

func TestFormats(t *testing.T) {
	r := typical(t)
	records, err := csv.NewReader(strings.NewReader(render(t, Options{Format: CSV}, r))).ReadAll()
	if err != nil || len(records) != len(r.Cells)+1 {
		t.Errorf("%d records for %d cells: %v", len(records), len(r.Cells), err)
	}
	var p Page
	if err := json.Unmarshal([]byte(render(t, Options{Format: JSON}, r)), &p); err != nil || len(p.Tables) != 4 {
		t.Errorf("%d tables, %v", len(p.Tables), err)
	}
	for _, o := range []Options{{Format: "odd"}, {View: "odd"}} {
		if err := Write(&bytes.Buffer{}, []results.Run{r}, o); err == nil {
			t.Errorf("%+v was drawn", o)
		}
	}
}

type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, os.ErrClosed }

func TestWriteErrorSurfaces(t *testing.T) {
	for _, f := range []Format{Text, Markdown, CSV, JSON} {
		if err := Write(brokenPipe{}, []results.Run{typical(t)}, Options{Format: f}); err == nil {
			t.Errorf("%s: a closed output is no error", f)
		}
	}
}

func TestDetails(t *testing.T) {
	r := typical(t)
	tcp := &r.Cells[1]
	tcp.Cold = &results.Cold{Connect: ptr(0.0021), Register: ptr(18e-6), FirstUse: ptr(310e-6)}
	tcp.PhasesSeconds = map[string]float64{"device_to_host": 21e-6, "wire": 45e-6, "host_to_device": 20e-6, "sum": 86e-6, "overlapped": 52e-6, "unpack": 1e-6}
	tcp.TCP = &results.TCP{Initiator: &results.TCPInfo{Retransmits: ptr(int64(0)), RTTSeconds: ptr(61e-6), CwndSegments: ptr(int64(10)), SndbufGotBytes: ptr(int64(2626560))}}
	r.Intervals = []results.Interval{{Transport: "tcp", Label: "tcp, same host", StartSeconds: 0, Seconds: 1, BytesPerSecond: 5.1e9, P50Seconds: ptr(180e-6), Retransmits: ptr(int64(0))},
		{Transport: "tcp", StartSeconds: 1, Seconds: 1.02, BytesPerSecond: 4.9e9, Warnings: []string{"the target stood still for 40 ms"}}}
	page := render(t, Options{Details: true}, r)
	check(t, page)
	golden(t, "details.txt", page)
}

// TestFailureStandsInItsColumn holds that a size that failed before its path was known is no path of its own.
func TestFailureStandsInItsColumn(t *testing.T) {
	failed := draft("tcp", "", "", "bandwidth.confirmed", "write", 1<<20)
	failed.Status, failed.Reason = results.StatusFailed, "no memory"
	p, err := Build([]results.Run{run(bw(t, "tcp", "tcp, same host", results.RealmSoftware, "write", 64, 2e6), failed)}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range p.Tables[1].Columns[1:] {
		if c.Group != "tcp, same host" {
			t.Errorf("column %q", c.Group)
		}
	}
	if got := p.Tables[1].Rows[1][1].Text; got != "failed" {
		t.Errorf("the failed size shows %q", got)
	}
}

func TestCSVHasNoFormula(t *testing.T) {
	c := bw(t, "tcp", "=HYPERLINK(1)", results.RealmSoftware, "write", 64, 2e6)
	if page := render(t, Options{Format: CSV}, run(c)); !strings.Contains(page, ",'=HYPERLINK(1),") {
		t.Error(page)
	}
}

func TestMarkdownEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"a|b": `a\|b`, "half_rtt": "half_rtt", "_x_": `\_x\_`, "<b>": "&lt;b&gt;", "# x": `\# x`, "![i](u)": `!\[i\](u)`, "a&lt;": "a&amp;lt;", "\x1b[0m": `\\u001b\[0m`,
	} {
		if got := md(text); got != want {
			t.Errorf("md(%q) = %q, want %q", text, got, want)
		}
	}
}

// FuzzWrite draws whatever the reader lets pass, in every format and view.
func FuzzWrite(f *testing.F) {
	for _, r := range []results.Run{typical(f), run()} {
		var b bytes.Buffer
		w, err := results.NewWriter(&b, "seed", &r.Header)
		if err != nil {
			f.Fatal(err)
		}
		for i := range min(4, len(r.Cells)) {
			if err := w.Cell(&r.Cells[i]); err != nil {
				f.Fatal(err)
			}
		}
		f.Add(b.Bytes())
	}
	f.Add([]byte(`{"record":"header","schema":"hopbench.results/v1"}` + "\n" + `{"record":"cell","transport":"roce","status":"partial","definition":"latency.half_rtt","operation":"write","latency":{"samples":9,"distribution":"x"},"piece_bytes":9,"total_bytes":8,"descriptors":7}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		runs, err := results.Read(bytes.NewReader(b), "f")
		if err != nil {
			return
		}
		for _, format := range []Format{Text, Markdown, CSV, JSON} {
			for _, view := range []View{Own, Perftest, NVBandwidth} {
				var out bytes.Buffer
				if err := Write(&out, runs, Options{Format: format, View: view, Details: true}); err != nil && !errors.Is(err, ErrDouble) {
					t.Fatal(err)
				}
				if format == Text && strings.ContainsRune(out.String(), 0x1b) {
					t.Fatal("an escape reaches the terminal")
				}
			}
		}
	})
}
