package tree

import (
	"encoding/xml"
	"fmt"
	"io"
	"slices"
	"strings"

	"hopbench/transports/topo"
)

// Graph is a topology without any knowledge of transports: boxes in groups, and lines between boxes.
type Graph struct {
	Boxes []Box  `json:"boxes"`
	Lines []Line `json:"lines"`
}

// Box is one thing.
type Box struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"` // "gpu", "nic", "bridge", "root"
	Label string `json:"label"`
	Group string `json:"group,omitempty"` // "NUMA node 0"
	Rank  int    `json:"rank"`            // 0 is the root complex; a box stands one below its parent
}

// Line joins two boxes.
type Line struct {
	From  string `json:"from"`
	To    string `json:"to"`
	Kind  string `json:"kind"` // "pci", "nvlink"
	Label string `json:"label,omitempty"`
	// BytesPS is one direction's rate; nil where it is not known.
	BytesPS *float64 `json:"bytes_per_second,omitempty"`
}

// GraphOf makes the graph of what hangs on a host's bus.
func GraphOf(h *topo.Host) Graph {
	g := Graph{Boxes: []Box{}, Lines: []Line{}}
	has := map[string]bool{}
	add := func(bdf, kind, label string) {
		d := h.Function(bdf)
		if d == nil {
			return
		}
		group := ""
		if d.NUMA != nil {
			group = fmt.Sprintf("NUMA node %d", *d.NUMA)
		}
		for i, c := range d.Path {
			if !has[c] {
				has[c] = true
				b := Box{ID: c, Kind: "bridge", Label: c, Group: group, Rank: i}
				switch {
				case i == len(d.Path)-1:
					b.Kind, b.Label = kind, label
				case i == 0:
					b.Kind = "root"
				}
				g.Boxes = append(g.Boxes, b)
				if i > 0 {
					l := Line{From: d.Path[i-1], To: c, Kind: "pci"}
					if f := h.Function(c); f != nil {
						if hop := f.Hop(); hop != nil {
							l.Label = fmt.Sprintf("Gen%d x%d", hop.Generation, hop.Width)
							l.BytesPS = &hop.BytesPS
						}
					}
					g.Lines = append(g.Lines, l)
				}
			}
		}
	}
	for i, x := range h.GPUs {
		add(x.BDF, "gpu", fmt.Sprintf("GPU %d", i))
	}
	for _, n := range h.NICs() {
		add(n.BDF, "nic", n.Name)
	}
	for i, a := range h.GPUs {
		for _, b := range h.GPUs[i+1:] {
			if n := direct(a, b); n > 0 && has[a.BDF] && has[b.BDF] {
				g.Lines = append(g.Lines, Line{From: a.BDF, To: b.BDF, Kind: "nvlink", Label: fmt.Sprintf("NVLink x%d", n)})
			}
		}
	}
	slices.SortStableFunc(g.Boxes, func(a, b Box) int { return strings.Compare(a.Group, b.Group) })
	return g
}

// direct counts the NVLinks that lead from a to b without a switch between.
func direct(a, b topo.GPU) (n int) {
	if a.NVML == nil {
		return 0
	}
	for _, l := range a.NVML.Links {
		if l.Active && l.Peer == b.BDF && l.Peer != "" {
			n++
		}
	}
	return n
}

// Sizes of the drawing, in SVG units.
const (
	boxW, boxH = 104, 26
	gapX, gapY = 14, 46
	margin     = 24
)

var fills = map[string]string{"gpu": "#d9ead3", "nic": "#cfe2f3", "bridge": "#eeeeee", "root": "#fff2cc"}

// WriteSVG draws the graph: root complexes on top, each box centred over what hangs below it, NUMA nodes side by side.
func (g Graph) WriteSVG(w io.Writer) error {
	kids := map[string][]string{}
	child := map[string]bool{}
	for _, l := range g.Lines {
		if l.Kind == "pci" {
			kids[l.From] = append(kids[l.From], l.To)
			child[l.To] = true
		}
	}
	box := map[string]Box{}
	for _, b := range g.Boxes {
		box[b.ID] = b
	}
	type point struct{ x, y float64 }
	at := map[string]point{}
	next := float64(margin)
	deepest := 0
	var place func(id string) float64
	place = func(id string) float64 {
		b := box[id]
		deepest = max(deepest, b.Rank)
		y := float64(margin + 20 + b.Rank*(boxH+gapY))
		x := 0.0
		if len(kids[id]) == 0 {
			x = next
			next += boxW + gapX
		} else {
			lo, hi := 0.0, 0.0
			for i, k := range kids[id] {
				v := place(k)
				if i == 0 {
					lo = v
				}
				hi = v
			}
			x = (lo + hi) / 2
		}
		at[id] = point{x, y}
		return x
	}
	type span struct {
		name   string
		lo, hi float64
	}
	var spans []span
	for _, b := range g.Boxes {
		if child[b.ID] {
			continue
		}
		from := next
		place(b.ID)
		if n := len(spans); n > 0 && spans[n-1].name == b.Group {
			spans[n-1].hi = next
		} else {
			spans = append(spans, span{b.Group, from, next})
		}
	}
	width, height := next+margin, float64(margin*2+20+(deepest+1)*(boxH+gapY))
	nv := 0
	for _, l := range g.Lines {
		if l.Kind == "nvlink" {
			nv++
		}
	}
	if nv > 0 {
		height += 60
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" font-family="sans-serif" font-size="11">`+"\n", width, height, width, height)
	b.WriteString(`<title>PCI topology: GPUs, NICs and the bridges between</title>` + "\n" + `<rect width="100%" height="100%" fill="white"/>` + "\n")
	for _, s := range spans {
		if s.name == "" {
			continue
		}
		fmt.Fprintf(&b, `<rect x="%.1f" y="8" width="%.1f" height="%.1f" fill="none" stroke="#999999" stroke-dasharray="4 3"/>`+"\n", s.lo-gapX/2, s.hi-s.lo, height-16)
		fmt.Fprintf(&b, `<text x="%.1f" y="24" fill="#555555">%s</text>`+"\n", s.lo, escape(s.name))
	}
	for _, l := range g.Lines {
		p, q := at[l.From], at[l.To]
		if l.Kind == "nvlink" {
			y := max(p.y, q.y) + boxH
			fmt.Fprintf(&b, `<path d="M%.1f %.1f C%.1f %.1f %.1f %.1f %.1f %.1f" fill="none" stroke="#38761d" stroke-width="2"><title>%s</title></path>`+"\n",
				p.x+boxW/2, y, p.x+boxW/2, y+50, q.x+boxW/2, y+50, q.x+boxW/2, y, escape(l.Label))
			continue
		}
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#555555"/>`+"\n", p.x+boxW/2, p.y+boxH, q.x+boxW/2, q.y)
		if l.Label != "" {
			fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle" font-size="9" fill="#555555">%s</text>`+"\n", q.x+boxW/2, q.y-6, escape(l.Label))
		}
	}
	for _, x := range g.Boxes {
		p := at[x.ID]
		fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%d" height="%d" rx="3" fill="%s" stroke="#333333"><title>%s</title></rect>`+"\n", p.x, p.y, boxW, boxH, fills[x.Kind], escape(x.ID))
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", p.x+boxW/2, p.y+17, escape(x.Label))
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func escape(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}
