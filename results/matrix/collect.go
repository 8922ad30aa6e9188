package matrix

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"hopbench/results"
)

// ErrDouble is wrapped by the refusal of cells that were measured through a fake library.
var ErrDouble = errors.New("realm double: it was measured through a fake library, so no matrix shows it")

// Options are choices of a Mesh. The zero value is the default.
type Options struct {
	Hosts     []string // in the order in which they shall stand; those that are not named follow in the order of their names
	MostBytes int64    // memory that the matrices may take; 0 is 2 GiB
}

// Mesh is the matrices of a run.
type Mesh struct {
	o      Options
	hosts  []string
	id     map[string]int
	layers map[results.Identity]*Layer
	order  []*Layer // as they were first seen
	places int64    // allocated
	other  int64    // cells without a pair of hosts
}

// Layer is one matrix. Hosts are numbered as Mesh.Hosts has them.
type Layer struct {
	// Key is what all cells of the layer have in common: their identity without hosts. Forward and reverse are one: the hosts say which way.
	Key   results.Identity
	Label string // of the cells' paths; "" where they differ
	mesh  *Mesh
	rows  [][]place // by the hosts' ids
	again int       // cells of a place that had a figure
	whys  []string  // reasons of the cells without a figure, each once
	label bool      // whether Label is set
	marks int       // places that are known: with a figure, or with the reason why not
}

// place is what is known of a pair: 24 bytes.
type place struct {
	value     float64 // bytes a second, or seconds; 0: none
	low, high float32 // bounds of value; 0: none
	p99       float32 // seconds; 0: none
	why       uint16  // of a cell without a figure: its reason, from 1
	state     state
}

type state uint8

const (
	unknown state = iota
	measured
	failed
	waived
)

// Place is what is known of a pair of hosts.
type Place struct {
	Status string // results.StatusOK, StatusFailed, StatusWaived, or "" for a pair that was not measured
	Reason string // of a pair that has no figure
	// Value is bytes a second, or the median latency in seconds. Low and High bound it and P99 is the 99th percentile of the latency, or of the
	// requests, in seconds: 0 where they are not known.
	Value, Low, High, P99 float64
}

// New makes an empty mesh.
func New(o Options) *Mesh {
	if o.MostBytes == 0 {
		o.MostBytes = 2 << 30
	}
	m := &Mesh{o: o, id: map[string]int{}, layers: map[results.Identity]*Layer{}}
	for _, h := range o.Hosts {
		m.host(h)
	}
	return m
}

// Of collects the cells of runs.
func Of(o Options, runs ...results.Run) (*Mesh, error) {
	m := New(o)
	for i := range runs {
		for j := range runs[i].Cells {
			if err := m.Add(&runs[i].Cells[j]); err != nil {
				return nil, fmt.Errorf("%s: cell %d: %w", runs[i].File, j+1, err)
			}
		}
	}
	return m, nil
}

func (m *Mesh) host(name string) int {
	id, ok := m.id[name]
	if !ok {
		id = len(m.hosts)
		m.id[name] = id
		m.hosts = append(m.hosts, name)
	}
	return id
}

// Add takes a cell in. Cells that are of no pair of hosts, and kinds of figures that are neither a bandwidth nor a latency, are counted and left out. Of two
// cells of one place the first that has a figure stands. An error is a cell of a fake library, or a mesh that takes more memory than it may.
func (m *Mesh) Add(c *results.Cell) error {
	if c.Realm == results.RealmDouble {
		return fmt.Errorf("%s: %w", c.Label, ErrDouble)
	}
	if c.InitiatorHost == "" || c.TargetHost == "" || c.Settings["own_bytes"] != "" || c.Metric() != "bandwidth" && c.Metric() != "latency" {
		m.other++
		return nil
	}
	key := c.Identity()
	key.InitiatorHost, key.TargetHost = "", ""
	if key.Direction == "reverse" { // the hosts of such a row are exchanged already
		key.Direction = "forward"
	}
	l := m.layers[key]
	if l == nil {
		l = &Layer{Key: key, mesh: m}
		m.layers[key] = l
		m.order = append(m.order, l)
	}
	p, err := m.place(l, m.host(c.InitiatorHost), m.host(c.TargetHost))
	if err != nil {
		return err
	}
	l.put(p, c)
	return nil
}

// place finds the place of a pair, with room for it.
func (m *Mesh) place(l *Layer, from, to int) (*place, error) {
	grow := func(n int) int { return max(n+1, min(2*n, n+1024), len(m.o.Hosts)) }
	if from >= len(l.rows) {
		l.rows = append(l.rows, make([][]place, from+1-len(l.rows))...)
	}
	if row := l.rows[from]; to >= len(row) {
		n := grow(to)
		m.places += int64(n - len(row))
		if bytes := m.places * 24; bytes > m.o.MostBytes {
			return nil, fmt.Errorf("matrix: %d hosts with %d matrices take more than %d bytes", len(m.hosts), len(m.layers), m.o.MostBytes)
		}
		l.rows[from] = append(row, make([]place, n-len(row))...)
	}
	return &l.rows[from][to], nil
}

// put fills a place.
func (l *Layer) put(p *place, c *results.Cell) {
	if c.HasFigure() {
		if !l.label {
			l.Label, l.label = c.Label, true
		} else if l.Label != c.Label {
			l.Label = ""
		}
	}
	if p.state == measured {
		l.again++
		return
	}
	v := figure(c)
	if !(v.value > 0) || math.IsInf(v.value, 0) {
		v = place{state: failed}
		if c.Status == results.StatusWaived {
			v.state = waived
		}
		v.why = l.reason(c)
	}
	if p.state == unknown {
		l.marks++
	}
	*p = v
}

// mostReasons bounds the reasons that a layer keeps; further ones are the last.
const mostReasons = 256

func (l *Layer) reason(c *results.Cell) uint16 {
	why := c.Reason
	switch {
	case c.Verified != nil && !*c.Verified:
		why = "the payload was wrong"
	case why == "":
		why = "no reason given"
	}
	if at := slices.Index(l.whys, why); at >= 0 {
		return uint16(at + 1)
	}
	if len(l.whys) == mostReasons {
		return mostReasons
	}
	if len(l.whys) == mostReasons-1 {
		why = "other reasons"
	}
	l.whys = append(l.whys, why)
	return uint16(len(l.whys))
}

// figure is the place of a cell with a figure; a value of 0 where it has none.
func figure(c *results.Cell) place {
	p := place{state: measured}
	if !c.HasFigure() {
		return place{}
	}
	number := func(v *float64) float64 {
		if v == nil {
			return 0
		}
		return *v
	}
	if b := c.Bandwidth; b != nil && c.Metric() == "bandwidth" {
		p.value, p.low, p.high = b.BytesPerSecond, float32(number(b.Low)), float32(number(b.High))
		if n := len(c.RequestSeconds); n >= 100 {
			s := slices.Clone(c.RequestSeconds)
			slices.Sort(s)
			p.p99 = float32(quantile(s, 0.99))
		}
	}
	if l := c.Latency; l != nil && c.Metric() == "latency" {
		p.value, p.low, p.high, p.p99 = number(l.P50Seconds), float32(number(l.P50LowSeconds)), float32(number(l.P50HighSeconds)), float32(number(l.P99Seconds))
	}
	return p
}

// Hosts are the hosts in their order: those of Options as they stand there, then the others by name, numbers in names by their value.
func (m *Mesh) Hosts() []string {
	out := slices.Clone(m.hosts)
	slices.SortStableFunc(out[min(len(m.o.Hosts), len(out)):], natural)
	return out
}

// Other is how many cells were left out because they are of no pair.
func (m *Mesh) Other() int64 { return m.other }

// Bytes is the memory that the matrices take.
func (m *Mesh) Bytes() int64 { return m.places * 24 }

// Layers are the matrices, in the order in which they were first seen. Cells that ended before their path was known count in the layer that
// they would have been of, where there is one.
func (m *Mesh) Layers() []*Layer {
	m.adopt()
	return slices.Clone(m.order)
}

// adopt puts the places of a layer whose cells ended before their path was known (no realm, no way to the GPU) into the layer that differs in nothing else.
func (m *Mesh) adopt() {
	bare := func(k results.Identity) results.Identity {
		k.Realm, k.InitiatorGPUWay, k.TargetGPUWay = "", "", ""
		return k
	}
	known := map[results.Identity]*Layer{}
	for _, l := range m.order {
		if k := bare(l.Key); l.Key != k && l.label {
			known[k] = l
		}
	}
	m.order = slices.DeleteFunc(m.order, func(l *Layer) bool {
		to := known[l.Key]
		if to == nil || to == l || l.label {
			return false
		}
		for from, row := range l.rows {
			for t := range row {
				if row[t].state == unknown {
					continue
				}
				p, err := m.place(to, from, t)
				if err != nil { // no room: it stays a layer of its own
					return false
				}
				if p.state == unknown {
					*p = row[t]
					p.why = to.adoptReason(l.whys, row[t].why)
					to.marks++
				}
			}
		}
		delete(m.layers, l.Key)
		return true
	})
}

func (l *Layer) adoptReason(whys []string, why uint16) uint16 {
	if why == 0 {
		return 0
	}
	return l.reason(&results.Cell{Reason: whys[why-1]})
}

// Latency says whether the layer's figures are times, of which less is better.
func (l *Layer) Latency() bool { return strings.HasPrefix(l.Key.Definition, "latency") }

// Hosts are the hosts that the layer has a place of, in the mesh's order.
func (l *Layer) Hosts() []string {
	in := make([]bool, len(l.mesh.hosts))
	for from, row := range l.rows {
		for to := range row {
			if row[to].state != unknown {
				in[from], in[to] = true, true
			}
		}
	}
	return slices.DeleteFunc(l.mesh.Hosts(), func(h string) bool { return !in[l.mesh.id[h]] })
}

// At is the place of a pair.
func (l *Layer) At(initiator, target string) Place {
	from, ok := l.mesh.id[initiator]
	to, too := l.mesh.id[target]
	if !ok || !too || from >= len(l.rows) || to >= len(l.rows[from]) {
		return Place{}
	}
	return l.open(l.rows[from][to])
}

func (l *Layer) open(p place) Place {
	out := Place{Value: p.value, Low: float64(p.low), High: float64(p.high), P99: float64(p.p99)}
	switch p.state {
	case measured:
		out.Status = results.StatusOK
	case failed:
		out.Status = results.StatusFailed
	case waived:
		out.Status = results.StatusWaived
	}
	if p.why > 0 {
		out.Reason = l.whys[p.why-1]
	}
	return out
}

// Values are the layer's figures in ascending order.
func (l *Layer) Values() []float64 {
	var out []float64
	for _, row := range l.rows {
		for i := range row {
			if row[i].state == measured {
				out = append(out, row[i].value)
			}
		}
	}
	slices.Sort(out)
	return out
}
