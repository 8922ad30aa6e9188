package harness

import (
	"fmt"
	"math/rand/v2"

	"hopbench/transports"
)

// Shape is what the operations of a work look like. Both sides make the same lists from it.
type Shape struct {
	// Groups are the pieces of one operation: a plain message is one group of one piece.
	Groups []Group
	// Scattered draws each piece's place from a pool of pages by Seed, at both ends differently; else pieces lie one after the other.
	Scattered bool
	// Streams take part, each with Slots operations of its own places that it repeats in turn.
	Streams int
	Slots   int
	Seed    uint64
	// Base is where the work's memory begins in both regions.
	Base uint64
}

// Group is a number of pieces of one size.
type Group struct {
	Bytes uint64 `json:"bytes" yaml:"bytes"`
	Count int    `json:"count" yaml:"count"`
}

const (
	guard = 64 // untouched bytes after each piece: a byte too many is found there
	// spare is the share of a scattered pool that stays empty, so that neighbours are rarely neighbours and stray writes hit something that is checked.
	spare = 4 // a quarter
)

// Pieces is the number of pieces of one operation.
func (s Shape) Pieces() int {
	n := 0
	for _, g := range s.Groups {
		n += g.Count
	}
	return n
}

// Bytes is the payload of one operation.
func (s Shape) Bytes() uint64 {
	n := uint64(0)
	for _, g := range s.Groups {
		n += g.Bytes * uint64(g.Count)
	}
	return n
}

// Largest is the size of the largest piece.
func (s Shape) Largest() uint64 {
	n := uint64(0)
	for _, g := range s.Groups {
		n = max(n, g.Bytes)
	}
	return n
}

// Check refuses shapes that no memory could hold, before anything is allocated for them.
func (s Shape) Check() error {
	const most = 1 << 46 // bytes: far above any host's memory, far below overflow
	switch {
	case len(s.Groups) < 1 || len(s.Groups) > 1024:
		return fmt.Errorf("a shape of %d groups of pieces; 1 to 1024 are possible", len(s.Groups))
	case s.Streams < 1 || s.Streams > 1024:
		return fmt.Errorf("%d streams; 1 to 1024 are possible", s.Streams)
	case s.Slots < 1 || s.Slots > 1<<20:
		return fmt.Errorf("%d slots; 1 to %d are possible", s.Slots, 1<<20)
	case s.Base > most:
		return fmt.Errorf("the work's memory begins at %d", s.Base)
	}
	total, pieces := uint64(0), 0
	for _, g := range s.Groups {
		if g.Bytes < 1 || g.Bytes > most || g.Count < 1 || g.Count > 1<<24 {
			return fmt.Errorf("a group of %d pieces of %d bytes", g.Count, g.Bytes)
		}
		if pieces += g.Count; pieces > 1<<24 {
			return fmt.Errorf("an operation of more than %d pieces", 1<<24)
		}
		if uint64(g.Count) > most/(g.Bytes+2*guard) {
			return fmt.Errorf("%d pieces of %d bytes do not fit any memory", g.Count, g.Bytes)
		}
		if total += uint64(g.Count) * (g.Bytes + 2*guard); total > most {
			return fmt.Errorf("an operation of more than %d bytes", uint64(most))
		}
	}
	if n := uint64(s.Streams) * uint64(s.Slots); n > most/total || n*uint64(pieces) > 1<<26 {
		return fmt.Errorf("%d streams of %d operations of %d pieces are too many", s.Streams, s.Slots, pieces)
	}
	return nil
}

// stride is the distance between the places of pieces of a size: 64-byte aligned, with a guard behind each.
func stride(bytes uint64) uint64 { return (bytes+guard-1)/guard*guard + guard }

// zone is the pool of one group's places.
type zone struct {
	base, stride uint64
	places       int
}

func (s Shape) zones() (zones []zone, end uint64) {
	end = s.Base
	for _, g := range s.Groups {
		places := g.Count * s.Streams * s.Slots
		if s.Scattered {
			places += max(1, places/spare)
		}
		z := zone{base: end, stride: stride(g.Bytes), places: places}
		zones = append(zones, z)
		end += z.stride * uint64(places)
	}
	return zones, end + guard
}

// Footprint is the bytes of a region that the shape needs, from its base.
func (s Shape) Footprint() uint64 {
	_, end := s.zones()
	return end - s.Base
}

// Lists makes the operations, one list a stream. The same shape gives the same lists on every host.
func (s Shape) Lists() []transports.List {
	zones, _ := s.zones()
	local, remote := make([][]int, len(zones)), make([][]int, len(zones))
	for i, z := range zones {
		if s.Scattered {
			local[i] = rand.New(rand.NewPCG(s.Seed, uint64(2*i))).Perm(z.places)
			remote[i] = rand.New(rand.NewPCG(s.Seed, uint64(2*i+1))).Perm(z.places)
		}
	}
	place := func(order []int, z zone, n int) uint64 {
		if order != nil {
			n = order[n]
		}
		return z.base + z.stride*uint64(n)
	}
	next := make([]int, len(zones))
	lists := make([]transports.List, s.Streams)
	for t := range lists {
		l := &lists[t]
		l.Pieces = make([]transports.Piece, 0, s.Slots*s.Pieces())
		l.Ends = make([]uint32, 0, s.Slots)
		for range s.Slots {
			for i, g := range s.Groups {
				for range g.Count {
					l.Pieces = append(l.Pieces, transports.Piece{
						Local: place(local[i], zones[i], next[i]), Remote: place(remote[i], zones[i], next[i]), Length: g.Bytes,
					})
					next[i]++
				}
			}
			l.Ends = append(l.Ends, uint32(len(l.Pieces)))
		}
	}
	return lists
}
