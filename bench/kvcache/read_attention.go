package kvcache

import "fmt"

// basics are the fields that every attention reader starts from.
type basics struct {
	layers, hidden, heads, kvHeads, headDim, vDim int
}

func (r *reader) basics(f family) (b basics, err error) {
	s := r.text
	if b.layers, err = r.layerCount(); err != nil {
		return b, err
	}
	if f.heads > 0 {
		b.heads, err = s.or(f.heads, "num_attention_heads", "n_head", "n_heads")
	} else {
		b.heads, err = s.first("num_attention_heads", "n_head", "n_heads")
	}
	if err != nil {
		return b, err
	}
	if b.kvHeads, err = s.or(0, "num_key_value_heads", "num_kv_heads", "n_head_kv"); err != nil {
		return b, err
	}
	if b.kvHeads == 0 {
		if b.kvHeads = b.heads; f.kvHeads > 0 {
			b.kvHeads = f.kvHeads
			r.assume(fmt.Sprintf("%s is absent: %d by the class's default", s.at("num_key_value_heads"), b.kvHeads))
		} else {
			r.assume(fmt.Sprintf("%s is absent: as many as query heads (%d)", s.at("num_key_value_heads"), b.kvHeads))
		}
	}
	if b.kvHeads > b.heads || b.heads%b.kvHeads != 0 {
		return b, fieldErr(s.at("num_key_value_heads"), "%d does not divide the %d query heads", b.kvHeads, b.heads)
	}
	if b.headDim, err = s.or(0, "head_dim", "attention_head_dim", "kv_channels"); err != nil {
		return b, err
	}
	if b.hidden, err = s.or(0, "hidden_size", "n_embd", "d_model"); err != nil {
		return b, err
	}
	switch {
	case b.headDim > 0:
	case f.headDim > 0:
		b.headDim = f.headDim
		r.assume(fmt.Sprintf("%s is absent: %d by the class's default", s.at("head_dim"), b.headDim))
	case b.hidden == 0:
		return b, fieldErr(s.at("hidden_size"), "missing, and no head_dim stands in for it")
	case b.hidden%b.heads != 0:
		return b, fieldErr(s.at("head_dim"), "missing, and hidden_size %d does not divide by %d heads", b.hidden, b.heads)
	default:
		b.headDim = b.hidden / b.heads
	}
	if b.vDim, err = s.or(b.headDim, "v_head_dim"); err != nil {
		return b, err
	}
	r.model.Heads, r.model.HiddenSize = b.heads, b.hidden
	r.model.otherHeads, err = s.wholes("num_attention_heads_per_layer", 1)
	return b, err
}

// layerCount reads the number of layers, or counts a pattern where the number is absent.
func (r *reader) layerCount() (int, error) {
	s := r.text
	for _, key := range []string{"num_hidden_layers", "n_layer", "n_layers", "num_layers"} {
		if !s.has(key) {
			continue
		}
		return whole(s.at(key), s.fields[key], 1, maxLayers)
	}
	for _, key := range []string{"layer_types", "layers_block_type", "block_configs"} {
		list, err := s.list(key)
		if err != nil {
			return 0, err
		}
		if n := len(list); n > 0 {
			if n > maxLayers {
				return 0, fieldErr(s.at(key), "%d layers: no model is like this", n)
			}
			return n, nil
		}
	}
	pattern, err := s.text("hybrid_override_pattern")
	if err != nil {
		return 0, err
	}
	if pattern != "" && len(pattern) <= maxLayers {
		return len(pattern), nil
	}
	return 0, fieldErr(s.at("num_hidden_layers"), "missing")
}

func (b basics) full() Layer {
	return Layer{Kind: Full, KVHeads: b.kvHeads, KDim: b.headDim, VDim: b.vDim}
}

func (b basics) windowed(kind Kind, window int) Layer {
	l := b.full()
	l.Kind, l.Window = kind, window
	return l
}

// readAttention reads MHA, GQA and MQA models, with or without windows or chunks on some of the layers.
func readAttention(r *reader, f family) error {
	if r.text.has("kv_lora_rank") {
		return fieldErr(r.text.at("kv_lora_rank"), "stands in a %s, which is read as plain attention", r.model.Architecture)
	}
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	types, err := r.layerTypes(b.layers)
	if err != nil {
		return err
	}
	if types != nil {
		err = r.fromTypes(b, f, types)
	} else {
		err = r.fromRule(b, f)
	}
	if err != nil {
		return err
	}
	if err := r.draft(b.full()); err != nil {
		return err
	}
	return r.shareLast()
}

func (r *reader) layerTypes(layers int) ([]string, error) {
	key := "layer_types"
	if !r.text.has(key) && r.text.has("layers_block_type") {
		key = "layers_block_type"
	}
	types, err := r.text.texts(key)
	if err != nil || types == nil {
		return nil, err
	}
	if len(types) != layers {
		return nil, fieldErr(r.text.at(key), "lists %d layers, num_hidden_layers is %d", len(types), layers)
	}
	return types, nil
}

func (r *reader) fromTypes(b basics, f family, types []string) error {
	for i, name := range types {
		var l Layer
		switch name {
		case "full_attention", "attention", "global_attention":
			l = b.full()
		case "sliding_attention", "local_attention":
			w, err := r.windowSize("sliding_window", f.window)
			if err != nil {
				return err
			}
			l = b.windowed(Window, w)
		case "chunked_attention":
			w, err := r.windowSize("attention_chunk_size", f.window)
			if err != nil {
				return err
			}
			l = b.windowed(Chunked, w)
		default:
			return fieldErr(fmt.Sprintf("%s[%d]", r.text.at("layer_types"), i), "kind of layer %s is not known in a %s", show(name), r.model.Architecture)
		}
		r.model.Layers = append(r.model.Layers, l)
	}
	return nil
}

func (r *reader) windowSize(key string, def int) (int, error) {
	if n, ok, err := r.text.optional(key); ok || err != nil {
		return n, err
	}
	if def == 0 {
		return 0, fieldErr(r.text.at(key), "missing, and the config has windowed layers")
	}
	note := fmt.Sprintf("%s is absent: %d by the class's default", r.text.at(key), def)
	if n := len(r.model.Assumptions); n == 0 || r.model.Assumptions[n-1] != note {
		r.assume(note)
	}
	return def, nil
}

// fromRule builds layers where the config has no list: by the class's rule for windows.
func (r *reader) fromRule(b basics, f family) error {
	isWindow := func(int) bool { return false }
	kind, window := Window, 0
	use, err := r.text.boolean("use_sliding_window", f.windows != byQwen)
	if err != nil {
		return err
	}
	key := "sliding_window"
	if f.windows == chunkEvery {
		key, kind = "attention_chunk_size", Chunked
	}
	// A key that is there and null switches the window off; one that is absent takes the class's default.
	value, present := r.text.fields[key]
	off := present && value == nil
	switch {
	case !use || off:
	case f.windows == unsaid:
		if n, ok, err := r.text.optional(key); err != nil {
			return err
		} else if ok {
			r.assume(fmt.Sprintf("%s %d is set, and nothing says which layers use it: all counted as full, an upper bound", r.text.at(key), n))
		}
	case f.windows == allLayers, f.windows == byQwen:
		n, ok, err := r.text.optional(key)
		if err != nil {
			return err
		}
		from := 0
		if f.windows == byQwen {
			if r.text.has("max_window_layers") {
				if from, err = whole(r.text.at("max_window_layers"), r.text.fields["max_window_layers"], 0, maxLayers); err != nil {
					return err
				}
			}
		}
		if ok {
			window = n
			isWindow = func(i int) bool { return i >= from }
		}
	default:
		if window, err = r.windowSize(key, f.window); err != nil {
			return err
		}
		every, err := r.text.or(f.every, "sliding_window_pattern", "no_rope_layer_interval")
		if err != nil {
			return err
		}
		isWindow = func(i int) bool { return (i+1)%every != 0 }
		rule := fmt.Sprintf("no layer_types: each %s layer is full, the others keep %d tokens, by the class's rule", ordinal(every), window)
		if list, err := r.text.wholes("no_rope_layers", 0); err != nil {
			return err
		} else if len(list) > 0 && f.windows == chunkEvery {
			if len(list) != b.layers {
				return fieldErr(r.text.at("no_rope_layers"), "lists %d layers, num_hidden_layers is %d", len(list), b.layers)
			}
			isWindow = func(i int) bool { return list[i] != 0 }
			rule = ""
		}
		if rule != "" {
			r.assume(rule)
		}
	}
	for i := range b.layers {
		l := b.full()
		if isWindow(i) {
			l = b.windowed(kind, window)
		}
		r.model.Layers = append(r.model.Layers, l)
	}
	return nil
}

func ordinal(n int) string {
	switch n {
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	default:
		return fmt.Sprintf("%dth", n)
	}
}

// shareLast marks layers that read another layer's KV: the last num_kv_shared_layers (Gemma 3n and 4), or all but each
// cla_share_factor-th (Hunyuan's cross-layer attention).
func (r *reader) shareLast() error {
	layers := r.model.Layers
	if r.text.has("num_kv_shared_layers") {
		n, err := whole(r.text.at("num_kv_shared_layers"), r.text.fields["num_kv_shared_layers"], 0, maxLayers)
		if err != nil {
			return err
		}
		if n >= len(layers) {
			return fieldErr(r.text.at("num_kv_shared_layers"), "%d of %d layers cannot all share another's KV", n, len(layers))
		}
		for i := len(layers) - n; i < len(layers); i++ {
			layers[i] = Layer{Kind: Shared}
		}
	}
	cla, err := r.text.boolean("use_cla", false)
	if err != nil || !cla {
		return err
	}
	factor, err := r.text.first("cla_share_factor")
	if err != nil {
		return err
	}
	for i := range layers {
		if i%factor != 0 {
			layers[i] = Layer{Kind: Shared}
		}
	}
	return nil
}
