package curve

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"hopbench/results"
)

// Selection chooses among the cells of a mesh: many pairs of hosts, and schedules in which they run alone or together.
type Selection struct {
	// Schedule is the one to take, such as "incast"; "loaded" is the only one of several flows that the cells have. Empty: each pair alone, or else
	// the rounds of pairs that share no host.
	Schedule string
	// Pair is "median" or "slowest", of all pairs and for each cell on its own, or two hosts, "node1,node7". Empty is median.
	Pair string
}

// Loaded is the schedule that stands for the only one of several flows.
const Loaded = "loaded"

// Take gives the cells as if there were one pair and no schedule, with both in their labels. Cells that are of no mesh stay as they are, unless a schedule is
// asked for that they are not of. An error names the schedules, or the hosts, that there are.
func (s Selection) Take(cells []results.Cell) ([]results.Cell, error) {
	schedule, err := s.resolve(cells)
	if err != nil {
		return nil, err
	}
	pairs := map[string]bool{} // schedules that have pairs: their rows without hosts are sums of flows, which no request is
	for i := range cells {
		if ofPair(&cells[i]) {
			pairs[cells[i].Schedule] = true
		}
	}
	groups := map[results.Identity][]results.Cell{}
	var order []results.Identity
	var out []results.Cell
	hosts := map[string]bool{}
	for _, c := range cells {
		switch {
		case !ofPair(&c) && pairs[c.Schedule]:
			continue
		case schedule == "" && !ofPair(&c):
			out = append(out, c)
			continue
		case schedule != "" && c.Schedule != schedule:
			continue
		}
		if !ofPair(&c) {
			c.Label, c.Schedule = or(c.Label, c.Transport)+", "+schedule, ""
			out = append(out, c)
			continue
		}
		hosts[c.InitiatorHost], hosts[c.TargetHost] = true, true
		if a, b, two := strings.Cut(s.Pair, ","); two && (c.InitiatorHost != strings.TrimSpace(a) || c.TargetHost != strings.TrimSpace(b)) {
			continue
		}
		if c.Direction == "reverse" { // the hosts of such a row are exchanged already
			c.Direction = "forward"
		}
		k := c.Identity()
		k.InitiatorHost, k.TargetHost = "", ""
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], c)
	}
	if strings.Contains(s.Pair, ",") && len(order) == 0 {
		return nil, fmt.Errorf("no row is of the pair %s; the hosts are %s", s.Pair, list(hosts))
	}
	quiet := map[results.Identity]int{}
	if schedule == "" {
		for _, k := range order {
			bare := k
			bare.Schedule = ""
			if b, ok := quiet[bare]; !ok || busy(k.Schedule) < b {
				quiet[bare] = busy(k.Schedule)
			}
		}
	}
	for _, k := range order {
		bare := k
		bare.Schedule = ""
		if schedule == "" && busy(k.Schedule) != quiet[bare] {
			continue
		}
		if schedule == "" && busy(k.Schedule) == 2 { // nothing else was measured: it must be asked for, and is skipped with its reason
			out = append(out, groups[k]...)
			continue
		}
		out = append(out, s.one(groups[k]))
	}
	return out, nil
}

// resolve is the schedule that is asked for, "" for the quietest.
func (s Selection) resolve(cells []results.Cell) (string, error) {
	switch {
	case s.Pair == "" || s.Pair == "median" || s.Pair == "slowest":
	default:
		if a, b, two := strings.Cut(s.Pair, ","); !two || strings.TrimSpace(a) == "" || strings.TrimSpace(b) == "" || strings.Contains(b, ",") {
			return "", fmt.Errorf("a pair is median, slowest, or two hosts with a comma between, not %q", s.Pair)
		}
	}
	if s.Schedule == "" {
		return "", nil
	}
	have, loaded := map[string]bool{}, map[string]bool{}
	for i := range cells {
		if name := cells[i].Schedule; name != "" {
			have[name] = true
			if busy(name) == 2 {
				loaded[name] = true
			}
		}
	}
	if s.Schedule == Loaded && !have[Loaded] {
		switch len(loaded) {
		case 1:
			for name := range loaded {
				return name, nil
			}
		case 0:
			return "", fmt.Errorf("no schedule has several flows at once; there are %s", list(have))
		}
		return "", fmt.Errorf("several schedules are loaded: %s", list(loaded))
	}
	if !have[s.Schedule] {
		return "", fmt.Errorf("no row is of the schedule %q; there are %s", s.Schedule, list(have))
	}
	return s.Schedule, nil
}

// one is the cell of the pair that is asked for.
func (s Selection) one(cells []results.Cell) results.Cell {
	slices.SortStableFunc(cells, func(a, b results.Cell) int { return cmp.Compare(slowness(&a), slowness(&b)) })
	figures := len(cells)
	for figures > 0 && !cells[figures-1].HasFigure() {
		figures--
	}
	c := cells[0]
	label := or(c.Label, c.Transport)
	switch {
	case len(cells) == 1 || figures == 0:
		label += ", " + c.InitiatorHost + " to " + c.TargetHost
	case s.Pair == "slowest":
		c = cells[figures-1]
		label = or(c.Label, c.Transport) + ", slowest pair"
	default:
		c = cells[figures/2]
		label = or(c.Label, c.Transport) + ", median pair" // no count: cells of one path would have several where one pair failed at a size
	}
	if c.Schedule != "" && c.Schedule != "isolated" {
		label += ", " + c.Schedule
	}
	c.Label, c.Schedule, c.InitiatorHost, c.TargetHost = label, "", "", ""
	return c
}

// slowness orders cells by how slow they are; those without a figure are last.
func slowness(c *results.Cell) float64 {
	switch {
	case !c.HasFigure():
		return 1e300
	case c.Bandwidth != nil && c.Bandwidth.BytesPerSecond > 0:
		return 1 / c.Bandwidth.BytesPerSecond
	case c.Latency != nil && c.Latency.P50Seconds != nil:
		return *c.Latency.P50Seconds
	}
	return 1e300
}

func ofPair(c *results.Cell) bool { return c.InitiatorHost != "" && c.TargetHost != "" }

// busy is how much goes on beside a pair in a schedule: nothing, pairs of other hosts, or other flows of its own hosts.
func busy(schedule string) int {
	switch schedule {
	case "", "isolated":
		return 0
	case "all-pairs", "half", "ring":
		return 1
	}
	return 2
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// list is the names in order, the first of many.
func list(names map[string]bool) string {
	var out []string
	for n := range names {
		out = append(out, n)
	}
	slices.Sort(out)
	if len(out) > 8 {
		out = append(out[:8], fmt.Sprintf("and %d more", len(names)-8))
	}
	if len(out) == 0 {
		return "none"
	}
	return strings.Join(out, ", ")
}
