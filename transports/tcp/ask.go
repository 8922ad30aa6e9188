package tcp

import (
	"time"

	"hopbench/transports"
)

// requestWindow is how many bytes of read requests may be on their way: both sides block in send, so requests must always
// fit the other's receive buffer.
const requestWindow = 32 << 10

// asker posts the requests of a loop of reads. What they bring is the loop's to take.
type asker struct {
	c    *conn
	o    out
	m    limits
	seq  sequence // of the frames to ask for
	last uint8    // flags of the last frame of an operation

	bytes        []uint64 // of the list, by sums
	depth, batch uint64
	open         bool   // more operations may be begun
	requested    uint64 // operations asked for, at least in part
	outstanding  int    // bytes of requests without an answer
	now          int64
}

// newAsker begins a loop of reads: its time runs.
func newAsker(c *conn, l *transports.Loop, list *transports.List, st *transports.Stamps) asker {
	a := asker{
		c: c, o: out{c: c}, m: newLimits(l, st), seq: sequence{list: list}, last: flagLast, bytes: sums(list),
		depth: uint64(l.Depth), batch: uint64(max(l.Batch, 1)), open: true,
	}
	if l.Notify {
		a.last |= flagNotify
	}
	a.m.start = transports.Now()
	st.Start, a.now = a.m.start, a.m.start
	return a
}

// size is what a request for a frame takes on the wire.
func (a *asker) size(pieces []transports.Piece) int {
	if len(pieces) == 1 {
		return headerLen
	}
	return headerLen + len(pieces)*descLen
}

// ask posts the requests that depth, time, pace and window allow, given how many operations have landed.
func (a *asker) ask(landed uint64) error {
	gathered := uint64(0)
	for {
		if a.seq.piece == 0 { // a new operation
			if a.open && (a.requested >= a.m.count || (a.requested > 0 && a.now >= a.m.deadline) || a.c.stopped()) {
				a.open = false
			}
			if !a.open || a.requested-landed >= a.depth {
				break
			}
			if early := a.m.early(a.now, upTo(a.bytes, a.requested)); early > 0 {
				if a.requested > landed {
					break
				}
				time.Sleep(min(early, time.Millisecond))
				a.now = transports.Now()
				continue
			}
		}
		if a.outstanding >= requestWindow {
			break
		}
		if a.seq.piece == 0 {
			a.requested++
		}
		pieces, op, last := a.seq.next()
		f := uint8(0)
		if last {
			f = a.last
		}
		if err := a.o.frame(kindRead, f, op, pieces, false, 0); err != nil {
			return err
		}
		a.outstanding += a.size(pieces)
		if gathered++; gathered >= a.batch {
			if err := a.o.flush(); err != nil {
				return err
			}
			gathered = 0
			a.m.drag()
			a.now = transports.Now()
		}
	}
	return a.o.flush()
}

// answered takes the answer to one request off the account.
func (a *asker) answered(pieces []transports.Piece) { a.outstanding -= a.size(pieces) }
