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
	Hits        int      // values that show on hovering
}

// What a figure may hold, and nothing else gets into a page whatever a result file has talked the figure into.
var (
	elements   = []string{"svg", "g", "path", "text", "rect", "circle", "line", "polyline", "polygon"}
	attributes = []string{"d", "x", "y", "x1", "x2", "y1", "y2", "r", "cx", "cy", "width", "height", "points", "transform", "viewBox"}
	harmless   = regexp.MustCompile(`^[a-zA-Z0-9#:;.,' \-]*$`)
	numbers    = regexp.MustCompile(`^[a-zA-Z0-9.,+\-() ]*$`)
)

// inline rewrites a figure that was drawn twice, on a light and on a dark page, into one drawing whose colours follow the page:
// each pair of styles becomes a class. Text is escaped again and only known elements and attributes are kept. Every mark gets an
// invisible area that carries its value.
func inline(light, dark []byte, marks []plots.Mark, prefix string) (drawing, error) {
	var d drawing
	a, b := xml.NewDecoder(bytes.NewReader(light)), xml.NewDecoder(bytes.NewReader(dark))
	var out strings.Builder
	classes := map[string]string{}
	skip, depth, first := 0, 0, true
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
		case xml.EndElement:
			if skip > 0 {
				skip--
				continue
			}
			if depth--; depth == 0 {
				hits(&out, marks)
				d.Hits = len(marks)
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

// hits writes an invisible mark over each value of the figure, with what it says. They stand outside the drawing's group, in the units of its
// view box.
func hits(out *strings.Builder, marks []plots.Mark) {
	for _, m := range marks {
		text := html.EscapeString(m.Text)
		if m.Width == 0 && m.Height == 0 {
			fmt.Fprintf(out, `<circle class="hit" cx="%.2f" cy="%.2f" r="7"><title>%s</title></circle>`, m.X, m.Y, text)
			continue
		}
		fmt.Fprintf(out, `<rect class="hit" x="%.2f" y="%.2f" width="%.2f" height="%.2f"><title>%s</title></rect>`, m.X-m.Width/2, m.Y-m.Height/2, m.Width, m.Height, text)
	}
}
