package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"hopbench/plots"
)

// drawing is SVG that may stand in a page whose policy forbids styles in attributes, and the rules that it needs.
type drawing struct {
	SVG         string
	Light, Dark []string // rules of CSS, for a light and for a dark page
	Hits        int      // points that show their value on hovering
}

// What a figure may hold, and nothing else gets into a page whatever a result file has talked the figure into.
var (
	elements   = []string{"svg", "g", "path", "text", "rect", "circle", "line", "polyline", "polygon"}
	attributes = []string{"d", "x", "y", "x1", "x2", "y1", "y2", "r", "cx", "cy", "width", "height", "points", "transform", "viewBox"}
	harmless   = regexp.MustCompile(`^[a-zA-Z0-9#:;.,' \-]*$`)
	numbers    = regexp.MustCompile(`^[a-zA-Z0-9.,+\-() ]*$`)
)

// inline rewrites a figure that was drawn twice, on a light and on a dark page, into one drawing whose colours follow the page:
// each pair of styles becomes a class. Text is escaped again and only known elements and attributes are kept. Points of lines
// get an invisible mark that carries their value.
func inline(light, dark []byte, series []plots.Series, prefix string) (drawing, error) {
	var d drawing
	a, b := xml.NewDecoder(bytes.NewReader(light)), xml.NewDecoder(bytes.NewReader(dark))
	var out strings.Builder
	classes := map[string]string{}
	skip, depth, first := 0, 0, true
	var lines [][][2]string // the data lines' corners
	for {
		x, err := a.Token()
		y, other := b.Token()
		if errors.Is(err, io.EOF) && errors.Is(other, io.EOF) {
			break
		}
		if err != nil || other != nil {
			return d, fmt.Errorf("svg: %w", errors.Join(err, other))
		}
		switch t := x.(type) {
		case xml.StartElement:
			u, ok := y.(xml.StartElement)
			if !ok || u.Name != t.Name {
				return d, errors.New("svg: the light and the dark drawing are not the same figure")
			}
			if skip > 0 || !slices.Contains(elements, t.Name.Local) {
				skip++
				continue
			}
			depth++
			out.WriteString("<" + t.Name.Local)
			style := ""
			for i, at := range t.Attr {
				switch {
				case at.Name.Local == "style":
					s := ""
					if i < len(u.Attr) && u.Attr[i].Name.Local == "style" {
						s = u.Attr[i].Value
					}
					if !harmless.MatchString(at.Value) || !harmless.MatchString(s) {
						return d, fmt.Errorf("svg: a style with %q", at.Value)
					}
					style = at.Value
					key := at.Value + "|" + s
					if classes[key] == "" {
						name := prefix + "-" + strconv.Itoa(len(classes))
						classes[key] = name
						d.Light = append(d.Light, "."+name+"{"+at.Value+"}")
						if s != at.Value {
							d.Dark = append(d.Dark, "."+name+"{"+s+"}")
						}
					}
					fmt.Fprintf(&out, ` class="%s"`, classes[key])
				case t.Name.Local == "svg" && (at.Name.Local == "width" || at.Name.Local == "height"):
				case slices.Contains(attributes, at.Name.Local) && at.Name.Space == "" && numbers.MatchString(at.Value):
					fmt.Fprintf(&out, ` %s="%s"`, at.Name.Local, html.EscapeString(at.Value))
				}
			}
			if first {
				// The page says beside it what the figure is; its values stand in a table.
				out.WriteString(` aria-hidden="true" focusable="false"`)
				first = false
			}
			out.WriteString(">")
			if t.Name.Local == "path" && dataLine(style) {
				lines = append(lines, corners(t.Attr))
			}
		case xml.EndElement:
			if skip > 0 {
				skip--
				continue
			}
			depth--
			if depth == 1 && t.Name.Local == "g" { // the drawing's one group holds its coordinates
				d.Hits += hits(&out, lines, series)
				lines = nil
			}
			out.WriteString("</" + t.Name.Local + ">")
		case xml.CharData:
			if skip == 0 {
				out.WriteString(html.EscapeString(strings.ReplaceAll(string(t), "\n", "")))
			}
		}
	}
	d.SVG = out.String()
	return d, nil
}

// dataLine reports whether a style is that of a line of values: package plots draws them, and nothing else, with these widths.
func dataLine(style string) bool {
	return strings.Contains(style, "fill:none") && (strings.Contains(style, "stroke-width:1.5") || strings.Contains(style, "stroke-width:0.8"))
}

// corners are the corners of a path of straight strokes, as they are written; nil for any other.
func corners(attributes []xml.Attr) (out [][2]string) {
	for _, a := range attributes {
		if a.Name.Local != "d" {
			continue
		}
		for part := range strings.FieldsFuncSeq(a.Value, func(r rune) bool { return r == 'M' || r == 'L' }) {
			x, y, ok := strings.Cut(part, ",")
			_, err1 := strconv.ParseFloat(x, 64)
			_, err2 := strconv.ParseFloat(y, 64)
			if !ok || err1 != nil || err2 != nil {
				return nil
			}
			out = append(out, [2]string{x, y})
		}
	}
	return out
}

// hits writes a mark on each corner of each line, with the value of the point that it is. The lines come in the order of the
// series; where one has not as many corners as its series has points, no more marks are written: a wrong value is worse than none.
func hits(out *strings.Builder, lines [][][2]string, series []plots.Series) (n int) {
	at := 0
	for _, s := range series {
		if len(s.Points) < 2 || s.Points[0].YLabel == "" {
			continue // a lone marker, or a limit, which is no line of values
		}
		if at == len(lines) {
			return n
		}
		line := lines[at]
		at++
		if len(line) == 2*len(s.Points)-1 {
			continue // steps of a distribution: the table beneath has their values
		}
		if len(line) != len(s.Points) {
			return n
		}
		for i, p := range s.Points {
			text := s.Label + ": " + p.YLabel + " at " + p.XLabel
			if p.Low != nil && p.High != nil && p.Y > 0 {
				text += fmt.Sprintf(" (−%.2g %% to +%.2g %%)", 100*(p.Y-*p.Low)/p.Y, 100*(*p.High-p.Y)/p.Y)
			}
			fmt.Fprintf(out, `<circle class="hit" cx="%s" cy="%s" r="7"><title>%s</title></circle>`, line[i][0], line[i][1], html.EscapeString(text))
			n++
		}
	}
	return n
}
