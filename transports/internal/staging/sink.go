package staging

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"hopbench/transports/internal/cuda"
)

var errNothing = errors.New("staging: there is no such chunk")

// Sink writes to device memory behind a wire. Begin says where a segment's bytes go, Space gives host memory for the next of them,
// Filled says how many have come. Where the other side of the wire writes into the ring's memory by itself, it owns that memory by a
// [Window], and Arrived takes the place of Space and Filled. Done and Flush tell what has landed on the device.
type Sink struct {
	ring     *Ring
	th       *cuda.Thread
	to       cuda.Side
	patience Patience

	chunks   queue
	space    space
	filling  uint64 // number of the chunk that is being filled
	placed   bool   // it has its memory
	filled   int    // bytes of it that have come
	segments uint64 // begun
	landed   uint64 // segments that are on the device
	phases   Phases
	total    watch
}

// Sink starts to write to device memory at base, in the context of th.
func (r *Ring) Sink(th *cuda.Thread, base cuda.Pointer, p Patience) *Sink {
	return &Sink{ring: r, th: th, patience: p, space: space{size: len(r.memory)},
		to: cuda.Side{Address: uint64(base), Context: r.context}}
}

// Begin queues one segment: the device spans that its bytes go to, in order. The spans are not kept.
func (s *Sink) Begin(spans []Span) {
	bytes := s.chunks.cut(s.segments, spans, s.ring.config.ChunkBytes)
	s.phases.Bytes += bytes
	s.segments++
	if bytes == 0 && s.chunks.len() == 0 {
		s.landed = s.segments
	}
}

// Space gives the memory for the next bytes of what was begun: at most one chunk, and empty when every byte has come. It waits for
// the device where the ring is full.
func (s *Sink) Space() ([]byte, error) {
	if s.filling == s.chunks.next {
		return nil, nil
	}
	c := s.chunks.at(s.filling)
	for !s.placed {
		full := s.filling-s.chunks.first >= uint64(len(s.ring.marks))
		if !full {
			if at, ok := s.space.take(c.bytes); ok {
				c.at, s.placed, s.filled = at, true, 0
				continue
			}
		}
		if err := s.Wait(); err != nil {
			return nil, err
		}
	}
	return s.ring.memory[c.at+s.filled : c.at+c.bytes : c.at+c.bytes], nil
}

// Filled says that the first n bytes of Space have come. A chunk that is whole goes on to the device.
func (s *Sink) Filled(n int) error {
	if !s.placed || n < 0 || s.filled+n > s.chunks.at(s.filling).bytes {
		return errNothing
	}
	c := s.chunks.at(s.filling)
	s.filled += n
	if s.filled < c.bytes {
		return nil
	}
	return s.launch(c)
}

// Arrived says that the next chunk of what was begun has come whole, at an offset of the ring's memory that the other side chose. An
// offset outside the memory, a chunk that was not begun and more chunks than the ring has marks for are errors: the wire's words are not
// to be trusted.
func (s *Sink) Arrived(at int) error {
	if s.filling == s.chunks.next || s.placed || s.Queued() >= len(s.ring.marks) {
		return errNothing
	}
	c := s.chunks.at(s.filling)
	if at < 0 || at > len(s.ring.memory)-c.bytes {
		return fmt.Errorf("staging: a chunk of %d bytes at offset %d of a ring of %d", c.bytes, at, len(s.ring.memory))
	}
	c.at, c.outside = at, true
	return s.launch(c)
}

// Begun says whether there is a chunk for Arrived or Space.
func (s *Sink) Begun() bool { return s.filling < s.chunks.next }

// Retired is how many chunks have landed since the sink was made: so many the other side's [Window] may give again.
func (s *Sink) Retired() uint64 { return s.chunks.first }

// launch queues the copy of the chunk that has come.
func (s *Sink) launch(c *chunk) error {
	s.total.start(time.Now())
	c.mark = s.ring.marks[s.filling%uint64(len(s.ring.marks))]
	from := cuda.Side{Address: uint64(uintptr(unsafe.Pointer(&s.ring.memory[c.at])))}
	way := cuda.Way{Local: s.to, Remote: from, Read: true}
	if err := s.th.Copy(way, c.pieces, c.mark.before, c.mark.after, s.ring.stream); err != nil {
		return err
	}
	s.filling++
	s.placed = false
	return nil
}

// Queued is how many chunks are on their way to the device.
func (s *Sink) Queued() int { return int(s.filling - s.chunks.first) }

// Wait waits until the oldest queued chunk has landed; without one it returns at once.
func (s *Sink) Wait() error {
	if s.Queued() == 0 {
		return nil
	}
	if err := s.th.Wait(s.chunks.at(s.chunks.first).mark.after, s.patience.Spin, s.patience.Stall); err != nil {
		return err
	}
	return s.retire()
}

// Done is how many segments have landed on the device whole, in order, without waiting.
func (s *Sink) Done() (uint64, error) {
	for s.Queued() > 0 {
		passed, err := s.th.Passed(s.chunks.at(s.chunks.first).mark.after)
		if err != nil || !passed {
			return s.landed, err
		}
		if err := s.retire(); err != nil {
			return s.landed, err
		}
	}
	return s.landed, nil
}

// Flush waits until everything that came has landed.
func (s *Sink) Flush() error {
	for s.Queued() > 0 {
		if err := s.Wait(); err != nil {
			return err
		}
	}
	return nil
}

// retire takes the oldest chunk, whose copy has ended.
func (s *Sink) retire() error {
	c := s.chunks.at(s.chunks.first)
	seconds, err := s.th.Elapsed(c.mark.before, c.mark.after)
	if err != nil {
		return err
	}
	s.phases.HostToDevice += seconds
	if c.last {
		s.landed = c.segment + 1
	}
	s.chunks.first++
	if !c.outside {
		next := 0
		if n := s.chunks.first; n < s.filling || (n == s.filling && s.placed) {
			next = s.chunks.at(n).at
		}
		s.space.give(next)
	}
	if s.Queued() == 0 {
		s.total.stop(time.Now())
	}
	return nil
}

// Phases is what was spent so far: the copies to the device, and as Total the time in which at least one was queued.
func (s *Sink) Phases() Phases {
	f := s.phases
	f.Total = s.total.sum.Seconds()
	return f
}
