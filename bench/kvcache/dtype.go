package kvcache

import (
	"fmt"
	"slices"
	"strings"
)

// dtypeBits gives the bits that one element of the cache takes, scales that are stored with it included.
// nvfp4 is 4 bits and one 8-bit scale for 16 elements (OCP-style micro-scaling as in NVIDIA's NVFP4).
var dtypeBits = map[string]int64{
	"float32": 32, "bfloat16": 16, "float16": 16, "fp8": 8, "int8": 8,
}

// sixteenths gives sizes that are no whole bits: half-bits.
const nvfp4HalfBits = 9

// dsMLA is vLLM's packed layout for sparse MLA: FP8 latent, one 4-byte scale for 128 elements, BF16 rope part
// (512 + 16 + 128 = 656 bytes a token for DeepSeek-V3.2), and for DeepSeek-V4 FP8 without rope, BF16 rope and
// an 8-byte scale group (448 + 128 + 8 = 584).
const dsMLA = "fp8_ds_mla"

var dtypeAliases = map[string]string{
	"float32": "float32", "fp32": "float32", "float": "float32", "torch.float32": "float32",
	"bfloat16": "bfloat16", "bf16": "bfloat16", "torch.bfloat16": "bfloat16",
	"float16": "float16", "fp16": "float16", "half": "float16", "torch.float16": "float16",
	"fp8": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8", "fp8_inc": "fp8", "float8": "fp8", "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "e4m3": "fp8", "e5m2": "fp8",
	"int8": "int8", "nvfp4": "nvfp4", "fp4": "nvfp4", "fp4_e2m1": "nvfp4", "fp8_ds_mla": dsMLA,
}

// canonicalDType gives one name to each dtype; field is what an error names.
func canonicalDType(field, name string) (string, error) {
	if d, ok := dtypeAliases[strings.ToLower(strings.TrimSpace(name))]; ok {
		return d, nil
	}
	return "", fieldErr(field, "dtype %s is not known; known are %s", show(name), strings.Join(dtypeNames(), ", "))
}

func dtypeNames() []string {
	names := []string{"nvfp4", dsMLA}
	for name := range dtypeBits {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// elementBytes is the size of n elements. n x bits must be whole bytes: every width that occurs is a multiple of 16.
func elementBytes(dtype string, n int64) (int64, error) {
	halfBits := int64(nvfp4HalfBits)
	if dtype != "nvfp4" {
		bits, ok := dtypeBits[dtype]
		if !ok {
			return 0, fmt.Errorf("kv dtype %s does not fit this layer: it is a layout of latent attention", dtype)
		}
		halfBits = 2 * bits
	}
	if n*halfBits%16 != 0 {
		return 0, fmt.Errorf("kv dtype %s: %d elements are no whole bytes", dtype, n)
	}
	return n * halfBits / 16, nil
}

// modelDType finds the dtype of activations: dtype or torch_dtype, in the text section first (it is what the language
// model is built with), then at the top.
func modelDType(top, text section) (dtype string, found bool, err error) {
	for _, s := range []section{text, top} {
		for _, key := range []string{"dtype", "torch_dtype"} {
			name, err := s.text(key)
			if err != nil {
				return "", false, err
			}
			if name == "" || name == "auto" {
				continue
			}
			dtype, err = canonicalDType(s.at(key), name)
			return dtype, err == nil, err
		}
	}
	return "bfloat16", false, nil
}

// checkpointKVDType finds a KV scheme that the checkpoint itself carries. The dtype of the weights says nothing about
// the cache: FP8 weights with no scheme leave it in the model's dtype.
func checkpointKVDType(top, text section, quant *section) (dtype, from string, err error) {
	for _, s := range []section{text, top} {
		for _, key := range []string{"quantization_config", "compression_config"} {
			q, ok, err := s.sub(key)
			if err != nil {
				return "", "", err
			}
			if !ok {
				continue
			}
			if dtype, from, err = schemeDType(q); dtype != "" || err != nil {
				return dtype, from, err
			}
		}
	}
	if quant == nil {
		return "", "", nil
	}
	q, ok, err := quant.sub("quantization")
	if err != nil {
		return "", "", err
	}
	if !ok {
		return "", "", nil
	}
	return schemeDType(q)
}

// schemeDType reads kv_cache_scheme (an object of num_bits and type, or a name) and kv_cache_quant_algo (a name).
func schemeDType(q section) (dtype, from string, err error) {
	for _, key := range []string{"kv_cache_scheme", "kv_cache_quant_algo"} {
		at := q.at(key)
		switch v := q.fields[key].(type) {
		case nil:
			continue
		case string:
			if v == "" || strings.EqualFold(v, "none") || strings.EqualFold(v, "auto") {
				continue
			}
			dtype, err = canonicalDType(at, v)
			return dtype, at, err
		case map[string]any:
			s := section{at, v}
			bits, ok, err := s.optional("num_bits")
			if err != nil {
				return "", "", err
			}
			if !ok {
				return "", "", fieldErr(s.at("num_bits"), "missing")
			}
			kind, err := s.text("type")
			if err != nil {
				return "", "", err
			}
			switch name := fmt.Sprintf("%s%d", kind, bits); name {
			case "float8":
				return "fp8", at, nil
			case "int8":
				return "int8", at, nil
			case "float4":
				return "nvfp4", at, nil
			default:
				return "", "", fieldErr(at, "scheme of type %q with %d bits is not known", kind, bits)
			}
		default:
			return "", "", fieldErr(at, "must be text or an object, got %s", show(v))
		}
	}
	return "", "", nil
}
