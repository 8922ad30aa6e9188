package compare

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// light is the part of a cell record that a comparison needs. Decoding no more than this is what
// keeps a thousand files under their time.
type light struct {
	Record string `json:"record"`
	Schema string `json:"schema"`

	// of a header
	ToolVersion string         `json:"tool_version"`
	ToolCommit  string         `json:"tool_commit"`
	Started     string         `json:"started"`
	Hosts       []results.Host `json:"hosts"`

	// of a cell
	results.Identity
	Label     string `json:"label"`
	Status    string `json:"status"`
	Reason    string `json:"reason"`
	Verified  *bool  `json:"verified"`
	Bandwidth *struct {
		BytesPerSecond float64   `json:"bytes_per_second"`
		Slowest        *float64  `json:"slowest_window_bytes_per_second"`
		Rounds         []float64 `json:"rounds"`
	} `json:"bandwidth"`
	Latency *struct {
		P50    *float64  `json:"p50_seconds"`
		P99    *float64  `json:"p99_seconds"`
		Rounds []float64 `json:"rounds_p50_seconds"`
	} `json:"latency"`
	MessageRate *float64 `json:"message_rate_per_second"`
	CPU         *struct {
		Initiator *float64 `json:"initiator_seconds_per_gigabyte"`
		Target    *float64 `json:"target_seconds_per_gigabyte"`
		Host      *float64 `json:"host_seconds_per_gigabyte"`
	} `json:"cpu"`
	Counters *struct {
		Unit    string `json:"unit"`
		Sent    *int64 `json:"initiator_sent"`
		Payload *int64 `json:"payload_bytes"`
		Agree   *bool  `json:"agree"`
	} `json:"counters"`
	Path *struct {
		Initiator *side `json:"initiator"`
		Target    *side `json:"target"`
	} `json:"path"`

	// of a footer
	State string `json:"state"`
}

type side struct {
	LinkLayer     string `json:"link_layer"`
	GIDType       string `json:"gid_type"`
	PathMTUBytes  *int64 `json:"path_mtu_bytes"`
	GPUWay        string `json:"gpu_way"`
	NVLinks       *int64 `json:"nvlinks"`
	NVLinkVersion string `json:"nvlink_version"`
	Route         string `json:"route"`
}

func (s *side) String() string {
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

// Load reads result files, and folders of them (every *.jsonl below).
func Load(paths ...string) (*Set, error) {
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	s := &Set{cells: map[results.Identity]*cell{}}
	type read struct {
		one *Set
		err error
	}
	// Files are read side by side and folded in as they come, a few in flight at a time.
	limit := max(1, runtime.GOMAXPROCS(0))
	out := make([]chan read, len(files))
	for i := range out {
		out[i] = make(chan read, 1)
	}
	gate := make(chan struct{}, limit)
	var stop sync.Once
	quit := make(chan struct{})
	defer stop.Do(func() { close(quit) })
	go func() {
		for i, f := range files {
			select {
			case gate <- struct{}{}:
			case <-quit:
				return
			}
			go func() {
				one, err := loadFile(f)
				out[i] <- read{one, err}
			}()
		}
	}()
	for i := range files {
		r := <-out[i]
		<-gate
		if r.err != nil {
			return nil, r.err
		}
		s.fold(r.one)
	}
	s.sort()
	return s, nil
}

func expand(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		before := len(files)
		err = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && strings.HasSuffix(path, ".jsonl") {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
		if len(files) == before {
			return nil, fmt.Errorf("%s: no result file (*.jsonl) in this folder", p)
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no result file")
	}
	return files, nil
}

// maxLine bounds one record; a cell with 10,000 rounds stays well under it.
const maxLine = 64 << 20

func loadFile(path string) (*Set, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return parse(path, f)
}

func parse(name string, r io.Reader) (*Set, error) {
	s := &Set{Files: []string{name}, cells: map[results.Identity]*cell{}}
	current := run{file: name}
	in := bufio.NewReaderSize(r, 256<<10)
	line, headers, cells, state := 0, 0, 0, ""
	for {
		text, err := readLine(in)
		if err != nil && err != io.EOF {
			return nil, fmt.Errorf("%s:%d: %w", name, line+1, err)
		}
		last := err == io.EOF
		if len(text) == 0 && last {
			break
		}
		line++
		text = bytes.TrimSpace(text)
		if len(text) > 0 {
			var l light
			if jsonErr := json.Unmarshal(text, &l); jsonErr != nil {
				if last && headers > 0 { // the writer was stopped in the middle of a line
					s.Warnings = append(s.Warnings, fmt.Sprintf("%s:%d: the last line is cut off; it is left out", name, line))
					break
				}
				return nil, fmt.Errorf("%s:%d: not a record of a result file: %w", name, line, jsonErr)
			}
			switch l.Record {
			case "header":
				headers++
				if err := checkSchema(l.Schema); err != nil {
					return nil, fmt.Errorf("%s:%d: %w", name, line, err)
				}
				if headers > 1 {
					s.runs = append(s.runs, current)
				}
				current = run{file: name, tool: strings.TrimSpace(l.ToolVersion + " " + l.ToolCommit), host: hostKey(l.Hosts)}
				if t, err := time.Parse(time.RFC3339, l.Started); err == nil {
					current.started = t
				}
			case "cell":
				if headers == 0 {
					return nil, fmt.Errorf("%s:%d: a cell before any header: not a result file of this tool", name, line)
				}
				cells++
				if err := s.add(&l, headers-1, fmt.Sprintf("%s:%d", name, line)); err != nil {
					return nil, err
				}
			case "footer":
				state = l.State
			case "":
				return nil, fmt.Errorf("%s:%d: no \"record\" key: not a result file of this tool", name, line)
			}
		}
		if last {
			break
		}
	}
	if headers == 0 {
		return nil, fmt.Errorf("%s: empty: no header record", name)
	}
	s.runs = append(s.runs, current)
	switch {
	case cells == 0:
		s.Warnings = append(s.Warnings, name+": no cell in it")
	case state == "":
		s.Warnings = append(s.Warnings, name+": no footer: the run did not end by itself")
	case state != results.StateComplete:
		s.Warnings = append(s.Warnings, name+": the run is marked "+state)
	}
	return s, nil
}

func readLine(in *bufio.Reader) ([]byte, error) {
	text, err := in.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return text, err
	}
	whole := bytes.Clone(text)
	for err == bufio.ErrBufferFull {
		text, err = in.ReadSlice('\n')
		if whole = append(whole, text...); len(whole) > maxLine {
			return nil, fmt.Errorf("a line of more than %d bytes", maxLine)
		}
	}
	return whole, err
}

// checkSchema refuses another major of the schema, and any other format, by name.
func checkSchema(schema string) error {
	want := results.Schema
	if schema == want || strings.HasPrefix(schema, want+".") {
		return nil
	}
	if schema == "" {
		return errors.New("the header names no schema")
	}
	return fmt.Errorf("schema %q is not one that this version reads (%s)", schema, want)
}

func hostKey(hosts []results.Host) string {
	var parts []string
	for _, h := range hosts {
		parts = append(parts, strings.Join(strings.Fields(h.Hostname+" "+h.Kernel+" "+h.CPUModel), " "))
	}
	slices.Sort(parts)
	return strings.Join(slices.Compact(parts), " + ")
}

func (s *Set) add(l *light, runIndex int, where string) error {
	if l.Realm == results.RealmDouble {
		return fmt.Errorf("%s: measured through a test double (realm double): its figures mean nothing and are not compared", where)
	}
	id := l.Identity
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
		path := l.Label + " [" + l.Path.Initiator.String() + " > " + l.Path.Target.String() + "]"
		if !slices.Contains(c.paths, path) {
			c.paths = append(c.paths, path)
		}
	} else if l.Label != "" && !slices.Contains(c.paths, l.Label) {
		c.paths = append(c.paths, l.Label)
	}
	c.keep(l, runIndex, where)
	return nil
}

func (c *cell) keep(l *light, runIndex int, where string) {
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
		one("slowest_window_bandwidth", b.Slowest)
	}
	if t := l.Latency; t != nil {
		if len(t.Rounds) > 0 {
			add(Latency, t.Rounds...)
		} else {
			one(Latency, t.P50)
		}
		one("latency_p99", t.P99)
	}
	one("message_rate", l.MessageRate)
	if l.CPU != nil {
		for metric, v := range map[string]*float64{"cpu_initiator": l.CPU.Initiator, "cpu_target": l.CPU.Target, "cpu_host": l.CPU.Host} {
			if v != nil && *v > 0 { // a clock too coarse for the run reads 0
				add(metric, *v)
			}
		}
	}
	if n := l.Counters; n != nil && n.Sent != nil && n.Payload != nil && *n.Payload > 0 && *n.Sent > 0 {
		add("wire_per_payload", float64(*n.Sent)/float64(*n.Payload))
	}
	if l.Bandwidth == nil && l.Latency == nil && l.MessageRate == nil {
		c.broken = append(c.broken, where+": status ok without a figure")
	}
}

func orSay(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// fold takes the runs of another set in.
func (s *Set) fold(o *Set) {
	base := len(s.runs)
	s.Files = append(s.Files, o.Files...)
	s.runs = append(s.runs, o.runs...)
	s.Warnings = append(s.Warnings, o.Warnings...)
	for id, c := range o.cells {
		for _, series := range c.series {
			for i := range series {
				series[i].run += base
			}
		}
		have := s.cells[id]
		if have == nil {
			s.cells[id] = c
			continue
		}
		have.label = c.label
		for _, p := range c.paths {
			if !slices.Contains(have.paths, p) {
				have.paths = append(have.paths, p)
			}
		}
		for metric, series := range c.series {
			have.series[metric] = append(have.series[metric], series...)
		}
		have.broken = append(have.broken, c.broken...)
		have.waived = append(have.waived, c.waived...)
		have.partial += c.partial
	}
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
