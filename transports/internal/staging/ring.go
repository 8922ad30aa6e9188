package staging

import (
	"errors"
	"fmt"
	"time"

	"hopbench/transports/internal/cuda"
)

// Config is the shape of a ring, which a result row records. [Calibrate] chooses it.
type Config struct {
	ChunkBytes int `json:"chunk_bytes"` // largest chunk
	Depth      int `json:"depth"`       // chunks of that size that fit: 1 hides nothing
}

// Check refuses shapes that make no ring.
func (c Config) Check() error {
	if c.ChunkBytes < 1 || c.Depth < 1 {
		return fmt.Errorf("a staging ring of %d chunks of %d bytes", c.Depth, c.ChunkBytes)
	}
	if c.ChunkBytes > 1<<34/c.Depth {
		return fmt.Errorf("a staging ring of %d chunks of %d bytes is above 16 GiB", c.Depth, c.ChunkBytes)
	}
	return nil
}

// Patience is how waits for the device wait: they look again and again for Spin (negative: for ever), then sleep between looks,
// and give up with cuda.ErrStalled after Stall (0: never).
type Patience struct {
	Spin, Stall time.Duration
}

// Span is a piece of device memory: bytes at an offset of the registered buffer.
type Span struct {
	Offset, Bytes uint64
}

// minFlight is how many chunks may be in flight however small they are: small operations share the ring's memory.
const minFlight = 64

// Ring is pinned memory with a stream of its own. One Pump or Sink at a time uses it.
type Ring struct {
	config  Config
	context *cuda.Context
	memory  []byte
	stream  cuda.Stream
	marks   []mark // reused in turn
}

// mark is the two events around the copies of one chunk.
type mark struct{ before, after cuda.Event }

// NewRing allocates a ring for the device whose context is current. Close gives it back.
func NewRing(th *cuda.Thread, c Config) (*Ring, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	r := &Ring{config: c, context: th.Context()}
	var err error
	if r.memory, err = th.AllocHost(c.ChunkBytes * c.Depth); err != nil {
		return nil, err
	}
	if r.stream, err = th.NewStream(); err != nil {
		return nil, errors.Join(err, th.FreeHost(r.memory))
	}
	for range max(c.Depth, minFlight) {
		var m mark
		if m.before, err = th.NewEvent(); err == nil {
			if m.after, err = th.NewEvent(); err != nil {
				err = errors.Join(err, th.CloseEvent(m.before))
			}
		}
		if err != nil {
			return nil, errors.Join(err, r.Close(th))
		}
		r.marks = append(r.marks, m)
	}
	return r, nil
}

// Flight is how many chunks may be in flight, however small they are.
func (r *Ring) Flight() int { return len(r.marks) }

// Cut makes chunks smaller than the ring was made for, where the other side's are. Larger ones are left as they are; no Pump and no Sink
// may be at work.
func (r *Ring) Cut(most int) {
	if most > 0 && most < r.config.ChunkBytes {
		r.config.Depth = len(r.memory) / most
		r.config.ChunkBytes = most
	}
}

// Config is the ring's shape.
func (r *Ring) Config() Config { return r.config }

// Memory is the whole pinned block, for transports that register it. Every chunk lies in it.
func (r *Ring) Memory() []byte { return r.memory }

// Close waits for what is queued and frees the ring.
func (r *Ring) Close(th *cuda.Thread) error {
	err := th.Synchronize(r.stream)
	for _, m := range r.marks {
		err = errors.Join(err, th.CloseEvent(m.before), th.CloseEvent(m.after))
	}
	err = errors.Join(err, th.CloseStream(r.stream), th.FreeHost(r.memory))
	r.marks, r.memory = nil, nil
	return err
}

// space hands out the ring's memory in order and takes it back in the same order.
type space struct {
	size       int
	head, tail int
	wrapped    bool // the free part is [tail, head)
	used       int  // pieces that are out
}

// take returns the start of n contiguous bytes, or false where the oldest piece has to come back first.
func (s *space) take(n int) (int, bool) {
	if s.used == 0 {
		s.head, s.tail, s.wrapped = 0, 0, false
	}
	switch {
	case s.wrapped && s.head-s.tail < n:
		return 0, false
	case !s.wrapped && s.size-s.tail < n:
		if s.head < n {
			return 0, false
		}
		s.wrapped, s.tail = true, 0
	}
	at := s.tail
	s.tail += n
	s.used++
	return at, true
}

// give takes back the oldest piece; next is where the one after it starts, and means nothing if there is none.
func (s *space) give(next int) {
	s.used--
	if s.used == 0 {
		return
	}
	if next < s.head {
		s.wrapped = false
	}
	s.head = next
}
