package scripts

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"hopbench/results"
)

// gpuScript runs gpu.sh over the double of libcuda and returns what it printed, and its folder.
func gpuScript(t *testing.T, env ...string) (output, out string) {
	t.Helper()
	sources, err := filepath.Glob("../transports/internal/cuda/testdata/fakecuda/*.c")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if b, err := exec.Command("gcc", append([]string{"-O2", "-fPIC", "-shared", "-pthread", "-Wl,-soname,libcuda.so.1", "-Wl,-z,nodelete", "-o", filepath.Join(dir, "libcuda.so.1")}, sources...)...).CombinedOutput(); err != nil {
		t.Fatalf("build the double of libcuda with gcc: %v\n%s", err, b)
	}
	out = filepath.Join(dir, "out")
	c := exec.Command("./gpu.sh", "--quick", "--hopbench", tool, "--out", out)
	c.Env = append(append(os.Environ(), "LD_LIBRARY_PATH="+dir), env...)
	b, err := c.CombinedOutput()
	if _, ok := err.(*exec.ExitError); err != nil && !ok {
		t.Fatal(err)
	}
	return string(b), out
}

// apart is the one failure that a busy machine makes: two programs' times of one copy that differ.
var apart = regexp.MustCompile(`(?m)^failed: .* more than 10 % apart$`)

func TestGPUScript(t *testing.T) {
	engines := []string{"FAKECUDA_H2D_BYTES_PER_SECOND=8e8", "FAKECUDA_D2H_BYTES_PER_SECOND=9e8", "FAKECUDA_D2D_BYTES_PER_SECOND=2e9", "FAKECUDA_P2P_BYTES_PER_SECOND=1e9", "FAKECUDA_STAGED_BYTES_PER_SECOND=3e8"}
	for _, c := range []struct {
		name  string
		env   []string
		shown []string // a part of lines that must stand in the output
		files []string // that must hold figures, none of them failed
	}{
		{"one GPU", []string{"FAKECUDA_DEVICES=1"},
			[]string{"device to host: hopbench", "granted (DMA-BUF", "phases: \"phases_seconds\":{", "1 visible", "refused with status 3", "peer access joins two"},
			[]string{"copy-pinned", "copy-local", "tcp-staged"}},
		{"two GPUs", []string{"FAKECUDA_DEVICES=2"},
			[]string{"2 visible", "0 to 1, cuda-peer", "1 to 0, cuda-peer", "0 to all the others at once", "0 to 1: hopbench"},
			[]string{"copy-pinned", "copy-local", "tcp-staged", "pairs"}},
		{"MIG", []string{"FAKECUDA_MIG=1"}, []string{"refused with status 3", "MIG instance"}, []string{"copy-pinned", "tcp-staged"}},
		{"no export", []string{"FAKECUDA_DEVICES=1", "FAKECUDA_DMABUF=0"}, []string{"refused: cuMemGetHandleForAddressRange", "the open ones grant it"}, []string{"copy-pinned"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			output, out := gpuScript(t, append(engines, c.env...)...)
			for _, want := range c.shown {
				if !strings.Contains(output, want) {
					t.Errorf("no %q", want)
				}
			}
			for line := range strings.Lines(output) {
				if strings.HasPrefix(line, "failed: ") && !apart.MatchString(strings.TrimRight(line, "\n")) {
					t.Error(line)
				}
			}
			if t.Failed() {
				t.Log(output)
			}
			for _, name := range c.files {
				runs, err := results.ReadFile(filepath.Join(out, name+".jsonl"))
				if err != nil {
					t.Fatal(err)
				}
				for _, cell := range runs[0].Cells {
					if cell.Status != results.StatusOK || cell.Realm != results.RealmDouble || cell.Verified == nil || !*cell.Verified {
						t.Errorf("%s: %s, %s to %s: %s %s, realm %s", name, cell.Operation, cell.InitiatorMemory, cell.TargetMemory, cell.Status, cell.Reason, cell.Realm)
					}
					if name == "tcp-staged" && (cell.PhasesSeconds["wire"] <= 0 || cell.PhasesSeconds["device_to_host"] <= 0 || cell.PhasesSeconds["host_to_device"] <= 0) {
						t.Errorf("phases %v", cell.PhasesSeconds)
					}
				}
			}
		})
	}
}
