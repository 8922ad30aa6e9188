package kvcache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const small = `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"hidden_size":64`

func TestBadConfigs(t *testing.T) {
	for _, tt := range []struct {
		name, config, field, want string
	}{
		{"empty", "", "", "empty"},
		{"blank", " \n\t", "", "empty"},
		{"broken", small, "", "ends in the middle"},
		{"text", "hello", "", "not valid JSON"},
		{"list", "[1,2]", "", "not a JSON object"},
		{"number", "7", "", "not a JSON object"},
		{"two values", small + "}{}", "", "more follows"},
		{"nested", strings.Repeat(`{"a":`, 5000) + "1" + strings.Repeat("}", 5000), "", "nested deeper than 64"},
		{"nested lists", strings.Repeat("[", 1_000_000), "", "nested deeper than 64"},
		{"duplicate key", small + `,"head_dim":16,"head_dim":32}`, "", "key head_dim stands twice"},
		{"duplicate nested key", `{"text_config":{"a":1,"a":1}}`, "", "key text_config.a stands twice"},
		{"huge", strings.Repeat(" ", 100<<20), "", "larger than 8 MiB"},
		{"not a config", `{"a":1}`, "architectures", "missing"},
		{"unknown", `{"architectures":["FooForCausalLM"],"model_type":"llama"}`, "architectures", `"FooForCausalLM" is not known`},
		{"unknown type", `{"model_type":"foo"}`, "model_type", `"foo" is not known`},
		{"architectures is text", `{"architectures":"LlamaForCausalLM"}`, "architectures", "must be a list"},
		{"architectures holds a number", `{"architectures":[3]}`, "architectures[0]", "must be text"},
		{"layers missing", `{"architectures":["LlamaForCausalLM"],"num_attention_heads":4,"hidden_size":64}`, "num_hidden_layers", "missing"},
		{"layers null", `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":null,"num_attention_heads":4,"hidden_size":64}`, "num_hidden_layers", "missing"},
		{"layers zero", `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":0}`, "num_hidden_layers", "must be positive, got 0"},
		{"layers text", `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":"80"}`, "num_hidden_layers", `must be a whole number, got "80"`},
		{"layers fraction", `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":1.5}`, "num_hidden_layers", "must be a whole number, got 1.5"},
		{"layers absurd", `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":1e300}`, "num_hidden_layers", "must be a whole number"},
		{"layers many", `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":5000}`, "num_hidden_layers", "no model is like this"},
		{"heads zero", small[:strings.Index(small, `"num_att`)] + `"num_attention_heads":0,"hidden_size":64}`, "num_attention_heads", "must be positive, got 0"},
		{"heads negative", small[:strings.Index(small, `"num_att`)] + `"num_attention_heads":-4,"hidden_size":64}`, "num_attention_heads", "got -4"},
		{"kv heads do not divide", small[:strings.Index(small, `"num_key`)] + `"num_key_value_heads":3,"hidden_size":64}`, "num_key_value_heads", "does not divide"},
		{"no width", `{"architectures":["LlamaForCausalLM"],"num_hidden_layers":2,"num_attention_heads":4}`, "hidden_size", "missing"},
		{"no whole width", small[:strings.Index(small, `"hidden`)] + `"hidden_size":63}`, "head_dim", "does not divide"},
		{"head_dim true", small + `,"head_dim":true}`, "head_dim", "must be a whole number, got true"},
		{"dtype unknown", small + `,"torch_dtype":"float7"}`, "torch_dtype", `"float7" is not known`},
		{"dtype number", small + `,"torch_dtype":16}`, "torch_dtype", "must be text"},
		{"layer_types unknown", small + `,"layer_types":["full_attention","magic"]}`, "layer_types[1]", `"magic" is not known`},
		{"layer_types short", small + `,"layer_types":["full_attention"]}`, "layer_types", "lists 1 layers"},
		{"window missing", small + `,"layer_types":["full_attention","sliding_attention"]}`, "sliding_window", "missing"},
		{"text_config is text", `{"architectures":["Gemma3ForCausalLM"],"text_config":"x"}`, "text_config", "must be an object"},
		{"nested field is named whole", `{"architectures":["Qwen3VLForConditionalGeneration"],"text_config":{"num_hidden_layers":-1}}`, "text_config.num_hidden_layers", "got -1"},
		{"latent rank in plain attention", small + `,"kv_lora_rank":512}`, "kv_lora_rank", "plain attention"},
		{"latent without a rank", `{"architectures":["DeepseekV3ForCausalLM"],"num_hidden_layers":2,"num_attention_heads":4}`, "kv_lora_rank", "missing"},
		{"kv scheme unknown", small + `,"quantization_config":{"kv_cache_scheme":{"num_bits":3,"type":"int"}}}`, "quantization_config.kv_cache_scheme", "not known"},
		{"kv scheme without bits", small + `,"quantization_config":{"kv_cache_scheme":{"type":"int"}}}`, "quantization_config.kv_cache_scheme.num_bits", "missing"},
		{"pattern letter", `{"architectures":["NemotronHForCausalLM"],"num_attention_heads":4,"num_key_value_heads":2,"hidden_size":64,"mamba_num_heads":2,"mamba_head_dim":2,"n_groups":1,"ssm_state_size":2,"conv_kernel":4,"hybrid_override_pattern":"M*X"}`, "layer 2", `"X" is not known`},
		{"all layers share", `{"architectures":["Gemma3nForCausalLM"],"num_hidden_layers":2,"hidden_size":64,"num_kv_shared_layers":2}`, "num_kv_shared_layers", "cannot all share"},
		{"nothing kept", `{"architectures":["DeciLMForCausalLM"],"num_attention_heads":4,"hidden_size":64,"block_configs":[{"attention":{"no_op":true}}]}`, "", "no layer of this model keeps"},
		{"block_configs of text", `{"architectures":["DeciLMForCausalLM"],"num_attention_heads":4,"hidden_size":64,"block_configs":["x"]}`, "block_configs[0]", "must be an object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.config), nil, LoadOptions{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v, want one with %q", err, tt.want)
			}
			var field *FieldError
			if tt.field != "" && (!errors.As(err, &field) || field.Field != tt.field) {
				t.Errorf("error %v names the field %+v, want %s", err, field, tt.field)
			}
			if strings.Contains(err.Error(), "\n") || len(err.Error()) > 400 {
				t.Errorf("not one line: %q", err)
			}
		})
	}
}

// Fields by their real rules, where two readings differ.
func TestFieldRules(t *testing.T) {
	tail := `,"num_hidden_layers":4,"num_attention_heads":8,"num_key_value_heads":2,"hidden_size":64,"torch_dtype":"bfloat16"`
	full := int64(2 * (8 + 8) * 2) // a layer and token: 2 heads x (8 + 8) x 2 B
	for _, tt := range []struct {
		name, config, quant string
		n, want             int64
	}{
		{"Qwen window off", `{"architectures":["Qwen2ForCausalLM"],"sliding_window":4,"use_sliding_window":false` + tail + `}`, "", 10, 4 * full * 10},
		{"Qwen window off by default", `{"architectures":["Qwen2ForCausalLM"],"sliding_window":4` + tail + `}`, "", 10, 4 * full * 10},
		{"Qwen window from a layer on", `{"architectures":["Qwen2ForCausalLM"],"sliding_window":4,"use_sliding_window":true,"max_window_layers":1` + tail + `}`, "", 10, full*10 + 3*full*4},
		{"Mistral window on all", `{"architectures":["MistralForCausalLM"],"sliding_window":4` + tail + `}`, "", 10, 4 * full * 4},
		{"Mistral window null", `{"architectures":["MistralForCausalLM"],"sliding_window":null` + tail + `}`, "", 10, 4 * full * 10},
		{"Llama window counted as full", `{"architectures":["LlamaForCausalLM"],"sliding_window":4` + tail + `}`, "", 10, 4 * full * 10},
		{"Gemma 2 every other, head_dim 256 by class", `{"architectures":["Gemma2ForCausalLM"],"sliding_window":4` + tail + `}`, "", 10, 2*2*512*2*10 + 2*2*512*2*4},
		{"Llama 4 by no_rope_layers", `{"architectures":["Llama4ForCausalLM"],"head_dim":8,"attention_chunk_size":4,"no_rope_layers":[1,0,0,1]` + tail + `}`, "", 10, 2*full*10 + 2*full*4},
		{"Llama 4 chunks off", `{"architectures":["Llama4ForCausalLM"],"head_dim":8,"attention_chunk_size":null` + tail + `}`, "", 10, 4 * full * 10},
		{"shared layers", `{"architectures":["Gemma3nForCausalLM"],"head_dim":8,"num_kv_shared_layers":3,"layer_types":["full_attention","full_attention","full_attention","full_attention"]` + tail + `}`, "", 10, full * 10},
		{"Hunyuan shares pairs", `{"architectures":["HunYuanMoEV1ForCausalLM"],"use_cla":true,"cla_share_factor":2` + tail + `}`, "", 10, 2 * full * 10},
		{"Falcon multi-query", `{"architectures":["FalconForCausalLM"]` + tail + `}`, "", 10, 4 * full / 2 * 10},
		{"Falcon new decoder", `{"architectures":["FalconForCausalLM"],"new_decoder_architecture":true,"num_kv_heads":4` + strings.Replace(tail, `"num_key_value_heads":2,`, "", 1) + `}`, "", 10, 4 * full * 2 * 10},
		{"GPT-2 names", `{"architectures":["GPT2LMHeadModel"],"n_layer":4,"n_head":8,"n_embd":64}`, "", 10, 4 * full * 4 * 10},
		{"GPT-BigCode", `{"architectures":["GPTBigCodeForCausalLM"],"n_layer":4,"n_head":8,"n_embd":64}`, "", 10, 4 * full / 2 * 10},
		{"OPT has no KV heads", `{"architectures":["OPTForCausalLM"],"num_hidden_layers":64,"num_attention_heads":72,"hidden_size":9216,"torch_dtype":"float16"}`, "", 512, 64 * 72 * 256 * 2 * 512},
		{"ChatGLM groups", `{"architectures":["ChatGLMModel"],"num_layers":4,"num_attention_heads":8,"kv_channels":8,"hidden_size":64,"multi_query_attention":true,"multi_query_group_num":2}`, "", 10, 4 * full * 10},
		{"blocks of their own", `{"architectures":["DeciLMForCausalLM"],"num_key_value_heads":null,"num_attention_heads":8,"hidden_size":64,"block_configs":[{"attention":{"n_heads_in_group":4}},{"attention":{"no_op":true,"n_heads_in_group":null}},{"attention":{"n_heads_in_group":8}},{"attention":{"replace_with_linear":true}}]}`, "", 10, full*10 + full/2*10},
		{"layer count from a pattern", `{"architectures":["NemotronHForCausalLM"],"num_attention_heads":8,"num_key_value_heads":2,"hidden_size":64,"mamba_num_heads":2,"mamba_head_dim":2,"n_groups":1,"ssm_state_size":2,"conv_kernel":4,"layers_block_type":["mamba","attention","moe"],"time_step_limit":[0.0,Infinity]}`, "", 10, full*10 + 2*2*2*4 + 3*(2*2+2*1*2)*2},
		{"Jamba's period", `{"architectures":["JambaForCausalLM"],"attn_layer_period":4,"attn_layer_offset":1,"mamba_ssm_dtype":"float32"` + tail + `}`, "", 10, full*10 + 3*(128*16*4+3*128*2)},
		{"Kimi's lists from 1", `{"architectures":["KimiLinearForCausalLM"],"num_hidden_layers":2,"num_attention_heads":4,"kv_lora_rank":16,"qk_rope_head_dim":8,"linear_attn_config":{"kda_layers":[1],"full_attn_layers":[2],"num_heads":2,"head_dim":4,"short_conv_kernel_size":4}}`, "", 10, 24*2*10 + 2*4*4*4 + 3*3*2*4*2},
		{"Kimi K3 under text_config", `{"architectures":["KimiK3ForConditionalGeneration"],"text_config":{"model_type":"kimi_linear","num_hidden_layers":2,"num_attention_heads":4,"kv_lora_rank":512,"qk_rope_head_dim":64,"linear_attn_config":{"kda_layers":[1],"full_attn_layers":[2],"num_heads":2,"head_dim":4}}}`, "", 10, 576*2*10 + 2*4*4*4 + 3*3*2*4*2},
		{"lightning", `{"architectures":["MiniMaxText01ForCausalLM"],"attn_type_list":[0,1,0,1]` + tail + `}`, "", 10, 2*full*10 + 2*8*8*8*4},
		{"wrapper", `{"architectures":["Mistral3ForConditionalGeneration"],"text_config":{"model_type":"mistral","sliding_window":null` + tail + `}}`, "", 10, 4 * full * 10},
		{"latent under a wrapper", `{"architectures":["KimiVLForConditionalGeneration"],"text_config":{"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":4,"kv_lora_rank":16,"qk_rope_head_dim":8}}`, "", 10, 2 * 24 * 2 * 10},
		{"sparse layer types", `{"architectures":["GlmMoeDsaForCausalLM"],"num_hidden_layers":1,"num_attention_heads":4,"kv_lora_rank":512,"qk_rope_head_dim":64,"layer_types":["deepseek_sparse_attention"]}`, "", 10, 1284 * 10},
		{"8.0 is 8", `{"architectures":["LlamaForCausalLM"],"head_dim":8.0` + tail + `}`, "", 10, 4 * full * 10},
		{"float32 model", `{"architectures":["LlamaForCausalLM"]` + strings.Replace(tail, "bfloat16", "float32", 1) + `}`, "", 10, 4 * full * 2 * 10},
		{"FP8 weights, KV stays", `{"architectures":["LlamaForCausalLM"],"quantization_config":{"quant_method":"fp8"}` + tail + `}`, "", 10, 4 * full * 10},
		{"KV scheme object", `{"architectures":["LlamaForCausalLM"],"quantization_config":{"kv_cache_scheme":{"num_bits":8,"type":"float"}}` + tail + `}`, "", 10, 4 * full / 2 * 10},
		{"KV scheme name", `{"architectures":["LlamaForCausalLM"],"quantization_config":{"kv_cache_quant_algo":"FP8"}` + tail + `}`, "", 10, 4 * full / 2 * 10},
		{"hf_quant_config", `{"architectures":["LlamaForCausalLM"]` + tail + `}`, `{"quantization":{"kv_cache_quant_algo":"FP8"}}`, 10, 4 * full / 2 * 10},
		{"hf_quant_config null", `{"architectures":["LlamaForCausalLM"]` + tail + `}`, `{"quantization":{"kv_cache_quant_algo":null}}`, 10, 4 * full * 10},
		{"byte order mark", "\xef\xbb\xbf" + `{"architectures":["LlamaForCausalLM"]` + tail + `}`, "", 10, 4 * full * 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var quant []byte
			if tt.quant != "" {
				quant = []byte(tt.quant)
			}
			m, err := Parse([]byte(tt.config), quant, LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := m.Layout(Options{Tokens: tt.n})
			if err != nil {
				t.Fatal(err)
			}
			if l.RequestBytes != tt.want {
				t.Errorf("%d bytes, want %d", l.RequestBytes, tt.want)
			}
			consistent(t, l)
		})
	}
}

func TestEstimateIsLabelled(t *testing.T) {
	config := []byte(`{"architectures":["FooForCausalLM"],"num_hidden_layers":2,"num_attention_heads":4,"hidden_size":64}`)
	m, err := Parse(config, nil, LoadOptions{Estimate: true})
	if err != nil {
		t.Fatal(err)
	}
	l, err := m.Layout(Options{Tokens: 10})
	if err != nil {
		t.Fatal(err)
	}
	if !l.Estimate || !strings.HasPrefix(l.Assumptions[0], "ESTIMATE") || l.RequestBytes != 2*4*32*2*10 {
		t.Errorf("estimate %v, %d bytes, assumptions %q", l.Estimate, l.RequestBytes, l.Assumptions)
	}
	if known, err := Load("Qwen3-8B", LoadOptions{Estimate: true}); err != nil || known.Estimate {
		t.Errorf("a known model is labelled an estimate (%v)", err)
	}
}

func TestLoadFinds(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "config.json")
	if err := os.WriteFile(config, []byte(small+"}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, config} {
		if m, err := Load(path, LoadOptions{}); err != nil || m.Name != path {
			t.Errorf("%s: %+v %v", path, m, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "hf_quant_config.json"), []byte(`{"quantization":{"kv_cache_quant_algo":"FP8"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := Load(dir, LoadOptions{}); err != nil || m.KVDType != "fp8" {
		t.Errorf("hf_quant_config.json beside the config was not read (%v)", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hf_quant_config.json"), []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, LoadOptions{}); err == nil || !strings.Contains(err.Error(), "hf_quant_config.json") {
		t.Errorf("broken hf_quant_config.json: %v", err)
	}
	big := filepath.Join(t.TempDir(), "config.json")
	f, err := os.Create(big)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(100 << 20); err != nil { // sparse
		t.Fatal(err)
	}
	f.Close()
	for path, want := range map[string]string{big: "larger than 8 MiB", "": "no model given", "no-such-model": "no such name in the catalogue", "missing/config.json": "no such file", t.TempDir(): "config.json"} {
		if _, err := Load(path, LoadOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/configs/*_config.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("no configs: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, true)
	}
	f.Add([]byte(small+"}"), false)
	f.Fuzz(func(t *testing.T, data []byte, estimate bool) {
		m, err := Parse(data, data, LoadOptions{Estimate: estimate})
		if err != nil {
			return
		}
		l, err := m.Layout(Options{Tokens: 1000, Prefill: Parallel{TP: 2}, Decode: Parallel{TP: 4}})
		if err != nil {
			return
		}
		if l.RequestBytes <= 0 || l.StateBytes < 0 || l.KVBytesPerToken < 0 || l.WireBytes < 0 {
			t.Errorf("request %d state %d rate %d wire %d", l.RequestBytes, l.StateBytes, l.KVBytesPerToken, l.WireBytes)
		}
		consistent(t, l)
	})
}
