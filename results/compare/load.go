package compare

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"hopbench/results"
)

// A Set is one side of a comparison: what is kept of its result files, samples and evidence and no more, so
// that a thousand files fit.
type Set struct {
	Files    []string // in the order of their start
	Warnings []string // of reading them: a truncated line, an interrupted run

	runs  []run
	cells map[results.Identity]*cell
}

// run is one file: one process that measured.
type run struct {
	file    string
	started time.Time
	host    string // hostname, kernel, CPU
	tool    string // version and commit
}

// cell is one identity over the runs of a set.
type cell struct {
	label   string
	paths   []string // distinct path evidence
	series  map[string][]observation
	broken  []string // why a run of it gives no figure: failed, not verified, a value that is none
	waived  []string
	partial int
}

// observation is one sample.
type observation struct {
	value float64
	run   int // index into Set.runs
}

// pathOf words the evidence of one side that makes two paths different ones.
func pathOf(s *results.Side) string {
	if s == nil {
		return "?"
	}
	var parts []string
	add := func(name, v string) {
		if v != "" {
			parts = append(parts, name+v)
		}
	}
	add("", s.LinkLayer)
	add("", s.GIDType)
	if s.PathMTUBytes != nil {
		add("MTU ", fmt.Sprint(*s.PathMTUBytes))
	}
	add("", s.GPUWay)
	if s.NVLinks != nil {
		add("NVLink x", fmt.Sprint(*s.NVLinks))
	}
	add("NVLink ", s.NVLinkVersion)
	add("", s.Route)
	return strings.Join(parts, ", ")
}

// Metrics that a comparison can look at; the first two are the default. The others are one figure
// a run, and need several runs a side.
const (
	Bandwidth = "bandwidth"   // bytes a second of each round
	Latency   = "latency_p50" // seconds: the median of each round
)

// Metrics lists every metric by name, and says what it is.
func Metrics() [][2]string {
	return [][2]string{
		{Bandwidth, "bytes a second of each round"},
		{Latency, "seconds, the median of each round"},
		{"latency_p99", "seconds, one figure a run"},
		{"slowest_window_bandwidth", "bytes a second of the slowest window, one figure a run"},
		{"message_rate", "messages a second, one figure a run"},
		{"cpu_initiator", "CPU seconds per 10^9 bytes, one figure a run"},
		{"cpu_target", "the same of the other side"},
		{"cpu_host", "the same of the whole host"},
		{"wire_per_payload", "bytes or packets that the device counted for each byte of payload, one figure a run"},
	}
}

// needed is what a verdict needs of a cell, and what tells that it is none.
var needed = results.NewKeep("/verified", "/counters/agree", "/counters/initiator_sent", "/counters/payload_bytes",
	"/message_rate_per_second", "/cpu/initiator_seconds_per_gigabyte", "/cpu/target_seconds_per_gigabyte", "/cpu/host_seconds_per_gigabyte",
	"/bandwidth/bytes_per_second", "/bandwidth/slowest_window_bytes_per_second", "/bandwidth/rounds",
	"/latency/samples", "/latency/rounds_p50_seconds", "/latency/min_seconds", "/latency/p50_seconds", "/latency/p90_seconds", "/latency/p99_seconds",
	"/latency/p999_seconds", "/latency/max_seconds",
	"/path/initiator/link_layer", "/path/initiator/gid_type", "/path/initiator/path_mtu_bytes", "/path/initiator/gpu_way", "/path/initiator/nvlinks",
	"/path/initiator/nvlink_version", "/path/initiator/route",
	"/path/target/link_layer", "/path/target/gid_type", "/path/target/path_mtu_bytes", "/path/target/gpu_way", "/path/target/nvlinks",
	"/path/target/nvlink_version", "/path/target/route")

// Load reads result files, and folders of them (every *.jsonl below). Of each cell only the samples and
// the evidence that a verdict needs are kept.
func Load(paths ...string) (*Set, error) {
	s := &Set{cells: map[results.Identity]*cell{}}
	err := needed.EachFile(paths, func(runs []results.Run) error {
		for i := range runs {
			if err := s.addRun(&runs[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.sort()
	return s, nil
}

func (s *Set) addRun(r *results.Run) error {
	if n := len(s.Files); n == 0 || s.Files[n-1] != r.File {
		s.Files = append(s.Files, r.File)
	}
	s.Warnings = append(s.Warnings, r.Warnings...)
	s.runs = append(s.runs, run{
		file: r.File, started: r.Header.Started, host: hostKey(r.Header.Hosts),
		tool: strings.TrimSpace(r.Header.ToolVersion + " " + r.Header.ToolCommit),
	})
	if len(r.Cells) == 0 {
		s.Warnings = append(s.Warnings, r.File+": no cell in it")
	} else if r.Footer != nil && r.Footer.State != results.StateComplete {
		s.Warnings = append(s.Warnings, r.File+": the run is marked "+r.Footer.State)
	}
	for i := range r.Cells {
		if err := s.add(&r.Cells[i], len(s.runs)-1, r.File); err != nil {
			return err
		}
	}
	return nil
}

func hostKey(hosts []results.Host) string {
	var parts []string
	for _, h := range hosts {
		parts = append(parts, strings.Join(strings.Fields(h.Hostname+" "+h.Kernel+" "+h.CPUModel), " "))
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), " + ")
}

func (s *Set) add(l *results.Cell, runIndex int, where string) error {
	if l.Realm == results.RealmDouble {
		return fmt.Errorf("%s: measured through a test double (realm double): its figures mean nothing and are not compared", where)
	}
	id := l.Identity()
	c := s.cells[id]
	if c == nil {
		c = &cell{series: map[string][]observation{}}
		s.cells[id] = c
	}
	c.label = l.Label
	switch l.Status {
	case results.StatusOK:
	case results.StatusPartial:
		c.partial++
	case results.StatusWaived:
		c.waived = append(c.waived, orSay(l.Reason, "no reason given"))
		return nil
	case results.StatusFailed:
		c.broken = append(c.broken, "failed: "+orSay(l.Reason, "no reason given"))
		return nil
	default:
		return fmt.Errorf("%s: status %q is none of ok, partial, waived, failed", where, l.Status)
	}
	if l.Verified != nil && !*l.Verified {
		c.broken = append(c.broken, "the payload was wrong")
		return nil
	}
	if l.Counters != nil && l.Counters.Agree != nil && !*l.Counters.Agree {
		c.broken = append(c.broken, "the device's counter does not cover the bytes that were claimed")
		return nil
	}
	if l.Path != nil {
		path := l.Label + " [" + pathOf(l.Path.Initiator) + " > " + pathOf(l.Path.Target) + "]"
		if !slices.Contains(c.paths, path) {
			c.paths = append(c.paths, path)
		}
	} else if l.Label != "" && !slices.Contains(c.paths, l.Label) {
		c.paths = append(c.paths, l.Label)
	}
	c.keep(l, runIndex, where)
	return nil
}

func (c *cell) keep(l *results.Cell, runIndex int, where string) {
	add := func(metric string, values ...float64) {
		for i, v := range values {
			if math.IsNaN(v) || math.IsInf(v, 0) || v <= 0 {
				c.broken = append(c.broken, fmt.Sprintf("%s: %s of round %d is %v, which is no measurement", where, metric, i+1, v))
				return
			}
		}
		for _, v := range values {
			c.series[metric] = append(c.series[metric], observation{v, runIndex})
		}
	}
	one := func(metric string, v *float64) {
		if v != nil {
			add(metric, *v)
		}
	}
	if b := l.Bandwidth; b != nil {
		if len(b.Rounds) > 0 {
			add(Bandwidth, b.Rounds...)
		} else {
			add(Bandwidth, b.BytesPerSecond)
		}
		one("slowest_window_bandwidth", b.SlowestWindowBytesPerSecond)
	}
	if t := l.Latency; t != nil {
		if len(t.RoundsP50Seconds) > 0 {
			add(Latency, t.RoundsP50Seconds...)
		} else {
			one(Latency, t.P50Seconds)
		}
		one("latency_p99", t.P99Seconds)
	}
	one("message_rate", l.MessageRatePerSecond)
	if l.CPU != nil {
		for metric, v := range map[string]*float64{"cpu_initiator": l.CPU.InitiatorSecondsPerGigabyte, "cpu_target": l.CPU.TargetSecondsPerGigabyte, "cpu_host": l.CPU.HostSecondsPerGigabyte} {
			if v != nil && *v > 0 { // a clock too coarse for the run reads 0
				add(metric, *v)
			}
		}
	}
	if n := l.Counters; n != nil && n.InitiatorSent != nil && n.Payload != nil && *n.Payload > 0 && *n.InitiatorSent > 0 {
		add("wire_per_payload", float64(*n.InitiatorSent)/float64(*n.Payload))
	}
	if l.Bandwidth == nil && l.Latency == nil && l.MessageRatePerSecond == nil {
		c.broken = append(c.broken, where+": status ok without a figure")
	}
}

func orSay(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// sort puts the runs, and with them the samples, in the order of time.
func (s *Set) sort() {
	rank := make([]int, len(s.runs))
	for i := range rank {
		rank[i] = i
	}
	slices.SortStableFunc(rank, func(a, b int) int { return s.runs[a].started.Compare(s.runs[b].started) })
	at := make([]int, len(rank))
	runs := make([]run, len(rank))
	for i, r := range rank {
		at[r], runs[i] = i, s.runs[r]
	}
	s.runs = runs
	for _, c := range s.cells {
		for _, series := range c.series {
			for i := range series {
				series[i].run = at[series[i].run]
			}
			slices.SortStableFunc(series, func(a, b observation) int { return a.run - b.run })
		}
	}
}
