package transports

import (
	"fmt"
	"math"
	"sync/atomic"
)

// Op is what an initiator asks of the target's memory.
type Op string

const (
	Write Op = "write" // initiator's bytes to the target's offsets, without the target's program
	Read  Op = "read"  // target's bytes to the initiator's offsets
	Send  Op = "send"  // initiator's bytes to the receives that the target has posted
)

// Ops lists the operations in display order.
func Ops() []Op { return []Op{Write, Read, Send} }

// Wait is how a loop waits for the peer.
type Wait string

const (
	Adaptive Wait = "adaptive" // spin for some tens of microseconds, then block
	Spin     Wait = "spin"     // never block
	Block    Wait = "block"    // block at once
)

// SpinNanoseconds is how long an adaptive wait spins before it blocks. Across two virtual CPUs a wake-up costs about
// 30 us; spinning somewhat longer than a wake-up is the competitive choice (it never costs more than twice the better of the two).
const SpinNanoseconds = 50_000

// Piece is one descriptor: Length bytes at offset Local of the initiator's region and at offset Remote of the target's.
// The layout is what the native loops read; it holds no pointer.
type Piece struct {
	Local, Remote, Length uint64
}

// List is a sequence of operations, each a list of pieces. Operation i is Pieces[Ends[i-1]:Ends[i]] (from 0 for i = 0).
// Both sides hold the same list. It is made before the clock starts; making work requests or frames from it is inside.
type List struct {
	Pieces []Piece
	Ends   []uint32
}

// Ops is the number of operations.
func (l *List) Ops() int { return len(l.Ends) }

// Op returns the pieces of operation i, which must be in range.
func (l *List) Op(i int) []Piece {
	first := uint32(0)
	if i > 0 {
		first = l.Ends[i-1]
	}
	return l.Pieces[first:l.Ends[i]]
}

// Bytes is the payload of operation i.
func (l *List) Bytes(i int) uint64 {
	n := uint64(0)
	for _, p := range l.Op(i) {
		n += p.Length
	}
	return n
}

// Check says whether every piece lies inside the two regions and every operation has a piece, without overflow.
func (l *List) Check(local, remote uint64) error {
	last := uint32(0)
	if len(l.Ends) == 0 {
		return fmt.Errorf("a list without operations")
	}
	for i, end := range l.Ends {
		if end <= last || int(end) > len(l.Pieces) {
			return fmt.Errorf("operation %d ends at piece %d of %d, after %d", i, end, len(l.Pieces), last)
		}
		last = end
	}
	for i, p := range l.Pieces {
		if p.Length == 0 {
			return fmt.Errorf("piece %d is empty", i)
		}
		if p.Local > local || p.Length > local-p.Local {
			return fmt.Errorf("piece %d: local bytes %d + %d lie outside %d", i, p.Local, p.Length, local)
		}
		if p.Remote > remote || p.Length > remote-p.Remote {
			return fmt.Errorf("piece %d: remote bytes %d + %d lie outside %d", i, p.Remote, p.Length, remote)
		}
	}
	return nil
}

// Loop is everything that one timed loop needs. It is made and its memory is allocated before the loop starts: a loop
// allocates nothing, takes no lock, crosses no interface a message and ends only by Count, Deadline or Stop.
type Loop struct {
	Op    Op
	Lists []List // one a stream: len(Lists) streams take part, at most the endpoint's. Stream s repeats Lists[s] in order
	Depth int    // operations outstanding a stream
	Batch int    // operations handed over in one call; 0 and 1 mean one a call
	// Count is the number of operations a stream; 0 leaves the end to Deadline.
	Count uint64
	// Deadline is when no further operation is posted, by Now's clock; those outstanding are still confirmed. 0 leaves the end to Count.
	// Serve ignores both.
	Deadline int64
	// Stop ends the loop early when it is not zero. An initiator still waits for what is outstanding unless the peer is gone.
	Stop *atomic.Uint32
	// Notify ends each operation with a notification to the target, and its completion is the target's reply to it.
	Notify bool
	// Echo tells Serve to answer each operation with one of the same size into the initiator's region at ReplyOffset plus the piece's local offset.
	Echo bool
	// ReplyOffset is where the answers of a ping-pong land, relative to the pieces' local offsets. A transport may use the last
	// byte of each message of a ping-pong as its sequence mark.
	ReplyOffset uint64
	// BytesPerSecond paces each stream; 0 means as fast as it goes.
	BytesPerSecond float64
	Wait           Wait
	// CPUs are the CPUs of the streams' threads, taken in turn; empty leaves the threads where they are.
	CPUs []int
	// Stamps has one entry a stream, or is empty for a loop that records nothing (warm-up, Serve).
	Stamps []Stamps
}

// Part is which of an endpoint's loops a Loop is.
type Part string

const (
	Streaming Part = "stream"
	Bouncing  Part = "ping-pong"
	Serving   Part = "serve"
)

// Check refuses a loop that an endpoint made with options o, over a region of mine bytes and against one of theirs, cannot run.
func (l *Loop) Check(part Part, o *EndpointOptions, mine, theirs uint64) error {
	switch {
	case len(l.Lists) < 1 || len(l.Lists) > o.Streams:
		return fmt.Errorf("a loop of %d streams on an endpoint of %d", len(l.Lists), o.Streams)
	case len(l.Stamps) != 0 && len(l.Stamps) != len(l.Lists):
		return fmt.Errorf("stamps for %d streams of %d", len(l.Stamps), len(l.Lists))
	case part != Serving && (l.Depth < 1 || l.Depth > o.Depth):
		return fmt.Errorf("depth %d on an endpoint made for %d", l.Depth, o.Depth)
	}
	local, remote := mine, theirs
	if part == Serving { // both sides hold the same list, and this side is its remote one
		local, remote = theirs, mine
	}
	for s := range l.Lists {
		if err := l.Lists[s].Check(local, remote); err != nil {
			return fmt.Errorf("stream %d: %w", s, err)
		}
		if part != Bouncing {
			continue
		}
		for i, p := range l.Lists[s].Pieces {
			if end := p.Local + p.Length; l.ReplyOffset > local-end {
				return fmt.Errorf("stream %d, piece %d: the answer at %d lies outside the region", s, i, p.Local+l.ReplyOffset)
			}
		}
	}
	return nil
}

// Record is the record of a stream, or a throw-away one for a loop that records nothing.
func (l *Loop) Record(s int) *Stamps {
	if len(l.Stamps) == 0 {
		return new(Stamps)
	}
	return &l.Stamps[s]
}

// Stamps is the record of one stream of one loop. Start and At are nanoseconds of Now's clock.
type Stamps struct {
	// At is allocated by the caller; the loop fills At[:N]. A loop whose stamps are full ends as if Count were reached.
	At []int64
	N  int
	// Every is k: one stamp every k completions (the last one always has one). 0 means 1.
	Every uint64
	// Start is the time of the first post.
	Start int64
	// Ops and Bytes are what was confirmed: header bytes are never payload.
	Ops   uint64
	Bytes uint64
}

// Reset makes s ready for another loop with the same memory.
func (s *Stamps) Reset() { s.N, s.Start, s.Ops, s.Bytes = 0, 0, 0, 0 }

// Complete records that ops and bytes in all are confirmed at time now.
func (s *Stamps) Complete(now int64, ops, bytes uint64) {
	every := max(s.Every, 1)
	for s.Ops < ops {
		s.Ops++
		if s.Ops%every == 0 && s.N < len(s.At) {
			s.At[s.N] = now
			s.N++
		}
	}
	s.Bytes = bytes
}

// Room is the number of operations that the stamps can record: a loop does not post more. Without memory for stamps there is no such end.
func (s *Stamps) Room() uint64 {
	if len(s.At) == 0 {
		return math.MaxUint64
	}
	return uint64(len(s.At)) * max(s.Every, 1)
}

// Finish gives the last completion its stamp where Every left it without one.
func (s *Stamps) Finish(now int64) {
	if every := max(s.Every, 1); s.Ops%every != 0 && s.N < len(s.At) {
		s.At[s.N] = now
		s.N++
	}
}
