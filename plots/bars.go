package plots

import (
	"fmt"

	"gonum.org/v1/plot/vg"
)

// stacks is a panel of horizontal bars of parts, with the parts' names above and the sum behind each bar.
type stacks struct {
	title  string
	parts  []string
	xName  string // for the list, with the unit
	xTitle string
	x      scale
	bars   []bar
	total  func(float64) string
}

// bar is one row: its parts by their place in stacks.parts, a negative or undefined one taken as absent.
type bar struct {
	label  string
	values []float64
	// mark is a value to point at beside the sum, such as the time that really passed; nil where there is none.
	mark *float64
}

const (
	barHeight = vg.Length(13)
	barGap    = vg.Length(5)
	nameWidth = 0.32 // part of the figure's width for the rows' names
)

func (s *stacks) name(b bar, width vg.Length) []string {
	return short(face(labelSize, false), b.label, width*nameWidth-8, 5)
}

func (s *stacks) rowHeight(b bar, width vg.Length) vg.Length {
	return max(barHeight, vg.Length(len(s.name(b, width)))*labelSize*lineSpacing) + barGap
}

func (s *stacks) gutters(width vg.Length) (left, right vg.Length) {
	for _, b := range s.bars {
		for _, l := range s.name(b, width) {
			left = max(left, widthOf(face(labelSize, false), l)+8)
		}
		right = max(right, widthOf(face(smallSize, false), s.total(b.sum()))+8)
	}
	if n := len(s.x.ticks); n > 0 { // the last tick's label may stand out
		right = max(right, widthOf(face(smallSize, false), s.x.ticks[n-1].label)/2)
	}
	return left, right
}

func (b bar) sum() float64 {
	sum := 0.0
	for _, v := range b.values {
		if v > 0 && finite(v) {
			sum += v
		}
	}
	return sum
}

// legend places the parts' names in lines of the given width.
func (s *stacks) legend(width vg.Length) (at []vg.Point, lines int) {
	x, lines := vg.Length(0), 1
	for _, name := range s.parts {
		w := widthOf(face(labelSize, false), name) + 24
		if x > 0 && x+w-14 > width {
			x, lines = 0, lines+1
		}
		at = append(at, vg.Point{X: x, Y: -vg.Length(lines-1) * labelSize * lineSpacing})
		x += w
	}
	return at, lines
}

func (s *stacks) height(width, _, _ vg.Length) vg.Length {
	_, lines := s.legend(width)
	h := titleRoom(s.title, width) + vg.Length(lines)*labelSize*lineSpacing + 6 + tickLength + smallSize*lineSpacing*2 + 2
	for _, b := range s.bars {
		h += s.rowHeight(b, width)
	}
	return h
}

func (s *stacks) draw(p *pen, r vg.Rectangle, leftGutter, rightGutter vg.Length) {
	t, width := p.theme, r.Max.X-r.Min.X
	at, lines := s.legend(width)
	y := p.panelTitle(s.title, r)
	for i, name := range s.parts {
		corner := vg.Point{X: r.Min.X + at[i].X, Y: y + at[i].Y}
		p.box(vg.Rectangle{Min: vg.Point{X: corner.X, Y: corner.Y - labelSize}, Max: vg.Point{X: corner.X + 7, Y: corner.Y - 1.5}}, t.part(i))
		p.write("legend", name, face(labelSize, false), t.ink, vg.Point{X: corner.X + 10, Y: corner.Y}, left, below)
	}
	y -= vg.Length(lines)*labelSize*lineSpacing + 6
	data := vg.Rectangle{Min: vg.Point{X: r.Min.X + leftGutter, Y: r.Min.Y + tickLength + smallSize*lineSpacing*2 + 2}, Max: vg.Point{X: r.Max.X - rightGutter, Y: y}}
	px := func(v float64) vg.Length {
		return data.Min.X + vg.Length(s.x.clamped(v))*(data.Max.X-data.Min.X)
	}
	xs := shown(s.x.ticks, func(k tick) (vg.Length, vg.Length) { return px(k.at), widthOf(face(smallSize, false), k.label)/2 + 2 })
	for i, k := range s.x.ticks {
		x := px(k.at)
		p.rule(t.grid, 0.5, vg.Point{X: x, Y: data.Min.Y}, vg.Point{X: x, Y: data.Max.Y})
		p.rule(t.muted, 0.5, vg.Point{X: x, Y: data.Min.Y}, vg.Point{X: x, Y: data.Min.Y - tickLength})
		if xs[i] {
			p.write("tick", k.label, face(smallSize, false), t.muted, vg.Point{X: x, Y: data.Min.Y - tickLength - 1.5}, centre, below)
		}
	}
	p.write("axis", s.xTitle, face(smallSize, false), t.muted, vg.Point{X: (data.Min.X + data.Max.X) / 2, Y: data.Min.Y - tickLength - 1.5 - smallSize*lineSpacing}, centre, below)
	for _, b := range s.bars {
		h := s.rowHeight(b, width)
		mid := y - h/2
		sum := 0.0
		for i, v := range b.values {
			if !(v > 0) || !finite(v) {
				continue
			}
			from, to := px(sum), px(sum+v)
			part := vg.Rectangle{Min: vg.Point{X: from, Y: mid - barHeight/2}, Max: vg.Point{X: to, Y: mid + barHeight/2}}
			p.box(part, t.part(i))
			p.place(s.title, b.label, part, fmt.Sprintf("%s: %s %s of %s", b.label, s.parts[i], s.total(v), s.total(b.sum())))
			if to-from > 1.5 { // a seam, so that neighbours are told apart in grey too
				p.rule(t.page, 0.6, vg.Point{X: to, Y: mid - barHeight/2}, vg.Point{X: to, Y: mid + barHeight/2})
			}
			sum += v
		}
		end := px(sum)
		if b.mark != nil && finite(*b.mark) {
			x := px(*b.mark)
			p.rule(t.ink, 1.4, vg.Point{X: x, Y: mid - barHeight/2 - 2.5}, vg.Point{X: x, Y: mid + barHeight/2 + 2.5})
			if x > end {
				end = x
			}
		}
		total := s.total(b.sum())
		w := widthOf(face(smallSize, false), total) // no line of the grid goes through it
		p.box(vg.Rectangle{Min: vg.Point{X: end + 2, Y: mid - smallSize/2}, Max: vg.Point{X: end + 6 + w, Y: mid + smallSize/2}}, t.page)
		p.write("value", total, face(smallSize, false), t.ink, vg.Point{X: end + 4, Y: mid}, left, middle)
		names := s.name(b, width)
		top := mid + vg.Length(len(names))*labelSize*lineSpacing/2 - labelSize*(lineSpacing-1)/2
		for _, n := range names {
			p.write("label", n, face(labelSize, false), t.ink, vg.Point{X: data.Min.X - 6, Y: top}, right, below)
			top -= labelSize * lineSpacing
		}
		y -= h
	}
	p.rule(t.muted, 0.6, data.Min, vg.Point{X: data.Min.X, Y: data.Max.Y})
}

func (s *stacks) list() []Series {
	var out []Series
	for i, name := range s.parts {
		one := Series{Panel: s.title, Label: name, XName: s.xName, YName: "row"}
		for j, b := range s.bars {
			if i < len(b.values) && b.values[i] > 0 && finite(b.values[i]) {
				one.Points = append(one.Points, Point{X: b.values[i], Y: float64(j), XLabel: s.total(b.values[i]), YLabel: b.label})
			}
		}
		out = append(out, one)
	}
	return out
}
