// Package engine holds what serving engines do around a transfer, by version,
// as facts with their sources: who starts it, when, and which token the client sees first.
package engine

import (
	"fmt"
	"strings"

	"hopbench/bench/kvcache"
)

// Preset is one engine's way of handing a request from prefill to decode.
// Times are seconds.
type Preset struct {
	Name    string `json:"name"`
	Engine  string `json:"engine"`
	Version string `json:"version"`
	// Operation is write (prefill pushes) or read (decode pulls).
	Operation string `json:"operation"`
	// OnRequest: nothing crosses before decode asks for it, whoever writes.
	OnRequest bool `json:"on_request"`
	// Concurrent dispatch: decode has the request from the beginning.
	Concurrent bool `json:"concurrent_dispatch"`
	// Forwarded: prefill's token is the client's first; else decode computes it again.
	Forwarded bool `json:"first_token_forwarded"`
	// Overlap is the engine's own default: serial or chunked.
	Overlap string `json:"overlap"`
	// Lease is how long prefill keeps blocks for a pull that has not begun; 0: as long as it takes.
	Lease float64 `json:"lease_seconds,omitempty"`
	// Handover is a published cost between prefill and transfer; 0 where none is published.
	Handover float64 `json:"handover_seconds"`
	// HandoverFrom is reference (of this engine), assumed, or given.
	HandoverFrom string `json:"handover_provenance"`
	// BlockTokens and Placement are the engine's defaults.
	BlockTokens int               `json:"block_tokens"`
	Placement   kvcache.Placement `json:"placement"`
	// Sources say where each of these comes from.
	Sources []string `json:"sources"`
}

// Presets lists all of them; the first is the default.
func Presets() []Preset {
	vllm := Preset{
		Name: "vllm-nixl", Engine: "vLLM, NixlConnector", Version: "2026, with lease renewal",
		Operation: "read", OnRequest: true, Overlap: "serial",
		Handover: 0.110, HandoverFrom: "reference", BlockTokens: 16, Placement: kvcache.Split,
		Sources: []string{
			"pull by the decode worker after prefill, K and V registered apart: vLLM docs, features/nixl_connector_usage; vllm pull request 25902",
			"decode computes the first token again: vllm issue 25373, pull request 51919",
			"handover 197 ms at the median, less 29 of transfer and 58 of the recomputed token with its alignment = 110 ms: vllm pull request 51919 (3P1D, block 64; its waits for step boundaries at the start of a pull are in it and are also simulated)",
			"kv_lease_duration 30 s, renewed by heartbeats while a request waits, so it does not end for a live decode worker: vllm pull request 38027, llm-d pull request 2194",
		},
	}
	older := vllm
	older.Name, older.Version, older.Lease = "vllm-nixl-0.11", "0.11, without lease renewal", 480
	older.Sources = append(append([]string{}, vllm.Sources[:3]...), "VLLM_NIXL_ABORT_REQUEST_TIMEOUT 480 s: vllm pull request 25897")
	push := vllm
	push.Name, push.Engine, push.Operation, push.OnRequest = "vllm-nixl-push", "vLLM, NixlPushConnector", "write", false
	push.Version, push.HandoverFrom = "2026", "assumed"
	push.Sources = []string{
		"push by the prefill worker into blocks that decode has registered: vllm issues 46283 and 52607",
		vllm.Sources[1],
		"handover taken to be that of the pull connector: none is published",
	}
	return []Preset{
		vllm, older, push,
		{
			Name: "sglang", Engine: "SGLang", Version: "0.5",
			Operation: "write", Concurrent: true, Forwarded: true, Overlap: "chunked", HandoverFrom: "assumed", BlockTokens: 64, Placement: kvcache.Split,
			Sources: []string{
				"both workers are given the request, decode allocates first, prefill writes: docs/advanced_features/pd_disaggregation, and dynamo's SGLang disaggregation page",
				"decode skips the forward pass of the prompt and only fills in prefill's result: life cycle at the top of python/sglang/srt/disaggregation/decode.py",
				"chunk i crosses while chunk i+1 is computed; pages of 32 to 128 tokens advised: sglang issue 5450",
				"no handover cost is published: taken as 0",
			},
		},
		{
			Name: "trtllm", Engine: "TensorRT-LLM", Version: "1.x, context first",
			Operation: "write", OnRequest: true, Forwarded: true, Overlap: "serial", Handover: 0.035, HandoverFrom: "reference", BlockTokens: 32, Placement: kvcache.Packed,
			Sources: []string{
				"the context executor keeps the cache until the generation executor asks for it: TensorRT-LLM docs, disaggregated service",
				"first_gen_tokens go to the generation request: TensorRT-LLM docs, llmapi DisaggregatedParams",
				"blocks are copied into a staging buffer, overlap is across requests: TensorRT-LLM docs, features/disagg-serving",
				"task 46 ms less wire 10.8 ms = 35 ms: TensorRT-LLM pull request 12273 (Qwen3-235B FP4, ISL 8192)",
			},
		},
	}
}

// Find finds a preset by name; the error lists those that are known.
func Find(name string) (Preset, error) {
	var names []string
	for _, p := range Presets() {
		if strings.EqualFold(p.Name, name) {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return Preset{}, fmt.Errorf("engine %q is not known; known are %s", name, strings.Join(names, ", "))
}
