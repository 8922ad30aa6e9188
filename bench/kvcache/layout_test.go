package kvcache

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func load(t testing.TB, name string) *Model {
	t.Helper()
	m, err := Load(name, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func layout(t testing.TB, name string, o Options) *Layout {
	t.Helper()
	l, err := load(t, name).Layout(o)
	if err != nil {
		t.Fatal(err)
	}
	consistent(t.(*testing.T), l)
	return l
}

func both(p Parallel, o Options) Options {
	o.Prefill, o.Decode = p, p
	return o
}

// Descriptors of one rank: layers x (K and V apart) x blocks, of block x heads of the rank x width x bytes.
func TestDescriptorsOfOneRank(t *testing.T) {
	for _, tt := range []struct {
		model     string
		tp, block int
		want      Descriptor
	}{
		// 32 layers x 2 x 8192/16; 16 x 8 heads x 128 x 2 B = 32 KiB.
		{"llama-3.1-8b", 1, 16, Descriptor{32 << 10, 32768}},
		{"llama-3.1-8b", 1, 64, Descriptor{128 << 10, 8192}},
		{"llama-3.1-8b", 1, 128, Descriptor{256 << 10, 4096}},
		// One head a rank: 16 x 128 x 2 B = 4 KiB.
		{"llama-3.1-8b", 8, 16, Descriptor{4 << 10, 32768}},
		{"llama-3.1-8b", 8, 128, Descriptor{32 << 10, 4096}},
		{"llama-3.1-8b", 8, 1, Descriptor{256, 32 * 2 * 8192}},
		{"llama-3.1-8b", 8, 256, Descriptor{64 << 10, 32 * 2 * 32}},
		// 80 x 2 x 512.
		{"llama-3.1-70b", 8, 16, Descriptor{4 << 10, 81920}},
		{"llama-3.1-70b", 8, 64, Descriptor{16 << 10, 20480}},
		// 94 x 2 x 512; 4 heads over 8 ranks: one each, every head twice.
		{"Qwen3-235B-A22B", 8, 16, Descriptor{4 << 10, 96256}},
		// 61 x 512; 16 x 576 x 2 B = 18 KiB, whatever the TP.
		{"DeepSeek-V3", 1, 16, Descriptor{18 << 10, 31232}},
		{"DeepSeek-V3", 8, 64, Descriptor{72 << 10, 7808}},
		{"DeepSeek-V3", 16, 128, Descriptor{144 << 10, 3904}},
	} {
		l := layout(t, tt.model, both(Parallel{TP: tt.tp}, Options{Tokens: 8192, BlockTokens: tt.block}))
		if want := []Descriptor{tt.want}; !slices.Equal(l.Descriptors, want) {
			t.Errorf("%s TP%d block %d: %v, want %v", tt.model, tt.tp, tt.block, l.Descriptors, want)
		}
	}
}

// One 16-token block of Qwen3-8B is 36 x 2 pieces of 32 KiB, 2.25 MiB; one 128-token block of Qwen3-0.6B 28 x 2 pieces, 14 MiB: as
// vLLM's NixlConnector logs them.
func TestOneBlockAsLogged(t *testing.T) {
	l := layout(t, "Qwen3-8B", Options{Tokens: 16})
	if l.Ranks[0].Descriptors != 72 || l.WireBytes != 2359296 {
		t.Errorf("%d descriptors, %d bytes", l.Ranks[0].Descriptors, l.WireBytes)
	}
	l = layout(t, "Qwen3-0.6B", Options{Tokens: 128, BlockTokens: 128})
	if l.Ranks[0].Descriptors != 56 || l.WireBytes != 14<<20 {
		t.Errorf("%d descriptors, %d bytes", l.Ranks[0].Descriptors, l.WireBytes)
	}
}

// Counts and sizes that others report for one rank.
func TestPublishedDescriptors(t *testing.T) {
	// nixl issue 1514: Llama-70B at TP8, 118 blocks: 80 x 2 x 118 descriptors, 160 when all merge.
	l := layout(t, "llama-3.1-70b", both(Parallel{TP: 8}, Options{Tokens: 118 * 16}))
	if l.Ranks[0].Descriptors != 18880 || l.ContiguousDescriptors != 160 {
		t.Errorf("70B: %d descriptors, %d merged", l.Ranks[0].Descriptors, l.ContiguousDescriptors)
	}
	// vLLM issue 53237: DeepSeek-V4-Flash, one descriptor a layer and block: about 32k of about 16 KB at 128K tokens, 254k at 1M.
	// In blocks of 256: 21 layers x (entries and indexer) x 512 blocks, 20 layers x 512, and the 43 windows' last block.
	for tokens, want := range map[int64]int64{128 << 10: 21*2*512 + 20*512 + 43, 1 << 20: 21*2*4096 + 20*4096 + 43} {
		l := layout(t, "deepseek-v4-flash", Options{Tokens: tokens, BlockTokens: 256, KVDType: "fp8_ds_mla"})
		mean := l.Ranks[0].Bytes / l.Ranks[0].Descriptors
		if l.Ranks[0].Descriptors != want || mean < 15_500 || mean > 16_500 {
			t.Errorf("%d tokens: %d descriptors of %d bytes, want %d", tokens, l.Ranks[0].Descriptors, mean, want)
		}
	}
	// sglang pull request 7236: DeepSeek-V3 at 10,000 tokens, 703 MB.
	if l := layout(t, "deepseek-v3", Options{Tokens: 10_000}); l.RequestBytes != 702_720_000 {
		t.Errorf("DeepSeek-V3: %d bytes", l.RequestBytes)
	}
}

func BenchmarkLayout(b *testing.B) {
	m := load(b, "llama-3.1-70b")
	for b.Loop() {
		if _, err := m.Layout(both(Parallel{TP: 8}, Options{Tokens: 8192})); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWireBytes(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model string
		o     Options
		want  int64
	}{
		{"TP at the KV heads", "llama-3.1-8b", both(Parallel{TP: 8}, Options{Tokens: 8192}), 131072 * 8192},
		// 94 x 2 x 4 heads x 128 x 2 x 32768 = 6.31 GB; TP8 holds each of 4 heads twice: 12.62 GB, as measured at Mooncake.
		{"TP above the KV heads", "Qwen3-235B-A22B", both(Parallel{TP: 8}, Options{Tokens: 32768}), 2 * 192512 * 32768},
		{"latent to each of 8 ranks", "DeepSeek-V3", both(Parallel{TP: 8}, Options{Tokens: 8192}), 8 * 70272 * 8192},
		{"latent, attention data-parallel", "DeepSeek-V3", both(Parallel{TP: 8, AttentionDP: true}, Options{Tokens: 8192}), 70272 * 8192},
		// 8150 x 61 x 576 x 1 B: the 286 MB of aiconfigurator pull request 1380, in 510 blocks of 16.
		{"fp8 latent, rounded", "Kimi-K2.5", Options{Tokens: 8150, KVDType: "fp8"}, 510 * 16 * 35136},
		// 61 x (512 + 4 x 4 + 64 x 2 + 132).
		{"fp8_ds_mla", "DeepSeek-V3.2", Options{Tokens: 16, KVDType: "fp8_ds_mla"}, 16 * 61 * (656 + 132)},
		// 43 windows: 8 blocks of 16 tokens x 584 B; 21 layers with 8192/4 entries x (584 + 132); 20 with 64 entries x 584.
		{"fp8_ds_mla compressed", "DeepSeek-V4-Flash", Options{Tokens: 8192, KVDType: "fp8_ds_mla"}, 43*128*584 + 21*2048*(584+132) + 20*64*584},
		// nvfp4: 4.5 bits an element: 36 x 8 x 256 x 0.5625 B a token.
		{"nvfp4", "Qwen3-8B", Options{Tokens: 16, KVDType: "nvfp4"}, 16 * 36 * 8 * 144},
		// 8193 tokens are 513 blocks of 16.
		{"block rounding", "llama-3.1-8b", Options{Tokens: 8193}, 131072 * 513 * 16},
		// A window of 128 tokens that ends at 8200 lies in blocks 504 (8064..8079) to 512: 9 of them.
		{"a window over block edges", "gpt-oss-120b", Options{Tokens: 8200}, 36864 * (513 + 9) * 16},
		{"draft layer", "DeepSeek-V3", Options{Tokens: 16, Draft: true}, 16 * 62 * 576 * 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := layout(t, tt.model, tt.o)
			if l.WireBytes != tt.want {
				t.Errorf("wire %d, want %d", l.WireBytes, tt.want)
			}
		})
	}
	whole := layout(t, "gpt-oss-120b", Options{Tokens: 8192, WholeWindow: true})
	if want := int64(2 * 36864 * 8192); whole.WireBytes != want {
		t.Errorf("whole windows: wire %d, want %d", whole.WireBytes, want)
	}
}

// 70B in bulk: prefill TP2 puts half of the cache on each NIC, TP8 an eighth.
func TestFewerPrefillRanksTakeLonger(t *testing.T) {
	o := Options{Tokens: 8192, Placement: Packed}
	o.Prefill, o.Decode = Parallel{TP: 2}, Parallel{TP: 8}
	two := layout(t, "llama-3.1-70b", o)
	eight := layout(t, "llama-3.1-70b", both(Parallel{TP: 8}, o))
	if got := two.BulkSeconds(50e9) / eight.BulkSeconds(50e9); math.Abs(got-4) > 1e-9 {
		t.Errorf("TP2 to TP8 takes %v times TP8 to TP8", got)
	}
	if two.Binding.Side != "prefill" || two.EqualNICs != 2 {
		t.Errorf("binding %+v, %d equal", two.Binding, two.EqualNICs)
	}
	if len(two.PrefillRanks) != 2 || !slices.Equal(two.PrefillRanks[1].Peers, []int{4, 5, 6, 7}) {
		t.Errorf("prefill ranks %+v", two.PrefillRanks)
	}
	// Blocks: each decode rank's one head is a piece of a 4-head block: 16 x 128 x 2 B, 80 x 2 x 512 of them.
	o.Placement = Split
	scattered := layout(t, "llama-3.1-70b", o)
	if want := []Descriptor{{4096, 81920}}; !slices.Equal(scattered.Descriptors, want) {
		t.Errorf("descriptors %v, want %v", scattered.Descriptors, want)
	}
	// Tokens before heads: a slice is one piece a token, 128 x 2 B.
	o.TokenMajor = true
	if got, want := layout(t, "llama-3.1-70b", o).Descriptors, []Descriptor{{256, 81920 * 16}}; !slices.Equal(got, want) {
		t.Errorf("token-major descriptors %v, want %v", got, want)
	}
}

func TestMorePrefillRanks(t *testing.T) {
	// TP8 to TP2: a decode rank's 4 heads come from 4 prefill ranks.
	l := layout(t, "llama-3.1-70b", Options{Tokens: 8192, Prefill: Parallel{TP: 8}, Decode: Parallel{TP: 2}})
	if !slices.Equal(l.Ranks[1].Peers, []int{4, 5, 6, 7}) || l.Binding.Side != "decode" {
		t.Errorf("rank 1 from %v, %s binds", l.Ranks[1].Peers, l.Binding.Side)
	}
	// Replicas: 4 heads over 8 prefill ranks, one of two gives each.
	l = layout(t, "Qwen3-235B-A22B", Options{Tokens: 512, Prefill: Parallel{TP: 8}, Decode: Parallel{TP: 4}})
	if l.WireBytes != l.RequestBytes || len(l.PrefillRanks) != 4 {
		t.Errorf("wire %d, request %d, %d prefill ranks", l.WireBytes, l.RequestBytes, len(l.PrefillRanks))
	}
}

func TestDataParallelAttentionUsesOneNIC(t *testing.T) {
	l := layout(t, "DeepSeek-V3", both(Parallel{TP: 8, DP: 8, AttentionDP: true}, Options{Tokens: 8192}))
	if len(l.NICs) != 2 || len(l.Flows) != 1 || l.Binding.Bytes != l.RequestBytes {
		t.Errorf("NICs %+v", l.NICs)
	}
}

func TestPipelineStages(t *testing.T) {
	// 61 layers over 4 stages: 15, 15+... the one that remains goes to the stage before the last: 15, 15, 16, 15.
	l := layout(t, "DeepSeek-V3", Options{Tokens: 16, Prefill: Parallel{PP: 4}, Decode: Parallel{PP: 1}})
	var layers []int64
	for _, r := range l.PrefillRanks {
		layers = append(layers, r.Bytes/(16*576*2))
	}
	if !slices.Equal(layers, []int64{15, 15, 16, 15}) {
		t.Errorf("layers of stages %v", layers)
	}
	// Both sides cut, in different places.
	l = layout(t, "llama-3.1-70b", Options{Tokens: 160, Prefill: Parallel{TP: 2, PP: 4}, Decode: Parallel{TP: 4, PP: 2}})
	if l.WireBytes != l.RequestBytes || len(l.Ranks) != 8 || len(l.PrefillRanks) != 8 {
		t.Errorf("wire %d of %d, %d and %d ranks", l.WireBytes, l.RequestBytes, len(l.PrefillRanks), len(l.Ranks))
	}
}

func TestRails(t *testing.T) {
	l := layout(t, "llama-3.1-70b", both(Parallel{TP: 8, Rails: 4}, Options{Tokens: 8192}))
	if l.Ranks[7].NIC != 3 || l.Ranks[1].NIC != 0 || len(l.NICs) != 8 || l.Binding.Bytes != l.WireBytes/4 {
		t.Errorf("NICs %+v", l.NICs)
	}
	l = layout(t, "llama-3.1-70b", both(Parallel{TP: 2, NICs: []int{5, 5}}, Options{Tokens: 8192}))
	if len(l.NICs) != 2 || l.NICs[0].NIC != 5 || l.Binding.Bytes != l.WireBytes {
		t.Errorf("NICs %+v", l.NICs)
	}
}

func TestPlacementsAndOrders(t *testing.T) {
	for _, tt := range []struct {
		model string
		o     Options
		want  []Descriptor
	}{
		{"llama-3.1-8b", Options{Placement: Fused}, []Descriptor{{64 << 10, 32 * 64}}},
		{"llama-3.1-8b", Options{Placement: Split, Order: ByBlock}, []Descriptor{{1 << 20, 2 * 64}}}, // 32 layers x 32 KiB
		{"llama-3.1-8b", Options{Placement: Fused, Order: ByBlock}, []Descriptor{{2 << 20, 64}}},
		{"llama-3.1-8b", Options{Placement: Packed}, []Descriptor{{1024 * 131072, 1}}},
		{"llama-3.1-8b", Options{Placement: Packed, StagingBytes: 100 << 20}, []Descriptor{{100 << 20, 1}, {28 << 20, 1}}},
		// 61 x (16 x 1152 B and 16 x 132 B).
		{"DeepSeek-V3.2", Options{}, []Descriptor{{18432, 61 * 64}, {2112, 61 * 64}}},
		{"DeepSeek-V3.2", Options{Placement: Fused, Order: ByBlock}, []Descriptor{{61 * (18432 + 2112), 64}}},
		// 6 x K and V; 23 x (3 x 6144 x 2 B of convolution and 64 x 64 x 128 x 4 B of state).
		{"nemotron-3-nano", Options{}, []Descriptor{{2 << 20, 23}, {36864, 23}, {16 * 2 * 128 * 2, 6 * 2 * 64}}},
	} {
		tt.o.Tokens = 1024
		if got := layout(t, tt.model, tt.o).Descriptors; !slices.Equal(got, tt.want) {
			t.Errorf("%s %s %s: %v, want %v", tt.model, tt.o.Placement, tt.o.Order, got, tt.want)
		}
	}
}

// A state splits over ranks by its own heads; Nemotron's 8 groups are replicated at TP16.
func TestStateOverRanks(t *testing.T) {
	for _, tt := range []struct {
		model string
		tp    int
		want  int64
	}{
		{"qwen3.5-397b-a17b", 4, 192061440},
		{"nemotron-3-nano", 4, 49082368},
		// TP16: heads 64/16 = 4: 16 x 3 x 4 x 64 channels; groups: 16 x 3 x 2 x 128, twice the 8 that there are.
		{"nemotron-3-nano", 16, 23 * (2097152 + 3*2*(64*64+2*16*128))},
	} {
		l := layout(t, tt.model, both(Parallel{TP: tt.tp}, Options{Tokens: 16}))
		var kv int64
		for _, layer := range load(t, tt.model).Layers {
			if layer.Kind == Full {
				kv += 16 * int64(max(layer.KVHeads, tt.tp)) * int64(layer.KDim+layer.VDim) * 2
			}
		}
		if l.WireBytes-kv != tt.want {
			t.Errorf("%s TP%d: state on the wire %d, want %d", tt.model, tt.tp, l.WireBytes-kv, tt.want)
		}
	}
	// TP2 to TP4: convolution rows are sliced, 3 rows x (heads, B, C) apart; the ssm slice is whole.
	l := layout(t, "nemotron-3-nano", Options{Tokens: 16, Prefill: Parallel{TP: 1}, Decode: Parallel{TP: 2}})
	want := []Descriptor{{1 << 20, 23}, {32 * 64 * 2, 23 * 3}, {16 * 128 * 2, 6 * 2}, {4 * 128 * 2, 23 * 6}}
	if !slices.Equal(l.Descriptors, sorted(want)) {
		t.Errorf("descriptors %v, want %v", l.Descriptors, sorted(want))
	}
}

func sorted(ds []Descriptor) []Descriptor {
	by := map[int64]int64{}
	for _, d := range ds {
		by[d.SizeBytes] += d.Count
	}
	return sortedDescriptors(by)
}

func TestRateAtTheEndOfThePrompt(t *testing.T) {
	for _, tt := range []struct {
		tokens, rate, request int64
	}{{1, 73728, 73728}, {127, 73728, 73728 * 127}, {128, 36864, 73728 * 128}, {1000, 36864, 36864 * 1128}, {1_000_000_000, 36864, 36864 * 1_000_000_128}} {
		l := layout(t, "gpt-oss-120b", Options{Tokens: tt.tokens})
		if l.KVBytesPerToken != tt.rate || l.RequestBytes != tt.request {
			t.Errorf("%d tokens: rate %d request %d, want %d %d", tt.tokens, l.KVBytesPerToken, l.RequestBytes, tt.rate, tt.request)
		}
	}
}

func TestLayoutRefuses(t *testing.T) {
	for _, tt := range []struct {
		model string
		o     Options
		want  string
	}{
		{"llama-3.1-8b", Options{}, "prompt tokens must be at least 1, not 0"},
		{"llama-3.1-8b", Options{Tokens: -5}, "not -5"},
		{"llama-3.1-8b", Options{Tokens: 1 << 50}, "above"},
		{"llama-3.1-8b", Options{Tokens: 1 << 40, Decode: Parallel{TP: 32}, Prefill: Parallel{TP: 32}}, "too large to count"},
		{"llama-3.1-8b", Options{Tokens: 1, BlockTokens: -1}, "block size"},
		{"llama-3.1-8b", Options{Tokens: 1, BlockTokens: 5000}, "block size"},
		{"llama-3.1-8b", Options{Tokens: 1, KVDType: "fp7"}, `kv dtype: dtype "fp7" is not known`},
		{"llama-3.1-8b", Options{Tokens: 1, KVDType: "fp8_ds_mla"}, "does not fit"},
		{"llama-3.1-8b", Options{Tokens: 1, Decode: Parallel{TP: 3}}, "decode: tp 3 does not divide the 32 attention heads"},
		{"laguna-s-2.1-fp8", Options{Tokens: 1, Decode: Parallel{TP: 16}}, "decode: tp 16 does not divide the 72 attention heads"},
		{"llama-3.1-8b", Options{Tokens: 1, Prefill: Parallel{PP: 33}}, "prefill: pp 33 is above the model's 32 layers"},
		{"llama-3.1-8b", Options{Tokens: 1, Decode: Parallel{TP: 8, DP: 3, AttentionDP: true}}, "decode: dp 3 does not divide tp 8"},
		{"llama-3.1-8b", Options{Tokens: 1, Decode: Parallel{TP: 8, NICs: []int{1}}}, "decode: nics names 1 NIC for 8 ranks"},
		{"llama-3.1-8b", Options{Tokens: 1, Decode: Parallel{TP: 2, Rails: 1, NICs: []int{0, 1}}}, "decode: nics: rank 1 is on NIC 1, of 1 rails"},
		{"llama-3.1-8b", Options{Tokens: 1, Decode: Parallel{TP: 100000}}, "decode: tp must be 1 to"},
		{"llama-3.1-8b", Options{Tokens: 1, Placement: "heap"}, `placement "heap"`},
		{"llama-3.1-8b", Options{Tokens: 1, Order: "heap"}, `order "heap"`},
	} {
		_, err := load(t, tt.model).Layout(tt.o)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one with %q", tt.o, err, tt.want)
		}
	}
}

// 4 KV heads over 6 ranks: the 12 query heads divide, the KV heads do not.
func TestHeadsThatDoNotDivide(t *testing.T) {
	m, err := Parse([]byte(`{"architectures":["LlamaForCausalLM"],"num_hidden_layers":2,"num_attention_heads":12,"num_key_value_heads":4,"hidden_size":96}`), nil, LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Layout(Options{Tokens: 1, Prefill: Parallel{TP: 6}})
	if err == nil || !strings.Contains(err.Error(), "prefill: tp 6 and the 4 heads of layer 0 (k) do not divide") {
		t.Errorf("error %v", err)
	}
}

func TestAssumptionsAreSaid(t *testing.T) {
	for _, tt := range []struct {
		model string
		o     Options
		want  string
	}{
		{"Qwen3-8B", Options{}, "KV dtype bfloat16: the model's dtype"},
		{"gpt-oss-120b", Options{}, "the config gives no dtype"},
		{"llama-3.1-70b-fp8", Options{}, "by the checkpoint's quantization.kv_cache_quant_algo"},
		{"llama-3.1-70b-fp8", Options{KVDType: "bf16"}, "as asked, over the config's fp8"},
		{"llama-4-scout", Options{}, "each 4th layer is full"},
		{"DeepSeek-V3", Options{}, "1 draft (multi-token-prediction) layers are not counted"},
		{"Qwen3-235B-A22B", both(Parallel{TP: 8}, Options{}), "4 KV heads over 8 tensor-parallel ranks: each is held 2 times"},
		{"qwen3-next", Options{}, "no dtype for the recurrent state: float32"},
		{"Qwen3-8B", Options{Tokens: 100}, "112 tokens for the prompt's 100"},
	} {
		if tt.o.Tokens == 0 {
			tt.o.Tokens = 8192
		}
		l := layout(t, tt.model, tt.o)
		if !strings.Contains(strings.Join(l.Assumptions, "\n"), tt.want) {
			t.Errorf("%s: assumptions %q have no %q", tt.model, l.Assumptions, tt.want)
		}
	}
}

// The published bytes of Qwen3-8B at TP8 follow from the geometry and one more block (chat template), to the digits printed.
func TestMooncakeTable(t *testing.T) {
	for tokens, mib := range map[int64]float64{128: 20, 256: 38, 512: 74, 1024: 146, 2048: 290, 4096: 578, 8192: 1157, 16384: 2304, 32768: 4608} {
		l := layout(t, "Qwen3-8B", both(Parallel{TP: 8}, Options{Tokens: tokens + 16}))
		got := float64(l.WireBytes) / (1 << 20)
		off := 1.0
		if mib >= 1024 {
			off = 0.005 * 1024 // the page prints these as GiB with two decimals
		}
		if math.Abs(got-mib) > off {
			t.Errorf("%d tokens: %.2f MiB, published %v", tokens, got, mib)
		}
	}
}

func TestParseParallel(t *testing.T) {
	got, err := ParseParallel("tp=8, pp=2,dp=4,rails=4,dp-attention,nics=0:1")
	if want := (Parallel{TP: 8, PP: 2, DP: 4, Rails: 4, AttentionDP: true, NICs: []int{0, 1}}); err == nil || fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%+v %v: want %+v and an error of 2 NICs for 16 ranks", got, err, want)
	}
	for text, want := range map[string]string{"": "not known", "tp": "positive whole number", "tp=0": "positive", "tp=-1": "positive", "tp=8,tp=4": "twice", "rail=1": "not known",
		"tp=8,dp=3,dp-attention": "does not divide", "nics=a": "NIC number", "dp-attention=maybe": "true or false"} {
		if _, err := ParseParallel(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want one with %q", text, err, want)
		}
	}
}
