package report_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"hopbench/bench/report"
	"hopbench/results"
)

var update = flag.Bool("update", false, "write the golden files anew")

func read(t testing.TB, name string) []results.Run {
	t.Helper()
	runs, err := results.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	for i := range runs {
		runs[i].File = filepath.Base(runs[i].File)
	}
	return runs
}

func write(t testing.TB, runs []results.Run, o report.Options, f report.Format) string {
	t.Helper()
	r, err := report.Build(runs, o)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := r.Write(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got == string(want) {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			line := func(l []string) string {
				if i < len(l) {
					return l[i]
				}
				return "(no line)"
			}
			t.Fatalf("%s, line %d (-update writes it anew)\n got %s\nwant %s", name, i+1, line(g), line(w))
		}
	}
}

// small is one cell and one waived transport, on one host.
func small() []results.Run {
	f := func(v float64) *float64 { return &v }
	yes, no := true, false
	cpus := int64(2)
	return []results.Run{{File: "small.jsonl", Header: results.Header{Schema: results.Schema, ToolVersion: "v1.0.0", Started: time.Date(2026, 12, 1, 9, 30, 0, 0, time.UTC),
		Hosts: []results.Host{{Hostname: "alpha", CPUModel: "EPYC", CPUs: &cpus}, {Hostname: "beta", CPUModel: "Xeon", CPUs: &cpus}}},
		Cells: []results.Cell{
			{Transport: "tcp", Label: "tcp, same subnet", Realm: "hardware", Definition: "bandwidth.confirmed", Operation: "read", Direction: "forward", PieceBytes: 65536, TotalBytes: 65536,
				Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: "ok",
				Bandwidth: &results.Bandwidth{BytesPerSecond: 2.5e9, Low: f(2.4e9), High: f(2.6e9), Rounds: []float64{2.4e9, 2.5e9, 2.6e9}}, Converged: &no, Verified: &yes,
				Path: &results.Path{Initiator: &results.Side{Netdev: "eth0", Route: "same subnet", Evidence: []string{"ip route get 192.0.2.7"}}}, Warnings: []string{"target retransmits: 3"}},
			{Transport: "roce", Label: "roce", Status: "waived", Reason: "no RDMA device", Code: "verbs.no-devices"},
		}}}
}

// drawings are the figures, whose bytes package plots answers for, and the rules of their styles.
var drawings = regexp.MustCompile(`(?s)<svg viewBox="0 0 [0-9.]+ [0-9.]+" aria-hidden.*?</svg>`)

func TestGolden(t *testing.T) {
	html := write(t, small(), report.Options{Tool: "hopbench v1.0.0"}, report.HTML)
	if n := len(drawings.FindAllString(html, -1)); n < 2 {
		t.Errorf("%d drawings", n)
	}
	html = drawings.ReplaceAllString(html, "<svg></svg>")
	html = regexp.MustCompile(`(?s)<style>.*?</style>`).ReplaceAllString(html, "<style></style>")
	html = regexp.MustCompile(`(?s)<script>.*?</script>`).ReplaceAllString(html, "<script></script>")
	html = regexp.MustCompile(`sha256-[^&' ]+`).ReplaceAllString(html, "sha256-HASH")
	golden(t, "small.html", html)
	golden(t, "small.md", write(t, small(), report.Options{Tool: "hopbench v1.0.0"}, report.Markdown))
}

func TestTheSameFilesGiveTheSameBytes(t *testing.T) {
	for _, f := range report.Formats() {
		first := write(t, read(t, "typical.jsonl"), report.Options{}, f)
		if second := write(t, read(t, "typical.jsonl"), report.Options{}, f); second != first {
			t.Errorf("%s differs", f)
		}
	}
}

// TestHostileStrings puts markup into every string of a file that a person could have set, and looks for it in both formats.
func TestHostileStrings(t *testing.T) {
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(1)>"'` + "`${1}|[x](javascript:alert(1))\n# h\n-->]]>{{.}} @everyone https://evil.example <!-- \x00\x1b[31m\u202e"
	for name, html := range map[string]string{"page": write(t, hostile(evil), report.Options{Title: evil, Tool: evil}, report.HTML)} {
		for _, bad := range []string{"<script>alert", "<img", "onerror=alert(1)>", "</script><script>alert"} {
			if strings.Contains(html, bad) {
				t.Errorf("%s: %q got through: %s", name, bad, around(html, bad))
			}
		}
		if n := strings.Count(html, "<script"); n != 1 {
			t.Errorf("%s: %d scripts", name, n)
		}
		if !strings.Contains(html, "&lt;img src=x") {
			t.Errorf("%s: the string itself is not shown", name)
		}
	}
	text := write(t, hostile(evil), report.Options{Title: evil, Tool: evil}, report.Markdown)
	text = regexp.MustCompile(`(?m)^    .*$`).ReplaceAllString(text, "") // code, where nothing is markup
	for _, bad := range []string{"<script", "<img", "<!--", "\n# h", "\x1b", "\x00"} {
		if strings.Contains(text, bad) {
			t.Errorf("Markdown: %q got through: %s", bad, around(text, bad))
		}
	}
	// A pipe of a file's must not end a cell: all rows of a table have the same number of ends.
	for block := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.TrimSpace(block), "\n")
		if !strings.HasPrefix(lines[0], "|") {
			continue
		}
		ends := func(s string) int { return strings.Count(s, "|") - strings.Count(s, `\|`) }
		for _, l := range lines {
			if ends(l) != ends(lines[0]) {
				t.Errorf("Markdown: a row of another width: %s", l)
			}
		}
	}
}

func hostile(evil string) []results.Run {
	runs := small()
	r := &runs[0]
	r.File = evil
	r.Header.ToolVersion, r.Header.ToolCommit = evil, evil
	h := &r.Header.Hosts[0]
	h.Hostname, h.CPUModel, h.Kernel, h.OS, h.Virtualisation = evil, evil, evil, evil, evil
	h.GPUs = []results.GPU{{Name: evil, PCI: evil}}
	h.NICs = []results.NIC{{Device: evil, Driver: evil}}
	c := &r.Cells[0]
	c.Transport, c.Label, c.InitiatorMemory, c.Rail, c.Warnings, c.PeerTool, c.Schedule = evil, evil, evil, evil, []string{evil}, evil, "isolated"
	c.Path.Initiator.Netdev, c.Path.Initiator.Evidence, c.Path.Initiator.Settings = evil, []string{evil}, map[string]string{evil: evil}
	c.Counters = &results.Counters{Source: evil, Unit: "bytes"}
	c.Limit = &results.Limit{Source: evil}
	w := &r.Cells[1]
	w.Label, w.Transport, w.Reason, w.Code, w.Status = evil, evil, evil, evil, "failed"
	other := *c
	other.Definition, other.Operation, other.Direction, other.Realm = "bandwidth."+evil, evil, evil, evil
	longer := *c // a line, whose markers carry its label
	longer.TotalBytes, longer.PieceBytes = 1<<20, 1<<20
	r.Cells = append(r.Cells, other, longer)
	r.Warnings = []string{evil}
	r.Footer = &results.Footer{State: "failed", Reason: evil}
	return runs
}

func around(s, part string) string {
	at := strings.Index(s, part)
	return s[max(0, at-120):min(len(s), at+120)]
}

func TestOddFiles(t *testing.T) {
	thousand := small()
	for i := range 1000 {
		c := thousand[0].Cells[0]
		c.TotalBytes, c.PieceBytes, c.Depth = int64(64<<(i%20)), int64(64<<(i%20)), int64(1+i/20)
		thousand[0].Cells = append(thousand[0].Cells, c)
	}
	waived := small()
	waived[0].Cells = waived[0].Cells[1:]
	none := small()
	none[0].Cells = nil
	nohosts := small()
	nohosts[0].Header.Hosts = nil
	for _, k := range []struct {
		name string
		runs []results.Run
		want []string
	}{
		{"a thousand cells", thousand, []string{"1001 of 1001 rows"}},
		{"only waived", waived, []string{"Nothing was measured", "no RDMA device", "No cell of these files has a figure"}},
		{"no cell", none, []string{"Nothing was measured", "Everything that these files planned has run"}},
		{"no host", nohosts, []string{"no fingerprint of a host"}},
		{"no run", nil, []string{"Nothing was measured"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			html := write(t, k.runs, report.Options{}, report.HTML)
			for _, w := range k.want {
				if !strings.Contains(html, w) {
					t.Errorf("the page does not say %q", w)
				}
			}
			if len(write(t, k.runs, report.Options{}, report.Markdown)) == 0 {
				t.Error("no Markdown")
			}
		})
	}
}

func TestDoubleIsRefused(t *testing.T) {
	runs := small()
	runs[0].Cells[0].Realm = results.RealmDouble
	if _, err := report.Build(runs, report.Options{}); !errors.Is(err, report.ErrDouble) {
		t.Errorf("%v", err)
	}
}

func TestAPageWithoutAPlannerSaysSo(t *testing.T) {
	html := write(t, small(), report.Options{}, report.HTML)
	for _, w := range []string{"built without the planner", "make planner build", `<form id="ask" hidden>`} {
		if !strings.Contains(html, w) {
			t.Errorf("the page does not have %q", w)
		}
	}
	if strings.Contains(html, "wasm-unsafe-eval") {
		t.Error("the policy allows WebAssembly that is not there")
	}
}

func TestSizeOfAPage(t *testing.T) {
	p, err := planner()
	if err != nil {
		t.Fatal(err)
	}
	html := write(t, read(t, "typical.jsonl"), report.Options{Planner: p}, report.HTML)
	t.Logf("%d bytes, of them %d are the planner in base64", len(html), len(p.Wasm)*4/3)
	if len(html) > report.MostBytes {
		t.Errorf("%d bytes", len(html))
	}
	if strings.Contains(html, "http-equiv=\"refresh\"") || regexp.MustCompile(`(?:src|href)="(?:https?:)?//`).MatchString(html) {
		t.Error("the page names an address to load")
	}
}

// TestAHeavyPageLosesFiguresAndSaysSo: with a thousand cells the figures do not all fit.
func TestAHeavyPageLosesFiguresAndSaysSo(t *testing.T) {
	p, err := planner()
	if err != nil {
		t.Fatal(err)
	}
	runs := read(t, "typical.jsonl")
	cells := runs[0].Cells
	for i := 1; len(runs[0].Cells) < 1000; i++ {
		for _, c := range cells {
			if c.Status == results.StatusOK {
				c.Depth = int64(16 + i)
				runs[0].Cells = append(runs[0].Cells, c)
			}
		}
	}
	html := write(t, runs, report.Options{Planner: p}, report.HTML)
	t.Logf("%d bytes", len(html))
	if len(html) > report.MostBytes {
		t.Errorf("%d bytes", len(html))
	}
	if !strings.Contains(html, `class="only"`) || !strings.Contains(html, "hopbench plot --kind distribution") || !strings.Contains(html, `<figure id="figure-1"`) {
		t.Error("the page does not say what it lost, or lost more than it must")
	}
}

// TestMarks holds the values that figures show on hovering to the points: as many marks as points, but for distributions, whose steps have
// them at the ticks of their axis.
func TestMarks(t *testing.T) {
	r, err := report.Build(read(t, "typical.jsonl"), report.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures {
		want := 0
		for _, s := range f.Values {
			if len(s.Points) > 0 && s.Points[0].YLabel != "" { // a limit has no label
				want += len(s.Points)
			}
		}
		if f.Kind == "distribution" {
			if n := f.Wide.Hits; n < 3*len(f.Values) || n > (want+f.More)/4 || f.Narrow.Hits != n {
				t.Errorf("%s: %d and %d marks for %d corners", f.Title, n, f.Narrow.Hits, want+f.More)
			}
			continue
		}
		if f.Wide.Hits != want || f.Narrow.Hits != want {
			t.Errorf("%s: %d and %d marks for %d points", f.Title, f.Wide.Hits, f.Narrow.Hits, want)
		}
	}
}

func TestWarningsTravel(t *testing.T) {
	html := write(t, small(), report.Options{}, report.HTML)
	for _, w := range []string{"target retransmits: 3", "ok, not converged, payload checked", "ip route get 192.0.2.7", fmt.Sprintf("href=%q", "#evidence-1"), "differs"} {
		if !strings.Contains(html, w) {
			t.Errorf("the page does not have %q", w)
		}
	}
}
