package cli

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var updateKV = flag.Bool("update-kv", false, "rewrite the golden files of hopbench kv")

// runsKV runs the subcommand alone under the root command's rules for errors.
func runsKV(args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	env := &Env{Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	root := newRoot(env)
	for _, c := range root.Commands() {
		root.RemoveCommand(c)
	}
	root.AddCommand(newKV(env))
	root.SetArgs(append([]string{"kv"}, args...))
	err := root.Execute()
	if err != nil {
		errs.WriteString(err.Error())
		code = status(err)
	}
	return out.String(), errs.String(), code
}

func TestKVGolden(t *testing.T) {
	script := filepath.Join(t.TempDir(), "serve.sh")
	if err := os.WriteFile(script, []byte(`prefill: vllm serve Qwen/Qwen3-8B --tensor-parallel-size 2 --block-size 64 --kv-cache-dtype fp8
decode:  vllm serve Qwen/Qwen3-8B --tensor-parallel-size 4 --block-size 64 --kv-cache-dtype fp8
`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"plain":       {"Qwen/Qwen3-8B", "--isl", "8192"},
		"json":        {"Qwen/Qwen3-8B", "--isl", "8192", "--tp", "2", "--json"},
		"two-sided":   {"llama-3.1-70b", "--isl", "8192", "--prefill", "tp=2", "--decode", "tp=8", "--nic-rate", "50GB/s"},
		"attention":   {"deepseek-v3", "--isl", "8000", "--tp", "8", "--dp-attention"},
		"hybrid":      {"nemotron-3-nano", "--isl", "8192", "--tp", "4", "--rails", "2", "--placement", "fused"},
		"compressed":  {"deepseek-v4-flash", "--isl", "1000", "--kv-dtype", "fp8_ds_mla", "--order", "block", "--placement", "fused", "--block-size", "256"},
		"engine-args": {"--engine-args", script, "--isl", "4096"},
		"list":        {"--list"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, code := runsKV(args...)
			if code != 0 || stderr != "" {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			golden := filepath.Join("testdata", "kv", name+".golden")
			if *updateKV {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(stdout), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), stdout); diff != "" {
				t.Errorf("-want +got (update with -update-kv)\n%s", diff)
			}
		})
	}
}

// The keys that other programs read.
func TestKVJSONKeys(t *testing.T) {
	stdout, _, code := runsKV("llama-3.1-8b", "--isl", "8192", "--tp", "8", "--json")
	if code != 0 {
		t.Fatal(code)
	}
	var got struct {
		Model       string `json:"model"`
		Rate        int64  `json:"kv_bytes_per_token"`
		State       *int64 `json:"state_bytes"`
		Request     int64  `json:"request_bytes"`
		Wire        int64  `json:"wire_bytes"`
		Descriptors []struct {
			Size  int64 `json:"size_bytes"`
			Count int64 `json:"count"`
		} `json:"descriptors"`
		Ranks []struct {
			Rank        *int  `json:"rank"`
			NIC         *int  `json:"nic"`
			Bytes       int64 `json:"bytes"`
			Descriptors int64 `json:"descriptors"`
		} `json:"ranks"`
		Assumptions []string `json:"assumptions"`
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil {
		t.Fatal(err)
	}
	// 32 layers x 8 heads x 256 x 2 B; 32 x 2 x 512 pieces of 16 x 128 x 2 B a rank.
	if got.Rate != 131072 || got.State == nil || *got.State != 0 || got.Request != 1<<30 || got.Wire != 1<<30 || len(got.Descriptors) != 1 ||
		got.Descriptors[0].Size != 4096 || got.Descriptors[0].Count != 32768 || len(got.Ranks) != 8 || *got.Ranks[7].Rank != 7 || *got.Ranks[7].NIC != 7 ||
		got.Ranks[7].Bytes != 1<<27 || got.Ranks[7].Descriptors != 32768 || len(got.Assumptions) == 0 {
		t.Errorf("%+v", got)
	}
}

func TestKVRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	unknown := write("unknown.json", `{"architectures":["FooForCausalLM"],"num_hidden_layers":2,"num_attention_heads":4,"hidden_size":64}`)
	differ := write("differ.sh", "prefill: vllm serve m --block-size 16\ndecode: vllm serve m --block-size 64")
	twice := write("twice.sh", "vllm serve m\nvllm serve m")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "kv needs a model"},
		{[]string{"a", "b"}, "kv takes one model"},
		{[]string{"llama-3.1-8b"}, "kv needs --isl"},
		{[]string{"llama-3.1-8b", "--isl", "0"}, "at least 1, not 0"},
		{[]string{"llama-3.1-8b", "--isl", "many"}, "--isl"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--tp", "0"}, "--tp must be at least 1"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--tp", "5"}, "tp 5 does not divide"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--block-size", "0"}, "--block-size"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--prefill", "tp"}, "--prefill"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--rails", "0"}, "--rails"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--head-layout", "x"}, "--head-layout"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--staging-buffer", "x"}, "--staging-buffer"},
		{[]string{"llama-3.1-8b", "--isl", "10", "--nic-rate", "fast"}, "--nic-rate"},
		{[]string{"Qwen/Qwen3-8C", "--isl", "10"}, "did you mean Qwen/Qwen3-8B?"},
		{[]string{unknown, "--isl", "10"}, `architecture "FooForCausalLM" is not known`},
		{[]string{filepath.Join(dir, "none.json"), "--isl", "10"}, "no such file"},
		{[]string{"--engine-args", differ, "--isl", "10"}, "block size differs"},
		{[]string{"--engine-args", twice, "--isl", "10"}, "put prefill: or decode:"},
		{[]string{"--engine-args", filepath.Join(dir, "none"), "--isl", "10"}, "no such file"},
	} {
		stdout, stderr, code := runsKV(tt.args...)
		if code != 2 || !strings.Contains(stderr, tt.want) || stdout != "" || strings.Contains(stderr, "\n") {
			t.Errorf("%v: exit %d, stdout %q, stderr %q, want exit 2 and %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
	stdout, stderr, code := runsKV(unknown, "--isl", "10", "--estimate")
	if code != 0 || !strings.HasPrefix(stdout, "ESTIMATE") {
		t.Errorf("estimate: exit %d %q %q", code, stdout, stderr)
	}
}
