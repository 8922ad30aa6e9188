package tcp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"hopbench/transports"
)

// out gathers frames for one system call. Its fields index the memory of its connection.
type out struct {
	c     *conn
	n     int // entries of iov in use
	h     int // bytes of head in use
	bytes int // bytes gathered
}

// frame adds the header and descriptors of one frame, and the payload at the pieces' local offsets (shifted) if there is one.
func (o *out) frame(k kind, flags uint8, seq uint64, pieces []transports.Piece, payload bool, shift uint64) error {
	c := o.c
	if o.n+1+len(pieces) > iovLen || o.h+headerLen+len(pieces)*descLen+inlineMax > len(c.head) {
		if err := o.flush(); err != nil {
			return err
		}
	}
	n, total := putFrame(c.head[o.h:], k, flags, seq, pieces)
	if payload && total <= inlineMax {
		for _, p := range pieces {
			n += copy(c.head[o.h+n:], c.region[p.Local+shift:p.Local+shift+p.Length])
		}
		payload = false
	}
	o.add(c.head[o.h : o.h+n])
	o.h += n
	if payload {
		for _, p := range pieces {
			o.add(c.region[p.Local+shift : p.Local+shift+p.Length])
		}
	}
	return nil
}

// short sends one frame of one small piece at once, without gathering. Nothing may have been gathered before it.
func (c *conn) short(k kind, flags uint8, seq, offset uint64, payload []byte) error {
	b := c.head[:headerLen+len(payload)]
	header{kind: k, flags: flags, pieces: 1, bytes: uint64(len(payload)), seq: seq, offset: offset}.put(b)
	copy(b[headerLen:], payload)
	f := unix.MSG_NOSIGNAL
	if c.wait == transports.Spin {
		f |= unix.MSG_DONTWAIT
	}
	if sent, e := send(c.fd, b, f); e == 0 {
		c.moved += uint64(sent)
		if b = b[sent:]; len(b) == 0 {
			return nil
		}
	}
	c.setOut(0, b)
	return c.transmit(1)
}

// header adds a frame without descriptors.
func (o *out) header(h header) error {
	if o.n+1 > iovLen || o.h+headerLen > len(o.c.head) {
		if err := o.flush(); err != nil {
			return err
		}
	}
	h.put(o.c.head[o.h:])
	o.add(o.c.head[o.h : o.h+headerLen])
	o.h += headerLen
	return nil
}

// data adds a frame of kind data whose payload is at spans.
func (o *out) data(flags uint8, seq uint64, spans []span) error {
	total := uint64(0)
	for _, s := range spans {
		total += s.len
	}
	if o.n+1+len(spans) > iovLen || o.h+headerLen+inlineMax > len(o.c.head) {
		if err := o.flush(); err != nil {
			return err
		}
	}
	header{kind: kindData, flags: flags, pieces: uint32(len(spans)), bytes: total, seq: seq}.put(o.c.head[o.h:])
	n := headerLen
	inline := total <= inlineMax
	if inline {
		for _, s := range spans {
			n += copy(o.c.head[o.h+n:], o.c.region[s.off:s.off+s.len])
		}
	}
	o.add(o.c.head[o.h : o.h+n])
	o.h += n
	if !inline {
		for _, s := range spans {
			o.add(o.c.region[s.off : s.off+s.len])
		}
	}
	return nil
}

// add appends one piece of memory, joined with the one before where they touch.
func (o *out) add(p []byte) {
	o.bytes += len(p)
	if o.n > 0 {
		last := &o.c.oiov[o.n-1]
		if unsafe.Add(unsafe.Pointer(last.Base), last.Len) == unsafe.Pointer(unsafe.SliceData(p)) {
			last.Len += uint64(len(p))
			return
		}
	}
	o.c.setOut(o.n, p)
	o.n++
}

// flush sends what was gathered. A single piece goes by send, which the kernel handles faster than a vector.
func (o *out) flush() error {
	if o.n == 0 {
		return nil
	}
	c, n := o.c, o.n
	if n == 1 && !c.zero && o.bytes <= inlineMax {
		p := unsafe.Slice(c.oiov[0].Base, c.oiov[0].Len)
		flags := unix.MSG_NOSIGNAL
		if c.wait == transports.Spin {
			flags |= unix.MSG_DONTWAIT
		}
		if sent, e := send(c.fd, p, flags); e == 0 {
			c.moved += uint64(sent)
			if sent == len(p) {
				o.n, o.h, o.bytes = 0, 0, 0
				return nil
			}
			c.setOut(0, p[sent:])
		}
	}
	o.n, o.h, o.bytes = 0, 0, 0
	return c.transmit(n)
}
