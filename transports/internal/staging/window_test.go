package staging_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"hopbench/transports/internal/staging"
)

// TestTheOtherSideOwnsTheRing sends chunks of every size, each a segment, into a ring in which the sender places them by a window, several ahead of what
// the sink was told of, and never over bytes that have still to leave.
func TestTheOtherSideOwnsTheRing(t *testing.T) {
	for _, c := range []staging.Config{{ChunkBytes: 4096, Depth: 1}, {ChunkBytes: 1000, Depth: 3}, {ChunkBytes: 8192, Depth: 4}} {
		on(t, c, func(s *stand) error {
			rng := rand.New(rand.NewPCG(7, uint64(c.ChunkBytes)))
			ring := s.in.Memory()
			w := staging.NewWindow(len(ring), 5)
			k := s.in.Sink(s.th, s.to, patience)
			expect := bytes.Repeat([]byte{0xee}, size)
			type placed struct {
				at    int
				spans []staging.Span
			}
			var sent []placed
			told, left := 0, uint64(0)
			for from := 0; from < size || told < len(sent); {
				for rest := min(1+rng.IntN(3*c.ChunkBytes), size-from); rest > 0; {
					n := min(rest, c.ChunkBytes)
					at, ok := w.Take(n)
					if !ok {
						if err := k.Wait(); err != nil {
							return err
						}
						if k.Queued() == 0 && told < len(sent) { // nothing is on its way: the sink has to hear of more
							if err := tell(k, sent[told].spans, sent[told].at); err != nil {
								return err
							}
							told++
						}
						for ; left < k.Retired(); left++ {
							if err := w.Give(); err != nil {
								return err
							}
						}
						continue
					}
					copy(ring[at:at+n], s.want[from:])
					copy(expect[from:from+n], s.want[from:])
					sent = append(sent, placed{at, []staging.Span{{Offset: uint64(from), Bytes: uint64(n)}}})
					from += n
					rest -= n
				}
				for told < len(sent) && rng.IntN(3) > 0 {
					if err := tell(k, sent[told].spans, sent[told].at); err != nil {
						return err
					}
					told++
				}
			}
			if err := k.Flush(); err != nil {
				return err
			}
			got, err := s.got()
			if err != nil {
				return err
			}
			if !bytes.Equal(got, expect) {
				t.Errorf("%+v: the bytes differ", c)
			}
			if k.Retired() != uint64(len(sent)) {
				t.Errorf("%d chunks retired of %d", k.Retired(), len(sent))
			}
			return nil
		})
	}
}

func tell(k *staging.Sink, spans []staging.Span, at int) error {
	k.Begin(spans)
	return k.Arrived(at)
}

// TestArrivalsThatAreNone: what the wire says is checked.
func TestArrivalsThatAreNone(t *testing.T) {
	on(t, staging.Config{ChunkBytes: 1000, Depth: 2}, func(s *stand) error {
		k := s.in.Sink(s.th, s.to, patience)
		if k.Arrived(0) == nil {
			t.Error("a chunk that was not begun has arrived")
		}
		k.Begin([]staging.Span{{Offset: 0, Bytes: 600}})
		for _, at := range []int{-1, 1401, 1 << 40} {
			if k.Arrived(at) == nil {
				t.Errorf("a chunk of 600 bytes arrived at %d of 2000", at)
			}
		}
		if err := k.Arrived(1400); err != nil {
			t.Error(err)
		}
		w := staging.NewWindow(2000, 2)
		if w.Give() == nil {
			t.Error("a chunk left that was never placed")
		}
		for _, want := range []bool{true, true, false} {
			if _, ok := w.Take(10); ok != want {
				t.Errorf("%d chunks are placed, and one more: %v", w.Placed(), ok)
			}
		}
		return k.Flush()
	})
}

// TestCutMakesSmallerChunks: a ring takes the other side's chunks where they are smaller, and stays as it is where they are not.
func TestCutMakesSmallerChunks(t *testing.T) {
	on(t, staging.Config{ChunkBytes: 4096, Depth: 2}, func(s *stand) error {
		s.in.Cut(8192)
		s.in.Cut(0)
		if got := s.in.Config(); got != (staging.Config{ChunkBytes: 4096, Depth: 2}) {
			t.Errorf("%+v", got)
		}
		s.in.Cut(1000)
		if got := s.in.Config(); got != (staging.Config{ChunkBytes: 1000, Depth: 8}) {
			t.Errorf("%+v", got)
		}
		return nil
	})
}
