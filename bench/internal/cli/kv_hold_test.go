package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// heldFile writes a result file: rows of operation, piece, count and request ("" for a sweep), at so many bytes a second.
func heldFile(t *testing.T, name string, rate float64, request string, counts ...int) string {
	t.Helper()
	text := `{"record":"header","schema":"hopbench.results/v1","tool_version":"test","started":"2026-01-01T00:00:00Z"}` + "\n"
	for _, n := range counts {
		settings := ""
		if request != "" {
			settings = fmt.Sprintf(`,"settings":{"request":%q}`, request)
		}
		text += fmt.Sprintf(`{"record":"cell","transport":"tcp","label":"tcp, same host","realm":"software","definition":"bandwidth.notified","operation":"write","direction":"forward",`+
			`"piece_bytes":32768,"total_bytes":%d,"descriptors":%d,"pattern":"scattered","depth":1,"streams":1,"concurrency":1,"initiator_memory":"host","target_memory":"host","wait":"adaptive",`+
			`"status":"ok","bandwidth":{"bytes_per_second":%g,"rounds_seconds":[%g],"rounds_operations":[1]}%s}`+"\n", 32768*n, n, rate, float64(32768*n)/(rate*1.25), settings)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestKVHeldAgainstASweep(t *testing.T) {
	kv, sweep := heldFile(t, "kv.jsonl", 2e9, "a model", 2000), heldFile(t, "sweep.jsonl", 1.6e9, "", 1000, 4000)
	stdout, stderr, code := runsKV("--measured", kv, "--sweep", sweep)
	if code != 0 || !strings.Contains(stdout, "+25.0 %") || !strings.Contains(stdout, "interpolated") {
		t.Fatalf("exit %d: %s%s", code, stderr, stdout)
	}
	// The second trial's sweep is as fast as its requests: the fastest of both is the requests' own rate.
	fast := heldFile(t, "fast.jsonl", 2e9, "", 1000, 4000)
	stdout, stderr, code = runsKV("--measured", kv, "--sweep", sweep, "--measured", kv, "--sweep", fast, "--fastest")
	if code != 0 || !strings.Contains(stdout, "+0.0 %") || !strings.Contains(stdout, "26.2 ms") {
		t.Fatalf("exit %d: %s%s", code, stderr, stdout)
	}
	// A cell that lost far more than the others is named: what it shows is a path that lost.
	text, err := os.ReadFile(heldFile(t, "four.jsonl", 1.6e9, "", 500, 1000, 3000, 4000))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for i, lost := range []int{1, 1, 2, 40} {
		lines[i+1] = strings.Replace(lines[i+1], `"status":"ok"`, fmt.Sprintf(`"status":"ok","counters":{"unit":"bytes","readings":[{"side":"initiator","name":"retransmits","unit":"segments","value":%d,"loss":true}]}`, lost), 1)
	}
	lossy := filepath.Join(t.TempDir(), "lossy.jsonl")
	if err := os.WriteFile(lossy, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	stdout, stderr, code = runsKV("--measured", kv, "--sweep", lossy)
	if code != 0 || !strings.Contains(stdout, "lossy.jsonl: write of 4000 pieces, 1 at once: 305 losses a GB") || strings.Contains(stdout, "write of 1000 pieces") {
		t.Fatalf("exit %d: %s%s", code, stderr, stdout)
	}
	for _, args := range [][]string{{"--measured", kv}, {"--measured", sweep, "--sweep", sweep}, {"--measured", kv, "--sweep", "nowhere.jsonl"}, {"qwen3-8b", "--measured", kv, "--sweep", sweep}} {
		if _, stderr, code := runsKV(args...); code != 2 || stderr == "" {
			t.Errorf("%v: exit %d %s", args, code, stderr)
		}
	}
}
