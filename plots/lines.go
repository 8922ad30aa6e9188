package plots

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// chart is a panel of lines over two axes, each named at its right end.
type chart struct {
	title        string // what is seen, and the name of the vertical axis
	xName, yName string // for the list of values: with the unit
	xTitle       string // under the axis; empty has none
	x, y         scale
	lines        []line
	limits       []limit
	marks        []float64 // dashed verticals
	body         vg.Length // height of the data's area, unless the labels need more; 0 is the default
}

// line is one series of a chart.
type line struct {
	label  string
	look   look
	points []Point
	plain  bool // thin, without markers, band or label: an aside of another line
	steps  bool // a staircase
	edges  [][]vg.Point
}

// limit is a horizontal line at a bound.
type limit struct {
	label string
	y     float64
}

const (
	tickLength  = vg.Length(3.5)
	labelGap    = vg.Length(12) // from the data to the labels: room for leaders
	defaultBody = vg.Length(132)
	mostLabel   = 0.36 // part of the figure's width
)

// labelled is a text at the right side: of a line, or of a limit.
type labelled struct {
	lines  []string
	colour color.NRGBA
	look   *look
	end    vg.Point // what it names
	height vg.Length
}

func (c *chart) labels(t *theme, width vg.Length) []labelled {
	var out []labelled
	f := face(labelSize, false)
	add := func(text string, colour color.NRGBA, l *look) {
		w := width*mostLabel - labelGap - 10
		lines := short(f, text, w, 4)
		out = append(out, labelled{lines: lines, colour: colour, look: l, height: vg.Length(len(lines)) * labelSize * lineSpacing})
	}
	for i := range c.lines {
		if l := &c.lines[i]; !l.plain {
			add(l.label, l.look.colour, &l.look)
		}
	}
	for _, l := range c.limits {
		add(l.label, t.muted, nil)
	}
	return out
}

func (c *chart) gutters(width vg.Length) (left, right vg.Length) {
	for _, t := range c.y.ticks {
		left = max(left, widthOf(face(smallSize, false), t.label)+tickLength+4)
	}
	for _, l := range c.labels(&theme{}, width) {
		for _, s := range l.lines {
			right = max(right, widthOf(face(labelSize, false), s)+labelGap+10)
		}
	}
	if n := len(c.x.ticks); n > 0 { // the last tick's label may stand out
		right = max(right, widthOf(face(smallSize, false), c.x.ticks[n-1].label)/2)
	}
	return left, right
}

func (c *chart) height(width, _, _ vg.Length) vg.Length {
	need := vg.Length(0)
	for _, l := range c.labels(&theme{}, width) {
		need += l.height
	}
	body := c.body
	if body == 0 {
		body = defaultBody
	}
	return titleRoom(c.title, width) + max(body, need) + c.foot()
}

func (c *chart) foot() vg.Length {
	h := tickLength + smallSize*lineSpacing + 2
	if c.xTitle != "" {
		h += smallSize * lineSpacing
	}
	return h
}

func (c *chart) draw(p *pen, r vg.Rectangle, leftGutter, rightGutter vg.Length) {
	t := p.theme
	data := vg.Rectangle{
		Min: vg.Point{X: r.Min.X + leftGutter, Y: r.Min.Y + c.foot()},
		Max: vg.Point{X: r.Max.X - rightGutter, Y: p.panelTitle(c.title, r)},
	}
	at := func(x, y float64) vg.Point {
		return vg.Point{
			X: data.Min.X + vg.Length(c.x.clamped(x))*(data.Max.X-data.Min.X),
			Y: data.Min.Y + vg.Length(c.y.clamped(y))*(data.Max.Y-data.Min.Y),
		}
	}
	c.axes(p, data, at)
	for _, l := range c.limits {
		y := at(c.x.min, l.y).Y
		p.rule(t.muted, 0.9, vg.Point{X: data.Min.X, Y: y}, vg.Point{X: data.Max.X, Y: y}, 5, 2.5, 1, 2.5)
	}
	for _, x := range c.marks {
		if c.x.shows(x) {
			p.rule(t.muted, 0.7, at(x, c.y.min), at(x, c.y.max), 4, 3)
		}
	}
	for i := range c.lines {
		c.band(p, &c.lines[i], at)
	}
	for i := range c.lines {
		for _, edge := range c.lines[i].edges {
			p.StrokeLines(draw.LineStyle{Color: blend(c.lines[i].look.colour, t.page, 0.4), Width: 0.4}, edge)
		}
		c.lines[i].edges = nil
	}
	for i := range c.lines {
		c.stroke(p, &c.lines[i], at)
	}
	c.name(p, data, r.Max.X-r.Min.X, at)
}

// shown says which ticks have a label, so that none touches another: the first and the last always, between them every first, second, third ...
// as there is room, where they can in equal steps, and of the fillers what still has some. where gives a label's middle along the axis and half its room.
func shown(ticks []tick, where func(tick) (middle, half vg.Length)) []bool {
	touch := func(i, j int) bool {
		a, half := where(ticks[i])
		b, other := where(ticks[j])
		return a-half < b+other && b-other < a+half
	}
	var labelled []int
	for i, k := range ticks {
		if k.label != "" && !k.fill {
			labelled = append(labelled, i)
		}
	}
	var taken []int
	even := func(step int) bool { // every so many end with the last, and none touches the next
		for n := step; n < len(labelled); n += step {
			if touch(labelled[n-step], labelled[n]) {
				return false
			}
		}
		return (len(labelled)-1)%step == 0
	}
	first := 1
	for step := 1; step <= 3; step++ {
		if even(step) {
			first = step
			break
		}
	}
	for step := first; step <= max(1, len(labelled)); step++ {
		taken = taken[:0]
		fits := true
		for n := 0; n < len(labelled)-1; n += step {
			i := labelled[n]
			if n > 0 && touch(i, labelled[len(labelled)-1]) {
				continue
			}
			fits = fits && (len(taken) == 0 || !touch(i, taken[len(taken)-1]))
			taken = append(taken, i)
		}
		if fits {
			break
		}
	}
	if n := len(labelled); n > 0 && (len(taken) == 0 || !touch(labelled[n-1], taken[0])) {
		taken = append(taken, labelled[n-1])
	}
	for i, k := range ticks {
		if k.label != "" && k.fill && !slices.ContainsFunc(taken, func(j int) bool { return touch(i, j) }) {
			taken = append(taken, i)
		}
	}
	out := make([]bool, len(ticks))
	for _, i := range taken {
		out[i] = true
	}
	return out
}

// axes draws the grid, the ticks and their labels.
func (c *chart) axes(p *pen, data vg.Rectangle, at func(x, y float64) vg.Point) {
	t, f := p.theme, face(smallSize, false)
	xs, ys := shown(c.x.ticks, func(k tick) (vg.Length, vg.Length) {
		return at(k.at, c.y.max).X, widthOf(f, k.label)/2 + 2
	}), shown(c.y.ticks, func(k tick) (vg.Length, vg.Length) {
		return at(c.x.min, k.at).Y, smallSize/2 + 0.5
	})
	for i, k := range c.x.ticks {
		x := at(k.at, c.y.max).X
		if k.label != "" && (xs[i] || !k.fill) {
			p.rule(t.grid, 0.5, vg.Point{X: x, Y: data.Min.Y}, vg.Point{X: x, Y: data.Max.Y})
		}
	}
	for i, k := range c.y.ticks {
		if y := at(c.x.min, k.at).Y; k.label != "" && (ys[i] || !k.fill) {
			p.rule(t.grid, 0.5, vg.Point{X: data.Min.X, Y: y}, vg.Point{X: data.Max.X, Y: y})
		}
	}
	p.rule(t.muted, 0.6, data.Min, vg.Point{X: data.Max.X, Y: data.Min.Y})
	p.rule(t.muted, 0.6, data.Min, vg.Point{X: data.Min.X, Y: data.Max.Y})
	for i, k := range c.x.ticks {
		x, length := at(k.at, c.y.max).X, tickLength*0.6
		if xs[i] {
			p.write("tick", k.label, f, t.muted, vg.Point{X: x, Y: data.Min.Y - tickLength - 1.5}, centre, below)
			length = tickLength
		}
		p.rule(t.muted, 0.5, vg.Point{X: x, Y: data.Min.Y}, vg.Point{X: x, Y: data.Min.Y - length})
	}
	for i, k := range c.y.ticks {
		y, length := at(c.x.min, k.at).Y, tickLength*0.6
		if ys[i] {
			p.write("tick", k.label, f, t.muted, vg.Point{X: data.Min.X - tickLength - 2.5, Y: y}, right, middle)
			length = tickLength
		}
		p.rule(t.muted, 0.5, vg.Point{X: data.Min.X, Y: y}, vg.Point{X: data.Min.X - length, Y: y})
	}
	if c.xTitle != "" {
		p.write("axis", c.xTitle, f, t.muted, vg.Point{X: (data.Min.X + data.Max.X) / 2, Y: data.Min.Y - tickLength - 1.5 - smallSize*lineSpacing}, centre, below)
	}
}

// visible are the points that the axes can show.
func (c *chart) visible(l *line) []Point {
	var out []Point
	for _, q := range l.points {
		if c.x.shows(q.X) && c.y.shows(q.Y) {
			out = append(out, q)
		}
	}
	return out
}

// band fills between the bounds; a stretch where one is not known has none. The bounds of a lone point are a bar.
func (c *chart) band(p *pen, l *line, at func(x, y float64) vg.Point) {
	if l.plain || l.steps {
		return
	}
	points := c.visible(l)
	bounded := func(q Point) bool {
		return q.Low != nil && q.High != nil && finite(*q.Low) && finite(*q.High)
	}
	edge := func(q Point, v float64) vg.Point {
		if c.y.log && v <= 0 {
			v = c.y.min
		}
		return at(q.X, v)
	}
	for i := 0; i < len(points); {
		j := i
		for j < len(points) && bounded(points[j]) {
			j++
		}
		if j-i == 1 {
			p.rule(blend(l.look.colour, p.theme.page, 0.5), 2.5, edge(points[i], *points[i].Low), edge(points[i], *points[i].High))
		} else if j > i {
			var outline []vg.Point
			for k := i; k < j; k++ {
				outline = append(outline, edge(points[k], *points[k].High))
			}
			for k := j - 1; k >= i; k-- {
				outline = append(outline, edge(points[k], *points[k].Low))
			}
			p.FillPolygon(blend(l.look.colour, p.theme.page, 0.2), outline)
			// Its edge still shows where another band lies over it.
			l.edges = append(l.edges, append(outline, outline[0]))
		}
		i = max(j, i+1)
	}
}

func (c *chart) stroke(p *pen, l *line, at func(x, y float64) vg.Point) {
	points := c.visible(l)
	var path []vg.Point
	for i, q := range points {
		pt := at(q.X, q.Y)
		if l.steps && i > 0 {
			path = append(path, vg.Point{X: pt.X, Y: path[len(path)-1].Y})
		}
		path = append(path, pt)
	}
	width := vg.Length(1.5)
	if l.plain {
		width = 0.8
	}
	if len(path) > 1 {
		p.StrokeLines(draw.LineStyle{Color: l.look.colour, Width: width, Dashes: l.look.dashes}, path)
	}
	for _, i := range c.marked(l, points) {
		p.mark(c.title, l.label, at(points[i].X, points[i].Y), points[i].says(l.label))
	}
	if l.plain || l.steps {
		return
	}
	for _, q := range points {
		p.marker(l.look, at(q.X, q.Y), 2.1)
	}
}

// marked is which points of a line have a mark: of a staircase, which has thousands, the first at or above each labelled tick, and the last.
func (c *chart) marked(l *line, points []Point) (out []int) {
	if !l.steps {
		for i := range points {
			out = append(out, i)
		}
		return out
	}
	for _, k := range c.y.ticks {
		i := slices.IndexFunc(points, func(q Point) bool { return q.Y >= k.at && q.Y > 0 })
		if i >= 0 && !slices.Contains(out, i) {
			out = append(out, i)
		}
	}
	if n := len(points) - 1; n >= 0 && !slices.Contains(out, n) {
		out = append(out, n)
	}
	return out
}

// name puts the labels at the right, pushed apart, each with a leader to the end of its line.
func (c *chart) name(p *pen, data vg.Rectangle, width vg.Length, at func(x, y float64) vg.Point) {
	t := p.theme
	all := c.labels(t, width)
	n := 0
	for i := range c.lines {
		l := &c.lines[i]
		if l.plain {
			continue
		}
		all[n].end = vg.Point{X: data.Max.X, Y: data.Min.Y}
		if points := c.visible(l); len(points) > 0 {
			q := points[len(points)-1]
			all[n].end = at(q.X, q.Y)
		} else {
			all[n].colour = t.muted
		}
		n++
	}
	for i, l := range c.limits {
		all[n+i].end = vg.Point{X: data.Max.X, Y: at(c.x.min, l.y).Y}
	}
	var want, heights []vg.Length
	for _, l := range all {
		want, heights = append(want, l.end.Y), append(heights, l.height)
	}
	for i, y := range spread(want, heights, data.Min.Y, data.Max.Y) {
		l := all[i]
		x := data.Max.X + labelGap
		from := l.end
		if from.X < data.Max.X { // the line ends inside: along at its own height first
			p.rule(blend(l.colour, t.page, 0.45), 0.4, from, vg.Point{X: data.Max.X, Y: from.Y}, 1, 1.6)
			from.X = data.Max.X
		}
		p.rule(blend(l.colour, t.page, 0.6), 0.5, vg.Point{X: from.X + 3, Y: from.Y}, vg.Point{X: x - 2.5, Y: y})
		if l.look != nil {
			p.marker(*l.look, vg.Point{X: x + 2.5, Y: y + l.height/2 - labelSize*lineSpacing/2}, 2.1)
		}
		p.lines("label", l.lines, face(labelSize, false), l.colour, x+8, y+l.height/2-labelSize*(lineSpacing-1)/2)
	}
}

func (c *chart) list() []Series {
	var out []Series
	for i := range c.lines {
		l := &c.lines[i]
		out = append(out, Series{Panel: c.title, Label: l.label, XName: c.xName, YName: c.yName, Points: c.visible(l)})
	}
	for _, l := range c.limits {
		out = append(out, Series{Panel: c.title, Label: l.label, XName: c.xName, YName: c.yName, Points: []Point{{X: c.x.min, Y: l.y}, {X: c.x.max, Y: l.y}}})
	}
	return out
}
