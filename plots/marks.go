package plots

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/recorder"
)

// Mark is where a value stands in the drawing, and what it is: for those who show it on hovering.
type Mark struct {
	// X and Y are the middle of the mark in points (1/72 inch) from the upper left corner of the figure, which is the unit of the SVG's view
	// box. Width and Height are those of a bar or a place of a map; both are 0 for the marker of a point.
	X, Y, Width, Height float64
	Panel, Label        string // as in Series
	Text                string // what it says: "tcp: 5.61 GB/s at 64 KiB (−1.2 % to +0.8 %)"
}

// Marks lists the values with their places, in the order in which they are drawn. A line's every point has one; of a distribution those at the
// ticks of its axis and the last one have.
func (f *Figure) Marks() []Mark {
	g := f.layout()
	return f.draw(&recorder.Canvas{}, g, false).marks
}

// mark notes a point's value.
func (p *pen) mark(panel, label string, at vg.Point, text string) {
	p.place(panel, label, vg.Rectangle{Min: at, Max: at}, text)
}

// place notes the value of an area.
func (p *pen) place(panel, label string, r vg.Rectangle, text string) {
	p.marks = append(p.marks, Mark{
		X: float64(r.Min.X+r.Max.X) / 2, Y: float64(p.Max.Y - (r.Min.Y+r.Max.Y)/2), Width: float64(r.Max.X - r.Min.X), Height: float64(r.Max.Y - r.Min.Y),
		Panel: panel, Label: label, Text: text,
	})
}

// says is how a point of a line reads.
func (q Point) says(label string) string {
	text := label + ": " + q.YLabel + " at " + q.XLabel
	if q.Low != nil && q.High != nil && q.Y > 0 {
		text += fmt.Sprintf(" (%s %% to %s %%)", change(*q.Low, q.Y), change(*q.High, q.Y))
	}
	return text
}

// change is the difference of a bound to its value in per cent, with its sign.
func change(bound, value float64) string {
	return strings.Replace(fmt.Sprintf("%+.2g", 100*(bound-value)/value), "-", "−", 1)
}
