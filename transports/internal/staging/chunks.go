package staging

import (
	"hopbench/transports/internal/cuda"
)

// chunk is one run of bytes of one segment: the device pieces that it gathers and where it lies in the ring.
type chunk struct {
	pieces  []cuda.Piece // Local: device offset, Remote: offset in the chunk
	bytes   int
	at      int // in the ring's memory, once it is placed
	segment uint64
	last    bool // the segment ends with it
	outside bool // the other side of the wire chose its place
	mark    mark
}

// queue is the chunks between being asked for and being given back, oldest first. Its entries are reused with the memory of
// their pieces, so that it grows to what a loop needs and then no more.
type queue struct {
	ring  []chunk
	first uint64 // number of the oldest
	next  uint64 // number of the next to come
}

func (q *queue) len() int { return int(q.next - q.first) }

func (q *queue) at(n uint64) *chunk { return &q.ring[n%uint64(len(q.ring))] }

// push gives an empty chunk at the end.
func (q *queue) push() *chunk {
	if q.len() == len(q.ring) {
		grown := make([]chunk, max(16, 2*len(q.ring)))
		for n := q.first; n < q.next; n++ {
			grown[n%uint64(len(grown))] = *q.at(n)
		}
		q.ring = grown
	}
	c := q.at(q.next)
	*c = chunk{pieces: c.pieces[:0]}
	q.next++
	return c
}

// cut appends the chunks of one segment: its spans in order, in chunks of at most most bytes.
func (q *queue) cut(segment uint64, spans []Span, most int) (bytes uint64) {
	var c *chunk
	for _, s := range spans {
		for s.Bytes > 0 {
			if c == nil || c.bytes == most {
				c = q.push()
				c.segment = segment
			}
			n := min(s.Bytes, uint64(most-c.bytes))
			c.pieces = append(c.pieces, cuda.Piece{Local: s.Offset, Remote: uint64(c.bytes), Length: n})
			c.bytes += int(n)
			s.Offset += n
			s.Bytes -= n
			bytes += n
		}
	}
	if c != nil {
		c.last = true
	}
	return bytes
}
