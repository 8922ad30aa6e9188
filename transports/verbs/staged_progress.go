package verbs

import (
	"math"

	"hopbench/transports"
	"hopbench/transports/internal/ibverbs"
)

// start begins the operations that may begin; due is when the next may where it is too early.
func (p *stagedLoop) start(f *flow) (began bool, due int64) {
	depth := uint64(max(p.l.Depth, 1))
	if p.native.Echo != ibverbs.NoEcho {
		depth = 1
	}
	for f.started < f.count && f.started-f.done < depth {
		// One operation at least, also where the thread got its CPU after the deadline.
		if p.stopped() || p.l.Deadline > 0 && p.now >= p.l.Deadline && f.started > 0 {
			p.open = false
		}
		if !p.open && (f.started > 0 || p.stopped()) {
			return began, math.MaxInt64
		}
		if rate := p.l.BytesPerSecond; rate > 0 {
			if at := f.stamps.Start + int64(float64(upTo(f.sums, f.started))/rate*1e9); p.now < at {
				return began, at
			}
		}
		if f.started == 0 {
			f.stamps.Start = p.now
		}
		f.started++
		if f.out != nil {
			f.out.allowed = f.started
		}
		began = true
	}
	return began, math.MaxInt64
}

// advance moves a flow on: what may be sent, what has landed, and what the peer is to be told.
func (p *stagedLoop) advance(f *flow) (moved bool, err error) {
	if f.in != nil {
		if moved, err = f.in.account(); err != nil {
			return moved, err
		}
		if s := f.out; s != nil && s.fetch {
			for ; s.left < f.in.sink.Retired(); s.left++ {
				if err := s.window.Give(); err != nil {
					return moved, err
				}
			}
		}
	}
	if f.out != nil {
		if !p.initiates {
			f.out.allowed = f.asked
			if p.native.Echo != ibverbs.NoEcho {
				f.out.allowed = f.in.landed
			}
		}
		m, err := f.out.advance()
		moved = moved || m
		if err != nil {
			return moved, err
		}
	}
	asks := uint64(0)
	if p.initiates && p.l.Op == transports.Read && p.e.peer.Staged != nil {
		asks = f.started
	}
	for _, t := range []struct {
		kind uint32
		want uint64
		told *uint64
	}{{wordAsk, asks, &f.told.ask}, {wordAck, p.owed(f), &f.told.ack}, {wordNote, p.notes(f), &f.told.note}} {
		if t.want == *t.told {
			continue
		}
		sent, err := p.e.group.Tell(f.queue, word(t.kind, t.want))
		if err != nil {
			return moved, err
		}
		if sent {
			*t.told, moved = t.want, true
		}
	}
	if p.initiates {
		err = p.confirm(f)
	}
	return moved, err
}

// confirm stamps the operations that are done by the loop's meaning of it.
func (p *stagedLoop) confirm(f *flow) error {
	var done uint64
	switch {
	case p.l.Op == transports.Read && p.l.Notify:
		done = f.noted
	case f.in != nil: // an answer, or what was read
		done = f.in.landed
	case p.e.peer.Staged == nil && p.l.Notify:
		done = f.acked
	default:
		done = f.out.ops
	}
	if done > f.started {
		return errSurplus
	}
	if done > f.done {
		f.done = done
		p.now = transports.Now()
		f.stamps.Complete(p.now, done, upTo(f.sums, done))
	}
	return nil
}

// take takes in one event.
func (p *stagedLoop) take(ev ibverbs.Event) error {
	if int(ev.Queue) >= len(p.flows) {
		p.news = true // a note, which is looked at where it matters
		return nil
	}
	f := p.flows[ev.Queue]
	if ev.Arrived == 0 {
		if f.out == nil {
			return errSurplus
		}
		return f.out.sent(f.in)
	}
	f.numbers++
	n := ev.Immediate & wordMask
	switch ev.Immediate >> wordBits {
	case wordData:
		if f.in != nil {
			return f.in.data(int(n))
		}
	case wordAck:
		f.acked = grown(f.acked, n)
		if f.out != nil && f.out.remoteRing() {
			return f.out.gone(f.acked)
		}
	case wordAsk:
		f.asked = grown(f.asked, n)
	case wordNote:
		f.noted = grown(f.noted, n)
	}
	return nil
}

// phases adds what the pumps and sinks of the loop took to the endpoint's.
func (p *stagedLoop) phases() {
	for _, f := range p.flows {
		if f.out != nil && f.out.pump != nil {
			p.e.addPhases(f.out.pump.Phases())
		}
		if f.in != nil && f.in.sink != nil {
			p.e.addPhases(f.in.sink.Phases())
		}
	}
}

// sums is the payload of the operations of a list before each: so that completions need no walk over their pieces.
func sums(l *transports.List) []uint64 {
	s := make([]uint64, l.Ops()+1)
	for i := range l.Ops() {
		s[i+1] = s[i] + l.Bytes(i)
	}
	return s
}

// upTo is the payload of the first n operations of a repeated list.
func upTo(sums []uint64, n uint64) uint64 {
	per := uint64(len(sums) - 1)
	return n/per*sums[per] + sums[n%per]
}
