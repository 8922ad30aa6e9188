package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// summarise says in sentences what was measured, with the numbers named: for each path its bandwidth at the largest size and its
// latency at the smallest, never an average over sizes.
func (r *Report) summarise() {
	type best struct {
		row   *Row
		group *Group
	}
	cells, open, partial := 0, 0, 0
	rates, times := map[string]best{}, map[string]best{}
	var paths []string
	for i := range r.Groups {
		g := &r.Groups[i]
		bandwidth := strings.HasPrefix(g.Definition, "bandwidth")
		for j := range g.Rows {
			row := &g.Rows[j]
			cells++
			if strings.Contains(row.at(g, "status"), "not converged") {
				open++
			}
			if row.Status == "partial" {
				partial++
			}
			key := row.at(g, "path") + "\x00" + row.at(g, "realm")
			if !slices.Contains(paths, key) {
				paths = append(paths, key)
			}
			better := func(m map[string]best, larger bool) {
				have, ok := m[key]
				if !ok || summaryRank(row, g) < summaryRank(have.row, have.group) ||
					summaryRank(row, g) == summaryRank(have.row, have.group) && (row.size(g) > have.row.size(have.group)) == larger && row.size(g) != have.row.size(have.group) {
					m[key] = best{row, g}
				}
			}
			if bandwidth {
				better(rates, true)
			} else {
				better(times, false)
			}
		}
	}
	absent := map[string]int{}
	for _, w := range r.Waived {
		absent[w.Status]++
	}
	if cells == 0 {
		r.Summary = append(r.Summary, "Nothing was measured: no cell of these files has a figure.")
	} else {
		r.Summary = append(r.Summary, fmt.Sprintf("%s on %s gave %s.", counted(len(paths), "path"), counted(len(r.Hosts.Names), "host"), counted(cells, "figure")))
	}
	const mostPaths = 12
	for i, key := range paths {
		if i == mostPaths {
			r.Summary = append(r.Summary, fmt.Sprintf("%d more paths stand in the tables.", len(paths)-mostPaths))
			break
		}
		label, realm, _ := strings.Cut(key, "\x00")
		var parts []string
		if b, ok := rates[key]; ok {
			low, high := b.row.at(b.group, "low"), b.row.at(b.group, "high")
			text := fmt.Sprintf("%s GB/s at %s (%s, %s", b.row.at(b.group, "GB/s"), b.row.at(b.group, "size"), b.group.Definition, b.row.at(b.group, "operation"))
			if low != "-" {
				text += fmt.Sprintf(", 95 %% interval %s to %s", low, high)
			}
			parts = append(parts, text+")")
		}
		if b, ok := times[key]; ok {
			parts = append(parts, fmt.Sprintf("median latency %s µs at %s (%s, %s)", b.row.at(b.group, "p50 µs"), b.row.at(b.group, "size"), b.group.Definition, b.row.at(b.group, "operation")))
		}
		name := label
		if realm != "-" {
			name += " (" + realm + ")"
		}
		r.Summary = append(r.Summary, name+": "+strings.Join(parts, "; ")+".")
	}
	if open > 0 {
		r.Summary = append(r.Summary, fmt.Sprintf("%d of %s did not converge: the interval of the median is wider than 2.5 %%.", open, counted(cells, "figure")))
	}
	if partial > 0 {
		r.Summary = append(r.Summary, counted(partial, "figure")+" of cells that were stopped early.")
	}
	for _, s := range []string{"waived", "failed"} {
		if n := absent[s]; n > 0 {
			var names []string
			for _, w := range r.Waived {
				if w.Status == s && !slices.Contains(names, w.Label) {
					names = append(names, w.Label)
				}
			}
			if len(names) > 6 {
				names = append(names[:6], fmt.Sprintf("%d more", len(names)-6))
			}
			r.Summary = append(r.Summary, map[string]string{"waived": "Could not run here", "failed": "Failed"}[s]+": "+strings.Join(names, ", ")+"; the reasons stand below.")
		}
	}
}

func counted(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// at is the text of a row beneath a head.
func (row *Row) at(g *Group, head string) string {
	for i, h := range g.Heads {
		if h.Text == head {
			return row.Cells[i].Text
		}
	}
	return "-"
}

func (row *Row) size(g *Group) int64 {
	for i, h := range g.Heads {
		if h.Text == "size" {
			n, _ := strconv.ParseInt(row.Cells[i].Sort, 10, 64) // no size is the smallest
			return n
		}
	}
	return 0
}

// summaryRank orders the cells that could speak for a path: the plain forward write by the first definition comes first.
func summaryRank(row *Row, g *Group) int {
	at := func(list []string, s string) int {
		if i := slices.Index(list, s); i >= 0 {
			return i
		}
		return len(list)
	}
	return definitionRank(g.Definition)<<8 + at([]string{"forward", "reverse", "both"}, row.at(g, "direction"))<<4 + at([]string{"write", "read", "send"}, row.at(g, "operation"))
}
