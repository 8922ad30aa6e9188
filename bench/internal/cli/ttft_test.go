package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hopbench/bench/ttft/report"
	"hopbench/results"
)

// ttftRun runs the subcommand and returns status, standard output and error.
func ttftRun(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now, Getenv: func(string) string { return "" }}
	code := Run(env, append([]string{"ttft"}, args...))
	return code, out.String(), errs.String()
}

// sweepFile writes a sweep of a transport as a result file.
func sweepFile(t *testing.T, operation string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.jsonl")
	var b strings.Builder
	line := func(v any) {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(text, '\n'))
	}
	line(map[string]any{"record": "header", "schema": results.Schema, "tool_version": "test", "started": "2026-12-01T00:00:00Z", "hosts": []any{}})
	cells := 0
	for size := int64(4096); size <= 1<<20; size *= 4 {
		for _, streams := range []int64{1, 8} {
			rate := 2e9 * float64(streams) / (1 + 0.5*float64(streams-1))
			line(map[string]any{"record": "cell", "transport": "tcp", "label": "tcp, same host", "realm": "software", "definition": "bandwidth.confirmed",
				"operation": operation, "direction": "forward", "piece_bytes": size, "total_bytes": size, "descriptors": 1, "pattern": "contiguous",
				"depth": 16, "streams": streams, "concurrency": 1, "initiator_memory": "host", "target_memory": "host", "wait": "adaptive", "status": "ok",
				"bandwidth": map[string]any{"bytes_per_second": rate, "low": rate * 0.95, "high": rate * 1.05, "confidence": 0.95, "rounds": []float64{rate}}})
			cells++
		}
	}
	line(map[string]any{"record": "footer", "state": "complete", "cells": cells})
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTTFTOverMeasuredCells(t *testing.T) {
	file := sweepFile(t, "read")
	code, out, errs := ttftRun(t, "llama-3.1-8b", "--isl", "8000", "--results", file, "--reference", "--prefill-rate", "20000", "--concurrency", "4", "--json")
	if code != 0 {
		t.Fatalf("status %d: %s", code, errs)
	}
	var doc report.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Projections) != 5 {
		t.Fatalf("%d projections, want one measured and four references", len(doc.Projections))
	}
	p := doc.Projections[0]
	if p.Label != "tcp, same host" || p.Provenance["transfer"] != "measured" || p.Provenance["prefill"] != "given" {
		t.Errorf("%s is %v", p.Label, p.Provenance)
	}
	if p.TTFT == nil || p.TTFT.P50Low == nil || *p.TTFT.P50Low > *p.TTFT.P50 || *p.TTFT.P50High < *p.TTFT.P50 {
		t.Errorf("interval %+v", p.TTFT)
	}
	if sum := p.Parts.Queue + p.Parts.Prefill + p.Parts.Transfer + p.Parts.Orchestration + p.Parts.FirstDecode; fmt.Sprintf("%.9f", sum) != fmt.Sprintf("%.9f", *p.TTFT.Mean) {
		t.Errorf("parts add up to %g, mean TTFT is %g", sum, *p.TTFT.Mean)
	}
	for _, r := range doc.Projections[1:] {
		if r.Provenance["transfer"] != "reference" || !strings.Contains(r.Label, "(reference)") {
			t.Errorf("%s is not marked as a reference", r.Label)
		}
	}
	// The keys that programs read.
	var raw map[string][]map[string]any
	_ = json.Unmarshal([]byte(out), &raw)
	for _, key := range []string{"transport", "label", "isl_tokens", "load", "overlap", "ttft_seconds", "parts_seconds", "provenance", "warnings"} {
		if _, ok := raw["projections"][0][key]; !ok {
			t.Errorf("no key %s", key)
		}
	}
}

func TestTTFTSays(t *testing.T) {
	pull := sweepFile(t, "read")
	table := filepath.Join(t.TempDir(), "prefill.csv")
	if err := os.WriteFile(table, []byte("tokens,ms\n1000,50\n8000,400\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		code int
		want string
		args []string
	}{
		{1, "never", []string{"--isl", "8000", "--reference", "--prefill-rate", "20000", "--rate", "5"}},
		{1, "is asked for 201 % of its capacity", []string{"--isl", "8000", "--reference", "--prefill-rate", "20000", "--rate", "5"}},
		{1, "no link can serve this load", []string{"--isl", "8000", "--link", "a=1GB/s", "--prefill-rate", "20000", "--rate", "5"}},
		{0, "never", []string{"--isl", "8000", "--link", "a=1GB/s", "--prefill-rate", "20000", "--rate", "5", "--limit", "2s", "--find", "rate"}},
		{0, "never", []string{"--isl", "8000", "--link", "thin=0.5GB/s", "--link", "wide=10GB/s", "--prefill-rate", "40000", "--rate", "1"}},
		{0, "in 32000 pieces", []string{"--isl", "8000", "--link", "a=1GB/s"}},
		{0, "on 1 GPU of", []string{"--isl", "8000", "--link", "a=1GB/s"}},
		{0, ": 1 NIC for each", []string{"--isl", "8000", "--link", "a=50GB/s", "--limit", "2s", "--find", "bandwidth"}},
		{0, "hypothetical", []string{"--isl", "100", "--reference"}},
		{0, "largest rate", []string{"--isl", "8000", "--link", "a=10GB/s,latency=1us", "--prefill-table", table, "--limit", "1s", "--find", "rate,concurrency,bandwidth,workers"}},
		{0, "faster", []string{"--isl", "8000", "--link", "a=1GB/s", "--link", "b=10GB/s,latency=100ms", "--find", "crossings"}},
		{0, "adds to p50", []string{"--isl", "8000", "--link", "a=1-3GB/s", "--prefill-table", table, "--rate", "0.5", "--requests", "500", "--sensitivity"}},
		{0, "breaks even", []string{"--isl", "8000", "--link", "a=1GB/s", "--prefill-table", table, "--aggregated-p50", "900ms"}},
		{0, "Measured: prefill; not measured", []string{"--isl", "8000", "--link", "a=1GB/s", "--prefill-table", table, "--paragraph"}},
		{0, "stamps spread over their grid of 3 s", []string{"--trace", "../../ttft/testdata/conversation_head.jsonl", "--link", "a=10GB/s", "--prefill-rate", "40000", "--prefill-workers", "4"}},
		{0, "98 s does not follow", []string{"--example", "dynamo-98s"}},
		{0, "against requests/s", []string{"--isl", "8000", "--link", "a=1GB/s", "--prefill-rate", "20000", "--against-rate", "0.1,9", "--requests", "300", "--rate", "0.1"}},
		{1, "measured with read", []string{"--isl", "8000", "--results", pull, "--engine", "sglang"}},
		{1, "outside what was measured", []string{"--isl", "8000", "--results", pull, "--block-size", "1", "--tp", "8"}},
		{0, "extrapolated", []string{"--isl", "8000", "--results", pull, "--block-size", "1", "--tp", "8", "--extrapolate"}},
		{1, "memory is host and not cuda", []string{"--isl", "8000", "--results", pull, "--memory", "cuda"}},
		{0, "from another place", []string{"--isl", "8000", "--results", pull, "--memory", "cuda", "--extrapolate"}},
		{1, "prefill of 100 tokens, measured 1000 to 8000", []string{"--isl", "100", "--link", "a=1GB/s", "--prefill-table", table}},
		{2, "no cell of it", []string{"--isl", "8000", "--results", pull, "--transport", "roce"}},
		{2, "needs a link", []string{"--isl", "8000"}},
		{2, "must be 1 to", []string{"--isl", "0", "--reference"}},
		{2, "must be 1 to", []string{"--isl", "1000000000", "--reference"}},
		{2, "give one", []string{"--isl", "10", "--reference", "--rate", "1", "--concurrency", "1"}},
		{2, "give one", []string{"--isl", "10", "--reference", "--gpu", "h100", "--prefill-rate", "1"}},
		{2, "give --limit", []string{"--isl", "10", "--reference", "--find", "rate"}},
		{2, "there is no mechanism", []string{"--isl", "10", "--reference", "--off", "x"}},
		{2, "there is no example", []string{"--example", "x"}},
		{2, "is not known", []string{"--isl", "10", "--reference", "--engine", "x"}},
		{2, "--rate must be above 0", []string{"--isl", "10", "--reference", "--rate", "NaN"}},
		{2, "--link", []string{"--isl", "10", "--link", "a=fast"}},
		{2, "no rate with its unit", []string{"--isl", "10", "--link", "a=1"}},
		{2, "no rate with its unit", []string{"--isl", "10", "--link", "a=-1GB/s"}},
		{2, "latency -1us is less than none", []string{"--isl", "10", "--link", "a=1GB/s,latency=-1us"}},
		{2, "--against-isl 0,10: want prompt lengths", []string{"--isl", "10", "--reference", "--against-isl", "0,10"}},
		{2, "--against-rate must be above 0, not -1", []string{"--isl", "10", "--reference", "--against-rate", "-1"}},
		{2, "--decode-step must be above 0", []string{"--isl", "10", "--reference", "--decode-step", "0"}},
		{2, "--prefill-workers must be at least 1", []string{"--isl", "10", "--reference", "--prefill-workers", "0"}},
		{2, "--limit must not be less than 0", []string{"--isl", "10", "--reference", "--limit", "-1s"}},
		{2, "--osl must be at least 1", []string{"--isl", "10", "--reference", "--osl", "0"}},
	} {
		args := tc.args
		if tc.args[0] != "--example" {
			args = append([]string{"llama-3.1-8b"}, args...)
		}
		code, out, errs := ttftRun(t, args...)
		if code != tc.code || !strings.Contains(out+errs, tc.want) {
			t.Errorf("ttft %s: status %d, want %d and %q in\n%s%s", strings.Join(args, " "), code, tc.code, tc.want, out, errs)
		}
		if tc.code == 2 && strings.Count(errs, "\n") != 1 {
			t.Errorf("ttft %s: a usage error of more than one line: %s", strings.Join(args, " "), errs)
		}
	}
}

func FuzzPrefillTable(f *testing.F) {
	f.Add("tokens,ms\n1,2\n")
	f.Add("# x\n1 2 3")
	f.Add("1,NaN")
	f.Fuzz(func(t *testing.T, text string) {
		_, _ = parsePrefillTable(strings.NewReader(text))
	})
}

// What is asked about a load has one, or is refused.
func TestTTFTAsksAboutALoad(t *testing.T) {
	base := []string{"llama-3.1-8b", "--isl", "8000", "--link", "x=25GB/s", "--prefill-rate", "20000"}
	code, out, errs := ttftRun(t, append(base, "--against-rate", "0.1,1,50")...)
	if code != 0 || !strings.Contains(out, "50\tnever: cannot be served") {
		t.Errorf("status %d: %s%s", code, out, errs)
	}
	if code, _, errs := ttftRun(t, append(base, "--aggregated-p99", "1s")...); code != 2 || !strings.Contains(errs, "give --rate") {
		t.Errorf("a p99 without a load: status %d: %s", code, errs)
	}
	if code, out, errs := ttftRun(t, append(base, "--limit", "1s", "--quantile", "p90", "--find", "bandwidth")...); code != 0 || strings.Contains(out, "cannot be") {
		t.Errorf("p90 without a load: status %d: %s%s", code, out, errs)
	}
	trace := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(trace, []byte(`{"timestamp":0,"input_length":100,"output_length":10,"hash_ids":[1]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := ttftRun(t, append(base, "--trace", trace)...); code != 2 || !strings.Contains(errs, "--trace and --isl") {
		t.Errorf("a prompt's length beside a trace: status %d: %s", code, errs)
	}
}

func TestTTFTLinksThatCannotBe(t *testing.T) {
	for link, want := range map[string]string{"x=5GB/s-1GB/s": "the lower rate comes first", "x=1e-9GB/s": "without an exponent"} {
		if code, _, errs := ttftRun(t, "llama-3.1-8b", "--isl", "100", "--link", link); code != 2 || !strings.Contains(errs, want) {
			t.Errorf("%s: status %d: %s", link, code, errs)
		}
	}
}
