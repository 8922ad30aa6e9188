package table

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// A path is one row of the planning table.
type path struct {
	first     item
	bandwidth *item
	latency   *item
	failed    *item
}

// rank orders the cells that could speak for a path: the plain forward write by our first definition comes first.
func rank(c item) int {
	r := 0
	for i, s := range []struct {
		got  string
		best []string
	}{
		{c.Definition, []string{"bandwidth.confirmed", "bandwidth.notified", "latency.half_rtt", "latency.completion"}},
		{c.Direction, []string{"forward", "reverse", "both"}},
		{c.Operation, []string{"write", "read", "send"}},
	} {
		at := slices.Index(s.best, s.got)
		if at < 0 {
			at = len(s.best)
		}
		r += at << (4 * (2 - i))
	}
	return r
}

// planTable is one row a path: its bandwidth at the largest size, its latency at the smallest. Both are named sizes, never an
// average over sizes and never the best of several.
func planTable(items []item) (*Table, error) {
	t := &Table{Title: "Paths, for planning"}
	var own []item
	for _, c := range items {
		if c.Status != results.StatusWaived && c.Definition != "" {
			own = append(own, c)
		}
	}
	// Depth and streams differ between bandwidth and latency cells of one path by their nature, so they tell
	// paths apart only among the bandwidth cells; latency joins by the rest.
	var varying []trait
	if len(own) > 0 {
		_, varying = compare(own)
	}
	keep := func(names ...string) []trait {
		var out []trait
		for _, v := range varying {
			if !slices.Contains(names, v.name) {
				out = append(out, v)
			}
		}
		return out
	}
	narrow, wide := keep("realm", "depth"), keep("realm", "depth", "streams", "concurrency", "wait", "rate")
	key := func(c item, by []trait) string { return c.Transport + "\x00" + c.Realm + "\x00" + headOf(c, by) }

	paths, order := map[string]*path{}, []string{}
	for _, c := range own {
		if c.Metric() == "latency" {
			continue
		}
		k := key(c, narrow)
		p := paths[k]
		if p == nil {
			p = &path{first: c}
			paths[k], order = p, append(order, k)
		}
		if c.Status == results.StatusFailed || !c.HasFigure() || c.Bandwidth == nil {
			p.failed = &c
			continue
		}
		if b := p.bandwidth; b == nil || rank(c) < rank(*b) || rank(c) == rank(*b) && c.TotalBytes > b.TotalBytes {
			p.bandwidth = &c
		}
	}
	for _, c := range own {
		if c.Metric() != "latency" {
			continue
		}
		joined := false
		for _, k := range order {
			p := paths[k]
			if key(c, wide) != key(p.first, wide) {
				continue
			}
			joined = true
			if c.Latency == nil || !c.HasFigure() {
				continue
			}
			if l := p.latency; l == nil || rank(c) < rank(*l) || rank(c) == rank(*l) && c.TotalBytes < l.TotalBytes {
				p.latency = &c
			}
		}
		if !joined {
			k := key(c, wide)
			p := &path{first: c}
			if c.HasFigure() && c.Latency != nil {
				p.latency = &c
			} else {
				p.failed = &c
			}
			paths[k], order = p, append(order, k)
		}
	}

	references, err := results.References()
	if err != nil {
		return nil, err
	}
	var rates, times []float64
	for _, k := range order {
		if b := paths[k].bandwidth; b != nil {
			rates = append(rates, b.Bandwidth.BytesPerSecond)
		}
		if l := paths[k].latency; l != nil {
			times = append(times, deref(l.Latency.P50Seconds)...)
		}
	}
	for _, r := range references {
		rates = append(rates, r.LowBytesPerSecond)
		times = append(times, deref(r.LatencySeconds)...)
	}
	rate, time := unit.RateScale(rates), unit.TimeScale(times)
	// What every row has in common stands over the table once.
	shared := func(of func(p *path) *item) string {
		text := ""
		for _, k := range order {
			if c := of(paths[k]); c != nil {
				if w := what(*c); text != "" && w != text {
					return ""
				} else {
					text = w
				}
			}
		}
		return text
	}
	sharedBandwidth := shared(func(p *path) *item { return p.bandwidth })
	sharedLatency := shared(func(p *path) *item { return p.latency })
	if sharedBandwidth != "" {
		t.Caption = append(t.Caption, rate.Unit+": "+sharedBandwidth)
	}
	if sharedLatency != "" {
		t.Caption = append(t.Caption, "latency: "+sharedLatency)
	}
	marks := func(c item, shared string) []int {
		if shared != "" {
			return noteFor(t, c)
		}
		return append([]int{t.Note(what(c))}, noteFor(t, c)...)
	}
	t.Columns = []Column{
		{Head: "path"}, {Head: "realm"}, {Head: rate.Unit, Align: Decimal}, {Head: "latency " + time.Unit, Align: Decimal}, {Head: "GPUDirect"},
		{Head: "CPU s/GB", Align: Right}, {Head: "proved by"},
	}
	for _, k := range order {
		p := paths[k]
		row := []Cell{{Text: headOf(p.first, narrow)}, {Text: p.first.Realm}, {Text: "-"}, {Text: "-"}, {Text: gpuDirect(p.first)}, {Text: "-"}, {Text: "-"}}
		evidence := p.latency
		if b := p.bandwidth; b != nil {
			row[2] = Cell{Text: rate.Format(b.Bandwidth.BytesPerSecond), Marks: marks(*b, sharedBandwidth)}
			row[5] = Cell{Text: cpu(*b)}
			evidence = b
		} else if p.failed != nil {
			row[2] = figureless(t, *p.failed)
		}
		if l := p.latency; l != nil && l.Latency.P50Seconds != nil {
			row[3] = Cell{Text: time.Format(*l.Latency.P50Seconds), Marks: marks(*l, sharedLatency)}
		}
		if evidence != nil {
			row[6] = Cell{Text: proof(*evidence)}
			if line := evidenceLine(*evidence); line != "" {
				t.Below = append(t.Below, headOf(p.first, narrow)+": "+line)
			}
		}
		t.Rows = append(t.Rows, row)
	}
	for _, r := range references {
		stated := []int{t.Note("reference, not measured here: " + r.Source + ", " + r.URL)}
		if r.Note != "" {
			stated = append(stated, t.Note(r.Label+": "+r.Note))
		}
		latency := "-"
		if r.LatencySeconds != nil {
			latency = plain(*r.LatencySeconds / time.Worth)
		}
		t.Rows = append(t.Rows, []Cell{{Text: r.Label}, {Text: "reference"}, {Text: plain(r.LowBytesPerSecond/rate.Worth) + " to " + plain(r.HighBytesPerSecond/rate.Worth)},
			{Text: latency}, {Text: r.GPUDirect}, {Text: "-"}, {Text: "stated", Marks: stated}})
	}
	if slices.ContainsFunc(t.Rows, func(r []Cell) bool { return r[5].Text != "-" }) {
		t.Below = append([]string{"CPU s/GB: CPU seconds for 10^9 bytes, initiator + target."}, t.Below...)
	}
	return t, nil
}

// gpuDirect says whether and how bytes go between device memory and the wire without a stop in host memory, "-"
// where no device memory takes part.
func gpuDirect(c item) string {
	way := gpuWay(c)
	if strings.Contains(way, "staged") {
		return "no, " + way
	}
	return way
}

// plain prints a stated figure as it was stated, without digits that nobody measured.
func plain(v float64) string {
	return strconv.FormatFloat(math.Round(v*1e6)/1e6, 'f', -1, 64)
}

// what says what a figure of the planning table is.
func what(c item) string {
	parts := []string{c.Definition, c.Operation + " of " + size(c.TotalBytes)}
	if c.Descriptors > 1 {
		parts = append(parts, fmt.Sprintf("%d pieces, %s", c.Descriptors, c.Pattern))
	}
	switch {
	case c.Direction == "both":
		parts = append(parts, "both ways at once, the sum")
	case c.Direction == "reverse":
		parts = append(parts, "the reverse way")
	}
	if c.Metric() == "latency" {
		parts = append(parts, "median")
	} else if s := counted(c.Depth, "depth 1", "depth %d"); s != "" {
		parts = append(parts, s)
	}
	return strings.Join(parts, ", ")
}

func cpu(c item) string {
	if c.CPU == nil || c.CPU.InitiatorSecondsPerGigabyte == nil {
		return "-"
	}
	text := unit.Significant(*c.CPU.InitiatorSecondsPerGigabyte, 2)
	if c.CPU.TargetSecondsPerGigabyte != nil {
		text += " + " + unit.Significant(*c.CPU.TargetSecondsPerGigabyte, 2)
	}
	return text
}

// proof says in a word or two what stands behind the row: a counter that is not ours, evidence of the path, the
// payload's check.
func proof(c item) string {
	var parts []string
	switch {
	case c.PeerTool != "":
		return c.PeerTool
	case c.Counters != nil && c.Counters.Agree != nil && *c.Counters.Agree:
		parts = append(parts, "counters")
	case c.Counters != nil && c.Counters.Agree != nil:
		parts = append(parts, "COUNTERS DISAGREE")
	}
	if c.Path != nil && (c.Path.Initiator != nil && len(c.Path.Initiator.Evidence) > 0 || c.Path.Target != nil && len(c.Path.Target.Evidence) > 0) {
		parts = append(parts, "path")
	}
	if c.Verified != nil && *c.Verified {
		parts = append(parts, "payload")
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, ", ")
}

// evidenceLine is what the words of proof stand for.
func evidenceLine(c item) string {
	var parts []string
	if n := c.Counters; n != nil && n.Agree != nil {
		text := "counted by " + n.Source
		if n.InitiatorSent != nil && n.Payload != nil {
			text = fmt.Sprintf("%s counted %d %s for %d bytes of payload", n.Source, *n.InitiatorSent, n.Unit, *n.Payload)
		}
		parts = append(parts, text)
	}
	if c.Path != nil {
		for _, side := range []*results.Side{c.Path.Initiator, c.Path.Target} {
			if side == nil {
				continue
			}
			for _, e := range side.Evidence {
				if !slices.Contains(parts, e) {
					parts = append(parts, e)
				}
			}
		}
	}
	if c.Limit != nil && c.Limit.BytesPerSecond != nil {
		parts = append(parts, "limit "+unit.Rate(*c.Limit.BytesPerSecond)+" by "+c.Limit.Source)
	}
	return strings.Join(parts, "; ")
}
