package kvcache

import "fmt"

// Recurrent layers keep a state of fixed size a request. Each part is split over tensor-parallel ranks by its own
// heads, as vLLM's mamba state shapes are; convolution keeps kernel - 1 columns.

// stateDType reads the dtype of the recurrent part; without one it is float32, as the reference kernels keep it.
func (r *reader) stateDType() error {
	for _, key := range []string{"mamba_ssm_dtype", "mamba_ssm_cache_dtype"} {
		name, err := r.text.text(key)
		if err != nil {
			return err
		}
		if name == "" || name == "auto" {
			continue
		}
		r.model.StateDType, err = canonicalDType(r.text.at(key), name)
		return err
	}
	r.model.StateDType = "float32"
	r.assume("the config gives no dtype for the recurrent state: float32, as the reference kernels keep it")
	return nil
}

func (r *reader) place(kind string, i int, attention, recurrent Layer) error {
	switch kind {
	case "full_attention", "attention", "*":
		r.model.Layers = append(r.model.Layers, attention)
	case "linear_attention", "mamba", "M":
		r.model.Layers = append(r.model.Layers, recurrent)
	case "moe", "mlp", "E", "-":
		r.model.Layers = append(r.model.Layers, Layer{Kind: None})
	default:
		return fieldErr(r.text.at(fmt.Sprintf("layer %d", i)), "kind of layer %s is not known in a %s", show(kind), r.model.Architecture)
	}
	return nil
}

// readGatedDelta reads Qwen3-Next and Qwen3.5: gated delta-net layers between full ones.
func readGatedDelta(r *reader, f family) error {
	s := r.text
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	var keys, values, keyDim, valueDim, kernel int
	for _, p := range []struct {
		key  string
		into *int
	}{{"linear_num_key_heads", &keys}, {"linear_num_value_heads", &values}, {"linear_key_head_dim", &keyDim},
		{"linear_value_head_dim", &valueDim}, {"linear_conv_kernel_dim", &kernel}} {
		if *p.into, err = s.first(p.key); err != nil {
			return err
		}
	}
	if err := r.stateDType(); err != nil {
		return err
	}
	columns := int64(kernel - 1)
	recurrent := Layer{Kind: Recurrent, state: []statePart{
		{name: "conv", heads: keys, elements: columns * int64(keyDim), rows: columns},
		{name: "conv", heads: keys, elements: columns * int64(keyDim), rows: columns},
		{name: "conv", heads: values, elements: columns * int64(valueDim), rows: columns},
		{name: "ssm", heads: values, elements: int64(keyDim) * int64(valueDim), wide: true},
	}}
	types, err := r.layerTypes(b.layers)
	if err != nil {
		return err
	}
	interval, err := s.or(f.every, "full_attention_interval")
	if err != nil {
		return err
	}
	for i := range b.layers {
		kind := "linear_attention"
		if types != nil {
			kind = types[i]
		} else if (i+1)%interval == 0 {
			kind = "full_attention"
		}
		if err := r.place(kind, i, b.full(), recurrent); err != nil {
			return err
		}
	}
	return r.draft(b.full())
}

// readKimiLinear reads MLA layers between delta-attention layers with q, k and v convolved apart; the lists of layer
// numbers start at 1.
func readKimiLinear(r *reader, f family) error {
	n, err := r.layerCount()
	if err != nil {
		return err
	}
	latent, err := r.latentLayer(f)
	if err != nil {
		return err
	}
	lin, ok, err := r.text.sub("linear_attn_config")
	if err != nil {
		return err
	}
	if !ok {
		return fieldErr(r.text.at("linear_attn_config"), "missing")
	}
	heads, err := lin.first("num_heads")
	if err != nil {
		return err
	}
	dim, err := lin.first("head_dim")
	if err != nil {
		return err
	}
	kernel, err := lin.or(4, "short_conv_kernel_size")
	if err != nil {
		return err
	}
	if err := r.stateDType(); err != nil {
		return err
	}
	conv := statePart{name: "conv", heads: heads, elements: int64(kernel-1) * int64(dim), rows: int64(kernel - 1)}
	recurrent := Layer{Kind: Recurrent, state: []statePart{conv, conv, conv, {name: "ssm", heads: heads, elements: int64(dim) * int64(dim), wide: true}}}
	linear, err := lin.wholes("kda_layers", 1)
	if err != nil {
		return err
	}
	if len(linear) == 0 {
		return fieldErr(lin.at("kda_layers"), "missing")
	}
	isLinear := make([]bool, n+1)
	for i, number := range linear {
		if number > n {
			return fieldErr(fmt.Sprintf("%s[%d]", lin.at("kda_layers"), i), "layer %d of %d", number, n)
		}
		isLinear[number] = true
	}
	for i := range n {
		l := latent
		if isLinear[i+1] {
			l = recurrent
		}
		r.model.Layers = append(r.model.Layers, l)
	}
	return nil
}

// mamba2 is the state of a Mamba-2 layer: heads x head width x state, and a convolution over the heads' channels and
// the B and C of each group.
func mamba2(heads, headDim, groups, state, kernel int) Layer {
	columns := int64(kernel - 1)
	bc := statePart{name: "conv", heads: groups, elements: columns * int64(state), rows: columns}
	return Layer{Kind: Recurrent, state: []statePart{
		{name: "conv", heads: heads, elements: columns * int64(headDim), rows: columns}, bc, bc,
		{name: "ssm", heads: heads, elements: int64(headDim) * int64(state), wide: true},
	}}
}

// readNemotronH reads a pattern of one letter a layer (M Mamba-2, * attention, E experts, - feed-forward), or its
// spelled-out successor layers_block_type.
func readNemotronH(r *reader, f family) error {
	s := r.text
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	var v [5]int
	for i, keys := range [][]string{{"mamba_num_heads"}, {"mamba_head_dim"}, {"n_groups"}, {"ssm_state_size"}, {"conv_kernel"}} {
		if v[i], err = s.first(keys...); err != nil {
			return err
		}
	}
	if err := r.stateDType(); err != nil {
		return err
	}
	recurrent := mamba2(v[0], v[1], v[2], v[3], v[4])
	pattern, err := s.text("hybrid_override_pattern")
	if err != nil {
		return err
	}
	var kinds []string
	for _, letter := range pattern {
		kinds = append(kinds, string(letter))
	}
	if kinds == nil {
		if kinds, err = r.layerTypes(b.layers); err != nil {
			return err
		}
	}
	if kinds == nil {
		return fieldErr(s.at("hybrid_override_pattern"), "missing, and no layers_block_type stands in for it")
	}
	if len(kinds) != b.layers {
		return fieldErr(s.at("hybrid_override_pattern"), "lists %d layers, num_hidden_layers is %d", len(kinds), b.layers)
	}
	for i, kind := range kinds {
		if err := r.place(kind, i, b.full(), recurrent); err != nil {
			return err
		}
	}
	return nil
}

// readMambaHybrid reads Granite 4 and Bamba: Mamba-2 layers with attention at the listed places.
func readMambaHybrid(r *reader, f family) error {
	s := r.text
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	var v [5]int
	for i, key := range []string{"mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv"} {
		if v[i], err = s.first(key); err != nil {
			return err
		}
	}
	if err := r.stateDType(); err != nil {
		return err
	}
	kinds, err := r.layerTypes(b.layers)
	if err != nil {
		return err
	}
	if kinds == nil {
		places, err := s.wholes("attn_layer_indices", 0)
		if err != nil {
			return err
		}
		if places == nil {
			return fieldErr(s.at("layer_types"), "missing, and no attn_layer_indices stands in for it")
		}
		kinds = make([]string, b.layers)
		for i := range kinds {
			kinds[i] = "mamba"
		}
		for i, place := range places {
			if place >= b.layers {
				return fieldErr(fmt.Sprintf("%s[%d]", s.at("attn_layer_indices"), i), "layer %d of %d", place, b.layers)
			}
			kinds[place] = "attention"
		}
	}
	for i, kind := range kinds {
		if err := r.place(kind, i, b.full(), mamba2(v[0], v[1], v[2], v[3], v[4])); err != nil {
			return err
		}
	}
	return nil
}

// readJamba reads Mamba-1 layers with attention every attn_layer_period, from attn_layer_offset on. Mamba-1 is split by
// channel: expand x hidden of them.
func readJamba(r *reader, f family) error {
	s := r.text
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	if b.hidden == 0 {
		return fieldErr(s.at("hidden_size"), "missing")
	}
	var v [4]int
	for i, p := range []struct {
		key string
		def int
	}{{"attn_layer_period", 8}, {"mamba_expand", 2}, {"mamba_d_state", 16}, {"mamba_d_conv", 4}} {
		if v[i], err = s.or(p.def, p.key); err != nil {
			return err
		}
	}
	offset := 4
	if s.has("attn_layer_offset") {
		if offset, err = whole(s.at("attn_layer_offset"), s.fields["attn_layer_offset"], 0, maxLayers); err != nil {
			return err
		}
	}
	if err := r.stateDType(); err != nil {
		return err
	}
	channels := v[1] * b.hidden
	if channels > maxWidth {
		return fieldErr(s.at("mamba_expand"), "%d x hidden_size %d: no model is like this", v[1], b.hidden)
	}
	recurrent := Layer{Kind: Recurrent, state: []statePart{
		{name: "conv", heads: channels, elements: int64(v[3] - 1), rows: int64(v[3] - 1)},
		{name: "ssm", heads: channels, elements: int64(v[2]), wide: true},
	}}
	for i := range b.layers {
		l := recurrent
		if i%v[0] == offset {
			l = b.full()
		}
		r.model.Layers = append(r.model.Layers, l)
	}
	return nil
}

// readLightning reads MiniMax-01 and M1: linear attention with a state of heads x width x width, full attention where
// attn_type_list is 1.
func readLightning(r *reader, f family) error {
	s := r.text
	b, err := r.basics(f)
	if err != nil {
		return err
	}
	types, err := s.wholes("attn_type_list", 0)
	if err != nil {
		return err
	}
	kinds, err := r.layerTypes(b.layers)
	if err != nil {
		return err
	}
	if kinds == nil {
		if len(types) != b.layers {
			return fieldErr(s.at("attn_type_list"), "lists %d layers, num_hidden_layers is %d", len(types), b.layers)
		}
		for i, t := range types {
			if t > 1 {
				return fieldErr(fmt.Sprintf("%s[%d]", s.at("attn_type_list"), i), "must be 0 or 1, got %d", t)
			}
			kinds = append(kinds, []string{"linear_attention", "full_attention"}[t])
		}
	}
	if err := r.stateDType(); err != nil {
		return err
	}
	recurrent := Layer{Kind: Recurrent, state: []statePart{{name: "ssm", heads: b.heads, elements: int64(b.headDim) * int64(b.headDim), wide: true}}}
	for i, kind := range kinds {
		if err := r.place(kind, i, b.full(), recurrent); err != nil {
			return err
		}
	}
	return nil
}
