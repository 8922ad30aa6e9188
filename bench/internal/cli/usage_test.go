package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

func commandRun(t *testing.T, args ...string) (int, string, string) {
	t.Helper()
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Drivers: patients(), Now: time.Now, Getenv: func(string) string { return "" }}
	code := Run(env, args)
	return code, out.String(), errs.String()
}

// every calls f for each command of the program, with the words that name it.
func every(f func(words []string, c *cobra.Command)) {
	var walk func(words []string, c *cobra.Command)
	walk = func(words []string, c *cobra.Command) {
		f(words, c)
		for _, s := range c.Commands() {
			walk(append(words[:len(words):len(words)], s.Name()), s)
		}
	}
	walk(nil, newRoot(&Env{Drivers: patients()}))
}

// TestUsageErrorsAreStatusTwo asks every subcommand for what it cannot be asked for: one line, status 2, nothing written.
func TestUsageErrorsAreStatusTwo(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	folder := filepath.Join(dir, "folder")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	refused := func(args ...string) {
		t.Helper()
		code, out, errs := commandRun(t, args...)
		if code != 2 || strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "hopbench: ") || out != "" {
			t.Errorf("hopbench %s: status %d, want 2 and one line:\n%s%s", strings.Join(args, " "), code, out, errs)
		}
	}
	every(func(words []string, c *cobra.Command) {
		with := func(args ...string) []string { return append(words[:len(words):len(words)], args...) }
		refused(with("--no-such-flag")...)
		refused(with("-Q")...)
		c.Flags().VisitAll(func(f *pflag.Flag) {
			name := "--" + f.Name
			switch f.Value.Type() {
			case "bool":
				refused(with(name + "=perhaps")...)
			case "int", "int64", "uint", "uint64", "float64", "duration":
				refused(with(name, "nonsense")...)
				refused(with(name)...)
			default:
				refused(with(name)...) // its value is missing
			}
		})
	})
	for _, line := range []string{
		"nope", "help nope", "help doctor nope", "completion nope", "completion bash nope",
		"run xx", "serve xx", "probe xx", "doctor xx", "kv a b", "ttft a b",
		"table", "plot", "compare", "compare a", "compare a b c", "import", "export", "report", "kv", "ttft",
		"table absent.jsonl", "plot absent.jsonl", "compare absent.jsonl absent.jsonl", "import absent.txt", "export absent.jsonl", "report absent.jsonl",
		"kv no-such-model --isl 10", "ttft no-such-model --isl 10 --reference",
		"doctor --root absent", "doctor --log folder", "doctor --log absent", "doctor --log=", "doctor --transport nope", "doctor --explain nope",
		"doctor --peer nowhere", "doctor --peer a:1 --log -", "doctor --explain verbs.memlock --peer a:1", "doctor --token-file x",
		"doctor --plan absent", "doctor --plan folder", "doctor --sizes 0", "doctor --sizes nonsense", "doctor --root=", "doctor --peer folder",
		"probe --root absent", "probe --root=", "probe --svg folder", "probe --svg absent/x.svg", "probe --svg=", "probe --json --matrix",
		"serve --listen nonsense", "serve --listen 127.0.0.1:1:2", "serve --max-memory x", "serve --bind nonsense", "serve --token-file absent", "serve --data-port x",
		"run --peer nonsense", "run --transport nope", "run --out folder", "run --plan absent", "run --plan folder", "run --token-file absent --peer 127.0.0.1:9",
		"table folder", "plot folder", "export folder", "report folder", "import folder",
		"kv --isl x", "kv llama-3.1-8b --isl 0", "kv llama-3.1-8b", "ttft llama-3.1-8b", "ttft --example nope",
		"kv folder --isl 10", "ttft llama-3.1-8b --isl 10 --results absent", "ttft llama-3.1-8b --isl 10 --trace absent --reference",
	} {
		refused(strings.Fields(line)...)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("written: %v, %v", left, err)
	}
}

// TestNothingIsReplacedUnasked: every file that a flag names is refused where it exists, and --force replaces it.
func TestNothingIsReplacedUnasked(t *testing.T) {
	dir := t.TempDir()
	results, err := filepath.Glob("../../../results/runs/*/*.jsonl")
	if err != nil || len(results) == 0 {
		if results, err = filepath.Glob("../../../results/runs/*/*/*.jsonl"); err != nil || len(results) == 0 {
			t.Skipf("no committed results: %v", err)
		}
	}
	host := hostFolder + "/hgx-infiniband.txtar"
	perftest, err := filepath.Glob("../../../results/foreign/testdata/*iperf3*.json")
	if err != nil || len(perftest) == 0 {
		t.Fatalf("no foreign output: %v", err)
	}
	for name, args := range map[string][]string{
		"probe.svg":   {"probe", "--root", host, "--svg"},
		"export.txt":  {"export", results[0], "--out"},
		"compare.txt": {"compare", results[0], results[0], "--fail-on", "none", "--out"},
		"report.html": {"report", results[0], "--out"},
		"plot.svg":    {"plot", results[0], "--out"},
		"import.json": {"import", perftest[0], "--out"},
		"run.jsonl":   {"run", "--transport", "loopback", "--sizes", "64", "--op", "write", "--metric", "bandwidth", "--rounds", "2", "--round", "20ms", "--out"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(dir, name)
			if err := os.WriteFile(file, []byte("mine"), 0o644); err != nil {
				t.Fatal(err)
			}
			args = append(args, file)
			if code, _, errs := commandRun(t, args...); code != 2 || !strings.Contains(errs, "--force replaces it") || !strings.Contains(errs, file) {
				t.Errorf("status %d: %s", code, errs)
			}
			if b, _ := os.ReadFile(file); string(b) != "mine" {
				t.Fatal("it was replaced")
			}
			if code, _, errs := commandRun(t, append(args, "--force")...); code != 0 {
				t.Errorf("--force: status %d: %s", code, errs)
			}
			if b, _ := os.ReadFile(file); string(b) == "mine" {
				t.Error("--force did not replace it")
			}
		})
	}
}

func TestNearestNames(t *testing.T) {
	names := []string{"run", "serve", "probe", "doctor", "table", "plot", "kv", "ttft", "compare", "import", "export", "report"}
	for got, want := range map[string]string{
		"rnu": "run", "docter": "doctor", "doc": "doctor", "prob": "probe", "tabel": "table", "compaer": "compare", "Run": "run", "exprot": "export", "tftt": "ttft",
		// Far from all of them: silence is better than a guess.
		"xx": "", "nope": "", "x": "", "": "", "banana": "", "help-me": "", "benchmark": "", "rm": "", "latency": "",
	} {
		hint := nearest(got, names)
		if want == "" && hint != "" || want != "" && !strings.Contains(hint, "did you mean "+want+"?") {
			t.Errorf("%q: %q, want %q", got, hint, want)
		}
	}
	if hint := nearest("--szes", []string{"--sizes", "--rate"}); hint != "; did you mean --sizes?" {
		t.Errorf("%q", hint)
	}
}

func TestHelpOfWhatIsThere(t *testing.T) {
	every(func(words []string, _ *cobra.Command) {
		if len(words) != 1 {
			return
		}
		code, out, errs := commandRun(t, "help", words[0])
		_, flag, _ := commandRun(t, words[0], "--help")
		if code != 0 || errs != "" || out != flag {
			t.Errorf("help %s: status %d, and not what --help says: %s", words[0], code, errs)
		}
	})
	if code, _, errs := commandRun(t, "help", "docter"); code != 2 || !strings.Contains(errs, "did you mean doctor?") {
		t.Errorf("status %d: %s", code, errs)
	}
}

func TestProbeMatrixWithoutGPUs(t *testing.T) {
	if out := probeRun(t, "--matrix", "--root", hostFolder+"/single-roce.txtar"); !strings.Contains(out, "no GPU is seen here") {
		t.Errorf("%q", out)
	}
}
