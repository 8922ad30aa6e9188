package harness

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"hopbench/harness/hostinfo"
	"hopbench/results"
	"hopbench/results/unit"
	"hopbench/transports/fault"
)

// Flow is an initiator and a target that a plan is measured between: a rail of two hosts, a pair of a mesh, two GPUs.
type Flow struct {
	Rail                          string // into the row's rail
	InitiatorHost, TargetHost     string // into the row's hosts
	Initiator, Target             Peer   // either may be in another process
	InitiatorDevice, TargetDevice string // instead of the plan's; empty: the plan's
	InitiatorMemory, TargetMemory string // the same
	InitiatorBind, TargetBind     netip.Addr
	Announce                      string // data address that the target announces instead of its bound one
	// Bytes replaces the plan's one size: flows that run at once and move unlike amounts. Their rows have no sum.
	Bytes uint64
	// SameProcess says that both peers live in this process, OtherHost that they are on two hosts. Neither: two processes of one host.
	SameProcess, OtherHost bool
}

// Step is flows whose loops run at once.
type Step struct {
	Schedule string // into the rows: "isolated", "together", "incast" …
	Flows    []int  // indices
	// Plan is what this step measures; nil: the run's plan.
	Plan *Plan
	// Background flows run the one cell of BackgroundPlan, of bandwidth over one transport, beside the step's flows for as long as those run. They
	// have no rows. A cell whose background load ended early has failed.
	Background     []int
	BackgroundPlan *Plan
	// Aggregate adds a row for each cell of bandwidth: the sum of the flows round by round, with this in its rail. Empty: none.
	Aggregate string
	// Done is called when the step's rows have been given; nil for none.
	Done func() error
}

const (
	// lookAhead is for how many steps a link that is not needed at once is kept open.
	lookAhead = 16
	// mostLinks bounds the links that are kept open between steps.
	mostLinks = 256
	// openAtOnce bounds how many links are being opened at a time.
	openAtOnce = 32
	// silence is how long a peer without work hears nothing.
	silence = 15 * time.Second
)

// flows is a run of RunFlows.
type flows struct {
	plan     *Plan
	flows    []Flow
	links    map[string]*link // by flow, transport and plan
	peers    []Peer           // each once
	emulated bool
	lastSign time.Time
	started  time.Time
}

// RunFlows measures the cells of a plan over flows, step by step: the loops of a step's flows run at once, and each flow gives rows of its own. A
// flow that fails has failed rows; the others complete. Links are opened when a step first needs them and closed after the last of the next steps
// that does.
//
// The clock of each figure is its initiator's own. The loops of a step start when the last flow is ready; how far apart they may have begun
// stands in each row as settings start_spread_seconds: an upper bound from the coordinator's clock, so it holds the two messages' time too.
func RunFlows(ctx context.Context, p Plan, all []Flow, steps []Step, sink Sink) error {
	if err := p.Check(); err != nil {
		return err
	}
	total := 0
	for i, s := range steps {
		for _, n := range slices.Concat(s.Flows, s.Background) {
			if n < 0 || n >= len(all) {
				return fmt.Errorf("step %d names flow %d of %d", i, n, len(all))
			}
			if q := s.plan(&p); all[n].Bytes > 0 && (len(q.Sizes) != 1 || len(q.Requests) > 0 || s.Aggregate != "") {
				return fmt.Errorf("step %d has flows with bytes of their own: its plan has one size to replace, and no sum", i)
			}
		}
		for _, q := range []*Plan{s.Plan, s.BackgroundPlan} {
			if q == nil {
				continue
			}
			if err := q.Check(); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		if (len(s.Background) > 0) != (s.BackgroundPlan != nil) {
			return fmt.Errorf("step %d: a background load is flows and a plan", i)
		}
		if q := s.BackgroundPlan; q != nil && (len(q.cells()) != 1 || len(q.Transports) != 1 || q.cells()[0].metric != Bandwidth) {
			return fmt.Errorf("step %d: a background load is one cell of bandwidth over one transport", i)
		}
		total += len(s.Flows) * len(s.plan(&p).cells()) * len(s.plan(&p).Transports)
	}
	r := &flows{plan: &p, flows: all, links: map[string]*link{}, started: time.Now(), lastSign: time.Now()}
	for _, f := range all {
		for _, peer := range []Peer{f.Initiator, f.Target} {
			if !slices.Contains(r.peers, peer) {
				r.peers = append(r.peers, peer)
			}
		}
	}
	if here, err := hostinfo.Read(); err == nil {
		r.emulated = hostinfo.Emulated(here)
	}
	defer func() { r.close(ctx, func(string) bool { return false }) }()
	done := 0
	for i := range steps {
		s := &steps[i]
		for _, name := range s.plan(&p).Transports {
			n, err := r.step(ctx, s, name, sink, done, total)
			done += n
			if err != nil {
				return err
			}
		}
		needed := map[string]bool{}
		for _, next := range steps[i+1 : min(i+1+lookAhead, len(steps))] {
			for _, name := range next.plan(&p).Transports {
				for _, f := range next.Flows {
					needed[r.key(f, name, next.plan(&p))] = true
				}
				for _, f := range next.Background {
					if q := next.BackgroundPlan; q != nil {
						needed[r.key(f, q.Transports[0], q)] = true
					}
				}
			}
		}
		kept := 0
		r.close(ctx, func(key string) bool {
			kept++
			return needed[key] && kept <= mostLinks
		})
		if s.Done != nil {
			if err := s.Done(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

func (s *Step) plan(p *Plan) *Plan {
	if s.Plan != nil {
		return s.Plan
	}
	return p
}

func (r *flows) key(flow int, transport string, p *Plan) string {
	return fmt.Sprintf("%d %s %p", flow, transport, p)
}

// close closes the links that keep does not want.
func (r *flows) close(ctx context.Context, keep func(string) bool) {
	var ending sync.WaitGroup
	room := make(chan struct{}, openAtOnce)
	for key, l := range r.links {
		if keep(key) && l.down == nil {
			continue
		}
		delete(r.links, key)
		ending.Add(1)
		go func() {
			defer ending.Done()
			room <- struct{}{}
			l.close(ctx)
			<-room
		}()
	}
	ending.Wait()
}

// open gives the links of some flows, opened at once as far as they are not open yet. A link that cannot be opened says why in its down.
func (r *flows) open(ctx context.Context, which []int, transport string, p *Plan) []*link {
	links := make([]*link, len(which))
	var opening sync.WaitGroup
	room := make(chan struct{}, openAtOnce)
	for i, n := range which {
		key := r.key(n, transport, p)
		if l := r.links[key]; l != nil && l.down == nil {
			links[i] = l
			continue
		}
		f := &r.flows[n]
		own := *p
		for _, o := range []struct {
			into  *string
			value string
		}{{&own.Device, f.InitiatorDevice}, {&own.RemoteDevice, f.TargetDevice}, {&own.LocalMemory, f.InitiatorMemory}, {&own.RemoteMemory, f.TargetMemory}} {
			if o.value != "" {
				*o.into = o.value
			}
		}
		if f.Bytes > 0 {
			own.Sizes = []uint64{f.Bytes}
		}
		s := &Session{Local: f.Initiator, Remote: f.Target, OtherHost: f.OtherHost, Bind: f.InitiatorBind, RemoteBind: f.TargetBind, Announce: f.Announce}
		if f.SameProcess {
			s.InProcess = f.Target
		}
		l := &link{name: transport, plan: &own, session: s, emulated: r.emulated}
		links[i], r.links[key] = l, l
		opening.Add(1)
		go func() {
			defer opening.Done()
			room <- struct{}{}
			l.down = l.open(ctx)
			<-room
		}()
	}
	opening.Wait()
	return links
}

// step measures all cells of a step over one transport and returns how many rows it gave.
func (r *flows) step(ctx context.Context, s *Step, transport string, sink Sink, done, total int) (int, error) {
	p := s.plan(r.plan)
	links := r.open(ctx, s.Flows, transport, p)
	var load *load
	if q := s.BackgroundPlan; q != nil && len(s.Background) > 0 {
		load = newLoad(r.open(ctx, s.Background, q.Transports[0], q), q)
	}
	cells := p.cells()
	given := 0
	again := map[*link]bool{} // opened afresh in this step, once
	for i := range cells {
		if ctx.Err() != nil {
			return given, ctx.Err()
		}
		// A size that fails must not end a sweep.
		for n, l := range links {
			if l.down != nil && i > 0 && !again[l] && !fault.ClassOf(l.down).Waives() && fault.ClassOf(l.down) != fault.Usage {
				links[n] = r.open(ctx, s.Flows[n:n+1], transport, p)[0]
				again[links[n]] = true
			}
		}
		if sink.Progress != nil {
			pr := Progress{Done: done + given, Total: total, What: fmt.Sprintf("%s, %d flows, %s: %s", s.Schedule, len(s.Flows), transport, cells[i].String()), Elapsed: time.Since(r.started)}
			if pr.Done > 0 {
				pr.Estimate = time.Duration(float64(pr.Elapsed) / float64(pr.Done) * float64(total-pr.Done))
			}
			sink.Progress(pr)
		}
		r.sign(ctx)
		m := &measurement{plan: p, cell: &cells[i], started: time.Now()}
		for n, l := range links {
			t := newTrack(l, &l.plan.cells()[i], i)
			t.salt = uint64(s.Flows[n] + 1)
			m.tracks = append(m.tracks, t)
		}
		r.shares(s, m.tracks)
		m.together(ctx, load)
		spread, share := m.spread()
		for n, t := range m.tracks {
			c := t.record(m)
			r.name(c, s, s.Flows[n], t)
			if len(m.tracks) > 1 && c.HasFigure() {
				c.Settings["start_spread_seconds"] = fmt.Sprintf("%.6f", spread)
				if share > mostSpread {
					c.Warnings = append(c.Warnings, apart(spread, share, "they ran together for the rest of it only"))
				}
			}
			given++
			if err := sink.Cell(c); err != nil {
				return given, err
			}
		}
		if s.Aggregate != "" && cells[i].metric == Bandwidth {
			if err := sink.Cell(m.aggregate(s)); err != nil {
				return given, err
			}
		}
	}
	return given, nil
}

// apart tells how far apart loops may have begun, and what follows where that is less than a whole loop.
func apart(seconds, share float64, follows string) string {
	if share >= 1 {
		return fmt.Sprintf("the flows' loops may have begun %s apart, which is longer than a loop: it is not shown that they ran together", unit.Seconds(seconds))
	}
	return fmt.Sprintf("the flows' loops may have begun up to %.0f %% of a round apart: %s", 100*share, follows)
}

// mostSpread is the share of a round by which the starts may differ without a warning.
const mostSpread = 0.1

// sign keeps the sessions of peers without work alive, between cells.
func (r *flows) sign(ctx context.Context) {
	if time.Since(r.lastSign) < silence {
		return
	}
	r.lastSign = time.Now()
	inner, cancel := context.WithTimeout(ctx, time.Duration(r.plan.PhaseTimeout*float64(time.Second)))
	defer cancel()
	var asked sync.WaitGroup
	room := make(chan struct{}, openAtOnce)
	for _, p := range r.peers {
		asked.Add(1)
		go func() {
			defer asked.Done()
			room <- struct{}{}
			_ = p.Alive(inner) // a peer that is gone says so again where it is needed
			<-room
		}()
	}
	asked.Wait()
}

// shares parts the CPUs of each process, or of each host where both sides are on one, among the loops that run there at once.
func (r *flows) shares(s *Step, tracks []*track) {
	type place struct{ peer Peer }
	group := func(n, side int) place {
		f := &r.flows[n]
		if side == 1 && f.OtherHost {
			return place{f.Target}
		}
		return place{f.Initiator}
	}
	counts := map[place]int{}
	for side := range 2 {
		for i, t := range tracks {
			g := group(s.Flows[i], side)
			t.share[side] = counts[g]
			counts[g]++
		}
	}
	for side := range 2 {
		for i, t := range tracks {
			t.shares[side] = counts[group(s.Flows[i], side)]
		}
	}
}

// name writes into a row which flow it is of.
func (r *flows) name(c *results.Cell, s *Step, n int, t *track) {
	f := &r.flows[n]
	c.Schedule, c.Rail, c.InitiatorHost, c.TargetHost = s.Schedule, f.Rail, f.InitiatorHost, f.TargetHost
	if f.Bytes > 0 {
		c.Settings["own_bytes"] = "this pair's own: other pairs of the step moved other amounts"
	}
	if t.cell.direction == Reverse {
		c.InitiatorHost, c.TargetHost = c.TargetHost, c.InitiatorHost
	}
}

// aggregate is the sum of a step's flows as a row of its own: no evidence of a path, since it has several. It has a figure only where all flows have one.
func (m *measurement) aggregate(s *Step) *results.Cell {
	sum := &track{link: m.tracks[0].link, cell: m.cell, span: m.tracks[0].span, verify: true}
	for _, t := range m.tracks {
		if t.err != nil && sum.err == nil {
			sum.err = fmt.Errorf("a flow of the sum has no figure: %w", t.err)
		}
		sum.verify = sum.verify && t.verify
		sum.ways = append(sum.ways, t.ways...)
	}
	if sum.err == nil {
		for _, w := range sum.ways {
			if len(w.rounds) != len(sum.ways[0].rounds) || len(w.rounds) == 0 {
				sum.err = errors.New("the flows of the sum have unlike numbers of rounds")
			}
		}
	}
	first := m.tracks[0].record(m)
	c := &results.Cell{
		Transport: first.Transport, Label: first.Label, Realm: first.Realm, Definition: first.Definition, Operation: first.Operation, Direction: first.Direction,
		PieceBytes: first.PieceBytes, TotalBytes: first.TotalBytes, Descriptors: first.Descriptors, Pattern: first.Pattern, Depth: first.Depth, Streams: first.Streams,
		Concurrency: first.Concurrency, InitiatorMemory: first.InitiatorMemory, TargetMemory: first.TargetMemory, InitiatorGPUWay: first.InitiatorGPUWay,
		TargetGPUWay: first.TargetGPUWay, Wait: first.Wait, RateBytesPerSecond: first.RateBytesPerSecond, Pieces: first.Pieces, BufferPolicy: first.BufferPolicy,
		Started: first.Started, ElapsedSeconds: first.ElapsedSeconds, Rail: s.Aggregate, Schedule: s.Schedule, Status: results.StatusOK,
		Settings: map[string]string{"flows": fmt.Sprint(len(m.tracks))},
	}
	for _, t := range m.tracks[1:] {
		if r := t.record(m); r.Label != c.Label {
			c.Label = c.Transport + ", several paths"
		}
	}
	if sum.err == nil {
		var converged bool
		c.Bandwidth, converged, _, sum.err = sum.bandwidth()
		c.Converged, c.Verified = &converged, &sum.verify
	}
	if sum.err != nil {
		c.Status, c.Code, c.Bandwidth, c.Converged = results.StatusFailed, string(fault.CodeOf(sum.err)), nil, nil
		c.Reason = sum.err.Error()
		if fault.ClassOf(sum.err).Waives() {
			c.Status = results.StatusWaived
		}
		return c
	}
	rate := c.Bandwidth.BytesPerSecond / float64(m.cell.shape.Bytes())
	c.MessageRatePerSecond = &rate
	if spread, share := m.spread(); len(m.tracks) > 1 {
		c.Settings["start_spread_seconds"] = fmt.Sprintf("%.6f", spread)
		if share > mostSpread {
			c.Warnings = append(c.Warnings, apart(spread, share, "the sum holds flows that did not run together all the time"))
		}
	}
	return c
}
