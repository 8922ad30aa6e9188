package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/example"
	"hopbench/bench/ttft/load"
	"hopbench/bench/ttft/prefill"
	"hopbench/bench/ttft/question"
	"hopbench/bench/ttft/report"
	"hopbench/bench/ttft/sim"
	"hopbench/results/unit"
)

// ttftFlags is a deployment, a load, and what is asked of them.
type ttftFlags struct {
	kv kvFlags

	results, transports, links []string
	schedule, pair             string
	reference, extrapolate     bool
	descriptor                 time.Duration
	memory, gpuWay, distance   string

	engine, overlap  string
	handover, router time.Duration

	table, gpu               string
	rate, params, mfu        float64
	gpus                     int
	floor                    time.Duration
	prefills, decodes        int
	budget, batch            int
	prefillPool, decodePool  int
	prefillCache, decodeKept int
	step, stepEach           time.Duration
	spine                    string
	spread                   float64

	arrivals    float64
	concurrency int
	trace       string
	speed       float64
	stamps      string
	requests    int
	osl         int
	seed        uint64

	limit           time.Duration
	quantile        string
	find            []string
	aggP50, aggP99  time.Duration
	off             []string
	sensitivity     bool
	againstISL      string
	againstRate     []float64
	paragraph, json bool
	example         string
}

func newTTFT(env *Env) *cobra.Command {
	var f ttftFlags
	cmd := &cobra.Command{
		Use:   "ttft MODEL --isl N (--results FILE | --reference | --link NAME=RATE)",
		Short: "Time to first token for a model and a load on each measured link, and the reverse",
		Long: `ttft projects time to first token: a model's KV geometry, a link's measured times, prefill, and an engine's way of
handing over, under a load. Transfer times come from result files; --reference puts published figures beside
them and --link figures of your own, each marked as what it is.

What was not measured is refused; --extrapolate answers it all the same and says so.
Without a load one request has everything to itself. A load that no link can serve has no TTFT at any
percentile: the part that is asked for more than it has is named with its utilisation, and the exit
status is 1, unless something else was asked beside it (--find, --against-isl, --against-rate,
--aggregated-p50, --aggregated-p99).

The spread of the ranks of a request, the slowest of which ends it, is measured where the result file
has the times of requests alone (run --kv keeps them); --rank-spread replaces it.`,
		Example: `  hopbench ttft llama-3.1-8b --isl 8000 --reference
  hopbench ttft Qwen/Qwen3-8B --isl 8192 --tp 8 --results runs/ --prefill-rate 40000 --rate 2 --limit 500ms --find rate,bandwidth
  hopbench ttft llama-3.1-70b --isl 8192 --tp 8 --link fabric=50GB/s,latency=2us --concurrency 32 --sensitivity
  hopbench ttft Qwen/Qwen3-32B --trace conversation_trace.jsonl --reference --prefill-workers 16 --tp 4
  hopbench ttft --example dynamo-98s`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("ttft takes one model, not %d: %s", len(args), strings.Join(args, " "))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.example != "" {
				return f.runExample(env)
			}
			model := ""
			if len(args) == 1 {
				model = args[0]
			}
			return f.run(env, cmd, model)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *ttftFlags) register(cmd *cobra.Command) {
	fs, d := cmd.Flags(), question.Defaults()
	fs.SortFlags = false
	fs.Int64Var(&f.kv.tokens, "isl", 0, "prompt tokens (input sequence length); a trace has its own")
	fs.IntVar(&f.osl, "osl", d.Output, "output tokens")
	fs.StringSliceVar(&f.results, "results", nil, "result files, or folders of them")
	fs.StringSliceVar(&f.transports, "transport", nil, "only these transports of the result files")
	fs.BoolVar(&f.reference, "reference", false, "put the field's published links beside, marked as references")
	fs.StringVar(&f.schedule, "schedule", "", "of a mesh's results: the schedule to take, such as incast, or loaded for the only one of several flows (default: each pair by itself)")
	fs.StringVar(&f.pair, "pair", "median", "of a mesh's results: median, slowest, or two hosts, node1,node7")
	fs.StringArrayVar(&f.links, "link", nil, "a link by its figures: NAME=RATE[-RATE][,latency=1us][,descriptor=1.5us] (a NIC, one direction)")
	fs.DurationVar(&f.descriptor, "descriptor-cost", 0, "cost of each piece on the reference links, whose sources give none")
	fs.BoolVar(&f.extrapolate, "extrapolate", false, "answer outside what was measured, and label it")
	fs.StringVar(&f.memory, "memory", "", "memory kind that both sides must have been measured with (host, pinned, cuda)")
	fs.StringVar(&f.gpuWay, "gpu-way", "", "GPU way that must have been measured (dmabuf, peermem, staged, peer)")
	fs.StringVar(&f.distance, "pci-distance", "", "PCI distance between GPU and NIC that must have been measured")

	fs.StringVar(&f.engine, "engine", engine.Presets()[0].Name, "serving engine: "+engineNames())
	fs.StringVar(&f.overlap, "overlap", "", "serial, chunked or layerwise (default: the engine's own)")
	fs.DurationVar(&f.handover, "handover", 0, "cost between prefill and transfer (default: the engine's published figure)")
	fs.DurationVar(&f.router, "router", 0, "cost before prefill")

	fs.StringVar(&f.table, "prefill-table", "", "file of measured prefill: tokens,milliseconds a line")
	fs.Float64Var(&f.rate, "prefill-rate", 0, "measured prefill tokens a second of one worker")
	fs.DurationVar(&f.floor, "prefill-floor", 0, "least time of a prefill iteration (with --prefill-rate or by FLOPs)")
	fs.StringVar(&f.gpu, "gpu", "", "GPU for prefill by FLOPs, where nothing is measured: a100, h100, h200, h800, b200")
	fs.IntVar(&f.gpus, "gpus", 0, "GPUs of a prefill worker, by FLOPs (default: its TP x PP)")
	fs.Float64Var(&f.mfu, "mfu", d.MFU, "share of the GPU's peak that prefill reaches, by FLOPs: an assumption")
	fs.Float64Var(&f.params, "active-params", 0, "parameters active a token, by FLOPs (default: the catalogue's)")
	fs.IntVar(&f.prefills, "prefill-workers", 1, "prefill workers")
	fs.IntVar(&f.budget, "budget", d.Budget, "tokens of one prefill iteration (max_num_batched_tokens); 0 for no limit")
	fs.IntVar(&f.prefillPool, "prefill-pool", 0, "KV pool of a prefill worker in tokens; 0 for no limit")
	fs.IntVar(&f.prefillCache, "prefix-cache", 0, "prefix cache of a prefill worker in tokens (needs a trace with hash_ids)")
	fs.IntVar(&f.decodes, "decode-workers", 1, "decode workers")
	fs.DurationVar(&f.step, "decode-step", seconds(d.Step), "time of a decode step, before its requests")
	fs.DurationVar(&f.stepEach, "decode-step-each", seconds(d.StepEach), "what each request adds to a step")
	fs.IntVar(&f.batch, "decode-batch", d.Batch, "most requests in a decode step; 0 for no limit")
	fs.IntVar(&f.decodePool, "decode-pool", 0, "KV pool of a decode worker in tokens; 0 for no limit")
	fs.IntVar(&f.decodeKept, "decode-cache", 0, "tokens that a decode worker keeps of earlier requests (needs a trace with hash_ids)")
	fs.StringVar(&f.spine, "spine", "", "bandwidth between all prefill and all decode workers (400GB/s)")
	fs.Float64Var(&f.spread, "rank-spread", 0, "spread of the ranks' transfer times (sigma of a lognormal; default: as measured, else none)")

	fs.Float64Var(&f.arrivals, "rate", 0, "Poisson arrivals a second")
	fs.IntVar(&f.concurrency, "concurrency", 0, "users in a closed loop")
	fs.StringVar(&f.trace, "trace", "", "trace in Mooncake's format; with --rate or --concurrency only its lengths are used")
	fs.Float64Var(&f.speed, "speed", 1, "pace of the trace")
	fs.StringVar(&f.stamps, "stamps", "both", "stamps of a trace on a coarse grid: recorded, spread or both")
	fs.IntVar(&f.requests, "requests", 0, "requests to simulate (default 20000, or 20 for each user)")
	fs.Uint64Var(&f.seed, "seed", 1, "the same seed gives the same answer")

	fs.DurationVar(&f.limit, "limit", 0, "limit of TTFT: goodput is counted under it, and --find asks about it")
	fs.StringVar(&f.quantile, "quantile", "p99", "quantile that the limit is put on: p50, p90, p99")
	fs.StringSliceVar(&f.find, "find", nil, "rate, concurrency, bandwidth, workers (within --limit), crossings (prompt lengths)")
	fs.DurationVar(&f.aggP50, "aggregated-p50", 0, "TTFT p50 of an aggregated deployment under the same load, to break even with")
	fs.DurationVar(&f.aggP99, "aggregated-p99", 0, "the same, p99")
	fs.StringSliceVar(&f.off, "off", nil, "switch mechanisms off: "+mechanismNames())
	fs.BoolVar(&f.sensitivity, "sensitivity", false, "rank what each mechanism does to p50 and p99")
	fs.StringVar(&f.againstISL, "against-isl", "", "TTFT of a request alone at these prompt lengths: FROM:TO[:xN] or a list")
	fs.Float64SliceVar(&f.againstRate, "against-rate", nil, "TTFT at these rates of Poisson arrivals, whatever the load of the table is")
	fs.BoolVar(&f.paragraph, "paragraph", false, "print a paragraph for a plan instead of the table")
	fs.StringVar(&f.example, "example", "", "a worked example: dynamo-98s")
	fs.BoolVar(&f.json, "json", false, "print JSON with the provenance of every number")

	fs.IntVar(&f.kv.tp, "tp", 1, "tensor-parallel ranks of both sides")
	fs.StringVar(&f.kv.prefill, "prefill", "", "layout of a prefill worker: tp=N,pp=N,dp=N,dp-attention,rails=N")
	fs.StringVar(&f.kv.decode, "decode", "", "layout of a decode worker, in the same form")
	fs.BoolVar(&f.kv.dpAttention, "dp-attention", false, "attention runs data-parallel over the TP ranks, on both sides")
	fs.IntVar(&f.kv.rails, "rails", 0, "NICs a worker, which its ranks share evenly (default one a rank)")
	fs.IntVar(&f.kv.blockSize, "block-size", kvcache.DefaultBlockTokens, "tokens a block (default: the engine's)")
	fs.StringVar(&f.kv.kvDType, "kv-dtype", "auto", "dtype of the cache")
	fs.StringVar(&f.kv.stateDType, "state-dtype", "auto", "dtype of a recurrent state")
	fs.StringVar(&f.kv.placement, "placement", string(kvcache.Split), "split, fused or packed (default: the engine's)")
	fs.StringVar(&f.kv.order, "order", string(kvcache.ByLayer), "layer or block")
	fs.StringVar(&f.kv.heads, "head-layout", "hnd", "hnd or nhd")
	fs.StringVar(&f.kv.staging, "staging-buffer", "512MiB", "size of the staging buffer of --placement packed")
	fs.BoolVar(&f.kv.wholeWindow, "whole-window", false, "window layers send every block of the prompt")
	fs.BoolVar(&f.kv.draft, "draft", false, "count draft layers too")
	fs.StringVar(&f.kv.engineArgs, "engine-args", "", "file with engine command lines to take the layout from")
	fs.BoolVar(&f.kv.estimate, "estimate", false, "read an architecture that is not known by its fields, and label the answer")
}

func seconds(v float64) time.Duration { return time.Duration(math.Round(v * 1e9)) }

func engineNames() string {
	var names []string
	for _, p := range engine.Presets() {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func mechanismNames() string {
	var names []string
	for _, m := range sim.Mechanisms() {
		names = append(names, m.String())
	}
	return strings.Join(names, ", ")
}

func (f *ttftFlags) runExample(env *Env) error {
	if f.example != "dynamo-98s" {
		return usagef("there is no example %q; there is dynamo-98s", f.example)
	}
	e, err := example.Dynamo98()
	if err != nil {
		return err
	}
	if !f.json {
		return report.WriteExample(env.Stdout, e)
	}
	doc := report.Document{Projections: []report.Projection{}, Tool: toolName(), Example: &report.Example{Title: e.Title, Rows: e.Rows, Cases: e.Cases, Sources: e.Sources}}
	for _, c := range e.Cases {
		doc.Projections = append(doc.Projections, report.Of(c.Projection))
	}
	return printJSON(env, doc)
}

func printJSON(env *Env, v any) error {
	enc := json.NewEncoder(env.Stdout)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func (f *ttftFlags) run(env *Env, cmd *cobra.Command, model string) error {
	s, err := f.scenario(cmd, model)
	if err != nil {
		return err
	}
	doc := report.Document{Projections: []report.Projection{}, Tool: toolName()}
	links, err := f.allLinks(env, &doc, s.Engine.Operation)
	if err != nil {
		return err
	}
	list, kept, err := question.Project(s, links, f.spreads(s), "--extrapolate", &doc)
	if err != nil {
		return usagef("%v", err)
	}
	if err := f.answers(s, kept, list, &doc, env); err != nil {
		return err
	}
	if f.json {
		if err := printJSON(env, doc); err != nil {
			return err
		}
	} else if err := f.print(env, s, list, &doc); err != nil {
		return err
	}
	if len(list) == 0 {
		return exitError{1, errors.New("no link could be projected: " + refusals(doc.Refused))}
	}
	if why := question.Never(list); why != "" && !f.more() {
		return exitError{1, errors.New("no link can serve this load: " + why)}
	}
	return nil
}

// more reports whether something else was asked than TTFT under one load: then a load that cannot be served is one answer of several.
func (f *ttftFlags) more() bool {
	return len(f.find) > 0 || f.againstISL != "" || len(f.againstRate) > 0 || f.aggP50 > 0 || f.aggP99 > 0
}

func refusals(list []report.Refusal) string {
	var out []string
	for _, r := range list {
		out = append(out, r.Reason)
	}
	return strings.Join(out, "; ")
}

// spreads is how a trace's stamps are taken: both ways where they lie on a
// coarse grid, unless one was asked for.
func (f *ttftFlags) spreads(s *ttft.Scenario) []bool {
	if s.Load.Kind() != "trace" || s.Load.Trace.Grid() == 0 {
		return []bool{false}
	}
	switch f.stamps {
	case "recorded":
		return []bool{false}
	case "spread":
		return []bool{true}
	}
	return []bool{false, true}
}

// scenario puts the flags together.
func (f *ttftFlags) scenario(cmd *cobra.Command, name string) (*ttft.Scenario, error) {
	set := cmd.Flags().Changed
	preset, err := engine.Find(f.engine)
	if err != nil {
		return nil, usagef("--engine: %v", err)
	}
	if set("handover") {
		preset.Handover, preset.HandoverFrom = f.handover.Seconds(), "given"
		preset.Sources = append(preset.Sources, "handover given by the user")
	}
	if err := f.ranges(cmd); err != nil {
		return nil, err
	}
	s := question.Scenario(preset)
	s.PrefillWorkers, s.DecodeWorkers, s.Budget, s.DecodeBatch = f.prefills, f.decodes, f.budget, f.batch
	s.PrefillPool, s.DecodePool, s.PrefillCache, s.DecodeCache = f.prefillPool, f.decodePool, f.prefillCache, f.decodeKept
	s.Router, s.Limit, s.Seed, s.Strict = f.router.Seconds(), f.limit.Seconds(), f.seed, !f.extrapolate
	if set("rank-spread") {
		s.RankSigma = &f.spread
	}
	s.Step.Base, s.Step.PerRequest = f.step.Seconds(), f.stepEach.Seconds()
	if set("decode-step") || set("decode-step-each") {
		s.Step.Provenance = "given"
	}
	if f.kv.engineArgs == "" && !set("block-size") {
		f.kv.blockSize = preset.BlockTokens
	}
	if f.kv.engineArgs == "" && !set("placement") {
		f.kv.placement = string(preset.Placement)
	}
	if f.trace == "" && !set("isl") && f.againstISL != "" { // the longest of them is the prompt that the rest is about
		sizes, err := f.lengths()
		if err != nil {
			return nil, err
		}
		if err := cmd.Flags().Set("isl", fmt.Sprint(slices.Max(sizes))); err != nil {
			return nil, err
		}
	}
	if err := f.load(cmd, s); err != nil {
		return nil, err
	}
	options, name, _, err := f.kv.options(cmd, name)
	if err != nil {
		var e exitError
		if errors.As(err, &e) && e.err != nil {
			return nil, usagef("%s", strings.NewReplacer("kv needs", "ttft needs", "(--list)", "(`hopbench kv --list`)").Replace(e.err.Error()))
		}
		return nil, err
	}
	s.Layout = options
	if s.Model, err = loadModel(name, f.kv.estimate); err != nil {
		return nil, err
	}
	if s.Overlap, err = question.Overlap(f.overlap, preset); err != nil {
		return nil, usagef("--%v", err)
	}
	if f.spine != "" {
		if s.Spine, err = unit.ParseRate(f.spine); err != nil {
			return nil, usagef("--spine: %v", err)
		}
	}
	for _, o := range f.off {
		m, err := mechanism(o)
		if err != nil {
			return nil, err
		}
		s.Off = append(s.Off, m)
	}
	if s.Prefill, err = f.prefillModel(s); err != nil {
		return nil, err
	}
	return s, oneOf("--stamps", f.stamps, []string{"both", "recorded", "spread"})
}

// ranges names the flag whose number cannot be.
func (f *ttftFlags) ranges(cmd *cobra.Command) error {
	for _, x := range []struct {
		flag  string
		value int
		least int
	}{
		{"prefill-workers", f.prefills, 1}, {"decode-workers", f.decodes, 1}, {"osl", f.osl, 1}, {"gpus", f.gpus, 0}, {"budget", f.budget, 0}, {"decode-batch", f.batch, 0},
		{"prefill-pool", f.prefillPool, 0}, {"decode-pool", f.decodePool, 0}, {"prefix-cache", f.prefillCache, 0}, {"decode-cache", f.decodeKept, 0},
	} {
		if x.value < x.least {
			return usagef("--%s must be at least %d, not %d", x.flag, x.least, x.value)
		}
	}
	times := map[string]time.Duration{
		"handover": f.handover, "router": f.router, "prefill-floor": f.floor, "decode-step-each": f.stepEach, "limit": f.limit, "descriptor-cost": f.descriptor,
		"aggregated-p50": f.aggP50, "aggregated-p99": f.aggP99,
	}
	for _, flag := range sortedKeys(times) {
		if d := times[flag]; d < 0 {
			return usagef("--%s must not be less than 0, as %v is", flag, d)
		}
	}
	if f.step <= 0 {
		return usagef("--decode-step must be above 0, not %v", f.step)
	}
	if cmd.Flags().Changed("limit") && f.limit == 0 {
		return usagef("--limit must be above 0")
	}
	return nil
}

func mechanism(name string) (sim.Mechanism, error) {
	for _, m := range sim.Mechanisms() {
		if m.String() == name {
			return m, nil
		}
	}
	return 0, usagef("--off: there is no mechanism %q; there are %s", name, mechanismNames())
}

// load fills in what arrives; without a load one request comes alone.
func (f *ttftFlags) load(cmd *cobra.Command, s *ttft.Scenario) error {
	set := cmd.Flags().Changed
	l := ttft.Load{Rate: f.arrivals, Concurrency: f.concurrency, Speed: f.speed, Requests: f.requests, Output: f.osl}
	figures := map[string]float64{"rate": f.arrivals, "concurrency": float64(f.concurrency), "speed": f.speed, "requests": float64(f.requests)}
	for _, flag := range sortedKeys(figures) {
		if v := figures[flag]; set(flag) && !(v > 0 && !math.IsInf(v, 0)) {
			return usagef("--%s must be above 0, not %g", flag, v)
		}
	}
	if f.trace != "" {
		file, err := os.Open(f.trace)
		if err != nil {
			return usagef("--trace: %v", err)
		}
		defer file.Close()
		if set("isl") {
			return usagef("--trace and --isl are two sources of the prompts' lengths: give one")
		}
		if l.Trace, err = load.ReadTrace(file); err != nil {
			return usagef("--trace: %s: %v", f.trace, err)
		}
		mean, _ := l.Trace.Mean()
		if err := cmd.Flags().Set("isl", fmt.Sprintf("%.0f", max(1, mean))); err != nil {
			return err
		}
	} else if set("isl") && (f.kv.tokens < 1 || f.kv.tokens > ttft.MaxTokens) {
		return usagef("--isl must be 1 to %d tokens, not %d", ttft.MaxTokens, f.kv.tokens)
	}
	l.Input = int(f.kv.tokens)
	if f.arrivals > 0 && f.concurrency > 0 {
		return usagef("--rate and --concurrency are two loads: give one")
	}
	if err := question.Settle(&l); err != nil {
		return usagef("%v", err)
	}
	s.Load = l
	return nil
}

func (f *ttftFlags) prefillModel(s *ttft.Scenario) (*prefill.Model, error) {
	n := 0
	for _, given := range []bool{f.table != "", f.rate != 0, f.gpu != ""} {
		if given {
			n++
		}
	}
	if n > 1 {
		return nil, usagef("--prefill-table, --prefill-rate and --gpu are three sources of one thing: give one")
	}
	switch {
	case f.table != "":
		points, err := readPrefillTable(f.table)
		if err != nil {
			return nil, usagef("--prefill-table: %v", err)
		}
		m, err := prefill.Table(points, "measured", "table "+f.table)
		if err != nil {
			return nil, usagef("--prefill-table: %s: %v", f.table, err)
		}
		return m, nil
	case f.rate != 0:
		m, err := prefill.Rate(f.rate, f.floor.Seconds())
		if err != nil {
			return nil, usagef("--prefill-rate: %v", err)
		}
		return m, nil
	}
	if f.gpu != "" {
		if _, err := prefill.FindGPU(f.gpu); err != nil {
			return nil, usagef("--gpu: %v", err)
		}
	}
	m, err := question.FLOPs(s, f.gpu, f.gpus, f.params, f.mfu, f.floor.Seconds())
	if err != nil {
		return nil, usagef("%v (--prefill-table, --prefill-rate or --active-params)", err)
	}
	return m, nil
}
