package cudapeer

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/threads"
)

// The native loops read a list of pieces as it is.
var _ = [1]struct{}{}[unsafe.Sizeof(transports.Piece{})-unsafe.Sizeof(cuda.Piece{})]

func pieces(l *transports.List) []cuda.Piece {
	return unsafe.Slice((*cuda.Piece)(unsafe.Pointer(unsafe.SliceData(l.Pieces))), len(l.Pieces))
}

func (e *endpoint) Stream(l *transports.Loop) error {
	if l.Op != transports.Write && l.Op != transports.Read {
		return fault.New(fault.CapabilityGap, "run a loop", "", "%s has no %s: a copy needs no receive of the other side", e.t.d.name, l.Op)
	}
	return e.run(l, transports.Streaming, func(s int) error { return e.stream(l, s) })
}

func (e *endpoint) PingPong(l *transports.Loop) error {
	if l.Op != transports.Write {
		return fault.New(fault.CapabilityGap, "run a ping-pong", "", "%s answers writes, not %s", e.t.d.name, l.Op)
	}
	return e.run(l, transports.Bouncing, func(s int) error { return e.pingpong(l, s) })
}

// Serve has nothing to copy: the initiator's thread queues both ways. It answers notifications and ends when the loop does.
func (e *endpoint) Serve(l *transports.Loop) error {
	return e.run(l, transports.Serving, func(s int) error {
		return e.told[s].serve(e.peer.told[s], l)
	})
}

func (e *endpoint) run(l *transports.Loop, part transports.Part, body func(s int) error) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.closed || e.peer == nil:
		return fmt.Errorf("%s: a loop on an endpoint that is not connected", e.t.d.name)
	case part != transports.Serving && l.Batch > 1:
		return fault.New(fault.CapabilityGap, "run a loop", "", "no batches: one operation a call")
	}
	if err := l.Check(part, &e.options, e.region.Buffer().Len(), e.peer.region.Buffer().Len()); err != nil {
		return fmt.Errorf("%s: %w", e.t.d.name, err)
	}
	return threads.Run(len(l.Lists), l.CPUs, body)
}

// native is the loop of one stream as the C side takes it.
func (e *endpoint) native(l *transports.Loop, s int, depth int) *cuda.Loop {
	list := &l.Lists[s]
	n := &cuda.Loop{
		Way:    cuda.Way{Local: e.region.side, Remote: e.peer.region.side, Read: l.Op == transports.Read},
		Pieces: pieces(list), Ends: list.Ends,
		Stream: e.streams[s].queue, Events: e.streams[s].events[:depth],
		Count: l.Count, Deadline: l.Deadline, BytesPerSecond: l.BytesPerSecond,
		Spin: spin(l.Wait), Stall: e.stall(), Stop: l.Stop,
	}
	if len(l.Stamps) > 0 {
		n.Stamps, n.Every = l.Stamps[s].At, l.Stamps[s].Every
	}
	return n
}

// spin is how long a wait looks before it sleeps between looks.
func spin(w transports.Wait) time.Duration {
	switch w {
	case transports.Spin:
		return -1
	case transports.Block:
		return 0
	}
	return transports.SpinNanoseconds
}

func (e *endpoint) stream(l *transports.Loop, s int) error {
	n := e.native(l, s, l.Depth)
	there, here := e.peer.told[s], e.told[s]
	if l.Notify {
		n.Notify = &[2]int{there.call, here.reply}
	}
	return e.finish(l, s, func(th *cuda.Thread) (cuda.Done, error) { return th.Run(n) })
}

func (e *endpoint) pingpong(l *transports.Loop, s int) error {
	n := e.native(l, s, 1)
	home := e.region.side
	home.Address += l.ReplyOffset
	back := cuda.Echo{Way: cuda.Way{Local: home, Remote: e.peer.region.side, Read: true},
		Stream: e.peer.streams[s].queue, Event: e.peer.streams[s].events[0], Context: e.peer.context}
	return e.finish(l, s, func(th *cuda.Thread) (cuda.Done, error) { return th.PingPong(n, back) })
}

// finish runs a native loop, records it, and tells the serving side that it is over.
func (e *endpoint) finish(l *transports.Loop, s int, loop func(th *cuda.Thread) (cuda.Done, error)) error {
	var done cuda.Done
	err := e.context.Do(func(th *cuda.Thread) (err error) {
		done, err = loop(th)
		return err
	})
	if len(l.Stamps) > 0 {
		st := &l.Stamps[s]
		st.Start, st.N, st.Ops, st.Bytes = done.Start, done.Stamps, done.Ops, done.Bytes
	}
	there, here := e.peer.told[s], e.told[s]
	if errors.Is(err, cuda.ErrStalled) {
		err = &fault.Error{Code: fault.LoopStalled, Op: "wait for a copy", Device: e.device(), Err: fmt.Errorf("%w for %g s, after %d operations", err, e.options.StallSeconds, done.Ops)}
	}
	return errors.Join(cuda.Fault(err, "copy", e.device()), there.end(here, e.stall(), l.Stop))
}
