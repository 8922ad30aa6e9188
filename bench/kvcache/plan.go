package kvcache

import "slices"

// member is one tensor inside a region of one rank.
type member struct {
	tensor
	heads  int   // of this rank
	offset int64 // inside a block of the region
	bytes  int64 // of a block
}

// region is a run of equal blocks in a rank's memory, at stride bytes from each other.
type region struct {
	scope   scope
	stride  int64
	members []member
}

// regions lays out the tensors of one rank. Placement and order say which tensors share a block.
func regions(ts []tensor, ranks int, o Options) []region {
	type key struct {
		layer int
		name  string
		scope scope
	}
	at := map[key]int{}
	var out []region
	for _, t := range ts {
		k := key{t.layer, t.name, t.scope}
		if o.Order == ByBlock {
			k.layer = -1
		}
		if o.Placement != Split {
			switch {
			case o.Order == ByBlock:
				k.name = ""
			case t.name == "k", t.name == "v":
				k.name = "kv"
			case t.scope.fixed:
				k.name = "state"
			}
		}
		i, ok := at[k]
		if !ok {
			i = len(out)
			at[k] = i
			out = append(out, region{scope: t.scope})
		}
		lo, hi := headRange(0, ranks, t.heads)
		heads := hi - lo
		size := t.scope.perBlock(o.BlockTokens) * int64(heads) * t.slotBytes
		r := &out[i]
		r.members = append(r.members, member{t, heads, r.stride, size})
		r.stride += size
	}
	return out
}

// spec is a piece that each block of a region gives to a flow: rows runs of length bytes.
type spec struct {
	scope                    scope
	target, source           int   // regions
	targetInner, sourceInner int64 // where it starts in a block
	length, rows             int64
	targetRow, sourceRow     int64 // strides between rows
	targetBlock, sourceBlock int64 // strides between blocks
}

// merges reports whether the same piece of the next block follows without a gap on both sides.
func (s spec) merges() bool {
	return s.rows == 1 && s.length == s.targetBlock && s.length == s.sourceBlock
}

// planner builds the flows of one layout.
type planner struct {
	opts            Options
	tensors         []tensor // of all layers
	prefill, decode side
}

// stage gives the regions of one rank of a stage; ranks of a stage are alike.
func (p *planner) stage(s side, stage int) []region {
	var ts []tensor
	for _, t := range p.tensors {
		if t.layer >= s.stages[stage][0] && t.layer < s.stages[stage][1] {
			ts = append(ts, t)
		}
	}
	return regions(ts, s.tp, p.opts)
}

// pair is one tensor as a prefill stage and a decode stage hold it.
type pair struct {
	source, target             member
	sourceRegion, targetRegion int
	sourceBlock, targetBlock   int64 // strides between blocks
}

// link is what a prefill stage and a decode stage have in common.
type link struct {
	pairs []pair
	heads []int // distinct numbers of heads among them
}

// join finds the tensors that both stages hold; a and b are their regions.
func join(a, b []region) link {
	type key struct {
		layer int
		name  string
		nth   int // convolution has several tensors of one name
	}
	type place struct {
		region int
		member
	}
	from, nth := map[key]place{}, map[key]int{}
	keyOf := func(m member) key {
		k := key{m.layer, m.name, 0}
		k.nth = nth[k]
		nth[key{m.layer, m.name, 0}]++
		return k
	}
	for i, r := range a {
		for _, m := range r.members {
			from[keyOf(m)] = place{i, m}
		}
	}
	clear(nth)
	var out link
	for i, r := range b {
		for _, m := range r.members {
			s, ok := from[keyOf(m)]
			if !ok {
				continue
			}
			out.pairs = append(out.pairs, pair{s.member, m, s.region, i, a[s.region].stride, r.stride})
			if !slices.Contains(out.heads, m.tensor.heads) {
				out.heads = append(out.heads, m.tensor.heads)
			}
		}
	}
	return out
}

// specs is what source rank src of the link's prefill stage sends to target rank dst of its decode stage.
func (p *planner) specs(l link, src, dst int) []spec {
	sends := func(heads int) bool { _, n := sent(heads, src, p.prefill.tp, dst, p.decode.tp); return n > 0 }
	if !slices.ContainsFunc(l.heads, sends) {
		return nil
	}
	var out []spec
	for _, x := range l.pairs {
		heads := x.target.tensor.heads
		first, n := sent(heads, src, p.prefill.tp, dst, p.decode.tp)
		if n == 0 {
			continue
		}
		targetLo, _ := headRange(dst, p.decode.tp, heads)
		sourceLo, _ := headRange(src, p.prefill.tp, heads)
		s := spec{scope: x.target.scope, target: x.targetRegion, source: x.sourceRegion, targetInner: x.target.offset, sourceInner: x.source.offset,
			rows: 1, targetBlock: x.targetBlock, sourceBlock: x.sourceBlock}
		p.cut(&s, x.target, x.source, first-targetLo, first-sourceLo, n)
		if last := len(out) - 1; last >= 0 && follows(out[last], s) {
			out[last].length += s.length
			continue
		}
		out = append(out, s)
	}
	return out
}

// cut narrows a spec to n heads, from the given head of each side on.
func (p *planner) cut(s *spec, target, source member, targetHead, sourceHead, n int) {
	slots := target.scope.perBlock(p.opts.BlockTokens)
	rows := target.rows
	if rows == 1 && p.opts.TokenMajor && !target.scope.fixed {
		rows = slots
	}
	headBlock := slots * target.slotBytes // one head of a block
	if rows == 1 || (n == target.heads && n == source.heads) {
		s.length = int64(n) * headBlock
		s.targetInner += int64(targetHead) * headBlock
		s.sourceInner += int64(sourceHead) * headBlock
		return
	}
	rowHead := headBlock / rows
	s.rows, s.length = rows, int64(n)*rowHead
	s.targetInner += int64(targetHead) * rowHead
	s.sourceInner += int64(sourceHead) * rowHead
	s.targetRow, s.sourceRow = int64(target.heads)*rowHead, int64(source.heads)*rowHead
}

func follows(a, b spec) bool {
	return a.rows == 1 && b.rows == 1 && a.target == b.target && a.source == b.source &&
		a.targetInner+a.length == b.targetInner && a.sourceInner+a.length == b.sourceInner
}

// totals adds up what specs move for a request; fewest is the number of pieces if all blocks of a table touched.
func (p *planner) totals(specs []spec) (bytes int64, ds []Descriptor, fewest int64) {
	count := map[int64]int64{}
	for _, s := range specs {
		n := s.scope.blocks(p.opts.Tokens, p.opts.BlockTokens) * s.rows
		count[s.length] += n
		bytes += n * s.length
		if s.merges() {
			n = min(n, 1)
		}
		fewest += n
	}
	if p.opts.Placement == Packed && bytes > 0 {
		count = map[int64]int64{}
		if whole := bytes / p.opts.StagingBytes; whole > 0 {
			count[p.opts.StagingBytes] += whole
		}
		if rest := bytes % p.opts.StagingBytes; rest > 0 {
			count[rest]++
		}
		fewest = 0
		for _, n := range count {
			fewest += n
		}
	}
	return bytes, sortedDescriptors(count), fewest
}
