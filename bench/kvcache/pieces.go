package kvcache

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Piece is one contiguous move between two registered pools. All three are bytes.
type Piece struct {
	Local, Remote, Length uint64
}

// PieceOptions says how the blocks of the requests lie in the pools.
type PieceOptions struct {
	Rank          int     // decode rank whose transfer is wanted (Layout.DescriptorsRank is the heaviest)
	Requests      int     // requests that hold blocks of the same pools at once; 0: 1
	Seed          uint64  // the same seed gives the same block tables
	MergeFraction float64 // 0 to 1: share of neighbouring blocks that touch on both sides and become one piece; 0 is the worst case
	SpareBlocks   int64   // blocks of each table's pool that no request holds, scattered between the others
}

// Pieces is the work of one decode rank: a list for each request, over two pools. Local is the decode rank's
// pool, Remote the prefill side's (the pools of its source ranks one after the other). No byte of a pool lies in two pieces.
type Pieces struct {
	Requests        [][]Piece
	LocalPoolBytes  uint64
	RemotePoolBytes uint64
}

// maxPieces bounds what Pieces builds: 24 bytes each.
const maxPieces = 1 << 26

// Pieces lists the moves of one decode rank: exactly the layout's descriptors, merged where MergeFraction lets
// neighbouring blocks touch.
func (l *Layout) Pieces(opts PieceOptions) (*Pieces, error) {
	if opts.Requests == 0 {
		opts.Requests = 1
	}
	if opts.Requests < 1 || opts.SpareBlocks < 0 {
		return nil, errors.New("requests must be at least 1, and spare blocks not negative")
	}
	if !(opts.MergeFraction >= 0 && opts.MergeFraction <= 1) {
		return nil, fmt.Errorf("merge fraction must be 0 to 1, not %v", opts.MergeFraction)
	}
	var count int64 = -1
	for _, r := range l.Ranks {
		if r.Rank == opts.Rank {
			count = r.Descriptors
		}
	}
	if count < 0 {
		return nil, fmt.Errorf("no decode rank %d takes part in a request", opts.Rank)
	}
	if float64(count)*float64(opts.Requests) > maxPieces || float64(opts.SpareBlocks) > maxPieces {
		return nil, fmt.Errorf("%d pieces for each of %d requests are more than %d", count, opts.Requests, maxPieces)
	}
	p, err := l.model.planner(l.opts)
	if err != nil {
		return nil, err
	}
	if l.opts.Placement == Packed {
		return l.packed(p, opts)
	}
	return l.scattered(p, opts)
}

// packed gives each request and source a staging area of its own, in order.
func (l *Layout) packed(p *planner, opts PieceOptions) (*Pieces, error) {
	out := &Pieces{Requests: make([][]Piece, opts.Requests)}
	for i := range out.Requests {
		for _, f := range l.Flows {
			if f.TargetRank != opts.Rank {
				continue
			}
			for _, d := range f.Descriptors {
				for range d.Count {
					out.Requests[i] = append(out.Requests[i], Piece{out.LocalPoolBytes, out.RemotePoolBytes, uint64(d.SizeBytes)})
					out.LocalPoolBytes += uint64(d.SizeBytes)
					out.RemotePoolBytes += uint64(d.SizeBytes)
				}
			}
		}
	}
	return out, nil
}

// scattered draws block tables for both sides and cuts the specs of every flow at them.
func (l *Layout) scattered(p *planner, opts PieceOptions) (*Pieces, error) {
	stage, dst := opts.Rank/p.decode.world, opts.Rank%p.decode.world
	target := p.stage(p.decode, stage)
	tables := map[scope]*blockTables{}
	random := rand.New(rand.NewPCG(opts.Seed, 0x6b766361636865))
	pool := func(regions []region, base int64) ([]int64, int64, error) {
		starts := make([]int64, len(regions))
		for i, r := range regions {
			if tables[r.scope] == nil {
				tables[r.scope] = newBlockTables(random, r.scope.blocks(l.opts.Tokens, l.opts.BlockTokens), opts)
			}
			starts[i] = base
			size := float64(tables[r.scope].pool) * float64(r.stride)
			if float64(base)+size > math.MaxInt64/2 {
				return nil, 0, errors.New("the pools are too large to address")
			}
			base += tables[r.scope].pool * r.stride
		}
		return starts, base, nil
	}
	local, localBytes, err := pool(target, 0)
	if err != nil {
		return nil, err
	}
	out := &Pieces{Requests: make([][]Piece, opts.Requests), LocalPoolBytes: uint64(localBytes)}
	remoteBytes := int64(0)
	for from := range p.prefill.pp {
		source := p.stage(p.prefill, from)
		shared := join(source, target)
		for src := range p.prefill.tp {
			specs := p.specs(shared, src, dst)
			if len(specs) == 0 {
				continue
			}
			var remote []int64
			if remote, remoteBytes, err = pool(source, remoteBytes); err != nil {
				return nil, err
			}
			for _, s := range specs {
				for i := range out.Requests {
					out.Requests[i] = s.cutInto(out.Requests[i], tables[s.scope], i, local[s.target], remote[s.source])
				}
			}
		}
	}
	out.RemotePoolBytes = uint64(remoteBytes)
	return out, nil
}

// cutInto appends the pieces of one spec for one request.
func (s spec) cutInto(list []Piece, t *blockTables, request int, local, remote int64) []Piece {
	for _, run := range t.requests[request] {
		l, r := local+run.local*s.targetBlock+s.targetInner, remote+run.remote*s.sourceBlock+s.sourceInner
		if s.merges() {
			list = append(list, Piece{uint64(l), uint64(r), uint64(run.blocks * s.length)})
			continue
		}
		for b := range run.blocks {
			for row := range s.rows {
				list = append(list, Piece{uint64(l + b*s.targetBlock + row*s.targetRow), uint64(r + b*s.sourceBlock + row*s.sourceRow), uint64(s.length)})
			}
		}
	}
	return list
}

// run is neighbouring blocks that lie together on both sides. Positions are blocks of the pool.
type run struct {
	local, remote, blocks int64
}

// blockTables are the tables of all requests over one pair of pools.
type blockTables struct {
	pool     int64
	requests [][]run
}

// newBlockTables cuts each request's n blocks into runs, and scatters the runs over both pools so that no run
// follows its predecessor on both sides.
func newBlockTables(random *rand.Rand, n int64, opts PieceOptions) *blockTables {
	t := &blockTables{pool: n*int64(opts.Requests) + opts.SpareBlocks, requests: make([][]run, opts.Requests)}
	type placed struct{ request, index int }
	var all []placed
	for i := range t.requests {
		if n == 0 {
			continue
		}
		touching := int64(math.Round(opts.MergeFraction * float64(n-1)))
		cuts := n - 1 - touching // between runs
		// Choose cuts of the n-1 gaps, each set alike (selection sampling: Knuth, TAOCP 2, 3.4.2, algorithm S).
		current := run{blocks: 1}
		left := n - 1
		for range n - 1 {
			if random.Int64N(left) < cuts {
				t.requests[i] = append(t.requests[i], current)
				current = run{}
				cuts--
			}
			current.blocks++
			left--
		}
		t.requests[i] = append(t.requests[i], current)
		for j := range t.requests[i] {
			all = append(all, placed{i, j})
		}
	}
	spare := int(opts.SpareBlocks)
	order := func() []int {
		o := random.Perm(len(all) + spare)
		return o
	}
	local, remote := order(), order()
	apart(local, remote, len(all), func(a, b int) bool { return all[a].request == all[b].request && all[a].index+1 == all[b].index })
	place := func(o []int, set func(*run, int64)) {
		at := int64(0)
		for _, k := range o {
			if k >= len(all) {
				at++ // a spare block
				continue
			}
			r := &t.requests[all[k].request][all[k].index]
			set(r, at)
			at += r.blocks
		}
	}
	place(local, func(r *run, at int64) { r.local = at })
	place(remote, func(r *run, at int64) { r.remote = at })
	return t
}

// apart swaps entries of remote until no pair of runs that follow each other in a table does so in both orders.
func apart(local, remote []int, runs int, next func(a, b int) bool) {
	follows := map[int]bool{} // run b directly after its predecessor in local
	for i := 1; i < len(local); i++ {
		if a, b := local[i-1], local[i]; a < runs && b < runs && next(a, b) {
			follows[b] = true
		}
	}
	for i := 1; i < len(remote); i++ {
		a, b := remote[i-1], remote[i]
		if a < runs && b < runs && next(a, b) && follows[b] {
			// b before a: it now follows what a followed, which is not its predecessor. Look again from there.
			remote[i-1], remote[i] = b, a
			i = max(0, i-2)
		}
	}
}
