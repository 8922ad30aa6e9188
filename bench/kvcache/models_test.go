package kvcache

import (
	"path/filepath"
	"strings"
	"testing"
)

// Expected values are worked out by hand from the published fields; the arithmetic stands beside each.
func TestPublishedConfigs(t *testing.T) {
	const n = 8192
	for _, tt := range []struct {
		file           string
		dtype          string
		rate           int64 // bytes a token at the end of n tokens
		state, request int64
	}{
		// 32 layers x 8 heads x (128 + 128) x 2 B; head_dim absent: 4096 / 32.
		{"meta-llama--Meta-Llama-3.1-8B", "bfloat16", 32 * 8 * 256 * 2, 0, 131072 * n},
		// 80 x 8 x (128 + 128) x 2; 8192 / 64 = 128.
		{"meta-llama--Meta-Llama-3.1-70B", "bfloat16", 80 * 8 * 256 * 2, 0, 327680 * n},
		// The same with kv_cache_quant_algo FP8 in hf_quant_config.json: 1 B.
		{"nvidia--Llama-3.1-70B-Instruct-FP8", "fp8", 80 * 8 * 256 * 1, 0, 163840 * n},
		// 94 x 4 x (128 + 128) x 2; hidden / heads would give 64.
		{"Qwen--Qwen3-235B-A22B", "bfloat16", 94 * 4 * 256 * 2, 0, 192512 * n},
		// 36 x 8 x (128 + 128) x 2.
		{"Qwen--Qwen3-8B", "bfloat16", 36 * 8 * 256 * 2, 0, 147456 * n},
		// The same under text_config, dtype instead of torch_dtype; vision_config's 27 layers are not read.
		{"Qwen--Qwen3-VL-8B-Instruct", "bfloat16", 36 * 8 * 256 * 2, 0, 147456 * n},
		// 56 x 8 x (128 + 128) x 2; sliding_window null.
		{"mistralai--Mixtral-8x22B-v0.1", "bfloat16", 56 * 8 * 256 * 2, 0, 229376 * n},
		// 62 x 8 x (128 + 128) x 2; no dtype in the file; FP8 weights leave the cache alone; 3072 / 48 would give 64.
		{"MiniMaxAI--MiniMax-M2.5", "bfloat16", 62 * 8 * 256 * 2, 0, 253952 * n},
		// 61 x (512 + 64) x 2: the latent once, whatever the 128 heads say; FP8 weights leave the cache alone.
		{"deepseek-ai--DeepSeek-V3", "bfloat16", 61 * 576 * 2, 0, 70272 * n},
		// 61 x ((512 + 64) x 2 + 128 + 4): the indexer's key in FP8 and its scale.
		{"deepseek-ai--DeepSeek-V3.2", "bfloat16", 61 * (576*2 + 132), 0, 78324 * n},
		// As DeepSeek-V3, under text_config; kv_cache_scheme is null.
		{"moonshotai--Kimi-K2.5", "bfloat16", 61 * 576 * 2, 0, 70272 * n},
		// 18 full layers x 8 x (64 + 64) x 2 a token; 18 windows of 128 tokens of the same size. No dtype in the file.
		{"openai--gpt-oss-120b", "bfloat16", 18 * 8 * 128 * 2, 0, 36864*n + 36864*128},
		// 5 full layers x 2 heads x (512 + 512) x 2; 25 windows x 8 x (256 + 256) x 2 x 1024 tokens.
		{"google--gemma-4-26B-A4B", "bfloat16", 5 * 2 * 1024 * 2, 0, 20480*n + 25*8*512*2*1024},
		// 12 of 48 layers are full; at 8192 tokens every chunk of 8192 is full too: 48 x 8 x 256 x 2 x 8192.
		{"meta-llama--Llama-4-Scout-17B-16E-Instruct", "bfloat16", 12 * 8 * 256 * 2, 0, 196608 * n},
		// 15 full layers x 2 x (256 + 256) x 2. 45 states: 64 x 128 x 128 x 4 B of delta net, and 3 columns x
		// (16 x 128 q + 16 x 128 k + 64 x 128 v) x 2 B of convolution: 45 x (4194304 + 73728).
		{"Qwen--Qwen3.5-397B-A17B", "bfloat16", 15 * 2 * 512 * 2, 192061440, 30720*n + 192061440},
		// 6 "*" layers x 2 x (128 + 128) x 2. 23 "M" states: 64 x 64 x 128 x 4 B, and 3 columns x (64 x 64 + 2 x 8 x 128) x 2 B:
		// 23 x (2097152 + 36864).
		{"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "bfloat16", 6 * 2 * 256 * 2, 49082368, 6144*n + 49082368},
		// 9 full layers x 4 x (192 + 128) x 2; 39 windows x 8 x (192 + 128) x 2 x 128 tokens.
		{"XiaomiMiMo--MiMo-V2-Flash", "bfloat16", 9 * 4 * 320 * 2, 0, 23040*n + 39*8*320*2*128},
	} {
		t.Run(tt.file, func(t *testing.T) {
			m, err := Load(filepath.Join("testdata/configs", tt.file+"_config.json"), LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			l, err := m.Layout(Options{Tokens: n})
			if err != nil {
				t.Fatal(err)
			}
			if l.KVDType != tt.dtype || l.KVBytesPerToken != tt.rate || l.StateBytes != tt.state || l.RequestBytes != tt.request {
				t.Errorf("dtype %s rate %d state %d request %d, want %s %d %d %d", l.KVDType, l.KVBytesPerToken, l.StateBytes, l.RequestBytes,
					tt.dtype, tt.rate, tt.state, tt.request)
			}
			if l.WireBytes < l.RequestBytes {
				t.Errorf("wire %d is below the request's %d at TP1", l.WireBytes, l.RequestBytes)
			}
			consistent(t, l)
		})
	}
}

// consistent checks what every layout must satisfy: the same bytes by rank, by flow, by NIC and by descriptor.
func consistent(t *testing.T, l *Layout) {
	t.Helper()
	var ranks, prefill, flows, heaviest int64
	for _, r := range l.Ranks {
		ranks += r.Bytes
		if r.Rank == l.DescriptorsRank {
			heaviest = r.Bytes
		}
	}
	for _, r := range l.PrefillRanks {
		prefill += r.Bytes
	}
	for _, f := range l.Flows {
		flows += f.Bytes
		if got := descriptorBytes(f.Descriptors); got != f.Bytes {
			t.Errorf("flow %d to %d: descriptors hold %d bytes, flow %d", f.SourceRank, f.TargetRank, got, f.Bytes)
		}
	}
	nics := map[string]int64{}
	for _, n := range l.NICs {
		nics[n.Side] += n.Bytes
	}
	for name, got := range map[string]int64{"decode ranks": ranks, "prefill ranks": prefill, "flows": flows, "prefill NICs": nics["prefill"], "decode NICs": nics["decode"]} {
		if got != l.WireBytes {
			t.Errorf("%s add up to %d bytes, wire is %d", name, got, l.WireBytes)
		}
	}
	if got := descriptorBytes(l.Descriptors); got != heaviest {
		t.Errorf("descriptors hold %d bytes, rank %d receives %d", got, l.DescriptorsRank, heaviest)
	}
}

func descriptorBytes(ds []Descriptor) (n int64) {
	for _, d := range ds {
		n += d.SizeBytes * d.Count
	}
	return n
}

func TestCatalogue(t *testing.T) {
	names := Catalogue()
	if len(names) < 12 {
		t.Fatalf("%d models", len(names))
	}
	for _, name := range names {
		m, err := Load(name, LoadOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		if m.Source == "" || !strings.Contains(m.Source, "read 20") {
			t.Errorf("%s: source %q has no date", name, m.Source)
		}
		got, err := m.Layout(Options{Tokens: 10_000, Decode: Parallel{TP: 2}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		consistent(t, got)
		full, err := Load(filepath.Join("testdata/configs", strings.ReplaceAll(name, "/", "--")+"_config.json"), LoadOptions{})
		if err != nil {
			continue // the catalogue holds more models than there are files
		}
		want, err := full.Layout(Options{Tokens: 10_000})
		if err != nil {
			t.Fatal(err)
		}
		if got.RequestBytes != want.RequestBytes || got.KVDType != want.KVDType {
			t.Errorf("%s: %d bytes %s, its file gives %d %s", name, got.RequestBytes, got.KVDType, want.RequestBytes, want.KVDType)
		}
	}
}

// Models of the catalogue without a file in testdata.
func TestCatalogueValues(t *testing.T) {
	for _, tt := range []struct {
		name          string
		tokens        int64
		rate, request int64
	}{
		{"llama-3.1-405b", 8192, 126 * 8 * 256 * 2, 516096 * 8192},
		{"Qwen3-32B", 8192, 64 * 8 * 256 * 2, 262144 * 8192}, // 5120 / 64 would give head_dim 80
		{"qwen3-30b-a3b", 8192, 48 * 4 * 256 * 2, 98304 * 8192},
		{"Qwen/Qwen3-0.6B", 8192, 28 * 8 * 256 * 2, 114688 * 8192},
		{"GLM-5", 8192, 78 * (576*2 + 132), 100152 * 8192},
		{"gpt-oss-20b", 8192, 12 * 8 * 128 * 2, 24576 * (8192 + 128)},
		// 8 of 48 layers full x 8 x (256 + 256) x 2; 40 windows of 1024; head_dim absent: 256 by the class, not 3840 / 16.
		{"gemma-3-12b-it", 8192, 8 * 8 * 512 * 2, 65536*8192 + 40*8192*1024},
		// 12 full x 2 x 512 x 2; 36 x (32 x 128 x 128 x 4 + 3 x (2 x 16 + 32) x 128 x 2).
		{"qwen3-next", 8192, 12 * 2 * 512 * 2, 24576*8192 + 36*(2097152+49152)},
		// 12 full layers x 8 x (128 + 128) x 1 B by kv_cache_scheme; 36 windows of 512.
		{"Laguna-S-2.1-FP8", 8192, 12 * 8 * 256, 24576*8192 + 36*2048*512},
		// 12 of 45 full x 8 x 256 x 2; 33 windows of 512.
		{"Step-3.7-Flash", 8192, 12 * 8 * 256 * 2, 49152*8192 + 33*4096*512},
		// 43 windows of 128 x 1024 B; 21 layers of ratio 4 (1024 + 132 B an entry) and 20 of ratio 128 (1024 B).
		// Rate: 21 x 1156 / 4 + 20 x 1024 / 128.
		{"DeepSeek-V4-Flash", 8192, 21*289 + 20*8, 43*128*1024 + 21*2048*1156 + 20*64*1024},
	} {
		m, err := Load(tt.name, LoadOptions{})
		if err != nil {
			t.Error(err)
			continue
		}
		l, err := m.Layout(Options{Tokens: tt.tokens})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if l.KVBytesPerToken != tt.rate || l.RequestBytes != tt.request {
			t.Errorf("%s: rate %d request %d, want %d %d", tt.name, l.KVBytesPerToken, l.RequestBytes, tt.rate, tt.request)
		}
	}
}
