package plots

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/plot/vg/vgimg"

	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/figure"
	"hopbench/bench/ttft/report"
	"hopbench/results"
	"hopbench/results/compare"
)

func ptr[T any](v T) *T { return &v }

// cell is a plain cell of a path at a size.
func cell(label, operation string, n int64) results.Cell {
	return results.Cell{
		Transport: strings.Fields(label)[0], Label: label, Realm: results.RealmHardware, Definition: "bandwidth.confirmed", Operation: operation,
		Direction: "forward", PieceBytes: n, TotalBytes: n, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1,
		InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: results.StatusOK,
	}
}

// rate is a cell whose path has a start-up time and a limit, in bytes a second.
func rate(label, operation string, n int64, startup, limit float64) results.Cell {
	c := cell(label, operation, n)
	v := float64(n) / (startup + float64(n)/limit)
	c.Bandwidth = &results.Bandwidth{BytesPerSecond: v, Low: ptr(v * 0.9), High: ptr(v * 1.06), Rounds: []float64{v}}
	c.CPU = &results.CPU{InitiatorSecondsPerGigabyte: ptr(1e9 / v / 3), TargetSecondsPerGigabyte: ptr(1e9 / v / 4), HostSecondsPerGigabyte: ptr(1e9 / v)}
	return c
}

func delay(t testing.TB, label, operation string, n int64, median float64) results.Cell {
	c := cell(label, operation, n)
	c.Definition, c.Depth = "latency.half_rtt", 1
	var rounds [][]float64
	for r := range 8 {
		var s []float64
		for i := range 400 {
			s = append(s, median*(1+0.02*float64(r%3)+0.3*math.Pow(float64(i)/400, 12)))
		}
		rounds = append(rounds, s)
	}
	l, _, _, err := results.LatencyOf(rounds)
	if err != nil {
		t.Fatal(err)
	}
	c.Latency = l
	return c
}

func run(cells ...results.Cell) []results.Run {
	return []results.Run{{File: "run.jsonl", Header: results.Header{
		Schema: results.Schema, ToolVersion: "v1.0.0", Started: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Hosts: []results.Host{{Hostname: "alpha", CPUModel: "A CPU", CPUs: ptr(int64(8)), Kernel: "6.8"}, {Hostname: "beta"}},
	}, Cells: cells}}
}

// sizes are 4 KiB to 64 MiB by fours.
func sizes() []int64 {
	var out []int64
	for n := int64(4096); n <= 64<<20; n *= 4 {
		out = append(out, n)
	}
	return out
}

// plain runs of three kinds of paths, with a limit, a software device, a reference and one that cannot run.
func sweep(t testing.TB) []results.Run {
	var cells []results.Cell
	for _, n := range sizes() {
		a := rate("infiniband NDR, GPUDirect", "write", n, 3e-6, 48.6e9)
		a.Limit = &results.Limit{BytesPerSecond: ptr(50e9), Source: "port rate, 4X NDR"}
		b := rate("roce over rxe", "write", n, 40e-6, 0.9e9)
		b.Realm = results.RealmSoftware
		c := rate("tcp, staged", "write", n, 32e-6, 9.8e9)
		c.Provenance, c.Source = results.FromSource, "a published table"
		cells = append(cells, a, b, c, delay(t, "infiniband NDR, GPUDirect", "write", n, 2e-6+float64(n)/48e9), delay(t, "tcp, staged", "write", n, 20e-6+float64(n)/9e9))
	}
	w := cell("cuda-peer", "write", 0)
	w.Status, w.Reason = results.StatusWaived, "no GPU on this host"
	return run(append(cells, w)...)
}

type drawn struct {
	name string
	f    *Figure
}

// everyKind draws one of each.
func everyKind(t testing.TB, o Options) []drawn {
	t.Helper()
	runs := sweep(t)
	staged := rate("tcp, staged", "write", 1<<20, 30e-6, 9e9)
	staged.PhasesSeconds = map[string]float64{"device_to_host": 0.2, "wire": 0.5, "host_to_device": 0.25, "sum": 0.95, "overlapped": 0.55}
	staged.Bandwidth.RoundsOperations = []int64{1000, 2000}
	var pairs []results.Cell
	for i := range 6 {
		for j := range 6 {
			if i == j || i == 2 && j == 4 {
				continue
			}
			c := rate("infiniband", "write", 1<<20, 3e-6, 20e9+20e9*float64((i+j+1)%2))
			c.InitiatorHost, c.TargetHost = fmt.Sprintf("node%02d", i), fmt.Sprintf("node%02d", j)
			pairs = append(pairs, c)
		}
	}
	rails := []results.Cell{}
	for i := range 3 {
		c := rate("infiniband", "read", 1<<20, 3e-6, 40e9+float64(i)*1e9)
		c.Rail = fmt.Sprintf("mlx5_%d", i)
		rails = append(rails, c)
	}
	report1 := &compare.Report{Verdict: compare.Regression, Headline: "1 worse, 1 better", Alpha: 0.05, OldFiles: 1, NewFiles: 1, Rows: []compare.Row{
		{Cell: "tcp/write/bandwidth.confirmed/1MiB", Metric: compare.Bandwidth, Better: "higher", Ratio: ptr(0.91), RatioLow: ptr(0.88), RatioHigh: ptr(0.93), MinEffect: ptr(0.03), Verdict: compare.Worse},
		{Cell: "tcp/read/bandwidth.confirmed/1MiB", Metric: compare.Bandwidth, Better: "higher", Ratio: ptr(1.08), RatioLow: ptr(1.05), RatioHigh: ptr(1.12), MinEffect: ptr(0.03), Verdict: compare.Better},
		{Cell: "tcp/send/bandwidth.confirmed/1MiB with a name that is long enough to be wrapped once at least", Metric: compare.Bandwidth, Better: "higher", Ratio: ptr(1.0), RatioLow: ptr(0.99), RatioHigh: ptr(1.01), MinEffect: ptr(0.03), Verdict: compare.Same},
		{Cell: "tcp/write/latency.half_rtt/64B", Metric: compare.Latency, Better: "lower", Ratio: ptr(1.01), Verdict: compare.TooFew},
		{Cell: "tcp/write/latency.half_rtt/1KiB", Metric: compare.Latency, Verdict: compare.Missing},
	}}
	doc := document()
	graph := Graph{
		Boxes: []Box{{"r0", "root", "pci0000:00", "NUMA node 0", 0}, {"g0", "gpu", "GPU 0", "", 1}, {"n0", "nic", "mlx5_0", "", 1}, {"r1", "root", "pci0000:80", "NUMA node 1", 0}, {"g1", "gpu", "GPU 1", "", 1}},
		Links: []Link{{"r0", "g0", "pci", "Gen5 x16", ptr(63e9)}, {"r0", "n0", "pci", "", nil}, {"r1", "g1", "pci", "", nil}, {"g0", "g1", "nvlink", "NVLink 4 x 18", ptr(450e9)}, {"g0", "gone", "pci", "", nil}},
	}
	var out []drawn
	add := func(name string, f *Figure, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out = append(out, drawn{name, f})
	}
	figure1 := func(name string, f func([]results.Run, Options) (*Figure, error), runs []results.Run) {
		t.Helper()
		got, err := f(runs, o)
		add(name, got, err)
	}
	figure1("bandwidth", Bandwidth, runs)
	figure1("latency", Latency, runs)
	figure1("cpu", CPU, runs)
	figure1("distribution", Distribution, runs)
	figure1("phases", Phases, run(staged))
	figure1("heat", Heat, run(append(pairs, rails...)...))
	f, err := Ratios(report1, o)
	add("ratio", f, err)
	f, err = TTFT(doc, o)
	add("ttft", f, err)
	f, err = TTFTByLength(doc, o)
	add("ttft-length", f, err)
	f, err = TTFTByLoad(doc, o)
	add("ttft-load", f, err)
	f, err = Topology(graph, o)
	add("topology", f, err)
	return out
}

func document() *report.Document {
	doc := &report.Document{}
	for i, label := range []string{"InfiniBand", "tcp, same host"} {
		k := float64(i + 1)
		doc.Projections = append(doc.Projections, report.Projection{Label: label, Model: "a/model", ISL: 8000, Load: report.Load{Rate: 2},
			PartsMedian: &report.Parts{Queue: 0.01, Prefill: 0.4, Transfer: 0.1 * k, Orchestration: 0.12, FirstDecode: 0.02},
			PartsTail:   &report.Parts{Queue: 0.3, Prefill: 0.5, Transfer: 0.3 * k, Orchestration: 0.12, FirstDecode: 0.02},
			Provenance:  map[string]string{"transfer": "measured"}, Sources: map[string]string{"transfer": "run.jsonl"}, Assumptions: []string{"a decode step takes 20 ms"}})
		var length, load figure.Series
		for _, x := range []float64{1024, 4096, 16384, 65536} {
			length.Points = append(length.Points, figure.SeriesPoint{X: x, TTFT: 0.2 + x*k/20000})
		}
		for _, x := range []float64{0.5, 1, 1.5} {
			load.Points = append(load.Points, figure.SeriesPoint{X: x, TTFT: 0.5 * k * x, P99: ptr(2 * k * x)})
		}
		length.Label, load.Label, length.Provenance, load.Provenance = label, label, "measured", "measured"
		if i == 1 {
			load.Asymptote = ptr(2.0)
		}
		doc.AgainstISL, doc.AgainstRate = append(doc.AgainstISL, length), append(doc.AgainstRate, load)
	}
	doc.Answers = []report.Answer{{Question: "prompt lengths where links cross, 16 to 131072 tokens", Label: "A and B", Text: "at 8000 tokens", Value: ptr(8000.0), Unit: "tokens"}}
	return doc
}

// lay draws the figure on an image and returns where its texts are.
func lay(f *Figure) *pen {
	g := f.layout()
	return f.draw(vgimg.NewWith(vgimg.UseWH(f.width, g.total), vgimg.UseDPI(20)), g, false)
}

// sound fails where a text leaves the figure or touches another.
func sound(t *testing.T, f *Figure) {
	t.Helper()
	p := lay(f)
	h := f.layout().total
	for i, a := range p.texts {
		if a.box.Min.X < 0 || a.box.Min.Y < 0 || a.box.Max.X > f.width || a.box.Max.Y > h {
			t.Errorf("%s %q leaves the figure of %.0f x %.0f: %v", a.kind, a.text, f.width, h, a.box)
		}
		for _, b := range p.texts[:i] {
			const touch = 0.8 // rounding, and the descent that a box counts
			if a.box.Min.X < b.box.Max.X-touch && b.box.Min.X < a.box.Max.X-touch && a.box.Min.Y < b.box.Max.Y-touch && b.box.Min.Y < a.box.Max.Y-touch {
				t.Errorf("%s %q lies over %s %q: %v, %v", a.kind, a.text, b.kind, b.text, a.box, b.box)
			}
		}
	}
}

func TestNoTextLiesOverAnother(t *testing.T) {
	for _, width := range []float64{8, 17, 40} {
		for _, d := range everyKind(t, Options{Width: width}) {
			t.Run(fmt.Sprintf("%s/%v cm", d.name, width), func(t *testing.T) { sound(t, d.f) })
		}
	}
}

func TestEveryFormat(t *testing.T) {
	heads := map[Format]string{SVG: "<svg ", PNG: "\x89PNG", PDF: "%PDF-"}
	for _, d := range everyKind(t, Options{Dark: true}) {
		for _, format := range Formats() {
			var a, b bytes.Buffer
			if err := errors.Join(d.f.Write(&a, format), d.f.Write(&b, format)); err != nil {
				t.Errorf("%s.%s: %v", d.name, format, err)
				continue
			}
			if !strings.HasPrefix(a.String(), heads[format]) {
				t.Errorf("%s.%s begins with %q", d.name, format, a.String()[:8])
			}
			if !bytes.Equal(a.Bytes(), b.Bytes()) {
				t.Errorf("%s.%s: two drawings differ", d.name, format)
			}
			if format == SVG {
				wellFormed(t, d.name, a.Bytes())
			}
		}
	}
	if err := everyKind(t, Options{})[0].f.Write(io.Discard, "gif"); err == nil {
		t.Error("gif was written")
	}
}

func wellFormed(t *testing.T, name string, b []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(b))
	for {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	for _, f := range regexp.MustCompile(`font-family:[^;"]*`).FindAllString(string(b), -1) {
		if !strings.HasSuffix(f, "sans-serif") {
			t.Errorf("%s: %s has no fall-back", name, f)
		}
	}
}

func TestTheCaptionSaysWhatIsShown(t *testing.T) {
	f, err := Bandwidth(sweep(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(append(f.Caption, f.Subtitle), "\n")
	for _, want := range []string{"bandwidth.confirmed: payload", "alpha", "beta", "2026-05-04", "hopbench v1.0.0", "reference", "a published table", "Software (hollow markers)", "cuda-peer: no GPU on this host", "95 %"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	var labels []string
	for _, s := range f.Series() {
		labels = append(labels, s.Label)
	}
	got := strings.Join(labels, "|")
	for _, want := range []string{"roce over rxe, software", "tcp, staged, reference", "limit 50.0 GB/s: port rate, 4X NDR"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if s := f.Series()[0]; len(s.Points) != len(sizes()) || s.Points[0].Low == nil || s.Points[0].XLabel != "4 KiB" {
		t.Errorf("series: %+v", s)
	}
}

func TestDefinitionsStandApart(t *testing.T) {
	a, b := rate("tcp", "write", 4096, 1e-6, 1e9), rate("tcp", "write", 4096, 2e-6, 1e9)
	b.Definition = "bandwidth.iperf3.receiver"
	f, err := Bandwidth(run(a, b), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.panels) != 2 {
		t.Fatalf("%d panels for two definitions", len(f.panels))
	}
	if text := strings.Join(f.Caption, " "); !strings.Contains(text, "bandwidth.iperf3.receiver") {
		t.Errorf("the caption does not name both: %s", text)
	}
}

func TestDoublesAreRefused(t *testing.T) {
	c := rate("roce", "write", 4096, 1e-6, 1e9)
	c.Realm = results.RealmDouble
	for name, f := range map[string]func([]results.Run, Options) (*Figure, error){"bandwidth": Bandwidth, "latency": Latency, "cpu": CPU, "distribution": Distribution, "phases": Phases, "heat": Heat} {
		if _, err := f(run(c), Options{}); !errors.Is(err, ErrDouble) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOddData(t *testing.T) {
	many := func(n int, f func(i int) results.Cell) []results.Run {
		var cells []results.Cell
		for i := range n {
			cells = append(cells, f(i))
		}
		return run(cells...)
	}
	set := func(n int64, v float64) results.Cell {
		c := rate("tcp", "write", n, 0, 1e9)
		c.Bandwidth.BytesPerSecond = v
		return c
	}
	long := strings.Repeat("a path whose name is far too long for any label ", 6)
	for name, runs := range map[string][]results.Run{
		"one point":           run(rate("tcp", "write", 65536, 1e-6, 1e9)),
		"without an interval": many(3, func(i int) results.Cell { c := set(1<<i, 1e9); c.Bandwidth.Low, c.Bandwidth.High = nil, nil; return c }),
		"one bound in three": many(3, func(i int) results.Cell {
			c := set(1<<i, 1e9)
			if i != 1 {
				c.Bandwidth.Low = nil
			}
			return c
		}),
		"equal values":         many(5, func(i int) results.Cell { return set(4096<<i, 1e9) }),
		"within a decade":      many(5, func(i int) results.Cell { return set(4096<<i, 2e9+float64(i)*1e7) }),
		"zeros among values":   many(5, func(i int) results.Cell { return set(4096<<i, float64(i)*1e9) }),
		"NaN among values":     run(set(64, math.NaN()), set(128, math.Inf(1)), set(256, 1e9)),
		"bounds that are zero": many(3, func(i int) results.Cell { c := set(64<<i, 1e9); c.Bandwidth.Low = ptr(0.0); return c }),
		"extremes":             run(set(1, 1e-300), set(math.MaxInt64, 1e300)),
		"no size":              run(set(0, 1e9), set(-5, 1e9), set(7, 1e9)),
		"twelve series": many(12*4, func(i int) results.Cell {
			return rate(fmt.Sprintf("path %d", i/4), "write", 4096<<(i%4), 1e-6, 1e9*(1+0.001*float64(i/4)))
		}),
		"a thousand cells": many(1000, func(i int) results.Cell {
			return rate(fmt.Sprintf("path %d", i/20), fmt.Sprintf("op%d", i%7), 4096<<(i%20), 1e-6, 1e9)
		}),
		"long names":          many(4, func(i int) results.Cell { return rate(long+fmt.Sprint(i), "write", 4096, 1e-6, 1e9) }),
		"a long word":         run(rate(strings.Repeat("x", 400), "write", 4096, 1e-6, 1e9)),
		"markup":              run(rate("<script>alert(1)</script>&\"'\x00\x1b[31m\n", "</text><script>", 4096, 1e-6, 1e9)),
		"the same cell twice": run(set(64, 1e9), set(64, 2e9)),
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Bandwidth(runs, Options{})
			if err != nil {
				t.Fatal(err)
			}
			sound(t, f)
			for _, format := range Formats() {
				var out bytes.Buffer
				if err := f.Write(&out, format); err != nil {
					t.Fatalf("%s: %v", format, err)
				}
				if format == SVG {
					wellFormed(t, name, out.Bytes())
					if strings.Contains(out.String(), "<script") || strings.Contains(out.String(), "NaN") {
						t.Error("markup or NaN in the drawing")
					}
				}
			}
		})
	}
}

func TestNothingToDraw(t *testing.T) {
	w := cell("roce", "write", 0)
	w.Status, w.Reason = results.StatusWaived, "no RDMA device"
	_, err := Bandwidth(run(w), Options{})
	if !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "roce: no RDMA device") {
		t.Errorf("only waived rows: %v", err)
	}
	zero := rate("tcp", "write", 4096, 1e-6, 1e9)
	zero.Bandwidth.BytesPerSecond = 0
	for name, runs := range map[string][]results.Run{"no run": nil, "no cell": run(), "only a zero": run(zero)} {
		if _, err := Bandwidth(runs, Options{}); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, f := range map[string]func() (*Figure, error){
		"ratios":   func() (*Figure, error) { return Ratios(&compare.Report{}, Options{}) },
		"ttft":     func() (*Figure, error) { return TTFT(&report.Document{}, Options{}) },
		"length":   func() (*Figure, error) { return TTFTByLength(&report.Document{}, Options{}) },
		"load":     func() (*Figure, error) { return TTFTByLoad(&report.Document{}, Options{}) },
		"topology": func() (*Figure, error) { return Topology(Graph{}, Options{}) },
	} {
		if _, err := f(); !errors.Is(err, ErrEmpty) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestABoxWithoutAName(t *testing.T) {
	f, err := Topology(Graph{Boxes: []Box{{}, {ID: "a", Rank: -1}}, Links: []Link{{}, {From: "a", To: ""}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	sound(t, f)
}

func TestTheRealmStandsInTheFigure(t *testing.T) {
	c := rate("roce", "write", 4096, 1e-6, 1e9)
	c.Realm = results.RealmEmulated
	f, err := Bandwidth(run(c), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Series()[0].Label; got != "roce, emulated" || !f.panels[0].(*chart).lines[0].look.hollow {
		t.Errorf("label %q, or a full marker", got)
	}
	doc := document()
	doc.Projections[1].Measured = &curve.Origin{Realm: results.RealmSoftware}
	bars, err := TTFT(doc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	load, err := TTFTByLoad(doc, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []*Figure{bars, load} {
		var drawn []string
		for _, p := range lay(f).texts {
			if p.kind == "label" {
				drawn = append(drawn, p.text)
			}
		}
		if text := strings.Join(drawn, " "); !strings.Contains(text, "tcp, same host, software") || strings.Contains(text, "InfiniBand, software") {
			t.Errorf("%s: labels %s", f.Title, text)
		}
	}
	doc.Projections[0].Measured = &curve.Origin{Realm: results.RealmDouble}
	for name, draw := range map[string]func(*report.Document, Options) (*Figure, error){"parts": TTFT, "length": TTFTByLength, "load": TTFTByLoad} {
		if _, err := draw(doc, Options{}); !errors.Is(err, ErrDouble) {
			t.Errorf("TTFT by %s of a fake library: %v", name, err)
		}
	}
	double := compare.Row{Ratio: ptr(1.0), Metric: compare.Bandwidth}
	double.Realm = results.RealmDouble
	if _, err := Ratios(&compare.Report{Rows: []compare.Row{double}}, Options{}); !errors.Is(err, ErrDouble) {
		t.Errorf("ratios of a fake library: %v", err)
	}
}

func TestOrigins(t *testing.T) {
	var o Origins
	if o.Notes() != nil {
		t.Errorf("notes of nothing: %q", o.Notes())
	}
	runs := sweep(t)
	o.Add(&runs[0])
	text := strings.Join(o.Notes(), "\n")
	for _, want := range []string{"alpha (8 CPUs A CPU, kernel 6.8); beta", "2026-05-04", "hopbench v1.0.0", "reference", "a published table"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestANameIsCutAtASlash(t *testing.T) {
	f := face(smallSize, false)
	name := "tcp/read/bandwidth.confirmed/256KiB/depth=16/software"
	lines := wrap(f, name, widthOf(f, name)-3)
	if len(lines) != 2 || lines[1] != "software" {
		t.Errorf("%q", lines)
	}
}
