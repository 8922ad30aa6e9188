package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What is not what it seems, or not whole, is refused by the name of what is missing.
func TestExpectedRefusals(t *testing.T) {
	for _, c := range []struct {
		name, format string
		want         []string
	}{
		{"nccl_allreduce.stdout.txt", "nccl-tests", []string{"not JSON", "# Writing JSON output to"}},
		{"nccl_allreduce.stdout.txt", "", []string{"not JSON", "# Writing JSON output to"}},
		{"nccl_allreduce_noalgbw.json", "", []string{"results[1].out_of_place.alg_bw"}},
		{"nccl_allreduce_truncated.json", "", []string{"cut off", "1814"}},
		{"nccl_allreduce_v4.json", "", []string{"version", "4", "1 to 3"}},
		{"nvbandwidth_nodesc.json", "", []string{"bandwidth_description", "device_to_device_memcpy_read_ce"}},
		{"nvbandwidth_truncated.json", "", []string{"cut off", "989"}},
		{"nixlbench_noheader.txt", "", []string{"header", "Block Size (B)"}},
		{"nixlbench_noheader.txt", "nixlbench", []string{"header", "Block Size (B)"}},
	} {
		f, err := expected(t, c.name, c.format)
		if err == nil {
			t.Errorf("%s: taken, %d cells", c.name, len(f.Cells))
			continue
		}
		words(t, c.name, []string{err.Error()}, c.want...)
	}
}

// nccl-tests writes its whole environment into its JSON, nixlbench the keys of an object store.
func TestSecretsStayBehind(t *testing.T) {
	files, err := filepath.Glob("testdata/expected/*.*")
	if err != nil || len(files) < 19 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, path := range files {
		f, err := expected(t, filepath.Base(path), "")
		all := fmt.Sprint(err)
		if f != nil {
			b, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			all += string(b)
		}
		for _, secret := range []string{"SAMPLE_API_TOKEN", "made-up-for-this-sample", "NCCL_IB_HCA"} {
			if strings.Contains(all, secret) {
				t.Errorf("%s: %s is copied", path, secret)
			}
		}
	}
	text, err := os.ReadFile("testdata/expected/nixlbench_mg.txt")
	if err != nil {
		t.Fatal(err)
	}
	with := strings.Replace(string(text), "Initiator seg type", "OBJ S3 secret key (--obj_secret_key=key)                    : hush-hush\nInitiator seg type", 1)
	f, err := Parse(strings.NewReader(with), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(f); err != nil || strings.Contains(string(b), "hush-hush") {
		t.Errorf("the key is copied: %v", err)
	}
}

// Two runs in one log have each their own configuration.
func TestTwoNixlbenchRuns(t *testing.T) {
	var both []byte
	for _, name := range []string{"nixlbench_v050.txt", "nixlbench_pair.txt"} {
		b, err := os.ReadFile(filepath.Join("testdata", "expected", name))
		if err != nil {
			t.Fatal(err)
		}
		both = append(append(both, b...), '\n')
	}
	f, err := Parse(bytes.NewReader(both), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	operations := map[string]int{}
	for _, c := range f.Cells {
		if c.Definition == "nixlbench.bandwidth.total" {
			operations[fmt.Sprint(c.Operation, " ", c.InitiatorMemory, " ", c.Depth)]++
		}
	}
	if d := cmp.Diff(map[string]int{"write host 1": 3, "read cuda 16": 12}, operations); d != "" || f.Incomplete != "" {
		t.Error(d, f.Incomplete)
	}
}

// What a sample lacks when it is changed by one key is named; a shape that does not fit is an error.
func TestOneKeyLess(t *testing.T) {
	for _, c := range []struct{ name, old, replacement, want string }{
		{"nccl_allreduce.json", `"time":18.962500,`, "", "results[1].out_of_place.time"},
		{"nccl_allreduce.json", `,"bus_bw":5.184127`, "", "results[1].out_of_place.bus_bw"},
		{"nccl_allreduce.json", `,"nwrong":37.000000`, "", "results[3].in_place.nwrong"},
		{"nccl_allreduce.json", `"size":65536,`, "", "results[1].size"},
		{"nccl_allreduce.json", `"version":3,`, "", `"version"`},
		{"nccl_allreduce.json", `"results"`, `"outcomes"`, `"results"`},
		{"nvbandwidth_waived.json", `"testcases"`, `"cases"`, `"testcases"`},
		{"nvbandwidth_waived.json", `"status" : "Waived"`, `"state" : "Waived"`, "no status"},
		{"nvbandwidth_waived.json", `"bandwidth_matrix"`, `"matrix"`, "bandwidth_matrix"},
		{"nvbandwidth_waived.json", `"25.5726"`, `"25.5726", "25.5"`, "2 columns do not fit 1 devices"},
		{"nvbandwidth_3gpu.json", "bidirectional", "sideways", "9 rows do not fit 3 devices"},
		{"nixlbench_pair.txt", "Op type (--op_type", "Op type (--kind", "--op_type"},
		{"nixlbench_pair.txt", "B/W (GB/Sec) ", "B/W (Gb/Sec) ", `unknown column: "B/W (Gb/Sec)`},
		{"nixlbench_v050.txt", "B/W (GB/Sec) ", "", `no column "B/W (GB/Sec)"`},
	} {
		b, err := os.ReadFile(filepath.Join("testdata", "expected", c.name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(b, []byte(c.old)) {
			t.Fatalf("%s has no %s", c.name, c.old)
		}
		f, err := Parse(bytes.NewReader(bytes.Replace(b, []byte(c.old), []byte(c.replacement), 1)), "", Options{})
		if err == nil {
			t.Errorf("%s without %s: taken, %d cells", c.name, c.old, len(f.Cells))
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s without %s: %v, want %q", c.name, c.old, err, c.want)
		}
	}
}

// The write tests' description has its arrow turned round too: the row copies to the column.
func TestDirectionOfWrites(t *testing.T) {
	b, err := os.ReadFile("testdata/expected/nvbandwidth_3gpu.json")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("device_to_device_memcpy_read_ce", "device_to_device_memcpy_write_ce", "GPU(row) -> GPU(column)", "GPU(row) <- GPU(column)").Replace(string(b))
	f, err := Parse(strings.NewReader(text), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Cells {
		if c.Operation == "device_to_device_memcpy_write_ce" && c.Bandwidth.BytesPerSecond == 40.0001e9 {
			if c.InitiatorMemory != "cuda:2" || c.TargetMemory != "cuda:1" || c.Settings["data"] != "cuda:2 to cuda:1" {
				t.Errorf("%s %v", brief(c), c.Settings)
			}
			return
		}
	}
	t.Error("no cell of row 2, column 1")
}
