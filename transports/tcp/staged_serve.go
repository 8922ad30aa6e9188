package tcp

import (
	"errors"
	"fmt"

	"hopbench/transports"
	"hopbench/transports/internal/staging"
)

// serveStaged is the target's loop over device memory. An operation is acknowledged when its last copy to the device has ended.
func (c *conn) serveStaged(l *transports.Loop, list *transports.List) error {
	posted := sequence{list: list}
	o := out{c: c}
	var q landings
	told := uint64(0)
	account := func() error {
		done, err := c.stage.sink.Done()
		if err != nil {
			return err
		}
		if q.upTo(done); q.landed > told && !l.Echo {
			told = q.landed
			return c.acknowledge(&o, told)
		}
		return nil
	}
	for {
		// What is still on its way to the device is confirmed as it lands, until the next frame is here.
		for c.stage.sink.Queued() > 0 && c.w-c.r < headerLen && !readable(c.fd, 0) {
			if err := c.stage.sink.Wait(); err != nil {
				return err
			}
			if err := account(); err != nil {
				return err
			}
		}
		c.serving = c.w-c.r == 0
		err := c.need(headerLen, 0)
		c.serving = false
		if errors.Is(err, errStopped) {
			return c.stage.sink.Flush()
		}
		if err != nil {
			return err
		}
		h, err := parseHeader(c.rx[c.r:])
		if err != nil {
			return c.garbled(err)
		}
		c.r += headerLen
		switch h.kind {
		case kindWrite, kindRead:
			if err := c.pieces(h, 0); err != nil {
				return err
			}
		case kindSend:
			if list == nil {
				return c.garbled(errors.New("a send arrived and no receive is posted"))
			}
			if err := c.posted(h, &posted, 0); err != nil {
				return err
			}
		case kindEnd:
			if err := c.stage.sink.Flush(); err != nil {
				return err
			}
			return account()
		default:
			return c.garbled(fmt.Errorf("a target got a frame of kind %d", h.kind))
		}
		if h.kind == kindRead {
			if err := c.answerStaged(c.spans, h.flags&flagLast, h.seq); err != nil {
				return err
			}
			continue
		}
		q.segments++
		if h.flags&flagLast != 0 {
			q.ends = append(q.ends, q.segments)
		}
		if err := c.landStaged(c.spans, 0, account); err != nil {
			return err
		}
		if !l.Echo || h.flags&flagLast == 0 {
			continue
		}
		if err := c.stage.sink.Flush(); err != nil {
			return err
		}
		if err := account(); err != nil {
			return err
		}
		pieces := list.Op(int(h.seq % uint64(list.Ops())))
		for len(pieces) > 0 {
			var flags uint8
			pieces, flags = c.answering(pieces)
			if err := c.answerStaged(c.spans, flags, h.seq); err != nil {
				return err
			}
		}
	}
}

// answerStaged sends one frame of data from the device.
func (c *conn) answerStaged(spans []span, flags uint8, seq uint64) error {
	from := make([]staging.Span, 0, len(spans))
	total := uint64(0)
	for _, s := range spans {
		from = append(from, staging.Span{Offset: s.off, Bytes: s.len})
		total += s.len
	}
	if err := c.stage.pump.Push(from); err != nil {
		return err
	}
	header{kind: kindData, flags: flags, pieces: uint32(len(spans)), bytes: total, seq: seq}.put(c.head)
	n := 1
	c.setOut(0, c.head[:headerLen])
	for c.stage.pump.Pending() > 0 {
		chunk, err := c.stage.pump.Next()
		if err != nil {
			return err
		}
		c.setOut(n, chunk.Bytes)
		if err := c.transmit(n + 1); err != nil {
			return err
		}
		n = 0
		if err := c.stage.pump.Release(); err != nil {
			return err
		}
	}
	return nil
}
