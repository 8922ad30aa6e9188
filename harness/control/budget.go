package control

import (
	"sync"

	"hopbench/harness"
	"hopbench/transports/fault"
)

// budget holds a session's requests against the server's caps before anything is made. The harness counts the buffers; what else a
// request makes the process allocate is estimated here from above.
const (
	streamBytes = 1 << 20 // sockets, queue pairs and their rings, for one stream
	depthBytes  = 256     // for one operation in flight
	pieceBytes  = 64      // for one descriptor that an endpoint prepares room for
	listBytes   = 64      // for one descriptor of a list: its place, its permutation, what a driver makes of it
	stampBytes  = 32      // for one stamp: the stamp, its derived figures and their copy on the wire
)

type budget struct {
	limits harness.Limits

	mu   sync.Mutex
	used uint64
}

// take counts bytes against the cap on memory.
func (b *budget) take(op string, bytes uint64) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if most := b.limits.MaxMemory; most > 0 && (bytes > most || b.used > most-bytes) {
		return fault.New(fault.PeerCap, op, "", "%d bytes of memory beside the %d in use; the server allows %d (--max-memory)", bytes, b.used, most)
	}
	b.used += bytes
	return nil
}

func (b *budget) give(bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= bytes
}

// room is what opening a lane costs. The request's counts are bounded, so that nothing overflows but the buffer's size, which
// saturates.
func room(r harness.OpenRequest) uint64 {
	n := uint64(r.Endpoints) * uint64(r.Streams) * (streamBytes + depthBytes*uint64(r.Depth) + pieceBytes*uint64(r.Pieces))
	if sum := n + r.Memory.Bytes; sum >= n {
		return sum
	}
	return ^uint64(0)
}

// listRoom is what a work's lists cost.
func listRoom(s harness.Shape) uint64 {
	n := uint64(s.Streams) * uint64(s.Slots) * uint64(s.Pieces()) * listBytes
	if s.Scattered {
		n += n / 4
	}
	return n
}

func stampRoom(s harness.Span, streams int) uint64 {
	return uint64(s.Stamps) * uint64(streams) * stampBytes
}

// size holds an operation against the cap on sizes.
func (b *budget) size(op string, bytes uint64) error {
	if most := b.limits.MaxSize; most > 0 && bytes > most {
		return fault.New(fault.PeerCap, op, "", "operations of %d bytes; the server allows %d (--max-size)", bytes, most)
	}
	return nil
}

// duration holds a loop against the cap on durations.
func (b *budget) duration(op string, seconds float64) error {
	if most := b.limits.MaxSeconds; most > 0 && seconds > most {
		return fault.New(fault.PeerCap, op, "", "a loop of %g s; the server allows %g s (--max-duration)", seconds, most)
	}
	return nil
}
