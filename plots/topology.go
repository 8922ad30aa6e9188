package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"hopbench/results"
	"hopbench/results/unit"
)

// Graph is a topology as it is drawn: boxes in groups, and lines between them. It knows nothing of transports; its JSON is what
// `hopbench probe --json` has under "graph".
type Graph struct {
	Boxes []Box  `json:"boxes"`
	Links []Link `json:"lines"`
	// Realm is that of the whole machine: emulated is said at each device. Empty is hardware.
	Realm string `json:"realm,omitempty"`
}

// Box is one thing of a topology. Rank 0 is the root complex; a box stands below those of lesser rank.
type Box struct {
	ID    string `json:"id"`
	Kind  string `json:"kind"` // gpu, nic, bridge, root
	Label string `json:"label"`
	Group string `json:"group,omitempty"` // "NUMA node 0"
	Rank  int    `json:"rank"`
}

// Link joins two boxes. BytesPS is bytes a second in one direction, nil where it is not known.
type Link struct {
	From    string   `json:"from"`
	To      string   `json:"to"`
	Kind    string   `json:"kind"` // pci, nvlink
	Label   string   `json:"label,omitempty"`
	BytesPS *float64 `json:"bytes_per_second,omitempty"`
}

// Topology draws a host's GPUs, NICs and the bridges between them. A graph without a box is ErrEmpty; a line to a box that is
// not there is left out and counted.
func Topology(g Graph, o Options) (*Figure, error) {
	if len(g.Boxes) == 0 {
		return nil, fmt.Errorf("topology: %w: the graph has no box", ErrEmpty)
	}
	f := newFigure(o, "Topology", "What hangs on the PCI bus. Figures: one direction, as the link was trained.")
	t := &tree{parent: map[string]string{}, label: map[string]Link{}}
	index := map[string]Box{}
	emulated := g.Realm == results.RealmEmulated
	for _, b := range g.Boxes {
		b.Label, b.Group = clean(b.Label), clean(b.Group)
		if emulated && (b.Kind == "gpu" || b.Kind == "nic") {
			b.Label += ", emulated"
		}
		b.Rank = min(max(b.Rank, 0), 12)
		if _, again := index[b.ID]; again {
			continue
		}
		index[b.ID] = b
		t.boxes = append(t.boxes, b)
	}
	missing := 0
	for _, l := range g.Links {
		from, ok := index[l.From]
		to, too := index[l.To]
		switch {
		case !ok || !too || l.From == l.To:
			missing++
		case l.Kind == "pci" && from.Rank < to.Rank && t.parent[l.To] == "":
			t.parent[l.To], t.label[l.To] = l.From, l
		default:
			t.across = append(t.across, l)
		}
	}
	t.place()
	f.panels = []panel{t}
	f.Caption = []string{"What is not known has no figure."}
	if len(t.across) > 0 {
		f.Caption[0] = "Lines with round ends, at the right: NVLink and what else does not follow the bus. " + f.Caption[0]
	}
	if emulated {
		f.Caption = append(f.Caption, "Emulated: the machine is one of software, and the figures are what its devices claim, not what any hardware does.")
	}
	if missing > 0 {
		f.Caption = append(f.Caption, fmt.Sprintf("Not drawn for want of a box at an end: %s.", unit.Count(missing, "line")))
	}
	return f, nil
}

// tree is a topology as a list that goes right by rank: as wide as the ranks are, as high as there are boxes, which keeps every
// label readable however many GPUs a host has.
type tree struct {
	boxes  []Box // in the order in which they are drawn, once placed
	parent map[string]string
	label  map[string]Link // the line to the parent
	across []Link          // all other lines
}

// place orders the boxes: groups as they come, each box before what hangs on it.
func (t *tree) place() {
	children := map[string][]Box{}
	var roots []Box
	for _, b := range t.boxes {
		if p := t.parent[b.ID]; p != "" {
			children[p] = append(children[p], b)
		} else {
			roots = append(roots, b)
		}
	}
	var groups []string
	for _, b := range roots {
		if !slices.Contains(groups, b.Group) {
			groups = append(groups, b.Group)
		}
	}
	slices.SortStableFunc(roots, func(a, b Box) int { return cmp.Compare(slices.Index(groups, a.Group), slices.Index(groups, b.Group)) })
	var out []Box
	var walk func(b Box, rank int)
	walk = func(b Box, rank int) {
		b.Rank = rank
		out = append(out, b)
		for _, c := range children[b.ID] {
			if c.Group == "" {
				c.Group = b.Group
			}
			walk(c, rank+1)
		}
	}
	for _, b := range roots {
		walk(b, 0)
	}
	t.boxes = out
}

const (
	boxRow    = vg.Length(17)
	boxHeight = vg.Length(13.5)
	indent    = vg.Length(26)
)

func (t *tree) linkText(l Link) string {
	text := clean(l.Label)
	if l.BytesPS != nil && finite(*l.BytesPS) && *l.BytesPS > 0 {
		if text != "" {
			text += ", "
		}
		text += unit.Rate(*l.BytesPS)
	}
	return text
}

// acrossGap is the room of one line across: each has a track of its own right of the boxes.
func (t *tree) acrossGap() vg.Length { return min(9, 150/vg.Length(max(len(t.across), 1))) }

func (t *tree) gutters(vg.Length) (left, right vg.Length) {
	return 0, vg.Length(len(t.across))*t.acrossGap() + 8
}

// groupRows counts the headings of groups.
func (t *tree) groupRows() int {
	n, last := 0, ""
	for i, b := range t.boxes {
		if b.Group != "" && (i == 0 || b.Group != last) {
			n++
		}
		last = b.Group
	}
	return n
}

func (t *tree) height(width, _, _ vg.Length) vg.Length {
	h := boxRow * vg.Length(len(t.boxes)+t.groupRows())
	if len(t.across) > 0 {
		h += vg.Length(len(t.key(width))) * smallSize * lineSpacing
	}
	return h + 4
}

// key says what the lines across carry, each kind once.
func (t *tree) key(width vg.Length) []string {
	var kinds []string
	for _, l := range t.across {
		text := clean(l.Kind)
		if s := t.linkText(l); s != "" {
			text += ": " + s
		}
		if !slices.Contains(kinds, text) {
			kinds = append(kinds, text)
		}
	}
	var out []string
	for _, k := range kinds {
		out = append(out, wrap(face(smallSize, false), k, width)...)
	}
	return first(out, 8)
}

func (t *tree) draw(p *pen, r vg.Rectangle, _, rightGutter vg.Length) {
	th := p.theme
	f := face(labelSize, false)
	edge := r.Max.X - rightGutter
	mid := map[string]vg.Length{}
	ends := map[string]vg.Length{}
	begins := map[string]vg.Length{}
	y, last := r.Max.Y, ""
	for i, b := range t.boxes {
		if b.Group != "" && (i == 0 || b.Group != last) {
			p.write("panel", oneLine(face(labelSize, true), b.Group, edge-r.Min.X), face(labelSize, true), th.ink, vg.Point{X: r.Min.X, Y: y - boxRow/2}, left, middle)
			y -= boxRow
		}
		last = b.Group
		x := r.Min.X + min(vg.Length(b.Rank)*indent, (edge-r.Min.X)/2)
		centre := y - boxRow/2
		mid[b.ID], begins[b.ID] = centre, x
		room := edge - x - 12
		side := t.linkText(t.label[b.ID])
		sideWidth := widthOf(face(smallSize, false), side)
		label := kindName(b)
		if sideWidth > room*0.5 {
			side = oneLine(face(smallSize, false), side, room*0.5)
			sideWidth = widthOf(face(smallSize, false), side)
		}
		text := oneLine(f, label, room-sideWidth-16)
		w := widthOf(f, text) + 10
		c := th.grid
		switch b.Kind {
		case "gpu":
			c = blend(th.palette[2], th.page, 0.35)
		case "nic":
			c = blend(th.palette[0], th.page, 0.35)
		}
		box := vg.Rectangle{Min: vg.Point{X: x, Y: centre - boxHeight/2}, Max: vg.Point{X: x + w, Y: centre + boxHeight/2}}
		p.box(box, c)
		says := label
		if link := t.linkText(t.label[b.ID]); link != "" {
			says += ": " + link
		}
		p.place("", label, box, says)
		p.write("label", text, f, readable(c), vg.Point{X: x + 5, Y: centre}, left, middle)
		p.write("value", side, face(smallSize, false), th.muted, vg.Point{X: x + w + 5, Y: centre}, left, middle)
		ends[b.ID] = x + w
		if side != "" {
			ends[b.ID] += 5 + sideWidth
		}
		if parent := t.parent[b.ID]; parent != "" {
			px := begins[parent] + 8
			p.StrokeLines(draw.LineStyle{Color: th.muted, Width: 0.8}, []vg.Point{{X: px, Y: mid[parent] - boxHeight/2}, {X: px, Y: centre}, {X: x, Y: centre}})
		}
		y -= boxRow
	}
	gap := t.acrossGap()
	for i, l := range t.across {
		x := edge + 6 + vg.Length(i)*gap
		colour := th.palette[1+i%(len(th.palette)-1)]
		a, b := mid[l.From], mid[l.To]
		p.StrokeLines(draw.LineStyle{Color: colour, Width: 0.9}, []vg.Point{{X: ends[l.From] + 4, Y: a}, {X: x, Y: a}, {X: x, Y: b}, {X: ends[l.To] + 4, Y: b}})
		for _, pt := range []vg.Point{{X: x, Y: a}, {X: x, Y: b}} {
			p.marker(look{colour: colour}, pt, 1.8)
		}
	}
	if len(t.across) > 0 {
		p.lines("key", t.key(r.Max.X-r.Min.X), face(smallSize, false), th.muted, r.Min.X, y-2)
	}
}

// kindName is a box's label with its kind before it, unless the label says it.
func kindName(b Box) string {
	kind := clean(b.Kind)
	switch kind {
	case "gpu", "nic":
		kind = strings.ToUpper(kind)
	case "bridge", "root":
		kind = "PCI " + kind
	}
	if strings.HasPrefix(strings.ToLower(b.Label), strings.ToLower(kind)) {
		return b.Label
	}
	return strings.TrimSpace(kind + " " + b.Label)
}

func (t *tree) list() []Series {
	one := Series{Label: "boxes", XName: "rank", YName: "row"}
	for i, b := range t.boxes {
		one.Points = append(one.Points, Point{X: float64(b.Rank), Y: float64(i), XLabel: clean(b.Kind), YLabel: b.Label})
	}
	return []Series{one}
}
