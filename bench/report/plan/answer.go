package plan

import (
	"fmt"
	"strings"

	"hopbench/bench/ttft"
	"hopbench/bench/ttft/ask"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/question"
	"hopbench/bench/ttft/report"
	"hopbench/results"
	"hopbench/results/unit"
)

// Answer is the answer to an ask: the document of `hopbench ttft --json`, and the same as people read it.
type Answer struct {
	Document report.Document `json:"document"`
	About    string          `json:"about"` // what a request is and moves
	Rows     []Row           `json:"rows"`
	Found    []string        `json:"found"`   // answers to Find, a line each
	Assumed  []string        `json:"assumed"` // what the projection takes for granted
	Notes    []string        `json:"notes"`   // warnings, each with its link
	Refused  []string        `json:"refused"` // links without a projection, and why
	Command  string          `json:"command"` // that gives the same
}

// Row is one link, as texts.
type Row struct {
	Link       string `json:"link"`
	Provenance string `json:"provenance"` // measured or reference; never lost
	P50        string `json:"p50"`
	P99        string `json:"p99"`      // "-" where too few requests support it
	Interval   string `json:"interval"` // of p50, from the link's; "-" without one
	Limit      string `json:"limit"`    // "held", "missed", or "-"
	Busy       string `json:"busy"`     // of the link
	Parts      []Part `json:"parts"`    // of the requests around p50
	Never      string `json:"never"`    // why there is no TTFT
	// Seconds is p50 for sorting; nil where there is none.
	Seconds *float64 `json:"seconds"`
}

// Part is one part of TTFT.
type Part struct {
	Name  string  `json:"name"`
	Text  string  `json:"text"`
	From  float64 `json:"from"`  // where its bar begins, of the slowest link's total, 0 to 100
	Width float64 `json:"width"` // the same measure
}

// Of answers the ask over the links that the cells hold. A wrong ask is an error in one line; a link that cannot answer is
// refused by name in the answer.
func Of(a Ask, cells []results.Cell, files ...string) (*Answer, error) {
	s, err := a.scenario()
	if err != nil {
		return nil, err
	}
	out := &Answer{Command: a.Command(files...), Rows: []Row{}}
	out.Document.Projections = []report.Projection{}
	links, _, err := question.Links(cells, question.Want{Operation: s.Engine.Operation}, &out.Document)
	if err != nil {
		return nil, err
	}
	if a.References {
		refs, err := link.References(0)
		if err != nil {
			return nil, err
		}
		links = append(links, refs...)
	}
	list, kept, err := question.Project(s, links, []bool{false}, "extrapolating", &out.Document)
	if err != nil {
		return nil, err
	}
	if a.Find {
		for _, what := range []string{"rate", "bandwidth"} {
			for _, l := range kept {
				found, err := question.Find(s, l, ask.Quantile(or(a.Quantile, "p99")), what)
				if err != nil {
					return nil, err
				}
				out.Document.Answers = append(out.Document.Answers, found)
			}
		}
	}
	out.texts(a, list)
	return out, nil
}

// texts makes what people read of the document, and nothing that is not in it.
func (out *Answer) texts(a Ask, list []*ttft.Projection) {
	slowest := 0.0
	for _, p := range out.Document.Projections {
		if p.PartsMedian != nil {
			slowest = max(slowest, sum(p.PartsMedian))
		}
	}
	for i := range out.Document.Projections {
		out.Rows = append(out.Rows, row(&out.Document.Projections[i], or(a.Quantile, "p99"), slowest))
	}
	about := map[string][]string{} // the links that a warning is about
	var order []string
	for _, p := range out.Document.Projections {
		for _, w := range p.Warnings {
			if about[w] == nil {
				order = append(order, w)
			}
			about[w] = append(about[w], p.Label)
		}
	}
	for _, w := range order {
		out.Notes = append(out.Notes, strings.Join(about[w], "; ")+": "+w)
	}
	for _, r := range out.Document.Refused {
		out.Refused = append(out.Refused, r.Reason)
	}
	for _, f := range out.Document.Answers {
		out.Found = append(out.Found, f.Label+", "+f.Question+": "+f.Text)
	}
	if len(list) == 0 {
		out.About = "No link can answer."
		return
	}
	p := list[0]
	out.About = fmt.Sprintf("%s, %.0f prompt tokens, %s, %s transfer: a request moves %s, %s in %s of %s over %s.", p.Scenario.Model.Name, p.Input, p.Scenario.Engine.Engine,
		report.OverlapName(p.Scenario.Overlap), report.Bytes(p.Request.WireBytes), report.Bytes(p.Request.NICBytes), unit.Count(p.Request.Descriptors, "piece"), report.Bytes(p.Request.PieceBytes), p.Request.NIC)
	out.Assumed = report.Assumptions(p)
}

func sum(p *report.Parts) float64 {
	return p.Queue + p.Prefill + p.Transfer + p.Orchestration + p.FirstDecode
}

func row(p *report.Projection, quantile string, slowest float64) Row {
	r := Row{Link: p.Label, Provenance: p.Provenance["transfer"], P50: "-", P99: "-", Interval: "-", Limit: "-", Busy: "-"}
	if p.Hypothetical != "" && !strings.Contains(r.Link, "hypothetical") {
		r.Link += ", hypothetical"
	}
	busy := -1.0
	for _, k := range []string{"prefill_egress", "decode_ingress", "spine"} {
		if v, ok := p.Utilisation[k]; ok {
			busy = max(busy, v)
		}
	}
	if busy >= 0 {
		r.Busy = fmt.Sprintf("%.1f %%", 100*busy)
	}
	if p.Unserviceable != nil {
		r.P50, r.Never = "never", p.Unserviceable.Reason
		if p.Limit != nil {
			r.Limit = "missed"
		}
		return r
	}
	t := p.TTFT
	text := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return report.Seconds(*v)
	}
	r.P50, r.P99, r.Seconds = text(t.P50), text(t.P99), t.P50
	if t.P50Low != nil && t.P50High != nil {
		r.Interval = text(t.P50Low) + " to " + text(t.P50High)
	}
	if p.Limit != nil {
		at := map[string]*float64{"p50": t.P50, "p90": t.P90, "p99": t.P99}[quantile]
		switch {
		case at == nil && t.Samples == 1 && t.P50 != nil: // a request alone has one time
			at = t.P50
			fallthrough
		case at != nil:
			r.Limit = "held"
			if *at > *p.Limit {
				r.Limit = "missed"
			}
		}
	}
	if m := p.PartsMedian; m != nil {
		at := 0.0
		for _, x := range []struct {
			name    string
			seconds float64
		}{{"queue", m.Queue}, {"prefill", m.Prefill}, {"transfer", m.Transfer}, {"orchestration", m.Orchestration}, {"first step", m.FirstDecode}} {
			width := 0.0
			if slowest > 0 {
				width = 100 * x.seconds / slowest
			}
			r.Parts = append(r.Parts, Part{x.name, report.Seconds(x.seconds), at, width})
			at += width
		}
	}
	return r
}

// Slim is the cells without what no projection reads, for a page to carry: distributions, counters, sockets, evidence.
func Slim(cells []results.Cell) []results.Cell {
	var out []results.Cell
	for _, c := range cells {
		if !c.HasFigure() { // counted among those that were not used
			out = append(out, results.Cell{Transport: c.Transport, Realm: c.Realm, Status: c.Status, Verified: c.Verified})
			continue
		}
		k := results.Cell{Transport: c.Transport, Label: c.Label, Realm: c.Realm, Definition: c.Definition, Operation: c.Operation, Direction: c.Direction,
			PieceBytes: c.PieceBytes, TotalBytes: c.TotalBytes, Descriptors: c.Descriptors, Pattern: c.Pattern, Depth: c.Depth, Streams: c.Streams,
			Concurrency: c.Concurrency, InitiatorMemory: c.InitiatorMemory, TargetMemory: c.TargetMemory, InitiatorGPUWay: c.InitiatorGPUWay,
			TargetGPUWay: c.TargetGPUWay, Wait: c.Wait, Rail: c.Rail, InitiatorHost: c.InitiatorHost, TargetHost: c.TargetHost, Schedule: c.Schedule,
			RateBytesPerSecond: c.RateBytesPerSecond, Status: c.Status, Provenance: c.Provenance, Source: c.Source, View: c.View, Verified: c.Verified, Pieces: c.Pieces, RequestSeconds: curve.Times(&c)}
		if b := c.Bandwidth; b != nil {
			k.Bandwidth = &results.Bandwidth{BytesPerSecond: b.BytesPerSecond, Low: b.Low, High: b.High, Rounds: []float64{}}
		}
		if l := c.Latency; l != nil {
			k.Latency = &results.Latency{Samples: l.Samples, P50Seconds: l.P50Seconds, P50LowSeconds: l.P50LowSeconds, P50HighSeconds: l.P50HighSeconds, RoundsP50Seconds: []float64{}}
		}
		if p := c.Path; p != nil {
			k.Path = &results.Path{Initiator: place(p.Initiator), Target: place(p.Target)}
		}
		out = append(out, k)
	}
	return out
}

func place(s *results.Side) *results.Side {
	if s == nil {
		return nil
	}
	return &results.Side{PCIDistance: s.PCIDistance, NUMANode: s.NUMANode}
}
