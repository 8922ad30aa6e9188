package all

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hopbench/transports/fault"
	"hopbench/transports/topo"
)

// TestLockedMemoryIsVerbsOwn runs the checks of every driver on a host where an ordinary user may lock 64 KiB: the RDMA drivers speak of it,
// and to the others it says nothing.
func TestLockedMemoryIsVerbsOwn(t *testing.T) {
	for _, name := range []string{"ordinary-user", "pod-nonroot-ipclock"} {
		h, err := topo.Read(filepath.Join("../topo/testdata/hosts", name+".txtar"), topo.Options{})
		if err != nil {
			t.Fatal(err)
		}
		spoke := false
		for _, d := range Drivers() {
			rdma := d.Name() == "infiniband" || d.Name() == "roce"
			for _, c := range d.Checks() {
				if c.Run == nil {
					continue
				}
				for _, f := range c.Run(h) {
					about := f.Code == fault.RDMAMemlock || f.Code == fault.RDMAMemlockBound || strings.Contains(f.Summary, "locked")
					spoke = spoke || about && rdma
					if about && !rdma {
						t.Errorf("%s: %s speaks of locked memory: %s", name, d.Name(), f.Summary)
					}
				}
			}
		}
		if !spoke {
			t.Errorf("%s: nobody speaks of locked memory", name)
		}
	}
	// Nor can a run: the words stand in the verbs driver alone.
	for _, dir := range []string{"../tcp", "../loopback", "../cudapeer"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatal(dir, err)
		}
		for _, f := range files {
			if text, err := os.ReadFile(f); err != nil || !strings.HasSuffix(f, "_test.go") && strings.Contains(strings.ToLower(string(text)), "memlock") {
				t.Errorf("%s speaks of memlock (%v)", f, err)
			}
		}
	}
}
