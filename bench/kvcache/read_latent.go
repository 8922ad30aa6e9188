package kvcache

import "fmt"

// readLatent reads MLA: kv_lora_rank and qk_rope_head_dim a token and layer. num_key_value_heads and head_dim, which
// these configs carry too, describe the expanded heads and not the cache.
func readLatent(r *reader, f family) error {
	n, err := r.layerCount()
	if err != nil {
		return err
	}
	l, err := r.latentLayer(f)
	if err != nil {
		return err
	}
	for range n {
		r.model.Layers = append(r.model.Layers, l)
	}
	types, err := r.layerTypes(n)
	if err != nil {
		return err
	}
	for i, name := range types {
		if name != "full_attention" && name != "deepseek_sparse_attention" {
			return fieldErr(fmt.Sprintf("%s[%d]", r.text.at("layer_types"), i), "kind of layer %s is not known in a %s", show(name), r.model.Architecture)
		}
	}
	return r.draft(l)
}

func (r *reader) latentLayer(f family) (l Layer, err error) {
	s := r.text
	if r.model.Heads, err = s.first("num_attention_heads"); err != nil {
		return l, err
	}
	if r.model.HiddenSize, err = s.or(0, "hidden_size"); err != nil {
		return l, err
	}
	l.Kind = Latent
	if l.Rank, err = s.first("kv_lora_rank"); err != nil {
		return l, err
	}
	if l.RopeDim, err = s.first("qk_rope_head_dim"); err != nil {
		return l, err
	}
	if l.Index, err = s.or(0, "index_head_dim"); err != nil {
		return l, err
	}
	if l.Index == 0 && f.index > 0 {
		l.Index = f.index
		r.assume(fmt.Sprintf("%s is absent: %d by the class's default", s.at("index_head_dim"), l.Index))
	}
	if l.Index > 0 {
		r.assume(fmt.Sprintf("sparse indexer: %d FP8 bytes and a 4-byte scale a token and layer, whatever the KV dtype", l.Index))
	}
	return l, nil
}

// draft records multi-token-prediction layers, which a request may carry too.
func (r *reader) draft(l Layer) error {
	for _, key := range []string{"num_nextn_predict_layers", "mtp_num_hidden_layers"} {
		if !r.text.has(key) {
			continue
		}
		n, err := whole(r.text.at(key), r.text.fields[key], 0, maxLayers)
		if err != nil {
			return err
		}
		for range n {
			r.model.DraftLayers = append(r.model.DraftLayers, l)
		}
		return nil
	}
	return nil
}

// readCompressed reads DeepSeek-V4: each layer keeps a window, and one entry every ratio tokens where its ratio is not 0;
// ratio 4 has an indexer. The list goes on over the draft layers.
func readCompressed(r *reader, f family) error {
	s := r.text
	n, err := r.layerCount()
	if err != nil {
		return err
	}
	if r.model.Heads, err = s.first("num_attention_heads"); err != nil {
		return err
	}
	if r.model.HiddenSize, err = s.or(0, "hidden_size"); err != nil {
		return err
	}
	l := Layer{Kind: Compressed}
	if l.KDim, err = s.or(f.headDim, "head_dim"); err != nil {
		return err
	}
	if l.RopeDim, err = s.or(64, "qk_rope_head_dim"); err != nil {
		return err
	}
	if l.Window, err = r.windowSize("sliding_window", f.window); err != nil {
		return err
	}
	index, err := s.or(f.index, "index_head_dim")
	if err != nil {
		return err
	}
	ratios, err := s.wholes("compress_ratios", 0)
	if err != nil {
		return err
	}
	if len(ratios) < n {
		return fieldErr(s.at("compress_ratios"), "lists %d layers, num_hidden_layers is %d", len(ratios), n)
	}
	for i, ratio := range ratios {
		layer := l
		switch layer.Ratio = ratio; ratio {
		case 0, 128:
		case 4:
			layer.Index = index
		default:
			return fieldErr(fmt.Sprintf("%s[%d]", s.at("compress_ratios"), i), "ratio %d is not known (0, 4 and 128 are)", ratio)
		}
		if i < n {
			r.model.Layers = append(r.model.Layers, layer)
		} else {
			r.model.DraftLayers = append(r.model.DraftLayers, layer)
		}
	}
	r.assume("compressor states of compressed layers (a few tokens a layer) are left out")
	return nil
}
