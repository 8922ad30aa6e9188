package cudapeer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports"
)

// signals is what one stream of an endpoint is told by the other side, in two counting descriptors that a native loop can use and a
// sleeping thread can wait on. call: one for each operation that has landed, over for the end of the loop. reply: one for each answer,
// over when the serving side has left.
type signals struct {
	call, reply int
}

// over is far above any count of operations that may be unread.
const over = 1 << 40

// tick bounds how late a stop word is seen.
const tick = 10 * time.Millisecond

func newSignals() (*signals, error) {
	call, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("make an event descriptor: %w", err)
	}
	reply, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make an event descriptor: %w", err), unix.Close(call))
	}
	return &signals{call, reply}, nil
}

func (s *signals) close() error { return errors.Join(unix.Close(s.call), unix.Close(s.reply)) }

// take empties a descriptor; 0 means that there was nothing.
func take(fd int) uint64 {
	var b [8]byte
	if n, _ := unix.Read(fd, b[:]); n != 8 {
		return 0
	}
	return binary.NativeEndian.Uint64(b[:])
}

func put(fd int, n uint64) error {
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], n)
	for {
		if _, err := unix.Write(fd, b[:]); err != unix.EINTR {
			return err
		}
	}
}

// await looks for spin (negative: for ever), then sleeps, until the descriptor has something or a tick has passed.
func await(fd int, spin time.Duration) uint64 {
	if n := take(fd); n > 0 {
		return n
	}
	for begun := transports.Now(); spin < 0 || transports.Now()-begun < int64(spin); {
		if n := take(fd); n > 0 {
			return n
		}
		if spin < 0 && transports.Now()-begun > int64(tick) {
			return 0
		}
	}
	unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(tick/time.Millisecond))
	return take(fd)
}

// serve answers until the initiator's loop is over or the stop word is set. Without notifications it sleeps.
func (s *signals) serve(initiator *signals, l *transports.Loop) error {
	spin := spin(l.Wait)
	if !l.Notify {
		spin = 0
	}
	for l.Stop == nil || l.Stop.Load() == 0 {
		n := await(s.call, spin)
		if n%over > 0 {
			if err := put(initiator.reply, n%over); err != nil {
				return fmt.Errorf("answer a notification: %w", err)
			}
		}
		if n >= over {
			return put(initiator.reply, over)
		}
	}
	return nil
}

// end tells the side that is told by s that the initiator's loop is over, and waits until it has left Serve, so that the next loop does
// not meet this one's. A side that never comes, or was stopped, is no failure: the copies did not need it.
func (s *signals) end(initiator *signals, limit time.Duration, stop *atomic.Uint32) error {
	take(initiator.reply) // answers of a loop that gave up waiting
	if err := put(s.call, over); err != nil {
		return fmt.Errorf("end a loop: %w", err)
	}
	for begun := transports.Now(); transports.Now()-begun < int64(limit); {
		if await(initiator.reply, 0) >= over {
			return nil
		}
		if stop != nil && stop.Load() != 0 && transports.Now()-begun > 10*int64(tick) {
			break
		}
	}
	if take(s.call) < over {
		await(initiator.reply, 0) // it came just now
	}
	return nil
}
