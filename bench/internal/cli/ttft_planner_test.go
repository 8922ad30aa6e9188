package cli

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hopbench/bench/report/plan"
	"hopbench/results"
)

// TestThePlannerIsTheCommand holds the planner of a report's page to the command, figure by figure and without a browser: the command line
// that an answer shows gives the same document.
func TestThePlannerIsTheCommand(t *testing.T) {
	file := sweepFile(t, "read")
	// Requests of many pieces with a time each, more of them than a page carries: the spread of ranks is from as many on both sides.
	listed := filepath.Join(t.TempDir(), "kv.jsonl")
	var b strings.Builder
	b.WriteString(`{"record":"header","schema":"hopbench.results/v1","tool_version":"test","started":"2026-12-01T00:00:00Z","hosts":[]}` + "\n")
	for _, n := range []int64{1000, 100_000} {
		c := results.Cell{Transport: "tcp", Label: "tcp, same host", Realm: results.RealmSoftware, Definition: "bandwidth.notified", Operation: "read", Direction: "forward", PieceBytes: 4096, TotalBytes: 4096 * n,
			Descriptors: n, Pattern: "scattered", Depth: 1, Streams: 1, Concurrency: 1, InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: results.StatusOK,
			Bandwidth: &results.Bandwidth{BytesPerSecond: 2e9, Rounds: []float64{2e9}}, Settings: map[string]string{"request": "x"}}
		for i := range 700 {
			c.RequestSeconds = append(c.RequestSeconds, 1+0.1*float64(i%7)+0.001*float64(i%11))
		}
		line, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	b.WriteString(`{"record":"footer","state":"complete","cells":2}` + "\n")
	if err := os.WriteFile(listed, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	runs, err := results.ReadFiles(file, listed)
	if err != nil {
		t.Fatal(err)
	}
	cells := plan.Slim(append(runs[0].Cells, runs[1].Cells...))
	first := plan.Default()
	for name, change := range map[string]func(*plan.Ask){
		"the page's first":   func(*plan.Ask) {},
		"a rate and a limit": func(a *plan.Ask) { a.Model, a.TP, a.Rate, a.Limit = "Qwen/Qwen3-32B", 4, 0.5, 2 },
		"users, layer by layer": func(a *plan.Ask) {
			a.Engine, a.Overlap, a.Users, a.PrefillRate, a.Extrapolate = "vllm-nixl-push", "layerwise", 4, 40000, true
		},
		"found":             func(a *plan.Ask) { a.ISL, a.Limit, a.Quantile, a.Find = 2048, 1, "p90", true },
		"more workers":      func(a *plan.Ask) { a.Workers, a.Decoders, a.Rate, a.OSL, a.GPU = 3, 2, 1, 17, "b200" },
		"ranks that differ": func(a *plan.Ask) { a.TP, a.Rate = 8, 0.5 },
		"out of its range":  func(a *plan.Ask) { a.Engine, a.ISL, a.TP, a.References = "vllm-nixl", 100, 8, true },
	} {
		t.Run(name, func(t *testing.T) {
			ask := first
			change(&ask)
			answer, err := plan.Of(ask, cells, file, listed)
			if err != nil {
				t.Fatal(err)
			}
			args := splitShell(t, answer.Command)
			code, out, errs := ttftRun(t, append(args[2:], "--json")...)
			if code != 0 {
				t.Fatalf("%q: status %d: %s", args, code, errs)
			}
			if measured := strings.Contains(out, `"rank_spread": "measured"`); measured != (ask.TP > 1) {
				t.Errorf("TP%d: the ranks' spread is measured: %v", ask.TP, measured)
			}
			b, err := json.Marshal(answer.Document)
			if err != nil {
				t.Fatal(err)
			}
			var got, want map[string]any
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(out), &want); err != nil {
				t.Fatal(err)
			}
			delete(want, "measured_by") // the page has the runs beside it
			delete(want, "tool")
			alike(t, "", got, want)
		})
	}
}

// splitShell splits the command line of an answer, whose words need no quotes here.
func splitShell(t *testing.T, line string) []string {
	t.Helper()
	var words []string
	for rest := line; rest != ""; {
		var word string
		if n, _ := fmt.Sscan(rest, &word); n != 1 || filepath.Clean(word) == "" {
			break
		}
		words = append(words, word)
		rest = rest[min(len(rest), len(word)+1):]
	}
	return words
}

// alike compares two documents: every figure and text, but for the reason of a refusal, which names the asker's own way out.
func alike(t *testing.T, at string, got, want any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for k := range g {
			if _, ok := w[k]; !ok {
				t.Errorf("%s/%s: only the planner has it", at, k)
			}
		}
		for k := range w {
			if k != "reason" {
				alike(t, at+"/"+k, g[k], w[k])
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			t.Errorf("%s: %d of %d", at, len(g), len(w))
			return
		}
		for i := range w {
			alike(t, fmt.Sprintf("%s/%d", at, i), g[i], w[i])
		}
	case float64:
		if g, ok := got.(float64); !ok || math.Abs(g-w) > 1e-12*math.Abs(w) {
			t.Errorf("%s: %v, the command says %v", at, got, w)
		}
	default:
		if got != want {
			t.Errorf("%s: %v, the command says %v", at, got, want)
		}
	}
}
