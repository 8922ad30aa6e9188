package harness

import (
	"context"
	"errors"
	"math"
	"time"

	"hopbench/results/stat"
	"hopbench/transports/fault"
)

// measurement is one cell over all transports, in rounds.
type measurement struct {
	plan    *Plan
	cell    *cell
	started time.Time
	tracks  []*track
	// Of each round of a cell whose tracks run together: how far apart their loops may have begun, and the shortest loop. Seconds.
	spreads, shortest []float64
}

// track is one transport's part in a measurement.
type track struct {
	link     *link
	cell     *cell
	index    int   // of the cell, for the seed
	err      error // why there is no figure
	tooLarge bool  // it is this size alone that finds no room
	ways     []way // one, or two for both directions at once
	span     Span
	done     bool
	took     float64 // seconds of measured rounds
	voids    int     // rounds that confirmed nothing and were taken back
	cold     struct{ descriptors, firstUse float64 }
	verify   bool
	warmed   struct {
		seconds    float64
		operations int64
	}
	// Where several tracks run together: what tells their payloads apart, which part of its CPUs each side takes, what the loops wait at before they
	// begin, and when each way's loop was sent off and answered, by this process's clock.
	salt           uint64
	share, shares  [2]int
	gate           *gate
	sent, answered [2]time.Time
}

// way is one direction of a cell: who initiates, on which endpoint, and what each side's loops gave.
type way struct {
	endpoint          int
	initiator, target Lane
	reverse           bool
	rounds            []Outcome // of the initiator
	served            []Outcome // of the target
}

func newTrack(l *link, c *cell, index int) *track {
	t := &track{link: l, cell: c, index: index, err: l.down}
	if t.err != nil {
		return t
	}
	forward := way{endpoint: 0, initiator: l.local, target: l.remote}
	reverse := way{endpoint: 0, initiator: l.remote, target: l.local, reverse: true}
	switch c.direction {
	case Reverse:
		t.ways = []way{reverse}
	case Both:
		reverse.endpoint = 1
		t.ways = []way{forward, reverse}
	default:
		t.ways = []way{forward}
	}
	if c.shape.Bytes() > l.most {
		t.err, t.tooLarge = l.mostErr, true
		return t
	}
	need := l.need()
	need.Op, need.PingPong, need.Notify = c.op, c.pingpong, c.notify
	need.Largest, need.Streams, need.Pieces = c.shape.Bytes(), c.streams, c.shape.Pieces()
	t.err = l.caps.Check(l.name, need)
	return t
}

// work is the cell as one side sees it.
func (t *track) work(w *way, initiate bool, round uint64) Work {
	p := t.link.plan
	k := Work{
		Endpoint: w.endpoint, Op: t.cell.op, PingPong: t.cell.pingpong, Notify: t.cell.notify, Initiate: initiate, Shape: t.cell.shape,
		Depth: t.cell.depth, Batch: p.Batch, Rate: p.Rate, Wait: p.Wait, Seed: p.Seed + uint64(t.index)<<20 + t.salt<<44, Round: round, Share: 0, Shares: 1,
	}
	if w.endpoint == 1 { // the two ways use different memory
		k.Shape.Base = t.link.plan.memory(t.link.most) / 2 / guard * guard
	}
	side := 0
	if here := initiate != w.reverse; !here {
		side = 1
	}
	if t.shares[side] > 0 {
		k.Share, k.Shares = t.share[side], t.shares[side]
	}
	if t.link.sameHost && k.Shares == 1 {
		k.Share, k.Shares = side, 2
	}
	return k
}

// prepare fills both sides' memory for a round and builds their lists.
func (t *track) prepare(ctx context.Context, round uint64) error {
	return t.link.phase(ctx, "prepare the cell", 2*t.cell.shape.Footprint()*uint64(len(t.ways)), func(ctx context.Context) error {
		for i := range t.ways {
			w := &t.ways[i]
			a, err := w.initiator.Prepare(ctx, t.work(w, true, round))
			if err != nil {
				return err
			}
			if _, err := w.target.Prepare(ctx, t.work(w, false, round)); err != nil {
				return err
			}
			t.cold.descriptors = a.DescriptorSeconds
		}
		return nil
	})
}

// round arms the targets, warms up, and runs the initiators' loops: of all ways at once.
func (t *track) round(ctx context.Context, warm, span Span) (err error) {
	loops := 1
	if warm.Seconds > 0 || warm.Operations > 0 {
		loops = 2
	}
	armed := 0
	outcomes := make([]Outcome, len(t.ways))
	defer func() {
		// Disarm what was armed, whatever happened: a disarmed side runs no thread.
		inner, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(t.link.plan.PhaseTimeout*float64(time.Second)))
		defer cancel()
		for i := range armed {
			served, derr := t.ways[i].target.Disarm(inner, t.ways[i].endpoint)
			if derr != nil {
				err = moreTelling(err, derr)
			}
			if err == nil && span.Stamps > 0 {
				t.ways[i].rounds = append(t.ways[i].rounds, outcomes[i])
				t.ways[i].served = append(t.ways[i].served, served)
			}
		}
	}()
	for i := range t.ways {
		if err := t.link.phase(ctx, "arm the target", 0, func(ctx context.Context) error {
			return t.ways[i].target.Arm(ctx, t.ways[i].endpoint, loops)
		}); err != nil {
			return err
		}
		armed++
	}
	if loops == 2 {
		start := time.Now()
		if err := t.each(ctx, func(ctx context.Context, i int) error {
			return t.ways[i].initiator.Warm(ctx, t.ways[i].endpoint, warm)
		}); err != nil {
			return err
		}
		t.warmed.seconds += time.Since(start).Seconds()
		for i := range t.ways {
			if err := t.link.phase(ctx, "meet at the barrier", 0, func(ctx context.Context) error {
				return t.ways[i].target.Barrier(ctx, t.ways[i].endpoint)
			}); err != nil {
				return err
			}
		}
	}
	if g := t.gate; g != nil {
		t.gate = nil
		g.arrive()
		select {
		case <-g.open:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return t.each(ctx, func(ctx context.Context, i int) (err error) {
		t.sent[i] = time.Now()
		outcomes[i], err = t.ways[i].initiator.Run(ctx, t.ways[i].endpoint, span)
		t.answered[i] = time.Now()
		return err
	})
}

// each runs f for all ways at once, under the limit of a loop: a large one, since a loop ends by its own stall limit.
func (t *track) each(ctx context.Context, f func(context.Context, int) error) error {
	if len(t.ways) == 1 {
		return f(ctx, 0)
	}
	errs := make([]error, len(t.ways))
	ended := make(chan struct{})
	for i := range t.ways {
		go func() {
			errs[i] = f(ctx, i)
			ended <- struct{}{}
		}()
	}
	for range t.ways {
		<-ended
	}
	return errors.Join(errs...)
}

// moreTelling is the error that says more about the cause: one with a class before one without, the initiator's before the target's.
func moreTelling(a, b error) error {
	if a == nil || (fault.ClassOf(a) == fault.Internal && fault.ClassOf(b) != fault.Internal) {
		return b
	}
	return a
}

// first runs the cell once over every place, unmeasured, and verifies what arrived; then it chooses the length of the rounds from a trial.
func (t *track) first(ctx context.Context) error {
	p := t.link.plan
	if err := t.prepare(ctx, 1); err != nil {
		return err
	}
	slots := uint64(t.cell.shape.Slots)
	passes := Span{Operations: slots, StampEvery: 1, Stamps: int(slots)}
	if err := t.round(ctx, Span{}, passes); err != nil {
		return err
	}
	if w := t.ways[0]; t.link.fresh && len(w.rounds) > 0 && len(w.rounds[0].Stamps) > 0 {
		t.cold.firstUse = w.rounds[0].Stamps[0]
	}
	t.link.fresh = false
	moved := false
	if w := t.ways[0]; len(w.rounds) > 0 {
		// A peer that was reached by an address may be this host all the same, in another network namespace: the threads then share the CPUs.
		same := w.rounds[0].Usage.HostID == w.served[0].Usage.HostID
		moved, t.link.sameHost = same != t.link.sameHost, same
	}
	if err := t.check(ctx); err != nil {
		return err
	}
	t.forget()
	if moved { // the trial shall run on the CPUs that the rounds will run on
		if err := t.prepare(ctx, 1); err != nil {
			return err
		}
	}
	trial := Span{Seconds: max(p.Warmup, 0.005), StampEvery: 1, Stamps: 4096}
	if t.cell.concurrency > 1 || p.Iterations > 0 {
		trial = Span{Operations: max(slots, 1), StampEvery: 1, Stamps: 4096}
	}
	for try := 0; ; try++ {
		if err := t.round(ctx, Span{}, trial); err != nil {
			return err
		}
		if !t.void() {
			break
		}
		if try == mostVoid {
			return fault.New(fault.LoopStalled, "try the cell", t.link.name, "no operation was confirmed in %d tries", try+1)
		}
	}
	o := t.ways[0].rounds[0]
	t.warmed.seconds += o.Seconds
	t.warmed.operations += int64(o.Operations)
	t.forget()
	if o.Operations == 0 || o.Seconds <= 0 {
		return fault.New(fault.LoopStalled, "try the cell", t.link.name, "no operation was confirmed")
	}
	// The timed rounds start from another pattern, so that what they leave is theirs.
	if err := t.prepare(ctx, 2); err != nil {
		return err
	}
	perStream := o.Seconds / (float64(o.Operations) / float64(t.cell.streams))
	t.span = t.spanFor(perStream)
	return nil
}

// most stamps of a stream and round: 1 MiB of memory.
const mostStamps = 1 << 17

// spanFor chooses a round's end and its stamps from the time that one operation takes a stream.
func (t *track) spanFor(operation float64) Span {
	p := t.link.plan
	s := Span{Seconds: p.Round, StampEvery: 1}
	if p.Iterations > 0 {
		s = Span{Operations: p.Iterations, StampEvery: 1}
	}
	if t.cell.concurrency > 1 || t.cell.request != "" && t.cell.shape.Slots == 1 && t.cell.concurrency == 1 && operation > p.Round/4 {
		// A burst: each stream carries one request, and its own time is what counts.
		s = Span{Operations: 1, StampEvery: 1}
	}
	if p.Rate > 0 && s.Operations == 0 {
		s = Span{Operations: uint64(max(pacedOperations, p.Round*p.Rate/float64(t.cell.shape.Bytes()))), StampEvery: 1}
	}
	// Half as many stamps again as expected; a full record ends the loop, so what is missing is never measured wrongly. The trial of a track that
	// runs with others met them in another state than the rounds will.
	room := 1.5
	if t.salt != 0 {
		room = 6
	}
	expected := p.Round / operation
	if s.Operations > 0 {
		expected = float64(s.Operations)
	}
	if t.cell.metric == Bandwidth {
		if operation < 1e-6 {
			s.StampEvery = uint64(math.Ceil(1e-6 / operation))
		}
		if n := expected * room / float64(s.StampEvery); n > mostStamps {
			s.StampEvery *= uint64(math.Ceil(n / mostStamps))
		}
	}
	s.Stamps = int(min(mostStamps, math.Ceil(expected*room/float64(s.StampEvery))+64))
	if s.Operations > 0 && s.StampEvery == 1 {
		s.Stamps = int(min(uint64(s.Stamps), s.Operations))
	}
	return s
}

// mostVoid is how many rounds of a cell may bring nothing: a busy machine now and then starts a thread only when its round is over.
const mostVoid = 10

// void takes the last round back and says so where one of its ways confirmed no operation: a round lasts at least one operation.
func (t *track) void() bool {
	void := false
	for _, w := range t.ways {
		void = void || w.rounds[len(w.rounds)-1].Operations == 0
	}
	if void {
		t.takeBack()
	}
	return void
}

// takeBack forgets the last round.
func (t *track) takeBack() {
	for i := range t.ways {
		w := &t.ways[i]
		w.rounds, w.served = w.rounds[:len(w.rounds)-1], w.served[:len(w.served)-1]
	}
}

func (t *track) forget() {
	for i := range t.ways {
		t.ways[i].rounds, t.ways[i].served = nil, nil
	}
}

// check verifies the memory of both sides.
func (t *track) check(ctx context.Context) error {
	return t.link.phase(ctx, "verify the payload", 2*t.cell.shape.Footprint()*uint64(len(t.ways)), func(ctx context.Context) error {
		for i := range t.ways {
			w := &t.ways[i]
			if err := errors.Join(w.initiator.Verify(ctx, w.endpoint), w.target.Verify(ctx, w.endpoint)); err != nil {
				return err
			}
		}
		return nil
	})
}

// run interleaves the rounds of all transports.
func (m *measurement) run(ctx context.Context) {
	for _, t := range m.tracks {
		if t.err == nil {
			t.fail(ctx, t.first(ctx))
		}
	}
	for round := 0; ; round++ {
		open := false
		for i := range m.tracks {
			t := m.tracks[(i+round)%len(m.tracks)]
			if t.err != nil || t.done {
				continue
			}
			if ctx.Err() != nil {
				t.done = true
				continue
			}
			warm := Span{Seconds: m.plan.Warmup, Operations: 0}
			if m.cell.concurrency > 1 || m.plan.Warmup == 0 {
				warm = Span{Operations: 1}
			}
			if err := t.round(ctx, warm, t.span); err != nil {
				t.fail(ctx, err)
				continue
			}
			if t.void() {
				if t.voids++; t.voids > mostVoid {
					t.fail(ctx, fault.New(fault.LoopStalled, "measure the cell", t.link.name, "%d rounds of %g s confirmed no operation", t.voids, t.span.Seconds))
				}
				open = open || t.err == nil
				continue
			}
			t.took += t.ways[0].rounds[len(t.ways[0].rounds)-1].Seconds
			t.done = t.enough(m.plan)
			open = open || !t.done
		}
		if !open {
			break
		}
	}
	for _, t := range m.tracks {
		t.conclude(ctx)
	}
}

// conclude verifies what the rounds of a track have left.
func (t *track) conclude(ctx context.Context) {
	if t.err != nil || len(t.ways[0].rounds) == 0 {
		return
	}
	covered := true
	for _, w := range t.ways {
		for _, o := range w.rounds {
			covered = covered && o.Operations >= uint64(t.cell.shape.Slots*t.cell.streams)
		}
	}
	if covered && ctx.Err() == nil {
		t.fail(ctx, t.check(ctx))
	}
	t.verify = t.err == nil
}

// fail ends a track, and takes its transport out of the rotation unless its connection is still good.
func (t *track) fail(ctx context.Context, err error) {
	if err == nil {
		return
	}
	if ctx.Err() != nil {
		t.done = true
		return
	}
	err = t.link.cause(ctx, err)
	t.err = err
	if fault.ClassOf(err) == fault.Corrupt {
		return
	}
	t.link.down = err
	t.link.close(ctx)
}

// enough says whether a track has the rounds that the plan asks for.
func (t *track) enough(p *Plan) bool {
	n := len(t.ways[0].rounds)
	if p.Rounds > 0 {
		return n >= p.Rounds
	}
	if n < MinRounds {
		return false
	}
	if t.took >= p.Duration || n >= MaxRounds {
		return true
	}
	return stat.Converged(t.figures(nil))
}

// figures are the rounds' own figures: what convergence is judged by.
func (t *track) figures(dst []float64) []float64 {
	for i := range t.ways[0].rounds {
		if t.cell.metric == Latency {
			if m, err := stat.Center(t.ways[0].rounds[i].LatencySeconds); err == nil {
				dst = append(dst, m)
			}
			continue
		}
		sum := 0.0
		for _, w := range t.ways {
			sum += float64(w.rounds[i].Bytes) / w.rounds[i].Seconds
		}
		dst = append(dst, sum)
	}
	return dst
}
