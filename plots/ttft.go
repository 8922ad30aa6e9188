package plots

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"hopbench/bench/ttft/figure"
	"hopbench/bench/ttft/report"
	"hopbench/results"
	"hopbench/results/unit"
)

// TTFT draws time to first token by its parts, a bar for each link: the requests around the median and, under a load, those
// around p99. A document without any served projection is ErrEmpty.
func TTFT(doc *report.Document, o Options) (*Figure, error) {
	if err := refuseDouble(doc); err != nil {
		return nil, err
	}
	title := "Time to first token by parts"
	if doc.Example != nil {
		title = clean(doc.Example.Title)
	}
	f := newFigure(o, title, about(doc, true, true))
	s := &stacks{title: "TTFT of the requests around the median, and around p99 where there is a load", xName: "time (seconds)", xTitle: "time to first token",
		parts: []string{"queue", "prefill", "transfer (exposed)", "orchestration", "first decode step"}, total: unit.Seconds}
	var sums []float64
	add := func(name string, p *report.Parts, stated *float64) {
		if p == nil || len(s.bars) >= 40 {
			return
		}
		b := bar{label: name, values: []float64{p.Queue, p.Prefill, p.Transfer, p.Orchestration, p.FirstDecode}, mark: stated}
		s.bars, sums = append(s.bars, b), append(sums, b.sum())
		if stated != nil {
			sums = append(sums, *stated)
		}
	}
	var ticks []string
	for i := range doc.Projections {
		p := &doc.Projections[i]
		if p.Unserviceable != nil {
			continue
		}
		name := linkName(p.Label, p.Provenance["transfer"], realms(doc)[p.Label], p.Hypothetical != "")
		if p.PartsTail == nil {
			add(name, p.PartsMedian, nil)
			continue
		}
		add(name+", median", p.PartsMedian, nil)
		var stated *float64
		if e := doc.Example; e != nil && i < len(e.Cases) && e.Cases[i].StatedTTFT != nil {
			stated = e.Cases[i].StatedTTFT
			ticks = append(ticks, fmt.Sprintf("%s %s (%s)", clean(e.Cases[i].Label), unit.Seconds(*stated), clean(e.Cases[i].StatedWhat)))
		}
		add(name+", p99", p.PartsTail, stated)
	}
	if len(s.bars) == 0 {
		return nil, fmt.Errorf("time to first token: %w: no link has a projection", ErrEmpty)
	}
	s.x = linearScale(sums, true, 6, timeTick)
	f.panels, f.Caption = []panel{s}, projected(doc)
	if len(ticks) > 0 {
		f.Caption = append([]string{"Ticks: TTFT as the source states it. " + strings.Join(ticks, "; ") + "."}, f.Caption...)
	}
	return f, nil
}

// TTFTByLength draws TTFT of a request alone against the tokens of its prompt, and marks where links cross, as far as the
// document has asked. Without such series it is ErrEmpty.
func TTFTByLength(doc *report.Document, o Options) (*Figure, error) {
	if err := refuseDouble(doc); err != nil {
		return nil, err
	}
	f := newFigure(o, "Time to first token by prompt length", about(doc, false, false))
	c := seriesChart(doc.AgainstISL, realms(doc), f.theme, "TTFT of a request alone", "prompt (tokens)")
	if len(c.lines) == 0 {
		return nil, fmt.Errorf("time to first token by prompt length: %w; `hopbench ttft --against-isl FROM:TO --json` makes the series", ErrEmpty)
	}
	c.xTitle = "prompt tokens"
	var xs []float64
	for _, l := range c.lines {
		for _, p := range l.points {
			xs = append(xs, p.X)
		}
	}
	c.x = countScale(xs)
	caption := projected(doc)
	var crossings []string
	for _, a := range doc.Answers {
		if a.Unit == "tokens" && a.Value != nil && *a.Value >= c.x.min && *a.Value <= c.x.max && strings.HasPrefix(a.Question, "prompt lengths where links cross") {
			c.marks = append(c.marks, *a.Value)
			crossings = append(crossings, clean(a.Label)+" "+clean(a.Text))
		}
	}
	if len(crossings) > 0 {
		caption = append([]string{"Dashed verticals, where links cross: " + strings.Join(first(crossings, 6), "; ") + "."}, caption...)
	}
	f.panels, f.Caption = []panel{c}, caption
	return f, nil
}

// TTFTByLoad draws p50 and p99 of TTFT against the rate of requests; a series ends where the load can no longer be served.
// Without such series it is ErrEmpty.
func TTFTByLoad(doc *report.Document, o Options) (*Figure, error) {
	if err := refuseDouble(doc); err != nil {
		return nil, err
	}
	f := newFigure(o, "Time to first token by load", about(doc, true, false))
	c := seriesChart(doc.AgainstRate, realms(doc), f.theme, "TTFT, median (line) and p99 (dotted)", "rate (requests/s)")
	if len(c.lines) == 0 {
		return nil, fmt.Errorf("time to first token by load: %w; `hopbench ttft --against-rate 1,2,4 --json` makes the series", ErrEmpty)
	}
	c.xTitle = "requests a second"
	caption := projected(doc)
	var xs []float64
	var ends []string
	for _, s := range doc.AgainstRate {
		for _, p := range s.Points {
			xs = append(xs, p.X)
		}
		if s.Asymptote != nil {
			xs = append(xs, *s.Asymptote)
			ends = append(ends, fmt.Sprintf("%s at %s", clean(s.Label), plain(*s.Asymptote)))
			c.marks = append(c.marks, *s.Asymptote)
		}
	}
	if len(ends) > 0 {
		caption = append([]string{"Dashed verticals, rates that can no longer be served: " + strings.Join(first(ends, 6), "; ") + "."}, caption...)
	}
	c.x = linearScale(xs, true, 8, plain)
	f.panels, f.Caption = []panel{c}, caption
	return f, nil
}

// seriesChart makes lines of TTFT series over an axis that is set later.
func seriesChart(series []figure.Series, realm map[string]string, t *theme, title, xName string) *chart {
	c := &chart{title: title, xName: xName, yName: "TTFT (seconds)", body: 190}
	var ys []float64
	for i, s := range series {
		if len(c.lines) >= mostLines {
			break
		}
		l := t.look(i)
		if s.Provenance == results.FromSource {
			l.dashes = dashed
		}
		l.hollow = s.Hypothetical || realm[s.Label] != ""
		name := linkName(s.Label, s.Provenance, realm[s.Label], s.Hypothetical)
		main, tail := line{label: name, look: l}, line{label: name + ", p99", look: l, plain: true}
		tail.look.dashes = dotted
		for _, p := range s.Points {
			if !finite(p.X) || !finite(p.TTFT) || p.TTFT <= 0 {
				continue
			}
			x := plain(p.X)
			main.points = append(main.points, Point{X: p.X, Y: p.TTFT, Low: p.Low, High: p.High, XLabel: x, YLabel: unit.Seconds(p.TTFT)})
			ys = append(ys, p.TTFT)
			if p.P99 != nil && finite(*p.P99) && *p.P99 > 0 {
				tail.points = append(tail.points, Point{X: p.X, Y: *p.P99, XLabel: x, YLabel: unit.Seconds(*p.P99)})
				ys = append(ys, *p.P99)
			}
		}
		slices.SortStableFunc(main.points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		slices.SortStableFunc(tail.points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		if len(main.points) == 0 {
			continue
		}
		if len(tail.points) > 0 {
			c.lines = append(c.lines, tail)
		}
		c.lines = append(c.lines, main)
	}
	c.y = decadeScale(ys, timeTick)
	return c
}

// countScale is a logarithmic axis of tokens, with a tick at each of the lengths, or at powers of two where those are many.
func countScale(values []float64) scale {
	s := byteScale(values, 9)
	if lengths := slices.Compact(slices.Sorted(slices.Values(values))); len(lengths) > 1 && len(lengths) <= 16 && s.min == lengths[0] {
		s.ticks = nil
		for _, v := range lengths {
			s.ticks = append(s.ticks, tick{at: v, label: strconv.FormatFloat(v, 'f', -1, 64)})
		}
		return s
	}
	for i := range s.ticks {
		if s.ticks[i].label != "" {
			s.ticks[i].label = strconv.FormatFloat(s.ticks[i].at, 'f', 0, 64)
		}
	}
	return s
}

// refuseDouble is an error where a link was measured through a fake library.
func refuseDouble(doc *report.Document) error {
	for i := range doc.Projections {
		if m := doc.Projections[i].Measured; m != nil && m.Realm == results.RealmDouble {
			return fmt.Errorf("%s: %w", clean(doc.Projections[i].Label), ErrDouble)
		}
	}
	return nil
}

// realms is the realm of each link that was measured over something else than hardware.
func realms(doc *report.Document) map[string]string {
	out := map[string]string{}
	for i := range doc.Projections {
		if p := &doc.Projections[i]; p.Measured != nil && p.Measured.Realm != "" && p.Measured.Realm != results.RealmHardware {
			out[p.Label] = p.Measured.Realm
		}
	}
	return out
}

// realmText is what a link of that realm was measured over.
func realmText(realm string) string {
	switch realm {
	case results.RealmSoftware:
		return "software, with no link involved"
	case results.RealmEmulated:
		return "an emulated machine, whose speed is no hardware's"
	}
	return clean(realm)
}

func linkName(label, provenance, realm string, hypothetical bool) string {
	label = clean(label)
	if realm != "" && !strings.Contains(label, realm) {
		label += ", " + clean(realm)
	}
	if provenance != "" && provenance != results.Measured && !strings.Contains(label, provenance) {
		label += " (" + clean(provenance) + ")"
	}
	if hypothetical {
		label += ", hypothetical"
	}
	return label
}

// about is the deployment in one line.
func about(doc *report.Document, length, load bool) string {
	if len(doc.Projections) == 0 {
		return ""
	}
	p := doc.Projections[0]
	parts := []string{clean(p.Model), clean(p.Engine.Engine), clean(p.Overlap) + " transfer"}
	if length {
		parts = append(parts, fmt.Sprintf("prompt %s tokens", plain(p.ISL)))
	}
	switch {
	case !load:
	case p.Load.Rate > 0:
		parts = append(parts, plain(p.Load.Rate)+" requests/s")
	case p.Load.Concurrency > 0 && p.Load.Requests != 1:
		parts = append(parts, unit.Count(p.Load.Concurrency, "user"))
	default:
		parts = append(parts, "one request alone")
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

// projected is the caption of all of them: what is projected from what.
func projected(doc *report.Document) []string {
	out := []string{"Time to first token is projected: transfer times from the link's measured or stated figures, the rest from a simulation. Queue is waiting for a worker and its blocks; transfer is what prefill does not hide."}
	var sources, assumptions, left []string
	from := map[string][]string{} // a source to the links that it speaks of
	hypothetical := false
	for i := range doc.Projections {
		p := &doc.Projections[i]
		if s := p.Sources["transfer"]; s != "" {
			s = clean(s)
			if from[s] == nil {
				sources = append(sources, s)
			}
			from[s] = append(from[s], clean(p.Label))
		}
		for _, a := range p.Assumptions {
			if !slices.Contains(assumptions, clean(a)) {
				assumptions = append(assumptions, clean(a))
			}
		}
		if p.Unserviceable != nil {
			left = append(left, clean(p.Label)+": the load cannot be served ("+clean(p.Unserviceable.Part)+")")
		}
		if m := p.Measured; m != nil && m.Realm != "" && m.Realm != results.RealmHardware {
			left = append(left, clean(p.Label)+": measured over "+realmText(m.Realm))
		}
		hypothetical = hypothetical || p.Hypothetical != ""
	}
	for _, r := range doc.Refused {
		reason := clean(r.Reason)
		if !strings.HasPrefix(reason, clean(r.Label)) {
			reason = clean(r.Label) + ": " + reason
		}
		left = append(left, reason)
	}
	if len(assumptions) > 0 {
		out = append(out, "Taken for granted: "+strings.Join(first(assumptions, 5), "; ")+".")
	}
	if hypothetical {
		out = append(out, "Hypothetical: a link that ordinary pods do not have.")
	}
	if len(left) > 0 {
		out = append(out, "Beside that: "+strings.Join(first(left, 5), "; ")+".")
	}
	for i, s := range sources {
		sources[i] = strings.Join(first(from[s], 6), ", ") + ": " + s
	}
	if len(sources) > 0 {
		out = append(out, "Transfer: "+strings.Join(first(sources, 4), "; ")+".")
	}
	return append(out, measuredBy(doc)...)
}

// measuredBy says where, when and by what the measured links were, as the caption of other figures does.
func measuredBy(doc *report.Document) []string {
	g := gathered{}
	for _, r := range doc.Runs {
		run := &results.Run{File: r.File, Header: results.Header{ToolVersion: r.ToolVersion, ToolCommit: r.ToolCommit, Hosts: r.Hosts}}
		if t, err := time.Parse(time.RFC3339, r.Started); err == nil {
			run.Header.Started = t
		}
		g.runs = append(g.runs, run)
	}
	kinds := map[string]int{}
	for i := range doc.Projections {
		kinds[orElse(doc.Projections[i].Provenance["transfer"], "given")]++
	}
	var words []string
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		words = append(words, fmt.Sprintf("%d %s", kinds[k], clean(k)))
	}
	text := "TTFT: projected"
	if len(words) > 0 {
		text += "; links: " + strings.Join(words, ", ")
	}
	out := []string{text + "."}
	if len(g.runs) > 0 {
		out = append(out, g.origin(nil, nil)...)
	}
	if doc.Tool != "" {
		out[len(out)-1] += " Projected by " + clean(doc.Tool) + "."
	}
	return out
}
