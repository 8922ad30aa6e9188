package cudapeer

import (
	"fmt"
	"strings"
	"testing"

	"hopbench/transports"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/topo"
)

// machine is a host as NVML and sysfs tell it: GPUs of one model, each below a root port of its socket.
type machine struct {
	model   string
	sockets int
	gpus    []func(m *machine, i int, g *topo.GPUNVML)
	iommu   string
}

func bdf(i int) string { return fmt.Sprintf("0000:%02x:00.0", 0x10*(i+1)) }

func (m machine) host() *topo.Host {
	h := &topo.Host{IOMMU: topo.IOMMU{Known: true}}
	if m.iommu != "" {
		h.IOMMU.Types = map[string]int{m.iommu: 3}
	}
	gts, width := 32.0, 16
	for i, dress := range m.gpus {
		numa := i * m.sockets / len(m.gpus)
		root := fmt.Sprintf("pci0000:%02x", 0x10*(i+1)-1)
		port := fmt.Sprintf("0000:%02x:01.0", 0x10*(i+1)-1)
		link := topo.PCILink{SpeedMax: &gts, WidthNow: &width}
		h.PCI = append(h.PCI,
			topo.PCIDevice{BDF: port, Path: []string{root, port}, NUMA: &numa, Link: link},
			topo.PCIDevice{BDF: bdf(i), Path: []string{root, port, bdf(i)}, NUMA: &numa, Link: link})
		g := &topo.GPUNVML{BDF: bdf(i), Name: m.model, Peers: map[string]topo.PeerStatus{}}
		dress(&m, i, g)
		h.GPUs = append(h.GPUs, topo.GPU{BDF: bdf(i), Vendor: "0x10de", Model: m.model, NVML: g})
	}
	return h
}

func links(n int, version uint32, rate float64, remote, peer string, active bool) []topo.NVLink {
	var l []topo.NVLink
	for i := range n {
		x := topo.NVLink{Link: i, Active: active, Remote: remote, Peer: peer}
		if version > 0 {
			x.Version = &version
		}
		if rate > 0 {
			x.BytesPS = &rate
		}
		l = append(l, x)
	}
	return l
}

func peersAll(m *machine, i int, g *topo.GPUNVML, nv string) {
	for j := range m.gpus {
		if j != i {
			g.Peers[bdf(j)] = topo.PeerStatus{Read: "ok", Write: "ok", NVLink: nv}
		}
	}
}

// switched is a GPU with n links to NVSwitch.
func switched(n int, version uint32, rate float64) func(*machine, int, *topo.GPUNVML) {
	return func(m *machine, i int, g *topo.GPUNVML) {
		g.Links = links(n, version, rate, "switch", "", true)
		peersAll(m, i, g, "ok")
	}
}

// bridged is a GPU with n active links to its neighbour in a pair, and the rest of its slots inactive.
func bridged(n, slots int, version uint32) func(*machine, int, *topo.GPUNVML) {
	return func(m *machine, i int, g *topo.GPUNVML) {
		g.Links = append(links(n, version, 0, "gpu", bdf(i^1), true), links(slots-n, 0, 0, "", "", false)...)
		peersAll(m, i, g, "not supported")
		g.Peers[bdf(i^1)] = topo.PeerStatus{Read: "ok", Write: "ok", NVLink: "ok"}
	}
}

func bare(m *machine, i int, g *topo.GPUNVML) { peersAll(m, i, g, "not supported") }

func repeat(n int, f func(*machine, int, *topo.GPUNVML)) []func(*machine, int, *topo.GPUNVML) {
	out := make([]func(*machine, int, *topo.GPUNVML), n)
	for i := range out {
		out[i] = f
	}
	return out
}

// compute is the compute capability of the models here.
func compute(model string) string {
	switch {
	case strings.Contains(model, "A6000"):
		return "8.6"
	case strings.Contains(model, "L40S"), strings.Contains(model, "4090"):
		return "8.9"
	}
	return "9.0"
}

// The number that NVML gives for a version is nvml.h's or the kernel driver's; the architecture decides which.
func TestLinkVersionsByArchitecture(t *testing.T) {
	for _, c := range []struct {
		compute string
		number  uint32
		want    string
	}{
		{"6.0", 1, "1.0"}, {"7.0", 2, "2.0"}, {"7.5", 3, "2.2"}, {"7.5", 4, "2.2"}, {"8.0", 4, "3.0"}, {"8.0", 5, "3.0"}, {"8.6", 5, "3.1"},
		{"9.0", 6, "4.0"}, {"9.0", 7, "4.0"}, {"10.0", 7, "5.0"}, {"10.0", 8, "5.0"}, {"10.3", 7, "5.0"},
		// Neither numbering has it: an NVLink 4.0 would be told by 6 or 7.
		{"9.0", 4, ""}, {"9.0", 8, ""}, {"9.0", 0, ""}, {"9.0", 255, ""}, {"8.9", 5, ""}, {"", 6, ""}, {"11.0", 8, ""},
	} {
		if got := linkVersion(c.compute, links(1, c.number, 0, "switch", "", true)); got != c.want {
			t.Errorf("%s, number %d: %q, want %q", c.compute, c.number, got, c.want)
		}
	}
}

func TestPathsAreNamedByEvidence(t *testing.T) {
	h100 := repeat(8, switched(18, 6, 26.562e9))
	down := repeat(8, switched(18, 6, 26.562e9))
	down[0] = func(m *machine, i int, g *topo.GPUNVML) {
		switched(18, 6, 26.562e9)(m, i, g)
		for l := range 4 {
			g.Links[l].Active = false
		}
	}
	deaf := repeat(2, func(m *machine, i int, g *topo.GPUNVML) {
		g.Links = links(18, 6, 0, "switch", "", true)
		peersAll(m, i, g, "chipset not supported")
	})
	quiet := repeat(2, func(m *machine, i int, g *topo.GPUNVML) { g.Links = links(4, 5, 0, "", "", true) })
	allowed := access{forth: true, back: true, enabled: true}
	for _, c := range []struct {
		name      string
		machine   machine
		a, b      int
		way       access
		want      string
		links     int // 0: absent
		version   string
		limit     float64 // 0: absent
		limitFrom string
		class     string
		warning   string
	}{
		{"8 on NVSwitch", machine{"NVIDIA H100 80GB HBM3", 2, h100, ""}, 0, 7, allowed, nvlink, 18, "4.0", 18 * 26.562e9, "NVML: 18 active links", "SYS", ""},
		{"H20 on NVSwitch, rates unread", machine{"NVIDIA H20", 2, repeat(8, switched(18, 6, 0)), ""}, 0, 1, allowed, nvlink, 18, "4.0", 450e9, "18 of 18 links of NVIDIA H20", "NODE", ""},
		{"H800 is not H100", machine{"NVIDIA H800", 2, repeat(8, switched(8, 6, 0)), ""}, 0, 1, allowed, nvlink, 8, "4.0", 200e9, "H800", "NODE", ""},
		{"a model that is not in the table", machine{"NVIDIA X999", 2, repeat(2, switched(18, 6, 0)), ""}, 0, 1, allowed, nvlink, 18, "4.0", 0, "", "SYS", ""},
		{"H100 PCIe, 12 of 18 by design", machine{"NVIDIA H100 PCIe", 1, repeat(2, bridged(12, 18, 6)), ""}, 0, 1, allowed, nvlink, 12, "4.0", 300e9, "12 of 12 links of NVIDIA H100 PCIe", "NODE", ""},
		{"bridge pair, across a bridge", machine{"NVIDIA RTX A6000", 2, repeat(4, bridged(4, 4, 5)), ""}, 2, 3, allowed, nvlink, 4, "3.1", 56.25e9, "A6000", "NODE", ""},
		{"bridge pair, beside the bridge", machine{"NVIDIA RTX A6000", 2, repeat(4, bridged(4, 4, 5)), ""}, 0, 2, allowed, pciePeer, 0, "", 63.015e9, "PCI Express 5 x16", "SYS", ""},
		{"PCIe across two sockets", machine{"NVIDIA L40S", 2, repeat(4, bare), "identity"}, 0, 3, allowed, pciePeer, 0, "", 63.015e9, "PCI Express 5 x16", "SYS", ""},
		{"PCIe behind a translating IOMMU", machine{"NVIDIA L40S", 1, repeat(2, bare), "DMA-FQ"}, 0, 1, allowed, pciePeer, 0, "", 63.015e9, "PCI", "NODE", "an IOMMU translates addresses"},
		{"links down on one side", machine{"NVIDIA H100 80GB HBM3", 2, down, ""}, 0, 1, allowed, nvlink, 14, "4.0", 14 * 26.562e9, "14 active", "NODE", "14 NVLinks are active at 0000:10:00.0, 18 at others"},
		{"links down on the other side", machine{"NVIDIA H100 80GB HBM3", 2, down, ""}, 1, 0, allowed, nvlink, 14, "4.0", 14 * 26.562e9, "14 active", "NODE", ""},
		{"links up, status bad", machine{"NVIDIA H100 80GB HBM3", 1, deaf, ""}, 0, 1, allowed, pciePeer, 0, "", 63.015e9, "PCI", "NODE", ""},
		{"links up, other end not told", machine{"NVIDIA RTX A6000", 1, quiet, ""}, 0, 1, allowed, unproved, 0, "", 0, "", "NODE", "not labelled NVLink"},
		{"the driver refuses", machine{"NVIDIA GeForce RTX 4090", 1, repeat(2, bare), ""}, 0, 1, access{}, hostStaged, 0, "", 0, "", "NODE", ""},
		{"the driver refuses, links or not", machine{"NVIDIA H100 80GB HBM3", 1, h100, ""}, 0, 1, access{back: true}, hostStaged, 0, "", 0, "", "NODE", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := c.machine.host()
			p := transports.Path{Realm: transports.Hardware}
			g := func(i int) gpu {
				return gpu{bdf: bdf(i), name: c.machine.model, compute: compute(c.machine.model), facts: h.GPUs[i].NVML}
			}
			describePair(&p, h, g(c.a), g(c.b), c.way, false)
			if p.Name != c.want || p.PCIClass != c.class || p.NVLinkVer != c.version {
				t.Errorf("named %q, class %s, NVLink %q\n%s", p.Name, p.PCIClass, p.NVLinkVer, strings.Join(p.Evidence, "\n"))
			}
			if (p.NVLinks == nil) != (c.links == 0) || (p.NVLinks != nil && *p.NVLinks != c.links) {
				t.Errorf("%v links, want %d", p.NVLinks, c.links)
			}
			switch {
			case (p.Limit == nil) != (c.limit == 0):
				t.Errorf("limit %+v, want %g", p.Limit, c.limit)
			case p.Limit != nil && (p.Limit.BytesPerSecond < 0.999*c.limit || p.Limit.BytesPerSecond > 1.001*c.limit || !strings.Contains(p.Limit.Source, c.limitFrom)):
				t.Errorf("limit %+v, want %g from %q", p.Limit, c.limit, c.limitFrom)
			}
			if all := strings.Join(p.Warnings, "; "); (c.warning == "") != (all == "") || !strings.Contains(all, c.warning) {
				t.Errorf("warnings %q, want %q", all, c.warning)
			}
			if p.Name == nvlink && !strings.Contains(strings.Join(p.Evidence, "\n"), "NVML NVLinks of") {
				t.Errorf("NVLink without evidence: %q", p.Evidence)
			}
		})
	}
}

func TestWithoutNVMLNothingIsCalledNVLink(t *testing.T) {
	p := transports.Path{}
	describePair(&p, &topo.Host{}, gpu{bdf: bdf(0), name: "NVIDIA H100 80GB HBM3"}, gpu{bdf: bdf(1)}, access{forth: true, back: true, enabled: true}, false)
	if p.Name != unproved || p.Limit != nil || len(p.Warnings) != 1 {
		t.Errorf("%+v", p)
	}
	p = transports.Path{}
	describePair(&p, &topo.Host{}, gpu{bdf: bdf(0)}, gpu{bdf: bdf(1)}, access{forth: true}, true)
	if p.Name != hostStaged || p.Settings["peer-access"] != "off" {
		t.Errorf("%+v", p)
	}
}

// The names at which others' tables have failed: each its own rate, and no guess for a name that is not there.
func TestLimitsAreByExactName(t *testing.T) {
	for name, want := range map[string]float64{
		"NVIDIA H100 80GB HBM3": 450e9, "NVIDIA H800": 200e9, "NVIDIA H20": 450e9, "NVIDIA H20-3e": 450e9, "NVIDIA H200": 450e9, "NVIDIA H200 NVL": 450e9,
		"NVIDIA H100 NVL": 300e9, "NVIDIA H100 PCIe": 300e9, "NVIDIA B200": 900e9, "NVIDIA GB200": 900e9, "NVIDIA A100-SXM4-80GB": 300e9,
		"NVIDIA H100": 0, "NVIDIA H200 NVL 2": 0, "NVIDIA B300": 0, "NVIDIA RTX PRO 6000 Blackwell Server Edition": 0, "": 0, "nvidia h100 80gb hbm3": 0,
		"Fake GPU (hopbench double)": 0,
	} {
		r := nvlinkRates[name]
		if r.bytesPerSecond != want {
			t.Errorf("%q: %g one way, want %g", name, r.bytesPerSecond, want)
		}
		l := nvlinkLimit(name, links(max(r.links, 1), 6, 0, "switch", "", true))
		if (l == nil) != (want == 0) || (l != nil && l.BytesPerSecond != want) {
			t.Errorf("%q: limit %+v", name, l)
		}
	}
	// A 4-way bridge of H200 NVL gives each pair six of the eighteen links.
	if l := nvlinkLimit("NVIDIA H200 NVL", links(6, 6, 0, "gpu", bdf(1), true)); l == nil || l.BytesPerSecond != 150e9 {
		t.Errorf("six of eighteen links: %+v", l)
	}
	for name, r := range nvlinkRates {
		if r.source == "" || !strings.Contains(r.source, "https://") || r.links == 0 {
			t.Errorf("%s: a figure without a source", name)
		}
		if perLink := r.bytesPerSecond / float64(r.links); perLink < 10e9 || perLink > 50e9 {
			t.Errorf("%s: %g a link one way: is that both ways?", name, perLink)
		}
	}
	if nvlinkLimit("NVIDIA H100 PCIe", links(18, 6, 0, "gpu", "", true)) != nil {
		t.Error("more links than the model has got a limit")
	}
}

// TestPairsOfACapturedHost joins the double's eight devices with a captured host by bus id.
func TestPairsOfACapturedHost(t *testing.T) {
	host, err := topo.Read("../topo/testdata/hosts/hgx-infiniband.txtar", topo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var buses []string
	for _, g := range host.GPUs {
		buses = append(buses, g.BDF)
	}
	if len(buses) != 8 {
		t.Fatalf("%d GPUs captured", len(buses))
	}
	cudatest.Load(t, "FAKECUDA_DEVICES", "8", "FAKECUDA_BUS_IDS", strings.Join(buses, ","), "FAKECUDA_PEERS", "0-1,2>3")
	d := newDriver(PeerName, nil)
	d.host = func() (*topo.Host, error) { return host, nil }
	all, err := (pairer{d}).Pairs(t.Context())
	if err != nil || len(all) != 56 {
		t.Fatalf("%d ordered pairs of 8 GPUs, %v", len(all), err)
	}
	for _, l := range all {
		want := hostStaged
		switch l.Initiator + ">" + l.Target {
		case "cuda:0>cuda:1", "cuda:1>cuda:0", "cuda:2>cuda:3":
			want = nvlink
		}
		version := ""
		if want == nvlink {
			version = "4.0"
		}
		if l.Path.Name != want || l.Path.NVLinkVer != version {
			t.Errorf("%s to %s is %q of version %q, want %q", l.Initiator, l.Target, l.Path.Name, l.Path.NVLinkVer, want)
		}
		if l.Path.Realm != transports.Double || l.Path.Limit != nil {
			t.Errorf("%s to %s: realm %s, limit %+v: a double has no limit", l.Initiator, l.Target, l.Path.Realm, l.Path.Limit)
		}
	}
}
