package scripts

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"hopbench/results"
	"hopbench/transports/transporttest/need"
)

// quick keeps a mesh of four ranks to seconds.
var quick = []string{"--metric", "bandwidth", "--sizes", "64KiB", "--duration", "60ms", "--round", "20ms", "--warmup", "10ms"}

// meshHelp is what hopbench mesh --help says.
func meshHelp(t *testing.T) string {
	t.Helper()
	out, err := exec.Command(tool, "mesh", "--help").CombinedOutput()
	if err != nil {
		t.Fatalf("hopbench mesh --help: %v\n%s", err, out)
	}
	return string(out)
}

// command runs a command line in a folder, without the variables of what may have started this test, and with others.
func command(t *testing.T, dir string, env []string, argv ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.WaitDelay = dir, 10*time.Second
	for _, e := range os.Environ() {
		if !regexp.MustCompile(`^(SLURM|OMPI_|PMI|HOPBENCH|JOB_COMPLETION|MPIRUN|RANK=|WORLD_SIZE=|MASTER_)`).MatchString(e) {
			c.Env = append(c.Env, e)
		}
	}
	c.Env = append(c.Env, "HOPBENCH="+tool, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	c.Env = append(c.Env, env...)
	return c
}

// freePort is a port of loopback that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	a, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// wholeMatrix holds a result file to one good row over TCP for each ordered pair of so many ranks, and what was printed to a matrix.
func wholeMatrix(t *testing.T, file, printed string, ranks int, source string) {
	t.Helper()
	runs, err := results.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != 1 {
		t.Fatalf("%s has %d runs", file, len(runs))
	}
	if said := runs[0].Header.Settings["mesh_rank_source"]; !strings.Contains(said, source) {
		t.Errorf("the ranks were found by %q, want %q", said, source)
	}
	pairs := map[string]int{}
	hosts := map[string]bool{}
	for _, c := range runs[0].Cells {
		if c.InitiatorHost == "" || c.Transport != "tcp" {
			continue
		}
		if c.Status != results.StatusOK || c.Bandwidth == nil || c.Bandwidth.BytesPerSecond <= 0 {
			t.Errorf("%s to %s: %s %s", c.InitiatorHost, c.TargetHost, c.Status, c.Reason)
		}
		pairs[c.InitiatorHost+" "+c.TargetHost+" "+c.Direction]++
		hosts[c.InitiatorHost], hosts[c.TargetHost] = true, true
	}
	if len(hosts) != ranks || len(pairs) != ranks*(ranks-1) {
		t.Errorf("%d pairs of %d ranks, want %d of %d: %v", len(pairs), len(hosts), ranks*(ranks-1), ranks, pairs)
	}
	for host := range hosts { // a row and a column
		if n := strings.Count(printed, host); n < 2 {
			t.Errorf("the printed matrix has %s %d times", host, n)
		}
	}
}

// TestMeshUnderSlurm starts a cluster of four nodes and measures in it twice: by srun, and by the script.
func TestMeshUnderSlurm(t *testing.T) {
	need.Slurm(t)
	dir := t.TempDir()
	script := fmt.Sprintf(`#!/bin/bash
set -e
export HOPBENCH_TOKEN=%s
echo "part: srun"
srun -N 4 -n 4 "$HOPBENCH" mesh --transport tcp --out srun.jsonl %[2]s
unset HOPBENCH_TOKEN
echo "part: sbatch"
sbatch -Q --nodes=2 --ntasks-per-node=2 %[3]s --transport tcp %[2]s
until [[ -z $(squeue --noheader) ]]; do sleep 0.1; done
cat hopbench-mesh-*.log
`, someToken, strings.Join(quick, " "), absolute(t, "slurm/mesh.sbatch"))
	if err := os.WriteFile(filepath.Join(dir, "all"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, dir, nil, absolute(t, "slurm/cluster.sh"), "--nodes", "4", "./all").CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatal(err)
	}
	_, printed, _ := strings.Cut(string(out), "part: srun")
	first, second, _ := strings.Cut(printed, "part: sbatch")
	wholeMatrix(t, filepath.Join(dir, "srun.jsonl"), first, 4, "SLURM_STEP_NODELIST=n[1-4]")
	files, err := filepath.Glob(filepath.Join(dir, "hopbench-mesh-*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	wholeMatrix(t, files[0], second, 4, "SLURM_STEP_NODELIST=n[1-2]")
	if left, _ := filepath.Glob(filepath.Join(dir, ".hopbench-token*")); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

func TestMeshUnderMPI(t *testing.T) {
	for _, which := range []string{"Open MPI", "MPICH"} {
		t.Run(which, func(t *testing.T) {
			launcher := need.MPI(t, which)
			dir := t.TempDir()
			args := []string{absolute(t, "mpi/mesh.sh"), "-n", "4"}
			if which == "Open MPI" {
				args = append(args, "--oversubscribe")
			}
			args = append(append(args, "--", "--transport", "tcp", "--out", "mesh.jsonl", "--first-port", freePort(t)), quick...)
			out, err := command(t, dir, []string{"MPIRUN=" + launcher}, args...).CombinedOutput()
			t.Logf("%s", out)
			if err != nil {
				t.Fatal(err)
			}
			wholeMatrix(t, filepath.Join(dir, "mesh.jsonl"), string(out), 4, which+" (")
		})
	}
}

// TestMeshAsAJob plays the pods of k8s/mesh.yaml: its arguments and its environment, with the token's file and the name of pod 0 put
// where they are here.
func TestMeshAsAJob(t *testing.T) {
	m := readMeshManifest(t)
	dir := t.TempDir()
	token := filepath.Join(dir, "token")
	if err := os.WriteFile(token, []byte(someToken+"\n"), 0o400); err != nil {
		t.Fatal(err)
	}
	first := "127.0.0.1:" + freePort(t)
	args := []string{tool}
	for _, a := range m.job.Spec.Template.Spec.Containers[0].Args {
		if strings.HasPrefix(a, "--token-file=") {
			a = "--token-file=" + token
		}
		args = append(args, a)
	}
	args = append(args, quick...)
	n := int(*m.job.Spec.Completions)
	said, errs := make([]bytes.Buffer, n), make([]error, n)
	var pods sync.WaitGroup
	for i := range n {
		env := m.environment(i)
		env["HOPBENCH_FIRST"] = first
		var words []string
		for k, v := range env {
			words = append(words, k+"="+v)
		}
		mine := args
		if i == 0 {
			mine = append(slices.Clone(args), "--out", "mesh.jsonl")
		}
		c := command(t, dir, words, mine...)
		c.Stdout, c.Stderr = &said[i], &said[i]
		pods.Go(func() { errs[i] = c.Run() })
	}
	pods.Wait()
	for i := range n {
		t.Logf("pod %d: %s", i, &said[i])
		if errs[i] != nil {
			t.Errorf("pod %d: %v", i, errs[i])
		}
	}
	if !t.Failed() {
		wholeMatrix(t, filepath.Join(dir, "mesh.jsonl"), said[0].String(), n, "Kubernetes Job (JOB_COMPLETION_INDEX=0, HOPBENCH_SIZE 4)")
	}
}
