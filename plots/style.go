package plots

import (
	"image/color"
	"math"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// theme is the colours of a figure on a light or a dark page.
type theme struct {
	page, ink, muted, grid, faint color.NRGBA
	palette                       []color.NRGBA
}

func rgb(hex uint32) color.NRGBA {
	return color.NRGBA{R: uint8(hex >> 16), G: uint8(hex >> 8), B: uint8(hex), A: 255}
}

// The palette is Okabe and Ito's (Color Universal Design, 2008), without its yellow, which a white page swallows, and ending in
// grey. On a dark page each is lightened until it has a contrast of at least 4.5 to the page.
func themeOf(dark bool) *theme {
	if dark {
		return &theme{
			page: rgb(0x0F1419), ink: rgb(0xE6E6E6), muted: rgb(0xA3ADB7), grid: rgb(0x29313A), faint: rgb(0x1A2129),
			palette: []color.NRGBA{rgb(0x56B4E9), rgb(0xFF8A4C), rgb(0x2ED1A2), rgb(0xE7A3CB), rgb(0xF0C24B), rgb(0x9CC9F5), rgb(0xC3CAD2)},
		}
	}
	return &theme{
		page: rgb(0xFFFFFF), ink: rgb(0x1F1F1F), muted: rgb(0x5F6368), grid: rgb(0xE4E4E4), faint: rgb(0xF4F4F4),
		palette: []color.NRGBA{rgb(0x0072B2), rgb(0xD55E00), rgb(0x008F68), rgb(0xB5648F), rgb(0xB97F00), rgb(0x2E8BC0), rgb(0x4D4D4D)},
	}
}

// look is how the series at a place of a figure is drawn: colour and marker go round at different lengths, so that no two of
// the first 56 are alike, and the marker alone tells the first eight apart in grey print.
type look struct {
	colour color.NRGBA
	shape  int
	hollow bool // a software or emulated device
	dashes []vg.Length
}

func (t *theme) look(i int) look {
	return look{colour: t.palette[i%len(t.palette)], shape: i % shapes}
}

// blend mixes c over the page: no back end then needs transparency, which PDF draws as grey.
func blend(c, page color.NRGBA, part float64) color.NRGBA {
	mix := func(x, y uint8) uint8 { return uint8(math.Round(float64(x)*part + float64(y)*(1-part))) }
	return color.NRGBA{mix(c.R, page.R), mix(c.G, page.G), mix(c.B, page.B), 255}
}

// Sizes of text in points, and the distances that follow from them.
const (
	titleSize   = 12
	panelSize   = 9.5
	labelSize   = 8.5
	smallSize   = 7.5
	lineSpacing = 1.28
	margin      = vg.Length(11)
)

func face(size float64, bold bool) font.Font {
	f := font.Font{Typeface: "Liberation", Variant: "Sans", Size: vg.Points(size)}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return f
}

const shapes = 8

// marker draws a marker of the given radius.
func (p *pen) marker(l look, at vg.Point, r vg.Length) {
	var path vg.Path
	corner := func(points ...float64) {
		for i := 0; i < len(points); i += 2 {
			pt := vg.Point{X: at.X + r*vg.Length(points[i]), Y: at.Y + r*vg.Length(points[i+1])}
			if i == 0 {
				path.Move(pt)
			} else {
				path.Line(pt)
			}
		}
		path.Close()
	}
	switch l.shape {
	case 0:
		path.Move(vg.Point{X: at.X + r, Y: at.Y})
		path.Arc(at, r, 0, 2*math.Pi)
		path.Close()
	case 1:
		corner(-.9, -.9, .9, -.9, .9, .9, -.9, .9)
	case 2:
		corner(-1.1, -.85, 1.1, -.85, 0, 1.2)
	case 3:
		corner(0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0)
	case 4:
		corner(-1.1, .85, 0, -1.2, 1.1, .85)
	case 5: // a cross upright
		corner(-.4, -1.2, .4, -1.2, .4, -.4, 1.2, -.4, 1.2, .4, .4, .4, .4, 1.2, -.4, 1.2, -.4, .4, -1.2, .4, -1.2, -.4, -.4, -.4)
	case 6:
		corner(-1.2, 0, -.6, -1.05, .6, -1.05, 1.2, 0, .6, 1.05, -.6, 1.05)
	default: // a cross aslant
		corner(-1.15, -.6, -.6, -1.15, 0, -.55, .6, -1.15, 1.15, -.6, .55, 0, 1.15, .6, .6, 1.15, 0, .55, -.6, 1.15, -1.15, .6, -.55, 0)
	}
	if l.hollow {
		p.SetColor(p.theme.page)
	} else {
		p.SetColor(l.colour)
	}
	p.Fill(path)
	if l.hollow {
		p.SetLineStyle(draw.LineStyle{Color: l.colour, Width: vg.Points(1)})
		p.Stroke(path)
	}
}

// Dashes: a reference and a projection are never drawn as a measurement is.
var (
	dashed = []vg.Length{5, 3}
	dotted = []vg.Length{1.2, 2.4}
)

// part is the colour of a part of a bar; neighbours differ in lightness as well as in hue.
func (t *theme) part(i int) color.NRGBA {
	c := t.palette[i%len(t.palette)]
	if i%2 == 1 {
		return blend(c, t.page, 0.55)
	}
	return c
}
