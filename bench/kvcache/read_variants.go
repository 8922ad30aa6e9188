package kvcache

import "fmt"

// readGemma4 gives full layers their own width, and their own number of heads where attention_k_eq_v is set. K equals V
// there in the weights only: both are rotated and normed apart, and both are stored.
func readGemma4(r *reader, f family) error {
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	if !r.text.has("layer_types") {
		return fieldErr(r.text.at("layer_types"), "missing")
	}
	types, err := r.layerTypes(b.layers)
	if err != nil {
		return err
	}
	if err := r.fromTypes(b, f, types); err != nil {
		return err
	}
	width, err := r.text.or(512, "global_head_dim")
	if err != nil {
		return err
	}
	equal, err := r.text.boolean("attention_k_eq_v", false)
	if err != nil {
		return err
	}
	heads := b.kvHeads
	if equal {
		if heads, err = r.text.or(b.kvHeads, "num_global_key_value_heads"); err != nil {
			return err
		}
	}
	for i, l := range r.model.Layers {
		if l.Kind == Full {
			r.model.Layers[i] = Layer{Kind: Full, KVHeads: heads, KDim: width, VDim: width}
		}
	}
	if equal {
		r.assume("attention_k_eq_v: K and V come from one projection and are both stored")
	}
	return r.shareLast()
}

// readMiMoV2 reads hybrid_layer_pattern (1: windowed) with heads and widths of its own for windowed layers.
func readMiMoV2(r *reader, f family) error {
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	pattern, err := r.text.wholes("hybrid_layer_pattern", 0)
	if err != nil {
		return err
	}
	if len(pattern) != b.layers {
		return fieldErr(r.text.at("hybrid_layer_pattern"), "lists %d layers, num_hidden_layers is %d", len(pattern), b.layers)
	}
	w := b
	if w.kvHeads, err = r.text.or(b.kvHeads, "swa_num_key_value_heads"); err != nil {
		return err
	}
	if w.headDim, err = r.text.or(b.headDim, "swa_head_dim"); err != nil {
		return err
	}
	if w.vDim, err = r.text.or(b.vDim, "swa_v_head_dim"); err != nil {
		return err
	}
	for i, p := range pattern {
		switch p {
		case 0:
			r.model.Layers = append(r.model.Layers, b.full())
		case 1:
			size, err := r.text.first("sliding_window", "sliding_window_size")
			if err != nil {
				return err
			}
			r.model.Layers = append(r.model.Layers, w.windowed(Window, size))
		default:
			return fieldErr(fmt.Sprintf("%s[%d]", r.text.at("hybrid_layer_pattern"), i), "must be 0 or 1, got %d", p)
		}
	}
	return nil
}

// readFalcon: one KV head with multi_query, num_kv_heads with the new decoder, else as many as query heads.
func readFalcon(r *reader, f family) error {
	newDecoder, err := r.text.boolean("new_decoder_architecture", false)
	if err != nil {
		return err
	}
	multi, err := r.text.boolean("multi_query", true)
	if err != nil {
		return err
	}
	return r.plainWith(f, func(b *basics) error {
		switch {
		case newDecoder:
			b.kvHeads, err = r.text.or(b.heads, "num_kv_heads", "n_head_kv")
		case multi:
			b.kvHeads = 1
		default:
			b.kvHeads = b.heads
		}
		return err
	})
}

// readGPT2: as many KV heads as query heads, or one with multi_query (GPT-BigCode, whose class default is true).
func readGPT2(r *reader, f family) error {
	multi, err := r.text.boolean("multi_query", r.model.Architecture == "GPTBigCodeForCausalLM")
	if err != nil {
		return err
	}
	return r.plainWith(f, func(b *basics) error {
		if b.kvHeads = b.heads; multi {
			b.kvHeads = 1
		}
		return nil
	})
}

// readChatGLM: multi_query_group_num KV heads with multi_query_attention.
func readChatGLM(r *reader, f family) error {
	multi, err := r.text.boolean("multi_query_attention", false)
	if err != nil {
		return err
	}
	return r.plainWith(f, func(b *basics) error {
		if multi {
			b.kvHeads, err = r.text.first("multi_query_group_num")
		}
		return err
	})
}

func (r *reader) plainWith(f family, change func(*basics) error) error {
	noted := len(r.model.Assumptions)
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	if err := change(&b); err != nil {
		return err
	}
	r.model.Assumptions = r.model.Assumptions[:noted]
	for range b.layers {
		r.model.Layers = append(r.model.Layers, b.full())
	}
	return nil
}

// readBlockConfigs reads one attention description a layer (Nemotron-NAS): query heads a KV head, no attention, or a
// linear map instead of it.
func readBlockConfigs(r *reader, f family) error {
	s := r.text
	var err error
	if r.model.Heads, err = s.first("num_attention_heads"); err != nil {
		return err
	}
	if r.model.HiddenSize, err = s.first("hidden_size"); err != nil {
		return err
	}
	if r.model.HiddenSize%r.model.Heads != 0 {
		return fieldErr(s.at("hidden_size"), "%d does not divide by %d heads", r.model.HiddenSize, r.model.Heads)
	}
	dim, err := s.or(r.model.HiddenSize/r.model.Heads, "head_dim")
	if err != nil {
		return err
	}
	n, err := r.layerCount()
	if err != nil {
		return err
	}
	blocks, err := s.list("block_configs")
	if err != nil {
		return err
	}
	if len(blocks) != n {
		return fieldErr(s.at("block_configs"), "lists %d layers, num_hidden_layers is %d", len(blocks), n)
	}
	for i, v := range blocks {
		at := fmt.Sprintf("%s[%d]", s.at("block_configs"), i)
		object, ok := v.(map[string]any)
		if !ok {
			return fieldErr(at, "must be an object, got %s", show(v))
		}
		a, ok, err := section{at, object}.sub("attention")
		if err != nil {
			return err
		}
		if !ok {
			return fieldErr(at+".attention", "missing")
		}
		l := Layer{Kind: None}
		none, err := a.boolean("no_op", false)
		if err != nil {
			return err
		}
		linear, err := a.boolean("replace_with_linear", false)
		if err != nil {
			return err
		}
		if !none && !linear {
			group, err := a.first("n_heads_in_group")
			if err != nil {
				return err
			}
			if r.model.Heads%group != 0 {
				return fieldErr(a.at("n_heads_in_group"), "%d does not divide the %d query heads", group, r.model.Heads)
			}
			l = Layer{Kind: Full, KVHeads: r.model.Heads / group, KDim: dim, VDim: dim}
			if w, ok, err := a.optional("window_length"); err != nil {
				return err
			} else if ok {
				l.Kind, l.Window = Window, w
			}
		}
		r.model.Layers = append(r.model.Layers, l)
	}
	return nil
}
