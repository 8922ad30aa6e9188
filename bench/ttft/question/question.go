// Package question is what all askers of time to first token share, the command and the planner of a report's page: the defaults of a
// deployment, the links that result cells hold, a projection of each, and the answers to questions about a limit. Who asks brings the
// inputs and shows the document; no figure is computed in two places.
//
// Sizes are bytes, times seconds, lengths tokens. Nothing here opens a file.
package question

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/link"
	"hopbench/bench/ttft/prefill"
	"hopbench/bench/ttft/report"
	"hopbench/bench/ttft/sim"
)

// Default is a deployment where nobody says otherwise.
type Default struct {
	Output         int     // tokens
	Budget, Batch  int     // tokens of a prefill iteration; requests of a decode step
	Step, StepEach float64 // of a decode step, and what each of its requests adds; assumed
	GPU            string  // for prefill by FLOPs
	MFU            float64 // share of its peak that prefill reaches, an assumption
	StagingBytes   int64   // of a packed transfer's buffer
}

// Defaults are the same for every asker.
func Defaults() Default {
	return Default{Output: 128, Budget: 8192, Batch: 256, Step: 0.020, StepEach: 0.0001, GPU: "h100", MFU: 0.4, StagingBytes: 512 << 20}
}

// Scenario is a deployment by the defaults around an engine, one worker on each side. It has no model, no prompt and no load yet.
func Scenario(p engine.Preset) *ttft.Scenario {
	d := Defaults()
	return &ttft.Scenario{
		Engine: p, PrefillWorkers: 1, DecodeWorkers: 1, Budget: d.Budget, DecodeBatch: d.Batch, Seed: 1, Strict: true,
		Step: ttft.Step{Base: d.Step, PerRequest: d.StepEach, Provenance: "assumed"},
		Layout: kvcache.Options{BlockTokens: p.BlockTokens, KVDType: "auto", StateDType: "auto", Placement: p.Placement, Order: kvcache.ByLayer,
			StagingBytes: d.StagingBytes},
		Load: ttft.Load{Speed: 1, Output: d.Output},
	}
}

// Overlap is an overlap by its name; empty is the engine's own.
func Overlap(name string, p engine.Preset) (sim.Overlap, error) {
	if name == "" {
		name = p.Overlap
	}
	for _, o := range []sim.Overlap{sim.Serial, sim.Chunked, sim.Layerwise} {
		if report.OverlapName(o) == name {
			return o, nil
		}
	}
	return 0, fmt.Errorf("overlap is serial, chunked or layerwise, not %q", name)
}

// Settle says how many requests of a load are simulated where it does not: one alone without a load, enough for a p99 with one. A rate
// and a number of users at once are an error.
func Settle(l *ttft.Load) error {
	switch {
	case l.Rate > 0 && l.Concurrency > 0:
		return errors.New("a rate and a number of users are two loads: give one")
	case l.Rate == 0 && l.Concurrency == 0 && l.Trace == nil:
		l.Concurrency, l.Requests = 1, 1
	case l.Requests > 0:
	default:
		l.Requests = ttft.Enough(l.Concurrency)
	}
	return nil
}

// FLOPs is prefill by a GPU's peak, for when nothing is measured. gpus 0 is a worker's TP x PP, params 0 the catalogue's active ones.
func FLOPs(s *ttft.Scenario, gpu string, gpus int, params, mfu, floor float64) (*prefill.Model, error) {
	if gpu == "" {
		gpu = Defaults().GPU
	}
	g, err := prefill.FindGPU(gpu)
	if err != nil {
		return nil, err
	}
	if gpus == 0 {
		gpus = max(1, s.Layout.Prefill.TP) * max(1, s.Layout.Prefill.PP)
	}
	return ttft.PrefillByFLOPs(s.Model, params, g, gpus, mfu, floor)
}

// Project projects the scenario on each link and puts it, or the refusal, into the document: list holds what was projected, kept the
// links of it. A trace's stamps are taken in each of the ways that spread lists. how tells the reader of a refusal what answers all
// the same. An error is about the scenario.
func Project(s *ttft.Scenario, links []*link.Link, spread []bool, how string, doc *report.Document) (list []*ttft.Projection, kept []*link.Link, err error) {
	for _, l := range links {
		ok := true
		for _, stamps := range spread {
			c := *s
			c.Load.Spread = stamps
			p, err := ttft.Project(&c, l)
			var outside *curve.Outside
			if errors.As(err, &outside) {
				doc.Refused = append(doc.Refused, report.Refusal{Label: l.Label, Reason: err.Error() + " (" + how + " answers, and labels it)"})
				ok = false
				break
			}
			if err != nil {
				return nil, nil, err
			}
			list = append(list, p)
			doc.Projections = append(doc.Projections, report.Of(p))
		}
		if ok {
			kept = append(kept, l)
		}
	}
	return list, kept, nil
}

// Never says of every projection why its load cannot be served, in one line, where none can be served; it is empty where one can, or
// where there is none.
func Never(list []*ttft.Projection) string {
	var why []string
	for _, p := range list {
		if p.Unserviceable == nil {
			return ""
		}
		if text := p.Link.Label + ": " + p.Unserviceable.Error(); !slices.Contains(why, text) {
			why = append(why, text)
		}
	}
	return strings.Join(why, "; ")
}
