package harness

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"hopbench/results"
	"hopbench/results/stat"
	"hopbench/results/unit"
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// record is a track as a row of the result file.
func (t *track) record(m *measurement) *results.Cell {
	c, l := t.cell, t.link
	p := l.plan // its own: a flow may have other devices and memory than the run
	i64 := func(n int64) *int64 { return &n }
	elapsed := time.Since(m.started).Seconds()
	started := m.started
	r := &results.Cell{
		Transport: l.name, Label: l.name, Definition: c.definition(), Operation: string(c.op), Direction: string(c.direction),
		PieceBytes: int64(c.shape.Largest()), TotalBytes: int64(c.shape.Bytes()), Descriptors: int64(c.shape.Pieces()), Pattern: "contiguous",
		Depth: int64(c.depth), Streams: int64(c.streams), Concurrency: int64(c.concurrency),
		InitiatorMemory: p.LocalMemory, TargetMemory: p.RemoteMemory, Wait: string(p.Wait),
		Realm: string(transports.Software), Status: results.StatusOK, BufferPolicy: p.Buffers, Started: &started, ElapsedSeconds: &elapsed,
		Settings: map[string]string{},
	}
	if c.direction == Reverse {
		r.InitiatorMemory, r.TargetMemory = r.TargetMemory, r.InitiatorMemory
	}
	if c.shape.Scattered {
		r.Pattern = "scattered"
	}
	if len(c.shape.Groups) > 1 {
		for _, g := range c.shape.Groups {
			r.Pieces = append(r.Pieces, results.Piece{SizeBytes: int64(g.Bytes), Count: int64(g.Count)})
		}
	}
	if c.request != "" {
		r.Settings["request"] = c.request
	}
	if p.Rate > 0 {
		r.RateBytesPerSecond = i64(int64(p.Rate))
	}
	if p.Batch > 1 {
		r.Batch = i64(int64(p.Batch))
	}
	t.describe(r)
	if t.err == nil && len(t.ways) > 0 && len(t.ways[0].rounds) > 0 {
		for i := range t.ways {
			if err := t.ways[i].witness(c.op); err != nil {
				t.err = err
			}
		}
	}
	if t.err != nil {
		r.Status, r.Code = results.StatusFailed, string(fault.CodeOf(t.err))
		r.Reason = strings.TrimSuffix(t.err.Error(), " ["+r.Code+"]") // the code has a field of its own
		if fault.ClassOf(t.err).Waives() && !t.tooLarge {
			r.Status = results.StatusWaived
		}
		if fault.ClassOf(t.err) == fault.Corrupt {
			no := false
			r.Verified = &no
		}
		return r
	}
	if len(t.ways[0].rounds) == 0 {
		r.Status, r.Reason = results.StatusFailed, "the run was ended before this cell had a round"
		return r
	}
	r.Verified = &t.verify
	if err := t.measure(r); err != nil {
		r.Status, r.Reason = results.StatusFailed, err.Error()
		return r
	}
	want := p.Rounds
	if want == 0 {
		want = MinRounds
	}
	if len(t.ways[0].rounds) < want {
		r.Status, r.Reason = results.StatusPartial, fmt.Sprintf("ended after %d of at least %d rounds", len(t.ways[0].rounds), want)
	}
	return r
}

// aboveLimit says that a figure is above what bounds it, which no link does: then the limit is wrong (older kernels report 10 Gb/s for a
// rate that they do not know), or the bytes took another way. A hundredth is left to the clock.
func aboveLimit(r *results.Cell, d Direction) string {
	if r.Limit == nil || r.Limit.BytesPerSecond == nil || r.Realm != results.RealmHardware || r.Bandwidth == nil {
		return ""
	}
	limit := *r.Limit.BytesPerSecond
	if d == Both {
		limit *= 2
	}
	if limit <= 0 || r.Bandwidth.BytesPerSecond <= limit*1.01 {
		return ""
	}
	return fmt.Sprintf("%s is above the limit of %s (%s): the limit is reported wrong, or the bytes took another way", unit.Rate(r.Bandwidth.BytesPerSecond), unit.Rate(limit), r.Limit.Source)
}

// describe writes the evidence of the path and what the sides were set to.
func (t *track) describe(r *results.Cell) {
	l := t.link
	if len(l.paths[0]) == 0 || len(l.paths[1]) == 0 {
		if l.emulated {
			r.Realm = string(transports.Emulated)
		}
		return
	}
	end := 0
	if len(t.ways) > 0 {
		end = t.ways[0].endpoint
	}
	a, b := l.paths[0][end], l.paths[1][end]
	ma, mb := l.memory[0], l.memory[1]
	if t.cell.direction == Reverse {
		a, b, ma, mb = b, a, mb, ma
	}
	r.Label = transports.Label(l.name, a, b)
	r.Realm = string(worst(a.Realm, b.Realm))
	if l.emulated && r.Realm != string(transports.Double) {
		r.Realm = string(transports.Emulated)
	}
	r.InitiatorGPUWay, r.TargetGPUWay = string(a.GPUWay), string(b.GPUWay)
	r.Path = &results.Path{Initiator: sideOf(a, ma), Target: sideOf(b, mb)}
	limit := a.Limit
	if b.Limit != nil && (limit == nil || b.Limit.BytesPerSecond < limit.BytesPerSecond) {
		limit = b.Limit
	}
	if limit != nil {
		v := limit.BytesPerSecond
		r.Limit = &results.Limit{BytesPerSecond: &v, Source: limit.Source}
	}
	for side, p := range map[string]transports.Path{"initiator": a, "target": b} {
		for k, v := range p.Settings {
			r.Settings[side+"."+k] = v
		}
	}
	for _, w := range a.Warnings {
		r.Warnings = append(r.Warnings, "initiator: "+w)
	}
	for _, w := range b.Warnings {
		r.Warnings = append(r.Warnings, "target: "+w)
	}
}

// worst is the realm that says least about hardware.
func worst(a, b transports.Realm) transports.Realm {
	for _, r := range []transports.Realm{transports.Double, transports.Emulated, transports.Software} {
		if a == r || b == r {
			return r
		}
	}
	return transports.Hardware
}

func sideOf(p transports.Path, m mem.Facts) *results.Side {
	device := p.Device
	if device == "" {
		device = p.Netdev
	}
	s := &results.Side{
		Device: device, Address: p.Local, LinkLayer: p.LinkLayer, GID: p.GID, GIDIndex: wide(p.GIDIndex), GIDType: p.GIDType,
		GPUWay: string(p.GPUWay), NUMANode: wide(p.NUMANode), PCIDistance: p.PCIClass, NVLinks: wide(p.NVLinks), NVLinkVersion: p.NVLinkVer,
	}
	if p.Port > 0 {
		s.Port = wide(&p.Port)
	}
	if p.PathMTU > 0 {
		s.PathMTUBytes = wide(&p.PathMTU)
	}
	if p.SameHost != nil {
		s.Route = "other host"
		if *p.SameHost {
			s.Route = "same host"
		}
	}
	var memory []string
	if m.PageBytes > 0 {
		memory = append(memory, fmt.Sprintf("pages of %d bytes", m.PageBytes))
	}
	if m.HugeAsked != "" || m.HugeBytes > 0 {
		memory = append(memory, fmt.Sprintf("huge pages asked %q, back %d bytes", m.HugeAsked, m.HugeBytes))
	}
	if m.NUMANode != nil {
		memory = append(memory, fmt.Sprintf("NUMA node %d", *m.NUMANode))
	}
	s.Memory = strings.Join(memory, ", ")
	s.Evidence = append(s.Evidence, p.Evidence...)
	return s
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}

// measure writes the figures of a track that has rounds.
func (t *track) measure(r *results.Cell) error {
	c := t.cell
	stamp := int64(max(t.span.StampEvery, 1))
	r.StampEvery = &stamp
	warm := t.warmed.seconds
	r.WarmupSeconds = &warm
	cold := t.link.cold
	cold.Descriptors = positive(t.cold.descriptors)
	cold.FirstUse = positive(t.cold.firstUse)
	r.Cold = &cold
	var warnings []string
	var converged bool
	var err error
	switch c.metric {
	case Latency:
		var rounds [][]float64
		for _, o := range t.ways[0].rounds {
			samples := o.LatencySeconds
			if c.pingpong {
				half := make([]float64, len(samples))
				for i, s := range samples {
					half[i] = s / 2
				}
				samples = half
			}
			rounds = append(rounds, samples)
		}
		r.Latency, converged, warnings, err = results.LatencyOf(rounds)
	default:
		r.Bandwidth, converged, warnings, err = t.bandwidth()
		if err == nil {
			rate := r.Bandwidth.BytesPerSecond / float64(c.shape.Bytes())
			r.MessageRatePerSecond = &rate
			if w := aboveLimit(r, c.direction); w != "" {
				warnings = append(warnings, w)
			}
		}
	}
	if err != nil {
		return err
	}
	r.Converged = &converged
	r.Warnings = append(r.Warnings, warnings...)
	if c.concurrency > 1 || c.request != "" {
		for _, o := range t.ways[0].rounds {
			// One operation in flight on a stream, each stamped: that is each request's own time. Where a stamp stands for several, no
			// request has one.
			r.RequestSeconds = append(r.RequestSeconds, o.LatencySeconds...)
		}
		r.RequestSeconds = thin(r.RequestSeconds, mostRequests)
	}
	t.costs(r)
	return nil
}

// mostRequests bounds the times of single requests in a row: small ones are done by the million.
const mostRequests = 10_000

// thin keeps at most so many values, drawn evenly over the time of the cell.
func thin(values []float64, most int) []float64 {
	if len(values) <= most {
		return values
	}
	out := make([]float64, most)
	for i := range out {
		out[i] = values[i*len(values)/most]
	}
	return out
}

func positive(v float64) *float64 {
	if v <= 0 {
		return nil
	}
	return &v
}

// bandwidth joins the ways of a cell: both directions at once give each and the sum.
func (t *track) bandwidth() (*results.Bandwidth, bool, []string, error) {
	var ways []*results.Bandwidth
	var all []string
	converged := true
	for _, w := range t.ways {
		var rounds []results.Round
		for _, o := range w.rounds {
			rounds = append(rounds, results.Round{Bytes: float64(o.Bytes), End: o.Seconds, Operations: int64(o.Operations), Stamps: o.Stamps, BytesPerStamp: o.BytesPerStamp, StampEvery: int(o.StampEvery)})
		}
		b, ok, warnings, err := results.BandwidthOf(rounds)
		if err != nil {
			return nil, false, nil, err
		}
		ways, all, converged = append(ways, b), append(all, warnings...), converged && ok
	}
	if len(ways) == 1 {
		return ways[0], converged, all, nil
	}
	// Several ways: round by round the sum, so that the interval is that of the sum.
	var rounds []results.Round
	directions := map[bool][]float64{}
	for i := range t.ways[0].rounds {
		r := results.Round{}
		rates := map[bool]float64{}
		for _, w := range t.ways {
			o := w.rounds[i]
			rates[w.reverse] += float64(o.Bytes) / o.Seconds
			r.End, r.Operations = max(r.End, o.Seconds), r.Operations+int64(o.Operations)
		}
		r.Bytes = (rates[false] + rates[true]) * r.End
		rounds = append(rounds, r)
		for _, reverse := range []bool{false, true} {
			directions[reverse] = append(directions[reverse], rates[reverse])
		}
	}
	sum, ok, warnings, err := results.BandwidthOf(rounds)
	if err != nil {
		return nil, false, nil, err
	}
	if t.cell.direction == Both {
		for reverse, into := range map[bool]**float64{false: &sum.ForwardBytesPerSecond, true: &sum.ReverseBytesPerSecond} {
			centre, err := stat.Center(directions[reverse])
			if err != nil {
				return nil, false, nil, err
			}
			*into = &centre
		}
	}
	return sum, ok, append(all, warnings...), nil
}

// costs writes CPU and counters, summed over the rounds. The two sides' host is counted once where it is one, and a process too.
func (t *track) costs(r *results.Cell) {
	var initiator, target Usage
	bytes, host := 0.0, 0.0
	hostKnown := true
	add := func(sum *Usage, u Usage) {
		sum.UserSeconds += u.UserSeconds
		sum.SystemSeconds += u.SystemSeconds
		sum.Voluntary += u.Voluntary
		sum.Involuntary += u.Involuntary
		sum.Process, sum.HostID = u.Process, u.HostID
	}
	for _, w := range t.ways {
		for i, o := range w.rounds {
			bytes += float64(o.Bytes)
			a, b := o.Usage, w.served[i].Usage
			add(&initiator, a)
			add(&target, b)
			if w.reverse && len(t.ways) == 2 {
				continue // its host was counted with the other way
			}
			hostKnown = hostKnown && a.HostBusySeconds >= 0 && b.HostBusySeconds >= 0
			host += a.HostBusySeconds
			if a.HostID != b.HostID {
				host += b.HostBusySeconds
			}
		}
	}
	if bytes > 0 {
		per := func(seconds float64) *float64 { v := seconds / (bytes / 1e9); return &v }
		f := func(v float64) *float64 { return &v }
		n := func(v int64) *int64 { return &v }
		cpu := &results.CPU{
			InitiatorSecondsPerGigabyte: per(initiator.UserSeconds + initiator.SystemSeconds),
			InitiatorUserSeconds:        f(initiator.UserSeconds), InitiatorSystemSeconds: f(initiator.SystemSeconds),
			InitiatorVoluntary: n(initiator.Voluntary), InitiatorInvoluntary: n(initiator.Involuntary),
		}
		if initiator.Process != target.Process {
			cpu.TargetSecondsPerGigabyte = per(target.UserSeconds + target.SystemSeconds)
			cpu.TargetUserSeconds, cpu.TargetSystemSeconds = f(target.UserSeconds), f(target.SystemSeconds)
			cpu.TargetVoluntary, cpu.TargetInvoluntary = n(target.Voluntary), n(target.Involuntary)
		}
		if hostKnown {
			cpu.HostSecondsPerGigabyte, cpu.HostBusySeconds = per(host), f(host)
		}
		r.CPU = cpu
	}
	if last := len(t.ways[0].rounds) - 1; last >= 0 {
		r.InitiatorCPUs, r.TargetCPUs = t.ways[0].rounds[last].CPUs, t.ways[0].served[last].CPUs
	}
	t.phases(r)
	r.Counters = t.counters()
	r.Warnings = append(r.Warnings, losses(r.Counters)...)
}

// phases writes where the time of staged transfers went, in seconds over all rounds: each phase by itself, their sum, and the time that
// passed; the less of it, the more of staging is hidden.
func (t *track) phases(r *results.Cell) {
	phases := map[string]float64{}
	passed := 0.0
	for _, w := range t.ways {
		for i, o := range w.rounds {
			passed += o.Seconds
			for _, c := range slices.Concat(o.Counters, w.served[i].Counters) {
				if c.Source == transports.StagingPhases {
					phases[c.Name] += float64(c.Value) / 1e9
				}
			}
		}
	}
	if len(phases) == 0 {
		return
	}
	sum := 0.0
	for _, s := range phases {
		sum += s
	}
	phases["sum"], phases["overlapped"] = sum, passed
	r.PhasesSeconds = phases
}
