package plots

import (
	"errors"
	"image/color"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// ErrDouble is wrapped by the refusal of cells that were measured through a fake library.
var ErrDouble = errors.New("realm double: it was measured through a fake library, so no figure shows it")

// ErrEmpty is wrapped where there is nothing to draw; the error says what there was instead.
var ErrEmpty = errors.New("nothing to draw")

// Options are choices that every figure has. The zero value is the default.
type Options struct {
	Dark  bool
	Title string // in place of the figure's own
	// Width is the width of the figure in centimetres; 0 is 17, the type area of an A4 page.
	Width float64
	// Notes are put at the end of the caption, a paragraph each.
	Notes []string
}

const (
	defaultWidth = 17
	// leastWidth and mostWidth bound Options.Width: less leaves no room for axes, more no memory for an image.
	leastWidth, mostWidth = 8, 100
)

// Figure is what is drawn, whatever it is drawn as.
type Figure struct {
	Title    string
	Subtitle string
	Caption  []string // paragraphs: what a reader of the figure alone needs to know

	width  vg.Length
	theme  *theme
	notes  []string
	panels []panel
}

// A panel is a part of a figure with its own axes; panels stand under each other.
type panel interface {
	// gutters is the room that the panel wants left and right of its data, in a figure of that width.
	gutters(width vg.Length) (left, right vg.Length)
	// height is the panel's height with those gutters.
	height(width, left, right vg.Length) vg.Length
	draw(p *pen, r vg.Rectangle, left, right vg.Length)
	list() []Series
}

// Series is what one line, row or bar of a figure shows, for those who want the values and not the drawing.
type Series struct {
	Panel  string  `json:"panel,omitempty"`
	Label  string  `json:"label"`
	XName  string  `json:"x_name,omitempty"` // with its unit: "size (bytes)"
	YName  string  `json:"y_name,omitempty"`
	Points []Point `json:"points"`
}

// Point is one value of a series. Low and High bound it, nil where nothing bounds it. XLabel and YLabel are how people read the two.
type Point struct {
	X      float64  `json:"x"`
	Y      float64  `json:"y"`
	Low    *float64 `json:"low,omitempty"`
	High   *float64 `json:"high,omitempty"`
	XLabel string   `json:"x_label,omitempty"`
	YLabel string   `json:"y_label,omitempty"`
}

// Series lists what is drawn, panel by panel, in the order in which it is drawn.
func (f *Figure) Series() []Series {
	var all []Series
	for _, p := range f.panels {
		all = append(all, p.list()...)
	}
	return all
}

func newFigure(o Options, title, subtitle string) *Figure {
	w := o.Width
	if !finite(w) || w == 0 {
		w = defaultWidth
	}
	w = min(max(w, leastWidth), mostWidth)
	if o.Title != "" {
		title = clean(o.Title)
	}
	var notes []string
	for _, n := range o.Notes {
		notes = append(notes, clean(n))
	}
	return &Figure{notes: notes, Title: title, Subtitle: subtitle, width: vg.Length(w) * vg.Centimeter, theme: themeOf(o.Dark)}
}

// page is where the parts of a figure stand.
type page struct {
	title, subtitle, caption []string
	left, right              vg.Length // gutters of all panels
	heights                  []vg.Length
	total                    vg.Length
}

const (
	panelGap   = vg.Length(12)
	captionGap = vg.Length(8)
)

func (f *Figure) layout() page {
	inner := f.width - 2*margin
	g := page{title: wrap(face(titleSize, true), f.Title, inner), subtitle: wrap(face(labelSize, false), f.Subtitle, inner)}
	for _, paragraph := range slices.Concat(f.Caption, f.notes) {
		g.caption = append(g.caption, wrap(face(smallSize, false), paragraph, inner)...)
	}
	g.total = 2*margin + vg.Length(len(g.title))*titleSize*lineSpacing + vg.Length(len(g.subtitle))*labelSize*lineSpacing +
		vg.Length(len(g.caption))*smallSize*lineSpacing
	for _, p := range f.panels {
		l, r := p.gutters(inner)
		g.left, g.right = max(g.left, l), max(g.right, r)
	}
	g.total += captionGap
	for _, p := range f.panels {
		h := p.height(inner, g.left, g.right)
		g.heights = append(g.heights, h)
		g.total += h + panelGap
	}
	return g
}

// draw draws the figure on a canvas of its size.
func (f *Figure) draw(c vg.Canvas, g page, plain bool) *pen {
	p := &pen{Canvas: draw.NewCanvas(c, f.width, g.total), theme: f.theme, ascii: plain}
	// A little more than the page: an image's last column and row are only partly within it.
	p.box(vg.Rectangle{Min: vg.Point{X: -1, Y: -1}, Max: vg.Point{X: f.width + 1, Y: g.total + 1}}, f.theme.page)
	y := g.total - margin
	y = p.lines("title", g.title, face(titleSize, true), f.theme.ink, margin, y)
	y = p.lines("subtitle", g.subtitle, face(labelSize, false), f.theme.muted, margin, y)
	for i, panel := range f.panels {
		y -= panelGap
		panel.draw(p, vg.Rectangle{Min: vg.Point{X: margin, Y: y - g.heights[i]}, Max: vg.Point{X: f.width - margin, Y: y}}, g.left, g.right)
		y -= g.heights[i]
	}
	p.lines("caption", g.caption, face(smallSize, false), f.theme.muted, margin, y-captionGap)
	return p
}

// box fills a rectangle.
func (p *pen) box(r vg.Rectangle, c color.Color) {
	p.FillPolygon(c, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
}

// rule draws a straight line.
func (p *pen) rule(c color.Color, width vg.Length, from, to vg.Point, dashes ...vg.Length) {
	p.StrokeLines(draw.LineStyle{Color: c, Width: width, Dashes: dashes}, []vg.Point{from, to})
}
