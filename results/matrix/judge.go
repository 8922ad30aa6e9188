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

// few says what little two or three hosts say.
func (g *judged) few(y grid) {
	switch {
	case y.n < 2:
		g.doubt("no pair has a figure")
		return
	case y.n == 2:
		g.doubt("two hosts are one pair: there is nothing to compare it with")
		return
	}
	// Three hosts: the pair that is fastest, and the host that is not in it.
	best, third, rest := math.Inf(-1), -1, math.Inf(-1)
	for h := range 3 {
		a, b := (h+1)%3, (h+2)%3
		v := math.Max(nan(y.at(a, b)), nan(y.at(b, a)))
		if v > best {
			best, rest, third = v, best, h
		} else {
			rest = max(rest, v)
		}
	}
	g.doubt("three hosts are too few to tell a slow host from a fast pair")
	if rest-best <= g.least && !math.IsInf(rest, 0) {
		a, b := g.hosts[(third+1)%3], g.hosts[(third+2)%3]
		g.doubt("%s and %s with each other are %s than either with %s: look at %s first", min(a, b), max(a, b), faster(g.layer.Latency(), best-rest), g.hosts[third], g.hosts[third])
	}
}

func faster(latency bool, log float64) string {
	if latency {
		return fmt.Sprintf("%.0f %% quicker", 100*(1-math.Exp(-log)))
	}
	return fmt.Sprintf("%.0f %% faster", 100*(math.Exp(log)-1))
}

func nan(v float64) float64 {
	if v != v {
		return math.Inf(-1)
	}
	return v
}

// explain says how much could be found, and what stands in the way.
func (g *judged) explain() {
	noise := 1 - math.Exp(-g.sigma)
	pair := 1 - math.Exp(math.Min(g.least, -g.sigma*g.farPair()))
	typical := slices.Clone(g.degree)
	slices.Sort(typical)
	host := 1 - math.Exp(math.Min(g.least, -g.sigma*g.criticalHost()/math.Sqrt(float64(typical[len(typical)/2]))))
	g.out.Noise, g.out.PairFound, g.out.HostFound = &noise, &pair, &host
	if g.oneWay {
		g.doubt("most pairs were measured one way alone: whether a host is slow as initiator or as target cannot be told")
	}
	var thin []string
	for h, d := range g.degree {
		if d < 3 {
			thin = append(thin, g.hosts[h])
		}
	}
	if len(thin) > 0 {
		g.doubt("%s with fewer than three figures cannot be judged: %s", hostsText(len(thin)), some(thin, 8))
	}
	// What the hosts' own parts do not explain.
	if both, low, high, share := levels(g.rest, g.least, 20); both {
		a, b := g.base(g.normal()+low), g.base(g.normal()+high)
		g.doubt("the figures fall into two groups, %.0f %% near %s and the others near %s: what is normal cannot be told from these alone", 100*share, g.layer.Figure(a), g.layer.Figure(b))
	}
}

func hostsText(n int) string {
	if n == 1 {
		return "1 host"
	}
	return fmt.Sprintf("%d hosts", n)
}

// some is the first of names, and how many more there are.
func some(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// levels says whether figures fall into two groups: a fifth of them at least in either, further apart than the least effect, and the parting explains nine
// tenths of their variance (of one normal population it explains 64 %, of one that is even over a range 75 %).
func levels(y []float64, least float64, fewest int) (two bool, low, high, share float64) {
	v := slices.DeleteFunc(slices.Clone(y), func(x float64) bool { return x != x })
	n := len(v)
	if n < fewest {
		return false, 0, 0, 0
	}
	slices.Sort(v)
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	mean := sum / float64(n)
	all := 0.0
	for _, x := range v {
		all += (x - mean) * (x - mean)
	}
	best, at, part := 0.0, 0, 0.0
	for k := 1; k < n; k++ {
		part += v[k-1]
		a, b := part/float64(k), (sum-part)/float64(n-k)
		if s := float64(k)*(a-mean)*(a-mean) + float64(n-k)*(b-mean)*(b-mean); s > best {
			best, at = s, k
		}
	}
	if all == 0 || best/all < 0.9 || at*5 < n || (n-at)*5 < n {
		return false, 0, 0, 0
	}
	low, high = median(v[:at]), median(v[at:])
	return low-high <= least, low, high, float64(at) / float64(n)
}

// failures says which hosts have nothing but failures, and which pairs failed besides.
func (g *judged) failures() {
	n := len(g.hosts)
	tried, bad := make([]int, n), make([]int, n)
	var pairs [][2]int
	gone := 0
	for a := range n {
		for b := range n {
			switch g.layer.at(g.ids[a], g.ids[b]).state {
			case failed:
				pairs = append(pairs, [2]int{a, b})
				bad[a]++
				bad[b]++
			case waived:
				gone++
				continue
			case unknown:
				continue
			}
			tried[a]++
			tried[b]++
		}
	}
	if gone > 0 {
		g.doubt("%d pairs were waived: this transport does not run there", gone)
	}
	whole := make([]bool, n)
	dead := 0
	for h := range n {
		if whole[h] = tried[h] > 1 && bad[h] == tried[h]; whole[h] {
			dead++
		}
	}
	if dead == n { // everything failed: no host is the cause
		clear(whole)
	}
	of := map[int]int{}
	for _, p := range pairs {
		r := g.layer.open(g.layer.at(g.ids[p[0]], g.ids[p[1]])).Reason
		h := p[0]
		if !whole[h] {
			h = p[1]
		}
		if whole[h] {
			if k, ok := of[h]; ok {
				g.out.Failures[k].Cells++
				continue
			}
			of[h] = len(g.out.Failures)
			g.out.Failures = append(g.out.Failures, Failure{Host: g.hosts[h], Cells: 1, Reason: r})
			continue
		}
		g.out.Failures = append(g.out.Failures, Failure{Host: g.hosts[p[0]], Peer: g.hosts[p[1]], Cells: 1, Reason: r})
	}
}
