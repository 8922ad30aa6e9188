package verbs

import (
	"errors"
	"math"
	"syscall"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/internal/staging"
	"hopbench/transports/internal/threads"
)

// stagedLoop is one loop of an endpoint whose own or whose peer's device memory is staged. Like the native loops it drives all streams
// from one thread; unlike them it crosses into C a few times a chunk, since between two chunks the GPU has to be asked.
type stagedLoop struct {
	e         *endpoint
	l         *transports.Loop
	native    ibverbs.Loop // what the notes say of the loop
	initiates bool
	flows     []*flow
	events    [ibverbs.MaxEvents]ibverbs.Event
	now       int64
	moved     int64 // when something last moved
	stall     int64 // ns; 0: without limit
	open      bool  // more operations may be started
	serving   bool
	news      bool // a note has come since hear last looked
	known     map[ibverbs.Note]ibverbs.Heard
}

// flow is one stream of a staged loop.
type flow struct {
	queue   int
	list    *transports.List
	out     *sender   // nil: this side sends nothing
	in      *receiver // nil: nothing comes here that this side has to know of
	numbers uint32    // words that came

	acked, asked, noted uint64 // as the peer says
	told                struct{ ack, ask, note uint64 }

	// Of the initiator.
	stamps        *transports.Stamps
	sums          []uint64
	count         uint64
	started, done uint64
}

// runStaged is run for a staged endpoint.
func (e *endpoint) runStaged(what string, l *transports.Loop, echo, initiates bool) error {
	stall := e.options.StallSeconds
	if stall <= 0 {
		stall = 5
	}
	p := &stagedLoop{e: e, l: l, initiates: initiates, open: true, news: true, known: map[ibverbs.Note]ibverbs.Heard{}, stall: int64(stall * 1e9),
		native: ibverbs.Loop{Op: operations[l.Op], Notify: l.Notify}}
	if echo {
		p.native.Echo = ibverbs.EchoMessage
	}
	err := threads.Run(1, l.CPUs, func(int) error {
		if e.stage == nil {
			p.prepare(nil)
			return p.run()
		}
		return e.stage.context.Do(func(th *cuda.Thread) error {
			p.prepare(th)
			defer p.phases()
			return p.run()
		})
	})
	if err == nil {
		return nil
	}
	e.group.Break()
	var f *ibverbs.Failure
	switch {
	case errors.As(err, &f):
		confirmed := uint64(0)
		for _, f := range p.flows {
			confirmed += f.done
		}
		return e.explainLoop(what, f, confirmed)
	case fault.ClassOf(err) != fault.Internal:
		return err
	}
	return cuda.Fault(err, what+" through host memory", where(e.t.device.Name, e.t.number))
}

// prepare makes the flows: who sends and who receives what, and by which of the ways.
func (p *stagedLoop) prepare(th *cuda.Thread) {
	e, l := p.e, p.l
	patience := staging.Patience{Spin: -1, Stall: time.Duration(p.stall)}
	read := l.Op == transports.Read
	mine, theirs := e.stage != nil, e.peer.Staged != nil
	for s := range l.Lists {
		f := &flow{queue: s, list: &l.Lists[s], count: math.MaxUint64, stamps: new(transports.Stamps)}
		if l.Count > 0 {
			f.count = l.Count
		}
		if p.initiates {
			if len(l.Stamps) > 0 {
				f.stamps = &l.Stamps[s]
				f.stamps.Reset()
				f.count = min(f.count, f.stamps.Room())
			}
			f.sums = sums(f.list)
		}
		sends := p.initiates != read || p.native.Echo != ibverbs.NoEcho
		receives := p.initiates == read || p.native.Echo != ibverbs.NoEcho
		fetch := read && p.initiates && !theirs
		if read && !p.initiates && !mine { // the initiator fetches by itself
			sends = false
		}
		if receives {
			f.in = &receiver{list: f.list, swap: !p.initiates}
			if p.initiates && p.native.Echo != ibverbs.NoEcho {
				f.in.shift = l.ReplyOffset
			}
			if mine {
				f.in.sink = e.stage.rings[s].in.Sink(th, e.stage.base, patience)
			}
		}
		if sends || fetch {
			f.out = p.sender(f, fetch)
			if mine && !fetch {
				f.out.pump = e.stage.rings[s].out.Pump(th, e.stage.base, patience)
			}
		}
		p.flows = append(p.flows, f)
	}
}

// sender is the part of a flow that sends, or fetches.
func (p *stagedLoop) sender(f *flow, fetch bool) *sender {
	e := p.e
	s := &sender{group: e.group, fetch: fetch,
		cut:  cutter{list: f.list, swap: !p.initiates, local: uint64(e.region.buffer.Addr()), remote: e.key.Address, most: uint64(e.chunk), message: e.message},
		post: ibverbs.Post{Queue: f.queue, SGE: e.sge, RemoteKey: e.key.Key, Read: fetch, MaxMessage: e.message}}
	if e.region.mr != nil {
		s.post.LocalKey = e.region.mr.Local
	}
	if !p.initiates && p.native.Echo != ibverbs.NoEcho {
		s.cut.remote += p.l.ReplyOffset
	}
	s.tells = !p.initiates || p.l.Op == transports.Send || p.l.Notify || p.native.Echo != ibverbs.NoEcho
	if st := e.stage; st != nil {
		r := &st.rings[f.queue]
		s.post.LocalKey = r.outMR.Local
		if fetch {
			s.post.LocalKey = r.inMR.Local
			m := r.in.Memory()
			s.ring = addressOf(m)
			s.window = staging.NewWindow(min(len(m), mostRing), r.in.Flight())
		}
	}
	if peer := e.peer.Staged; peer != nil {
		r := peer.Rings[f.queue]
		s.post.RemoteKey, s.ring = r.Key, r.Address
		// Not more than half of the receives that the peer keeps posted: the other half is for the words that go with no chunk.
		s.window = staging.NewWindow(r.Bytes, max(1, min(peer.Flight, e.peer.RecvWork/2)))
	}
	return s
}

// run is the loop from the first note to the last.
func (p *stagedLoop) run() error {
	if p.initiates {
		return p.initiate()
	}
	return p.serve()
}

func (p *stagedLoop) stopped() bool { return p.l.Stop != nil && p.l.Stop.Load() != 0 }

func (p *stagedLoop) failed(step ibverbs.Step, errno syscall.Errno) error {
	return &ibverbs.Failure{Step: step, Errno: errno}
}

func (p *stagedLoop) initiate() error {
	if p.stopped() {
		return nil
	}
	g := p.e.group
	p.moved = transports.Now()
	if err := g.Say(ibverbs.NoteBegin, p.native, len(p.flows)); err != nil {
		return err
	}
	for !p.hear(ibverbs.NoteReady) {
		if p.hear(ibverbs.NoteRefuse) {
			return p.failed(ibverbs.StepDisagree, syscall.EPROTO)
		}
		if err := p.turn(ibverbs.StepAbsent); err != nil {
			return err
		}
	}
	p.serving = true
	p.now = transports.Now()
	p.moved = p.now
	for _, f := range p.flows {
		f.stamps.Start = p.now
	}
	for !p.complete() {
		if err := p.turn(ibverbs.StepStall); err != nil {
			return err
		}
	}
	for _, f := range p.flows {
		f.stamps.Finish(p.now)
	}
	// Outside the clock: what is still to be told, and what is still on its way.
	for !p.told() || !p.idle() {
		if err := p.turn(ibverbs.StepStall); err != nil {
			return err
		}
	}
	if err := g.Say(ibverbs.NoteEnd, p.native, len(p.flows)); err != nil {
		return err
	}
	for !p.hear(ibverbs.NoteLeft) || !p.came(ibverbs.NoteLeft) || g.Heard(ibverbs.NoteLeft).Unsent > 0 {
		if err := p.turn(ibverbs.StepStall); err != nil {
			return err
		}
	}
	return nil
}

func (p *stagedLoop) serve() error {
	g := p.e.group
	stall := p.stall
	p.stall = 0 // while nothing is asked of it the target waits without a limit: only the stop word tells that the peer is gone
	before := g.Heard(ibverbs.NoteBegin).Current
	for {
		p.hear(ibverbs.NoteBegin)
		if begin := p.known[ibverbs.NoteBegin]; begin.Loop > before {
			if begin.Op != p.native.Op || begin.Notify != p.l.Notify || begin.Streams != len(p.flows) || begin.Echo != (p.native.Echo != ibverbs.NoEcho) {
				return errors.Join(p.failed(ibverbs.StepDisagree, syscall.EPROTO), g.Say(ibverbs.NoteRefuse, p.native, len(p.flows)))
			}
			g.Start(begin.Loop)
			p.news = true
			break
		}
		if p.stopped() {
			return nil
		}
		if err := p.turn(ibverbs.StepStall); err != nil {
			return err
		}
	}
	p.serving = true
	if err := g.Say(ibverbs.NoteReady, p.native, len(p.flows)); err != nil {
		return err
	}
	for !p.hear(ibverbs.NoteEnd) {
		if p.stopped() {
			g.Break() // nobody knows what is still on its way
			return nil
		}
		if err := p.turn(ibverbs.StepStall); err != nil {
			return err
		}
	}
	p.stall, p.moved = stall, transports.Now()
	for !p.came(ibverbs.NoteEnd) || !p.told() || !p.idle() {
		if err := p.turn(ibverbs.StepStall); err != nil {
			return err
		}
	}
	if err := g.Say(ibverbs.NoteLeft, p.native, len(p.flows)); err != nil {
		return err
	}
	for g.Heard(ibverbs.NoteLeft).Unsent > 0 {
		if err := p.turn(ibverbs.StepStall); err != nil {
			return err
		}
	}
	return nil
}

// complete says whether the initiator's operations are all done and no more are to be started.
func (p *stagedLoop) complete() bool {
	for _, f := range p.flows {
		if f.done < f.started || p.open && f.started < f.count {
			return false
		}
	}
	return true
}

// told says whether the peer knows what it has to.
func (p *stagedLoop) told() bool {
	for _, f := range p.flows {
		if f.told.ack != p.owed(f) || f.told.note != p.notes(f) {
			return false
		}
	}
	return true
}

// idle says whether nothing of this side is on its way.
func (p *stagedLoop) idle() bool {
	for _, f := range p.flows {
		if f.out != nil && !f.out.idle() || f.in != nil && f.in.busy() {
			return false
		}
	}
	return true
}

// hear says whether the last note of a kind is of the loop at hand. It asks only where a note has come since: the loops turn often.
func (p *stagedLoop) hear(n ibverbs.Note) bool {
	if p.news {
		clear(p.known)
		p.news = false
	}
	h, ok := p.known[n]
	if !ok {
		h = p.e.group.Heard(n)
		p.known[n] = h
	}
	return h.Loop == h.Current
}

// came says whether every word has come that a note of the peer's counts.
func (p *stagedLoop) came(note ibverbs.Note) bool {
	n := p.known[note]
	for _, f := range p.flows {
		if f.queue >= len(n.Took) || f.numbers != n.Took[f.queue] {
			return false
		}
	}
	return true
}

// owed is what the peer is to be told of the chunks or operations that came.
func (p *stagedLoop) owed(f *flow) uint64 {
	switch {
	case f.in == nil, f.out != nil && f.out.fetch:
		return 0
	case f.in.sink != nil:
		return f.in.sink.Retired()
	case !p.initiates && p.l.Notify:
		return f.in.landed
	}
	return 0
}

// notes is how many operations of a read with notification this side has to note: the initiator those that have landed, the target those
// that it was told of.
func (p *stagedLoop) notes(f *flow) uint64 {
	switch {
	case !p.l.Notify || p.l.Op != transports.Read:
		return 0
	case p.initiates:
		return f.in.landed
	}
	return f.noted
}

// turn does what can be done now, and waits a little where there is nothing. step is what a stall is called.
func (p *stagedLoop) turn(step ibverbs.Step) error {
	moved, due, busy := false, int64(math.MaxInt64), false
	p.now = transports.Now()
	for _, f := range p.flows {
		if p.serving && p.initiates {
			began, at := p.start(f)
			moved, due = moved || began, min(due, at)
		}
		m, err := p.advance(f)
		if err != nil {
			return err
		}
		moved = moved || m
		busy = busy || f.out != nil && f.out.busy() || f.in != nil && f.in.busy()
	}
	events, err := p.e.group.Poll(&p.events, ibverbs.Block, p.until(moved, busy, due))
	if err != nil {
		return err
	}
	for _, ev := range events {
		if err := p.take(ev); err != nil {
			return err
		}
	}
	if p.now = transports.Now(); moved || len(events) > 0 || !p.outstanding() {
		p.moved = p.now
		return nil
	}
	stall := p.stall
	if p.initiates && p.stopped() && stall > 1e9 {
		stall = 1e9 // asked to stop, and nothing moves: the peer has a second more
	}
	if stall > 0 && p.now-p.moved > stall {
		return p.failed(step, syscall.ETIMEDOUT)
	}
	return nil
}

// outstanding says whether something is waited for that the peer or a device owes.
func (p *stagedLoop) outstanding() bool {
	if !p.serving || !p.initiates || !p.open {
		return true
	}
	for _, f := range p.flows {
		if f.started > f.done {
			return true
		}
	}
	return false // paced: the next operation is not due
}

// until is how long a poll may wait, by the loop's way to wait.
func (p *stagedLoop) until(moved, busy bool, due int64) int64 {
	switch {
	case moved || p.l.Wait == transports.Spin && p.serving:
		return 0
	case p.l.Wait != transports.Block && p.serving && p.now-p.moved < transports.SpinNanoseconds:
		return 0
	}
	until := p.now + 10e6 // often enough for a stop word to be seen within 20 ms
	if busy {
		until = p.now + transports.SpinNanoseconds // no event tells that a copy has ended
	}
	return min(until, due)
}
