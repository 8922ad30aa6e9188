package loopback

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
)

// words is what the two sides of a stream tell each other. They count modulo 2^32 within one loop.
type words struct {
	arrived  atomic.Uint32 // operations that the initiator has finished; one more when its loop has ended
	_        [60]byte      // a cache line each, so that the two sides do not disturb one another
	answered atomic.Uint32 // answers of the serving side
	_        [60]byte
	serving  atomic.Uint32 // 1 while the owner serves
	ended    atomic.Uint32 // 1 when the initiator's loop is over
	served   atomic.Uint32 // how often the owner has left Serve
	sleepers atomic.Uint32 // waiters that sleep on one of the words above
	_        [44]byte
}

// post counts a word up and wakes whoever sleeps on it.
func (w *words) post(word *atomic.Uint32) {
	word.Add(1)
	w.wake(word)
}

// wake costs a system call only where somebody sleeps.
func (w *words) wake(word *atomic.Uint32) {
	if w.sleepers.Load() > 0 {
		futex(word, futexWake, 1<<30, nil)
	}
}

const (
	tickNanoseconds = 10_000_000
	futexWait       = 0 // FUTEX_WAIT, FUTEX_WAKE and FUTEX_PRIVATE_FLAG of linux/futex.h
	futexWake       = 1
	futexPrivate    = 128
)

var errStopped = errors.New("stopped")

// waiter is how one stream of one loop waits.
type waiter struct {
	wait    transports.Wait
	spin    bool
	stop    *atomic.Uint32
	stall   int64
	serving bool // waits for as long as it takes, until it is stopped
}

func (w *waiter) stopped() bool { return w.stop != nil && w.stop.Load() != 0 }

// until waits until word, one of ws, has reached n.
func (w *waiter) until(ws *words, word *atomic.Uint32, n uint32) error {
	start := int64(0)
	for i := 0; ; i++ {
		seen := word.Load()
		if seen >= n {
			return nil
		}
		now := int64(0)
		if w.wait == transports.Spin || (w.wait != transports.Block && w.spin) {
			if i&63 != 63 {
				continue
			}
			now = transports.Now()
			if start == 0 {
				start = now
			}
		}
		if w.wait != transports.Spin && (now == 0 || now-start > transports.SpinNanoseconds) {
			limit := unix.NsecToTimespec(tickNanoseconds)
			ws.sleepers.Add(1)
			futex(word, futexWait, seen, &limit)
			ws.sleepers.Add(^uint32(0))
			if now = transports.Now(); start == 0 {
				start = now
			}
		}
		switch {
		case w.serving && w.stopped():
			return errStopped
		case w.serving || now == 0:
		case now-start > w.stall, w.stopped() && now-start > 1e9:
			return &fault.Error{Code: fault.LoopStalled, Op: "wait for the other side", Err: fmt.Errorf("nothing for %.1f s", float64(now-start)/1e9)}
		}
	}
}

func futex(word *atomic.Uint32, op int, value uint32, limit *unix.Timespec) {
	unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op|futexPrivate), uintptr(value), uintptr(unsafe.Pointer(limit)), 0, 0)
}
