package mesh

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hopbench/harness/mesh/rank"
	"hopbench/transports/topo"
)

// captured reads a captured host.
func captured(t *testing.T, name string) *topo.Host {
	t.Helper()
	h, err := topo.Read(filepath.Join("..", "..", "transports", "topo", "testdata", "hosts", name), topo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// dgx is a host with eight GPUs and as many InfiniBand devices.
const dgx = "hgx-infiniband.txtar"

func TestOneRankAHostHasItsDeviceByTheRoute(t *testing.T) {
	m, err := Place(rank.Rank{Number: 2, Size: 4, LocalSize: 1}, PlaceOptions{Topology: captured(t, dgx)})
	if err != nil {
		t.Fatal(err)
	}
	host, _ := os.Hostname()
	if m.Number != 2 || m.Size != 4 || m.Host != host || m.HostID == "" || m.Device != nil || m.Memory != "" || m.Chosen != "" {
		t.Errorf("%+v", m)
	}
}

func TestRanksOfAHostTakeGPUsAndTheNICsBesideThem(t *testing.T) {
	h := captured(t, dgx)
	if len(h.GPUs) < 4 {
		t.Fatalf("the capture has %d GPUs", len(h.GPUs))
	}
	seen := map[string]int{}
	for local := range len(h.GPUs) {
		m, err := Place(rank.Rank{Number: local, Size: 2 * len(h.GPUs), LocalNumber: local, LocalSize: len(h.GPUs)}, PlaceOptions{GPU: true, Topology: h})
		if err != nil {
			t.Fatal(err)
		}
		near := h.Nearest(h.GPUs[local].BDF)
		best := near[0].Pair.Class
		ok := false
		for _, n := range near {
			ok = ok || n.Pair.Class == best && n.NIC.RDMA == m.Device[RDMA]
		}
		if !ok || m.Device[RDMA] == "" {
			t.Errorf("rank %d: %v is not among the nearest (%s)", local, m.Device, best)
		}
		if want := "cuda:" + string(rune('0'+local)); m.Memory != want {
			t.Errorf("rank %d: memory %s, want %s", local, m.Memory, want)
		}
		if !strings.Contains(m.Chosen, h.GPUs[local].BDF) {
			t.Errorf("rank %d: %q does not say how it was chosen", local, m.Chosen)
		}
		seen[m.Device[RDMA]]++
	}
	if len(seen) < 2 {
		t.Errorf("all ranks share %v", seen)
	}
}

func TestVisibleGPUs(t *testing.T) {
	h := captured(t, dgx)
	place := func(local int, visible string) string {
		m, err := Place(rank.Rank{Number: local, Size: 4, LocalNumber: local, LocalSize: 4}, PlaceOptions{GPU: true, Visible: visible, Topology: h})
		if err != nil {
			return err.Error()
		}
		return m.Memory + " " + m.Chosen
	}
	if got := place(1, "2,3"); !strings.HasPrefix(got, "cuda:1 GPU "+h.GPUs[3].BDF) {
		t.Error(got)
	}
	if got := place(3, "2"); !strings.HasPrefix(got, "cuda:0 GPU "+h.GPUs[2].BDF) {
		t.Error(got)
	}
	for _, wrong := range []string{"-1", "99", "GPU-none", ","} {
		if got := place(0, wrong); !strings.Contains(got, "CUDA_VISIBLE_DEVICES") {
			t.Errorf("%q: %s", wrong, got)
		}
	}
}

func TestWithoutGPUsRDMADevicesAreDealtOut(t *testing.T) {
	h := captured(t, dgx)
	h.GPUs = nil
	a, err := Place(rank.Rank{Size: 4, LocalSize: 2}, PlaceOptions{Topology: h})
	if err != nil {
		t.Fatal(err)
	}
	b, err := Place(rank.Rank{Number: 1, Size: 4, LocalNumber: 1, LocalSize: 2}, PlaceOptions{Topology: h})
	if err != nil {
		t.Fatal(err)
	}
	if a.Device[RDMA] == "" || a.Device[RDMA] == b.Device[RDMA] {
		t.Errorf("%v and %v", a.Device, b.Device)
	}
	// An address that was given decides.
	c, err := Place(rank.Rank{Size: 4, LocalSize: 2}, PlaceOptions{Topology: h, Bind: netip.MustParseAddr("192.0.2.1")})
	if err != nil || c.Device != nil || c.Bind.String() != "192.0.2.1" {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Place(rank.Rank{Size: 4, LocalSize: 2}, PlaceOptions{Topology: h, GPU: true}); err == nil || !strings.Contains(err.Error(), "0 GPUs") {
		t.Errorf("a GPU where there is none: %v", err)
	}
}

func TestRailsOfAHost(t *testing.T) {
	h := captured(t, dgx)
	m, err := Place(rank.Rank{Size: 2}, PlaceOptions{Topology: h, Link: "InfiniBand", GPU: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Rails) != len(h.GPUs) || !strings.HasPrefix(m.Rails[1].Memory, "cuda:") || m.Rails[0].Device == m.Rails[1].Device {
		t.Errorf("rails %v", m.Rails)
	}
	if _, err := Place(rank.Rank{Size: 2}, PlaceOptions{Topology: h, Link: "Ethernet"}); err == nil || !strings.Contains(err.Error(), "rank 0 on ") {
		t.Errorf("rails of RoCE on a host of InfiniBand: %v", err)
	}
	m, err = Place(rank.Rank{Size: 2}, PlaceOptions{Devices: []string{"eth0", "eth1"}})
	if err != nil || len(m.Rails) != 2 || m.Rails[1].Device != "eth1" {
		t.Errorf("rails by name: %v, %v", m.Rails, err)
	}
}
