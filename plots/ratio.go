package plots

import (
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"hopbench/results"
	"hopbench/results/compare"
	"hopbench/results/unit"
)

// Ratios draws a comparison: for each row the ratio of the medians, new over old, with its 95 % interval, on an axis where half
// and double are as far from 1. A comparison without any ratio is ErrEmpty.
func Ratios(r *compare.Report, o Options) (*Figure, error) {
	f := newFigure(o, "New over old", clean(r.Headline))
	byMetric := map[string]*forest{}
	var order []string
	without, lost := map[string]int{}, 0
	var all []float64
	definitions, realms := map[string]bool{}, map[string]bool{}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Realm == results.RealmDouble {
			return nil, fmt.Errorf("%s: %w", row.Cell, ErrDouble)
		}
		if row.Ratio == nil || !finite(*row.Ratio) || *row.Ratio <= 0 {
			without[row.Verdict]++
			continue
		}
		p := byMetric[row.Metric]
		if p == nil {
			p = &forest{title: ratioTitle(row.Metric, row.Better)}
			byMetric[row.Metric], order = p, append(order, row.Metric)
		}
		if len(p.rows) >= 60 {
			lost++
			continue
		}
		p.rows = append(p.rows, row)
		definitions[row.Definition] = true
		if row.Realm == results.RealmSoftware || row.Realm == results.RealmEmulated {
			realms[row.Realm] = true
		}
		all = append(all, *row.Ratio)
		for _, v := range []*float64{row.RatioLow, row.RatioHigh} {
			if v != nil && *v > 0 && finite(*v) && *v < *row.Ratio*8 && *v > *row.Ratio/8 {
				all = append(all, *v)
			}
		}
	}
	if len(order) == 0 {
		return nil, fmt.Errorf("comparison: %w: no row has a ratio", ErrEmpty)
	}
	x := ratioScale(all)
	for _, m := range order {
		byMetric[m].x = x
		f.panels = append(f.panels, byMetric[m])
	}
	f.Caption = []string{fmt.Sprintf("Point: ratio of medians, new over old. Bar: 95 %% interval of the row alone. Grey: the least change that matters. Verdicts hold over all rows together (Holm, %s of a false one).", plain(r.Alpha)),
		"Full circle: better. Full triangle: worse. Hollow: the same. Grey cross: undecided, or too few samples."}
	f.Caption = append(f.Caption, meanings(definitions)...)
	if len(realms) > 0 {
		f.Caption = append(f.Caption, "Rows of "+strings.Join(slices.Sorted(maps.Keys(realms)), " and ")+" devices say so in their names; their figures are no link's.")
	}
	if lost > 0 {
		f.Caption = append(f.Caption, fmt.Sprintf("%d more rows are not drawn.", lost))
	}
	var none []string
	for _, v := range []string{compare.TooFew, compare.NotComparable, compare.Added, compare.Missing, compare.Undecided} {
		if without[v] > 0 {
			none = append(none, fmt.Sprintf("%d %s", without[v], strings.ReplaceAll(v, "_", " ")))
		}
	}
	if len(none) > 0 {
		f.Caption = append(f.Caption, "Rows without a ratio: "+strings.Join(none, ", ")+".")
	}
	f.Caption = append(f.Caption, fmt.Sprintf("Old: %s; new: %s.", unit.Count(r.OldFiles, "file"), unit.Count(r.NewFiles, "file")))
	for _, w := range first(r.Warnings, 3) {
		f.Caption = append(f.Caption, clean(w)+".")
	}
	return f, nil
}

func ratioTitle(metric, better string) string {
	title := clean(metric)
	if better != "" {
		title += ", " + clean(better) + " is better"
	}
	return title
}

// ratioScale is a logarithmic axis around 1 with as many labelled ratios as have room.
func ratioScale(values []float64) scale {
	lo, hi, ok := span(values, true)
	if !ok {
		lo, hi = 1, 1
	}
	reach := math.Max(math.Max(hi, 1/lo), 1.02)
	reach = math.Min(math.Pow(reach, 1.1), 1e6)
	s := scale{min: 1 / reach, max: reach, log: true}
	steps := []float64{1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 100, 1000, 1e4, 1e5}
	least := math.Pow(reach, 0.22)
	s.ticks = []tick{{at: 1, label: "1"}}
	last := 1.0
	for _, v := range steps {
		if v <= reach && v/last >= least {
			s.ticks = append(s.ticks, tick{at: v, label: "x" + plain(v)}, tick{at: 1 / v, label: "/" + plain(v)})
			last = v
		}
	}
	return s
}

// forest is a panel of ratios with intervals, a row each.
type forest struct {
	title string
	x     scale
	rows  []*compare.Row
}

const forestRow = vg.Length(labelSize*lineSpacing + 3)

func (s *forest) name(r *compare.Row, width vg.Length) []string {
	return short(face(smallSize, false), clean(r.Cell), width*0.42-8, 2)
}

func (s *forest) value(r *compare.Row) string {
	return compare.Change(*r.Ratio) + "  " + strings.ReplaceAll(clean(r.Verdict), "_", " ")
}

func (s *forest) rowHeight(r *compare.Row, width vg.Length) vg.Length {
	return max(forestRow, vg.Length(len(s.name(r, width)))*smallSize*lineSpacing+3)
}

func (s *forest) gutters(width vg.Length) (left, right vg.Length) {
	for _, r := range s.rows {
		for _, l := range s.name(r, width) {
			left = max(left, widthOf(face(smallSize, false), l)+8)
		}
		right = max(right, widthOf(face(smallSize, false), s.value(r))+8)
	}
	return left, right
}

func (s *forest) height(width, _, _ vg.Length) vg.Length {
	h := titleRoom(s.title, width) + tickLength + smallSize*lineSpacing + 2
	for _, r := range s.rows {
		h += s.rowHeight(r, width)
	}
	return h
}

func (s *forest) draw(p *pen, r vg.Rectangle, leftGutter, rightGutter vg.Length) {
	t, width := p.theme, r.Max.X-r.Min.X
	f := face(smallSize, false)
	data := vg.Rectangle{Min: vg.Point{X: r.Min.X + leftGutter, Y: r.Min.Y + tickLength + smallSize*lineSpacing + 2}, Max: vg.Point{X: r.Max.X - rightGutter, Y: p.panelTitle(s.title, r)}}
	px := func(v float64) vg.Length {
		return data.Min.X + vg.Length(s.x.clamped(v))*(data.Max.X-data.Min.X)
	}
	y := data.Max.Y
	for _, row := range s.rows {
		h := s.rowHeight(row, width)
		if e := row.MinEffect; e != nil && *e > 0 && finite(*e) {
			p.box(vg.Rectangle{Min: vg.Point{X: px(1 / (1 + *e)), Y: y - h - 0.4}, Max: vg.Point{X: px(1 + *e), Y: y}}, t.grid) // over the seam to the next row
		}
		y -= h
	}
	var taken [][2]vg.Length
	for _, k := range s.x.ticks {
		x := px(k.at)
		c, w := color.Color(t.grid), vg.Length(0.5)
		if k.at == 1 {
			c, w = t.muted, 0.8
		}
		p.rule(c, w, vg.Point{X: x, Y: data.Min.Y}, vg.Point{X: x, Y: data.Max.Y})
		// The ticks go outwards from 1 in pairs; a label that would touch one before it is left out.
		w = widthOf(f, k.label)/2 + 1
		if slices.ContainsFunc(taken, func(o [2]vg.Length) bool { return x-w < o[1] && o[0] < x+w }) {
			continue
		}
		taken = append(taken, [2]vg.Length{x - w, x + w})
		p.write("tick", k.label, f, t.muted, vg.Point{X: x, Y: data.Min.Y - tickLength - 1.5}, centre, below)
	}
	y = data.Max.Y
	for _, row := range s.rows {
		h := s.rowHeight(row, width)
		mid := y - h/2
		l := look{colour: t.muted, shape: 7}
		switch row.Verdict {
		case compare.Better:
			l = look{colour: t.palette[0], shape: 0}
		case compare.Worse:
			l = look{colour: t.palette[1], shape: 2}
		case compare.Same:
			l = look{colour: t.muted, shape: 0, hollow: true}
		}
		if row.RatioLow != nil && row.RatioHigh != nil && *row.RatioLow > 0 && finite(*row.RatioHigh) {
			p.rule(l.colour, 1.4, vg.Point{X: px(*row.RatioLow), Y: mid}, vg.Point{X: px(*row.RatioHigh), Y: mid})
		}
		p.marker(l, vg.Point{X: px(*row.Ratio), Y: mid}, 2.6)
		text := clean(row.Cell) + ": " + s.value(row)
		if row.RatioLow != nil && row.RatioHigh != nil {
			text += " (" + compare.Change(*row.RatioLow) + " to " + compare.Change(*row.RatioHigh) + ")"
		}
		p.mark(s.title, clean(row.Cell), vg.Point{X: px(*row.Ratio), Y: mid}, text)
		p.write("value", s.value(row), f, t.ink, vg.Point{X: data.Max.X + 6, Y: mid}, left, middle)
		names := s.name(row, width)
		top := mid + vg.Length(len(names))*smallSize*lineSpacing/2 - smallSize*(lineSpacing-1)/2
		for _, n := range names {
			p.write("label", n, f, t.ink, vg.Point{X: data.Min.X - 6, Y: top}, right, below)
			top -= smallSize * lineSpacing
		}
		y -= h
	}
}

func (s *forest) list() []Series {
	one := Series{Panel: s.title, Label: s.title, XName: "ratio, new over old", YName: "row"}
	for i, r := range s.rows {
		one.Points = append(one.Points, Point{X: *r.Ratio, Y: float64(i), Low: r.RatioLow, High: r.RatioHigh, XLabel: s.value(r), YLabel: clean(r.Cell)})
	}
	return []Series{one}
}
