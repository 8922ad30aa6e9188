package kvcache

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

// specs is what source rank src of a prefill stage sends to target rank dst of a decode stage; a and b are their regions.
func (p *planner) specs(a, b []region, src, dst int) []spec {
	type place struct {
		region int
		member
	}
	type key struct {
		layer int
		name  string
		nth   int // convolution has several tensors of one name
	}
	from := map[key]place{}
	nth := map[key]int{}
	for i, r := range a {
		for _, m := range r.members {
			k := key{m.layer, m.name, 0}
			k.nth = nth[k]
			nth[key{m.layer, m.name, 0}]++
			from[k] = place{i, m}
		}
	}
	clear(nth)
	var out []spec
	for i, r := range b {
		for _, m := range r.members {
			k := key{m.layer, m.name, 0}
			k.nth = nth[k]
			nth[key{m.layer, m.name, 0}]++
			source, ok := from[k]
			if !ok {
				continue
			}
			lo, hi := headRange(dst, p.decode.tp, m.tensor.heads)
			first, n := 0, 0
			for h := lo; h < hi; h++ {
				if sourceOf(h, m.tensor.heads, dst, p.decode.tp, p.prefill.tp) == src {
					if n == 0 {
						first = h
					}
					n++
				}
			}
			if n == 0 {
				continue
			}
			sourceLo, _ := headRange(src, p.prefill.tp, m.tensor.heads)
			s := spec{scope: m.scope, target: i, source: source.region, targetInner: m.offset, sourceInner: source.offset,
				rows: 1, targetBlock: r.stride, sourceBlock: a[source.region].stride}
			p.cut(&s, m, source.member, first-lo, first-sourceLo, n)
			if last := len(out) - 1; last >= 0 && follows(out[last], s) {
				out[last].length += s.length
				continue
			}
			out = append(out, s)
		}
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

// totals adds up what specs move for a request.
func (p *planner) totals(specs []spec) (bytes int64, ds []Descriptor) {
	count := map[int64]int64{}
	for _, s := range specs {
		n := s.scope.blocks(p.opts.Tokens, p.opts.BlockTokens) * s.rows
		count[s.length] += n
		bytes += n * s.length
	}
	if p.opts.Placement == Packed && bytes > 0 {
		count = map[int64]int64{}
		if whole := bytes / p.opts.StagingBytes; whole > 0 {
			count[p.opts.StagingBytes] += whole
		}
		if rest := bytes % p.opts.StagingBytes; rest > 0 {
			count[rest]++
		}
	}
	return bytes, sortedDescriptors(count)
}
