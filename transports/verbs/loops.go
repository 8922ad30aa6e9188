package verbs

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/internal/threads"
)

// The contract's pieces are handed to the native loops as they are.
var _ = [1]struct{}{}[unsafe.Sizeof(transports.Piece{})-unsafe.Sizeof(ibverbs.Piece{})]

var operations = map[transports.Op]ibverbs.Op{transports.Write: ibverbs.Write, transports.Read: ibverbs.Read, transports.Send: ibverbs.Send}
var waits = map[transports.Wait]ibverbs.Wait{"": ibverbs.Adaptive, transports.Adaptive: ibverbs.Adaptive, transports.Spin: ibverbs.Spin, transports.Block: ibverbs.Block}

// marksEnd is the longest list whose ping-pong may be seen by the last byte: its marks have 255 values.
const marksEnd = 255

// Stream keeps operations outstanding.
func (e *endpoint) Stream(l *transports.Loop) error {
	return e.run("stream "+string(l.Op), l, ibverbs.NoEcho, e.group.Initiate, true)
}

// PingPong sends one operation at a time; the answer is seen in memory where the CPU may look there, and else by its completion.
func (e *endpoint) PingPong(l *transports.Loop) error {
	return e.run("ping-pong "+string(l.Op), l, e.echo(l), e.group.Initiate, true)
}

// Serve does the target's part.
func (e *endpoint) Serve(l *transports.Loop) error {
	echo := ibverbs.NoEcho
	if l.Echo {
		echo = ibverbs.EchoMessage // the initiator's note says which kind it wants
	}
	return e.run("serve "+string(l.Op), l, echo, e.group.Serve, false)
}

// echo chooses how the initiator sees the answers.
func (e *endpoint) echo(l *transports.Loop) ibverbs.Echo {
	how := e.t.set.text("pong")
	longest := 0
	for i := range l.Lists {
		longest = max(longest, l.Lists[i].Ops())
	}
	if l.Op == transports.Write && how != "completion" && e.mine.Pollable && e.peer.Pollable && l.ReplyOffset > 0 && longest < marksEnd &&
		(l.Wait != transports.Block || how == "memory") {
		return ibverbs.EchoMark
	}
	return ibverbs.EchoMessage
}

// check refuses a loop before anything is posted.
func (e *endpoint) check(l *transports.Loop, echo, initiates bool) error {
	at := where(e.t.device.Name, e.t.number)
	refuse := func(code fault.Code, format string, args ...any) error {
		return fault.New(code, "start a loop", at, format, args...)
	}
	_, known := operations[l.Op]
	_, waits := waits[l.Wait]
	switch {
	case e.closed || !e.connected:
		return refuse(fault.VerbsCall, "the endpoint is closed or not connected")
	case !known || echo && l.Op == transports.Read:
		return refuse(fault.CapabilityGap, "no such loop of %q", l.Op)
	case echo && l.Notify:
		return refuse(fault.CapabilityGap, "a ping-pong has no notification: its answer is one")
	case !waits:
		return refuse(fault.CapabilityGap, "no way to wait %q", l.Wait)
	case len(l.Lists) == 0 || len(l.Lists) > e.options.Streams:
		return refuse(fault.CapabilityGap, "%d lists for %d streams", len(l.Lists), e.options.Streams)
	case initiates && l.Count == 0 && l.Deadline == 0 && l.Stop == nil && len(l.Stamps) == 0:
		return refuse(fault.CapabilityGap, "a loop without an end")
	case len(l.Stamps) > 0 && len(l.Stamps) < len(l.Lists):
		return refuse(fault.CapabilityGap, "%d records for %d streams", len(l.Stamps), len(l.Lists))
	}
	own, peer := e.region.buffer.Len(), e.key.Bytes
	if !initiates {
		own, peer = peer, own
	}
	for s := range l.Lists {
		if err := l.Lists[s].Check(own, peer); err != nil {
			return &fault.Error{Code: fault.CapabilityGap, Op: "start a loop", Device: at, Err: fmt.Errorf("stream %d: %w", s, err)}
		}
		if !echo {
			continue
		}
		for _, p := range l.Lists[s].Pieces {
			if l.ReplyOffset > own || p.Local+p.Length > own-l.ReplyOffset {
				return refuse(fault.CapabilityGap, "stream %d: answers at offset %d do not fit a region of %d bytes", s, l.ReplyOffset+p.Local, own)
			}
		}
	}
	return nil
}

// signalEvery is how many operations share one completion: the batch, or a quarter of the depth up to 16.
func (e *endpoint) signalEvery(l *transports.Loop) int {
	if n, set := e.t.set.number("signal-every"); set {
		return n
	}
	if l.Batch > 1 {
		return l.Batch
	}
	return max(1, min(l.Depth/4, 16))
}

// postList is the most operations of one post call; 0 is all that are due. What is due at once goes at once: a list costs one doorbell, and
// over soft-RoCE one system call and one waking of the kernel's worker. No operation waits for another's sake.
func (e *endpoint) postList() int {
	n, _ := e.t.set.number("post-list")
	return n
}

type nativeLoop func(ibverbs.Loop, []ibverbs.Stream, *atomic.Uint32) (ibverbs.Tally, error)

func (e *endpoint) run(what string, l *transports.Loop, echo ibverbs.Echo, loop nativeLoop, initiates bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.check(l, echo != ibverbs.NoEcho, initiates); err != nil {
		return err
	}
	if e.staged {
		return e.runStaged(what, l, echo != ibverbs.NoEcho, initiates)
	}
	stall := e.options.StallSeconds
	if stall <= 0 {
		stall = 5
	}
	n := ibverbs.Loop{Op: operations[l.Op], Wait: waits[l.Wait], Notify: l.Notify, Echo: echo, Depth: max(l.Depth, 1), Batch: max(l.Batch, 1), PostList: e.postList(),
		SignalEvery: e.signalEvery(l), Inline: e.group.Want.Inline, SGE: e.sge, MaxMessage: e.message, Count: l.Count, Deadline: l.Deadline,
		StallNS: int64(stall * float64(time.Second)), SpinNS: transports.SpinNanoseconds, BytesPerSecond: l.BytesPerSecond,
		Local: uint64(e.region.buffer.Addr()), Remote: e.key.Address, Reply: l.ReplyOffset, LocalKey: e.region.mr.Local, RemoteKey: e.key.Key, Watched: e.mine.Pollable}
	streams := make([]ibverbs.Stream, len(l.Lists))
	for s := range streams {
		list := &l.Lists[s]
		streams[s] = ibverbs.Stream{Pieces: unsafe.Slice((*ibverbs.Piece)(unsafe.Pointer(&list.Pieces[0])), len(list.Pieces)), Ends: list.Ends, Every: 1}
		if len(l.Stamps) > 0 {
			l.Stamps[s].Reset()
			streams[s].At, streams[s].Every = l.Stamps[s].At, max(l.Stamps[s].Every, 1)
		}
	}
	// All streams share one completion queue and one thread.
	var err error
	if failed := threads.Run(1, l.CPUs, func(int) error {
		_, err = loop(n, streams, l.Stop)
		return nil
	}); failed != nil {
		return &fault.Error{Code: fault.VerbsCall, Op: "pin the thread of a loop", Err: failed}
	}
	var confirmed uint64
	for s := range streams {
		confirmed += streams[s].Done
		if len(l.Stamps) > 0 {
			e.record(&l.Stamps[s], &streams[s], &l.Lists[s])
		}
	}
	return e.explainLoop(what, err, confirmed)
}

// record fills in what the native loop found.
func (e *endpoint) record(out *transports.Stamps, s *ibverbs.Stream, list *transports.List) {
	out.N, out.Start, out.Ops = s.Stamps, s.Start, s.Done
	out.Bytes = payload(list, s.Done)
	if s.Done > 0 {
		out.Finish(s.End)
	}
}

// payload is the bytes of the first n operations of a list that repeats.
func payload(list *transports.List, n uint64) uint64 {
	var whole, part uint64
	rest := n % uint64(list.Ops())
	for i := range list.Ops() {
		b := list.Bytes(i)
		whole += b
		if uint64(i) < rest {
			part += b
		}
	}
	return n/uint64(list.Ops())*whole + part
}
