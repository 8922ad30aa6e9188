package staging

import (
	"time"
	"unsafe"

	"hopbench/transports/internal/cuda"
)

// Pump reads device memory ahead of a wire. Push says what to send, Next gives it chunk by chunk in host memory, Release gives a
// chunk's memory back when the wire no longer reads it.
type Pump struct {
	ring     *Ring
	th       *cuda.Thread
	from     cuda.Side
	patience Patience

	chunks   queue
	space    space
	launched uint64 // number of the next chunk whose copy is to be queued
	given    uint64 // number of the next chunk for Next
	segments uint64
	phases   Phases
	wire     watch
	total    watch
}

// Chunk is a run of bytes of one segment, ready in host memory.
type Chunk struct {
	Bytes   []byte // inside Ring.Memory, until Release
	Segment uint64 // number of the Push that it belongs to, from 0
	Last    bool   // the segment ends with it
}

// Pump starts to read from device memory at base, in the context of th.
func (r *Ring) Pump(th *cuda.Thread, base cuda.Pointer, p Patience) *Pump {
	return &Pump{ring: r, th: th, patience: p, space: space{size: len(r.memory)},
		from: cuda.Side{Address: uint64(base), Context: r.context}}
}

// Push queues one segment: spans in the order in which their bytes go on the wire. Copies from the device start at once as far as
// the ring has room. The spans are not kept. A segment of no bytes gives no chunk.
func (p *Pump) Push(spans []Span) error {
	p.total.start(time.Now())
	p.phases.Bytes += p.chunks.cut(p.segments, spans, p.ring.config.ChunkBytes)
	p.segments++
	return p.launch()
}

// launch queues copies while there is room.
func (p *Pump) launch() error {
	for p.launched < p.chunks.next && p.launched-p.chunks.first < uint64(len(p.ring.marks)) {
		c := p.chunks.at(p.launched)
		at, ok := p.space.take(c.bytes)
		if !ok {
			return nil
		}
		c.at = at
		c.mark = p.ring.marks[p.launched%uint64(len(p.ring.marks))]
		to := cuda.Side{Address: uint64(uintptr(unsafe.Pointer(&p.ring.memory[at])))}
		if err := p.th.Copy(cuda.Way{Local: p.from, Remote: to}, c.pieces, c.mark.before, c.mark.after, p.ring.stream); err != nil {
			return err
		}
		p.launched++
	}
	return nil
}

// Pending is how many chunks Next has still to give.
func (p *Pump) Pending() int { return int(p.chunks.next - p.given) }

// Blocked says whether Next would have to wait for a Release: everything that the ring holds is on the wire.
func (p *Pump) Blocked() bool { return p.given == p.launched && p.Pending() > 0 }

// Ready says whether Next would give a chunk without waiting.
func (p *Pump) Ready() (bool, error) {
	if p.given == p.launched {
		return false, nil
	}
	return p.th.Passed(p.chunks.at(p.given).mark.after)
}

// Next waits for the next chunk in order. There must be one (Pending) and it must not be Blocked.
func (p *Pump) Next() (Chunk, error) {
	if p.given == p.launched {
		return Chunk{}, errNothing
	}
	c := p.chunks.at(p.given)
	if err := p.th.Wait(c.mark.after, p.patience.Spin, p.patience.Stall); err != nil {
		return Chunk{}, err
	}
	seconds, err := p.th.Elapsed(c.mark.before, c.mark.after)
	if err != nil {
		return Chunk{}, err
	}
	p.phases.DeviceToHost += seconds
	if p.given == p.chunks.first {
		p.wire.start(time.Now())
	}
	p.given++
	return Chunk{Bytes: p.ring.memory[c.at : c.at+c.bytes : c.at+c.bytes], Segment: c.segment, Last: c.last}, nil
}

// Release gives back the oldest chunk that Next gave: the wire has read it. Its memory goes to the next copy from the device.
func (p *Pump) Release() error {
	if p.chunks.first == p.given {
		return errNothing
	}
	p.chunks.first++
	next := 0
	if p.chunks.first < p.launched {
		next = p.chunks.at(p.chunks.first).at
	}
	p.space.give(next)
	now := time.Now()
	if p.chunks.first == p.given {
		p.wire.stop(now)
	}
	if p.chunks.len() == 0 {
		p.total.stop(now)
	}
	return p.launch()
}

// Phases is what was spent so far. The wire's seconds are those in which at least one chunk was between Next and Release.
func (p *Pump) Phases() Phases {
	f := p.phases
	f.Wire, f.Total = p.wire.sum.Seconds(), p.total.sum.Seconds()
	return f
}
