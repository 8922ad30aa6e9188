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
	"hopbench/results/matrix"
	"hopbench/results/unit"
)

// mostMapped is the most hosts of a map: more are places of less than a point.
const mostMapped = 256

// Heat draws pairs of hosts, their bandwidth or latency, and the bandwidth of paths over rails, as maps: rows send to columns for a write or send, and
// fetch from them for a read. A panel shows one definition, operation, direction and schedule, at its greatest size (a latency at its
// least). Hosts stand in the order of their ranks, where the file says it, or of their names; with four or more a second panel has them in an order that puts
// like beside like. Runs without pairs or rails are ErrEmpty.
func Heat(runs []results.Run, o Options) (*Figure, error) {
	mesh := matrix.New(matrix.Options{Hosts: ranksOf(runs)})
	g, err := gather(runs, func(c *results.Cell) bool {
		pair := c.InitiatorHost != "" && c.TargetHost != ""
		return c.Bandwidth != nil && (pair || c.Rail != "") || pair && c.Latency != nil && c.Latency.P50Seconds != nil
	})
	if err != nil {
		return nil, err
	}
	type key struct {
		family   family
		schedule string
		pairs    bool
		latency  bool
		path     string // of pairs: the transport and its way
	}
	var keys []key
	by := map[key][]entry{}
	meshes := map[*results.Run]bool{} // whose rows without hosts are the sums of flows, which are no map
	for _, e := range g.entries {
		meshes[e.run] = meshes[e.run] || e.InitiatorHost != "" && e.TargetHost != ""
	}
	for _, e := range g.entries {
		pairs := e.InitiatorHost != "" && e.TargetHost != ""
		if !pairs && meshes[e.run] && e.Rail == "all" {
			continue
		}
		k := key{family: family{e.Definition, e.Operation, e.Direction}, schedule: e.Schedule, pairs: pairs, latency: e.Bandwidth == nil}
		if pairs {
			if k.path = name(e); e.Rail != "" {
				k.path += ", rail " + clean(e.Rail)
			}
			if k.family.direction == "reverse" { // such a row has its hosts exchanged already: they say which way
				k.family.direction = "forward"
			}
			if err := mesh.Add(e.Cell); err != nil {
				return nil, fmt.Errorf("heat: %w", err)
			}
		}
		if by[k] == nil {
			keys = append(keys, k)
		}
		by[k] = append(by[k], e)
	}
	place := map[string]int{}
	for i, h := range mesh.Hosts() {
		place[clean(h)] = i
	}
	title := "Bandwidth of pairs and rails"
	if slices.ContainsFunc(keys, func(k key) bool { return k.latency }) {
		title = "Pairs of hosts"
	}
	f := newFigure(o, title, "Row: the initiator, or the path. Column: the target, or the rail. Figures in the unit of the panel.")
	var notes []string
	for _, k := range keys {
		if len(f.panels) >= 6 {
			notes = append(notes, fmt.Sprintf("%d of %d maps are not drawn; choose with --cells.", len(keys)-slices.Index(keys, k), len(keys)))
			break
		}
		size := by[k][0].TotalBytes
		for _, e := range by[k] {
			if k.latency {
				size = min(size, e.TotalBytes)
			} else {
				size = max(size, e.TotalBytes)
			}
		}
		m := &heatmap{latency: k.latency}
		again := 0
		for _, e := range by[k] {
			var v float64
			if k.latency {
				v = *e.Latency.P50Seconds
			} else {
				v = e.Bandwidth.BytesPerSecond
			}
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
		axis := "Bandwidth"
		if k.latency {
			axis = "Median latency"
		}
		parts := []string{k.family.title(axis), unit.Bytes(size)}
		for _, s := range []string{clean(k.schedule), k.path} {
			if s != "" {
				parts = append(parts, s)
			}
		}
		m.title = strings.Join(parts, ", ")
		if k.pairs { // one list of hosts for both sides
			for _, h := range m.columns {
				if !m.row[h] {
					m.rows = append(m.rows, h)
				}
			}
			slices.SortStableFunc(m.rows, func(a, b string) int { return cmp.Compare(place[a], place[b]) })
			m.columns = slices.Clone(m.rows)
		}
		if n := max(len(m.rows), len(m.columns)); n > mostMapped {
			notes = append(notes, fmt.Sprintf("A map of %d hosts is not drawn, %d are the most: %s.", n, mostMapped, m.title))
			continue
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
		return nil, fmt.Errorf("bandwidth of pairs or rails: %w: it takes rows of hopbench mesh, or of hopbench run with --gpus, --rails or several devices", ErrEmpty)
	}
	if len(runs) == 1 {
		notes = append(notes, outOfLine(mesh)...)
	}
	f.Caption = g.caption(notes, nil)
	return f, nil
}

// ranksOf are the hosts of a mesh in the order of their ranks, as the first run that says it has them.
func ranksOf(runs []results.Run) []string {
	for i := range runs {
		if names := matrix.Ranks(&runs[i]); names != nil {
			return names
		}
	}
	return nil
}

// outOfLine is the paragraph that names what is slow.
func outOfLine(mesh *matrix.Mesh) []string {
	var names []string
	for _, s := range matrix.Suspects(mesh.Reports(matrix.Judge{})) {
		names = append(names, clean(s.Name))
	}
	if len(names) == 0 {
		return nil
	}
	return []string{"Out of line: " + strings.Join(first(names, 8), "; ") + "."}
}

// heatmap is a panel of a matrix.
type heatmap struct {
	title         string
	rows, columns []string
	row, column   map[string]bool // what stands in them
	at            map[[2]string]float64
	latency       bool // the figures are seconds
}

// put stores a value, unless its place has one.
func (m *heatmap) put(row, column string, v float64) bool {
	if m.at == nil {
		m.at, m.row, m.column = map[[2]string]float64{}, map[string]bool{}, map[string]bool{}
	}
	if _, ok := m.at[[2]string{row, column}]; ok {
		return false
	}
	m.at[[2]string{row, column}] = v
	if !m.row[row] {
		m.rows, m.row[row] = append(m.rows, row), true
	}
	if !m.column[column] {
		m.columns, m.column[column] = append(m.columns, column), true
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

// clustered orders the hosts so that those with like figures to all others stand together.
func clustered(m *heatmap) []string {
	var out []string
	for _, i := range matrix.Order(len(m.rows), func(i, j int) (float64, bool) {
		v, ok := m.at[[2]string{m.rows[i], m.rows[j]}]
		return v, ok
	}, m.latency) {
		out = append(out, m.rows[i])
	}
	return out
}

// scale is the unit of the panel.
func (m *heatmap) scale(values []float64) unit.Scale {
	if m.latency {
		return unit.TimeScale(values)
	}
	return unit.RateScale(values)
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
	scale := m.scale(all)
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
	fits := numbered && widthOf(f, fmt.Sprint(len(m.columns))) < w-1 // all numbers, else every fifth
	for i, c := range m.columns {
		text := c
		if numbered {
			text = fmt.Sprint(i + 1)
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
		words := unit.Rate
		if m.latency {
			one.YName, words = "latency (seconds)", unit.Seconds
		}
		for i, column := range m.columns {
			if v, ok := m.at[[2]string{row, column}]; ok {
				one.Points = append(one.Points, Point{X: float64(i), Y: v, XLabel: column, YLabel: words(v)})
			}
		}
		slices.SortFunc(one.Points, func(a, b Point) int { return cmp.Compare(a.X, b.X) })
		if len(one.Points) > 0 || j == 0 {
			out = append(out, one)
		}
	}
	return out
}
