package verbs

import (
	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/internal/staging"
)

// A word is a number that one side tells the other by an immediate: what it means in the two highest bits, and below them an offset in
// a ring, or a count since the loop began, cut to what has room.
const (
	wordData uint32 = iota // a chunk has come, at this offset of the ring; or, straight into memory, the last of an operation
	wordAck                // so many chunks have left the ring; or so many operations have come into memory
	wordAsk                // so many operations are asked for (read)
	wordNote               // so many operations are noted; the other side says it back

	wordBits = 30
	wordMask = 1<<wordBits - 1
)

func word(kind uint32, n uint64) uint32 { return kind<<wordBits | uint32(n)&wordMask }

// grown is a count that was known to be old when its low bits are said to be low.
func grown(old uint64, low uint32) uint64 { return old + uint64((low-uint32(old))&wordMask) }

// cutter walks the operations of a list and cuts each into chunks, by the rule of staging: a chunk is full or ends its operation.
type cutter struct {
	list          *transports.List
	swap          bool   // the piece's remote offset is this side's
	local, remote uint64 // addresses that the offsets count from
	most, message uint64 // largest chunk and largest extent
	op            uint64 // that the next chunk belongs to
	piece, end    int
	taken         uint64 // of the piece at hand
}

// next appends the extents of the next chunk.
func (c *cutter) next(to []ibverbs.Extent) (out []ibverbs.Extent, bytes uint64, last bool) {
	if c.piece == c.end {
		i := int(c.op % uint64(c.list.Ops()))
		c.piece, c.end = 0, int(c.list.Ends[i])
		if i > 0 {
			c.piece = int(c.list.Ends[i-1])
		}
	}
	for bytes < c.most && c.piece < c.end {
		p := c.list.Pieces[c.piece]
		local, remote := p.Local, p.Remote
		if c.swap {
			local, remote = remote, local
		}
		n := min(p.Length-c.taken, c.most-bytes)
		to = extend(to, ibverbs.Extent{Local: c.local + local + c.taken, Remote: c.remote + remote + c.taken, Length: n}, c.message)
		bytes += n
		if c.taken += n; c.taken == p.Length {
			c.piece++
			c.taken = 0
		}
	}
	if last = c.piece == c.end; last {
		c.op++
	}
	return to, bytes, last
}

// extend appends an extent, cut to what one message may carry, and joined with the one before where both sides' bytes touch.
func extend(to []ibverbs.Extent, e ibverbs.Extent, message uint64) []ibverbs.Extent {
	if n := len(to); n > 0 {
		b := &to[n-1]
		if b.Local+b.Length == e.Local && b.Remote+b.Length == e.Remote && b.Length < message {
			room := min(message-b.Length, e.Length)
			b.Length += room
			e.Local, e.Remote, e.Length = e.Local+room, e.Remote+room, e.Length-room
		}
	}
	for e.Length > 0 {
		n := min(e.Length, message)
		to = append(to, ibverbs.Extent{Local: e.Local, Remote: e.Remote, Length: n})
		e.Local, e.Remote, e.Length = e.Local+n, e.Remote+n, e.Length-n
	}
	return to
}

// way is a posted chunk: where it lies in the ring, and whether it ends its operation.
type way struct {
	at   int
	last bool
}

// waiting is posted chunks in order, oldest first. It grows to what a loop needs and then no more.
type waiting struct {
	ring        []way
	first, next uint64
}

func (w *waiting) push(one way) {
	if int(w.next-w.first) == len(w.ring) {
		bigger := make([]way, max(64, 2*len(w.ring)))
		for n := w.first; n < w.next; n++ {
			bigger[n%uint64(len(bigger))] = w.ring[n%uint64(len(w.ring))]
		}
		w.ring = bigger
	}
	w.ring[w.next%uint64(len(w.ring))] = one
	w.next++
}

func (w *waiting) pop() (one way, ok bool) {
	if w.first == w.next {
		return way{}, false
	}
	one = w.ring[w.first%uint64(len(w.ring))]
	w.first++
	return one, true
}

// sender puts operations on the wire, chunk by chunk: out of device memory by a pump or straight from the buffer, into the peer's ring
// by a window or straight into the peer's memory. With fetch it is the other way round: the peer's memory is read into this side's ring.
type sender struct {
	group   *ibverbs.Group
	post    ibverbs.Post
	cut     cutter
	pump    *staging.Pump   // nil: straight from memory
	window  *staging.Window // nil: straight into the peer's memory
	ring    uint64          // address of the ring that the window is over
	fetch   bool
	tells   bool // the last chunk of an operation carries a word although no ring is written to
	allowed uint64
	pushed  uint64 // operations that the pump knows of

	// The chunk at hand.
	extents []ibverbs.Extent
	rest    []ibverbs.Extent // not yet posted
	bytes   uint64
	at      int
	last    bool
	laid    bool // there is one
	placed  bool // it has its place, if it needs one
	filled  bool // its bytes are in host memory, and its extents are final

	posted, confirmed uint64 // chunks: given to the device, and acknowledged by it
	left              uint64 // chunks that have left the peer's ring
	ways              waiting
	ops               uint64 // operations that are where they should be, as far as this side is told
	spans             []staging.Span
}

// remoteRing says whether chunks go into a ring of the peer's.
func (s *sender) remoteRing() bool { return s.window != nil && !s.fetch }

// advance posts what can be posted now.
func (s *sender) advance() (moved bool, err error) {
	// What the pump knows of is bounded by what a ring can hold, however much is asked for.
	for s.pump != nil && s.pushed < s.allowed && s.pump.Pending() < 64 {
		l := s.cut.list
		s.spans = s.spans[:0]
		for _, p := range l.Op(int(s.pushed % uint64(l.Ops()))) {
			at := p.Local
			if s.cut.swap {
				at = p.Remote
			}
			s.spans = append(s.spans, staging.Span{Offset: at, Bytes: p.Length})
		}
		if err := s.pump.Push(s.spans); err != nil {
			return moved, err
		}
		s.pushed++
		moved = true
	}
	for {
		if !s.laid {
			if s.cut.piece == s.cut.end && s.cut.op >= s.allowed {
				return moved, nil
			}
			if s.pump != nil && s.pump.Pending() == 0 {
				return moved, nil
			}
			s.extents, s.bytes, s.last = s.cut.next(s.extents[:0])
			s.laid, s.placed, s.filled = true, s.window == nil, false
		}
		if !s.placed {
			if s.at, s.placed = s.window.Take(int(s.bytes)); !s.placed {
				return moved, nil
			}
		}
		if !s.filled {
			ok, err := s.fill()
			if !ok {
				return moved, err
			}
			s.rest, s.filled = s.extents, true
		}
		n, err := s.group.Post(s.post, s.rest)
		if err != nil {
			return moved, err
		}
		s.rest = s.rest[n:]
		moved = moved || n > 0
		if len(s.rest) > 0 {
			return moved, nil // the queue is full
		}
		s.posted++
		s.ways.push(way{s.at, s.last})
		s.laid = false
	}
}

// fill gives the chunk its final extents, with the bytes of the device where a pump brings them. It says no where they are not here yet.
func (s *sender) fill() (bool, error) {
	s.post.Tells = s.remoteRing() || s.tells && s.last
	s.post.Immediate = word(wordData, 0)
	if s.remoteRing() {
		s.post.Immediate = word(wordData, uint64(s.at))
	}
	if s.pump == nil && s.window == nil {
		return true, nil
	}
	from := uint64(0)
	if s.pump != nil {
		if ready, err := s.pump.Ready(); !ready || err != nil {
			return false, err
		}
		c, err := s.pump.Next()
		if err != nil {
			return false, err
		}
		if uint64(len(c.Bytes)) != s.bytes {
			return false, fault.New(fault.VerbsCall, "stage GPU memory", "", "a chunk of %d bytes where %d were laid out", len(c.Bytes), s.bytes)
		}
		from = addressOf(c.Bytes)
	}
	if s.pump != nil && s.window != nil {
		s.extents = extend(s.extents[:0], ibverbs.Extent{Local: from, Remote: s.ring + uint64(s.at), Length: s.bytes}, s.cut.message)
		return true, nil
	}
	offset := uint64(0)
	for i := range s.extents {
		x := &s.extents[i]
		switch {
		case s.pump != nil:
			x.Local = from + offset
		case s.fetch:
			x.Local = s.ring + uint64(s.at) + offset
		default:
			x.Remote = s.ring + uint64(s.at) + offset
		}
		offset += x.Length
	}
	return true, nil
}

// sent takes in that the device has confirmed the oldest chunk.
func (s *sender) sent(in *receiver) error {
	s.confirmed++
	if s.pump != nil {
		if err := s.pump.Release(); err != nil {
			return err
		}
	}
	if s.remoteRing() {
		return nil // it counts when it has left the ring
	}
	w, ok := s.ways.pop()
	if !ok {
		return errSurplus
	}
	if s.fetch {
		return in.data(w.at)
	}
	if w.last {
		s.ops++
	}
	return nil
}

// gone takes in that so many chunks in all have left the peer's ring.
func (s *sender) gone(count uint64) error {
	for ; s.left < count; s.left++ {
		w, ok := s.ways.pop()
		if !ok {
			return errSurplus
		}
		if err := s.window.Give(); err != nil {
			return err
		}
		if w.last {
			s.ops++
		}
	}
	return nil
}

// idle says whether everything that was allowed is posted and confirmed.
func (s *sender) idle() bool {
	return s.posted == s.confirmed && !s.laid && s.cut.op >= s.allowed && s.cut.piece == s.cut.end
}

// busy says whether the device has still to bring bytes that could then be posted.
func (s *sender) busy() bool { return s.pump != nil && s.pump.Pending() > 0 && !s.pump.Blocked() }

// errSurplus means that the peer confirms what was never sent.
var errSurplus = fault.New(fault.VerbsDisagree, "run a staged loop", "", "the peer confirms more than was sent")

// receiver takes operations in: through a sink into device memory, or it only counts what came straight into the buffer.
type receiver struct {
	sink   *staging.Sink // nil: the bytes are in memory when the word comes
	list   *transports.List
	swap   bool   // the piece's remote offset is this side's
	shift  uint64 // of the offsets: where answers land
	begun  uint64 // operations that the sink knows of
	landed uint64 // operations
	spans  []staging.Span
}

// data takes in a word that a chunk has come.
func (r *receiver) data(at int) error {
	if r.sink == nil {
		r.landed++
		return nil
	}
	if !r.sink.Begun() {
		r.spans = r.spans[:0]
		for _, p := range r.list.Op(int(r.begun % uint64(r.list.Ops()))) {
			to := p.Local
			if r.swap {
				to = p.Remote
			}
			r.spans = append(r.spans, staging.Span{Offset: to + r.shift, Bytes: p.Length})
		}
		r.sink.Begin(r.spans)
		r.begun++
	}
	return r.sink.Arrived(at)
}

// account looks at what has landed on the device meanwhile.
func (r *receiver) account() (moved bool, err error) {
	if r.sink == nil {
		return false, nil
	}
	before := r.sink.Retired()
	r.landed, err = r.sink.Done()
	return r.sink.Retired() != before, err
}

// busy says whether the device has still to take bytes.
func (r *receiver) busy() bool { return r.sink != nil && r.sink.Queued() > 0 }
