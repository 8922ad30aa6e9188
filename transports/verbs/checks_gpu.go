package verbs

import (
	"fmt"
	"strconv"
	"strings"

	"hopbench/transports/fault"
	"hopbench/transports/internal/hostcheck"
	"hopbench/transports/topo"
)

// hardware are the usable hardware ports' PCI functions, and gpus those of the GPUs that a driver serves.
func (c checker) hardware(h *topo.Host) (nics []string) {
	ok, _ := c.usable(h)
	for _, p := range ok {
		if d := h.Device(p.Device); d != nil && d.BDF != "" && !p.Software {
			nics = append(nics, d.BDF)
		}
	}
	return nics
}

func gpus(h *topo.Host) (out []topo.GPU) {
	if h.NVIDIA.Driver == "" {
		return nil
	}
	for _, g := range h.GPUs {
		if g.Vendor == "0x10de" && (g.Node == nil || g.Node.Err == "") {
			out = append(out, g)
		}
	}
	return out
}

// gpuDirect says by which way a NIC can reach GPU memory here: DMA-BUF, nvidia-peermem or none.
func (c checker) gpuDirect(h *topo.Host) []fault.Finding {
	if len(gpus(h)) == 0 || len(c.hardware(h)) == 0 {
		return nil
	}
	n := h.NVIDIA
	module := "nvidia_peermem"
	m, known := h.Modules[module]
	if old := h.Modules["nv_peer_mem"]; !m.Loaded && old.Loaded {
		module, m, known = "nv_peer_mem", old, true
	}
	warn := func(code fault.Code, ev []fault.Evidence, format string, args ...any) []fault.Finding {
		return []fault.Finding{hostcheck.Finding(h, code, fault.Warn, ev, format, args...)}
	}
	dmabuf, why := dmabufLikely(h)
	bad := disagreement(n.KernelLog)
	switch {
	case m.Loaded && module == "nvidia_peermem" && m.Version != "" && n.Driver != "" && m.Version != n.Driver:
		bad = fmt.Sprintf("nvidia_peermem %s, driver %s", m.Version, n.Driver)
		if !dmabuf {
			return warn(fault.GDRPeerMemBad, hostcheck.Ev("/sys/module/nvidia_peermem/version", m.Version, n.Driver), "nvidia-peermem %s is loaded beside driver %s", m.Version, n.Driver)
		}
	case m.Loaded && !dmabuf:
		return []fault.Finding{hostcheck.Finding(h, fault.GDRNoWay, fault.OK, hostcheck.Ev("/sys/module/"+module, "present", ""), "GPU memory can be registered through %s", module),
			hostcheck.Finding(h, fault.GDRDMABuf, fault.OK, why, "DMA-BUF is not offered, and not needed beside %s", module)}
	case m.Loaded:
		return []fault.Finding{hostcheck.Finding(h, fault.GDRNoWay, fault.OK, hostcheck.Ev("/sys/module/"+module, "present", ""), "GPU memory can be registered through %s", module)}
	}
	if dmabuf {
		ev := append(why, fault.Evidence{Source: "/sys/module/nvidia_peermem", Got: "absent", Want: "not needed with DMA-BUF"})
		return []fault.Finding{hostcheck.Finding(h, fault.GDRNoWay, fault.OK, ev, "GPU memory can be registered through DMA-BUF, by kernel and driver flavour; a run proves it")}
	}
	if bad != "" {
		return warn(fault.GDRPeerMemBad, append(hostcheck.Ev("kernel log", bad, "no complaint"), why...), "nvidia-peermem does not match the loaded RDMA stack: GPU buffers go through host memory")
	}
	if known && m.OnDisk != nil && *m.OnDisk {
		if h.RDMA.PeerHook == nil || *h.RDMA.PeerHook {
			return warn(fault.GDRPeerMemMissing, append(hostcheck.Ev("/sys/module/nvidia_peermem", "absent; the module is on disk", "loaded"), why...), "nvidia-peermem is not loaded, and DMA-BUF is not offered: GPU buffers go through host memory")
		}
		return warn(fault.GDRPeerMemBad, append(hostcheck.Ev("/proc/kallsyms", "no ib_register_peer_memory_client", "the hook that nvidia-peermem needs"), why...), "the loaded ib_core has no hook for nvidia-peermem: inserting it would answer \"Invalid argument\"")
	}
	return warn(fault.GDRNoWay, append(hostcheck.Ev("/sys/module/nvidia_peermem", "absent", "loaded, or DMA-BUF"), why...), "no GPUDirect way: GPU buffers go through host memory")
}

// dmabufLikely judges by kernel release and driver flavour, with what was read.
func dmabufLikely(h *topo.Host) (bool, []fault.Evidence) {
	var ev []fault.Evidence
	ok := true
	if !atLeast(h.Kernel, 5, 12) {
		ok = false
	}
	ev = append(ev, fault.Evidence{Source: "kernel release", Got: h.Kernel, Want: "5.12 or later for DMA-BUF import"})
	flavour := "not known"
	switch o := h.NVIDIA.Open; {
	case o == nil:
		ok = false
	case *o:
		flavour = "open"
	default:
		flavour, ok = "proprietary", false
	}
	return ok, append(ev, fault.Evidence{Source: "/proc/driver/nvidia/version", Got: flavour + " kernel module", Want: "open, for DMA-BUF export"})
}

// atLeast compares the first two numbers of a kernel release.
func atLeast(release string, major, minor int) bool {
	f := strings.FieldsFunc(release, func(r rune) bool { return r < '0' || r > '9' })
	if len(f) < 2 {
		return false
	}
	a, err1 := strconv.Atoi(f[0])
	b, err2 := strconv.Atoi(f[1])
	return err1 == nil && err2 == nil && (a > major || a == major && b >= minor)
}

// disagreement is the kernel's line that refuses the module.
func disagreement(log []string) string {
	for _, l := range log {
		if strings.Contains(l, "peermem") && (strings.Contains(l, "disagrees") || strings.Contains(l, "Unknown symbol")) {
			return l
		}
	}
	return ""
}

// smallBAR1 is the aperture of boards without a large BAR: registrations of that size in sum fail.
const smallBAR1 = 256 << 20

func (c checker) bar1(h *topo.Host) []fault.Finding {
	if len(c.hardware(h)) == 0 {
		return nil
	}
	var ev []fault.Evidence
	for _, g := range gpus(h) {
		if g.BAR1 != nil && *g.BAR1 <= smallBAR1 {
			ev = append(ev, fault.Evidence{Source: "/sys/bus/pci/devices/" + g.BDF + "/resource, BAR 1", Got: fmt.Sprintf("%d bytes", *g.BAR1), Want: "the size of the GPU's memory"})
		}
	}
	if len(ev) == 0 {
		return nil
	}
	return []fault.Finding{hostcheck.Finding(h, fault.GDRBAR1, fault.Warn, hostcheck.Few(ev), "%s a BAR1 of 256 MiB or less: large GPU buffers cannot be registered", hostcheck.Plural(len(ev), "GPU has", "GPUs have"))}
}

// nearest pairs each GPU with the nearest usable NIC of this link layer.
func (c checker) nearest(h *topo.Host) (pairs []topo.Pair) {
	nics := c.hardware(h)
	if len(nics) == 0 {
		return nil
	}
	for _, g := range gpus(h) {
		best := h.Distance(g.BDF, nics[0])
		for _, n := range nics[1:] {
			if d := h.Distance(g.BDF, n); best.Class.Farther(d.Class) {
				best = d
			}
		}
		pairs = append(pairs, best)
	}
	return pairs
}

func (c checker) distance(h *topo.Host) []fault.Finding {
	var far []fault.Evidence
	pairs := c.nearest(h)
	for _, p := range pairs {
		if p.Class == topo.NODE || p.Class == topo.SYS {
			far = append(far, fault.Evidence{Source: "PCI path of GPU " + p.A + " to its nearest NIC " + p.B, Got: string(p.Class) + ": " + p.Why, Want: "PIX or PXB: one root port"})
		}
	}
	if len(far) > 0 {
		return []fault.Finding{hostcheck.Finding(h, fault.PCIDistance, fault.Warn, hostcheck.Few(far), "%s no NIC near", hostcheck.Plural(len(far), "GPU has", "GPUs have"))}
	}
	if len(pairs) > 0 {
		return []fault.Finding{hostcheck.Finding(h, fault.PCIDistance, fault.OK, nil, "each GPU has a NIC below its own root complex")}
	}
	return nil
}

func (c checker) iommu(h *topo.Host) []fault.Finding {
	if len(c.nearest(h)) == 0 {
		return nil
	}
	return hostcheck.IOMMU(h)
}

func (c checker) acs(h *topo.Host) []fault.Finding {
	var pairs [][2]string
	for _, p := range c.nearest(h) {
		pairs = append(pairs, [2]string{p.A, p.B})
	}
	return hostcheck.ACS(h, pairs)
}

func (c checker) upstream(h *topo.Host) []fault.Finding { return hostcheck.Upstream(h, c.hardware(h)) }

func (c checker) width(h *topo.Host) []fault.Finding { return hostcheck.Width(h, c.hardware(h)) }
