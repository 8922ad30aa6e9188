package kvcache

import (
	"fmt"
	"slices"
)

// assumptions starts the list with what the model's file left open, less what the options settle.
func (m *Model) assumptions(asked, o Options) []string {
	out := []string{}
	for _, a := range m.Assumptions {
		if asked.KVDType != "" && asked.KVDType != "auto" && len(a) > 9 && a[:9] == "KV dtype " {
			a = fmt.Sprintf("KV dtype %s: as asked, over the config's %s", o.KVDType, m.KVDType)
		}
		out = append(out, a)
	}
	return out
}

// notes says what the layout itself takes for granted.
func (l *Layout) notes(p *planner) {
	o := p.opts
	add := func(format string, args ...any) { l.Assumptions = append(l.Assumptions, fmt.Sprintf(format, args...)) }
	kinds := map[Kind]bool{}
	for _, layer := range l.model.Layers {
		kinds[layer.Kind] = true
	}
	if rounded := (o.Tokens + int64(o.BlockTokens) - 1) / int64(o.BlockTokens) * int64(o.BlockTokens); rounded != o.Tokens {
		add("whole blocks of %d tokens cross: %d tokens for the prompt's %d", o.BlockTokens, rounded, o.Tokens)
	}
	if kinds[Window] || kinds[Compressed] {
		if o.WholeWindow {
			add("window layers send every block of the prompt, as an engine without a cache manager for them does")
		} else {
			add("window layers send the blocks that the window's tokens lie in; an engine without a cache manager for them sends every block")
		}
	}
	if kinds[Chunked] {
		add("chunked layers hold min(prompt, chunk) tokens: an upper bound, since the engine may drop a chunk that has ended")
	}
	if kinds[Recurrent] {
		add("recurrent state crosses once a request, in %s, its convolution in %s", o.StateDType, l.model.ModelDType)
	}
	if n := len(l.model.DraftLayers); n > 0 {
		if o.Draft {
			add("%d draft (multi-token-prediction) layers are counted", n)
		} else {
			add("%d draft (multi-token-prediction) layers are not counted", n)
		}
	}
	if o.KVDType == "fp8" && kinds[Latent] {
		add("fp8 takes one byte for latent and rope alike; vLLM's sparse MLA keeps fp8_ds_mla instead")
	}
	if o.Placement == Packed {
		add("packed: gathered into a staging buffer of %d bytes, sent in pieces of at most that", o.StagingBytes)
	}
	for _, s := range []side{p.prefill, p.decode} {
		if s.note != "" {
			add("%s", s.note)
		}
		if s.pp > 1 {
			add("%s: layers divide over %d stages as in vLLM: what remains goes to the stages before the last", s.name, s.pp)
		}
		if s.idle > 0 {
			add("%s: %d rails have no rank of their own and stay idle", s.name, s.idle)
		}
		for _, t := range p.tensors {
			if (t.name == "k") && t.heads < s.tp {
				add("%s: %d KV heads over %d tensor-parallel ranks: each is held %d times", s.name, t.heads, s.tp, s.tp/t.heads)
				break
			}
		}
	}
	if kinds[Latent] || kinds[Compressed] {
		if p.decode.tp > 1 {
			add("decode: each of %d tensor-parallel ranks receives the whole latent cache", p.decode.tp)
		}
	}
	if p.prefill.tp != p.decode.tp && o.TokenMajor {
		add("tokens lie before heads in a block: a slice of heads is one piece a token")
	} else if p.prefill.tp != p.decode.tp && slices.ContainsFunc(p.tensors, func(t tensor) bool { return t.heads > 1 && !t.scope.fixed }) {
		add("heads lie before tokens in a block (HND): a slice of heads is one piece")
	}
}
