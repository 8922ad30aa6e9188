package cli_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"hopbench/results"
)

// doubleDriver builds the double of libcuda once and returns its folder, for LD_LIBRARY_PATH.
var doubleDriver = sync.OnceValues(func() (string, error) {
	sources, err := filepath.Glob("../../../transports/internal/cuda/testdata/fakecuda/*.c")
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "hopbench-fakecuda-")
	if err != nil {
		return "", err
	}
	out, err := exec.Command("gcc", append([]string{"-O2", "-fPIC", "-shared", "-pthread", "-Wl,-soname,libcuda.so.1", "-Wl,-z,nodelete", "-o", filepath.Join(dir, "libcuda.so.1")}, sources...)...).CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
	}
	return dir, err
})

// onDouble runs the program over the double and returns its exit status and what it wrote.
func onDouble(t *testing.T, env []string, args ...string) (code int, output string) {
	t.Helper()
	exe, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := doubleDriver()
	if err != nil {
		t.Fatalf("build the double of libcuda with gcc: %v", err)
	}
	c := exec.Command(exe, args...)
	c.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+dir), env...)
	var both bytes.Buffer
	c.Stdout, c.Stderr = &both, &both
	err = c.Run()
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return code, both.String()
}

// Three GPUs, of which 1 and 2 do not reach each other: each ordered pair by itself and each GPU with all others at once, one way and both.
func TestPairsOfGPUs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pairs.jsonl")
	code, output := onDouble(t, []string{"FAKECUDA_DEVICES=3", "FAKECUDA_PEERS=0-1,0-2"}, "run", "--gpus", "all", "--pairs", "all,one-to-all",
		"--op", "write", "--sizes", "64KiB", "--rounds", "3", "--round", "20ms", "--warmup", "1ms", "--out", file)
	// Figures of a double are shown by nobody: the run's own table says so, and so do the others.
	if code != 1 || !strings.Contains(output, "realm double") {
		t.Fatalf("exit status %d\n%s", code, output)
	}
	runs, err := results.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if runs[0].Footer == nil || runs[0].Footer.State != results.StateComplete || runs[0].Header.Settings["gpus"] != "all" {
		t.Errorf("%+v", runs[0].Footer)
	}
	type kind struct{ schedule, metric, direction string }
	pairs := map[kind]map[string]int{}
	sums := map[string]int{}
	for _, c := range runs[0].Cells {
		if c.Status != results.StatusOK || c.Realm != results.RealmDouble || c.InitiatorHost != "" {
			t.Errorf("%s to %s: %s (%s), realm %s", c.InitiatorMemory, c.TargetMemory, c.Status, c.Reason, c.Realm)
			continue
		}
		pair := c.InitiatorMemory + ">" + c.TargetMemory
		if c.Rail != "" {
			sums[c.Rail+", "+pair+", "+c.Direction]++
			continue
		}
		k := kind{c.Schedule, c.Metric(), c.Direction}
		if pairs[k] == nil {
			pairs[k] = map[string]int{}
		}
		pairs[k][pair]++
		staged := pair == "cuda:1>cuda:2" || pair == "cuda:2>cuda:1"
		if strings.Contains(c.Label, "host-staged") != staged {
			t.Errorf("%s is labelled %q", pair, c.Label)
		}
		if c.Verified == nil || !*c.Verified {
			t.Errorf("%s: not verified", pair)
		}
	}
	for _, k := range []kind{{"isolated", "bandwidth", "forward"}, {"isolated", "bandwidth", "both"}, {"isolated", "latency", "forward"},
		{"one-to-all", "bandwidth", "forward"}, {"one-to-all", "bandwidth", "both"}, {"one-to-all", "latency", "forward"}} {
		if len(pairs[k]) != 6 {
			t.Errorf("%v: %v", k, pairs[k])
		}
	}
	for _, a := range []string{"0", "1", "2"} {
		for _, direction := range []string{"forward", "both"} {
			if sums["cuda:"+a+" to all, cuda:"+a+">cuda:all, "+direction] != 1 {
				t.Errorf("sums: %v", sums)
			}
		}
	}
	for _, args := range [][]string{{"table", "--view", "pairs", file}, {"table", file}, {"plot", file, "--out", filepath.Join(t.TempDir(), "x.svg")},
		{"compare", file, file}, {"export", "--format", "gobench", file}} {
		if code, output := onDouble(t, nil, args...); code != 2 || !strings.Contains(output, "double") {
			t.Errorf("%v: exit status %d\n%s", args, code, output)
		}
	}
}

// A GPU that this process does not see is a reason in each row of its pairs; the others are measured.
func TestPairsThatAreNone(t *testing.T) {
	for _, c := range []struct {
		name   string
		env    []string
		gpus   string
		code   int
		ok     int // rows
		waived int
		reason string
	}{
		{"one of three is not visible", []string{"FAKECUDA_DEVICES=2"}, "0,1,5", 3, 2, 4, "not among the 2 GPUs that this process sees"},
		{"hidden by CUDA_VISIBLE_DEVICES", []string{"FAKECUDA_DEVICES=4", "CUDA_VISIBLE_DEVICES=0,1"}, "0,1,2", 3, 2, 4, "CUDA_VISIBLE_DEVICES"},
		{"one GPU", []string{"FAKECUDA_DEVICES=1"}, "all", 3, 0, 1, "peer access joins two"},
		{"one GPU, two asked for", []string{"FAKECUDA_DEVICES=1"}, "0,1", 3, 0, 2, "peer access joins two"},
		{"MIG", []string{"FAKECUDA_MIG=1"}, "all", 3, 0, 1, "MIG instance"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pairs.jsonl")
			code, output := onDouble(t, c.env, "run", "--gpus", c.gpus, "--op", "write", "--metric", "bandwidth", "--direction", "forward",
				"--sizes", "4KiB", "--rounds", "3", "--round", "20ms", "--out", file)
			if want := c.code; code != want && !(c.ok > 0 && code == 1) { // figures of a double cannot be printed
				t.Errorf("exit status %d\n%s", code, output)
			}
			runs, err := results.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			ok, waived := 0, 0
			for _, cell := range runs[0].Cells {
				switch {
				case cell.Status == results.StatusOK:
					ok++
				case cell.Status == results.StatusWaived && strings.Contains(cell.Reason, c.reason) && cell.Code != "":
					waived++
				default:
					t.Errorf("%s: %s", cell.Status, cell.Reason)
				}
			}
			if ok != c.ok || waived != c.waived {
				t.Errorf("%d ok, %d waived", ok, waived)
			}
		})
	}
}

func TestPairsUsage(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--gpus", "0"}, "a pair takes two GPUs"},
		{[]string{"--gpus", "0,0"}, "a pair takes two GPUs"},
		{[]string{"--gpus", "0,x"}, "want all, or numbers"},
		{[]string{"--gpus", "all", "--pairs", "ring"}, "there is no \"ring\""},
		{[]string{"--gpus", "all", "--pairs", ""}, "--pairs: it is empty"},
		{[]string{"--pairs", "all"}, "--pairs goes with --gpus"},
		{[]string{"--gpus", "all", "--mem", "pinned"}, "--gpus and --mem: choose one"},
		{[]string{"--gpus", "all", "--peer", "a:1"}, "--gpus and --peer: choose one"},
		{[]string{"--gpus", "all", "--direction", "reverse"}, "both orders anyhow"},
		{[]string{"--gpus", "all", "--transport", "tcp"}, "want cuda-peer"},
	} {
		if code, output := onDouble(t, nil, append([]string{"run"}, c.args...)...); code != 2 || !strings.Contains(output, c.want) || strings.Count(output, "\n") != 1 {
			t.Errorf("%v: exit status %d\n%s", c.args, code, output)
		}
	}
}
