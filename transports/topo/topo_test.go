package topo

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestTreeStaysInsideItsRoot(t *testing.T) {
	dir := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "secret")
	must(os.WriteFile(outside, []byte("outside"), 0o644))
	must(os.MkdirAll(filepath.Join(dir, "sys/class"), 0o755))
	must(os.WriteFile(filepath.Join(dir, "real"), []byte("inside\n"), 0o644))
	must(os.Symlink("/real", filepath.Join(dir, "sys/absolute")))
	must(os.Symlink("../../../../../../real", filepath.Join(dir, "sys/class/up")))
	must(os.Symlink(outside, filepath.Join(dir, "sys/out")))
	must(os.Symlink("loop", filepath.Join(dir, "sys/loop")))
	tr, err := Open(dir)
	must(err)
	for _, p := range []string{"sys/absolute", "/sys/class/up", "real", "../../real"} {
		if b, err := tr.ReadFile(p); err != nil || string(b) != "inside\n" {
			t.Errorf("%s: %q, %v", p, b, err)
		}
	}
	if b, err := tr.ReadFile("sys/out"); err == nil {
		t.Errorf("a link out of the tree was followed: %q", b)
	}
	if _, err := tr.ReadFile("sys/loop"); err == nil || !strings.Contains(err.Error(), "symbolic links") {
		t.Errorf("loop: %v", err)
	}
	if _, err := Open(filepath.Join(dir, "none")); err == nil {
		t.Error("no such root, and no error")
	}
}

func TestACopiedFolderReadsLikeTheHost(t *testing.T) {
	dir := t.TempDir()
	put := func(p, s string) {
		p = filepath.Join(dir, p)
		_ = os.MkdirAll(filepath.Dir(p), 0o755)
		if err := os.WriteFile(p, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// Folders in place of links, as a copy by cp -rL makes them.
	put("sys/class/infiniband/mlx5_0/node_type", "1: CA\n")
	put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
	put("sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n")
	put("sys/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n")
	put("sys/class/infiniband_verbs/uverbs7/ibdev", "mlx5_0\n")
	put("dev/infiniband/uverbs7", "")
	h, err := Read(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := h.Device("mlx5_0")
	if d == nil || d.UVerbs != "uverbs7" || d.Node == nil || d.Node.Err != "" || !d.Node.Untried {
		t.Fatalf("%+v", d)
	}
	if p := d.Ports[0]; p.State != "ACTIVE" || p.BitsPS == nil || *p.BitsPS != 200e9 {
		t.Errorf("%+v", p)
	}
	if h.NUMA != nil || h.Process.MemlockSoft != nil || h.IOMMU.Translates() != nil || h.NVIDIA.Driver != "" {
		t.Error("what is not there is not known")
	}
}

func TestRates(t *testing.T) {
	for s, want := range map[string]uint64{"400 Gb/sec (4X NDR)": 400e9, "2.5 Gb/sec (1X SDR)": 25e8, "100 Gb/sec (2X HDR)": 100e9, "800 Gb/sec (4X XDR)": 800e9} {
		if got := rate(s); got == nil || *got != want {
			t.Errorf("%q: %v", s, got)
		}
	}
	for _, s := range []string{"", "Gb/sec", "0 Gb/sec", "-1 Gb/sec", "NaN Gb/sec", "1e9 Gb/sec", "128 (NDR)", "Unknown"} {
		if got := rate(s); got != nil {
			t.Errorf("%q: %d, want not known", s, *got)
		}
	}
}

func TestRoCEMTU(t *testing.T) {
	for netdev, want := range map[int]int{1500: 1024, 4200: 4096, 9000: 4096, 4191: 2048, 4192: 4096, 2148: 2048, 351: 0, 352: 256, 0: 0, -1: 0} {
		if got := RoCEMTU(netdev); got != want {
			t.Errorf("%d: %d, want %d", netdev, got, want)
		}
	}
}

func TestGIDChoice(t *testing.T) {
	const ll, ula, v4 = "fe80:0000:0000:0000:0000:0000:0000:0001", "fd00:0000:0000:0000:0000:0000:0000:0001", "0000:0000:0000:0000:0000:ffff:0a00:0001"
	for _, c := range []struct {
		name string
		gids []GID
		want int
	}{
		{"private IPv4 before link-local", []GID{{Index: 1, GID: ll, Type: "RoCE v2", NetDev: "a"}, {Index: 3, GID: v4, Type: "RoCE v2", NetDev: "a"}}, 3},
		{"the interface that is here", []GID{{Index: 3, GID: v4, Type: "RoCE v2", NetDev: "b", Foreign: true}, {Index: 7, GID: v4, Type: "RoCE v2", NetDev: "a"}}, 7},
		{"v2 before v1", []GID{{Index: 2, GID: v4, Type: "IB/RoCE v1", NetDev: "a"}, {Index: 3, GID: v4, Type: "RoCE v2", NetDev: "a"}}, 3},
		{"IPv4 before IPv6", []GID{{Index: 2, GID: ula, Type: "RoCE v2", NetDev: "a"}, {Index: 5, GID: v4, Type: "RoCE v2", NetDev: "a"}}, 5},
		{"global IPv6 before link-local", []GID{{Index: 0, GID: ll, Type: "RoCE v2", NetDev: "a"}, {Index: 1, GID: ula, Type: "RoCE v2", NetDev: "a"}}, 1},
		{"the lower of equals", []GID{{Index: 4, GID: v4, Type: "RoCE v2", NetDev: "a"}, {Index: 9, GID: v4, Type: "RoCE v2", NetDev: "a"}}, 4},
		{"an address that is still there before one that is gone", []GID{{Index: 2, GID: v4, Type: "RoCE v2", NetDev: "a", Stale: true}, {Index: 5, GID: ula, Type: "RoCE v2", NetDev: "a"}}, 5},
		{"one that is gone before link-local", []GID{{Index: 1, GID: ll, Type: "RoCE v2", NetDev: "a"}, {Index: 3, GID: v4, Type: "RoCE v2", NetDev: "a", Stale: true}}, 3},
		{"nothing but foreign", []GID{{Index: 4, GID: v4, Type: "RoCE v2", NetDev: "b", Foreign: true}}, -1},
		{"empty", nil, -1},
		{"text that is no address", []GID{{Index: 0, GID: "zz", Type: "RoCE v2", NetDev: "a"}}, -1},
	} {
		p := RDMAPort{LinkLayer: "Ethernet", GIDs: c.gids}
		g, why := p.ChooseGID()
		got := -1
		if g != nil {
			got = g.Index
		}
		if got != c.want || why == "" {
			t.Errorf("%s: index %d (%s), want %d", c.name, got, why, c.want)
		}
	}
}

func TestSlotWhoseAddressIsGone(t *testing.T) {
	for _, c := range []struct {
		gid   string
		addrs []string
		gone  bool
	}{
		{"::ffff:192.0.2.10", []string{"192.0.2.44/24", "fe80::1/64"}, true}, {"::ffff:192.0.2.44", []string{"192.0.2.44/24"}, false}, {"fd00::2", []string{"fd00::3/64"}, true},
		{"fd00::3", []string{"192.0.2.44/24", "fd00::3/64"}, false}, {"fe80::9", []string{"192.0.2.44/24"}, false}, {"::ffff:192.0.2.10", nil, false}, {"zz", []string{"192.0.2.44/24"}, false},
	} {
		if got := (GID{GID: c.gid}).Gone(c.addrs); got != c.gone {
			t.Errorf("%s on %q: gone %v", c.gid, c.addrs, got)
		}
	}
}

func TestDCB(t *testing.T) {
	pfc := attr(dcbIEEEPFC, []byte{8, 0b00001000, 0, 0})
	app := attr(dcbIEEEAppTab, attr(dcbIEEEApp, []byte{dcbSelectorDSC, 3, 26, 0}))
	f := parseDCB(attr(dcbAttrIEEE, append(pfc, app...)))
	if f == nil || f.PFC != "00010000" || f.Trust != "dscp" {
		t.Errorf("%+v", f)
	}
	if parseDCB(nil) != nil || parseDCB([]byte{255, 255, 1, 0}) != nil {
		t.Error("nothing was told")
	}
}

func TestACSWalk(t *testing.T) {
	config := make([]byte, 4096)
	put := func(off int, id, next uint32) { binary.LittleEndian.PutUint32(config[off:], id|1<<16|next<<20) }
	put(0x100, 0x0001, 0x148)
	put(0x148, 0x000d, 0)
	config[0x148+6] = 0x1d
	dir := t.TempDir()
	write := func(b []byte) (*uint16, string) {
		if err := os.WriteFile(filepath.Join(dir, "config"), b, 0o644); err != nil {
			t.Fatal(err)
		}
		tr, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return (&reader{t: tr, seen: map[string]bool{}}).acs("0000:00:00.0", "config")
	}
	if c, why := write(config); c == nil || *c != 0x1d || !ACSRedirects(*c) {
		t.Errorf("%v %s", c, why)
	}
	if c, why := write(config[:64]); c != nil || !strings.Contains(why, "64 bytes") {
		t.Errorf("64 bytes are no \"off\": %v %q", c, why)
	}
	put(0x148, 0x0002, 0x148) // a list that leads back to itself
	if c, _ := write(config); c != nil {
		t.Errorf("%v", c)
	}
	if c, why := write(make([]byte, 4096)); c != nil || !strings.Contains(why, "no ACS") {
		t.Errorf("%v %q", c, why)
	}
}

func TestWidestAndNarrowestHop(t *testing.T) {
	f := func(v float64) *float64 { return &v }
	n := func(v int) *int { return &v }
	d := PCIDevice{Link: PCILink{SpeedNow: f(2.5), SpeedMax: f(16), WidthNow: n(8), WidthMax: n(16)}}
	h := d.Hop()
	if h == nil || h.Generation != 4 || h.Width != 8 || h.WidthMax != 16 {
		t.Fatalf("the idle speed is not the link's: %+v", h)
	}
	if got, want := h.BytesPS, 16e9*128/130; got < want*0.999 || got > want*1.001 {
		t.Errorf("%g bytes a second, want %g", got, want)
	}
	if (&PCIDevice{}).Hop() != nil {
		t.Error("an unknown link has no hop")
	}
}

func TestRouteToThisHost(t *testing.T) {
	r, err := RouteTo(netip.MustParseAddr("127.0.0.1"))
	if err != nil {
		t.Skipf("no route lookup here: %v", err)
	}
	if !r.Local || !r.Virtual || r.BitsPS != nil {
		t.Errorf("%+v", r)
	}
	if !IsLocal(netip.MustParseAddr("127.0.0.1")) || IsLocal(netip.MustParseAddr("192.0.2.255")) {
		t.Error("IsLocal")
	}
	if _, err := RouteTo(netip.Addr{}); err == nil {
		t.Error("no address, and no error")
	}
}

func TestReadingTheRunningHostIsQuick(t *testing.T) {
	start := time.Now()
	h, err := Read("/", Options{})
	if err != nil || !h.Live {
		t.Fatal(err)
	}
	t.Logf("read in %v, %d refusals", time.Since(start), len(h.Errors))
}

// FuzzArchive feeds the whole reader: whatever a capture holds, it is read or refused, and never more than that.
func FuzzArchive(f *testing.F) {
	files, _ := filepath.Glob("testdata/hosts/*.txtar")
	for _, n := range files {
		if b, err := os.ReadFile(n); err == nil && len(b) < 20000 {
			f.Add(b)
		}
	}
	f.Add([]byte("-- .hopbench/links --\na -> a\nsys -> /\nsys/class/net/x -> ../../..\n-- sys/class/infiniband/x/ports/1/gids/0 --\n::\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := ParseArchive("fuzz", b)
		if err != nil {
			return
		}
		h := tr.Read(Options{})
		for _, g := range h.GPUs {
			h.Nearest(g.BDF)
		}
		for i := range h.RDMA.Devices {
			for j := range h.RDMA.Devices[i].Ports {
				h.RDMA.Devices[i].Ports[j].ChooseGID()
			}
		}
	})
}

func FuzzDCB(f *testing.F) {
	f.Add(attr(dcbAttrIEEE, attr(dcbIEEEPFC, []byte{8, 8, 0, 0})))
	f.Fuzz(func(t *testing.T, b []byte) { parseDCB(b) })
}
