package plots

import (
	"image/color"
	"strings"
	"unicode/utf8"

	xfont "golang.org/x/image/font"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/font/liberation"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hopbench/results/unit"
)

// placed is a text as it was drawn.
type placed struct {
	text string
	kind string // what it is: title, tick, label …
	box  vg.Rectangle
}

// pen draws one figure on one canvas, and remembers where each text went.
type pen struct {
	draw.Canvas
	theme *theme
	ascii bool // the back end draws nothing else
	texts []placed
	marks []Mark
}

// Alignments of a text to its point.
const (
	left, centre, right  = 0.0, -0.5, -1.0
	above, middle, below = 0.0, -0.5, -1.0 // the text's lower edge, middle or upper edge is at the point
)

// fonts are embedded in the program: no figure needs a font of the machine.
var fonts = font.NewCache(liberation.Collection())

func style(f font.Font) text.Style {
	return text.Style{Font: f, Handler: text.Plain{Fonts: fonts}}
}

// widthOf measures a line of text.
func widthOf(f font.Font, s string) vg.Length { return style(f).Width(s) }

// write draws one line of text.
func (p *pen) write(kind, s string, f font.Font, c color.Color, at vg.Point, x, y float64) {
	if s == "" {
		return
	}
	if p.ascii {
		s = ascii(s)
		// gonum's PDF back end does not find a bold font, and embeds one file for all: titles are of normal weight there.
		f.Weight = xfont.WeightNormal
	}
	st := style(f)
	st.Color, st.XAlign, st.YAlign = c, draw.XLeft, draw.YBottom
	w, h := st.Width(s), f.Size
	min := vg.Point{X: at.X + w*vg.Length(x), Y: at.Y + h*vg.Length(y)}
	// A line's box is its size high, the descent at its foot.
	base := vg.Point{X: min.X, Y: min.Y + h*0.22}
	p.Canvas.SetColor(c)
	p.Canvas.FillString(fonts.Lookup(f, f.Size), base, s)
	p.texts = append(p.texts, placed{s, kind, vg.Rectangle{Min: min, Max: vg.Point{X: min.X + w, Y: min.Y + h}}})
}

// lines draws lines of text downwards from the upper edge at y, and returns the lower edge.
func (p *pen) lines(kind string, lines []string, f font.Font, c color.Color, x, y vg.Length) vg.Length {
	for _, line := range lines {
		p.write(kind, line, f, c, vg.Point{X: x, Y: y}, left, below)
		y -= f.Size * lineSpacing
	}
	return y
}

// titleRoom is the height of a panel's title, which has as many lines as it needs.
func titleRoom(title string, width vg.Length) vg.Length {
	return vg.Length(max(1, len(wrap(face(panelSize, true), title, width))))*panelSize*lineSpacing + 5
}

// panelTitle writes a panel's title at its top, and returns the upper edge of what is left of the panel.
func (p *pen) panelTitle(title string, r vg.Rectangle) vg.Length {
	width := r.Max.X - r.Min.X
	p.lines("panel", wrap(face(panelSize, true), title, width), face(panelSize, true), p.theme.ink, r.Min.X, r.Max.Y)
	return r.Max.Y - titleRoom(title, width)
}

// wrap breaks text at spaces into lines no wider than w. A word that is wider by itself is cut, after a slash or a comma where
// its second half before the cut has one.
func wrap(f font.Font, s string, w vg.Length) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		joined := word
		if line != "" {
			joined = line + " " + word
		}
		if widthOf(f, joined) <= w {
			line = joined
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for line = word; widthOf(f, line) > w; {
			n := fitting(f, line, w)
			if n == len(line) {
				break
			}
			lines = append(lines, line[:n])
			line = line[n:]
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// fitting is the number of bytes of the beginning of s that stands on a line of width w, one rune at least.
func fitting(f font.Font, s string, w vg.Length) int {
	n, seam := 0, 0
	for i, r := range s {
		end := i + utf8.RuneLen(r)
		if r == utf8.RuneError {
			end = i + 1
		}
		if n > 0 && widthOf(f, s[:end]) > w {
			if seam > n/2 {
				return seam
			}
			break
		}
		n = end
		if r == '/' || r == ',' || r == ';' {
			seam = end
		}
	}
	return n
}

// short cuts text to n lines of width w, and ends it in dots where something is lost.
func short(f font.Font, s string, w vg.Length, n int) []string {
	lines := wrap(f, s, w)
	if len(lines) <= n {
		return lines
	}
	lines = lines[:n]
	last := lines[n-1]
	for last != "" && widthOf(f, last+"...") > w {
		_, size := utf8.DecodeLastRuneInString(last)
		last = last[:len(last)-size]
	}
	lines[n-1] = last + "..."
	return lines
}

// oneLine cuts text to one line of width w.
func oneLine(f font.Font, s string, w vg.Length) string { return strings.Join(short(f, s, w, 1), "") }

// clean makes text from a file fit to be drawn: one line, no control characters.
func clean(s string) string { return strings.TrimSpace(unit.Text(s)) }

// ascii replaces what a PDF's standard encoding cannot carry.
func ascii(s string) string {
	s = asciiWords.Replace(s)
	return strings.Map(func(r rune) rune {
		if r < 0x20 || r > 0x7e {
			return '?'
		}
		return r
	}, s)
}

var asciiWords = strings.NewReplacer("µ", "u", "μ", "u", "·", "-", "–", "-", "—", "-", "→", "->", "←", "<-", "↔", "<->", "×", "x",
	"±", "+/-", "≤", "<=", "≥", ">=", "…", "...", "“", `"`, "”", `"`, "’", "'", "‘", "'")
