// Package example works a published figure: what is stated, computed and
// assumed, side by side.
package example

import (
	"fmt"
	"math"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/prefill"
	"hopbench/results/unit"
)

// Example is a worked example: what is stated, computed and assumed, side by
// side, with the projections that the computed column comes from.
type Example struct {
	Title   string
	Rows    []Row
	Cases   []Case
	Sources []string
}

// Row is one line of the three columns; an empty column has nothing to say.
type Row struct {
	What     string `json:"what"`
	Stated   string `json:"stated,omitempty"`
	Computed string `json:"computed,omitempty"`
	Assumed  string `json:"assumed,omitempty"`
}

// Case is one link under the example's load. Times are seconds.
type Case struct {
	Label string `json:"label"`
	// Transfer and Alone are one request's transfer and TTFT without any other,
	// Last the TTFT of the last of ten that come at once.
	Transfer float64 `json:"transfer_alone_seconds"`
	Alone    float64 `json:"ttft_alone_seconds"`
	Last     float64 `json:"ttft_last_of_ten_seconds"`
	// P50 and P99 are those of ten users over 200 requests.
	P50 float64 `json:"ttft_p50_seconds"`
	P99 float64 `json:"ttft_p99_seconds"`
	// Stated is what the guide says of this case, for the figure beside.
	Stated string `json:"stated,omitempty"`
	// StatedTTFT is the TTFT that the guide states of this case, and StatedWhat which of all TTFTs it is; nil where it states none.
	StatedTTFT *float64 `json:"stated_ttft_seconds,omitempty"`
	StatedWhat string   `json:"stated_ttft_is,omitempty"`

	Projection *ttft.Projection `json:"-"`
}

// The figures of the guide and of the EKS page, and the one that speaks
// against them: sources in Example's Sources.
const (
	guideTokens      = 8000
	guideOutput      = 50
	guideUsers       = 10
	guideSlow        = 98.0  // s: "~98 s TTFT" with the TCP fallback
	guideAggregated  = 0.173 // s: least TTFT aggregated
	guideEFALeast    = 0.210 // s: least TTFT disaggregated
	guideEFAP95      = 1.752 // s: at concurrency 10
	guideEFABytes    = 9.6e9 // bytes/s
	pullRequest1314  = 0.36e9
	fallbackBytes    = 0.1e9 // bytes/s: "~100 MB/s"
	guideTCPLow      = 1e9
	guideTCPHigh     = 3e9
	guideTCPLatency  = 50e-6
	exampleRequests  = 200
	assumedStepBase  = 0.008
	assumedStepEach  = 0.0001
	expectedIBLow    = 0.2 // s: InfiniBand "200-500 ms", expected from hardware
	expectedIBHigh   = 0.5
	kvTokensPerBlock = 16
)

// Dynamo98 works the example of NVIDIA Dynamo's documents: a TTFT of 98 s for
// Llama-3.1-8B at 8000 tokens where the transfer fell back to TCP.
func Dynamo98() (*Example, error) {
	model, err := kvcache.Load("meta-llama/Meta-Llama-3.1-8B", kvcache.LoadOptions{})
	if err != nil {
		return nil, err
	}
	vllm, err := engine.Find("vllm-nixl")
	if err != nil {
		return nil, err
	}
	vllm.Handover, vllm.HandoverFrom = 0, "assumed" // the guide's own 210 - 173 ms leaves no room for it
	table, err := prefill.Table([][2]float64{{guideTokens, guideAggregated}}, "given", "the guide's least aggregated TTFT, 173 ms for 8000 tokens, taken as prefill")
	if err != nil {
		return nil, err
	}
	s := &ttft.Scenario{
		Model: model, Engine: vllm, Prefill: table, PrefillWorkers: 1, DecodeWorkers: 1, Budget: 8192,
		Layout: kvcache.Options{BlockTokens: kvTokensPerBlock, Placement: kvcache.Split, Prefill: kvcache.Parallel{TP: 1}, Decode: kvcache.Parallel{TP: 1}},
		Step:   ttft.Step{Base: assumedStepBase, PerRequest: assumedStepEach, Provenance: "assumed"},
		Load:   ttft.Load{Concurrency: guideUsers, Requests: exampleRequests, Input: guideTokens, Output: guideOutput}, Seed: 1,
	}
	options := s.Layout
	options.Tokens = guideTokens
	layout, err := model.Layout(options)
	if err != nil {
		return nil, err
	}
	bytes, pieces := float64(layout.WireBytes), float64(layout.Binding.Descriptors)
	needed := guideUsers * bytes / guideSlow
	middle := math.Sqrt(guideTCPLow * guideTCPHigh)
	each := (guideSlow/guideUsers - bytes/middle) / pieces

	e := &Example{Title: "Llama-3.1-8B, 8000 prompt tokens, ten users, one prefill and one decode worker: the 98 seconds"}
	stated := map[int]struct { // by case
		ttft float64
		what string
	}{2: {guideSlow, "of what is not said"}, 4: {guideEFAP95, "p95 at ten users, measured"}}
	for i, c := range []struct {
		label, stated string
		spec          link.Spec
	}{
		{"TCP at 1 GB/s", "1-3 GB/s in the transport table", link.Spec{Low: guideTCPLow, High: guideTCPLow, Latency: guideTCPLatency}},
		{"TCP at 3 GB/s", "1-3 GB/s in the transport table", link.Spec{Low: guideTCPHigh, High: guideTCPHigh, Latency: guideTCPLatency}},
		{"TCP fallback at 0.1 GB/s", "about 100 MB/s and 98 s in the overhead table", link.Spec{Low: fallbackBytes, High: fallbackBytes, Latency: guideTCPLatency}},
		{fmt.Sprintf("TCP at 1.7 GB/s and %.0f us a descriptor", each*1e6), "", link.Spec{Low: middle, High: middle, Latency: guideTCPLatency, PerDescriptor: each}},
		{"EFA at 9.6 GB/s", "210 ms least, 1752 ms p95 at ten users, measured", link.Spec{Low: guideEFABytes, High: guideEFABytes}},
		{"EFA at 28.3 GB/s", "+37 ms, the same row", link.Spec{Low: bytes / 0.037, High: bytes / 0.037}},
	} {
		l, err := link.Given(c.label, c.spec)
		if err != nil {
			return nil, err
		}
		l.Source = "the guide's figures, worked as stated"
		if c.stated != "" {
			l.Source = "the guide: " + c.stated
		}
		one, err := ttft.Alone(s, l, guideTokens)
		if err != nil {
			return nil, err
		}
		ten := *s
		ten.Load.Requests = guideUsers
		burst, err := ttft.Project(&ten, l)
		if err != nil {
			return nil, err
		}
		p, err := ttft.Project(s, l)
		if err != nil {
			return nil, err
		}
		e.Cases = append(e.Cases, Case{
			Label: c.label, Stated: c.stated, Transfer: one.Request.Seconds, Alone: *one.Result.TTFT.Max, Last: *burst.Result.TTFT.Max,
			P50: *p.Result.TTFT.P50, P99: *p.Result.TTFT.P99, Projection: p,
		})
		if v, ok := stated[i]; ok {
			e.Cases[i].StatedTTFT, e.Cases[i].StatedWhat = &v.ttft, v.what
		}
	}
	at := func(i int) Case { return e.Cases[i] }
	e.Rows = []Row{
		{"KV of one request", "", fmt.Sprintf("8000 x 131072 B = %.4f GB in %.0f pieces of %.0f KiB", bytes/1e9, pieces, bytes/pieces/1024), "BF16, TP1, blocks of 16, K and V apart"},
		{"load", "ten at a time, one prefill and one decode worker, 50 tokens out: in the guide's EFA section", "", "that the 98 s row had the same load"},
		{"TCP's bandwidth", "1-3 GB/s", fmt.Sprintf("one request in %.2f-%.2f s, ten in %.1f-%.1f s: 98 s does not follow", bytes/guideTCPHigh, bytes/guideTCPLow, guideUsers*bytes/guideTCPHigh, guideUsers*bytes/guideTCPLow), ""},
		{"TTFT of the last of ten at that bandwidth", "", fmt.Sprintf("%.1f-%.1f s simulated, prefill and first step included", at(1).Last, at(0).Last), "prefill 173 ms, 8192 tokens an iteration, decode step 8 ms + 0.1 ms a request"},
		{"TCP fallback", "about 100 MB/s, +90-100 s, TTFT about 98 s", fmt.Sprintf("ten at 0.1 GB/s end after %.0f s; 98 s is %.3f GB/s", at(2).Last, needed/1e9), "that all ten share it, and that 98 s is the last or near it"},
		{"another cause", "", fmt.Sprintf("%.0f us a descriptor and nothing else, or %.0f us at 1.7 GB/s, gives %.0f s", guideSlow/guideUsers/pieces*1e6, each*1e6, at(3).Last), "a cost of descriptors in one thread: a hypothesis"},
		{"against it", "dynamo pull request 1314: TCP moved 0.65 GB of an 8B model in 1.8 s, set-up included", fmt.Sprintf("0.36 GB/s or more: at most %.0f s for this load", guideUsers*bytes/pullRequest1314), ""},
		{"EFA, least TTFT", "210 ms (aggregated 173)", fmt.Sprintf("%s at 9.6 GB/s, %s at 28.3 GB/s", unit.Seconds(at(4).Alone), unit.Seconds(at(5).Alone)), "no handover cost beyond the steps"},
		{"EFA, ten users", "p95 1752 ms (aggregated 2097); EKS page: about 1 s", fmt.Sprintf("p50 %s, p99 %s at 9.6 GB/s", unit.Seconds(at(4).P50), unit.Seconds(at(4).P99)), "the same prefill time with ten users"},
		{"EFA's own row", "37 ms and 9.6 GB/s for one transfer", fmt.Sprintf("%.0f ms at 9.6 GB/s; 37 ms is %.1f GB/s: not both", 1e3*bytes/guideEFABytes, bytes/0.037/1e9), ""},
		{"fast over slow", "200-500 ms on InfiniBand against 98 s: expected from hardware against measured, on two clusters", fmt.Sprintf("on one cluster 98 / 1.752 = %.0f, or 98 with the page's 1 s; and not %.0f to %.0f", guideSlow/guideEFAP95, guideSlow/expectedIBHigh, guideSlow/expectedIBLow), ""},
		{"not said anywhere", "", "", "TP, block size, engine version, number of requests, and whether 98 s is a mean, a median or p99"},
	}
	e.Sources = []string{
		"ai-dynamo/dynamo, docs/kubernetes/disagg-communication-guide.md (transport table, overhead table, EFA section, break-even)",
		"ai-dynamo/dynamo, docs/kubernetes/cloud-providers/eks/efa.md (98 s with TCP, about 1 s with EFA)",
		"ai-dynamo/dynamo pull request 1314 (1803 ms over TCP for ISL 5000)",
	}
	return e, nil
}
