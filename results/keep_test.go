package results

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is kept is what the whole reading has, on real files.
func TestKeepIsThatPartOfTheWhole(t *testing.T) {
	keep := NewKeep("/bandwidth/rounds", "/latency/samples", "/latency/rounds_p50_seconds", "/cpu", "/path/initiator/route", "/counters/agree")
	whole, err := ReadFiles("runs")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = keep.EachFile([]string{"runs"}, func(runs []Run) error {
		for _, r := range runs {
			for _, part := range r.Cells {
				want := whole[0].Cells[0]
				if whole[0].Cells = whole[0].Cells[1:]; len(whole[0].Cells) == 0 {
					whole = whole[1:]
				}
				if want.Bandwidth != nil {
					want.Bandwidth = &Bandwidth{Rounds: want.Bandwidth.Rounds}
				}
				if want.Latency != nil {
					want.Latency = &Latency{Samples: want.Latency.Samples, RoundsP50Seconds: want.Latency.RoundsP50Seconds}
				}
				if want.Counters != nil {
					want.Counters = &Counters{Agree: want.Counters.Agree}
				}
				if want.Path != nil {
					p := &Path{}
					if want.Path.Initiator != nil {
						p.Initiator = &Side{Route: want.Path.Initiator.Route}
					}
					want.Path = p
				}
				if part.Identity() != want.Identity() || part.Label != want.Label || part.Status != want.Status || part.Reason != want.Reason {
					t.Fatalf("%+v", part)
				}
				type figures struct {
					B *Bandwidth
					L *Latency
					C *CPU
					N *Counters
					P *Path
				}
				if d := cmp.Diff(figures{want.Bandwidth, want.Latency, want.CPU, want.Counters, want.Path}, figures{part.Bandwidth, part.Latency, part.CPU, part.Counters, part.Path}); d != "" {
					t.Fatal(d)
				}
				if len(part.Warnings) > 0 || part.Settings != nil || part.Extra != nil {
					t.Fatalf("more than what is kept: %+v", part)
				}
				n++
			}
		}
		return nil
	})
	if err != nil || n < 50 || len(whole) > 0 && len(whole[0].Cells) > 0 {
		t.Errorf("%d cells, %v", n, err)
	}
}

// A line that is wrong where nobody looks is wrong all the same, and said as the whole reading says it.
func TestKeepIsStrict(t *testing.T) {
	const header = `{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}` + "\n"
	const cell = `{"record":"cell","transport":"tcp","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":1,"rounds":[1]},"x":%}` + "\n"
	keep := NewKeep("/bandwidth/rounds")
	for _, x := range []string{"NaN", "01", "1.", "1e", "-", "tru", `"\x"`, `"\u12g4"`, "\"a\tb\"", "[1,]", "{\"a\":1,}", "{a:1}", "[", `"`, "1 2", "[1}", "{\"a\"1}", ""} {
		text := header + strings.Replace(cell, "%", x, 1) + header
		_, want := read(strings.NewReader(text), "f", nil)
		_, got := read(strings.NewReader(text), "f", keep)
		if got == nil || want == nil || got.Error() != want.Error() {
			t.Errorf("%s: %v, want %v", x, got, want)
		}
	}
	for _, x := range []string{"0", "-0.5e+10", "null", `"\u00e9\n\/"`, "[]", "{}", `[{"a":[1,{"b":null}]},true,false]`, " [ 1 , 2 ] ", strings.Repeat("[", 200) + strings.Repeat("]", 200)} {
		runs, err := read(strings.NewReader(header+strings.Replace(cell, "%", x, 1)), "f", keep)
		if err != nil || len(runs[0].Cells) != 1 || len(runs[0].Cells[0].Bandwidth.Rounds) != 1 {
			t.Errorf("%s: %v", x, err)
		}
	}
}

// FuzzKeep: what the cutter passes is valid JSON, and so is what it makes of it.
func FuzzKeep(f *testing.F) {
	f.Add([]byte(`{"record":"cell","transport":"tcp","bandwidth":{"rounds":[1,2e-3],"low":null},"x":{"y":["\u0000",-0.1]}}`))
	f.Add([]byte(` { "label" : "a\"b" , "z" : [ ] } `))
	keep := NewKeep("/bandwidth/rounds", "/path/initiator/route")
	f.Fuzz(func(t *testing.T, line []byte) {
		c := cutter{in: line}
		if c.object(&keep.cell, 0) && c.done() && (!json.Valid(line) || !json.Valid(c.out)) {
			t.Errorf("%q gives %q", line, c.out)
		}
	})
}
