// Package plan is what a report's TTFT planner computes: a few inputs make a scenario of bench/ttft with the defaults of
// `hopbench ttft`, the result cells make its links, and the answer is the same document that `hopbench ttft --json` prints, with
// the texts of a table beside it. A page calls it as WebAssembly and the command calls it natively: there is no second planner.
//
// Sizes are bytes, times seconds, lengths tokens. Nothing here opens a file; a model is a name of the catalogue.
package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/prefill"
	"hopbench/bench/ttft/question"
)

// Ask is what a reader of a report may set. The zero value of a field that has a default means the default.
type Ask struct {
	Model   string `json:"model"`      // a name of the catalogue
	ISL     int64  `json:"isl_tokens"` // of the prompt
	OSL     int    `json:"osl_tokens"` // of the output; 0 is 128
	TP      int    `json:"tp"`         // tensor-parallel ranks of both sides; 0 is 1
	Engine  string `json:"engine"`     // a preset's name; empty is the first
	Overlap string `json:"overlap"`    // serial, chunked or layerwise; empty is the engine's own

	Rate  float64 `json:"rate_requests_per_second"` // Poisson arrivals; 0 with Users 0 is a request alone
	Users int     `json:"users"`                    // in a closed loop

	PrefillRate float64 `json:"prefill_tokens_per_second"` // of one worker, measured; 0 is by FLOPs of GPU
	GPU         string  `json:"gpu"`                       // empty is h100
	Workers     int     `json:"prefill_workers"`           // 0 is 1
	Decoders    int     `json:"decode_workers"`            // 0 is 1

	Limit       float64 `json:"limit_seconds"` // of TTFT; 0 is none
	Quantile    string  `json:"quantile"`      // that the limit is put on: p50, p90, p99; empty is p99
	Find        bool    `json:"find"`          // also the largest rate within the limit, and the bandwidth that it needs
	References  bool    `json:"reference"`     // the field's published links beside the measured ones
	Extrapolate bool    `json:"extrapolate"`   // answer outside what was measured, and label it
}

// Default is what a report shows before its reader changes anything: a model of the size that fits one GPU, a prompt of 8192
// tokens, one request alone, and the field's published links beside the measured ones.
func Default() Ask {
	return Ask{Model: "meta-llama/Meta-Llama-3.1-8B", ISL: 8192, OSL: question.Defaults().Output, TP: 1, Engine: engine.Presets()[0].Name, GPU: question.Defaults().GPU, Workers: 1, Decoders: 1, Quantile: "p99", References: true}
}

// mostUsers bounds a page's simulation, which must end while its reader waits.
const mostUsers = 1000

// scenario is the deployment and the load of the ask, with the defaults of `hopbench ttft`.
func (a Ask) scenario() (*ttft.Scenario, error) {
	name := a.Engine
	if name == "" {
		name = engine.Presets()[0].Name
	}
	preset, err := engine.Find(name)
	if err != nil {
		return nil, err
	}
	switch {
	case a.ISL < 1 || a.ISL > ttft.MaxTokens:
		return nil, fmt.Errorf("the prompt must be 1 to %d tokens, not %d", ttft.MaxTokens, a.ISL)
	case !(a.Rate >= 0) || math.IsInf(a.Rate, 0) || a.Users < 0:
		return nil, errors.New("a rate and a number of users are not negative")
	case a.Users > mostUsers:
		return nil, fmt.Errorf("%d users: a page simulates %d at most; `hopbench ttft` takes more", a.Users, mostUsers)
	case !(a.Limit >= 0) || math.IsInf(a.Limit, 0):
		return nil, errors.New("the limit must be a time above 0, or empty")
	case a.Find && a.Limit == 0:
		return nil, errors.New("the largest rate and the bandwidth needed ask for a limit of TTFT")
	case a.TP < 0 || a.Workers < 0 || a.Decoders < 0 || a.OSL < 0:
		return nil, errors.New("a number of ranks, workers or tokens is negative")
	}
	var tp kvcache.Parallel // one rank is what no number means
	if a.TP > 1 {
		tp.TP = a.TP
	}
	d := question.Defaults()
	s := question.Scenario(preset)
	s.PrefillWorkers, s.DecodeWorkers = max(1, a.Workers), max(1, a.Decoders)
	s.Limit, s.Strict = a.Limit, !a.Extrapolate
	s.Layout.Tokens, s.Layout.Prefill, s.Layout.Decode = a.ISL, tp, tp
	s.Load.Rate, s.Load.Concurrency, s.Load.Input = a.Rate, a.Users, int(a.ISL)
	if a.OSL > 0 {
		s.Load.Output = a.OSL
	}
	if err := question.Settle(&s.Load); err != nil {
		return nil, err
	}
	if s.Overlap, err = question.Overlap(a.Overlap, preset); err != nil {
		return nil, err
	}
	if s.Model, err = model(a.Model); err != nil {
		return nil, err
	}
	if a.PrefillRate != 0 {
		s.Prefill, err = prefill.Rate(a.PrefillRate, 0)
		return s, err
	}
	s.Prefill, err = question.FLOPs(s, a.GPU, 0, 0, d.MFU, 0)
	return s, err
}

// model is one of the catalogue, and nothing else: a page's input is no file's name.
func model(name string) (*kvcache.Model, error) {
	if !slices.Contains(kvcache.Catalogue(), name) {
		return nil, fmt.Errorf("model %q is not in the catalogue", name)
	}
	return kvcache.Load(name, kvcache.LoadOptions{})
}

func or(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// Command is the command line that gives the same figures, with files for its result files.
func (a Ask) Command(files ...string) string {
	b := []string{"hopbench", "ttft", shell(a.Model), "--isl", fmt.Sprint(a.ISL)}
	add := func(set bool, args ...string) {
		if set {
			b = append(b, args...)
		}
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	add(len(files) > 0, "--results")
	if len(files) > 0 {
		quoted := make([]string, len(files))
		for i, f := range files {
			quoted[i] = shell(f)
		}
		b = append(b, strings.Join(quoted, ","))
	}
	add(a.References, "--reference")
	add(a.OSL != 0 && a.OSL != question.Defaults().Output, "--osl", fmt.Sprint(a.OSL))
	add(a.TP > 1, "--tp", fmt.Sprint(a.TP))
	add(a.Engine != "" && a.Engine != engine.Presets()[0].Name, "--engine", shell(a.Engine))
	add(a.Overlap != "", "--overlap", shell(a.Overlap))
	add(a.Rate > 0, "--rate", number(a.Rate))
	add(a.Users > 0, "--concurrency", fmt.Sprint(a.Users))
	add(a.PrefillRate != 0, "--prefill-rate", number(a.PrefillRate))
	add(a.PrefillRate == 0 && a.GPU != "" && a.GPU != question.Defaults().GPU, "--gpu", shell(a.GPU))
	add(a.Workers > 1, "--prefill-workers", fmt.Sprint(a.Workers))
	add(a.Decoders > 1, "--decode-workers", fmt.Sprint(a.Decoders))
	add(a.Limit > 0, "--limit", number(a.Limit)+"s")
	add(a.Limit > 0 && a.Quantile != "" && a.Quantile != "p99", "--quantile", shell(a.Quantile))
	add(a.Find, "--find", "rate,bandwidth")
	add(a.Extrapolate, "--extrapolate")
	return strings.Join(b, " ")
}

// shell quotes a word where a shell would not take it as it stands.
func shell(s string) string {
	if s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=") == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
