package report

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hopbench/results"
	"hopbench/results/unit"
)

// evidence finds or adds what stands behind a cell's path, and returns its number; 0 where the file has none.
func (r *Report) evidence(c *results.Cell, file string) int {
	e := Evidence{Label: orElse(c.Label, c.Transport)}
	if c.Path != nil {
		for _, s := range []struct {
			name string
			side *results.Side
		}{{"initiator", c.Path.Initiator}, {"target", c.Path.Target}} {
			if s.side != nil {
				e.Sides = append(e.Sides, sideOf(s.name, s.side))
			}
		}
	}
	if l := c.Limit; l != nil {
		line := "physical limit: " + l.Source
		if l.BytesPerSecond != nil {
			line = "physical limit: " + unit.Rate(*l.BytesPerSecond) + " by " + l.Source
		}
		e.Counters = append(e.Counters, line)
	}
	if n := c.Counters; n != nil && n.Source != "" {
		// The counts differ from cell to cell; which witness was asked, and whether it agreed, do not.
		line := "bytes counted by " + n.Source
		if n.Agree != nil {
			line += map[bool]string{true: ", which agrees with the payload", false: ", which DISAGREES with the payload"}[*n.Agree]
		}
		e.Counters = append(e.Counters, line)
	}
	if len(e.Sides) == 0 && len(e.Counters) == 0 {
		return 0
	}
	e.signature = fmt.Sprint(e.Label, e.Sides, e.Counters)
	for i := range r.Evidence {
		if have := &r.Evidence[i]; have.signature == e.signature {
			if !slices.Contains(have.Files, file) {
				have.Files = append(have.Files, file)
			}
			return have.N
		}
	}
	e.N, e.Files = len(r.Evidence)+1, []string{file}
	r.Evidence = append(r.Evidence, e)
	return e.N
}

func sideOf(name string, s *results.Side) Side {
	out := Side{Name: name, Lines: s.Evidence}
	add := func(key, value string) {
		if value != "" {
			out.Facts = append(out.Facts, [2]string{key, value})
		}
	}
	number := func(v *int64) string {
		if v == nil {
			return ""
		}
		return strconv.FormatInt(*v, 10)
	}
	yes := func(v *bool) string {
		if v == nil {
			return ""
		}
		return map[bool]string{true: "yes", false: "no"}[*v]
	}
	add("device", s.Device)
	add("port", number(s.Port))
	add("network device", s.Netdev)
	add("address", s.Address)
	add("peer's address", s.Remote)
	add("link layer", s.LinkLayer)
	add("GID", s.GID)
	add("GID index", number(s.GIDIndex))
	add("GID type", s.GIDType)
	add("path MTU, bytes", number(s.PathMTUBytes))
	add("GPU way", s.GPUWay)
	add("NUMA node", number(s.NUMANode))
	add("PCI distance", s.PCIDistance)
	add("NVLinks", number(s.NVLinks))
	add("NVLink version", s.NVLinkVersion)
	add("route", s.Route)
	add("same host", yes(s.SameHost))
	add("virtual device", yes(s.Virtual))
	add("memory", s.Memory)
	for _, k := range slices.Sorted(maps.Keys(s.Settings)) {
		add(k, s.Settings[k])
	}
	return out
}

// Meaning is what a definition means.
type Meaning struct{ ID, Text string }

// meanings are the definitions of harness/METHOD.md in a sentence each, in the order of a report.
var meanings = []Meaning{
	{"bandwidth.confirmed", "Payload bytes over the time from the first post to the last confirmed completion, on the initiator's monotonic clock. Confirmed is the acknowledgement of reliable RDMA straight into the target's memory, the target's own message over TCP and wherever the target is staged, and the stream's event between GPUs of one process."},
	{"bandwidth.notified", "The same, ended by the target's reply to a notification that follows the data, which is what a decode worker waits for; half a round trip is in it."},
	{"latency.half_rtt", "Half of a round trip of a ping-pong."},
	{"latency.completion", "From post to completion: reads, and writes that the target only acknowledges."},
}

// rules hold for every figure.
var rules = []Meaning{
	{"GB, GiB", "GB is 10^9 bytes, GiB is 2^30; GB/s is 10^9 bytes a second."},
	{"median and interval", "A figure is the median of its rounds; low and high bound it with 95 % confidence by order statistics. Not converged: the interval is wider than 2.5 %."},
	{"slowest", "The bandwidth of the slowest window of any round; a window is the longer of 10 ms and 16 completions. Intermittent trouble hides in means."},
	{"percentiles", "From all samples. p99 needs 100 of them and p99.9 needs 1000; with fewer it is absent, which is not zero."},
	{"realm", "Hardware is a real device. Software is a kernel that moves bytes with no link (rxe, the loopback device, veth). Emulated is inside a software-emulated machine, whose speed is no hardware's."},
	{"provenance", "A figure is measured unless it says that it is a reference (stated by a source) or projected (computed from others)."},
	{"TTFT", "Time to first token, projected: transfer times from measured or stated links, the rest from a simulation of prefill, queues and decode. bench/ttft/METHOD.md has the formulas."},
}

func meaningOf(definition string) string {
	for _, m := range meanings {
		if m.ID == definition {
			return m.Text
		}
	}
	return "A definition of another tool or a newer version, which this version only names."
}

// meaningsOf are the definitions that the runs use, then the rules.
func meaningsOf(runs []results.Run) []Meaning {
	used := map[string]bool{}
	for _, r := range runs {
		for _, c := range r.Cells {
			if c.HasFigure() && c.Definition != "" {
				used[c.Definition] = true
			}
		}
	}
	var out []Meaning
	ids := slices.Sorted(maps.Keys(used))
	slices.SortStableFunc(ids, func(a, b string) int { return definitionRank(a) - definitionRank(b) })
	for _, id := range ids {
		out = append(out, Meaning{id, meaningOf(id)})
	}
	return append(out, rules...)
}

// Hosts are fingerprints side by side: a row a property, a column a host.
type Hosts struct {
	Names []string
	Rows  []HostRow
}

// HostRow is one property of all hosts.
type HostRow struct {
	Name    string
	Values  []string
	Differs bool // the hosts are not alike in it
}

func hostsOf(runs []results.Run) Hosts {
	var h Hosts
	var columns []map[string]string
	var order []string
	seen := map[string]bool{}
	for _, r := range runs {
		for _, host := range r.Header.Hosts {
			facts := hostFacts(&host)
			column := map[string]string{}
			for _, f := range facts {
				column[f[0]] = f[1]
				if !slices.Contains(order, f[0]) {
					order = append(order, f[0])
				}
			}
			key := fmt.Sprint(host.Hostname, facts)
			if seen[key] {
				continue
			}
			seen[key] = true
			h.Names = append(h.Names, orElse(host.Hostname, "host without a name"))
			columns = append(columns, column)
		}
	}
	for _, name := range order {
		row := HostRow{Name: name}
		for _, c := range columns {
			row.Values = append(row.Values, orElse(c[name], "-"))
			row.Differs = row.Differs || c[name] != columns[0][name]
		}
		h.Rows = append(h.Rows, row)
	}
	return h
}

func hostFacts(h *results.Host) (out [][2]string) {
	add := func(name, value string) {
		if value != "" {
			out = append(out, [2]string{name, value})
		}
	}
	count := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	size := func(n *int64) string {
		if n == nil {
			return ""
		}
		return fmt.Sprintf("%.1f GiB", float64(*n)/(1<<30))
	}
	add("role", h.Role)
	add("CPU", h.CPUModel)
	add("CPUs", count(h.CPUs))
	add("NUMA nodes", count(h.NUMANodes))
	add("memory", size(h.MemoryBytes))
	add("operating system", h.OS)
	add("kernel", h.Kernel)
	add("architecture", h.Architecture)
	add("virtualisation", h.Virtualisation)
	add("container", h.Container)
	add("clock source", h.ClockSource)
	add("governor", h.Governor)
	add("congestion control", h.CongestionControl)
	for i, g := range h.GPUs {
		var parts []string
		for _, p := range []string{g.Name, size(g.MemoryBytes), g.PCI, before("driver ", g.DriverVersion), before("CUDA ", g.CUDAVersion), before("NVLinks ", count(g.NVLinks)), before("NUMA node ", count(g.NUMANode))} {
			if p != "" {
				parts = append(parts, p)
			}
		}
		add(fmt.Sprintf("GPU %d", i), strings.Join(parts, ", "))
	}
	for _, n := range h.NICs {
		rate := ""
		if n.RateBitsPerSecond != nil {
			rate = unit.Bits(float64(*n.RateBitsPerSecond) / 8)
		}
		virtual := ""
		if n.Virtual != nil && *n.Virtual {
			virtual = "virtual"
		}
		var parts []string
		for _, p := range []string{n.RDMADevice, n.Driver, before("firmware ", n.Firmware), n.PCI, n.LinkLayer, rate, before("MTU ", count(n.MTUBytes)), before("NUMA node ", count(n.NUMANode)), virtual} {
			if p != "" {
				parts = append(parts, p)
			}
		}
		add("NIC "+n.Device, orElse(strings.Join(parts, ", "), "present"))
	}
	add("Go", h.GoVersion)
	add("hopbench", strings.TrimSpace(h.ToolVersion+" "+h.ToolCommit))
	return out
}

func before(word, s string) string {
	if s == "" {
		return ""
	}
	return word + s
}
