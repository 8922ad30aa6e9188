package plan

import (
	"errors"
	"fmt"
	"strings"

	"hopbench/bench/ttft"
	"hopbench/bench/ttft/ask"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/link"
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
	links, err := a.links(cells, s.Engine.Operation, &out.Document)
	if err != nil {
		return nil, err
	}
	var list []*ttft.Projection
	var kept []*link.Link
	for _, l := range links {
		p, err := ttft.Project(s, l)
		var outside *curve.Outside
		if errors.As(err, &outside) {
			out.Document.Refused = append(out.Document.Refused, report.Refusal{Label: l.Label, Reason: err.Error() + " (extrapolating answers, and labels it)"})
			continue
		}
		if err != nil {
			return nil, err
		}
		list, kept = append(list, p), append(kept, l)
		out.Document.Projections = append(out.Document.Projections, report.Of(p))
	}
	if a.Find {
		if err := find(s, kept, ask.Quantile(or(a.Quantile, "p99")), &out.Document); err != nil {
			return nil, err
		}
	}
	out.texts(a, list)
	return out, nil
}

// links are the measured ones of the engine's operation, then the references.
func (a Ask) links(cells []results.Cell, operation string, doc *report.Document) ([]*link.Link, error) {
	curves, skipped, err := curve.FromCells(cells)
	if err != nil {
		return nil, err
	}
	doc.Skipped = skipped
	var links []*link.Link
	for _, c := range curves {
		if o := c.Origin; o.Operation != operation {
			doc.Refused = append(doc.Refused, report.Refusal{Label: o.Label, Reason: fmt.Sprintf("%s was measured with %s, and the engine transfers with %s", o.Label, o.Operation, operation)})
			continue
		}
		links = append(links, link.Measured(c))
	}
	if a.References {
		refs, err := link.References(0)
		if err != nil {
			return nil, err
		}
		links = append(links, refs...)
	}
	distinct(links)
	return links, nil
}

// distinct numbers the labels that would read the same, and says what their memories are.
func distinct(links []*link.Link) {
	count := map[string]int{}
	for _, l := range links {
		count[l.Label]++
	}
	for _, l := range links {
		if o := l.Measured(); count[l.Label] > 1 && o != nil {
			l.Label += " (" + o.Memory[0] + " to " + o.Memory[1] + rail(o.Rail) + ")"
		}
	}
}

func rail(name string) string {
	if name == "" {
		return ""
	}
	return ", rail " + name
}

// find asks for the largest rate within the limit on each link, and for the bandwidth that the limit needs.
func find(s *ttft.Scenario, links []*link.Link, q ask.Quantile, doc *report.Document) error {
	limit := fmt.Sprintf("TTFT %s within %s", q, report.Seconds(s.Limit))
	if s.Load.Requests < 100 && q == ask.P99 {
		c := *s // one request alone has no p99
		c.Load.Requests = 2000
		s = &c
	}
	for _, what := range []string{"rate", "bandwidth"} {
		for _, l := range links {
			a := report.Answer{Transport: l.Transport, Label: l.Label, Provenance: l.Provenance}
			var err error
			if what == "rate" {
				a.Question, a.Unit = "largest rate with "+limit, "requests/s"
				var rate float64
				if rate, _, err = ask.MaxRate(s, l, q); err == nil {
					a.Value, a.Text = &rate, fmt.Sprintf("%.3g requests/s", rate)
				}
			} else {
				a.Question, a.Unit = "bandwidth of a NIC that "+limit+" needs", "bytes/s"
				var b ask.Bandwidth
				if b, err = ask.NeededBandwidth(s, l, q); err == nil {
					a.Value, a.Text = &b.BytesPerSecond, fmt.Sprintf("%s, %.2g times what it does", unit.Rate(b.BytesPerSecond), b.Factor)
				}
			}
			if errors.Is(err, ask.ErrUnreachable) {
				a.Text, a.Unit, err = err.Error(), "", nil
			}
			if err != nil {
				return err
			}
			doc.Answers = append(doc.Answers, a)
		}
	}
	return nil
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
	out.About = fmt.Sprintf("%s, %.0f prompt tokens, %s, %s transfer: a request moves %s, %s in %d pieces of %s over %s.", p.Scenario.Model.Name, p.Input, p.Scenario.Engine.Engine,
		report.OverlapName(p.Scenario.Overlap), report.Bytes(p.Request.WireBytes), report.Bytes(p.Request.NICBytes), p.Request.Descriptors, report.Bytes(p.Request.PieceBytes), p.Request.NIC)
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
			RateBytesPerSecond: c.RateBytesPerSecond, Status: c.Status, Provenance: c.Provenance, Source: c.Source, View: c.View, Verified: c.Verified, Pieces: c.Pieces}
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
