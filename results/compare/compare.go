package compare

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// Options of a comparison. The zero value is the default.
type Options struct {
	Alpha      float64           // chance of a false verdict in the whole comparison; 0 is 0.05
	Metrics    []string          // of Metrics; none is bandwidth and latency_p50
	MinEffects []Effect          // the last that matches a row counts; none is 3 %
	Cells      []string          // patterns of the names of cells to look at; none is all
	Noise      *Set              // A/A runs of one build that the noise floor is learnt from; nil: from the samples at hand
	Across     []string          // keys of the identity that may differ: "transport", "wait" …; "path" too
	Floors     []Floor           // absolute bounds on the new side
	Groups     map[string]string // of a mesh: the switch group of a host
}

// Effect is the least ratio that matters for the rows that match Pattern (see Match): 0.03 is 3 %.
type Effect struct {
	Pattern string
	Minimum float64
}

// Floor is an absolute bound that every matching row of the new side must keep, each on its own.
type Floor struct {
	Metric  string
	Pattern string  // of cell names; empty is all
	Value   float64 // in the metric's unit: bytes a second, seconds
	Above   bool    // the value must not be above; else not below
}

// Row is one metric of one cell.
type Row struct {
	results.Identity
	Cell             string   `json:"cell"` // its name, which patterns match
	Label            string   `json:"label,omitempty"`
	Metric           string   `json:"metric"`
	Better           string   `json:"better,omitempty"` // "higher" or "lower"
	Old              *float64 `json:"old"`              // median, in bytes a second or seconds
	New              *float64 `json:"new"`
	Ratio            *float64 `json:"ratio"` // of the medians, new over old
	RatioLow         *float64 `json:"ratio_low"`
	RatioHigh        *float64 `json:"ratio_high"` // 95 %, of this row alone
	PValue           *float64 `json:"p_value"`
	PAdjusted        *float64 `json:"p_adjusted,omitempty"` // after Holm's correction over all rows
	Test             string   `json:"test,omitempty"`
	OldSamples       int      `json:"old_samples"`
	NewSamples       int      `json:"new_samples"`
	SamplesNeeded    int      `json:"samples_needed,omitempty"` // a side, where they are too few
	MinEffect        *float64 `json:"min_effect,omitempty"`     // as a ratio: 0.03
	NoiseFloor       *float64 `json:"noise_floor,omitempty"`    // the same, from A/A pairs
	NoiseFloorSource string   `json:"noise_floor_source,omitempty"`
	Detectable       *float64 `json:"detectable_effect,omitempty"` // found in about four of five such comparisons
	Verdict          string   `json:"verdict"`
	Reason           string   `json:"reason,omitempty"`
	Warnings         []string `json:"warnings,omitempty"`
	Broken           bool     `json:"broken,omitempty"`       // the new side failed, or its payload was wrong, where the old was right
	FloorBroken      string   `json:"floor_broken,omitempty"` // which absolute bound the new side breaks
}

// Report is a whole comparison.
type Report struct {
	Verdict     string   `json:"verdict"`
	Headline    string   `json:"headline"`
	Alpha       float64  `json:"alpha"`
	OldFiles    int      `json:"old_files"`
	NewFiles    int      `json:"new_files"`
	Interleaved bool     `json:"interleaved"` // the runs of the two sides alternate in time
	SameFiles   bool     `json:"same_files,omitempty"`
	Tested      int      `json:"tested_rows"`   // that could have been found different
	Compared    int      `json:"compared_rows"` // that stand on both sides
	Warnings    []string `json:"warnings,omitempty"`
	Meshes      []Mesh   `json:"meshes,omitempty"` // of the pairs of hosts
	Rows        []Row    `json:"rows"`
}

// A pair is one identity over both sides, or over one.
type pair struct {
	id       results.Identity
	old, new *cell
	row      *Row // where the verdict is known without a test
}

// runsAsSamples is the number of runs a side from which the median of a run is the sample. The
// rounds of one run share its process, memory and ports, so they are alike beyond what the machine makes
// them; below this number they are all there is.
const runsAsSamples = 6

// Compare sets new against old.
func Compare(old, new *Set, o Options) (*Report, error) {
	if o.Alpha == 0 {
		o.Alpha = 0.05
	}
	if len(o.Metrics) == 0 {
		o.Metrics = []string{Bandwidth, Latency}
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Report{Alpha: o.Alpha, OldFiles: len(old.Files), NewFiles: len(new.Files)}
	r.Warnings = append(r.Warnings, setWarnings(old, new)...)
	r.Interleaved = interleave(old, new)
	if r.SameFiles = shareFile(old, new); r.SameFiles {
		r.Warnings = append(r.Warnings, "the same file stands on both sides: whatever this says shows nothing about two builds")
	} else if !r.Interleaved {
		r.Warnings = append(r.Warnings, "the runs of the two sides do not alternate in time: a machine that changed between them looks like a difference (a gate runs A B B A …)")
	}

	var rows []*Row
	var tested []*series
	var testedRows []*Row
	used := map[string]bool{}
	matched := make([]bool, len(o.MinEffects))
	pairs := pairUp(old, new, o.Across)
	meshes := meshesOf(pairs)
	for _, p := range pairs {
		name := CellName(p.id)
		if !matchAny(o.Cells, name, used) {
			continue
		}
		if p.row != nil {
			p.row.Cell = name
			rows = append(rows, p.row)
			continue
		}
		for _, metric := range o.Metrics {
			row, s := o.row(p, metric, old, new, r.Interleaved, matched)
			if row == nil {
				continue
			}
			row.Cell = name
			rows = append(rows, row)
			if meshes.take(p, row, s) { // thousands of rows hide each other: they are judged by host
				continue
			}
			if s != nil {
				tested, testedRows = append(tested, s), append(testedRows, row)
			}
		}
	}
	for _, c := range o.Cells {
		if !used[c] {
			return nil, fmt.Errorf("no cell matches %q (a pattern that matches nothing can never fail)", c)
		}
	}
	for i, e := range o.MinEffects {
		if e.Pattern != "" && !matched[i] {
			return nil, fmt.Errorf("no row matches the pattern %q of a minimum effect", e.Pattern)
		}
	}
	outcomes := judge(tested, o.Alpha, false)
	for i, out := range outcomes {
		out.fill(testedRows[i], tested[i])
		if out.verdict != TooFew {
			r.Tested++
		}
	}
	r.Compared = len(tested)
	r.Meshes = meshes.judge(&o)
	for _, m := range r.Meshes {
		r.Compared, r.Tested = r.Compared+m.Pairs, r.Tested+m.Pairs
	}
	if err := o.floors(rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		r.Rows = append(r.Rows, *row)
	}
	slices.SortStableFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(strings.Compare(a.Transport, b.Transport), strings.Compare(a.Operation, b.Operation),
			strings.Compare(a.Definition, b.Definition), cmp.Compare(a.TotalBytes, b.TotalBytes), strings.Compare(a.Cell, b.Cell))
	})
	r.conclude()
	return r, nil
}

func (o *Options) check() error {
	if o.Alpha <= 0 || o.Alpha >= 1 {
		return fmt.Errorf("alpha %v: not between 0 and 1", o.Alpha)
	}
	for _, m := range o.Metrics {
		if !slices.ContainsFunc(Metrics(), func(k [2]string) bool { return k[0] == m }) {
			return fmt.Errorf("unknown metric %q", m)
		}
	}
	for _, e := range o.MinEffects {
		if e.Minimum < 0 || e.Minimum >= 1 || math.IsNaN(e.Minimum) {
			return fmt.Errorf("minimum effect %v: not from 0 to below 1", e.Minimum)
		}
	}
	return checkAcross(o.Across)
}

// row makes the row of one metric, and the series to test where there is one. It returns nil where
// neither side has the metric.
func (o *Options) row(p pair, metric string, old, new *Set, interleaved bool, matched []bool) (*Row, *series) {
	a, b := p.old.series[metric], p.new.series[metric]
	brokenOld, brokenNew := len(p.old.broken) > 0, len(p.new.broken) > 0
	if len(a) == 0 && len(b) == 0 && (!(brokenOld || brokenNew) || metric != familyMetric(p.id.Definition)) {
		return nil, nil
	}
	row := &Row{Identity: p.id, Label: orSay(p.new.label, p.old.label), Metric: metric, OldSamples: len(a), NewSamples: len(b)}
	if d := unit.Better(metricUnit(metric)); d != unit.Neither {
		row.Better = d.String()
	}
	if brokenNew || brokenOld {
		if verdict := row.judgeBroken(p, len(a) > 0 && len(b) > 0); verdict {
			if metric != familyMetric(p.id.Definition) {
				return nil, nil // the cell's one row of failures says it
			}
			return row, nil
		}
	}
	if len(a) == 0 || len(b) == 0 {
		row.Verdict, row.Reason = Missing, "new has no "+metric
		if len(a) == 0 {
			row.Verdict, row.Reason = Added, "old has no "+metric
		}
		return row, nil
	}
	minimum := 0.03
	for i, e := range o.MinEffects {
		if e.Pattern == "" || Match(e.Pattern, CellName(p.id)+"/"+metric) || Match(e.Pattern, CellName(p.id)) {
			minimum, matched[i] = e.Minimum, true
		}
	}
	s := &series{higher: row.Better == "higher", minimum: minimum, floor: math.NaN()}
	s.arrange(a, b, old, new, interleaved)
	row.OldSamples, row.NewSamples = s.count()
	o.setFloor(s, p.id, metric, a, b)
	if p.old.partial+p.new.partial > 0 {
		row.Warnings = append(row.Warnings, "some runs of this cell were stopped early")
	}
	return row, s
}

// judgeBroken weighs runs of the cell that failed or were wrong. Where only new has any, the cell is worse, however seldom:
// correctness is no matter of degree. Where old has some too, new is worse if it fails more often by Fisher's exact
// test at 5 %; else the runs that are right are compared, and the others said. It reports whether the verdict is given.
func (row *Row) judgeBroken(p pair, figures bool) bool {
	say := func(name string, c *cell) string {
		if len(c.broken) == 0 {
			return name + ": none failed"
		}
		return fmt.Sprintf("%s: %s (%d of %d runs)", name, c.broken[0], len(c.broken), c.runs())
	}
	oldBad, newBad := len(p.old.broken), len(p.new.broken)
	switch {
	case newBad > 0 && oldBad == 0:
		row.Verdict, row.Broken, row.Reason = Worse, true, say("new", p.new)
		return true
	case newBad > 0 && moreOften(oldBad, p.old.runs(), newBad, p.new.runs()) <= 0.05:
		row.Verdict, row.Broken, row.Reason = Worse, true, say("new", p.new)+"; "+say("old", p.old)
		return true
	case !figures:
		row.Verdict, row.Reason = NotComparable, say("old", p.old)+"; "+say("new", p.new)
		return true
	}
	row.Warnings = append(row.Warnings, say("old", p.old)+"; "+say("new", p.new))
	return false
}

// runs is the number of runs that have the cell.
func (c *cell) runs() int {
	n := 0
	for _, s := range c.series {
		n = max(n, runsOf(s))
	}
	return n + len(c.broken)
}

// moreOften is the one-sided p of Fisher's exact test for new failing more often than old.
func moreOften(oldBad, oldRuns, newBad, newRuns int) float64 {
	bad, all := oldBad+newBad, oldRuns+newRuns
	var p float64
	for k := newBad; k <= min(bad, newRuns); k++ {
		if bad-k <= oldRuns {
			p += math.Exp(logBinomial(newRuns, k) + logBinomial(oldRuns, bad-k) - logBinomial(all, bad))
		}
	}
	return math.Min(1, p)
}

func logBinomial(n, k int) float64 {
	a, _ := math.Lgamma(float64(n + 1))
	b, _ := math.Lgamma(float64(k + 1))
	c, _ := math.Lgamma(float64(n - k + 1))
	return a - b - c
}

func familyMetric(definition string) string {
	for _, part := range strings.Split(definition, ".") { // "latency.half_rtt", "perftest.latency.half_rtt"
		switch part {
		case "latency":
			return Latency
		case "rate":
			return "message_rate"
		}
	}
	return Bandwidth
}

// metricUnit names a metric so that unit.Better knows its direction.
func metricUnit(metric string) string {
	if metric == "wire_per_payload" {
		return "retransmits" // more on the wire for the same payload is worse, as retransmits are
	}
	return metric
}

func (s *series) count() (oldCount, newCount int) {
	for _, p := range s.points {
		if p.isNew {
			newCount++
		} else {
			oldCount++
		}
	}
	return oldCount, newCount
}

// arrange puts the samples of both sides in the order of time: a sample is a run's median where there
// are runs enough on each side, else a round.
func (s *series) arrange(a, b []observation, old, new *Set, interleaved bool) {
	s.ordered = true
	if runsOf(a) >= runsAsSamples && runsOf(b) >= runsAsSamples {
		a, b = perRun(a), perRun(b)
	} else {
		interleaved = false // rounds of one run never alternate with those of another
	}
	if !interleaved {
		for _, v := range a {
			s.points = append(s.points, point{math.Log(v.value), false})
		}
		for _, v := range b {
			s.points = append(s.points, point{math.Log(v.value), true})
		}
		return
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		if j >= len(b) || i < len(a) && !new.runs[b[j].run].started.Before(old.runs[a[i].run].started) {
			s.points = append(s.points, point{math.Log(a[i].value), false})
			i++
		} else {
			s.points = append(s.points, point{math.Log(b[j].value), true})
			j++
		}
	}
}

func runsOf(v []observation) int {
	n, last := 0, -1
	for _, o := range v {
		if o.run != last {
			n, last = n+1, o.run
		}
	}
	return n
}

func perRun(v []observation) []observation {
	var out []observation
	for i := 0; i < len(v); {
		j := i
		var values []float64
		for ; j < len(v) && v[j].run == v[i].run; j++ {
			values = append(values, v[j].value)
		}
		out = append(out, observation{median(values), v[i].run})
		i = j
	}
	return out
}

// interleave reports whether the runs of the two sides alternate in time.
func interleave(old, new *Set) bool {
	var sides []bool
	i, j := 0, 0
	for i < len(old.runs) || j < len(new.runs) {
		if i < len(old.runs) && old.runs[i].started.IsZero() || j < len(new.runs) && new.runs[j].started.IsZero() {
			return false
		}
		if j >= len(new.runs) || i < len(old.runs) && !new.runs[j].started.Before(old.runs[i].started) {
			sides = append(sides, false)
			i++
		} else {
			sides = append(sides, true)
			j++
		}
	}
	return blocks(sides) != nil
}

func shareFile(old, new *Set) bool {
	have := map[string]bool{}
	for _, f := range old.Files {
		have[f] = true
	}
	return slices.ContainsFunc(new.Files, func(f string) bool { return have[f] })
}

func setWarnings(old, new *Set) []string {
	var w []string
	for _, s := range []struct {
		name string
		set  *Set
	}{{"old", old}, {"new", new}} {
		const most = 5
		for i, t := range s.set.Warnings {
			if i == most {
				w = append(w, fmt.Sprintf("%s: %d more like it", s.name, len(s.set.Warnings)-most))
				break
			}
			w = append(w, s.name+": "+t)
		}
		if hosts := distinct(s.set.runs, func(r run) string { return r.host }); len(hosts) > 1 {
			w = append(w, fmt.Sprintf("%s: runs of %d different hosts in one side", s.name, len(hosts)))
		}
		if tools := distinct(s.set.runs, func(r run) string { return r.tool }); len(tools) > 1 {
			w = append(w, fmt.Sprintf("%s: runs of %d versions of the tool in one side: %s", s.name, len(tools), strings.Join(tools[:2], ", ")))
		}
	}
	a, b := distinct(old.runs, func(r run) string { return r.host }), distinct(new.runs, func(r run) string { return r.host })
	if !slices.Equal(a, b) {
		w = append(w, fmt.Sprintf("measured on different hosts: %s; %s", strings.Join(a, ", "), strings.Join(b, ", ")))
	}
	return w
}

func distinct(runs []run, key func(run) string) []string {
	var out []string
	for _, r := range runs {
		if k := key(r); k != "" && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func (o *outcome) fill(row *Row, s *series) {
	number := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	row.Old, row.New, row.Ratio = number(o.old), number(o.new), number(o.ratio)
	row.RatioLow, row.RatioHigh = number(o.low), number(o.high)
	row.PValue = number(o.p)
	if o.verdict != TooFew {
		row.PAdjusted = number(o.adjusted)
	}
	row.Test = "Mann-Whitney"
	if o.interleaved {
		row.Test = "Savage scores within interleaved blocks"
	}
	row.SamplesNeeded, row.MinEffect = o.needed, number(s.minimum)
	row.NoiseFloor, row.Detectable = number(s.floor), number(o.detectable)
	if row.NoiseFloor != nil {
		row.NoiseFloorSource = s.floorWhy
	}
	row.Verdict, row.Reason = o.verdict, o.reason
	row.Warnings = append(row.Warnings, o.warnings...)
}
