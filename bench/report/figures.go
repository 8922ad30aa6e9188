package report

import (
	"bytes"
	"errors"
	"fmt"

	"hopbench/plots"
	"hopbench/results"
)

// Figure is a figure inside the page.
type Figure struct {
	ID, Kind, Title, Subtitle string // Kind is that of `hopbench plot`
	Caption                   []string
	Wide, Narrow              drawing // for a desk and for a phone
	Values                    []Series
	More                      int // values that stand in no row of Values
}

// Series is the values of one line or row of a figure.
type Series struct {
	Panel, Label, XName, YName string
	Points                     []plots.Point
}

// Widths of figures in centimetres: the text column of a desk's page, and a phone held upright.
const (
	wideCentimetres   = 19
	narrowCentimetres = 9
)

// mostValues bounds the rows of a figure's table of values: a distribution has thousands, and the result files have them all.
const mostValues = 240

// draw draws every figure that the runs have values for, light and dark at once.
func (r *Report) draw(runs []results.Run) error {
	for i, k := range []struct {
		name string
		draw func([]results.Run, plots.Options) (*plots.Figure, error)
	}{
		{"bandwidth", plots.Bandwidth}, {"latency", plots.Latency}, {"cpu", plots.CPU}, {"distribution", plots.Distribution}, {"phases", plots.Phases}, {"heat", plots.Heat},
	} {
		f := &Figure{ID: fmt.Sprintf("figure-%d", i+1), Kind: k.name}
		empty := false
		for _, width := range []float64{wideCentimetres, narrowCentimetres} {
			var themes [2]bytes.Buffer
			var last *plots.Figure
			for dark := range 2 {
				p, err := k.draw(runs, plots.Options{Dark: dark == 1, Width: width})
				if errors.Is(err, plots.ErrEmpty) {
					// All figures say of the same cells why they have no value; the reasons stand once, in their own list.
					empty = true
					break
				}
				if err != nil {
					return fmt.Errorf("figure %s: %w", k.name, err)
				}
				if err := p.Write(&themes[dark], plots.SVG); err != nil {
					return fmt.Errorf("figure %s: %w", k.name, err)
				}
				last = p
			}
			if empty {
				break
			}
			d, err := inline(themes[0].Bytes(), themes[1].Bytes(), last.Marks(), fmt.Sprintf("%s-%.0f", k.name, width))
			if err != nil {
				return fmt.Errorf("figure %s: %w", k.name, err)
			}
			if width == wideCentimetres {
				f.Title, f.Subtitle, f.Caption, f.Wide = last.Title, last.Subtitle, last.Caption, d
				f.values(last.Series())
			} else {
				f.Narrow = d
			}
		}
		if empty {
			r.NoFigure = append(r.NoFigure, k.name)
			continue
		}
		r.Figures = append(r.Figures, f)
	}
	return nil
}

// values takes the series for the table beneath the figure.
func (f *Figure) values(series []plots.Series) {
	n := 0
	for _, s := range series {
		room := mostValues - n
		points := s.Points
		if len(points) > room {
			f.More += len(points) - room
			points = points[:room]
		}
		n += len(points)
		if len(points) > 0 {
			f.Values = append(f.Values, Series{s.Panel, s.Label, s.XName, s.YName, points})
		}
	}
}
