package tcp

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/staging"
	"hopbench/transports/mem"
)

// device is a region in device memory: its bytes reach the wire through a ring of pinned memory for each stream and way.
type device struct {
	context     *cuda.Context
	base        cuda.Pointer
	calibration staging.Calibration
}

// newDevice chooses the rings' shape: by a short calibration, or as the settings say.
func newDevice(b mem.Buffer, s sockSettings, largest uint64) (*device, error) {
	d := &device{context: mem.CUDAContext(b), base: cuda.Pointer(b.Addr())}
	if d.context == nil {
		return nil, fault.New(fault.MemoryKind, "stage memory", "", "%s memory has no CUDA context", b.Facts().Kind)
	}
	if s.stagingChunk > 0 && s.stagingDepth > 0 {
		d.calibration = staging.Calibration{Config: staging.Config{ChunkBytes: s.stagingChunk, Depth: s.stagingDepth}, Chosen: "as the settings say"}
		return d, nil
	}
	err := d.context.Do(func(th *cuda.Thread) (err error) {
		d.calibration, err = staging.Calibrate(th, largest)
		return err
	})
	if err != nil {
		return nil, cuda.Fault(err, "calibrate the staging ring", "")
	}
	if s.stagingChunk > 0 {
		d.calibration.Config.ChunkBytes, d.calibration.Chosen = s.stagingChunk, "chunk as the settings say, depth calibrated"
	}
	if s.stagingDepth > 0 {
		d.calibration.Config.Depth, d.calibration.Chosen = s.stagingDepth, "depth as the settings say, chunk calibrated"
	}
	return d, nil
}

// stage is the staging of one stream: a ring each way, and the time that its phases took over all loops, in nanoseconds.
type stage struct {
	device  *device
	out, in *staging.Ring

	// Of the loop at hand; they belong to its thread.
	pump *staging.Pump
	sink *staging.Sink

	toHost, wire, toDevice, bytes atomic.Int64
}

// rings allocates both rings of a stream.
func (d *device) rings() (*stage, error) {
	s := &stage{device: d}
	err := d.context.Do(func(th *cuda.Thread) (err error) {
		if s.out, err = staging.NewRing(th, d.calibration.Config); err != nil {
			return err
		}
		if s.in, err = staging.NewRing(th, d.calibration.Config); err != nil {
			return errors.Join(err, s.out.Close(th))
		}
		return nil
	})
	return s, cuda.Fault(err, "allocate the staging ring", "")
}

func (s *stage) close() error {
	err := s.device.context.Do(func(th *cuda.Thread) error { return errors.Join(s.out.Close(th), s.in.Close(th)) })
	return cuda.Fault(err, "free the staging ring", "")
}

// run gives a loop its pump and sink, on a thread with the context current, and adds up what the phases took.
func (s *stage) run(spin time.Duration, stall int64, body func() error) error {
	err := s.device.context.Do(func(th *cuda.Thread) error {
		p := staging.Patience{Spin: spin, Stall: time.Duration(stall)}
		s.pump, s.sink = s.out.Pump(th, s.device.base, p), s.in.Sink(th, s.device.base, p)
		err := body()
		out, in := s.pump.Phases(), s.sink.Phases()
		nano := func(seconds float64) int64 { return int64(seconds * 1e9) }
		s.toHost.Add(nano(out.DeviceToHost))
		s.wire.Add(nano(out.Wire))
		s.toDevice.Add(nano(in.HostToDevice))
		s.bytes.Add(int64(out.Bytes + in.Bytes))
		return err
	})
	if fault.ClassOf(err) == fault.Internal {
		return cuda.Fault(err, "stage device memory", "")
	}
	return err
}

// counters are the phases, as growth over a loop.
func (s *stage) counters() []transports.Counter {
	nano := func(name string, v int64) transports.Counter {
		return transports.Counter{Name: name, Source: transports.StagingPhases, Unit: "nanoseconds", Value: uint64(v)}
	}
	return []transports.Counter{nano("device_to_host", s.toHost.Load()), nano("wire", s.wire.Load()), nano("host_to_device", s.toDevice.Load())}
}

// spansOf are the device spans of pieces at their local offsets, shifted.
func spansOf(dst []staging.Span, pieces []transports.Piece, shift uint64) []staging.Span {
	dst = dst[:0]
	for _, p := range pieces {
		dst = append(dst, staging.Span{Offset: p.Local + shift, Bytes: p.Length})
	}
	return dst
}

// stagedOut sends frames whose payload lies in device memory: pushed ahead, sent chunk by chunk behind their headers.
type stagedOut struct {
	c    *conn
	seq  sequence // of the frames to send; the pushes run ahead of it
	kind kind
	last uint8 // flags of the last frame of an operation
	rest bool  // the frame at hand has been begun
}

// chunk sends the next chunk, with the header of its frame where one begins.
func (o *stagedOut) chunk() error {
	c := o.c
	next, err := c.stage.pump.Next()
	if err != nil {
		return err
	}
	n := 0
	if !o.rest {
		pieces, op, last := o.seq.next()
		flags := uint8(0)
		if last {
			flags = o.last
		}
		head, _ := putFrame(c.head, o.kind, flags, op, pieces)
		c.setOut(0, c.head[:head])
		n = 1
	}
	o.rest = !next.Last
	c.setOut(n, next.Bytes)
	if err := c.transmit(n + 1); err != nil {
		return err
	}
	return c.stage.pump.Release()
}

// streamStaged is the initiator's loop for write and send from device memory: while a chunk is on the wire the next ones come off the
// device.
func (c *conn) streamStaged(l *transports.Loop, list *transports.List, st *transports.Stamps) error {
	flags := uint8(flagLast)
	if l.Notify {
		flags |= flagNotify
	}
	depth := uint64(l.Depth)
	bytes := sums(list)
	ahead := sequence{list: list}
	out := stagedOut{c: c, seq: sequence{list: list}, kind: outgoing(l), last: flags}
	var spans []staging.Span
	m := newLimits(l, st)
	posted, landed := uint64(0), uint64(0)
	m.start = transports.Now()
	st.Start = m.start
	now := m.start
	for open := true; open || landed < posted; {
		for open && posted-landed < depth {
			if posted >= m.count || (posted > 0 && now >= m.deadline) || c.stopped() {
				open = false
				break
			}
			if early := m.early(now, upTo(bytes, posted)); early > 0 {
				if posted > landed {
					break
				}
				time.Sleep(min(early, time.Millisecond))
				now = transports.Now()
				continue
			}
			for last := false; !last; {
				var pieces []transports.Piece
				pieces, _, last = ahead.next()
				spans = spansOf(spans, pieces, 0)
				if err := c.stage.pump.Push(spans); err != nil {
					return err
				}
			}
			posted++
			now = transports.Now()
		}
		if landed == posted {
			continue
		}
		if c.stage.pump.Pending() > 0 {
			if err := out.chunk(); err != nil {
				return err
			}
			now = transports.Now()
			if c.r == c.w && !readable(c.fd, 0) {
				continue
			}
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
	return c.end(posted)
}

// landStaged receives the payload of spans into the sink's memory, and calls between after each piece that came.
func (c *conn) landStaged(spans []span, shift uint64, between func() error) error {
	into := make([]staging.Span, 0, len(spans))
	for _, s := range spans {
		into = append(into, staging.Span{Offset: s.off + shift, Bytes: s.len})
	}
	c.stage.sink.Begin(into)
	for {
		space, err := c.stage.sink.Space()
		if err != nil {
			return err
		}
		if len(space) == 0 {
			return nil
		}
		n := copy(space, c.rx[c.r:c.w])
		c.r += n
		if n == 0 {
			bulk := len(space) > aheadMax
			if bulk {
				c.mark(c.watermark(uint64(len(space))))
			} else {
				c.mark(1)
			}
			c.r, c.w = 0, 0
			c.setIov(0, space)
			c.setIov(1, c.rx[:headerLen])
			got, err := c.receive(2, bulk)
			if err != nil {
				return err
			}
			n = min(got, len(space))
			c.w = got - n
		}
		if err := c.stage.sink.Filled(n); err != nil {
			return err
		}
		if err := between(); err != nil {
			return err
		}
	}
}

// landings says which operations are on the device: an operation is there with its last segment.
type landings struct {
	segments uint64   // begun
	ends     []uint64 // segments that end an operation that has not landed, ascending
	landed   uint64   // operations
}

// upTo counts the operations whose segments have all landed.
func (q *landings) upTo(done uint64) {
	n := 0
	for n < len(q.ends) && q.ends[n] <= done {
		n++
	}
	q.landed += uint64(n)
	q.ends = q.ends[:copy(q.ends, q.ends[n:])]
}

// pullStaged is the initiator's loop for read into device memory.
func (c *conn) pullStaged(l *transports.Loop, list *transports.List, st *transports.Stamps) error {
	got := sequence{list: list}
	a := newAsker(c, l, list, st)
	var q landings
	account := func() error {
		done, err := c.stage.sink.Done()
		if err != nil {
			return err
		}
		before := q.landed
		if q.upTo(done); q.landed > before {
			a.now = transports.Now()
			st.Complete(a.now, q.landed, upTo(a.bytes, q.landed))
		}
		return nil
	}
	for a.open || q.landed < a.requested {
		if err := a.ask(q.landed); err != nil {
			return err
		}
		if got.op < a.requested || got.piece > 0 {
			pieces, op, last := got.next()
			if err := c.dataHeader(op, pieces); err != nil {
				return err
			}
			q.segments++
			if last {
				q.ends = append(q.ends, q.segments)
			}
			if err := c.landStaged(c.spans, 0, account); err != nil {
				return err
			}
			a.answered(pieces)
		} else if q.landed < a.requested {
			if err := c.stage.sink.Wait(); err != nil {
				return err
			}
		}
		if err := account(); err != nil {
			return err
		}
	}
	st.Finish(a.now)
	return c.end(a.seq.op)
}

// pingpongStaged sends one operation from the device and waits until its answer is on the device.
func (c *conn) pingpongStaged(l *transports.Loop, list *transports.List, st *transports.Stamps) error {
	bytes := sums(list)
	ahead, back := sequence{list: list}, sequence{list: list}
	out := stagedOut{c: c, seq: sequence{list: list}, kind: outgoing(l), last: flagLast}
	var spans []staging.Span
	m := newLimits(l, st)
	st.Start = transports.Now()
	for now := st.Start; ahead.op < m.count && (ahead.op == 0 || now < m.deadline) && !c.stopped(); {
		for last := false; !last; {
			var pieces []transports.Piece
			pieces, _, last = ahead.next()
			spans = spansOf(spans, pieces, 0)
			if err := c.stage.pump.Push(spans); err != nil {
				return err
			}
		}
		for c.stage.pump.Pending() > 0 {
			if err := out.chunk(); err != nil {
				return err
			}
		}
		for last := false; !last; {
			var pieces []transports.Piece
			var op uint64
			pieces, op, last = back.next()
			if err := c.dataHeader(op, pieces); err != nil {
				return err
			}
			if err := c.landStaged(c.spans, l.ReplyOffset, func() error { return nil }); err != nil {
				return err
			}
		}
		if err := c.stage.sink.Flush(); err != nil {
			return err
		}
		now = transports.Now()
		st.Complete(now, back.op, upTo(bytes, back.op))
	}
	st.Finish(transports.Now())
	return c.end(ahead.op)
}

// describe records the ring in a path's settings.
func (d *device) describe(set map[string]string) {
	set["staging_chunk_bytes"] = strconv.Itoa(d.calibration.Config.ChunkBytes)
	set["staging_depth"] = strconv.Itoa(d.calibration.Config.Depth)
	set["staging_chosen"] = d.calibration.Chosen
}
