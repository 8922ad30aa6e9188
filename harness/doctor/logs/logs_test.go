package logs

import (
	"os"
	"slices"
	"strings"
	"testing"

	"hopbench/transports/fault"
)

func TestEverySignatureHasLinesAndNearMisses(t *testing.T) {
	b, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]*Signature{}
	for _, s := range Table() {
		if byID[s.ID] != nil {
			t.Errorf("%s stands twice", s.ID)
		}
		byID[s.ID] = s
		for _, c := range s.Causes {
			if _, ok := fault.Lookup(c); !ok {
				t.Errorf("%s: no code %s", s.ID, c)
			}
		}
		if s.Means == "" || s.By == "" || s.Do == "" {
			t.Errorf("%s lacks what it means, who writes it or what to do", s.ID)
		}
	}
	if len(byID) < 40 {
		t.Errorf("%d signatures, want at least 40", len(byID))
	}
	hit, miss := map[string]int{}, map[string]int{}
	id := ""
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			id = strings.Trim(line, "[]")
			if byID[id] == nil {
				t.Fatalf("no signature %s", id)
			}
		case strings.HasPrefix(line, "+ "):
			hit[id]++
			if s := Line(line[2:]); s == nil || s.ID != id {
				got := "nothing"
				if s != nil {
					got = s.ID
				}
				t.Errorf("%s: %q is explained by %s", id, line[2:], got)
			}
		case strings.HasPrefix(line, "- "):
			miss[id]++
			if byID[id].Pattern.MatchString(line[2:]) {
				t.Errorf("%s: the near miss %q matches", id, line[2:])
			}
		default:
			t.Errorf("line %q", line)
		}
	}
	for id := range byID {
		if hit[id] == 0 || miss[id] == 0 {
			t.Errorf("%s: %d lines, %d near misses", id, hit[id], miss[id])
		}
	}
}

func TestScanCountsAndKeepsOrder(t *testing.T) {
	log := "start\nibv_create_ah failed: No such device\nibv_create_ah failed: No such device\n" +
		strings.Repeat("x", 3<<20) + "\r\n\x1b[31m*** An error occurred in MPI_Init_thread\x1b[0m"
	m, _, err := Scan(strings.NewReader(log))
	if err != nil || len(m) != 2 {
		t.Fatalf("%d matches, %v", len(m), err)
	}
	if m[0].Signature.ID != "verbs.create-ah" || m[0].Count != 2 || m[0].Line != 2 {
		t.Errorf("first: %+v", m[0])
	}
	if m[1].Line != 5 || strings.Contains(m[1].Text, "\x1b") {
		t.Errorf("last: %+v", m[1])
	}
}

func FuzzScan(f *testing.F) {
	f.Add("ibv_create_ah failed: No such device\n")
	f.Add("\xff\x00\r\n\n")
	f.Fuzz(func(t *testing.T, s string) {
		m, _, err := Scan(strings.NewReader(s))
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range m {
			if x.Count < 1 || x.Line < 1 || strings.ContainsAny(x.Text, "\n") {
				t.Errorf("%+v", x)
			}
		}
	})
}

// A line that looks like an error is explained or counted; one that says there was none is neither.
func TestScanCountsWhatItDoesNotKnow(t *testing.T) {
	_, unknown, err := Scan(strings.NewReader("all well\nfrobnicator: ERROR 7\n0 errors\nerrors: 0\nibv_create_ah failed: No such device\nFatal: no idea\n"))
	if err != nil || unknown.Count != 2 || len(unknown.Lines) != 2 || unknown.Lines[0] != 2 || unknown.Lines[1] != 6 {
		t.Errorf("%+v %v", unknown, err)
	}
}

// A line that says no more than that a device cannot be used names all that a host can be found with on the way to it: a cause that
// is left out could not be confirmed.
func TestCausesAreWhole(t *testing.T) {
	path := []fault.Code{fault.RDMANoNode, fault.RDMANodeRefused, fault.RDMANoLibrary, fault.RDMANoProvider, fault.RDMANoStack, fault.RDMANoDevice}
	for line, want := range map[string][]fault.Code{
		"node1:1:1 [0] NCCL INFO NET/IB : No device found.":                                            append(path, fault.Steering, fault.RDMAPortDown),
		"UCX  WARN transport 'rc_mlx5' is not available":                                               append(path, fault.Steering),
		"UCX  ERROR no active messages transport to peer: Destination":                                 append(path, fault.Steering),
		"UCX  WARN network device 'mlx5_0:1' is not available, please use one or more of: 'eth0'(tcp)": path,
		"No IB devices found":                      path,
		"librdmacm: Fatal: no RDMA devices found":  path,
		"*** An error occurred in MPI_Init_thread": path,
		"no CUDA-capable device is detected":       {fault.GPUNode, fault.GPUNone, fault.GPUDriver},
	} {
		s := Line(line)
		if s == nil {
			t.Errorf("%q is not known", line)
			continue
		}
		for _, c := range want {
			if !slices.Contains(s.Causes, c) {
				t.Errorf("%q (%s) leaves out %s", line, s.ID, c)
			}
		}
	}
}
