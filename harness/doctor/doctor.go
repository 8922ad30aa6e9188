// Package doctor says per transport whether this host can use it, and if not, why: the cause, the evidence, the next step.
//
// The questions are the drivers' own ([transports.Check]). This package orders them by what they depend on, hides the
// symptoms of a cause that was found, and makes one [Report] of the answers. It knows no transport by name.
//
// Two hosts are compared by what each says of itself, a [Side] that crosses the control channel as bounded JSON ([Side.Encode],
// [DecodeSide]), and by what [Prove] sees: a transport opened on both, connected, and verified messages of two sizes each way. What a
// side says is never taken for what data does.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// Verdict is the answer about one transport.
type Verdict string

const (
	Usable   Verdict = "usable"
	Unusable Verdict = "unusable"
	Unknown  Verdict = "unknown"
)

// Report is what the doctor found on one host.
type Report struct {
	Host       Summary         `json:"host"`
	Transports []Transport     `json:"transports"`
	Ports      []rdmaport.Port `json:"rdma_ports"`
	// Unread are the reads that the host refused; what rests on them is unknown.
	Unread []topo.ReadError `json:"unread,omitempty"`
}

// Summary says which host was looked at, and from where.
type Summary struct {
	Source    string   `json:"source"` // "/" for the running host
	Kernel    string   `json:"kernel,omitempty"`
	Container string   `json:"container,omitempty"` // kind, or "pod"
	Evidence  []string `json:"container_evidence,omitempty"`
}

// Transport is the verdict on one transport with its findings, causes first.
type Transport struct {
	Name     string          `json:"name"`
	Verdict  Verdict         `json:"verdict"`
	Findings []fault.Finding `json:"findings"`
	// Hidden are the checks that were not asked, each because a cause before it failed.
	Hidden []Hidden `json:"hidden,omitempty"`

	asked []fault.Code // codes of the checks that ran
}

// Hidden is a check that was not asked.
type Hidden struct {
	Code   fault.Code `json:"code"`
	Behind fault.Code `json:"behind"` // the failed cause
}

// Patient is what the doctor needs of a driver.
type Patient interface {
	Name() string
	Checks() []transports.Check
}

// Examine asks every check of every driver about h.
func Examine(h *topo.Host, drivers []transports.Driver) Report {
	r := Report{Host: Summary{Source: h.Source, Kernel: h.Kernel, Container: h.Container.Kind, Evidence: h.Container.Evidence},
		Ports: rdmaport.Assess(h), Transports: []Transport{}, Unread: h.Errors}
	if h.Container.Pod {
		r.Host.Container = "pod"
	}
	if r.Ports == nil {
		r.Ports = []rdmaport.Port{}
	}
	for _, d := range drivers {
		r.Transports = append(r.Transports, examine(h, d))
	}
	return r
}

func examine(h *topo.Host, d Patient) Transport {
	t := Transport{Name: d.Name(), Verdict: Usable, Findings: []fault.Finding{}}
	checks := order(d.Checks())
	// A gate is a check that others need. Only there does "cannot tell" leave the whole in doubt: that ACS could not be
	// read says nothing about whether bytes can move.
	gate := map[fault.Code]bool{}
	for _, c := range checks {
		for _, n := range c.Needs {
			gate[n] = true
		}
	}
	failed := map[fault.Code]fault.Code{} // code to the cause that it stands for
	for _, c := range checks {
		if cause, hidden := behind(c, failed); hidden {
			failed[c.Code] = cause
			t.Hidden = append(t.Hidden, Hidden{Code: c.Code, Behind: cause})
			continue
		}
		t.asked = append(t.asked, c.Code)
		for _, f := range c.Run(h) {
			switch f.Severity {
			case fault.Fail:
				failed[c.Code] = f.Code
				t.Verdict = Unusable
			case fault.Unknown:
				if gate[c.Code] && t.Verdict == Usable {
					t.Verdict = Unknown
				}
			}
			t.Findings = append(t.Findings, f)
		}
	}
	return t
}

// behind names the failed cause that hides c.
func behind(c transports.Check, failed map[fault.Code]fault.Code) (fault.Code, bool) {
	for _, n := range c.Needs {
		if cause, ok := failed[n]; ok {
			return cause, true
		}
	}
	return "", false
}

// order sorts checks so that each stands after what it needs, and else as the driver listed them. A need that no check
// answers, or that leads back to itself, is no need.
func order(checks []transports.Check) []transports.Check {
	at := map[fault.Code][]int{}
	for i, c := range checks {
		at[c.Code] = append(at[c.Code], i)
	}
	var out []transports.Check
	state := make([]int, len(checks)) // 1: on the way, 2: done
	var visit func(i int)
	visit = func(i int) {
		if state[i] != 0 {
			return
		}
		state[i] = 1
		for _, n := range checks[i].Needs {
			for _, j := range at[n] {
				visit(j)
			}
		}
		state[i] = 2
		out = append(out, checks[i])
	}
	for i := range checks {
		visit(i)
	}
	return out
}

// Probe asks the drivers of the running host by doing, where the checks found nothing against them: what files do not
// tell, an open does. A refusal becomes a finding under the code of its error.
func (r *Report) Probe(ctx context.Context, drivers []transports.Driver) {
	for _, d := range drivers {
		i := slices.IndexFunc(r.Transports, func(t Transport) bool { return t.Name == d.Name() })
		if i < 0 || r.Transports[i].Verdict == Unusable {
			continue
		}
		t := &r.Transports[i]
		c, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := d.Probe(c)
		cancel()
		if err == nil {
			continue
		}
		f := fault.Finding{Code: fault.CodeOf(err), Severity: fault.Unknown, Summary: err.Error(), Evidence: []fault.Evidence{{Source: "opening " + d.Name(), Got: err.Error(), Want: "opens"}}}
		t.Verdict = Unknown
		if fault.ClassOf(err).Waives() {
			f.Severity, t.Verdict = fault.Fail, Unusable
		}
		var fe *fault.Error
		if errors.As(err, &fe) {
			if row, ok := fault.Lookup(fe.Code); ok {
				f.Summary, f.Fix = row.Title, row.Fixes
			}
		}
		if slices.ContainsFunc(t.Findings, func(g fault.Finding) bool { return g.Code == f.Code && g.Severity == f.Severity }) {
			continue
		}
		t.Findings = append(t.Findings, f)
	}
}

// ExitStatus is 0 when what was asked for is usable and 3 when not: with names all of them must be, without at least one.
func (r Report) ExitStatus(asked []string) int {
	usable := func(name string) bool {
		return slices.ContainsFunc(r.Transports, func(t Transport) bool { return t.Name == name && t.Verdict == Usable })
	}
	if len(asked) > 0 {
		for _, n := range asked {
			if !usable(n) {
				return 3
			}
		}
		return 0
	}
	for _, t := range r.Transports {
		if t.Verdict == Usable {
			return 0
		}
	}
	return 3
}

// Find returns the finding of a code on any transport, the gravest first.
func (r Report) Find(code fault.Code) (fault.Finding, bool) {
	rank := map[fault.Severity]int{fault.Fail: 3, fault.Warn: 2, fault.Unknown: 1}
	var best fault.Finding
	found := false
	for _, t := range r.Transports {
		for _, f := range t.Findings {
			if f.Code == code && (!found || rank[f.Severity] > rank[best.Severity]) {
				best, found = f, true
			}
		}
	}
	return best, found
}

// Explain is the text of a code: the same that a failed run's whole error ends with.
func Explain(code fault.Code) (string, error) {
	row, ok := fault.Lookup(code)
	if !ok {
		return "", fmt.Errorf("no code %q", code)
	}
	return row.Explain(), nil
}
