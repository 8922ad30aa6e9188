package table

import (
	"fmt"
	"math"
	"slices"

	"hopbench/results/stat"
	"hopbench/results/unit"
)

// requests is the time of each request of a burst: its quantiles over all rounds, absent where there were too few for them.
func requests(items []item) *Table {
	type row struct {
		c    item
		n    int64
		time [3]*float64 // p50, p99, max
	}
	var rows []row
	var cells []item
	var all []float64
	for _, c := range items {
		if !c.HasFigure() || len(c.RequestSeconds) == 0 {
			continue
		}
		h := stat.NewHistogram()
		if h.Record(c.RequestSeconds...) != nil {
			continue // the reader has said so already
		}
		r := row{c: c, n: h.Count()}
		for i, q := range []float64{0.5, 0.99, 1} {
			v, ok := h.Quantile(q)
			if q == 1 {
				v, ok = h.Max()
			}
			if ok {
				r.time[i] = &v
				all = append(all, v)
			}
		}
		rows, cells = append(rows, r), append(cells, c)
	}
	if len(rows) == 0 {
		return nil
	}
	scale := unit.TimeScale(all)
	t := &Table{Title: "Time of a request, in bursts of so many at once", Columns: []Column{{Head: "path"}, {Head: "operation"}, {Head: "size", Align: Right}, {Head: "pieces"},
		{Head: "requests", Align: Right}}}
	for _, head := range []string{"p50", "p99", "max"} {
		t.Columns = append(t.Columns, Column{Head: head + " " + scale.Unit, Align: Decimal})
	}
	if slices.ContainsFunc(rows, func(r row) bool { return r.time[1] == nil }) {
		t.Below = []string{"p99 needs 100 requests: more --rounds, or a longer --duration, give them."}
	}
	_, varying := compare(cells)
	for _, r := range rows {
		line := []Cell{{Text: headOf(r.c, varying)}, {Text: r.c.Operation}, {Text: size(r.c.TotalBytes)}, {Text: pieces(shapeOf(r.c))}, {Text: whole(r.n)}}
		for _, v := range r.time {
			if v == nil {
				line = append(line, Cell{Text: "-"})
				continue
			}
			line = append(line, Cell{Text: scale.Format(*v)})
		}
		t.Rows = append(t.Rows, line)
	}
	return t
}

// An extra is what a request in pieces takes beyond the same bytes in one, measured beside it.
type extra struct {
	list, bulk     item
	pieces         float64 // beyond the first
	seconds        float64
	low, high      float64 // bounds from both intervals at their worst
	bounded        bool
	listed, bulked float64 // seconds of a request, bursts as measured
}

// pieceCosts is the bulk ceiling beside each request in pieces, and the cost of a piece: of each pair by itself with its bounds, and
// fitted over pairs of three counts or more with its standard error. The fit goes through the origin, since a request of one piece is the bulk.
func pieceCosts(items []item) *Table {
	type key struct{ head, definition, operation, direction string }
	if len(items) == 0 {
		return nil
	}
	_, varying := compare(items)
	bulk := map[key]map[string]item{}
	in := func(c item) (key, string, bool) {
		ok := c.HasFigure() && c.Bandwidth != nil && c.Bandwidth.BytesPerSecond > 0 && c.Depth <= 1 && c.Settings["request"] != ""
		return key{headOf(c, varying), c.Definition, c.Operation, c.Direction}, fmt.Sprintf("%s\x00%d", c.Settings["request"], c.TotalBytes), ok
	}
	for _, c := range items {
		if k, request, ok := in(c); ok && c.Descriptors == 1 {
			if bulk[k] == nil {
				bulk[k] = map[string]item{}
			}
			bulk[k][request] = c
		}
	}
	groups, order := map[key][]extra{}, []key{}
	var all []float64
	for _, c := range items {
		k, request, ok := in(c)
		b, beside := bulk[k][request]
		if !ok || c.Descriptors <= 1 || !beside {
			continue
		}
		e := extraOf(c, b)
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], e)
		all = append(all, math.Abs(e.seconds/e.pieces))
	}
	if len(order) == 0 {
		return nil
	}
	var times []float64
	for _, k := range order {
		for _, e := range groups[k] {
			times = append(times, e.listed, e.bulked)
		}
	}
	scale, each := unit.TimeScale(times), unit.TimeScale(all)
	t := &Table{Title: "Cost of a piece: a request in pieces beside the same bytes in one (the bulk ceiling)", Columns: []Column{{Head: "path"}, {Head: "operation"}, {Head: "size", Align: Right}, {Head: "pieces"},
		{Head: "in pieces " + scale.Unit, Align: Decimal}, {Head: "in bulk " + scale.Unit, Align: Decimal}, {Head: "a piece " + each.Unit, Align: Decimal}, {Head: "from", Align: Decimal}, {Head: "to", Align: Decimal}},
		Below: []string{"A request's time is bytes over bandwidth while all of its burst run. From and to: both 95 % intervals at their worst; of a fit, one standard error."}}
	signed := func(v float64) string {
		if v < 0 {
			return "-" + each.Format(-v)
		}
		return each.Format(v)
	}
	for _, k := range order {
		pairs := groups[k]
		for _, e := range pairs {
			row := []Cell{{Text: k.head}, {Text: k.operation}, {Text: size(e.list.TotalBytes)}, {Text: pieces(shapeOf(e.list))}, {Text: scale.Format(e.listed), Marks: noteFor(t, e.list)},
				{Text: scale.Format(e.bulked), Marks: noteFor(t, e.bulk)}, {Text: signed(e.seconds / e.pieces)}, {Text: "-"}, {Text: "-"}}
			if e.bounded {
				row[7], row[8] = Cell{Text: signed(e.low / e.pieces)}, Cell{Text: signed(e.high / e.pieces)}
				if e.low <= 0 && e.high >= 0 {
					row[6].Marks = []int{t.Note("the cost of a piece is not told from none")}
				}
			}
			t.Rows = append(t.Rows, row)
		}
		if slope, deviation, ok := slope(pairs); ok {
			t.Rows = append(t.Rows, []Cell{{Text: k.head}, {Text: k.operation}, {Text: "-"}, {Text: fmt.Sprintf("fit over %d requests", len(pairs))}, {Text: "-"}, {Text: "-"},
				{Text: signed(slope)}, {Text: signed(slope - deviation)}, {Text: signed(slope + deviation)}})
		}
	}
	return t
}

func extraOf(list, bulk item) extra {
	time := func(c item) (mid, low, high float64, bounded bool) {
		bytes := float64(c.TotalBytes) * float64(max(1, c.Concurrency))
		b := c.Bandwidth
		mid = bytes / b.BytesPerSecond
		if b.Low != nil && b.High != nil && *b.Low > 0 {
			return mid, bytes / *b.High, bytes / *b.Low, true
		}
		return mid, mid, mid, false
	}
	l, ll, lh, lb := time(list)
	b, bl, bh, bb := time(bulk)
	return extra{list: list, bulk: bulk, pieces: float64(list.Descriptors - 1), seconds: l - b, low: ll - bh, high: lh - bl, bounded: lb && bb, listed: l, bulked: b}
}

// slope is seconds a piece by least squares through the origin, with the slope's standard error; it needs three counts.
func slope(pairs []extra) (slope, deviation float64, ok bool) {
	counts := map[float64]bool{}
	var xx, xy float64
	for _, e := range pairs {
		counts[e.pieces] = true
		xx += e.pieces * e.pieces
		xy += e.pieces * e.seconds
	}
	if len(counts) < 3 {
		return 0, 0, false
	}
	slope = xy / xx
	rest := 0.0
	for _, e := range pairs {
		d := e.seconds - slope*e.pieces
		rest += d * d
	}
	return slope, math.Sqrt(rest / float64(len(pairs)-1) / xx), true
}
