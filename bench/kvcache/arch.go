package kvcache

import "strings"

// reader builds a Model out of one config.
type reader struct {
	top, text section
	model     *Model
}

func (r *reader) assume(text string) { r.model.Assumptions = append(r.model.Assumptions, text) }

// family reads the layers of a group of architectures into reader.model.
type family struct {
	read    func(r *reader, f family) error
	classes []string // as architectures[0] gives them
	types   []string // as model_type gives them, for configs (and text sections) without architectures

	// What a config may leave out, by the class's own defaults. Zero: no default.
	headDim, heads, kvHeads int
	window                  int
	windows                 windowRule
	every                   int // a layer whose number (from 1) divides by it is full, the others windowed
	index                   int // index_head_dim
}

// windowRule says which layers a sliding window applies to where the config lists no layer_types.
type windowRule int

const (
	unsaid     windowRule = iota // a window without a list is counted as full, and said
	allLayers                    // every layer
	byQwen                       // only with use_sliding_window, from layer max_window_layers on
	everyNth                     // all but each every-th layer
	chunkEvery                   // as everyNth, with attention_chunk_size (Llama 4)
)

// families is the whole list of architectures that are read. Class defaults are those of the transformers library's
// configuration classes; kinds of layers are those that its modelling code and vLLM's build.
var families = []family{
	{read: readAttention, types: []string{"llama", "granite", "granitemoe", "stablelm", "glm", "glm4", "glm4_moe", "minimax_m2", "ernie4_5", "ernie4_5_moe", "seed_oss", "internlm2", "internlm3",
		"olmo", "olmo2", "olmoe", "cohere", "smollm3", "arcee", "nemotron", "phi", "persimmon", "apertus", "dots1", "hunyuan_v1_dense", "hunyuan_v1_moe", "exaone", "bailing_moe", "mimo", "gpt_neox", "opt", "laguna", "step3p7"},
		classes: []string{"LlamaForCausalLM", "LLaMAForCausalLM", "GraniteForCausalLM", "GraniteMoeForCausalLM", "StableLmForCausalLM", "GlmForCausalLM", "Glm4ForCausalLM", "Glm4MoeForCausalLM",
			"MiniMaxM2ForCausalLM", "Ernie4_5ForCausalLM", "Ernie4_5_MoeForCausalLM", "SeedOssForCausalLM", "InternLM2ForCausalLM", "InternLM3ForCausalLM", "OlmoForCausalLM", "Olmo2ForCausalLM", "OlmoeForCausalLM",
			"CohereForCausalLM", "SmolLM3ForCausalLM", "ArceeForCausalLM", "NemotronForCausalLM", "PhiForCausalLM", "PersimmonForCausalLM", "ApertusForCausalLM", "Dots1ForCausalLM",
			"HunYuanDenseV1ForCausalLM", "HunYuanMoEV1ForCausalLM", "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM", "GPTNeoXForCausalLM", "OPTForCausalLM", "LagunaForCausalLM", "Step3p7FlashForCausalLM"}},
	{read: readAttention, types: []string{"qwen2", "qwen2_moe", "qwen3", "qwen3_moe", "qwen2_vl", "qwen2_5_vl", "qwen2_vl_text", "qwen2_5_vl_text", "qwen3_vl", "qwen3_vl_text", "qwen3_vl_moe", "qwen3_vl_moe_text"},
		classes: []string{"Qwen2ForCausalLM", "Qwen2MoeForCausalLM", "Qwen3ForCausalLM", "Qwen3MoeForCausalLM", "Qwen2VLForConditionalGeneration", "Qwen2_5_VLForConditionalGeneration",
			"Qwen3VLForConditionalGeneration", "Qwen3VLMoeForConditionalGeneration", "MiMoForCausalLM"}, windows: byQwen},
	{read: readAttention, types: []string{"mistral", "mixtral", "phi3", "phimoe", "starcoder2", "ministral"}, windows: allLayers,
		classes: []string{"MistralForCausalLM", "MixtralForCausalLM", "Phi3ForCausalLM", "PhiMoEForCausalLM", "Starcoder2ForCausalLM", "MinistralForCausalLM"}},
	{read: readAttention, types: []string{"gemma"}, classes: []string{"GemmaForCausalLM"}, headDim: 256},
	{read: readAttention, types: []string{"gemma2"}, classes: []string{"Gemma2ForCausalLM"}, headDim: 256, kvHeads: 4, window: 4096, windows: everyNth, every: 2},
	{read: readAttention, types: []string{"gemma3", "gemma3_text"}, classes: []string{"Gemma3ForConditionalGeneration", "Gemma3ForCausalLM"},
		headDim: 256, heads: 8, kvHeads: 4, window: 4096, windows: everyNth, every: 6},
	{read: readAttention, types: []string{"gemma3n", "gemma3n_text"}, classes: []string{"Gemma3nForConditionalGeneration", "Gemma3nForCausalLM"},
		headDim: 256, heads: 8, kvHeads: 2, window: 512, windows: everyNth, every: 5},
	{read: readGemma4, types: []string{"gemma4", "gemma4_text"}, classes: []string{"Gemma4ForConditionalGeneration", "Gemma4ForCausalLM"}, headDim: 256, window: 512},
	{read: readAttention, types: []string{"cohere2"}, classes: []string{"Cohere2ForCausalLM"}, window: 4096, windows: everyNth, every: 4},
	{read: readAttention, types: []string{"olmo3"}, classes: []string{"Olmo3ForCausalLM"}, window: 4096, windows: everyNth, every: 4},
	{read: readAttention, types: []string{"exaone4"}, classes: []string{"Exaone4ForCausalLM"}, window: 4096, windows: everyNth, every: 4},
	{read: readAttention, types: []string{"gpt_oss"}, classes: []string{"GptOssForCausalLM"}, headDim: 64, kvHeads: 8, window: 128, windows: everyNth, every: 2},
	{read: readAttention, types: []string{"llama4", "llama4_text"}, classes: []string{"Llama4ForConditionalGeneration", "Llama4ForCausalLM"}, headDim: 128, window: 8192, windows: chunkEvery, every: 4},
	{read: readMiMoV2, types: []string{"mimo_v2_flash", "mimo_v2"}, classes: []string{"MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM"}},
	{read: readFalcon, types: []string{"falcon"}, classes: []string{"FalconForCausalLM", "RWForCausalLM"}},
	{read: readGPT2, types: []string{"gpt2", "gptj", "bloom", "gpt_bigcode"}, classes: []string{"GPT2LMHeadModel", "GPTJForCausalLM", "BloomForCausalLM", "GPTBigCodeForCausalLM"}},
	{read: readChatGLM, types: []string{"chatglm"}, classes: []string{"ChatGLMModel", "ChatGLMForConditionalGeneration", "ChatGLMForCausalLM"}},
	{read: readBlockConfigs, types: []string{"nemotron-nas", "deci"}, classes: []string{"DeciLMForCausalLM"}},
	{read: readLatent, types: []string{"deepseek_v2", "deepseek_v3", "kimi_k2", "kimi_k25", "glm4_moe_lite", "minicpm3"},
		classes: []string{"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "KimiK2ForCausalLM", "KimiK25ForConditionalGeneration", "KimiVLForConditionalGeneration", "Glm4MoeLiteForCausalLM", "MiniCPM3ForCausalLM"}},
	{read: readLatent, types: []string{"deepseek_v32", "glm_moe_dsa"}, classes: []string{"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"}, index: 128},
	{read: readCompressed, types: []string{"deepseek_v4"}, classes: []string{"DeepseekV4ForCausalLM"}, headDim: 512, window: 128, index: 128},
	{read: readGatedDelta, types: []string{"qwen3_next", "qwen3_5", "qwen3_5_text", "qwen3_5_moe", "qwen3_5_moe_text"},
		classes: []string{"Qwen3NextForCausalLM", "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration", "Qwen3_5ForCausalLM", "Qwen3_5MoeForCausalLM"}, headDim: 256, every: 4},
	{read: readKimiLinear, types: []string{"kimi_linear", "kimi_k3"}, classes: []string{"KimiLinearForCausalLM", "KimiK3ForConditionalGeneration"}},
	{read: readNemotronH, types: []string{"nemotron_h"}, classes: []string{"NemotronHForCausalLM"}},
	{read: readMambaHybrid, types: []string{"granitemoehybrid", "bamba"}, classes: []string{"GraniteMoeHybridForCausalLM", "BambaForCausalLM"}},
	{read: readJamba, types: []string{"jamba"}, classes: []string{"JambaForCausalLM"}},
	{read: readLightning, types: []string{"minimax_text_01", "minimax_m1", "minimax"}, classes: []string{"MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"}},
}

// wrappers hold another model under text_config, whose own class or type decides.
var wrappers = []string{"LlavaForConditionalGeneration", "LlavaNextForConditionalGeneration", "Mistral3ForConditionalGeneration", "InternVLChatModel",
	"InternVLForConditionalGeneration", "AriaForConditionalGeneration", "Idefics3ForConditionalGeneration", "SmolVLMForConditionalGeneration", "PaliGemmaForConditionalGeneration",
	"DeepseekVLV2ForCausalLM", "Llama_Nemotron_Nano_VL", "NemotronH_Nano_VL_V2"}

// textKeys are the names under which multimodal configs nest their language model.
var textKeys = []string{"text_config", "language_config", "llm_config"}

// familyOf finds the family by class name, then by model type.
func familyOf(class, modelType string) (family, bool) {
	for _, f := range families {
		for _, c := range f.classes {
			if class != "" && strings.EqualFold(c, class) {
				return f, true
			}
		}
	}
	if class != "" {
		return family{}, false // a class of its own may differ from its model type's usual one
	}
	for _, f := range families {
		for _, t := range f.types {
			if t == modelType {
				return f, true
			}
		}
	}
	return family{}, false
}

// className reads architectures[0] and model_type of a section.
func className(s section) (class, modelType string, err error) {
	if modelType, err = s.text("model_type"); err != nil {
		return "", "", err
	}
	classes, err := s.texts("architectures")
	if err != nil || len(classes) == 0 {
		return "", modelType, err
	}
	return classes[0], modelType, nil
}
