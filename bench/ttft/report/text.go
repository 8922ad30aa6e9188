package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"hopbench/bench/ttft"
	"hopbench/bench/ttft/ask"
	"hopbench/bench/ttft/example"
	"hopbench/results/page"
	"hopbench/results/unit"
)

// Assumptions lists what a projection takes for granted and did not measure.
func Assumptions(p *ttft.Projection) []string {
	s := p.Scenario
	var a []string
	if s.Prefill.Provenance != "measured" {
		a = append(a, "prefill: "+s.Prefill.Source)
	}
	a = append(a, fmt.Sprintf("decode step %s + %s a request (%s)", Seconds(s.Step.Base), Seconds(s.Step.PerRequest), s.Step.Provenance))
	first := "decode computes the first token again"
	if s.Engine.Forwarded {
		first = "prefill's first token is forwarded"
	}
	dispatch := "after prefill"
	if s.Engine.Concurrent {
		dispatch = "from arrival"
	}
	a = append(a, fmt.Sprintf("%s %s: %s, decode has the request %s, %s, handover %s", s.Engine.Engine, s.Engine.Version, map[string]string{"read": "decode pulls", "write": "prefill writes"}[s.Engine.Operation], dispatch, first, Seconds(s.Engine.Handover)))
	if s.PrefillPool == 0 || s.DecodePool == 0 {
		a = append(a, "KV pools are taken to be large enough where no size is given")
	}
	switch sigma, n, _ := p.Link.Spread(); {
	case p.Request.WireBytes == p.Request.RankBytes: // one rank
	case p.RankSigma == 0:
		a = append(a, "ranks end together: no spread is given, and none was measured on the link")
	case s.RankSigma == nil:
		a = append(a, fmt.Sprintf("ranks differ from one another as %s alone on the link did: a spread of %.1f %% (sigma %.3g of a lognormal)", unit.Count(n, "request"), 100*sigma, sigma))
	}
	if len(s.Off) > 0 {
		var off []string
		for _, m := range s.Off {
			off = append(off, m.String())
		}
		a = append(a, "switched off: "+strings.Join(off, ", "))
	}
	return a
}

// Table writes one row a projection, the parts in the order in which they pass.
func Table(w io.Writer, list []*ttft.Projection) error {
	const tail, parts, busy = "TTFT", "mean of the requests around p50", "busy"
	t := &page.Table{Title: "Time to first token on each link", Columns: []page.Column{
		{Head: "link"}, {Head: "transfer is"},
		{Group: tail, Head: "p50", Align: page.Right}, {Group: tail, Head: "p90", Align: page.Right}, {Group: tail, Head: "p99", Align: page.Right},
		{Group: parts, Head: "queue", Align: page.Right}, {Group: parts, Head: "prefill", Align: page.Right}, {Group: parts, Head: "transfer", Align: page.Right},
		{Group: parts, Head: "orchestr.", Align: page.Right}, {Group: parts, Head: "first step", Align: page.Right},
		{Group: busy, Head: "link", Align: page.Right}, {Group: busy, Head: "prefill", Align: page.Right},
	}}
	for _, p := range list {
		var marks []int
		for _, warning := range p.Warnings {
			marks = append(marks, t.Note(warning))
		}
		texts := []string{p.Link.Label, p.Link.Provenance}
		u := p.Result.Utilisation
		if p.Unserviceable != nil {
			marks = append(marks, t.Note(p.Link.Label+": "+p.Unserviceable.Error()))
			texts = append(texts, "never", "", "", "", "", "", "", "")
		} else {
			tt, m := &p.Result.TTFT, &p.Result.Median
			p50 := opt(tt.P50)
			if r := p.P50; r != nil && r.High != nil {
				p50 += fmt.Sprintf(" (%s-%s)", Seconds(*r.Low), Seconds(*r.High))
			}
			texts = append(texts, p50, opt(tt.P90), opt(tt.P99), Seconds(m.Queue), Seconds(m.Prefill), Seconds(m.Transfer), Seconds(m.Orchestration), Seconds(m.FirstDecode))
		}
		texts = append(texts, percent(most(u.Egress, u.Ingress, u.Spine)), percent(u.Prefill))
		row := make([]page.Cell, len(texts))
		for i, text := range texts {
			row[i].Text = text
		}
		row[0].Marks = marks
		t.Rows = append(t.Rows, row)
	}
	return t.Text(w, page.Width)
}

// Paragraph is fit to paste into a plan: what moves, how long it takes, what
// limit holds, and what of it is measured. capacity is the largest rate within
// the limit, 0 where it was not asked for.
func Paragraph(p *ttft.Projection, capacity float64, need *ask.Bandwidth) string {
	s := p.Scenario
	var b strings.Builder
	sides := fmt.Sprintf("prefill TP%d and decode TP%d", max(1, s.Layout.Prefill.TP), max(1, s.Layout.Decode.TP))
	if s.Layout.Decode.AttentionDP {
		sides += " with data-parallel attention"
	}
	fmt.Fprintf(&b, "%s with prompts of %.0f tokens (%s, blocks of %d): a request moves %s, %s a decode rank; %s carries most, %s in %s of %s.",
		s.Model.Name, p.Input, sides, s.Layout.BlockTokens, Bytes(p.Request.WireBytes), Bytes(p.Request.RankBytes),
		p.Request.NIC, Bytes(p.Request.NICBytes), unit.Count(p.Request.Descriptors, "piece"), Bytes(p.Request.PieceBytes))
	fmt.Fprintf(&b, " Over %s that takes %s alone on the link", p.Link.Label, Seconds(p.Request.Seconds))
	if p.Request.Low != nil {
		fmt.Fprintf(&b, " (%s to %s)", Seconds(*p.Request.Low), Seconds(*p.Request.High))
	}
	fmt.Fprintf(&b, ", %.3g GB/s of the %.3g that the link does at best.", p.Request.BytesPerSecond/1e9, p.Request.Bulk/1e9)
	if p.Unserviceable != nil {
		fmt.Fprintf(&b, " Under %s it has no TTFT: %s.", loadText(p), p.Unserviceable.Error())
	} else if t := &p.Result.TTFT; t.P50 != nil {
		fmt.Fprintf(&b, " Under %s TTFT is %s at the median", loadText(p), Seconds(*t.P50))
		if t.P99 != nil {
			fmt.Fprintf(&b, " and %s at p99", Seconds(*t.P99))
		}
		m := &p.Result.Median
		fmt.Fprintf(&b, "; the exposed transfer is %s, %.1f %% of the median.", Seconds(m.Transfer), 100*m.Transfer/m.Sum())
	}
	if capacity > 0 {
		nics := nicsPerWorker(p) * s.PrefillWorkers
		fmt.Fprintf(&b, " Within a limit of %s the deployment serves %.3g requests/s, %.3g for each of its %s on the prefill side.", Seconds(s.Limit), capacity, capacity/float64(nics), unit.Count(nics, "NIC"))
	}
	if need != nil {
		fmt.Fprintf(&b, " The limit needs %.3g GB/s of each NIC, which is %s like these for each that the layout has.", need.BytesPerSecond/1e9, unit.Count(need.NICs, "NIC"))
	}
	var measured, other []string
	for _, part := range []string{"transfer", "prefill", "first_decode", "orchestration"} {
		if p.Provenance[part] == "measured" {
			measured = append(measured, part)
		} else {
			other = append(other, strings.ReplaceAll(part, "_", " ")+" ("+p.Provenance[part]+")")
		}
	}
	if len(measured) == 0 {
		measured = []string{"nothing"}
	}
	fmt.Fprintf(&b, " Measured: %s; not measured: %s. Assumed: %s.", strings.Join(measured, ", "), strings.Join(other, ", "), strings.Join(Assumptions(p), "; "))
	return b.String()
}

func nicsPerWorker(p *ttft.Projection) int {
	par := p.Scenario.Layout.Prefill
	if par.Rails > 0 {
		return par.Rails
	}
	return max(1, par.TP) * max(1, par.PP)
}

func loadText(p *ttft.Projection) string {
	l := &p.Scenario.Load
	switch l.Kind() {
	case "concurrency":
		return unit.Count(l.Concurrency, "user in a closed loop")
	case "trace":
		stamps := "as stamped"
		if l.Spread && l.Trace.Grid() > 0 {
			stamps = fmt.Sprintf("its stamps spread over their %s grid", Seconds(l.Trace.Grid()))
		}
		return fmt.Sprintf("the trace of %s, %s,", unit.Count(l.Trace.Len(), "request"), stamps)
	}
	return fmt.Sprintf("Poisson arrivals of %g requests/s", l.Rate)
}

// Sensitivity writes what each mechanism adds.
func Sensitivity(w io.Writer, base *ttft.Projection, effects []ttft.Effect) error {
	fmt.Fprintf(w, "%s: TTFT p50 %s, p99 %s; what each mechanism adds to it, largest first\n", base.Link.Label, opt(base.Result.TTFT.P50), opt(base.Result.TTFT.P99))
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "mechanism\tadds to p50\tadds to p99\tp50 without\tp99 without\t")
	for _, e := range effects {
		if e.Unserviceable != "" {
			fmt.Fprintf(tw, "%s\t\t\tnever\tnever\t\n", e.Mechanism)
			continue
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t\n", e.Mechanism, opt(e.AddedP50), opt(e.AddedP99), opt(e.P50), opt(e.P99))
	}
	return tw.Flush()
}

// WriteExample writes the three columns and the cases.
func WriteExample(w io.Writer, e *example.Example) error {
	fmt.Fprintf(w, "%s\n\n", e.Title)
	for _, r := range e.Rows {
		fmt.Fprintf(w, "%s\n", r.What)
		for _, c := range []struct{ name, text string }{{"stated", r.Stated}, {"computed", r.Computed}, {"assumed", r.Assumed}} {
			if c.text != "" {
				fmt.Fprintf(w, "  %-9s %s\n", c.name, c.text)
			}
		}
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "computed for\ttransfer alone\tTTFT alone\tlast of ten at once\tten users, p50\tp99\t")
	for _, c := range e.Cases {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t\n", c.Label, Seconds(c.Transfer), Seconds(c.Alone), Seconds(c.Last), Seconds(c.P50), Seconds(c.P99))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nsources")
	for _, s := range e.Sources {
		fmt.Fprintf(w, "  %s\n", s)
	}
	return nil
}

// Answers writes the reverse answers, grouped by question.
func Answers(w io.Writer, list []Answer) {
	var last string
	for _, a := range list {
		if a.Question != last {
			fmt.Fprintf(w, "%s\n", a.Question)
			last = a.Question
		}
		label := a.Label
		if label != "" {
			label += ": "
		}
		fmt.Fprintf(w, "  %s%s\n", label, a.Text)
	}
}

// Seconds prints a time with its unit and three digits, trailing zeros too where the value is not exactly shorter: 1.10 s is not 1.1 s.
func Seconds(v float64) string {
	a := max(v, -v)
	switch {
	case a == 0:
		return "0"
	case a < 0.9995e-3:
		return three(v*1e6) + " us"
	case a < 0.9995:
		return three(v*1e3) + " ms"
	case a < 99.95:
		return three(v) + " s"
	}
	return fmt.Sprintf("%.0f s", v)
}

// three prints three digits of what is above 0.1 and below 1000; what is smaller, and what was given with fewer digits, is shorter.
func three(v float64) string {
	short := strconv.FormatFloat(v, 'g', 3, 64)
	if exact, _ := strconv.ParseFloat(short, 64); math.Abs(exact-v) <= 1e-9*math.Abs(v) || math.Abs(v) < 0.1 {
		return short
	}
	decimals := 2
	for a := math.Abs(v); a >= 9.995 && decimals > 0; a /= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// Factor prints a ratio with two digits, without an exponent from 0.0001 on.
func Factor(v float64) string {
	if v >= 99.5 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}

// Bytes prints a size in decimal units.
func Bytes(n int64) string {
	v := float64(n)
	units := []string{"B", "kB", "MB", "GB", "TB"}
	i := 0
	for v >= 999.5 && i < len(units)-1 {
		v /= 1000
		i++
	}
	if i == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.3g %s", v, units[i])
}

func opt(v *float64) string {
	if v == nil {
		return "-"
	}
	return Seconds(*v)
}

func percent(v *float64) string {
	if v == nil {
		return "-"
	}
	if *v >= 1e4 {
		return fmt.Sprintf("%.3g %%", 100**v)
	}
	return fmt.Sprintf("%.1f %%", 100**v)
}

func most(list ...*float64) *float64 {
	list = slices.DeleteFunc(list, func(v *float64) bool { return v == nil })
	if len(list) == 0 {
		return nil
	}
	return slices.MaxFunc(list, func(a, b *float64) int {
		if *a < *b {
			return -1
		}
		return 1
	})
}
