package plots

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"hopbench/results"
	"hopbench/results/unit"
)

// Heat draws the bandwidth of pairs of hosts, or of paths over rails, as a map: rows send to columns for a write or send, and
// fetch from them for a read. A panel shows one definition, operation, direction and schedule, at its greatest size. With four
// hosts or more a second panel has them in an order that puts like beside like. Runs without pairs or rails are ErrEmpty.
func Heat(runs []results.Run, o Options) (*Figure, error) {
	g, err := gather(runs, func(c *results.Cell) bool {
		return c.Bandwidth != nil && (c.InitiatorHost != "" && c.TargetHost != "" || c.Rail != "")
	})
	if err != nil {
		return nil, err
	}
	type key struct {
		family   family
		schedule string
		pairs    bool
		path     string // of pairs: the transport and its way
	}
	var keys []key
	by := map[key][]entry{}
	for _, e := range g.entries {
		pairs := e.InitiatorHost != "" && e.TargetHost != ""
		k := key{family{e.Definition, e.Operation, e.Direction}, e.Schedule, pairs, ""}
		if pairs {
			k.path = name(e)
			if e.Rail != "" {
				k.path += ", rail " + clean(e.Rail)
			}
		}
		if by[k] == nil {
			keys = append(keys, k)
		}
		by[k] = append(by[k], e)
	}
	f := newFigure(o, "Bandwidth of pairs and rails", "Row: the initiator, or the path. Column: the target, or the rail. Figures in the unit of the panel.")
	var notes []string
	for _, k := range keys {
		if len(f.panels) >= 6 {
			notes = append(notes, fmt.Sprintf("%d of %d maps are not drawn; choose with --cells.", len(keys)-slices.Index(keys, k), len(keys)))
			break
		}
		size := int64(0)
		for _, e := range by[k] {
			size = max(size, e.TotalBytes)
		}
		m := &heatmap{}
		again := 0
		for _, e := range by[k] {
			v := e.Bandwidth.BytesPerSecond
			if e.TotalBytes != size || !finite(v) || v <= 0 {
				continue
			}
			row, column := clean(e.InitiatorHost), clean(e.TargetHost)
			if !k.pairs {
				row, column = name(e), clean(e.Rail)
			}
			if !m.put(row, column, v) {
				again++
			}
		}
		if again > 0 {
			notes = append(notes, fmt.Sprintf("%d cells of places that have a figure already are not drawn: the first stands.", again))
		}
		if len(m.rows) == 0 {
			continue
		}
		parts := []string{k.family.title("Bandwidth"), unit.Bytes(size)}
		for _, s := range []string{clean(k.schedule), k.path} {
			if s != "" {
				parts = append(parts, s)
			}
		}
		m.title = strings.Join(parts, ", ")
		if k.pairs { // one list of hosts for both sides
			for _, h := range m.columns {
				if !slices.Contains(m.rows, h) {
					m.rows = append(m.rows, h)
				}
			}
			m.columns = slices.Clone(m.rows)
		}
		f.panels = append(f.panels, m)
		if k.pairs && len(m.rows) >= 4 {
			c := *m
			c.rows = clustered(m)
			c.columns = c.rows
			if !slices.Equal(c.rows, m.rows) {
				c.title = "Like beside like: " + c.title
				f.panels = append(f.panels, &c)
			}
		}
	}
	if len(f.panels) == 0 {
		return nil, g.empty("bandwidth of pairs or rails")
	}
	f.Caption = g.caption(notes, nil)
	return f, nil
}

// heatmap is a panel of a matrix.
type heatmap struct {
	title         string
	rows, columns []string
	at            map[[2]string]float64
}

// put stores a value, unless its place has one.
func (m *heatmap) put(row, column string, v float64) bool {
	if m.at == nil {
		m.at = map[[2]string]float64{}
	}
	if _, ok := m.at[[2]string{row, column}]; ok {
		return false
	}
	m.at[[2]string{row, column}] = v
	if !slices.Contains(m.rows, row) {
		m.rows = append(m.rows, row)
	}
	if !slices.Contains(m.columns, column) {
		m.columns = append(m.columns, column)
	}
	return true
}

func (m *heatmap) values() []float64 {
	var out []float64
	for _, r := range m.rows {
		for _, c := range m.columns {
			if v, ok := m.at[[2]string{r, c}]; ok {
				out = append(out, v)
			}
		}
	}
	return out
}

// clustered orders the hosts so that those with like figures to all others stand together: average linkage over the mean
// difference of the logarithms of the figures both have.
func clustered(m *heatmap) []string {
	n := len(m.rows)
	near := func(i, j int) float64 {
		sum, count := 0.0, 0
		for _, other := range m.rows {
			if other == m.rows[i] || other == m.rows[j] {
				continue
			}
			for _, pair := range [][2][2]string{{{m.rows[i], other}, {m.rows[j], other}}, {{other, m.rows[i]}, {other, m.rows[j]}}} {
				a, ok := m.at[pair[0]]
				b, too := m.at[pair[1]]
				if ok && too {
					sum, count = sum+math.Abs(math.Log(a/b)), count+1
				}
			}
		}
		if count == 0 {
			return 1
		}
		return sum / float64(count)
	}
	distance := make([][]float64, n)
	groups := make([][]int, n)
	for i := range n {
		distance[i] = make([]float64, n)
		groups[i] = []int{i}
		for j := range i {
			distance[i][j] = near(i, j)
			distance[j][i] = distance[i][j]
		}
	}
	between := func(a, b []int) float64 {
		sum := 0.0
		for _, i := range a {
			for _, j := range b {
				sum += distance[i][j]
			}
		}
		return sum / float64(len(a)*len(b))
	}
	for len(groups) > 1 {
		a, b, best := 0, 1, math.Inf(1)
		for i := range groups {
			for j := i + 1; j < len(groups); j++ {
				if d := between(groups[i], groups[j]); d < best-1e-12 {
					a, b, best = i, j, d
				}
			}
		}
		groups[a] = append(groups[a], groups[b]...)
		groups = slices.Delete(groups, b, b+1)
	}
	var out []string
	for _, i := range groups[0] {
		out = append(out, m.rows[i])
	}
	return out
}

const headWidth = vg.Length(14)

func (m *heatmap) gutters(width vg.Length) (left, right vg.Length) {
	for _, r := range m.rows {
		left = max(left, widthOf(face(smallSize, false), m.short(r, width))+8)
	}
	return left, 0
}

func (m *heatmap) short(s string, width vg.Length) string {
	return strings.Join(short(face(smallSize, false), s, width*0.24, 1), "")
}

// side is the width and height of a place.
func (m *heatmap) side(width, left vg.Length) (w, h vg.Length) {
	w = min((width-left)/vg.Length(len(m.columns)), 70)
	return w, min(max(w*0.6, 9), 24)
}

// numbered reports whether the columns' names are too wide for their places, and numbers stand in their stead.
func (m *heatmap) numbered(w vg.Length) bool {
	for _, c := range m.columns {
		if widthOf(face(smallSize, false), c) > w-4 {
			return true
		}
	}
	return false
}

func (m *heatmap) height(width, left, _ vg.Length) vg.Length {
	_, h := m.side(width, left)
	out := titleRoom(m.title, width) + headWidth + h*vg.Length(len(m.rows)) + labelSize*lineSpacing + 6
	if w, _ := m.side(width, left); m.numbered(w) && !slices.Equal(m.rows, m.columns) {
		out += vg.Length(len(m.key(width))) * smallSize * lineSpacing
	}
	return out
}

// key says which number is which column, where rows do not.
func (m *heatmap) key(width vg.Length) []string {
	var parts []string
	for i, c := range m.columns {
		parts = append(parts, fmt.Sprintf("%d %s", i+1, c))
	}
	return wrap(face(smallSize, false), strings.Join(parts, "; "), width)
}

func (m *heatmap) draw(p *pen, r vg.Rectangle, leftGutter, _ vg.Length) {
	t, width := p.theme, r.Max.X-r.Min.X
	f := face(smallSize, false)
	w, h := m.side(width, leftGutter)
	all := m.values()
	lo, hi := slices.Min(all), slices.Max(all)
	scale := unit.RateScale(all)
	shade := func(v float64) color.NRGBA {
		part := 0.5
		if hi > lo {
			part = (v - lo) / (hi - lo)
		}
		return blend(t.palette[0], t.page, 0.12+0.88*part)
	}
	numbered := m.numbered(w)
	same := slices.Equal(m.rows, m.columns)
	top := p.panelTitle(m.title, r) - headWidth
	fits := numbered
	for i, c := range m.columns {
		text := c
		if numbered {
			text = fmt.Sprint(i + 1)
			fits = fits && widthOf(f, text) < w-1
		}
		if !numbered || fits || i%5 == 4 {
			p.write("tick", text, f, t.muted, vg.Point{X: r.Min.X + leftGutter + (vg.Length(i)+0.5)*w, Y: top + 2}, centre, above)
		}
	}
	for j, row := range m.rows {
		y := top - vg.Length(j+1)*h
		text := m.short(row, width)
		if numbered && same {
			text = m.short(fmt.Sprintf("%d %s", j+1, row), width)
		}
		p.write("label", text, f, t.ink, vg.Point{X: r.Min.X + leftGutter - 5, Y: y + h/2}, right, middle)
		for i, column := range m.columns {
			x := r.Min.X + leftGutter + vg.Length(i)*w
			place := vg.Rectangle{Min: vg.Point{X: x + 0.4, Y: y + 0.4}, Max: vg.Point{X: x + w - 0.4, Y: y + h - 0.4}}
			v, ok := m.at[[2]string{row, column}]
			if !ok {
				p.box(place, t.faint)
				if row != column || !same {
					p.rule(t.grid, 0.7, place.Min, place.Max)
				}
				continue
			}
			c := shade(v)
			p.box(place, c)
			p.place(m.title, row, place, row+", "+column+": "+unit.Rate(v))
			if text := scale.Format(v); widthOf(f, text) < w-3 && h > smallSize+1 {
				p.write("value", text, f, readable(c), vg.Point{X: x + w/2, Y: y + h/2}, centre, middle)
			}
		}
	}
	y := top - vg.Length(len(m.rows))*h - 4
	if numbered && !same {
		y = p.lines("key", m.key(width), f, t.muted, r.Min.X, y)
	}
	x := r.Min.X + leftGutter
	for _, v := range []float64{lo, hi} {
		p.box(vg.Rectangle{Min: vg.Point{X: x, Y: y - labelSize}, Max: vg.Point{X: x + 10, Y: y - 1}}, shade(v))
		text := scale.Format(v) + " " + scale.Unit
		p.write("legend", text, f, t.muted, vg.Point{X: x + 13, Y: y - 0.5}, left, below)
		x += widthOf(f, text) + 30
		if hi == lo {
			break
		}
	}
	const crossed = "crossed out: not measured"
	if x+widthOf(f, crossed) > r.Max.X {
		return
	}
	p.write("legend", crossed, f, t.muted, vg.Point{X: x, Y: y - 0.5}, left, below)
}

// readable is black or white, whichever stands out more on the colour.
func readable(c color.NRGBA) color.Color {
	if 0.2126*linear(c.R)+0.7152*linear(c.G)+0.0722*linear(c.B) > 0.18 {
		return color.Black
	}
	return color.White
}

// linear is a channel of sRGB as a part of full light (IEC 61966-2-1).
func linear(v uint8) float64 {
	s := float64(v) / 255
	if s <= 0.04045 {
		return s / 12.92
	}
	return math.Pow((s+0.055)/1.055, 2.4)
}

func (m *heatmap) list() []Series {
	var out []Series
	for j, row := range m.rows {
		one := Series{Panel: m.title, Label: row, XName: "column", YName: "bandwidth (bytes/s)"}
		for i, column := range m.columns {
			if v, ok := m.at[[2]string{row, column}]; ok {
				one.Points = append(one.Points, Point{X: float64(i), Y: v, XLabel: column, YLabel: unit.Rate(v)})
			}
		}
		slices.SortFunc(one.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		if len(one.Points) > 0 || j == 0 {
			out = append(out, one)
		}
	}
	return out
}
