package kvcache

import "fmt"

// scope says how many slots (tokens, entries, or one state) of a tensor a request holds, and in how many blocks.
type scope struct {
	ratio  int  // tokens a slot
	window int  // tokens kept; 0: all
	whole  bool // every block of the prompt is sent, not the window's alone
	fixed  bool // one slot a request, whatever its length
}

// slots is what a request of n tokens holds.
func (s scope) slots(n int64) int64 {
	if s.fixed {
		return 1
	}
	if s.window > 0 {
		n = min(n, int64(s.window))
	}
	return n / int64(s.ratio)
}

// perBlock is the slots of a block of that many tokens.
func (s scope) perBlock(blockTokens int) int64 {
	if s.fixed {
		return 1
	}
	return max(1, int64(blockTokens/s.ratio))
}

// blocks is the number of blocks that hold the slots: for a window, those that its last tokens touch.
func (s scope) blocks(n int64, blockTokens int) int64 {
	if s.fixed {
		return 1
	}
	per := s.perBlock(blockTokens)
	end := n / int64(s.ratio)
	first := int64(0)
	if s.window > 0 && !s.whole {
		first = max(0, n-int64(s.window)) / per
	}
	return (end+per-1)/per - first
}

// tensor is one cache tensor of one layer. Heads split over tensor-parallel ranks; one head is replicated on all.
type tensor struct {
	layer     int
	name      string // k, v, latent, index, window, entry, conv, ssm
	heads     int
	slotBytes int64 // bytes of one head of one slot
	rows      int64 // convolution: rows of a slot, heads inside each; else 1
	scope     scope
}

// tensors lists what one layer keeps, in the order in which it lies in memory.
func (m *Model) tensors(index int, l Layer, o Options) ([]tensor, error) {
	all := scope{ratio: 1}
	switch l.Kind {
	case Full, Window, Chunked:
		sc := all
		if l.Kind != Full {
			sc = scope{ratio: 1, window: l.Window, whole: o.WholeWindow}
		}
		k, err := elementBytes(o.KVDType, int64(l.KDim))
		if err != nil {
			return nil, err
		}
		v, err := elementBytes(o.KVDType, int64(l.VDim))
		if err != nil {
			return nil, err
		}
		return []tensor{{index, "k", l.KVHeads, k, 1, sc}, {index, "v", l.KVHeads, v, 1, sc}}, nil
	case Latent:
		size, err := latentBytes(l, o.KVDType)
		if err != nil {
			return nil, err
		}
		return withIndex([]tensor{{index, "latent", 1, size, 1, all}}, l, all), nil
	case Compressed:
		size, err := entryBytes(l, o.KVDType)
		if err != nil {
			return nil, err
		}
		ts := []tensor{{index, "window", 1, size, 1, scope{ratio: 1, window: l.Window, whole: o.WholeWindow}}}
		if l.Ratio > 0 {
			sc := scope{ratio: l.Ratio}
			ts = withIndex(append(ts, tensor{index, "entry", 1, size, 1, sc}), l, sc)
		}
		return ts, nil
	case Recurrent:
		var ts []tensor
		for _, p := range l.state {
			dtype, rows := m.ModelDType, p.rows
			if p.wide {
				dtype = o.StateDType
			}
			size, err := elementBytes(dtype, p.elements)
			if err != nil {
				return nil, err
			}
			if p.elements == 0 {
				continue // a kernel of one column keeps nothing
			}
			ts = append(ts, tensor{index, p.name, p.heads, size, max(1, rows), scope{ratio: 1, fixed: true}})
		}
		return ts, nil
	}
	return nil, nil
}

func withIndex(ts []tensor, l Layer, sc scope) []tensor {
	if l.Index == 0 {
		return ts
	}
	return append(ts, tensor{ts[0].layer, "index", 1, int64(l.Index) + indexScaleBytes, 1, sc})
}

// indexScaleBytes: an indexer key is FP8 with one float32 scale (vLLM's indexer cache for DeepSeek-V3.2: 128 + 4).
const indexScaleBytes = 4

func latentBytes(l Layer, dtype string) (int64, error) {
	if dtype != dsMLA {
		return elementBytes(dtype, int64(l.Rank+l.RopeDim))
	}
	if l.Rank%128 != 0 {
		return 0, fmt.Errorf("kv dtype %s: kv_lora_rank %d is no multiple of 128", dsMLA, l.Rank)
	}
	return int64(l.Rank) + int64(l.Rank/128)*4 + int64(l.RopeDim)*2, nil
}

func entryBytes(l Layer, dtype string) (int64, error) {
	if dtype != dsMLA {
		return elementBytes(dtype, int64(l.KDim))
	}
	if l.KDim <= l.RopeDim || (l.KDim-l.RopeDim)%64 != 0 {
		return 0, fmt.Errorf("kv dtype %s: head_dim %d less rope %d is no multiple of 64", dsMLA, l.KDim, l.RopeDim)
	}
	// One-byte scale for 64 elements, padded to 8 bytes: 448 + 128 + 8 = 584.
	scales := (int64(l.KDim-l.RopeDim)/64 + 7) / 8 * 8
	return int64(l.KDim-l.RopeDim) + int64(l.RopeDim)*2 + scales, nil
}

// headRange is the heads [lo, hi) that a rank of size ranks holds. Fewer heads than ranks are replicated.
func headRange(rank, size, heads int) (lo, hi int) {
	if heads >= size {
		n := heads / size
		return rank * n, rank*n + n
	}
	lo = rank * heads / size
	return lo, lo + 1
}

// splits reports whether engines accept the split: one number must divide the other.
func splits(heads, size int) bool { return heads%size == 0 || size%heads == 0 }

// sent is the run of heads, n from first on, that prefill rank src of ps gives to decode rank dst of ds. A head that
// several prefill ranks hold comes from the one at the same place in its worker as dst, where that one holds it, so
// that replicas share the load.
func sent(heads, src, ps, dst, ds int) (first, n int) {
	lo, hi := headRange(dst, ds, heads)
	from, to := headRange(src, ps, heads)
	first = max(lo, from)
	if n = min(hi, to) - first; n <= 0 {
		return 0, 0
	}
	if heads < ps && src != replica(first, heads, dst, ds, ps) {
		return 0, 0
	}
	return first, n
}

func replica(head, heads, dst, ds, ps int) int {
	aligned := dst * ps / ds
	if h, _ := headRange(aligned, ps, heads); h == head {
		return aligned
	}
	return head * (ps / heads)
}
