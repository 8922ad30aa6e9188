package cudapeer

import (
	"fmt"
	"slices"
	"strings"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/hostcheck"
	"hopbench/transports/topo"
)

// Checks are the doctor's questions about peer access between the GPUs of one process.
func Checks() []transports.Check {
	var list []transports.Check
	var before []fault.Code
	gate := func(code fault.Code, title string, run func(*topo.Host) []fault.Finding) {
		list = append(list, transports.Check{Code: code, Title: title, Needs: slices.Clone(before), Run: run})
		before = append(before, code)
	}
	gate(fault.GPUNone, "there is an NVIDIA GPU", checkPresent)
	gate(fault.GPUDriver, "the GPU driver is loaded", checkDriver)
	gate(fault.GPULibrary, "libcuda is installed", checkLibrary)
	gate(fault.GPUMismatch, "library and kernel module are of one version", checkVersions)
	gate(fault.GPUNode, "a GPU's device node can be opened", checkNodes)
	gate(fault.GPUOne, "two GPUs are visible in this process", checkCount)
	gate(fault.GPUMIG, "the GPUs are not in MIG mode", checkMIG)
	gate(fault.GPUFabric, "the NVSwitch fabric is initialised", checkFabric)
	for _, c := range []struct {
		code  fault.Code
		title string
		run   func(*topo.Host) []fault.Finding
	}{
		{fault.GPUPeer, "the driver allows peer access", checkPeers},
		{fault.GPUNoNVLink, "NVLink joins the GPUs", checkNVLink},
		{fault.GPULinkDown, "each GPU has as many NVLinks as its twins", checkLinks},
		{fault.PCIIOMMU, "the IOMMU leaves peer-to-peer traffic alone", checkIOMMU},
		{fault.PCIACS, "no bridge redirects peer-to-peer traffic", checkACS},
		{fault.GPUIMEX, "IMEX channels, for NVLink between hosts", checkIMEX},
		{fault.PCIWidth, "the GPUs use all of their lanes", checkWidth},
		{fault.Steering, "no variable steers the GPUs' paths", func(h *topo.Host) []fault.Finding { return hostcheck.Steering(h, "gpu") }},
	} {
		list = append(list, transports.Check{Code: c.code, Title: c.title, Needs: slices.Clone(before), Run: c.run})
	}
	return list
}

const vendor = "0x10de"

// present are the NVIDIA GPUs that the bus or the driver shows.
func present(h *topo.Host) (out []topo.GPU) {
	for _, g := range h.GPUs {
		if g.Vendor == vendor {
			out = append(out, g)
		}
	}
	return out
}

// given are the GPUs whose device node opens: in a container fewer than are present.
func given(h *topo.Host) (out []topo.GPU) {
	for _, g := range present(h) {
		if g.Node != nil && g.Node.Err == "" {
			out = append(out, g)
		}
	}
	return out
}

// visible are the given GPUs that CUDA_VISIBLE_DEVICES leaves: the list ends at the first entry that names none.
func visible(h *topo.Host) []topo.GPU {
	gs := given(h)
	i := slices.IndexFunc(h.Env, func(v topo.EnvVar) bool { return v.Name == "CUDA_VISIBLE_DEVICES" })
	if i < 0 {
		return gs
	}
	var out []topo.GPU
	for _, e := range strings.Split(h.Env[i].Value, ",") {
		e = strings.TrimSpace(e)
		var n int
		switch {
		case strings.HasPrefix(e, "GPU-"):
			j := slices.IndexFunc(gs, func(g topo.GPU) bool { return strings.HasPrefix(g.UUID, e) })
			if j < 0 {
				return out
			}
			out = append(out, gs[j])
		case strings.HasPrefix(e, "MIG-"):
			return out // one slice, which is no GPU of its own
		default:
			if _, err := fmt.Sscanf(e, "%d", &n); err != nil || n < 0 || n >= len(gs) {
				return out
			}
			out = append(out, gs[n])
		}
	}
	return out
}

func one(f fault.Finding) []fault.Finding { return []fault.Finding{f} }

func checkPresent(h *topo.Host) []fault.Finding {
	if n := len(present(h)); n > 0 {
		return one(hostcheck.Finding(h, fault.GPUNone, fault.OK, nil, "%s on the bus", hostcheck.Plural(n, "GPU")))
	}
	return one(hostcheck.Finding(h, fault.GPUNone, fault.Fail, hostcheck.Ev("/sys/bus/pci/devices/*/{vendor,class}", "no display or 3D controller of vendor 0x10de", "one"), "there is no NVIDIA GPU here"))
}

func checkDriver(h *topo.Host) []fault.Finding {
	if h.NVIDIA.Driver == "" && !h.Modules["nvidia"].Loaded {
		return one(hostcheck.Finding(h, fault.GPUDriver, fault.Fail, hostcheck.Ev("/proc/driver/nvidia/version", "absent", "the driver's version"), "%s on the bus, and the driver is not loaded", hostcheck.Plural(len(present(h)), "GPU is", "GPUs are")))
	}
	return one(hostcheck.Finding(h, fault.GPUDriver, fault.OK, hostcheck.Ev("/proc/driver/nvidia/version", h.NVIDIA.Driver, ""), "driver %s", h.NVIDIA.Driver))
}

func checkLibrary(h *topo.Host) []fault.Finding {
	if h.RDMA.LibraryKnown && len(h.NVIDIA.Cuda) == 0 {
		return one(hostcheck.Finding(h, fault.GPULibrary, fault.Fail, hostcheck.Ev("the loader's folders", "no libcuda.so.*", "libcuda.so.1 of driver "+h.NVIDIA.Driver), "libcuda is not here"))
	}
	return nil
}

func checkVersions(h *topo.Host) []fault.Finding {
	n := h.NVIDIA
	libs := slices.DeleteFunc(slices.Concat(n.Cuda, n.ML), func(v string) bool { return v == "1" })
	ev := hostcheck.Ev("/proc/driver/nvidia/version", n.Driver, "")
	ev = append(ev, fault.Evidence{Source: "versions of libcuda and libnvidia-ml on disk", Got: strings.Join(slices.Compact(libs), ", "), Want: n.Driver})
	said := strings.Contains(n.NVMLError, "MISMATCH")
	if said {
		ev = append(ev, fault.Evidence{Source: "NVML", Got: n.NVMLError})
	}
	if said || n.Driver != "" && len(libs) > 0 && !slices.Contains(libs, n.Driver) {
		return one(hostcheck.Finding(h, fault.GPUMismatch, fault.Fail, ev, "the kernel module is %s, the libraries are %s", n.Driver, strings.Join(slices.Compact(libs), ", ")))
	}
	return nil
}

func checkNodes(h *topo.Host) []fault.Finding {
	var ev []fault.Evidence
	for _, n := range []*topo.Node{h.NVIDIA.Ctl, h.NVIDIA.UVM} {
		if n != nil && n.Err != "" {
			ev = append(ev, fault.Evidence{Source: "open " + n.Path, Got: n.Err, Want: "opens"})
		}
	}
	if h.NVIDIA.Ctl == nil {
		ev = append(ev, fault.Evidence{Source: "/dev/nvidiactl", Got: "absent", Want: "present"})
	}
	if n := len(given(h)); n > 0 && len(ev) == 0 {
		all := len(present(h))
		if n < all {
			return one(hostcheck.Finding(h, fault.GPUNode, fault.OK, nil, "%d of %d GPUs can be opened from here", n, all))
		}
		return one(hostcheck.Finding(h, fault.GPUNode, fault.OK, nil, "%s can be opened", hostcheck.Plural(n, "GPU")))
	}
	for _, g := range present(h) {
		if g.Node != nil && g.Node.Err != "" {
			ev = append(ev, fault.Evidence{Source: "open " + g.Node.Path, Got: g.Node.Err, Want: "opens"})
		}
	}
	return one(hostcheck.Finding(h, fault.GPUNode, fault.Fail, hostcheck.Few(ev), "the driver knows %s, and none can be opened from here", hostcheck.Plural(len(present(h)), "GPU")))
}

func checkCount(h *topo.Host) []fault.Finding {
	v, g := visible(h), given(h)
	if len(v) >= 2 {
		return one(hostcheck.Finding(h, fault.GPUOne, fault.OK, nil, "%d GPUs are visible", len(v)))
	}
	ev := hostcheck.Ev("/dev/nvidia*", fmt.Sprintf("%d of %d can be opened", len(g), len(present(h))), "two")
	if len(v) < len(g) {
		ev = append(ev, fault.Evidence{Source: "CUDA_VISIBLE_DEVICES", Got: fmt.Sprintf("leaves %d", len(v)), Want: "two"})
	}
	f := hostcheck.Finding(h, fault.GPUOne, fault.Fail, ev, "%s visible here: peer access needs two in one process", hostcheck.Plural(len(v), "GPU is", "GPUs are"))
	if h.Container.Kind != "" && len(present(h)) > len(g) {
		if row, ok := fault.Lookup(fault.GPUContainers); ok {
			f.Summary += "; NVLink between containers cannot be tested in this mode"
			f.Fix = hostcheck.Fixes(h, slices.Concat(f.Fix, row.Fixes))
		}
	}
	return one(f)
}

func checkMIG(h *topo.Host) []fault.Finding {
	var ev []fault.Evidence
	v := visible(h)
	for _, g := range v {
		if g.NVML != nil && g.NVML.MIG != nil && *g.NVML.MIG {
			ev = append(ev, fault.Evidence{Source: "NVML, MIG mode of GPU " + g.BDF, Got: "enabled", Want: "disabled"})
		}
	}
	if len(ev) == 0 {
		return nil
	}
	sev := fault.Warn
	if len(v)-len(ev) < 2 {
		sev = fault.Fail
	}
	return one(hostcheck.Finding(h, fault.GPUMIG, sev, hostcheck.Few(ev), "%s in MIG mode: no peer access", hostcheck.Plural(len(ev), "GPU is", "GPUs are")))
}

func checkFabric(h *topo.Host) []fault.Finding {
	var ev []fault.Evidence
	done := 0
	for _, g := range visible(h) {
		if g.NVML == nil {
			continue
		}
		switch g.NVML.Fabric {
		case "not started", "in progress":
			ev = append(ev, fault.Evidence{Source: "NVML, fabric state of GPU " + g.BDF, Got: g.NVML.Fabric, Want: "completed"})
		case "completed":
			if g.NVML.FabricStatus != "" {
				ev = append(ev, fault.Evidence{Source: "NVML, fabric status of GPU " + g.BDF, Got: g.NVML.FabricStatus, Want: "success"})
			} else {
				done++
			}
		}
	}
	if h.NVIDIA.FabricManager == "absent" && (h.NVIDIA.NVSwitches > 0 || len(ev) > 0) {
		ev = append(ev, fault.Evidence{Source: "processes", Got: "no nv-fabricmanager", Want: "running"})
	}
	switch {
	case len(ev) > 0:
		return one(hostcheck.Finding(h, fault.GPUFabric, fault.Fail, hostcheck.Few(ev), "the NVSwitch fabric is not initialised: CUDA would answer 802"))
	case done > 0:
		return one(hostcheck.Finding(h, fault.GPUFabric, fault.OK, nil, "the NVSwitch fabric is initialised on %s", hostcheck.Plural(done, "GPU")))
	}
	return nil
}

// answered are the visible GPUs for which NVML answered.
func answered(h *topo.Host) (out []topo.GPU) {
	for _, g := range visible(h) {
		if g.NVML != nil {
			out = append(out, g)
		}
	}
	return out
}

func active(g topo.GPU) (n int) {
	for _, l := range g.NVML.Links {
		if l.Active {
			n++
		}
	}
	return n
}

func checkPeers(h *topo.Host) []fault.Finding {
	var ev []fault.Evidence
	pairs := 0
	gs := answered(h)
	for _, a := range gs {
		for _, b := range gs {
			p, ok := a.NVML.Peers[b.BDF]
			if a.BDF == b.BDF || !ok || p.Read == "" {
				continue
			}
			pairs++
			if p.Read != "ok" || p.Write != "" && p.Write != "ok" {
				ev = append(ev, fault.Evidence{Source: "NVML, P2P status of " + a.BDF + " towards " + b.BDF, Got: "read " + p.Read + ", write " + p.Write, Want: "ok"})
			}
		}
	}
	if len(ev) == 0 {
		return nil
	}
	return one(hostcheck.Finding(h, fault.GPUPeer, fault.Warn, hostcheck.Few(ev), "the driver refuses peer access for %d of %d directions: copies are staged through the host there", len(ev), pairs))
}

func checkNVLink(h *topo.Host) []fault.Finding {
	gs := answered(h)
	if len(gs) == 0 {
		got := "not asked"
		if e := h.NVIDIA.NVMLError; e != "" {
			got = e
		}
		return one(hostcheck.Finding(h, fault.GPUUnknown, fault.Unknown, hostcheck.Ev("NVML", got, "an answer"), "cannot tell which links join the GPUs"))
	}
	with := 0
	for _, g := range gs {
		if active(g) > 0 {
			with++
		}
	}
	if with == 0 {
		return one(hostcheck.Finding(h, fault.GPUNoNVLink, fault.Warn, hostcheck.Ev("NVML, link states", fmt.Sprintf("no active link on %d GPUs", len(gs)), "an active link"), "no NVLink: peer copies use PCIe, and are labelled so"))
	}
	return one(hostcheck.Finding(h, fault.GPUNoNVLink, fault.OK, nil, "%d of %d GPUs have active NVLinks", with, len(gs)))
}

// checkLinks compares with the twins in the box: a fixed number is wrong for one board or another.
func checkLinks(h *topo.Host) []fault.Finding {
	most := map[string]int{}
	gs := answered(h)
	for _, g := range gs {
		most[g.Model] = max(most[g.Model], active(g))
	}
	var ev []fault.Evidence
	for _, g := range gs {
		if n := active(g); n < most[g.Model] {
			ev = append(ev, fault.Evidence{Source: "NVML, active NVLinks of GPU " + g.BDF, Got: fmt.Sprint(n), Want: fmt.Sprintf("%d, as its twins (%s)", most[g.Model], g.Model)})
		}
	}
	if len(ev) == 0 {
		return nil
	}
	return one(hostcheck.Finding(h, fault.GPULinkDown, fault.Warn, hostcheck.Few(ev), "%s fewer active NVLinks than its twins", hostcheck.Plural(len(ev), "GPU has", "GPUs have")))
}

// overPCI are the pairs of visible GPUs that no NVLink joins.
func overPCI(h *topo.Host) (pairs [][2]string) {
	gs := visible(h)
	for i, a := range gs {
		for _, b := range gs[i+1:] {
			if a.NVML != nil && b.NVML != nil && active(a) > 0 && active(b) > 0 {
				continue
			}
			pairs = append(pairs, [2]string{a.BDF, b.BDF})
		}
	}
	return pairs
}

func checkIOMMU(h *topo.Host) []fault.Finding {
	if len(overPCI(h)) == 0 {
		return nil
	}
	return hostcheck.IOMMU(h)
}

func checkACS(h *topo.Host) []fault.Finding { return hostcheck.ACS(h, overPCI(h)) }

func checkIMEX(h *topo.Host) []fault.Finding {
	n := h.NVIDIA
	if n.IMEX == nil || !*n.IMEX {
		return nil // not a host that could join GPUs of others
	}
	if len(n.Channels) == 0 {
		return one(hostcheck.Finding(h, fault.GPUIMEX, fault.OK, hostcheck.Ev("/dev/nvidia-caps-imex-channels", "no channel", ""), "no IMEX channel here: not needed inside one host"))
	}
	var ev []fault.Evidence
	for _, c := range n.Channels {
		if c.Err != "" {
			ev = append(ev, fault.Evidence{Source: "open " + c.Path, Got: c.Err, Want: "opens"})
		}
	}
	if len(ev) == len(n.Channels) {
		return one(hostcheck.Finding(h, fault.GPUIMEX, fault.Warn, hostcheck.Few(ev), "no IMEX channel can be opened: matters only for NVLink between hosts"))
	}
	return one(hostcheck.Finding(h, fault.GPUIMEX, fault.OK, nil, "%s usable", hostcheck.Plural(len(n.Channels)-len(ev), "IMEX channel")))
}

func checkWidth(h *topo.Host) []fault.Finding {
	var out []string
	for _, g := range visible(h) {
		out = append(out, g.BDF)
	}
	return hostcheck.Width(h, out)
}
