package table

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hopbench/results/unit"
)

// The schedules of a run over rails, and the rail that is the sum of all.
const (
	railAlone    = "isolated"
	railTogether = "together"
	allRails     = "all"
)

// ofRails says whether a cell is of a run over rails: several devices of one pair of hosts, each alone and all at once. A mesh's cells name their hosts.
func ofRails(c item) bool {
	return c.Rail != "" && c.InitiatorHost == "" && c.TargetHost == "" && (c.Schedule == railAlone || c.Schedule == railTogether)
}

// parted takes the cells of rails out of the others. The sums stay in both: they speak for the path as a whole.
func parted(items []item) (rails, others, planned []item) {
	for _, c := range items {
		switch {
		case !ofRails(c):
			others, planned = append(others, c), append(planned, c)
			continue
		case c.Rail == allRails:
			sum := *c.Cell
			sum.Label += ", all rails"
			planned = append(planned, item{Cell: &sum, run: c.run, file: c.file, absent: c.absent})
		}
		rails = append(rails, c)
	}
	return rails, others, planned
}

// railTables are a table for each definition, operation and direction, as sweeps are, whose rows are the rails at each size.
func railTables(items []item) []*Table {
	type family struct {
		file, transport, definition, operation, direction string
	}
	groups, order := map[family][]item{}, []family{}
	for _, c := range items {
		f := family{c.file, c.Transport, c.Definition, c.Operation, c.Direction}
		if groups[f] == nil {
			order = append(order, f)
		}
		groups[f] = append(groups[f], c)
	}
	var tables []*Table
	for _, f := range order {
		t := railTable(groups[f])
		t.Title = "Rails. " + title(groups[f][0].Metric(), f.definition, f.operation, f.direction)
		tables = append(tables, t)
	}
	return tables
}

// rails are the cells of one size: each rail's alone and with the others.
type rails struct {
	names           []string
	alone, together map[string]item
}

func railTable(cells []item) *Table {
	t := &Table{}
	common, varying := compare(cells)
	labels := map[string]bool{}
	for _, c := range cells {
		if c.Rail != allRails {
			labels[c.Label] = true
		}
	}
	if len(labels) == 1 {
		common = append([]string{cells[0].Label}, common...)
	}
	if len(common) > 0 {
		t.Caption = []string{strings.Join(common, ", ")}
	}
	// What varies beside rail and schedule (a GPU's number, a way to its memory) stands with the rail.
	varying = slices.DeleteFunc(varying, func(v trait) bool { return slices.Contains([]string{"rail", "schedule", "file"}, v.name) })
	heads := map[string]string{}
	var shapes []shape
	at := map[shape]*rails{}
	for _, c := range cells {
		s := shapeOf(c)
		r := at[s]
		if r == nil {
			r = &rails{alone: map[string]item{}, together: map[string]item{}}
			at[s], shapes = r, append(shapes, s)
		}
		into := r.alone
		if c.Schedule == railTogether {
			into = r.together
		}
		into[c.Rail] = c
		if !slices.Contains(r.names, c.Rail) {
			r.names = append(r.names, c.Rail)
		}
		if c.Rail == allRails || heads[c.Rail] != "" {
			continue
		}
		heads[c.Rail] = c.Rail
		for _, v := range varying {
			if text := v.show(c); text != "" {
				heads[c.Rail] += ", " + text
			}
		}
		if len(labels) > 1 {
			heads[c.Rail] += ", " + c.Label
		}
	}
	heads[allRails] = "all"
	slices.SortStableFunc(shapes, func(a, b shape) int {
		return cmp.Or(cmp.Compare(a.total, b.total), cmp.Compare(a.descriptors, b.descriptors))
	})
	fields := fieldsOf(cells)
	main, spread := fields[0], slices.IndexFunc(fields, func(f field) bool { return f.head == "±%" })
	lists := slices.ContainsFunc(shapes, func(s shape) bool { return s.descriptors > 1 })
	t.Columns = []Column{{Head: "size", Align: Right}}
	if lists {
		t.Columns = append(t.Columns, Column{Head: "pieces"})
	}
	t.Columns = append(t.Columns, Column{Head: "rail"})
	for _, group := range []string{"alone", "together"} {
		t.Columns = append(t.Columns, Column{Group: group, Head: main.head, Align: Decimal})
		if spread >= 0 {
			t.Columns = append(t.Columns, Column{Group: group, Head: "±%", Align: Decimal})
		}
	}
	latency := cells[0].Metric() == "latency"
	kept := Column{Group: "together", Head: "% of alone", Align: Decimal}
	t.Columns = append(t.Columns, kept)
	for _, s := range shapes {
		r := at[s]
		for i, name := range r.names {
			row := []Cell{{}}
			if i == 0 {
				row[0].Text = size(s.total)
			}
			if lists {
				text := ""
				if i == 0 {
					text = pieces(s)
				}
				row = append(row, Cell{Text: text})
			}
			row = append(row, Cell{Text: heads[name]})
			for _, side := range []map[string]item{r.alone, r.together} {
				c, there := side[name]
				if !there && name == allRails && !latency {
					row = append(row, sumAlone(t, r, main))
				} else {
					row = append(row, figure(t, c, there, main))
				}
				if spread >= 0 {
					row = append(row, figure(t, c, there, fields[spread]))
				}
			}
			row = append(row, ofAlone(r, name, main))
			t.Rows = append(t.Rows, row)
		}
		t.Below = append(t.Below, slowest(r, s, main, latency, len(shapes) > 1)...)
	}
	return t
}

// railValue is a rail's figure.
func railValue(side map[string]item, name string, f field) (float64, bool) {
	c, ok := side[name]
	if !ok || !c.HasFigure() {
		return 0, false
	}
	return f.get(c)
}

// sum is what the rails have alone, added up; none where one lacks its figure.
func (r *rails) sum(f field) (total float64, ok bool) {
	for _, name := range r.names {
		if name == allRails {
			continue
		}
		v, has := railValue(r.alone, name, f)
		if !has {
			return 0, false
		}
		total += v
	}
	return total, true
}

func sumAlone(t *Table, r *rails, f field) Cell {
	total, ok := r.sum(f)
	if !ok {
		return Cell{Text: "-"}
	}
	return Cell{Text: f.scale.Format(total), Marks: []int{t.Note("the rails' figures alone, added up: they were not measured at once")}}
}

// ofAlone is how much of what a rail does alone is left when all run.
func ofAlone(r *rails, name string, f field) Cell {
	alone, ok := railValue(r.alone, name, f)
	if name == allRails {
		alone, ok = r.sum(f)
	}
	together, has := railValue(r.together, name, f)
	if !ok || !has || !(alone > 0) {
		return Cell{Text: "-"}
	}
	return Cell{Text: unit.Significant(100*together/alone, 3)}
}

// slowest names the slowest rail, alone and together. Rails without a figure are named too: nothing is slower.
func slowest(r *rails, s shape, f field, latency, several bool) []string {
	var lines []string
	for _, side := range []struct {
		name string
		of   map[string]item
	}{{"alone", r.alone}, {"together", r.together}} {
		worst, best, at, n := 0.0, 0.0, "", 0
		var none []string
		for _, name := range r.names {
			if name == allRails {
				continue
			}
			if c, there := side.of[name]; there && !c.HasFigure() {
				none = append(none, name+" ("+c.Status+")")
			}
			v, ok := railValue(side.of, name, f)
			if !ok {
				continue
			}
			if n++; n == 1 {
				worst, best, at = v, v, name
			}
			if latency && v > worst || !latency && v < worst {
				worst, at = v, name
			}
			if latency && v < best || !latency && v > best {
				best = v
			}
		}
		prefix := side.name
		if several {
			prefix = size(s.total) + ", " + prefix
		}
		if n > 1 && best > 0 && worst > 0 && best != worst {
			share := worst / best
			if latency {
				share = best / worst
			}
			lines = append(lines, fmt.Sprintf("slowest %s: %s, %s %s, %s %% of the fastest's speed", prefix, at, f.scale.Format(worst), f.scale.Unit, unit.Significant(100*share, 3)))
		}
		if len(none) > 0 {
			lines = append(lines, fmt.Sprintf("no figure %s: %s", prefix, strings.Join(none, ", ")))
		}
	}
	return lines
}
