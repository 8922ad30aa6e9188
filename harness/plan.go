package harness

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"hopbench/transports"
	"hopbench/transports/mem"
)

// Metric is what a cell measures.
type Metric string

const (
	Bandwidth Metric = "bandwidth"
	Latency   Metric = "latency"
)

// Direction is which side initiates.
type Direction string

const (
	Forward Direction = "forward" // this side initiates
	Reverse Direction = "reverse" // the peer initiates
	Both    Direction = "both"    // both at once, on a connection each
)

// Plan is everything that decides a run. It stands in the result file and can be read back to repeat the run. Bytes and
// seconds throughout.
type Plan struct {
	Transports []string        `json:"transports" yaml:"transports"` // driver names, in display order
	Operations []transports.Op `json:"operations" yaml:"operations"`
	Metrics    []Metric        `json:"metrics" yaml:"metrics"`
	Directions []Direction     `json:"directions" yaml:"directions"`
	Sizes      []uint64        `json:"sizes_bytes" yaml:"sizes_bytes"` // of one operation, or of one piece where Pieces is above 1
	// LatencyMax is the largest size that latency is measured at; 0: all.
	LatencyMax uint64 `json:"latency_max_bytes,omitempty" yaml:"latency_max_bytes,omitempty"`
	// Pieces is the number of descriptors of one operation.
	Pieces    int  `json:"pieces,omitempty" yaml:"pieces,omitempty"`
	Scattered bool `json:"scattered,omitempty" yaml:"scattered,omitempty"`
	// Requests replaces Sizes and Pieces by operations of mixed pieces: KV-shaped transfers.
	Requests []Request `json:"requests,omitempty" yaml:"requests,omitempty"`
	// Concurrency is the numbers of requests at once: each is one operation on a stream of its own. Empty: plain sweep.
	Concurrency []int `json:"concurrency,omitempty" yaml:"concurrency,omitempty"`

	Depth   int             `json:"depth" yaml:"depth"`
	Streams int             `json:"streams" yaml:"streams"`
	Batch   int             `json:"batch,omitempty" yaml:"batch,omitempty"`
	Notify  bool            `json:"notify,omitempty" yaml:"notify,omitempty"`
	Wait    transports.Wait `json:"wait" yaml:"wait"`
	Rate    float64         `json:"rate_bytes_per_second,omitempty" yaml:"rate_bytes_per_second,omitempty"`
	// Buffers is "reuse" (each stream repeats one place, which stays in the caches as with most peers) or "rotate" (each
	// operation takes the next place of a pool of PoolBytes).
	Buffers   string `json:"buffers" yaml:"buffers"`
	PoolBytes uint64 `json:"pool_bytes,omitempty" yaml:"pool_bytes,omitempty"`

	Duration   float64 `json:"duration_seconds" yaml:"duration_seconds"`         // measured time of a cell at most, over its rounds
	Round      float64 `json:"round_seconds" yaml:"round_seconds"`               // of one round, or one operation where that takes longer
	Warmup     float64 `json:"warmup_seconds" yaml:"warmup_seconds"`             // of one round, at least one operation
	Rounds     int     `json:"rounds,omitempty" yaml:"rounds,omitempty"`         // exactly so many; 0: until the interval is narrow, or Duration
	Iterations uint64  `json:"iterations,omitempty" yaml:"iterations,omitempty"` // operations a stream and round instead of Round's time
	Seed       uint64  `json:"seed" yaml:"seed"`

	LocalMemory  string `json:"local_memory" yaml:"local_memory"`
	RemoteMemory string `json:"remote_memory" yaml:"remote_memory"`
	HugePages    string `json:"huge_pages,omitempty" yaml:"huge_pages,omitempty"`
	NUMANode     *int   `json:"numa_node,omitempty" yaml:"numa_node,omitempty"`

	Device         string            `json:"device,omitempty" yaml:"device,omitempty"`
	RemoteDevice   string            `json:"remote_device,omitempty" yaml:"remote_device,omitempty"`
	Settings       map[string]string `json:"settings,omitempty" yaml:"settings,omitempty"`
	RemoteSettings map[string]string `json:"remote_settings,omitempty" yaml:"remote_settings,omitempty"`

	// Limits in seconds: of each phase that is no loop, and of a loop without progress.
	PhaseTimeout float64 `json:"phase_timeout_seconds" yaml:"phase_timeout_seconds"`
	StallTimeout float64 `json:"stall_timeout_seconds" yaml:"stall_timeout_seconds"`
}

// pacedOperations are in each round of a paced cell at least: the first is posted at once, so fewer would show more than the pace.
const pacedOperations = 50

// Request is one operation of mixed pieces, with the name that its rows carry.
type Request struct {
	Name   string  `json:"name" yaml:"name"` // "Llama-3.1-70B, 4096 tokens"
	Groups []Group `json:"groups" yaml:"groups"`
	// Bulk adds the same bytes in one piece beside it, as the ceiling.
	Bulk bool `json:"bulk,omitempty" yaml:"bulk,omitempty"`
}

// Rounds at least and at most where the plan leaves the number open. An interval of the median at 95 % confidence needs six (order
// statistics of fewer cannot reach it); eight leave a comparison of some dozens of rows enough to reach its bound.
const (
	MinRounds = 8
	MaxRounds = 200
)

// DefaultPlan is a short sweep of what every host can run.
func DefaultPlan() Plan {
	return Plan{
		Operations: transports.Ops(), Metrics: []Metric{Bandwidth, Latency}, Directions: []Direction{Forward},
		Sizes: []uint64{64, 4096, 65536, 1 << 20, 16 << 20}, LatencyMax: 1 << 20, Pieces: 1,
		Depth: 16, Streams: 1, Batch: 1, Wait: transports.Adaptive, Buffers: "reuse",
		Duration: 1, Round: 0.05, Warmup: 0.01, Seed: 1,
		LocalMemory: "host", RemoteMemory: "host", PhaseTimeout: 20, StallTimeout: 5,
	}
}

// Check refuses a plan that cannot be run, naming the field.
func (p *Plan) Check() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if len(p.Transports) == 0 {
		bad("transports: none is named")
	}
	for _, op := range p.Operations {
		if !slices.Contains(transports.Ops(), op) {
			bad("operations: there is no %q; want %v", op, transports.Ops())
		}
	}
	for _, m := range p.Metrics {
		if m != Bandwidth && m != Latency {
			bad("metrics: there is no %q; want bandwidth or latency", m)
		}
	}
	for _, d := range p.Directions {
		if d != Forward && d != Reverse && d != Both {
			bad("directions: there is no %q; want forward, reverse or both", d)
		}
	}
	if len(p.Operations) == 0 || len(p.Metrics) == 0 || len(p.Directions) == 0 || (len(p.Sizes) == 0 && len(p.Requests) == 0) {
		bad("operations, metrics, directions and sizes (or requests) need at least one entry each")
	}
	for _, s := range p.Sizes {
		if s == 0 || s > 1<<44 {
			bad("sizes_bytes: %d; 1 to %d are possible", s, uint64(1)<<44)
		}
	}
	for _, list := range [][2]string{
		{"transports", twice(p.Transports)}, {"operations", twice(p.Operations)}, {"metrics", twice(p.Metrics)}, {"directions", twice(p.Directions)},
		{"sizes_bytes", twice(p.Sizes)}, {"concurrency", twice(p.Concurrency)},
	} {
		if list[1] != "" { // two rows with one identity could not be told apart
			bad("%s: %s stands there twice", list[0], list[1])
		}
	}
	between := func(name string, n, low, high int) {
		if n < low || n > high {
			bad("%s: %d; %d to %d are possible", name, n, low, high)
		}
	}
	between("pieces", p.Pieces, 0, 1<<20)
	between("depth", p.Depth, 1, 1<<16)
	between("streams", p.Streams, 1, 1024)
	between("batch", p.Batch, 0, 1024)
	between("rounds", p.Rounds, 0, 10_000)
	for _, c := range p.Concurrency {
		between("concurrency", c, 1, 1024)
	}
	within := func(name, unit string, v, low, high float64) {
		if !(v >= low && v <= high) {
			bad("%s: %g %s; %g to %g %s are possible", name, v, unit, low, high, unit)
		}
	}
	within("duration_seconds", "s", p.Duration, 0.02, 86400)
	within("round_seconds", "s", p.Round, 0.02, 3600)
	within("warmup_seconds", "s", p.Warmup, 0, 3600)
	within("phase_timeout_seconds", "s", p.PhaseTimeout, 1, 3600)
	within("stall_timeout_seconds", "s", p.StallTimeout, 0.5, 3600)
	within("rate_bytes_per_second", "B/s", p.Rate, 0, 1e15)
	switch p.Wait {
	case transports.Adaptive, transports.Spin, transports.Block:
	default:
		bad("wait: there is no %q; want adaptive, spin or block", p.Wait)
	}
	switch p.HugePages {
	case "", "transparent", "2MiB", "1GiB":
	default:
		bad("huge_pages: there is no %q; want transparent, 2MiB or 1GiB", p.HugePages)
	}
	if p.Buffers != "reuse" && p.Buffers != "rotate" {
		bad("buffers: there is no %q; want reuse or rotate", p.Buffers)
	}
	for _, side := range [][2]string{{"local_memory", p.LocalMemory}, {"remote_memory", p.RemoteMemory}} {
		if _, _, err := mem.ParseKind(side[1]); err != nil {
			bad("%s: %v", side[0], err)
		}
	}
	for _, r := range p.Requests {
		if err := (Shape{Groups: r.Groups, Streams: 1, Slots: 1}).Check(); err != nil {
			bad("requests: %s: %v", r.Name, err)
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	for _, c := range p.cells() {
		if slots := pacedOperations * float64(c.shape.Bytes()) / p.Rate; p.Rate > 0 && slots > 30 {
			return fmt.Errorf("rate_bytes_per_second: a round of %d operations of %d bytes would take %.0f s at that pace; 30 s are possible", pacedOperations, c.shape.Bytes(), slots)
		}
		if err := c.shape.Check(); err != nil {
			return fmt.Errorf("%s of %d bytes: %w", c.op, c.shape.Bytes(), err)
		}
	}
	return nil
}

// twice is the first entry that a list has twice; empty: none.
func twice[T comparable](list []T) string {
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			return fmt.Sprint(v)
		}
	}
	return ""
}

// cell is one entry of the plan: the same for all its transports.
type cell struct {
	op          transports.Op
	metric      Metric
	direction   Direction
	shape       Shape
	depth       int
	streams     int
	concurrency int
	request     string // name of a KV-shaped request
	bulk        bool
	pingpong    bool
	notify      bool
}

// definition is the id of what the cell's number means.
func (c *cell) definition() string {
	switch {
	case c.metric == Bandwidth && c.notify:
		return "bandwidth.notified"
	case c.metric == Bandwidth:
		return "bandwidth.confirmed"
	case c.pingpong:
		return "latency.half_rtt"
	default:
		return "latency.completion"
	}
}

// cells lists what the plan measures, in order.
func (p *Plan) cells() []cell {
	type form struct {
		groups []Group
		name   string
		bulk   bool
	}
	var forms []form
	for _, s := range p.Sizes {
		if len(p.Requests) == 0 {
			forms = append(forms, form{groups: []Group{{Bytes: s, Count: max(p.Pieces, 1)}}})
		}
	}
	for _, r := range p.Requests {
		forms = append(forms, form{groups: r.Groups, name: r.Name})
		if r.Bulk {
			forms = append(forms, form{groups: []Group{{Bytes: Shape{Groups: r.Groups}.Bytes(), Count: 1}}, name: r.Name, bulk: true})
		}
	}
	concurrency := p.Concurrency
	if len(concurrency) == 0 {
		concurrency = []int{0}
	}
	var cells []cell
	for _, metric := range p.Metrics {
		for _, op := range p.Operations {
			for _, direction := range p.Directions {
				for _, together := range concurrency {
					for _, f := range forms {
						c := cell{op: op, metric: metric, direction: direction, depth: p.Depth, streams: p.Streams, concurrency: 1, request: f.name, bulk: f.bulk, notify: p.Notify}
						c.shape = Shape{Groups: f.groups, Scattered: (p.Scattered || f.name != "") && !f.bulk, Slots: 1, Seed: p.Seed}
						if metric == Latency {
							if p.LatencyMax > 0 && c.shape.Bytes() > p.LatencyMax {
								continue
							}
							c.depth, c.streams, c.notify = 1, 1, false
							c.pingpong = op != transports.Read
							if direction == Both {
								continue // a ping-pong goes both ways by itself
							}
						}
						if together > 0 {
							// One request is one operation on a stream of its own.
							c.concurrency, c.streams, c.depth = together, together, 1
							if metric == Latency && together > 1 {
								continue
							}
						}
						c.shape.Streams = c.streams
						if p.Buffers == "rotate" {
							pool := max(p.PoolBytes, 1)
							c.shape.Slots = int(max(1, min(pool/max(1, c.shape.Bytes()*uint64(c.streams)), 1<<14)))
						}
						cells = append(cells, c)
					}
				}
			}
		}
	}
	return cells
}

// memory is the bytes of region that each side needs for the largest cell whose operations have at most most bytes.
func (p *Plan) memory(most uint64) uint64 {
	need := uint64(0)
	for _, c := range p.cells() {
		if c.shape.Bytes() > most {
			continue
		}
		n := c.shape.Footprint()
		if c.pingpong {
			n *= 2 // the answers
		}
		if c.direction == Both {
			n *= 2 // the other way
		}
		need = max(need, n)
	}
	return need
}

// Memory is the bytes of buffer that each side registers for the whole plan.
func (p *Plan) Memory() uint64 { return p.memory(math.MaxUint64) }

// largest are the largest operation of at most most bytes, the most pieces in one and the most streams.
func (p *Plan) largest(most uint64) (bytes uint64, pieces, streams int) {
	for _, c := range p.cells() {
		if c.shape.Bytes() <= most {
			bytes, pieces, streams = max(bytes, c.shape.Bytes()), max(pieces, c.shape.Pieces()), max(streams, c.streams)
		}
	}
	return bytes, pieces, streams
}

// Cells is the number of rows that the plan gives.
func (p *Plan) Cells() int { return len(p.cells()) * len(p.Transports) }

// Estimate is about how long the plan takes, in seconds: at most, since cells end early when their interval is narrow.
func (p *Plan) Estimate() float64 {
	total := 0.0
	for _, c := range p.cells() {
		rounds := float64(max(p.Rounds, MinRounds))
		per := p.Duration
		if p.Rounds > 0 {
			per = rounds * p.Round
		}
		// Filling, verifying and warming up at 1 GB/s, a guess that errs to the long side.
		per += rounds*p.Warmup + 4*float64(c.shape.Footprint())/1e9
		total += per * float64(len(p.Transports))
	}
	return total
}
