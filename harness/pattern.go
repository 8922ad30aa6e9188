package harness

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// pattern is what memory holds before a work: a function of seed, round, side and offset, so that a swapped page, a stale round
// and the wrong side's bytes are all found. It is a multiplicative hash of the offset's 8-byte word (constants: 2^64/phi, and
// the first of splitmix64's finaliser).
type pattern uint64

// Sides of a work: whose memory a pattern fills.
const (
	initiatorSide = 1
	targetSide    = 2
)

func newPattern(seed, round uint64, side int) pattern {
	x := seed*0x9e3779b97f4a7c15 + round*0xd1b54a32d192ed03 + uint64(side)*0x8cb92ba72f3d8dd7
	x ^= x >> 31
	return pattern(x * 0xbf58476d1ce4e5b9)
}

func (p pattern) word(i uint64) uint64 {
	x := (i + uint64(p)) * 0x9e3779b97f4a7c15
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}

// put writes the pattern of offsets off, off+1, ... into dst.
func (p pattern) put(dst []byte, off uint64) {
	var w [8]byte
	if rest := off % 8; rest != 0 {
		binary.LittleEndian.PutUint64(w[:], p.word(off/8))
		n := copy(dst, w[rest:])
		dst, off = dst[n:], off+uint64(n)
	}
	i := off / 8
	for ; len(dst) >= 8; i++ {
		binary.LittleEndian.PutUint64(dst, p.word(i))
		dst = dst[8:]
	}
	if len(dst) > 0 {
		binary.LittleEndian.PutUint64(w[:], p.word(i))
		copy(dst, w[:])
	}
}

// chunk is how much is filled or compared at a time.
const chunk = 1 << 20

// fill gives [base, base+n) of a buffer the pattern of its own offsets.
func fill(b mem.Buffer, p pattern, base, n uint64) error {
	if data := b.Bytes(); data != nil {
		p.put(data[base:base+n], base)
		return nil
	}
	scratch := make([]byte, min(chunk, n))
	for off := base; off < base+n; off += chunk {
		part := scratch[:min(chunk, base+n-off)]
		p.put(part, off)
		if err := b.CopyIn(off, part); err != nil {
			return err
		}
	}
	return nil
}

// landed is bytes [at, at+len) of a buffer that hold the pattern p of offsets from, from+1, ... Free bytes at its end may hold anything.
type landed struct {
	at, len, from uint64
	p             pattern
	free          uint64
}

// verify compares [base, base+n) of a buffer with its background and what must have landed on it. Pieces do not overlap.
func verify(b mem.Buffer, background pattern, base, n uint64, pieces []landed, what string) error {
	slices.SortFunc(pieces, func(a, b landed) int { return cmp.Compare(a.at, b.at) })
	want, got := make([]byte, min(chunk, n)), make([]byte, min(chunk, n))
	next := 0
	for off := base; off < base+n; off += chunk {
		w := want[:min(chunk, base+n-off)]
		g := got[:len(w)]
		if err := b.CopyOut(off, g); err != nil {
			return fmt.Errorf("read back %s memory: %w", what, err)
		}
		background.put(w, off)
		end := off + uint64(len(w))
		for i := next; i < len(pieces) && pieces[i].at < end; i++ {
			q := pieces[i]
			if q.at+q.len <= end {
				next = i + 1
			}
			from, to := max(q.at, off), min(q.at+q.len, end)
			if from >= to {
				continue
			}
			q.p.put(w[from-off:to-off], q.from+from-q.at)
			if freeFrom := max(q.at+q.len-q.free, from); freeFrom < to {
				copy(w[freeFrom-off:to-off], g[freeFrom-off:to-off])
			}
		}
		if bytes.Equal(g, w) {
			continue
		}
		for i := range g {
			if g[i] != w[i] {
				return mismatch(what, off+uint64(i), g[i], w[i], pieces)
			}
		}
	}
	return nil
}

// mismatch says where, and whether the byte lies inside a piece (the payload is wrong) or outside (something else was written).
func mismatch(what string, at uint64, got, want byte, pieces []landed) error {
	where := "outside every piece, where nothing may be written"
	for i, q := range pieces {
		if at >= q.at && at < q.at+q.len {
			where = fmt.Sprintf("byte %d of the %d of piece %d in memory order", at-q.at, q.len, i)
			break
		}
	}
	return fault.New(fault.PayloadMismatch, "verify "+what+" memory", "", "offset %d holds %#02x instead of %#02x: %s", at, got, want, where)
}

// expectation is what a work leaves in this side's memory.
func (w Work) expectation(lists []transports.List) (background pattern, pieces []landed) {
	mine, theirs := initiatorSide, targetSide
	if !w.Initiate {
		mine, theirs = targetSide, initiatorSide
	}
	background = newPattern(w.Seed, w.Round, mine)
	other := newPattern(w.Seed, w.Round, theirs)
	free := uint64(0)
	if w.PingPong {
		free = 1 // the transport's sequence mark
	}
	for _, l := range lists {
		for _, p := range l.Pieces {
			switch {
			case w.Initiate && w.PingPong: // the answer holds what this side sent
				pieces = append(pieces, landed{at: p.Local + w.replyOffset(), len: p.Length, from: p.Local, p: background, free: free},
					landed{at: p.Local, len: p.Length, from: p.Local, p: background, free: free})
			case w.Initiate && w.Op == transports.Read:
				pieces = append(pieces, landed{at: p.Local, len: p.Length, from: p.Remote, p: other})
			case !w.Initiate && w.Op != transports.Read:
				pieces = append(pieces, landed{at: p.Remote, len: p.Length, from: p.Local, p: other, free: free})
			}
		}
	}
	return background, pieces
}

// replyOffset is where the answers of a ping-pong land: behind the work's own memory.
func (w Work) replyOffset() uint64 { return w.Shape.Footprint() }

// footprint is the bytes from the shape's base that a work touches on this side.
func (w Work) footprint() uint64 {
	n := w.Shape.Footprint()
	if w.PingPong && w.Initiate {
		n *= 2
	}
	return n
}
