package report_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlannerAnswersAsTheCommandDoes(t *testing.T) {
	c := newChrome(t)
	binary, err := command()
	if err != nil {
		t.Fatal(err)
	}
	input, err := filepath.Abs("testdata/typical.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	path := page(t, read(t, "typical.jsonl"))
	c.open(path)
	for _, k := range []struct {
		name string
		set  map[string]string
		args []string
	}{
		{"alone", map[string]string{"isl_tokens": "4096"}, []string{"llama-3.1-8b", "--isl", "4096", "--reference"}},
		{"under load", map[string]string{"model": "Qwen/Qwen3-32B", "isl_tokens": "8192", "tp": "4", "load": "rate", "amount": "0.5", "limit_seconds": "2"},
			[]string{"Qwen/Qwen3-32B", "--isl", "8192", "--tp", "4", "--rate", "0.5", "--limit", "2s", "--reference"}},
		{"overlap", map[string]string{"engine": "sglang", "overlap": "layerwise", "load": "users", "amount": "4", "prefill_tokens_per_second": "40000", "extrapolate": "on"},
			[]string{"llama-3.1-8b", "--isl", "8192", "--engine", "sglang", "--overlap", "layerwise", "--concurrency", "4", "--prefill-rate", "40000", "--extrapolate", "--reference"}},
		{"found", map[string]string{"isl_tokens": "2048", "limit_seconds": "1", "quantile": "p90", "find": "on"},
			[]string{"llama-3.1-8b", "--isl", "2048", "--limit", "1s", "--quantile", "p90", "--find", "rate,bandwidth", "--reference"}},
	} {
		t.Run(k.name, func(t *testing.T) {
			c.t = t
			want := ttftJSON(t, binary, append(k.args, "--results", input))
			set, err := json.Marshal(k.set)
			if err != nil {
				t.Fatal(err)
			}
			// The page keeps what it was answered; the question is asked by its own inputs.
			c.eval(fmt.Sprintf(`(() => {
				const form = document.getElementById("ask");
				form.reset();
				for (const [name, value] of Object.entries(%s)) {
					const e = form.elements[name];
					if (e.type === "checkbox") e.checked = value === "on"; else e.value = value;
				}
				if (!globalThis.asked) {
					globalThis.asked = true;
					let real;
					Object.defineProperty(globalThis, "hopbenchPlan", { configurable: true, get: () => real && ((q) => (globalThis.reply = real(q))), set: (f) => { real = f; } });
				}
				globalThis.reply = undefined;
				form.elements.load.dispatchEvent(new Event("change", { bubbles: true }));
				return true;
			})()`, set), nil)
			c.wait(`globalThis.reply && document.getElementById("ask-status").textContent.startsWith("Computed")`)
			var text, shown, line string
			c.eval("globalThis.reply", &text)
			var got struct {
				Answer struct {
					Document json.RawMessage
					Rows     []struct{ P50 string }
					Command  string
				}
			}
			if err := json.Unmarshal([]byte(text), &got); err != nil {
				t.Fatal(err)
			}
			compare(t, got.Answer.Document, want)
			c.eval(`document.getElementById("answer-table").tBodies[0].rows[0].cells[1].textContent`, &shown)
			if len(got.Answer.Rows) == 0 || shown != got.Answer.Rows[0].P50 {
				t.Errorf("the table shows %q", shown)
			}
			// The command that the page shows gives these figures too.
			c.eval(`document.getElementById("answer-command").textContent`, &line)
			if line != got.Answer.Command {
				t.Errorf("the page shows %q, the planner says %q", line, got.Answer.Command)
			}
			args := strings.Fields(strings.TrimPrefix(line, "hopbench ttft "))
			for i := range args {
				if args[i] == "typical.jsonl" {
					args[i] = input
				}
			}
			compare(t, got.Answer.Document, ttftJSON(t, binary, args))
		})
	}
	c.t = t
	// A question without an answer is said, and the page goes on.
	var said string
	c.eval(`(() => { const f = document.getElementById("ask"); f.reset(); f.elements.overlap.value = "layerwise"; f.elements.overlap.dispatchEvent(new Event("change", { bubbles: true })); return true; })()`, nil)
	c.wait(`!document.getElementById("ask-error").hidden`)
	c.eval(`document.getElementById("ask-error").textContent`, &said)
	if !strings.Contains(said, "nothing crosses before decode asks") {
		t.Errorf("the page says %q", said)
	}
	quiet(t, c, path)
}

func ttftJSON(t *testing.T, binary string, args []string) []byte {
	t.Helper()
	cmd := exec.Command(binary, append([]string{"ttft", "--json"}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s", cmd.Args, err, stderr.String())
	}
	return out
}

// compare holds every figure of the page's document to the command's. WebAssembly and the host both compute in IEEE doubles,
// but a host may fuse a product and a sum: the last digits may differ.
func compare(t *testing.T, got, want []byte) {
	t.Helper()
	var g, w any
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if m, ok := w.(map[string]any); ok { // the page has the runs and the tool beside it
		delete(m, "measured_by")
		delete(m, "tool")
	}
	same(t, "", g, w)
}

func same(t *testing.T, at string, got, want any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		if len(g) != len(w) {
			t.Errorf("%s: %d keys, want %d", at, len(g), len(w))
		}
		for k := range w {
			if k == "reason" {
				continue // names the asker's own way out
			}
			same(t, at+"/"+k, g[k], w[k])
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			t.Errorf("%s: %d of %d", at, len(g), len(w))
			return
		}
		for i := range w {
			same(t, fmt.Sprintf("%s/%d", at, i), g[i], w[i])
		}
	case float64:
		g, ok := got.(float64)
		if d := g - w; !ok || max(d, -d) > 1e-9*max(w, -w) {
			t.Errorf("%s: %v, the command says %v", at, got, w)
		}
	default:
		if got != want {
			t.Errorf("%s: %v, the command says %v", at, got, want)
		}
	}
}
