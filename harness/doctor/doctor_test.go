package doctor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/topo"
)

// driver is made of answers.
type driver struct {
	name   string
	checks []transports.Check
	probe  error
}

func (d driver) Name() string                 { return d.name }
func (driver) Settings() []transports.Setting { return nil }
func (d driver) Probe(context.Context) error  { return d.probe }
func (d driver) Checks() []transports.Check   { return d.checks }
func (driver) Open(context.Context, transports.Options) (transports.Transport, error) {
	return nil, errors.ErrUnsupported
}

func check(code fault.Code, sev fault.Severity, asked *[]fault.Code, needs ...fault.Code) transports.Check {
	return transports.Check{Code: code, Needs: needs, Run: func(*topo.Host) []fault.Finding {
		*asked = append(*asked, code)
		return []fault.Finding{{Code: code, Severity: sev, Summary: string(code)}}
	}}
}

func TestACauseHidesItsSymptoms(t *testing.T) {
	var asked []fault.Code
	d := driver{name: "x", checks: []transports.Check{
		// Listed last to first: the doctor orders them.
		check("c", fault.Fail, &asked, "b"), check("b", fault.Fail, &asked, "a"), check("other", fault.Warn, &asked), check("a", fault.Fail, &asked),
	}}
	r := Examine(&topo.Host{}, []transports.Driver{d})
	x := r.Transports[0]
	if !slices.Equal(asked, []fault.Code{"a", "other"}) {
		t.Errorf("asked %v: b and c are symptoms of a", asked)
	}
	if x.Verdict != Unusable || len(x.Findings) != 2 || x.Findings[0].Code != "a" {
		t.Errorf("%+v", x)
	}
	if want := []Hidden{{"b", "a"}, {"c", "a"}}; !slices.Equal(x.Hidden, want) {
		t.Errorf("hidden %v, want %v", x.Hidden, want)
	}
}

func TestNeedsThatLeadInACircleEnd(t *testing.T) {
	var asked []fault.Code
	d := driver{name: "x", checks: []transports.Check{check("a", fault.OK, &asked, "b"), check("b", fault.OK, &asked, "a"), check("c", fault.OK, &asked, "c", "none")}}
	if r := Examine(&topo.Host{}, []transports.Driver{d}); r.Transports[0].Verdict != Usable || len(asked) != 3 {
		t.Errorf("%v %+v", asked, r.Transports)
	}
}

func TestCannotTellCountsWhereOthersDependOnIt(t *testing.T) {
	var asked []fault.Code
	gate := driver{name: "gate", checks: []transports.Check{check("a", fault.Unknown, &asked), check("b", fault.OK, &asked, "a")}}
	leaf := driver{name: "leaf", checks: []transports.Check{check("a", fault.OK, &asked), check("b", fault.Unknown, &asked, "a")}}
	r := Examine(&topo.Host{}, []transports.Driver{gate, leaf})
	if r.Transports[0].Verdict != Unknown || r.Transports[1].Verdict != Usable {
		t.Errorf("%+v", r.Transports)
	}
	if r.ExitStatus(nil) != 0 || r.ExitStatus([]string{"gate"}) != 3 || r.ExitStatus([]string{"leaf"}) != 0 || r.ExitStatus([]string{"leaf", "none"}) != 3 {
		t.Error("exit status")
	}
	if (Report{}).ExitStatus(nil) != 3 {
		t.Error("no usable transport at all is 3")
	}
}

func TestProbeFindsWhatFilesDoNotTell(t *testing.T) {
	var asked []fault.Code
	ds := []transports.Driver{
		driver{name: "no", probe: fault.New(fault.RDMANoProvider, "open", "mlx5_0", "the list is empty")},
		driver{name: "perhaps", probe: errors.New("odd")},
		driver{name: "fine"},
		driver{name: "bad already", checks: []transports.Check{check("a", fault.Fail, &asked)}, probe: errors.New("not asked")},
	}
	r := Examine(&topo.Host{}, ds)
	r.Probe(t.Context(), ds)
	var got []Verdict
	for _, x := range r.Transports {
		got = append(got, x.Verdict)
	}
	if !slices.Equal(got, []Verdict{Unusable, Unknown, Usable, Unusable}) {
		t.Errorf("%v", got)
	}
	if f := r.Transports[0].Findings[0]; f.Code != fault.RDMANoProvider || len(f.Fix) == 0 || len(f.Evidence) == 0 {
		t.Errorf("%+v", f)
	}
	if len(r.Transports[3].Findings) != 1 {
		t.Error("a transport that is unusable by its facts is not opened")
	}
}

func TestPageWrapsAnything(t *testing.T) {
	var b strings.Builder
	p := &page{w: &b}
	p.finding(fault.Finding{Code: "x.y", Severity: fault.Fail, Summary: strings.Repeat("ü", 333) + " \x1b[31m" + strings.Repeat("wort ", 50),
		Evidence: []fault.Evidence{{Source: strings.Repeat("/a", 200), Got: "\xff\n"}}})
	for line := range strings.Lines(b.String()) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > Columns {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	if strings.Contains(b.String(), "\x1b") || strings.Count(b.String(), "ü") != 333 {
		t.Errorf("escape kept, or letters lost:\n%s", b.String())
	}
}
