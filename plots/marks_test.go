package plots

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"hopbench/bench/ttft/report"
	"hopbench/results"
)

// A mark lies where its value is drawn: the axes of the panel give the place back.
func TestMarksLieOnTheirValues(t *testing.T) {
	f, err := Bandwidth(sweep(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	g := f.layout()
	points := 0
	for _, p := range f.panels {
		for _, l := range p.(*chart).lines {
			points += len(l.points)
		}
	}
	marks := f.Marks()
	if len(marks) != points {
		t.Fatalf("%d marks for %d points", len(marks), points)
	}
	c := f.panels[0].(*chart)
	// The first panel's data area, from the same numbers as the drawing's.
	left, right := float64(margin+g.left), float64(f.width-margin-g.right)
	at := 0
	for _, l := range c.lines {
		low := marks[at]
		for i, q := range l.points {
			m := marks[at+i]
			if want := left + c.x.part(q.X)*(right-left); math.Abs(m.X-want) > 0.01 {
				t.Errorf("%s at %s lies at %.2f, want %.2f", l.label, q.XLabel, m.X, want)
			}
			if m.Label != l.label || !strings.HasPrefix(m.Text, l.label+": "+q.YLabel+" at "+q.XLabel) {
				t.Errorf("mark of %s at %s says %q", l.label, q.XLabel, m.Text)
			}
			if i > 0 && (q.Y > l.points[0].Y) != (m.Y < low.Y) { // upwards is less
				t.Errorf("%s at %s: %.2f beside %.2f", l.label, q.XLabel, m.Y, low.Y)
			}
		}
		at += len(l.points)
	}
	if text := marks[0].Text; !strings.Contains(text, "−10 % to +6 %") {
		t.Errorf("no interval in %q", text)
	}
}

// Every kind has marks, within the figure, each with a text.
func TestEveryKindHasMarks(t *testing.T) {
	for _, d := range everyKind(t, Options{}) {
		marks := d.f.Marks()
		if len(marks) == 0 {
			t.Errorf("%s: no mark", d.name)
		}
		h := float64(d.f.layout().total)
		for _, m := range marks {
			if m.Text == "" || m.X-m.Width/2 < 0 || m.Y-m.Height/2 < 0 || m.X+m.Width/2 > float64(d.f.width) || m.Y+m.Height/2 > h {
				t.Errorf("%s: %+v", d.name, m)
			}
		}
	}
}

// The last label of every axis is drawn, and so is the first: a reader must know where the axis ends.
func TestAxesAreLabelledToTheirEnds(t *testing.T) {
	for _, width := range []float64{8, 17, 40} {
		for _, d := range everyKind(t, Options{Width: width}) {
			p := lay(d.f)
			for _, panel := range d.f.panels {
				var ends []tick
				switch v := panel.(type) {
				case *chart:
					// A logarithmic axis of values may end between two powers of ten, which have labels.
					if v.xName == "size (bytes)" || v.xName == "prompt (tokens)" || !v.x.log {
						ends = append(ends, v.x.ticks[0], v.x.ticks[len(v.x.ticks)-1])
					}
					if !v.y.log {
						ends = append(ends, v.y.ticks[0], v.y.ticks[len(v.y.ticks)-1])
					}
				case *stacks:
					ends = append(ends, v.x.ticks[0], v.x.ticks[len(v.x.ticks)-1])
				}
				for _, k := range ends {
					found := false
					for _, text := range p.texts {
						found = found || text.kind == "tick" && text.text == k.label && k.label != ""
					}
					if !found {
						t.Errorf("%s at %v cm: the label %q of an end is not drawn", d.name, width, k.label)
					}
				}
			}
		}
	}
}

func TestByteScaleHasItsEnds(t *testing.T) {
	for _, c := range []struct {
		from, to float64
		want     string
	}{
		{64, 256 << 20, "64 B|256 MiB"}, {4096, 64 << 20, "4 KiB|64 MiB"}, {64, 1 << 30, "64 B|1 GiB"}, {1, 2, "1 B|2 B"}, {48, 48 << 20, "48 B|48 MiB"},
		{65536, 65536, "32 KiB|128 KiB"}, {1000, 100000, "1000 B|100000 B"}, {8, 1 << 33, "8 B|8 GiB"},
	} {
		s := byteScale([]float64{c.from, c.to}, 8)
		labels := []string{}
		for _, k := range s.ticks {
			if k.label != "" {
				labels = append(labels, k.label)
			}
		}
		if got := labels[0] + "|" + labels[len(labels)-1]; got != c.want || len(labels) > 11 {
			t.Errorf("%g to %g: %q", c.from, c.to, labels)
		}
	}
	for n := range 40 {
		if step := evenStep(n, 8); n/step+1 > 8 {
			t.Errorf("%d intervals in steps of %d are more than 8 labels", n, step)
		}
	}
}

// The caption of a projection says where, when and by what its links were measured, as that of a measurement does.
func TestTheCaptionOfAProjection(t *testing.T) {
	doc := document()
	runs := sweep(t)
	doc.Runs, doc.Tool = []report.Run{report.RunOf(&runs[0])}, "hopbench v1.2.3"
	for name, draw := range map[string]func(*report.Document, Options) (*Figure, error){"parts": TTFT, "length": TTFTByLength, "load": TTFTByLoad} {
		f, err := draw(doc, Options{})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Join(f.Caption, "\n")
		for _, want := range []string{"alpha (8 CPUs A CPU, kernel 6.8); beta", "2026-05-04", "hopbench v1.0.0", "TTFT: projected; links: 2 measured", "Projected by hopbench v1.2.3"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
	}
}

// What is no hardware is said in the drawing of every kind, not only beneath it.
func TestEveryKindSaysItsRealm(t *testing.T) {
	for _, realm := range []string{results.RealmSoftware, results.RealmEmulated} {
		mark := func(c results.Cell) results.Cell { c.Realm = realm; return c }
		staged := mark(rate("roce", "write", 1<<20, 30e-6, 9e9))
		staged.PhasesSeconds = map[string]float64{"wire": 0.5}
		pair := mark(rate("roce", "write", 1<<20, 3e-6, 20e9))
		pair.InitiatorHost, pair.TargetHost = "a", "b"
		rail := mark(rate("roce", "read", 1<<20, 3e-6, 20e9))
		rail.Rail = "mlx5_0"
		runs := run(mark(rate("roce", "write", 4096, 1e-6, 1e9)), mark(delay(t, "roce", "write", 4096, 1e-5)), staged, pair, rail)
		for name, draw := range map[string]func([]results.Run, Options) (*Figure, error){"bandwidth": Bandwidth, "latency": Latency, "cpu": CPU, "distribution": Distribution, "phases": Phases, "heat": Heat} {
			f, err := draw(runs, Options{})
			if err != nil {
				t.Fatal(err)
			}
			for i := range f.panels {
				one := *f
				one.panels, one.Caption = f.panels[i:i+1], nil
				drawn := ""
				for _, p := range lay(&one).texts {
					if p.kind == "label" || p.kind == "panel" {
						drawn += " " + p.text
					}
				}
				if !strings.Contains(drawn, realm) {
					t.Errorf("%s, %s: panel %d says %q", name, realm, i+1, drawn)
				}
			}
		}
	}
	f, err := Topology(Graph{Realm: results.RealmEmulated, Boxes: []Box{{ID: "a", Kind: "root", Label: "pci0000:00"}, {ID: "b", Kind: "nic", Label: "eth0", Rank: 1}}, Links: []Link{{From: "a", To: "b", Kind: "pci"}}}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	drawn := fmt.Sprint(lay(f).texts)
	if !strings.Contains(drawn, "eth0, emulated") || strings.Contains(drawn, "pci0000:00, emulated") {
		t.Errorf("topology says %s", drawn)
	}
}
