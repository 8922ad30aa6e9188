package kvcache

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EngineArgs is what one serving engine's command line says about the layout of its cache.
type EngineArgs struct {
	Engine      string // vllm, sglang or trtllm
	Role        string // prefill, decode, or empty: both
	Model       string // as the command names it; empty when it does not
	Parallel    Parallel
	BlockTokens int    // the engine's default where the command has none
	KVDType     string // empty: not said
	Placement   Placement
	Order       Order
	Notes       []string // what was taken for granted, or seen and not modelled
}

// maxArgsBytes bounds a file of command lines.
const maxArgsBytes = 1 << 20

// ParseEngineArgs reads command lines of vLLM, SGLang and TensorRT-LLM out of a shell script, or a TensorRT-LLM YAML
// file. Shell quoting, comments and lines continued with a backslash are understood; other commands are passed over; a
// command may follow a label, "prefill:" or "decode:". read opens the YAML files that TensorRT-LLM's commands name; it may
// be nil. An error names the line and the flag.
func ParseEngineArgs(text []byte, read func(name string) ([]byte, error)) ([]EngineArgs, error) {
	if len(text) > maxArgsBytes {
		return nil, fmt.Errorf("larger than %d MiB: not a command line", maxArgsBytes>>20)
	}
	commands, err := shellCommands(string(text))
	if err != nil {
		return nil, err
	}
	var out []EngineArgs
	env := map[string]string{}
	for _, c := range commands {
		role := ""
		if len(c.words) > 0 {
			switch strings.ToLower(c.words[0]) {
			case "prefill:", "decode:":
				role, c.words = strings.ToLower(strings.TrimSuffix(c.words[0], ":")), c.words[1:]
			}
		}
		at, engine := findEngine(c.words)
		for _, w := range c.words[:at] {
			if name, value, ok := strings.Cut(w, "="); ok {
				env[name] = value
			}
		}
		if engine == "" {
			continue
		}
		a := &argReader{args: EngineArgs{Engine: engine, Role: role}, env: env, read: read}
		if err := a.command(c.words[at:]); err != nil {
			return nil, fmt.Errorf("line %d: %w", c.line, err)
		}
		out = append(out, a.args)
		env = map[string]string{}
	}
	if len(out) > 0 {
		return out, nil
	}
	out, err = fromYAML(text)
	if err != nil || len(out) == 0 {
		return nil, errors.Join(errors.New("no vLLM, SGLang or TensorRT-LLM command is in it"), err)
	}
	return out, nil
}

// findEngine finds the word after which an engine's flags begin.
func findEngine(words []string) (after int, engine string) {
	for i, w := range words {
		base := w[strings.LastIndexByte(w, '/')+1:]
		switch base {
		case "vllm", "sglang":
			if i+1 < len(words) && words[i+1] == "serve" {
				return i + 2, base
			}
		case "vllm.entrypoints.openai.api_server", "vllm.entrypoints.api_server", "dynamo.vllm":
			return i + 1, "vllm"
		case "sglang.launch_server", "dynamo.sglang":
			return i + 1, "sglang"
		case "trtllm-serve", "dynamo.trtllm":
			if i+1 < len(words) && words[i+1] == "serve" {
				return i + 2, "trtllm"
			}
			return i + 1, "trtllm"
		}
	}
	return len(words), ""
}

type argReader struct {
	args EngineArgs
	env  map[string]string
	read func(string) ([]byte, error)
}

func (a *argReader) note(format string, args ...any) {
	a.args.Notes = append(a.args.Notes, fmt.Sprintf(format, args...))
}

// Flags by engine, underscores written as hyphens, and what they set.
var engineFlags = map[string]map[string]string{
	"vllm": {"--tensor-parallel-size": "tp", "-tp": "tp", "--pipeline-parallel-size": "pp", "-pp": "pp", "--data-parallel-size": "dp", "-dp": "dp",
		"--block-size": "block", "--kv-cache-dtype": "dtype", "--model": "model", "--kv-transfer-config": "transfer", "--attention-backend": "backend",
		"--decode-context-parallel-size": "stripe", "-dcp": "stripe", "--prefill-context-parallel-size": "stripe", "-pcp": "stripe",
		"--is-prefill-worker": "prefill", "--is-decode-worker": "decode", "--disaggregation-mode": "role"},
	"sglang": {"--tp": "tp", "--tp-size": "tp", "--tensor-parallel-size": "tp", "--pp": "pp", "--pp-size": "pp", "--pipeline-parallel-size": "pp",
		"--dp": "dp", "--dp-size": "dp", "--data-parallel-size": "dp", "--enable-dp-attention": "dpattention", "--page-size": "block",
		"--kv-cache-dtype": "dtype", "--model-path": "model", "--model": "model", "--disaggregation-mode": "role", "--disaggregation-ib-device": "devices",
		"--dcp-size": "stripe", "--attn-cp-size": "stripe"},
	"trtllm": {"--tp-size": "tp", "--tensor-parallel-size": "tp", "--pp-size": "pp", "--pipeline-parallel-size": "pp", "--cp-size": "stripe",
		"--kv-cache-dtype": "dtype", "--model": "model", "--model-path": "model", "--extra-llm-api-options": "yaml", "--config": "yaml", "--extra-engine-args": "yaml",
		"--server-role": "role", "--disaggregation-mode": "role", "--enable-attention-dp": "dpattention"},
}

// switches take no value.
var switches = map[string]bool{"dpattention": true, "prefill": true, "decode": true}

func (a *argReader) command(words []string) error {
	switch a.args.Engine {
	case "vllm":
		a.args.BlockTokens, a.args.Placement = 16, Split
		a.backend(a.env["VLLM_ATTENTION_BACKEND"])
	case "sglang":
		a.args.BlockTokens, a.args.Placement = 1, Split
	case "trtllm":
		a.args.BlockTokens, a.args.Placement = 32, Packed
		if a.env["TRTLLM_TRY_ZCOPY_FOR_KVCACHE_TRANSFER"] == "1" {
			a.args.Placement = Fused
			a.note("TRTLLM_TRY_ZCOPY_FOR_KVCACHE_TRANSFER: blocks are sent from where they lie")
		}
	}
	if len(words) > 0 && !strings.HasPrefix(words[0], "-") {
		a.args.Model, words = words[0], words[1:]
	}
	explicit := false
	for len(words) > 0 {
		flag, value, inline := strings.Cut(words[0], "=")
		words = words[1:]
		if strings.HasPrefix(flag, "--") {
			flag = strings.ReplaceAll(flag, "_", "-")
		}
		what := engineFlags[a.args.Engine][flag]
		takes := what != "" && !switches[what]
		if !inline && takes {
			if len(words) == 0 {
				return fmt.Errorf("%s: has no value", flag)
			}
			value, words = words[0], words[1:]
		}
		if takes && strings.ContainsRune(value, '$') {
			return fmt.Errorf("%s: %q holds a shell variable: write its value", flag, value)
		}
		explicit = explicit || what == "block"
		if err := a.set(what, value); err != nil {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	if !explicit {
		a.note("%s: block of %d tokens, the engine's default", a.args.Engine, a.args.BlockTokens)
	}
	if a.args.Engine == "sglang" && a.args.Parallel.AttentionDP && a.args.Parallel.DP == 0 {
		a.args.Parallel.DP = 1 // SGLang's own default: data-parallel attention over one
	}
	return a.args.Parallel.normal(a.args.Engine).err
}

func (a *argReader) set(what, value string) (err error) {
	p := &a.args.Parallel
	switch what {
	case "tp":
		p.TP, err = positive(value, maxRanks)
	case "pp":
		p.PP, err = positive(value, maxRanks)
	case "dp":
		p.DP, err = positive(value, maxRanks)
	case "block":
		a.args.BlockTokens, err = positive(value, 1024)
	case "dtype":
		a.args.KVDType = ""
		if value != "auto" {
			a.args.KVDType, err = canonicalDType("dtype", value)
		}
	case "model":
		a.args.Model = value
	case "dpattention":
		p.AttentionDP = true
		if value == "false" {
			p.AttentionDP = false
		}
	case "prefill", "decode":
		a.args.Role = what
	case "role":
		err = a.role(value)
	case "backend":
		a.backend(value)
	case "transfer":
		err = a.transfer(value)
	case "devices":
		if !strings.ContainsAny(value, "{./") { // else a map or a file of it, a device for each GPU
			p.Rails = len(strings.Split(value, ","))
		}
	case "stripe":
		n, err := positive(value, maxRanks)
		if err != nil {
			return err
		}
		if n > 1 {
			return errors.New("context parallelism stripes one request's tokens over ranks: that layout is not modelled")
		}
	case "yaml":
		return a.yaml(value)
	}
	return err
}

func (a *argReader) role(value string) error {
	switch strings.ToLower(value) {
	case "prefill", "context", "kv_producer":
		a.args.Role = "prefill"
	case "decode", "generation", "kv_consumer":
		a.args.Role = "decode"
	case "null", "none", "kv_both", "agg", "prefill_and_decode", "":
	default:
		return fmt.Errorf("role %q is not known", value)
	}
	return nil
}

// backend: with FlashInfer the K and V of a block lie together, and vLLM's NixlConnector registers them as one.
func (a *argReader) backend(name string) {
	if strings.HasPrefix(strings.ToUpper(name), "FLASHINFER") {
		a.args.Placement = Fused
		a.note("vllm: %s keeps K and V of a block together", name)
	}
}

func (a *argReader) transfer(value string) error {
	fields, err := parseDocument([]byte(value))
	if err != nil {
		return err
	}
	s := section{fields: fields}
	role, err := s.text("kv_role")
	if err != nil {
		return err
	}
	connector, err := s.text("kv_connector")
	if err != nil {
		return err
	}
	if connector != "" && !strings.HasPrefix(connector, "Nixl") {
		a.note("vllm: connector %s is laid out as NixlConnector is", connector)
	}
	extra, ok, err := s.sub("kv_connector_extra_config")
	if err != nil {
		return err
	}
	if ok && strings.EqualFold(fmt.Sprint(extra.fields["enable_cross_layers_blocks"]), "true") {
		a.args.Order, a.args.Placement = ByBlock, Fused
	}
	return a.role(role)
}

func positive(value string, high int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > high {
		return 0, fmt.Errorf("must be a whole number from 1 to %d, got %s", high, show(value))
	}
	return n, nil
}

func (a *argReader) yaml(name string) error {
	if a.read == nil {
		a.note("trtllm: %s was not read", name)
		return nil
	}
	data, err := a.read(name)
	if err != nil {
		return err
	}
	fields, err := yamlFields(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if err := a.options(section{fields: fields}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// options reads TensorRT-LLM's LLM-API options.
func (a *argReader) options(s section) error {
	p := &a.args.Parallel
	for _, f := range []struct {
		key  string
		into *int
	}{{"tensor_parallel_size", &p.TP}, {"pipeline_parallel_size", &p.PP}} {
		if n, ok, err := s.optional(f.key); err != nil {
			return err
		} else if ok {
			*f.into = n
		}
	}
	var err error
	if p.AttentionDP, err = s.boolean("enable_attention_dp", p.AttentionDP); err != nil {
		return err
	}
	if n, ok, err := s.optional("context_parallel_size"); err != nil {
		return err
	} else if ok && n > 1 {
		return fieldErr(s.at("context_parallel_size"), "context parallelism stripes one request's tokens over ranks: that layout is not modelled")
	}
	cache, ok, err := s.sub("kv_cache_config")
	if err != nil {
		return err
	}
	if ok {
		if a.args.BlockTokens, err = cache.or(a.args.BlockTokens, "tokens_per_block"); err != nil {
			return err
		}
		name, err := cache.text("dtype")
		if err != nil {
			return err
		}
		if name != "" && name != "auto" {
			if a.args.KVDType, err = canonicalDType(cache.at("dtype"), name); err != nil {
				return err
			}
		}
	}
	wire, ok, err := s.sub("cache_transceiver_config")
	if err != nil || !ok {
		return err
	}
	if n, ok, err := wire.optional("max_tokens_in_buffer"); err != nil {
		return err
	} else if ok {
		a.note("trtllm: max_tokens_in_buffer %d: a longer prompt is sent in several pieces", n)
	}
	return nil
}

// fromYAML reads a file of TensorRT-LLM options alone: of one worker, or of context_servers and generation_servers.
func fromYAML(text []byte) ([]EngineArgs, error) {
	fields, err := yamlFields(text)
	if err != nil {
		return nil, nil // not YAML either: the first error says enough
	}
	top := section{fields: fields}
	one := func(s section, role string) (EngineArgs, error) {
		a := &argReader{args: EngineArgs{Engine: "trtllm", Role: role}}
		if err := a.command(nil); err != nil {
			return a.args, err
		}
		a.args.Notes = nil
		if err := a.options(s); err != nil {
			return a.args, err
		}
		return a.args, a.args.Parallel.normal("trtllm").err
	}
	var out []EngineArgs
	for _, side := range [][2]string{{"context_servers", "prefill"}, {"generation_servers", "decode"}} {
		s, ok, err := top.sub(side[0])
		if err != nil {
			return nil, err
		}
		if ok {
			a, err := one(s, side[1])
			if err != nil {
				return nil, err
			}
			out = append(out, a)
		}
	}
	if len(out) == 0 && (top.has("tensor_parallel_size") || top.has("kv_cache_config")) {
		a, err := one(top, "")
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// yamlFields reads YAML through JSON's types, so that one set of checks serves both.
func yamlFields(data []byte) (map[string]any, error) {
	if len(data) > maxArgsBytes {
		return nil, fmt.Errorf("larger than %d MiB", maxArgsBytes>>20)
	}
	var v map[string]any
	if err := yaml.Unmarshal(data, &v); err != nil {
		return nil, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return parseDocument(text)
}
