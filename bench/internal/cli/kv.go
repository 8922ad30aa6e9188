package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"hopbench/bench/kvcache"
	"hopbench/results/unit"
)

// kvFlags is what the command line asks of a model's cache.
type kvFlags struct {
	tokens          int64
	tp              int
	prefill, decode string
	dpAttention     bool
	rails           int
	blockSize       int
	kvDType         string
	stateDType      string
	placement       string
	order           string
	heads           string
	staging         string
	wholeWindow     bool
	draft           bool
	estimate        bool
	engineArgs      string
	nicRate         string
	json, list      bool
	measured        []string
	sweeps          []string
	fastest         bool
}

func newKV(env *Env) *cobra.Command {
	var f kvFlags
	cmd := &cobra.Command{
		Use:   "kv [MODEL] --isl N",
		Short: "KV geometry of a model: bytes a token, a request's bytes on the wire, descriptors",
		Long: `kv reads a model's config.json and says what one request's KV cache holds, what of it crosses the wire
between a prefill and a decode worker, in which pieces, and which NIC carries most of it.

MODEL is a config.json, a folder that holds one, or a name from the catalogue (--list).
An architecture that is not known is refused; --estimate reads it by its fields, and labels the answer.`,
		Example: `  hopbench kv Qwen/Qwen3-8B --isl 8192 --tp 8
  hopbench kv ./my-model/config.json --isl 32768 --kv-dtype fp8 --json
  hopbench kv llama-3.1-70b --isl 8192 --prefill tp=2 --decode tp=8 --nic-rate 50GB/s
  hopbench kv deepseek-v3 --isl 8192 --tp 8 --dp-attention
  hopbench kv --engine-args serve.sh --isl 8192
  hopbench kv --measured kv.jsonl --sweep sweep.jsonl`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("kv takes one model, not %d: %s", len(args), strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.list {
				return listModels(env.Stdout, f.json)
			}
			model := ""
			if len(args) == 1 {
				model = args[0]
			}
			if len(f.measured) > 0 || len(f.sweeps) > 0 {
				return runHold(env, f, model)
			}
			return runKV(env, cmd, f, model)
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.Int64Var(&f.tokens, "isl", 0, "prompt tokens (input sequence length)")
	flags.IntVar(&f.tp, "tp", 1, "tensor-parallel ranks of both sides")
	flags.StringVar(&f.prefill, "prefill", "", "layout of the prefill worker: tp=N,pp=N,dp=N,dp-attention,rails=N,nics=0:0:1:1")
	flags.StringVar(&f.decode, "decode", "", "layout of the decode worker, in the same form")
	flags.BoolVar(&f.dpAttention, "dp-attention", false, "attention runs data-parallel over the TP ranks, on both sides")
	flags.IntVar(&f.rails, "rails", 0, "NICs a worker, which its ranks share evenly (default one a rank)")
	flags.IntVar(&f.blockSize, "block-size", kvcache.DefaultBlockTokens, "tokens a block (page)")
	flags.StringVar(&f.kvDType, "kv-dtype", "auto", "dtype of the cache; auto: the checkpoint's KV scheme, else the model's dtype")
	flags.StringVar(&f.stateDType, "state-dtype", "auto", "dtype of a recurrent state")
	flags.StringVar(&f.placement, "placement", string(kvcache.Split), "split (K and V apart, as vLLM), fused (together), packed (staging buffer, as TensorRT-LLM)")
	flags.StringVar(&f.order, "order", string(kvcache.ByLayer), "layer (a tensor a layer) or block (all layers of a block together)")
	flags.StringVar(&f.heads, "head-layout", "hnd", "hnd (heads before tokens in a block) or nhd: what a slice of heads costs")
	flags.StringVar(&f.staging, "staging-buffer", "512MiB", "size of the staging buffer of --placement packed")
	flags.BoolVar(&f.wholeWindow, "whole-window", false, "window layers send every block of the prompt")
	flags.BoolVar(&f.draft, "draft", false, "count draft (multi-token-prediction) layers too")
	flags.StringVar(&f.engineArgs, "engine-args", "", "file with vLLM, SGLang or TensorRT-LLM command lines to take the layout from; other flags override it")
	flags.StringVar(&f.nicRate, "nic-rate", "", "a NIC's rate in one direction, to show the least time of a request (50GB/s, 400Gb/s)")
	flags.BoolVar(&f.estimate, "estimate", false, "read an architecture that is not known by its fields, and label the answer")
	flags.StringArrayVar(&f.measured, "measured", nil, "result file of run --kv: hold its requests against their projection from --sweep; again for each trial")
	flags.StringArrayVar(&f.sweeps, "sweep", nil, "result file of run with --pieces, of the same path, for the --measured at the same place")
	flags.BoolVar(&f.fastest, "fastest", false, "with --measured: the fastest round of each cell over all trials, for a machine that others use too")
	flags.BoolVar(&f.json, "json", false, "print JSON")
	flags.BoolVar(&f.list, "list", false, "list the catalogue")
	return cmd
}

func runKV(env *Env, cmd *cobra.Command, f kvFlags, model string) error {
	opts, model, notes, err := f.options(cmd, model)
	if err != nil {
		return err
	}
	m, err := loadModel(model, f.estimate)
	if err != nil {
		return err
	}
	layout, err := m.Layout(opts)
	if err != nil {
		return usagef("%s: %v", model, err)
	}
	layout.Assumptions = append(layout.Assumptions, notes...)
	seconds := 0.0
	if f.nicRate != "" {
		rate, err := unit.ParseRate(f.nicRate)
		if err != nil {
			return usagef("--nic-rate: %v", err)
		}
		seconds = layout.BulkSeconds(rate)
	}
	if f.json {
		out := struct {
			*kvcache.Layout
			Bulk *float64 `json:"bulk_seconds,omitempty"`
		}{Layout: layout}
		if seconds > 0 {
			out.Bulk = &seconds
		}
		enc := json.NewEncoder(env.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(out)
	}
	return printLayout(env.Stdout, layout, f.nicRate, seconds)
}

// loadModel loads a model for any subcommand; whatever is wrong with it is the user's input.
func loadModel(name string, estimate bool) (*kvcache.Model, error) {
	m, err := kvcache.Load(name, kvcache.LoadOptions{Estimate: estimate})
	var field *kvcache.FieldError
	switch {
	case err == nil:
		return m, nil
	case errors.Is(err, kvcache.ErrNoModel):
		return nil, usagef("%v%s (`hopbench kv --list` shows them)", err, nearest(name, kvcache.Catalogue()))
	case errors.As(err, &field) && strings.Contains(field.Reason, "is not known, so its cache"):
		return nil, usagef("%v: --estimate", err)
	default:
		return nil, usagef("%v", err)
	}
}

// options puts the flags together, over what --engine-args gives.
func (f kvFlags) options(cmd *cobra.Command, model string) (o kvcache.Options, name string, notes []string, err error) {
	o = kvcache.Options{Tokens: f.tokens, BlockTokens: f.blockSize, KVDType: f.kvDType, StateDType: f.stateDType, Placement: kvcache.Placement(f.placement),
		Order: kvcache.Order(f.order), WholeWindow: f.wholeWindow, Draft: f.draft}
	set := cmd.Flags().Changed
	if f.engineArgs != "" {
		var from engineLayout
		if from, err = readEngineArgs(f.engineArgs); err != nil {
			return o, "", nil, err
		}
		o.Prefill, o.Decode, notes = from.prefill, from.decode, from.notes
		for flag, apply := range map[string]func(){
			"block-size": func() { o.BlockTokens = from.block },
			"kv-dtype":   func() { o.KVDType = from.dtype },
			"placement":  func() { o.Placement = from.placement },
			"order":      func() { o.Order = from.order },
		} {
			if !set(flag) {
				apply()
			}
		}
		if model == "" {
			model = from.model
		}
	}
	if model == "" {
		return o, "", nil, usagef("kv needs a model: a config.json, a folder that holds one, or a name from the catalogue (--list)")
	}
	if !set("isl") {
		return o, "", nil, usagef("kv needs --isl N, the prompt's tokens")
	}
	if set("block-size") && f.blockSize == 0 {
		return o, "", nil, usagef("--block-size must be 1 to 1024 tokens, not 0")
	}
	for _, s := range []struct {
		flag, text string
		into       *kvcache.Parallel
	}{{"--prefill", f.prefill, &o.Prefill}, {"--decode", f.decode, &o.Decode}} {
		if set("tp") {
			if f.tp < 1 {
				return o, "", nil, usagef("--tp must be at least 1, not %d", f.tp)
			}
			s.into.TP = f.tp
		}
		if s.text != "" {
			p, err := kvcache.ParseParallel(s.text)
			if err != nil {
				return o, "", nil, usagef("%s %v", s.flag, err)
			}
			if p.TP == 0 {
				p.TP = s.into.TP
			}
			*s.into = p
		}
		if f.dpAttention {
			s.into.AttentionDP = true
		}
		if set("rails") {
			if f.rails < 1 {
				return o, "", nil, usagef("--rails must be at least 1, not %d", f.rails)
			}
			if s.into.Rails == 0 {
				s.into.Rails = f.rails
			}
		}
	}
	switch strings.ToLower(f.heads) {
	case "hnd":
	case "nhd":
		o.TokenMajor = true
	default:
		return o, "", nil, usagef("--head-layout is hnd or nhd, not %q", f.heads)
	}
	if o.StagingBytes, err = unit.ParseBytes(f.staging); err != nil {
		return o, "", nil, usagef("--staging-buffer: %v", err)
	}
	return o, model, notes, nil
}

func listModels(w io.Writer, asJSON bool) error {
	names := kvcache.Catalogue()
	if asJSON {
		return json.NewEncoder(w).Encode(names)
	}
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	const repository = "https://huggingface.co/"
	sources := map[string][]string{} // names by where their files are from, with MODEL for the name that stands in most
	for _, name := range names {
		m, err := kvcache.Load(name, kvcache.LoadOptions{})
		if err != nil {
			return err
		}
		fmt.Fprintf(tw, "%s\t%s\n", name, m.Architecture)
		from := strings.Replace(m.Source, repository+name+" ", repository+"MODEL ", 1)
		sources[from] = append(sources[from], name)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nsources")
	for i, from := range slices.SortedFunc(maps.Keys(sources), func(a, b string) int {
		return cmp.Or(len(sources[b])-len(sources[a]), strings.Compare(a, b))
	}) {
		which := "all others"
		if i > 0 {
			which = strings.Join(sources[from], ", ")
		}
		if _, err := fmt.Fprintf(w, "  %s:\n    %s\n", which, strings.ReplaceAll(from, ", as carried", ",\n    as carried")); err != nil {
			return err
		}
	}
	return nil
}

// printLayout prints a layout for people.
func printLayout(w io.Writer, l *kvcache.Layout, rate string, seconds float64) error {
	if l.Estimate {
		fmt.Fprintln(w, "ESTIMATE: this architecture is not known; see the assumptions")
	}
	fmt.Fprintf(w, "%s (%s), %d tokens in blocks of %d, KV in %s\n\n", l.Model, l.Architecture, l.Tokens, l.BlockTokens, l.KVDType)
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintf(tw, "one more token\t%s\tat the end of the prompt\n", size(l.KVBytesPerToken))
	if l.StateBytes > 0 {
		fmt.Fprintf(tw, "recurrent state\t%s\tof a request, whatever its length\n", size(l.StateBytes))
	}
	fmt.Fprintf(tw, "one request holds\t%s\tonce, not rounded to blocks\n", size(l.RequestBytes))
	fmt.Fprintf(tw, "crosses the wire\t%s\t%sx of it, in whole blocks to every rank\n", size(l.WireBytes), unit.Number(float64(l.WireBytes)/float64(l.RequestBytes)))
	for i, d := range l.Descriptors {
		what := " "
		if i == 0 {
			what = fmt.Sprintf("descriptors of decode rank %d", l.DescriptorsRank)
		}
		merged := ""
		if i == len(l.Descriptors)-1 {
			merged = fmt.Sprintf("%d if all blocks were neighbours", l.ContiguousDescriptors)
		}
		fmt.Fprintf(tw, "%s\t%d x %s\t%s\n", what, d.Count, unit.Bytes(d.SizeBytes), merged)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "side\trank\tNIC\tbytes\tdescriptors\tpeer ranks")
	for _, s := range []struct {
		name  string
		ranks []kvcache.Rank
	}{{"prefill", l.PrefillRanks}, {"decode", l.Ranks}} {
		for _, r := range s.ranks {
			fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%d\t%s\n", s.name, r.Rank, r.NIC, r.Bytes, r.Descriptors, span(r.Peers))
		}
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	equal := ""
	switch n := l.EqualNICs - 1; {
	case n == 1:
		equal = "; 1 other carries as much"
	case n > 1:
		equal = fmt.Sprintf("; %d others carry as much", n)
	}
	fmt.Fprintf(w, "\n%s NIC %d binds: it carries %s in %d descriptors%s\n", l.Binding.Side, l.Binding.NIC, size(l.Binding.Bytes), l.Binding.Descriptors, equal)
	if seconds > 0 {
		fmt.Fprintf(w, "at %s a NIC a request takes %s at least, without the cost of descriptors\n", rate, unit.Seconds(seconds))
	}
	fmt.Fprintln(w, "\nassumptions")
	for _, a := range l.Assumptions {
		fmt.Fprintf(w, "  %s\n", a)
	}
	if l.Source != "" {
		fmt.Fprintf(w, "source\n  %s\n", l.Source)
	}
	return nil
}

// size prints bytes exactly, and in decimal units beside it where that is shorter to read.
func size(n int64) string {
	for _, s := range []struct {
		name  string
		worth float64
	}{{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}} {
		if float64(n) >= s.worth {
			return fmt.Sprintf("%d B (%s %s)", n, unit.Number(float64(n)/s.worth), s.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

// span prints rank numbers, runs as 0-7.
func span(ranks []int) string {
	var out []string
	for i := 0; i < len(ranks); {
		j := i
		for j+1 < len(ranks) && ranks[j+1] == ranks[j]+1 {
			j++
		}
		if j > i+1 {
			out = append(out, fmt.Sprintf("%d-%d", ranks[i], ranks[j]))
			i = j + 1
			continue
		}
		out = append(out, strconv.Itoa(ranks[i]))
		i++
	}
	return strings.Join(out, ",")
}
