package plots

import (
	"maps"
	"slices"

	"hopbench/results"
)

// Origins collects where, when and by what results were measured, for the Notes of a figure that is not drawn from the cells
// themselves. It keeps no cell. The zero value is empty.
type Origins struct {
	g          gathered
	provenance map[string]int
	sources    map[string]bool
	tools      map[string]bool
}

// Add takes in the header of a run, and what its cells with a figure say of their provenance.
func (o *Origins) Add(r *results.Run) {
	if o.provenance == nil {
		o.provenance, o.sources, o.tools = map[string]int{}, map[string]bool{}, map[string]bool{}
	}
	o.g.runs = append(o.g.runs, &results.Run{Header: r.Header})
	for i := range r.Cells {
		c := &r.Cells[i]
		if !c.HasFigure() {
			continue
		}
		o.provenance[orElse(c.Provenance, results.Measured)]++
		if c.Provenance != "" && c.Provenance != results.Measured && c.Source != "" {
			o.sources[clean(c.Source)] = true
		}
		if c.PeerTool != "" && !o.tools[c.PeerTool] {
			o.tools[c.PeerTool] = true
			o.g.entries = append(o.g.entries, entry{Cell: &results.Cell{PeerTool: c.PeerTool}})
		}
	}
}

// Notes says it as the caption of other figures does: hosts, then dates, tools and what was measured. Without a run it is nil.
func (o *Origins) Notes() []string {
	if len(o.g.runs) == 0 {
		return nil
	}
	return o.g.origin(o.provenance, slices.Sorted(maps.Keys(o.sources)))
}
