package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"hopbench/bench/ttft"
	"hopbench/bench/ttft/ask"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/figure"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/question"
	"hopbench/bench/ttft/report"
	"hopbench/results/page"
	"hopbench/results/unit"
)

// answers fills in what else was asked: the reverse questions, the sensitivity
// and the series.
func (f *ttftFlags) answers(s *ttft.Scenario, links []*link.Link, list []*ttft.Projection, doc *report.Document, env *Env) error {
	q := ask.Quantile(f.quantile)
	if err := oneOf("--quantile", f.quantile, []string{"p50", "p90", "p99"}); err != nil {
		return err
	}
	for _, what := range f.find {
		if err := oneOf("--find", what, append(question.Limits(), "crossings")); err != nil {
			return err
		}
		if what != "crossings" && s.Limit <= 0 {
			return usagef("--find %s asks about a limit: give --limit", what)
		}
		if what == "crossings" {
			if err := f.crossings(s, links, doc); err != nil {
				return err
			}
			continue
		}
		for _, l := range links {
			a, err := question.Find(s, l, q, what)
			if err != nil {
				return usagef("%v", err)
			}
			doc.Answers = append(doc.Answers, a)
		}
	}
	if f.aggP99 > 0 && s.Load.Kind() != "trace" && s.Load.Requests < 100 {
		return usagef("--aggregated-p99 compares p99 under a load, and %s: give --rate, --concurrency or a trace, and 100 requests or more",
			map[bool]string{true: "one request alone has none", false: unit.Count(s.Load.Requests, "request") + " have none"}[s.Load.Requests == 1])
	}
	if f.aggP50 > 0 || f.aggP99 > 0 {
		for _, l := range links {
			a, err := f.breakEven(s, l)
			if err != nil {
				return err
			}
			doc.Answers = append(doc.Answers, a)
		}
	}
	if f.sensitivity {
		for _, l := range links {
			base, effects, err := ttft.Sensitivity(s, l)
			if err != nil {
				return usagef("%v", err)
			}
			if base.Unserviceable != nil {
				continue
			}
			e := report.Effects{Label: l.Label}
			for _, x := range effects {
				e.Effects = append(e.Effects, report.Effect{Mechanism: x.Mechanism, AddedP50: x.AddedP50, AddedP99: x.AddedP99, P50: x.P50, P99: x.P99, Unserviceable: x.Unserviceable})
			}
			doc.Sensitivity = append(doc.Sensitivity, e)
			if !f.json {
				if err := report.Sensitivity(env.Stdout, base, effects); err != nil {
					return err
				}
				fmt.Fprintln(env.Stdout)
			}
		}
	}
	return f.series(s, links, doc)
}

func (f *ttftFlags) breakEven(s *ttft.Scenario, l *link.Link) (report.Answer, error) {
	a := report.Answer{Question: "against the aggregated deployment", Transport: l.Transport, Label: l.Label, Provenance: l.Provenance}
	var agg ask.Aggregated
	if f.aggP50 > 0 {
		v := f.aggP50.Seconds()
		agg.P50 = &v
	}
	if f.aggP99 > 0 {
		v := f.aggP99.Seconds()
		agg.P99 = &v
	}
	b, err := ask.BreakEvenWith(s, l, agg)
	if err != nil {
		return a, usagef("%v", err)
	}
	var parts []string
	for _, d := range []struct {
		name string
		v    *float64
	}{{"p50", b.AddedP50}, {"p99", b.AddedP99}} {
		if d.v != nil {
			word := "adds"
			if *d.v < 0 {
				word = "saves"
			}
			parts = append(parts, fmt.Sprintf("%s %s at %s", word, report.Seconds(math.Abs(*d.v)), d.name))
		}
	}
	if b.At != nil {
		parts = append(parts, fmt.Sprintf("breaks even at %.3g GB/s a NIC (%s times this link)", b.At.BytesPerSecond/1e9, report.Factor(b.At.Factor)))
		a.Value, a.Unit = &b.At.BytesPerSecond, "bytes/s"
	} else {
		parts = append(parts, b.Never)
	}
	a.Text = strings.Join(parts, "; ")
	return a, nil
}

func (f *ttftFlags) crossings(s *ttft.Scenario, links []*link.Link, doc *report.Document) error {
	c := *s
	c.Strict = false // a crossing far outside is still one, and its links say what was measured
	found := false
	for i, a := range links {
		for _, b := range links[i+1:] {
			list, err := ask.Crossings(&c, a, b, 16, 131072)
			if err != nil {
				return usagef("%v", err)
			}
			for _, x := range list {
				v := float64(x.Tokens)
				doc.Answers = append(doc.Answers, report.Answer{Question: "prompt lengths where links cross, 16 to 131072 tokens", Label: x.A + " and " + x.B,
					Text: fmt.Sprintf("at %s (%s); from there on %s is faster", unit.Count(x.Tokens, "token"), report.Seconds(x.TTFT), x.Faster), Value: &v, Unit: "tokens"})
				found = true
			}
		}
	}
	if !found {
		doc.Answers = append(doc.Answers, report.Answer{Question: "prompt lengths where links cross, 16 to 131072 tokens", Text: "none do"})
	}
	return nil
}

// lengths are the prompt lengths of --against-isl, one at least.
func (f *ttftFlags) lengths() ([]int, error) {
	sizes, err := unit.ParseSizes(f.againstISL)
	if err != nil || len(sizes) == 0 || slices.Max(sizes) > ttft.MaxTokens {
		return nil, usagef("--against-isl %s: want prompt lengths of 1 to %d tokens: FROM:TO[:xN] or a list", f.againstISL, ttft.MaxTokens)
	}
	var lengths []int
	for _, n := range sizes {
		lengths = append(lengths, int(n))
	}
	return lengths, nil
}

func (f *ttftFlags) series(s *ttft.Scenario, links []*link.Link, doc *report.Document) error {
	if f.againstISL != "" {
		lengths, err := f.lengths()
		if err != nil {
			return err
		}
		for _, l := range links {
			series, err := figure.AgainstLength(s, l, lengths)
			if err := refusedSeries(doc, l, err); err != nil {
				return err
			}
			doc.AgainstISL = append(doc.AgainstISL, series)
		}
	}
	for _, rate := range f.againstRate {
		if !(rate > 0) || math.IsInf(rate, 0) {
			return usagef("--against-rate must be above 0, not %g", rate)
		}
	}
	if len(f.againstRate) > 0 {
		if s.Load.Alone() && f.requests > 1 {
			c := *s
			c.Load.Requests = f.requests
			s = &c
		}
		for _, l := range links {
			series, err := figure.AgainstLoad(s, l, f.againstRate)
			if err := refusedSeries(doc, l, err); err != nil {
				return err
			}
			doc.AgainstRate = append(doc.AgainstRate, series)
		}
	}
	return nil
}

// refusedSeries keeps a series that ends where nothing was measured.
func refusedSeries(doc *report.Document, l *link.Link, err error) error {
	var outside *curve.Outside
	if errors.As(err, &outside) {
		doc.Refused = append(doc.Refused, report.Refusal{Label: l.Label, Reason: err.Error()})
		return nil
	}
	if err != nil {
		return usagef("%v", err)
	}
	return nil
}

// print writes for people.
func (f *ttftFlags) print(env *Env, s *ttft.Scenario, list []*ttft.Projection, doc *report.Document) error {
	w := env.Stdout
	if f.paragraph {
		f.paragraphs(w, list, doc)
	} else if err := f.tables(w, s, list); err != nil {
		return err
	}
	for _, r := range doc.Refused {
		word := "refused"
		if len(list) > 0 { // others were projected: this one is left out of them
			word = "left out"
		}
		fmt.Fprintf(w, "%s: %s\n", word, r.Reason)
	}
	report.Answers(w, doc.Answers)
	for _, set := range []struct {
		name string
		of   []figure.Series
	}{{"prompt tokens", doc.AgainstISL}, {"requests/s", doc.AgainstRate}} {
		for _, x := range set.of {
			fmt.Fprintf(w, "%s, TTFT against %s\n", x.Label, set.name)
			for _, p := range x.Points {
				fmt.Fprintf(w, "  %g\t%s\n", p.X, report.Seconds(p.TTFT))
			}
			if x.Asymptote != nil {
				fmt.Fprintf(w, "  %g\tnever: cannot be served\n", *x.Asymptote)
			}
		}
	}
	return nil
}

func (f *ttftFlags) tables(w io.Writer, s *ttft.Scenario, list []*ttft.Projection) error {
	if len(list) == 0 {
		return nil
	}
	p := list[0]
	line := func(mark, text string) { page.Paragraph(w, mark, text, page.Width) }
	fmt.Fprintf(w, "%s, %.0f prompt tokens, %s, %s\n", s.Model.Name, p.Input, s.Engine.Name, report.OverlapName(s.Overlap))
	line("", fmt.Sprintf("a request moves %s, %s in %s of %s over %s", report.Bytes(p.Request.WireBytes), report.Bytes(p.Request.NICBytes), unit.Count(p.Request.Descriptors, "piece"), report.Bytes(p.Request.PieceBytes), p.Request.NIC))
	var recorded, spread []*ttft.Projection
	for _, p := range list {
		if p.Scenario.Load.Spread {
			spread = append(spread, p)
		} else {
			recorded = append(recorded, p)
		}
	}
	for _, group := range []struct {
		list  []*ttft.Projection
		title string
	}{{recorded, "stamps as recorded"}, {spread, "stamps spread over their grid"}} {
		if len(group.list) == 0 {
			continue
		}
		fmt.Fprintln(w)
		if s.Load.Kind() == "trace" && s.Load.Trace.Grid() > 0 {
			fmt.Fprintf(w, "%s of %s\n", group.title, report.Seconds(s.Load.Trace.Grid()))
		}
		if err := report.Table(w, group.list); err != nil {
			return err
		}
	}
	fmt.Fprintln(w, "assumed")
	for _, a := range report.Assumptions(list[0]) {
		line("  - ", a)
	}
	return nil
}

func (f *ttftFlags) paragraphs(w io.Writer, list []*ttft.Projection, doc *report.Document) {
	for _, p := range list {
		capacity := 0.0
		for _, a := range doc.Answers {
			if a.Label == p.Link.Label && a.Unit == "requests/s" && a.Value != nil {
				capacity = *a.Value
			}
		}
		var need *ask.Bandwidth
		if p.Scenario.Limit > 0 && p.Scenario.Load.Requests >= 100 {
			if b, err := ask.NeededBandwidth(p.Scenario, p.Link, ask.Quantile(f.quantile)); err == nil {
				need = &b
			}
		}
		fmt.Fprintf(w, "%s\n\n", report.Paragraph(p, capacity, need))
	}
}
