// Package kvcache turns a model's config.json into the geometry of its KV cache: bytes a token, what one request
// holds, and what crosses the wire, in which pieces, between the ranks of a prefill and of a decode worker.
//
// # Formulas
//
// N is the prompt's tokens, b the bytes of an element of the cache. A request holds, summed over layers:
//
//   - MHA, GQA, MQA: N x kv_heads x (K width + V width) x b. (Ainslie et al., GQA, arXiv:2305.13245; K and V widths
//     may differ, as in MiMo-V2.)
//   - MLA: N x (kv_lora_rank + qk_rope_head_dim) x b, once and not once a head; num_key_value_heads is not used.
//     (DeepSeek-V2, arXiv:2405.04434, section 2.1.) A sparse indexer adds index_head_dim FP8 bytes and a 4-byte scale a
//     token. (DeepSeek-V3.2 report, and vLLM's indexer cache.)
//   - Sliding windows and chunks: min(N, W) tokens instead of N. (Mistral 7B, arXiv:2310.06825; Llama 4's attention_chunk_size.)
//   - Compressed sparse attention: min(N, W) + floor(N / ratio) entries of head_dim, and an indexer entry a compressed entry
//     where ratio is 4. (DeepSeek-V4 config.json: compress_ratios, sliding_window.)
//   - Linear attention and Mamba: nothing a token. A state of heads x key width x value width in the state's dtype, and
//     (kernel - 1) x channels of convolution in the model's dtype. (Gated delta net, arXiv:2412.06464; Mamba-2, arXiv:2405.21060.)
//   - A layer that shares another's KV, a feed-forward layer, a removed attention: nothing.
//
// On the wire each rank of T tensor-parallel ranks needs max(1, heads / T) of the heads, so T above the heads replicates them;
// a latent goes whole to each rank. Every table is rounded to whole blocks.
//
// # What is refused
//
// An architecture that is not in the table is an error that names it: a silent guess would be wrong by up to 25 times
// (MLA read as plain attention). A field of the wrong type, zero, negative or missing is an error that names the field.
package kvcache
