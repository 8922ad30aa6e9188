package tcp

import (
	"fmt"
	"math"
	"time"

	"hopbench/transports"
)

// sequence walks the operations of a list, over and over, frame by frame.
type sequence struct {
	list  *transports.List
	op    uint64 // number of the operation at hand
	index int    // op modulo the length of the list
	piece int    // first piece of the next frame
}

// next returns the pieces of the next frame and whether the operation ends with it.
func (q *sequence) next() (pieces []transports.Piece, op uint64, last bool) {
	all := q.list.Op(q.index)
	pieces, op = all[q.piece:], q.op
	if len(pieces) > maxPieces {
		pieces = pieces[:maxPieces]
		q.piece += maxPieces
		return pieces, op, false
	}
	q.piece = 0
	q.op++
	if q.index++; q.index == len(q.list.Ends) {
		q.index = 0
	}
	return pieces, op, true
}

// limits decides when a loop posts no more.
type limits struct {
	count    uint64
	deadline int64
	rate     float64 // bytes a second
	start    int64
	dragger
}

func newLimits(l *transports.Loop, st *transports.Stamps) limits {
	m := limits{count: l.Count, deadline: l.Deadline, rate: l.BytesPerSecond}
	if m.count == 0 {
		m.count = math.MaxUint64
	}
	m.count = min(m.count, st.Room())
	if m.deadline == 0 {
		m.deadline = math.MaxInt64
	}
	return m
}

// early is how long before the next post is due, for a paced loop that has posted so many bytes.
func (m *limits) early(now int64, posted uint64) time.Duration {
	if m.rate <= 0 {
		return 0
	}
	due := m.start + int64(float64(posted)/m.rate*1e9)
	return time.Duration(due - now)
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

// outgoing is the kind of frame that carries an initiator's payload.
func outgoing(l *transports.Loop) kind {
	if l.Op == transports.Send {
		return kindSend
	}
	return kindWrite
}

// stream is the initiator's loop for write and send: frames out, acknowledgements in.
func (c *conn) stream(l *transports.Loop, list *transports.List, st *transports.Stamps) error {
	k := outgoing(l)
	flags := uint8(flagLast)
	if l.Notify {
		flags |= flagNotify
	}
	depth, batch := uint64(l.Depth), uint64(max(l.Batch, 1))
	bytes := sums(list)
	seq := sequence{list: list}
	o := out{c: c}
	m := newLimits(l, st)
	posted, landed := uint64(0), uint64(0)
	m.start = transports.Now()
	st.Start = m.start
	now := m.start
	for open := true; open || landed < posted; {
		for open && posted-landed < depth {
			if posted >= m.count || (posted > 0 && now >= m.deadline) || c.stopped() { // one operation at least: the thread may get its CPU late
				open = false
				break
			}
			if early := m.early(now, upTo(bytes, posted)); early > 0 {
				if posted > landed && readable(c.fd, 0) {
					break // take the acknowledgements first
				}
				time.Sleep(min(early, time.Millisecond))
				now = transports.Now()
				continue
			}
			for n := min(batch, depth-(posted-landed), m.count-posted); n > 0; n-- {
				for last := false; !last; {
					var pieces []transports.Piece
					var op uint64
					pieces, op, last = seq.next()
					f := uint8(0)
					if last {
						f = flags
					}
					if err := o.frame(k, f, op, pieces, true, 0); err != nil {
						return err
					}
				}
				posted++
			}
			if err := o.flush(); err != nil {
				return err
			}
			m.drag()
			now = transports.Now()
		}
		if landed == posted {
			continue
		}
		ops, err := c.acknowledged(landed, posted)
		if err != nil {
			return err
		}
		landed = ops
		now = transports.Now()
		st.Complete(now, landed, upTo(bytes, landed))
	}
	st.Finish(now)
	return c.end(seq.op)
}

// acknowledged waits for an acknowledgement and returns the number of operations that have landed: the newest of those received.
func (c *conn) acknowledged(landed, posted uint64) (uint64, error) {
	if err := c.need(headerLen, rxLen); err != nil {
		return landed, err
	}
	for c.w-c.r >= headerLen {
		h, err := parseHeader(c.rx[c.r:])
		if err == nil && (h.kind != kindAck || h.seq <= landed || h.seq > posted) {
			err = fmt.Errorf("kind %d number %d where %d to %d operations can have landed", h.kind, h.seq, landed+1, posted)
		}
		if err != nil {
			return landed, c.garbled(err)
		}
		landed = h.seq
		c.r += headerLen
	}
	return landed, nil
}

// end tells the target that the loop is over.
func (c *conn) end(seq uint64) error {
	o := out{c: c}
	if err := o.header(header{kind: kindEnd, seq: seq}); err != nil {
		return err
	}
	return o.flush()
}

// pull is the initiator's loop for read: requests out, data in.
func (c *conn) pull(l *transports.Loop, list *transports.List, st *transports.Stamps) error {
	got := sequence{list: list}
	a := newAsker(c, l, list, st)
	for a.open || got.op < a.requested || got.piece > 0 {
		if err := a.ask(got.op); err != nil {
			return err
		}
		if got.op == a.requested && got.piece == 0 {
			continue
		}
		pieces, op, last := got.next()
		if err := c.data(op, pieces, 0); err != nil {
			return err
		}
		a.answered(pieces)
		if last {
			a.now = transports.Now()
			st.Complete(a.now, op+1, upTo(a.bytes, op+1))
		}
	}
	st.Finish(a.now)
	return c.end(a.seq.op)
}

// data receives one frame of data for the local offsets of pieces.
func (c *conn) data(op uint64, pieces []transports.Piece, shift uint64) error {
	if err := c.dataHeader(op, pieces); err != nil {
		return err
	}
	return c.land(c.spans, shift)
}

// dataHeader reads the header of a frame of data for pieces, and leaves their local spans in c.spans.
func (c *conn) dataHeader(op uint64, pieces []transports.Piece) error {
	want := uint64(0)
	c.spans = c.spans[:0]
	for _, p := range pieces {
		c.spans = append(c.spans, span{p.Local, p.Length})
		want += p.Length
	}
	ahead := 0
	if want <= aheadMax {
		ahead = rxLen
	}
	if err := c.need(headerLen, ahead); err != nil {
		return err
	}
	h, err := parseHeader(c.rx[c.r:])
	if err == nil && (h.kind != kindData || h.seq != op || h.bytes != want) {
		err = fmt.Errorf("kind %d number %d of %d bytes where data number %d of %d was due", h.kind, h.seq, h.bytes, op, want)
	}
	if err != nil {
		return c.garbled(err)
	}
	c.r += headerLen
	return nil
}

// pingpong sends one operation at a time and waits for its answer. What an answer leaves to write down is written down while the next
// operation is on its way: nothing but the clock stands between an answer and the next message.
func (c *conn) pingpong(l *transports.Loop, list *transports.List, st *transports.Stamps) error {
	k := outgoing(l)
	bytes := sums(list)
	there, back := sequence{list: list}, sequence{list: list}
	o := out{c: c}
	m := newLimits(l, st)
	m.start = transports.Now()
	st.Start = m.start
	now, answered := m.start, uint64(0)
	for pieces, op, last := there.next(); answered < m.count && (answered == 0 || now < m.deadline) && !c.stopped(); answered++ {
		err := c.bounce(&o, &there, k, pieces, op, last)
		if answered > 0 {
			st.Complete(now, answered, upTo(bytes, answered))
		}
		if err != nil {
			return err
		}
		pieces, op, last = there.next()
		for whole := false; !whole; {
			var part []transports.Piece
			var n uint64
			part, n, whole = back.next()
			if err := c.data(n, part, l.ReplyOffset); err != nil {
				return err
			}
		}
		m.drag()
		now = transports.Now()
	}
	if answered > 0 {
		st.Complete(now, answered, upTo(bytes, answered))
	}
	st.Finish(now)
	return c.end(answered)
}

// bounce sends one operation of a ping-pong, of which the first frame is given.
func (c *conn) bounce(o *out, seq *sequence, k kind, pieces []transports.Piece, op uint64, last bool) error {
	if p := pieces[0]; len(pieces) == 1 && last && p.Length <= inlineMax && !c.zero {
		return c.short(k, flagLast, op, p.Remote, c.region[p.Local:p.Local+p.Length])
	}
	for {
		f := uint8(0)
		if last {
			f = flagLast
		}
		if err := o.frame(k, f, op, pieces, true, 0); err != nil {
			return err
		}
		if last {
			return o.flush()
		}
		pieces, op, last = seq.next()
	}
}
