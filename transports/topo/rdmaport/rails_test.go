package rdmaport_test

import (
	"path/filepath"
	"strings"
	"testing"

	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// TestRailsOfCapturedHosts takes every captured host: a rail is usable, and no device serves two GPUs while one as near serves none.
func TestRailsOfCapturedHosts(t *testing.T) {
	files, err := filepath.Glob("../testdata/hosts/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no captured hosts", err)
	}
	several := 0
	for _, name := range files {
		h, err := topo.Read(name, topo.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range []string{"InfiniBand", "Ethernet"} {
			rails := rdmaport.Rails(h, link)
			used := map[string]int{}
			for _, r := range rails {
				used[r.Device]++
			}
			for _, r := range rails {
				if r.GPU == "" {
					continue
				}
				for _, n := range h.Nearest(r.GPU) {
					if n.NIC.RDMA != "" && n.Pair.Class == r.Class && used[r.Device] > used[n.NIC.RDMA]+1 && used[n.NIC.RDMA] > 0 {
						t.Errorf("%s: %s serves %d GPUs and %s, as near, %d", name, r.Device, used[r.Device], n.NIC.RDMA, used[n.NIC.RDMA])
					}
				}
			}
			if len(used) > 1 {
				several++
				t.Logf("%s, %s: %d rails over %d devices", strings.TrimSuffix(filepath.Base(name), ".txtar"), link, len(rails), len(used))
			}
		}
	}
	if several == 0 {
		t.Error("no captured host has more than one rail")
	}
}
