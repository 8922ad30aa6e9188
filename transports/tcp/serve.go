package tcp

import (
	"errors"
	"fmt"

	"hopbench/transports"
	"hopbench/transports/fault"
)

// serve is the target's loop of one stream: it takes what the initiator sends until the end of its loop, or until it is stopped
// between two frames.
func (c *conn) serve(l *transports.Loop, list *transports.List) error {
	landed, told := uint64(0), uint64(0)
	posted := sequence{list: list} // receives, and the operations that are answered
	o := out{c: c}
	ahead := rxLen
	for {
		c.serving = c.w-c.r == 0
		err := c.need(headerLen, ahead)
		c.serving = false
		if err != nil {
			if errors.Is(err, errStopped) {
				return nil
			}
			return err
		}
		h, err := parseHeader(c.rx[c.r:])
		if err != nil {
			return c.garbled(err)
		}
		c.r += headerLen
		ahead = rxLen
		if h.bytes > aheadMax {
			ahead = 0
		}
		switch h.kind {
		case kindWrite, kindRead:
			if err := c.pieces(h, ahead); err != nil {
				return err
			}
		case kindSend:
			if list == nil {
				return c.garbled(errors.New("a send arrived and no receive is posted"))
			}
			if err := c.posted(h, &posted, ahead); err != nil {
				return err
			}
		case kindEnd:
			if told != landed {
				if err := c.acknowledge(&o, landed); err != nil {
					return err
				}
			}
			return nil
		default:
			return c.garbled(fmt.Errorf("a target got a frame of kind %d", h.kind))
		}
		if h.kind == kindRead {
			if err := o.data(h.flags&flagLast, h.seq, c.spans); err != nil {
				return err
			}
			if c.w-c.r < headerLen || o.bytes > inlineMax { // nothing more to answer is here yet
				if err := o.flush(); err != nil {
					return err
				}
			}
			continue
		}
		if err := c.land(c.spans, 0); err != nil {
			return err
		}
		if h.flags&flagLast == 0 {
			continue
		}
		landed++
		if l.Echo {
			if err := c.answer(&o, list, h.seq); err != nil {
				return err
			}
			told = landed
			continue
		}
		// One acknowledgement an operation, or one for those that already stand complete in rx.
		if c.w-c.r < headerLen || ahead == 0 {
			if err := c.acknowledge(&o, landed); err != nil {
				return err
			}
			told = landed
		}
	}
}

// pieces reads the pieces of a write or read frame and checks them.
func (c *conn) pieces(h header, ahead int) error {
	if h.pieces == 1 && h.offset <= c.size && h.bytes <= c.size-h.offset {
		c.spans = append(c.spans[:0], span{h.offset, h.bytes})
		return nil
	}
	var desc []byte
	if h.pieces > 1 {
		n := int(h.pieces) * descLen
		if err := c.need(n, ahead); err != nil {
			return err
		}
		desc = c.rx[c.r : c.r+n]
		c.r += n
	}
	var err error
	if c.spans, err = parseSpans(h, desc, c.size, c.spans); err != nil {
		return &fault.Error{Code: fault.TCPBounds, Op: "check a frame", Device: c.peer, Err: err}
	}
	return nil
}

// posted takes the pieces of the next posted receive for a send frame. The descriptors that the sender's frame holds say its
// own view; where data lands is the target's business.
func (c *conn) posted(h header, q *sequence, ahead int) error {
	if h.pieces > 1 {
		n := int(h.pieces) * descLen
		if err := c.need(n, ahead); err != nil {
			return err
		}
		c.r += n
	}
	pieces, _, last := q.next()
	total := uint64(0)
	c.spans = c.spans[:0]
	for _, p := range pieces {
		c.spans = append(c.spans, span{p.Remote, p.Length})
		total += p.Length
	}
	if total != h.bytes || last != (h.flags&flagLast != 0) {
		return c.garbled(fmt.Errorf("a send of %d bytes does not fit the posted receive of %d", h.bytes, total))
	}
	return nil
}

func (c *conn) acknowledge(o *out, landed uint64) error {
	if err := o.header(header{kind: kindAck, seq: landed}); err != nil {
		return err
	}
	return o.flush()
}

// answering leaves the spans of the next frame of an answer in c.spans, and returns the pieces that are left and the frame's flags.
func (c *conn) answering(pieces []transports.Piece) (rest []transports.Piece, flags uint8) {
	n := min(len(pieces), maxPieces)
	c.spans = c.spans[:0]
	for _, p := range pieces[:n] {
		c.spans = append(c.spans, span{p.Remote, p.Length})
	}
	if rest = pieces[n:]; len(rest) == 0 {
		flags = flagLast
	}
	return rest, flags
}

// answer sends operation number op of a ping-pong back from where it landed.
func (c *conn) answer(o *out, list *transports.List, op uint64) error {
	if list == nil {
		return c.garbled(errors.New("a ping-pong without a list to answer from"))
	}
	pieces := list.Op(int(op % uint64(list.Ops())))
	if p := pieces[0]; len(pieces) == 1 && p.Length <= inlineMax {
		return c.short(kindData, flagLast, op, 0, c.region[p.Remote:p.Remote+p.Length])
	}
	for len(pieces) > 0 {
		var flags uint8
		pieces, flags = c.answering(pieces)
		if err := o.data(flags, op, c.spans); err != nil {
			return err
		}
	}
	return o.flush()
}
