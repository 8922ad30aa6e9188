package kvcache

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

func TestEngineArgs(t *testing.T) {
	files := map[string]string{"extra.yaml": "tensor_parallel_size: 8\nenable_attention_dp: true\nkv_cache_config:\n  dtype: fp8\n  tokens_per_block: 64\ncache_transceiver_config:\n  backend: DEFAULT\n  max_tokens_in_buffer: 8192\n"}
	read := func(name string) ([]byte, error) {
		if text, ok := files[name]; ok {
			return []byte(text), nil
		}
		return nil, errors.New(name + ": no such file")
	}
	for _, tt := range []struct {
		name, text string
		want       []EngineArgs
	}{
		{"vllm", "vllm serve Qwen/Qwen3-8B --tensor-parallel-size 8 --block-size 64 --kv-cache-dtype fp8_e4m3 --enable-expert-parallel", []EngineArgs{
			{Engine: "vllm", Model: "Qwen/Qwen3-8B", Parallel: Parallel{TP: 8}, BlockTokens: 64, KVDType: "fp8", Placement: Split}}},
		{"vllm short flags, underscores, equals", "python3 -m vllm.entrypoints.openai.api_server --model=m -tp 4 -pp=2 --data_parallel_size 2", []EngineArgs{
			{Engine: "vllm", Model: "m", Parallel: Parallel{TP: 4, PP: 2, DP: 2}, BlockTokens: 16, Placement: Split}}},
		{"vllm roles by connector", `#!/bin/bash
set -e
# vllm serve commented --tensor-parallel-size 99
export NCCL_DEBUG=INFO
CUDA_VISIBLE_DEVICES=0,1 UCX_NET_DEVICES=all vllm serve meta-llama/Llama-3.1-8B \
  --tensor-parallel-size 2 \
  --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_producer"}' &
vllm serve meta-llama/Llama-3.1-8B --tensor-parallel-size 8 --kv-transfer-config "{\"kv_connector\":\"NixlConnector\",\"kv_role\":\"kv_consumer\"}" > log 2>&1 &
wait`, []EngineArgs{
			{Engine: "vllm", Role: "prefill", Model: "meta-llama/Llama-3.1-8B", Parallel: Parallel{TP: 2}, BlockTokens: 16, Placement: Split},
			{Engine: "vllm", Role: "decode", Model: "meta-llama/Llama-3.1-8B", Parallel: Parallel{TP: 8}, BlockTokens: 16, Placement: Split}}},
		{"vllm labels", "prefill: vllm serve m -tp 2\ndecode: vllm serve m -tp 4", []EngineArgs{
			{Engine: "vllm", Role: "prefill", Model: "m", Parallel: Parallel{TP: 2}, BlockTokens: 16, Placement: Split},
			{Engine: "vllm", Role: "decode", Model: "m", Parallel: Parallel{TP: 4}, BlockTokens: 16, Placement: Split}}},
		{"vllm flashinfer", "VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve m", []EngineArgs{{Engine: "vllm", Model: "m", BlockTokens: 16, Placement: Fused}}},
		{"vllm cross-layer blocks", `vllm serve m --kv-transfer-config '{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_connector_extra_config":{"enable_cross_layers_blocks":"True"}}'`,
			[]EngineArgs{{Engine: "vllm", Model: "m", BlockTokens: 16, Placement: Fused, Order: ByBlock}}},
		{"the last of a flag holds", "vllm serve m -tp 2 --tensor-parallel-size 4", []EngineArgs{{Engine: "vllm", Model: "m", Parallel: Parallel{TP: 4}, BlockTokens: 16, Placement: Split}}},
		{"sglang", "python -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --disaggregation-mode prefill --tp-size 16 --dp-size 8 --enable-dp-attention --page-size 64 --disaggregation-ib-device mlx5_0,mlx5_1 --trust-remote-code", []EngineArgs{
			{Engine: "sglang", Role: "prefill", Model: "deepseek-ai/DeepSeek-V3", Parallel: Parallel{TP: 16, DP: 8, AttentionDP: true, Rails: 2}, BlockTokens: 64, Placement: Split}}},
		{"sglang defaults", "python -m sglang.launch_server --model m --tp 8 --enable-dp-attention", []EngineArgs{
			{Engine: "sglang", Model: "m", Parallel: Parallel{TP: 8, DP: 1, AttentionDP: true}, BlockTokens: 1, Placement: Split}}},
		{"trtllm", "trtllm-serve deepseek-ai/DeepSeek-R1 --tp_size 8 --pp_size 2 --kv_cache_dtype fp8 --server_role CONTEXT", []EngineArgs{
			{Engine: "trtllm", Role: "prefill", Model: "deepseek-ai/DeepSeek-R1", Parallel: Parallel{TP: 8, PP: 2}, BlockTokens: 32, KVDType: "fp8", Placement: Packed}}},
		{"trtllm with its yaml", "TRTLLM_TRY_ZCOPY_FOR_KVCACHE_TRANSFER=1 trtllm-serve serve m --extra_llm_api_options extra.yaml", []EngineArgs{
			{Engine: "trtllm", Model: "m", Parallel: Parallel{TP: 8, AttentionDP: true}, BlockTokens: 64, KVDType: "fp8", Placement: Fused}}},
		{"trtllm yaml alone", "context_servers:\n  tensor_parallel_size: 4\n  kv_cache_config: {tokens_per_block: 32}\ngeneration_servers:\n  tensor_parallel_size: 8\n  enable_attention_dp: true\n", []EngineArgs{
			{Engine: "trtllm", Role: "prefill", Parallel: Parallel{TP: 4}, BlockTokens: 32, Placement: Packed},
			{Engine: "trtllm", Role: "decode", Parallel: Parallel{TP: 8, AttentionDP: true}, BlockTokens: 32, Placement: Packed}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseEngineArgs([]byte(tt.text), read)
			if err != nil {
				t.Fatal(err)
			}
			for i := range got {
				got[i].Notes = nil
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("\n got %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestEngineArgsRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                       "no vLLM, SGLang or TensorRT-LLM command",
		"ls -l":                                  "no vLLM, SGLang or TensorRT-LLM command",
		"vllm serve m --tensor-parallel-size":    "line 1: --tensor-parallel-size: has no value",
		"\n\nvllm serve m -tp eight":             `line 3: -tp: must be a whole number from 1 to 1024, got "eight"`,
		"vllm serve m -tp 0":                     "-tp: must be",
		"vllm serve m -tp $TP":                   "shell variable",
		"vllm serve m --kv-cache-dtype fp7":      `"fp7" is not known`,
		"vllm serve m --kv-transfer-config {":    "--kv-transfer-config",
		"vllm serve 'm":                          "line 1: a quote is not closed",
		"vllm serve m -dcp 4":                    "not modelled",
		"vllm serve m -tp 1024 -pp 1024":         "above 1024 ranks",
		"trtllm-serve m --config missing.yaml":   "missing.yaml",
		"sglang serve m --disaggregation-mode x": `role "x" is not known`,
		"python -m sglang.launch_server --tp 8 --dp 3 --enable-dp-attention": "does not divide",
		"tensor_parallel_size: -3\n":                                         "tensor_parallel_size: must be positive",
		"kv_cache_config: {dtype: 3}\n":                                      "kv_cache_config.dtype: must be text",
		strings.Repeat("x", 2<<20):                                           "larger than 1 MiB",
	} {
		_, err := ParseEngineArgs([]byte(text), func(name string) ([]byte, error) { return nil, errors.New(name + ": no such file") })
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: error %v, want one with %q", text, err, want)
		}
	}
}

func FuzzParseEngineArgs(f *testing.F) {
	for _, seed := range []string{
		"vllm serve m -tp 8 --kv-transfer-config '{\"kv_role\":\"kv_producer\"}' \\\n --block-size 64",
		"python -m sglang.launch_server --model-path m --tp 8 --dp 8 --enable-dp-attention", "trtllm-serve m --tp_size 8 --config x",
		"context_servers: {tensor_parallel_size: 4}", "a: &a [*a, *a]", "\"", "'\\", "prefill:", "prefill: vllm serve",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := ParseEngineArgs(text, func(string) ([]byte, error) { return text, nil })
		if err != nil {
			return
		}
		for _, a := range got {
			if a.Engine == "" || a.BlockTokens < 1 || a.Placement == "" {
				t.Errorf("%+v", a)
			}
			if s := a.Parallel.normal("x"); s.err != nil {
				t.Error(s.err)
			}
		}
	})
}
