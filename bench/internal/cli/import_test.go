package cli

import (
	"path/filepath"
	"strings"
	"testing"

	"hopbench/results"
)

// A run that was aborted, or whose log is cut, is imported as one that failed, and each of its numbers says so.
func TestImportOfARunThatIsNotWhole(t *testing.T) {
	samples := filepath.Join("..", "..", "..", "results", "foreign", "testdata", "expected")
	for _, c := range []struct{ name, reason string }{
		{"nccl_allreduce_aborted.json", "end_time"},
		{"nvbandwidth_error.json", "CUDA_ERROR_ECC_UNCORRECTABLE"},
		{"nixlbench_truncated.txt", "3 of 10 columns"},
	} {
		out := filepath.Join(t.TempDir(), "run.jsonl")
		code, _, message := command(t, "", "import", filepath.Join(samples, c.name), "-o", out)
		if code != 0 || !strings.Contains(message, c.reason) {
			t.Errorf("%s: exit %d, %s", c.name, code, message)
			continue
		}
		runs, err := results.ReadFiles(out)
		if err != nil || len(runs) != 1 {
			t.Fatal(len(runs), err)
		}
		if f := runs[0].Footer; f == nil || f.State != results.StateFailed || !strings.Contains(f.Reason, c.reason) {
			t.Errorf("%s: %+v", c.name, f)
		}
		for _, cell := range runs[0].Cells {
			if !strings.Contains(strings.Join(cell.Warnings, "\n"), c.reason) {
				t.Errorf("%s: a cell does not say it: %q", c.name, cell.Warnings)
			}
		}
	}
	// What is refused leaves no file behind, and its name is in the message.
	out := filepath.Join(t.TempDir(), "run.jsonl")
	code, _, message := command(t, "", "import", filepath.Join(samples, "nccl_allreduce_noalgbw.json"), "-o", out)
	if code != 2 || !strings.Contains(message, "nccl_allreduce_noalgbw.json") || !strings.Contains(message, "results[1].out_of_place.alg_bw") {
		t.Errorf("exit %d, %s", code, message)
	}
	if left, _ := filepath.Glob(out); len(left) != 0 {
		t.Error("a refused input leaves a file")
	}
}
