package matrix

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
)

// What a finding is of.
const (
	Pair  = "pair"
	Host  = "host"
	Rail  = "rail"
	Group = "switch group"
)

// Judge is how findings are made. The zero value is the default.
type Judge struct {
	Groups     map[string]string // the switch group of a host; hosts without one are in none
	MinEffect  float64           // the least part of its figure that something must be slow by; 0 is 0.05
	FalseAlarm float64           // chance that a mesh without anything slow has a finding, over all its matrices; 0 is 0.05
}

// Finding is something that is slow against the rest.
type Finding struct {
	Kind string `json:"kind"`
	// Host is the host, or the initiator of a pair; Peer the target of the pair.
	Host string `json:"host,omitempty"`
	Peer string `json:"peer,omitempty"`
	// Role is which of the figures are slow: "both" ways, or those as "initiator" or "target".
	Role  string `json:"role,omitempty"`
	Rail  string `json:"rail,omitempty"`
	Group string `json:"group,omitempty"`
	Other string `json:"other_group,omitempty"` // of a finding between two switch groups
	// Value is the figure, and Expected what the others let expect, in bytes a second or seconds; medians where it has several.
	Value    float64 `json:"value"`
	Expected float64 `json:"expected"`
	Change   float64 `json:"change"` // Value over Expected, less 1
	Slow     int     `json:"slow"`   // figures that are slow by half the least effect at least
	Of       int     `json:"of"`     // of so many
	// Score is how far out it lies, in the standard errors that the rests give it, and Critical what chance reaches in one of forty meshes.
	Score    float64  `json:"score"`
	Critical float64  `json:"critical"`
	Peers    []string `json:"peers,omitempty"` // of a host that is slow with some alone: with whom
	Hosts    []string `json:"hosts,omitempty"` // of a switch group: its hosts; of a host with several ranks: their names
}

// Failure is what has no figures.
type Failure struct {
	Host   string `json:"host"`           // all that was tried with it failed, or, with Peer, that pair
	Peer   string `json:"peer,omitempty"` // the target
	Cells  int    `json:"cells"`
	Reason string `json:"reason"` // the first
}

// Report is what one matrix says.
type Report struct {
	Layer        *Layer           `json:"-"`
	Key          results.Identity `json:"key"`
	Title        string           `json:"title"`
	Hosts        int              `json:"hosts"`
	Distribution *Distribution    `json:"distribution,omitempty"`
	// Noise is the spread of what neither pair nor host explains, as a part of a figure, and PairFound and HostFound how slow a pair, or a host, must be to be
	// found in it. Absent where there is too little to tell.
	Noise     *float64  `json:"noise,omitempty"`
	PairFound *float64  `json:"pair_found_from,omitempty"`
	HostFound *float64  `json:"host_found_from,omitempty"`
	Findings  []Finding `json:"findings,omitempty"`
	Failures  []Failure `json:"failures,omitempty"`
	Gap       *Gap      `json:"gap,omitempty"`    // what stands out where the figures are too few for findings
	Doubts    []string  `json:"doubts,omitempty"` // what could not be told, and why
}

// fewest is the least number of hosts that a slow one is told among.
const fewest = 4

// Reports judges the matrices. Of schedules of the same pairs the quietest is judged: each pair alone, or in rounds of pairs that share no host, before all
// at once, where what is slow is no longer the pair's own.
func (m *Mesh) Reports(j Judge) []Report {
	if j.MinEffect == 0 {
		j.MinEffect = 0.05
	}
	if j.FalseAlarm == 0 {
		j.FalseAlarm = 0.05
	}
	layers := m.Layers()
	quiet := quietest(layers)
	layers = slices.DeleteFunc(layers, func(l *Layer) bool { return quiet[without(l.Key)] != l })
	slices.SortStableFunc(layers, func(a, b *Layer) int {
		return cmp.Or(cmp.Compare(a.Key.Transport, b.Key.Transport), strings.Compare(a.Key.Definition, b.Key.Definition), cmp.Compare(a.Key.TotalBytes, b.Key.TotalBytes), natural(a.Key.Rail, b.Key.Rail))
	})
	var out []Report
	for _, l := range layers {
		out = append(out, j.judge(l, len(layers)))
	}
	j.rails(out)
	return out
}

// bothWays is what a schedule's name ends in where the two directions of each pair run at once.
const bothWays = ", both ways"

// busy says how much is going on beside a pair in a schedule: nothing, pairs of other hosts, or flows of its own hosts.
func busy(schedule string) int {
	switch strings.TrimSuffix(schedule, bothWays) {
	case "", "isolated":
		return 0
	case "all-pairs", "half", "ring":
		return 1
	}
	return 2
}

// without is what the schedules of the same pairs have in common.
func without(k results.Identity) results.Identity {
	if strings.HasSuffix(k.Schedule, bothWays) {
		k.Schedule = bothWays
	} else {
		k.Schedule = ""
	}
	return k
}

// quietest is, for each set of layers that differ in the schedule alone, the one with the least going on beside a pair.
func quietest(layers []*Layer) map[results.Identity]*Layer {
	out := map[results.Identity]*Layer{}
	for _, l := range layers {
		if q := out[without(l.Key)]; q == nil || busy(l.Key.Schedule) < busy(q.Key.Schedule) {
			out[without(l.Key)] = l
		}
	}
	return out
}

// Title is what the layer's figures are: definition, operation, size, path.
func (l *Layer) Title() string {
	k := l.Key
	parts := []string{k.Definition, k.Operation, sizeText(k)}
	if k.Direction == "both" {
		parts = append(parts, "both ways at once")
	}
	parts = append(parts, or(l.Label, k.Transport))
	if k.Rail != "" {
		parts = append(parts, "rail "+k.Rail)
	}
	if k.Schedule != "" {
		parts = append(parts, k.Schedule)
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ", ")
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// judged is a layer on its way to a report.
type judged struct {
	Judge
	*fit
	layer   *Layer
	hosts   []string
	ids     []int
	machine []string // of each host that is one of several ranks: the host
	group   []string // the switch group
	out     *Report
	least   float64 // the least effect, in the logarithm: negative
	many    int     // matrices of the mesh
	slow    []bool  // hosts that are slow by themselves, whose pairs are not judged
}

func (j Judge) judge(l *Layer, many int) Report {
	r := Report{Layer: l, Key: l.Key, Title: l.Title(), Distribution: DistributionOf(l.Values())}
	hosts := l.Hosts()
	r.Hosts = len(hosts)
	g := &judged{Judge: j, layer: l, hosts: hosts, ids: l.ids(hosts), out: &r, least: math.Log(1 - j.MinEffect), many: many}
	n := len(hosts)
	y := grid{n: n, y: make([]float64, n*n)}
	for a := range n {
		g.machine = append(g.machine, machine(hosts[a]))
		g.group = append(g.group, or(j.Groups[hosts[a]], j.Groups[g.machine[a]]))
		for b := range n {
			p := l.at(g.ids[a], g.ids[b])
			v := math.NaN()
			if p.state == measured && a != b {
				if v = math.Log(p.value); l.Latency() {
					v = -v
				}
			}
			y.y[a*n+b] = v
		}
	}
	y.kinds = make([]uint8, n*n)
	for a := range n {
		for b := range n {
			switch {
			case g.machine[a] == g.machine[b]:
				y.kinds[a*n+b] = inside
			case g.group[a] != "" && g.group[a] == g.group[b]:
				y.kinds[a*n+b] = within
			}
		}
	}
	g.failures()
	if l.again > 0 {
		g.doubt("%d cells of a pair that had a figure already are not used", l.again)
	}
	if n < fewest {
		g.few(y)
		return r
	}
	g.fit = polish(y)
	if g.cells <= g.parameters() || !(g.sigma >= 0) {
		g.doubt("%d figures of %d hosts are too few to tell a pair from its hosts", g.cells, n)
		g.gap(y)
		return r
	}
	g.sigma = max(g.sigma, 1e-6)
	g.slow = make([]bool, n)
	slow := g.slowHosts()
	g.explain()
	for _, u := range g.fold(g.fold(slow, g.machine, Host), g.group, Group) {
		r.Findings = append(r.Findings, u.finding)
	}
	g.pairFindings()
	return r
}

// machine is the host of a name: host/number is the name of one of its ranks.
func machine(name string) string {
	host, number, ok := strings.Cut(name, "/")
	if _, err := strconv.Atoi(number); !ok || err != nil || host == "" {
		return name
	}
	return host
}

func (g *judged) doubt(format string, args ...any) {
	g.out.Doubts = append(g.out.Doubts, fmt.Sprintf(format, args...))
}

// part is a number in the logarithm as a change of the figure: bandwidth falls, latency rises.
func (g *judged) change(log float64) float64 {
	if g.layer.Latency() {
		log = -log
	}
	return math.Exp(log) - 1
}

// base is a figure from its logarithm.
func (g *judged) base(log float64) float64 {
	if g.layer.Latency() {
		log = -log
	}
	return math.Exp(log)
}
