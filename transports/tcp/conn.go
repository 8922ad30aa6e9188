package tcp

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
)

// conn is one data connection with all the memory that its loops need: one stream of an endpoint.
type conn struct {
	fd     int
	peer   string // data address of the other side, for messages
	region []byte // the registered memory of this side; nil where stage moves it
	size   uint64 // of the region
	stage  *stage // for device memory, else nil
	broken error  // a loop failed in the middle of a frame: nothing can follow

	rx   []byte // bytes received ahead: rx[r:w]
	r, w int

	head  []byte       // headers, descriptors and small payloads on their way out
	iov   []unix.Iovec // pieces of one receiving system call
	oiov  []unix.Iovec // of one sending system call, gathered over several frames
	msg   unix.Msghdr
	spans []span // pieces of the frame at hand

	lowat int  // what SO_RCVLOWAT is now
	paced bool // the congestion control spreads segments over time
	zero  bool // MSG_ZEROCOPY

	// Of the loop at hand.
	wait    transports.Wait
	crowded bool // more streams than CPUs: an adaptive wait gives its CPU to the others while it spins
	stop    *atomic.Uint32
	serving bool  // waiting for a frame to begin: the stop word ends it and no stall is counted
	stall   int64 // nanoseconds without progress after which the loop gives up
	moved   uint64
	seen    uint64
	since   int64
}

const (
	rxLen     = 256 << 10
	iovLen    = 1024 // IOV_MAX of Linux
	headCap   = 256 << 10
	inlineMax = 4 << 10  // payloads up to this are copied behind their header: one piece for the kernel
	aheadMax  = 16 << 10 // messages up to this are received in one piece with what follows and copied; larger ones land directly
)

// errStopped ends a Serve whose stop word was set.
var errStopped = errors.New("stopped")

func newConn(fd int, peer string, region []byte, s sockSettings) *conn {
	c := &conn{
		fd: fd, peer: peer, region: region, size: uint64(len(region)), zero: s.zerocopy, lowat: 1,
		rx: make([]byte, rxLen), head: make([]byte, headCap), iov: make([]unix.Iovec, iovLen), oiov: make([]unix.Iovec, iovLen), spans: make([]span, 0, maxPieces),
	}
	name, err := unix.GetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	c.paced = err == nil && name == "bbr"
	return c
}

// begin sets the connection up for one loop.
func (c *conn) begin(l *transports.Loop, stall int64, crowded bool) {
	c.wait, c.stop, c.stall, c.serving = l.Wait, l.Stop, stall, false
	c.crowded = crowded
	c.seen, c.since = c.moved, transports.Now()
}

func (c *conn) stopped() bool { return c.stop != nil && c.stop.Load() != 0 }

// idle is called when a wait brought nothing; it says whether to give up.
func (c *conn) idle(now int64) error {
	if c.serving {
		if c.stopped() {
			return errStopped
		}
		return nil
	}
	if c.moved != c.seen {
		c.seen, c.since = c.moved, now
		return nil
	}
	limit := c.stall
	if c.stopped() {
		limit = min(limit, 1e9) // whoever stops a loop does not want to wait for a peer that is gone
	}
	if now-c.since > limit {
		return &fault.Error{Code: fault.LoopStalled, Op: "move data", Device: c.peer,
			Err: fmt.Errorf("no byte for %.1f s", float64(now-c.since)/1e9)}
	}
	return nil
}

// failed turns an errno of the data connection into an error.
func (c *conn) failed(op string, e unix.Errno) error {
	code := fault.TCPReset
	return &fault.Error{Code: code, Op: op, Device: c.peer, Native: fmt.Sprintf("%s (%d)", unix.ErrnoName(e), int(e)), Err: e}
}

func (c *conn) closed(op string) error {
	return fault.New(fault.TCPReset, op, c.peer, "the peer closed the data connection")
}

func (c *conn) garbled(err error) error {
	return &fault.Error{Code: fault.TCPProtocol, Op: "read a frame", Device: c.peer, Err: err}
}

func (c *conn) setIov(i int, p []byte) {
	c.iov[i].Base = unsafe.SliceData(p)
	c.iov[i].SetLen(len(p))
}

func (c *conn) setOut(i int, p []byte) {
	c.oiov[i].Base = unsafe.SliceData(p)
	c.oiov[i].SetLen(len(p))
}

// transmit sends the first n entries of oiov, whole.
func (c *conn) transmit(n int) error {
	flags := unix.MSG_NOSIGNAL
	if c.wait == transports.Spin {
		flags |= unix.MSG_DONTWAIT
	}
	if c.zero {
		flags |= unix.MSG_ZEROCOPY
	}
	first := 0
	for i := 0; first < n; i++ {
		c.msg.Iov = &c.oiov[first]
		c.msg.SetIovlen(n - first)
		sent, e := sendmsg(c.fd, &c.msg, flags)
		if e != 0 {
			switch e {
			case unix.EAGAIN, unix.EINTR:
				if flags&unix.MSG_DONTWAIT == 0 || i&63 == 63 {
					if err := c.idle(transports.Now()); err != nil {
						return err
					}
				}
				continue
			case unix.ENOBUFS:
				if c.zero { // too many notifications of MSG_ZEROCOPY are unread
					c.reapZerocopy()
					continue
				}
			}
			return c.failed("send", e)
		}
		c.moved += uint64(sent)
		for first < n && uint64(sent) >= c.oiov[first].Len {
			sent -= int(c.oiov[first].Len)
			first++
		}
		if sent > 0 {
			c.oiov[first].Base = (*byte)(unsafe.Add(unsafe.Pointer(c.oiov[first].Base), sent))
			c.oiov[first].Len -= uint64(sent)
		}
	}
	return nil
}

// reapZerocopy reads the notifications that the kernel leaves on the error queue. The pages are not reused differently, so nothing waits for them.
func (c *conn) reapZerocopy() {
	var control [128]byte
	for {
		m := unix.Msghdr{Control: &control[0]}
		m.SetControllen(len(control))
		if _, e := recvmsg(c.fd, &m, unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT); e != 0 {
			return
		}
	}
}

// receive reads into the first n entries of iov and returns how many bytes came: at least one. Bulk waits by poll, so that
// the low-water mark holds back wake-ups until enough is there.
func (c *conn) receive(n int, bulk bool) (int, error) {
	c.msg.Iov = &c.iov[0]
	c.msg.SetIovlen(n)
	flags := unix.MSG_DONTWAIT
	if c.wait == transports.Block && !bulk {
		flags = 0
	}
	start := int64(0)
	try := !bulk // bulk looks before it reads, except after a wait that brought nothing: the mark may be higher than what will come
	for i := 0; ; i++ {
		if try || readable(c.fd, 0) {
			var got int
			var e unix.Errno
			if n == 1 { // without a vector to read a call is shorter, which a spinning wait pays for again and again
				got, e = recv(c.fd, &c.iov[0], flags)
			} else {
				got, e = recvmsg(c.fd, &c.msg, flags)
			}
			if e == 0 {
				if got == 0 {
					return 0, c.closed("receive")
				}
				c.moved += uint64(got)
				return got, nil
			}
			if e != unix.EAGAIN && e != unix.EINTR {
				return 0, c.failed("receive", e)
			}
			try = !bulk
		}
		switch c.wait {
		case transports.Spin:
			if i&63 != 63 {
				continue
			}
			now := transports.Now()
			if start == 0 {
				start = now
			}
			try = !bulk || now-start > int64(tick)
		case transports.Block:
			if bulk {
				try = true
				if readable(c.fd, int(tick/1e6)) {
					continue
				}
			}
		default:
			now := transports.Now()
			if start == 0 {
				start = now
			}
			if now-start < transports.SpinNanoseconds {
				if c.crowded {
					yield()
				}
				continue
			}
			try = true
			if readable(c.fd, int(tick/1e6)) {
				continue
			}
		}
		if err := c.idle(transports.Now()); err != nil {
			return 0, err
		}
	}
}

// mark sets the socket's low-water mark: how many bytes must be there before a poll says so.
func (c *conn) mark(bytes int) {
	if c.lowat != bytes && setInt(c.fd, unix.SOL_SOCKET, unix.SO_RCVLOWAT, bytes) == 0 {
		c.lowat = bytes
	}
}

// need makes at least n bytes stand in rx. Ahead is how much more may be read: reading far ahead of large payloads would copy them.
func (c *conn) need(n, ahead int) error {
	for c.w-c.r < n {
		if c.r > 0 {
			copy(c.rx, c.rx[c.r:c.w])
			c.r, c.w = 0, c.w-c.r
		}
		c.mark(1)
		c.setIov(0, c.rx[c.w:min(len(c.rx), n+ahead)])
		got, err := c.receive(1, false)
		if err != nil {
			return err
		}
		c.w += got
		c.serving = false
	}
	return nil
}

// land reads the payload of spans off the connection into the region.
func (c *conn) land(spans []span, shift uint64) error {
	if len(spans) == 1 && uint64(c.w-c.r) >= spans[0].len { // a small one, which came with its header
		at := spans[0].off + shift
		c.r += copy(c.region[at:at+spans[0].len], c.rx[c.r:c.w])
		return nil
	}
	return c.landWhole(spans, shift)
}

// landWhole takes what was received ahead first, then reads straight into place, together with the header that follows.
func (c *conn) landWhole(spans []span, shift uint64) error {
	i, done := 0, uint64(0) // done bytes of spans[i] are in place
	rest := uint64(0)
	for _, s := range spans {
		rest += s.len
	}
	advance := func(n uint64) {
		rest -= n
		for n > 0 {
			step := min(n, spans[i].len-done)
			done += step
			n -= step
			if done == spans[i].len {
				i, done = i+1, 0
			}
		}
	}
	at := func() []byte {
		s := spans[i]
		return c.region[s.off+shift+done : s.off+shift+s.len]
	}
	for rest > 0 && c.r < c.w {
		n := copy(at(), c.rx[c.r:c.w])
		c.r += n
		advance(uint64(n))
	}
	for rest > 0 {
		bulk := rest > aheadMax
		ahead := len(c.rx)
		if bulk {
			ahead = headerLen
			c.mark(c.watermark(rest))
		} else {
			c.mark(1)
		}
		n, filled := 0, uint64(0)
		for j, d := i, done; j < len(spans) && n < iovLen-1; j, d = j+1, 0 {
			s := spans[j]
			c.setIov(n, c.region[s.off+shift+d:s.off+shift+s.len])
			filled += s.len - d
			n++
		}
		c.r, c.w = 0, 0
		if filled == rest {
			c.setIov(n, c.rx[:ahead])
			n++
		}
		got, err := c.receive(n, bulk)
		if err != nil {
			return err
		}
		if over := uint64(got); over > rest {
			c.w = int(over - rest)
			got = int(rest)
		}
		advance(uint64(got))
	}
	return nil
}

// watermark is how many of the rest bytes to wait for. A paced sender delivers in drops, and each wake-up costs: wait for nearly the
// whole message. An unpaced one fills the buffer faster than it is emptied, and waiting for much stalls it.
func (c *conn) watermark(rest uint64) int {
	most := uint64(128 << 10)
	if c.paced {
		most = 1 << 20
	}
	return int(min(rest, most))
}
