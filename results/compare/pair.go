package compare

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// CellName words an identity in one line: transport/operation/definition/size, then what is not the plain case.
// Patterns match it.
func CellName(id results.Identity) string {
	var b strings.Builder
	b.WriteString(id.Transport + "/" + id.Operation + "/" + id.Definition + "/" + strings.ReplaceAll(unit.Bytes(id.TotalBytes), " ", ""))
	add := func(format string, args ...any) { fmt.Fprintf(&b, "/"+format, args...) }
	if id.Direction != "" && id.Direction != "forward" {
		add("%s", id.Direction)
	}
	if id.Descriptors > 1 {
		add("%dx%s", id.Descriptors, strings.ReplaceAll(unit.Bytes(id.PieceBytes), " ", ""))
	}
	if id.Pattern != "" && id.Pattern != "contiguous" {
		add("%s", id.Pattern)
	}
	for _, n := range []struct {
		name string
		v    int64
	}{{"depth", id.Depth}, {"streams", id.Streams}, {"concurrency", id.Concurrency}} {
		if n.v > 1 {
			add("%s=%d", n.name, n.v)
		}
	}
	if id.InitiatorMemory != "host" || id.TargetMemory != "host" {
		add("%s>%s", id.InitiatorMemory, id.TargetMemory)
	}
	if id.InitiatorGPUWay+id.TargetGPUWay != "" {
		add("gpu=%s>%s", id.InitiatorGPUWay, id.TargetGPUWay)
	}
	if id.Wait != "" && id.Wait != "adaptive" {
		add("wait=%s", id.Wait)
	}
	if id.Realm != "" && id.Realm != results.RealmHardware {
		add("%s", id.Realm)
	}
	for _, s := range []struct{ name, v string }{{"rail", id.Rail}, {"from", id.InitiatorHost}, {"to", id.TargetHost}, {"schedule", id.Schedule}} {
		if s.v != "" {
			add("%s=%s", s.name, s.v)
		}
	}
	if id.RateBytesPerSecond > 0 {
		add("rate=%s", strings.ReplaceAll(unit.Rate(float64(id.RateBytesPerSecond)), " ", ""))
	}
	return b.String()
}

// Match reports whether the pattern covers the whole name. A star stands for any run of characters, a
// slash included; a question mark for one.
func Match(pattern, name string) bool {
	p, n, star, from := 0, 0, -1, 0
	for n < len(name) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, from = p, n
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == name[n]):
			p++
			n++
		case star >= 0:
			from++
			p, n = star+1, from
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == '*' {
		p++
	}
	return p == len(pattern)
}

func matchAny(patterns []string, name string, used map[string]bool) bool {
	hit := len(patterns) == 0
	for _, p := range patterns {
		if Match(p, name) {
			used[p], hit = true, true
		}
	}
	return hit
}

// keys of an identity that may be let differ. A definition never may: two definitions are two quantities.
func crossable() []string {
	names := []string{"path"}
	t := reflect.TypeFor[results.Identity]()
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "definition" {
			names = append(names, name)
		}
	}
	return names
}

func checkAcross(across []string) error {
	for _, a := range across {
		if a == "definition" {
			return fmt.Errorf("cells of different definitions cannot be compared: they are two quantities")
		}
		if !slices.Contains(crossable(), a) {
			return fmt.Errorf("unknown key %q to compare across (%s)", a, strings.Join(crossable(), ", "))
		}
	}
	return nil
}

// without is the identity with the named keys emptied.
func without(id results.Identity, across []string) results.Identity {
	if len(across) == 0 {
		return id
	}
	v := reflect.ValueOf(&id).Elem()
	for i := range v.NumField() {
		if name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); slices.Contains(across, name) {
			v.Field(i).SetZero()
		}
	}
	return id
}

// differences names the keys in which two identities differ.
func differences(a, b results.Identity) []string {
	var out []string
	x, y := reflect.ValueOf(a), reflect.ValueOf(b)
	for i := range x.NumField() {
		if !x.Field(i).Equal(y.Field(i)) {
			name, _, _ := strings.Cut(x.Type().Field(i).Tag.Get("json"), ",")
			out = append(out, fmt.Sprintf("%s: %v, then %v", strings.ReplaceAll(name, "_", " "), orNone(x.Field(i)), orNone(y.Field(i))))
		}
	}
	return out
}

func orNone(v reflect.Value) any {
	if v.IsZero() {
		return "none"
	}
	return v.Interface()
}

// pairUp pairs the cells of both sides, in the order of their names.
func pairUp(old, new *Set, across []string) []pair {
	var pairs []pair
	left := map[results.Identity]*cell{} // of new, not yet paired
	byKey := map[results.Identity][]results.Identity{}
	for id, c := range new.cells {
		left[id] = c
		k := without(id, across)
		byKey[k] = append(byKey[k], id)
	}
	oldKeys := map[results.Identity]int{}
	for id := range old.cells {
		oldKeys[without(id, across)]++
	}
	var alone []results.Identity
	for _, id := range sorted(old.cells) {
		k := without(id, across)
		candidates := byKey[k]
		if len(candidates) == 0 {
			alone = append(alone, id)
			continue
		}
		if len(candidates) > 1 || oldKeys[k] > 1 {
			// Several cells fall together when keys are let differ: only those alike in all keys are a pair.
			if _, same := new.cells[id]; !same {
				pairs = append(pairs, pair{id: id, row: &Row{Identity: id, Metric: familyMetric(id.Definition), Verdict: NotComparable,
					Reason: fmt.Sprintf("%d old and %d new cells are alike in all but %s", oldKeys[k], len(candidates), strings.Join(across, ", "))}})
				continue
			}
			candidates = []results.Identity{id}
		}
		other := candidates[0]
		delete(left, other)
		p := pair{id: id, old: old.cells[id], new: new.cells[other]}
		p.settle(across)
		if other != id && p.row == nil {
			p.old.label = p.old.label + " against " + p.new.label
			p.new.label = ""
		}
		pairs = append(pairs, p)
	}
	for _, id := range alone {
		pairs = append(pairs, explainAlone(id, old.cells[id], new, left))
	}
	for _, id := range sorted(left) {
		c := left[id]
		if len(c.series) == 0 && len(c.broken) == 0 {
			continue // waived, and old has nothing of it either
		}
		row := &Row{Identity: id, Label: c.label, Metric: familyMetric(id.Definition), Verdict: Added, Reason: "only in new"}
		row.NewSamples = len(c.series[row.Metric])
		row.New = medianOf(c.series[row.Metric])
		if len(c.broken) > 0 {
			row.Reason += ": " + c.broken[0]
		}
		pairs = append(pairs, pair{id: id, row: row})
	}
	return slices.DeleteFunc(pairs, func(p pair) bool { return p.row != nil && p.row.Verdict == "" })
}

// settle gives the row where the evidence already decides: waived on a side, or another path.
func (p *pair) settle(across []string) {
	row := &Row{Identity: p.id, Label: orSay(p.new.label, p.old.label), Metric: familyMetric(p.id.Definition)}
	measured := func(c *cell) bool { return len(c.series) > 0 || len(c.broken) > 0 }
	switch {
	case !measured(p.old) && !measured(p.new):
		p.row = row // waived on both sides: no row; an empty verdict is dropped
	case !measured(p.new):
		row.Verdict, row.Reason = Missing, "new: waived: "+orSay(first(p.new.waived), "no reason given")
		row.Old, row.OldSamples = medianOf(p.old.series[row.Metric]), len(p.old.series[row.Metric])
		p.row = row
	case !measured(p.old):
		row.Verdict, row.Reason = Added, "old: waived: "+orSay(first(p.old.waived), "no reason given")
		row.New, row.NewSamples = medianOf(p.new.series[row.Metric]), len(p.new.series[row.Metric])
		p.row = row
	case slices.Contains(across, "path"):
	case len(p.old.paths) > 1:
		row.Verdict, row.Reason = NotComparable, "path: the old runs took different ways: "+strings.Join(p.old.paths, "; ")
		p.row = row
	case len(p.new.paths) > 1:
		row.Verdict, row.Reason = NotComparable, "path: the new runs took different ways: "+strings.Join(p.new.paths, "; ")
		p.row = row
	case len(p.old.paths) == 1 && len(p.new.paths) == 1 && p.old.paths[0] != p.new.paths[0] && len(across) == 0:
		row.Verdict, row.Reason = NotComparable, "path: "+p.old.paths[0]+", then "+p.new.paths[0]
		p.row = row
	}
}

// explainAlone looks for what a cell without its equal was perhaps meant to be compared with.
func explainAlone(id results.Identity, c *cell, new *Set, left map[results.Identity]*cell) pair {
	row := &Row{Identity: id, Label: c.label, Metric: familyMetric(id.Definition), Verdict: Missing, Reason: "only in old"}
	row.Old, row.OldSamples = medianOf(c.series[row.Metric]), len(c.series[row.Metric])
	if len(c.series) == 0 && len(c.broken) == 0 {
		row.Verdict = "" // waived
		return pair{id: id, row: row}
	}
	best, fewest := results.Identity{}, 4
	for _, other := range sorted(left) {
		near := other.Transport == id.Transport && other.Operation == id.Operation && other.TotalBytes == id.TotalBytes &&
			familyMetric(other.Definition) == row.Metric && other.Direction == id.Direction
		if n := len(differences(id, other)); near && n < fewest {
			best, fewest = other, n
		}
	}
	if fewest < 4 {
		row.Verdict, row.Reason = NotComparable, strings.Join(differences(id, best), "; ")
		delete(left, best)
		return pair{id: id, row: row}
	}
	for other, w := range new.cells {
		if other.Transport == id.Transport && len(w.waived) > 0 && len(w.series) == 0 {
			row.Reason = "new: waived: " + w.waived[0]
		}
	}
	return pair{id: id, row: row}
}

func first(s []string) string {
	if len(s) == 0 {
		return ""
	}
	return s[0]
}

func medianOf(v []observation) *float64 {
	if len(v) == 0 {
		return nil
	}
	values := make([]float64, len(v))
	for i, o := range v {
		values[i] = o.value
	}
	m := median(values)
	if math.IsNaN(m) {
		return nil
	}
	return &m
}

func sorted(cells map[results.Identity]*cell) []results.Identity {
	ids := make([]results.Identity, 0, len(cells))
	for id := range cells {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b results.Identity) int {
		return cmp.Or(strings.Compare(a.Transport, b.Transport), strings.Compare(a.Operation, b.Operation),
			strings.Compare(a.Definition, b.Definition), cmp.Compare(a.TotalBytes, b.TotalBytes), strings.Compare(CellName(a), CellName(b)))
	})
	return ids
}
