package topo

import (
	"regexp"
	"sort"
	"strconv"
	"strings"
)

const vendorNVIDIA = "0x10de"

// gpus reads the GPU functions of the PCI bus and the NVIDIA driver's own folders.
func (r *reader) gpus(h *Host) (NVIDIA, []GPU) {
	var n NVIDIA
	n.Driver, n.Open = driverVersion(r.text("proc/driver/nvidia/version"))
	if n.Driver == "" {
		n.Driver = h.Modules["nvidia"].Version
	}
	if r.t.Exists("dev/nvidiactl") {
		n.Ctl = r.node("dev/nvidiactl")
	}
	if r.t.Exists("dev/nvidia-uvm") {
		n.UVM = r.node("dev/nvidia-uvm")
	}
	for _, m := range []string{"nvidia_peermem", "nv_peer_mem"} {
		if h.Modules[m].Loaded && n.PeerMem == "" {
			n.PeerMem = h.Modules[m].Version
		}
	}
	n.Cuda, n.ML = r.nvidiaLibraries()
	if s := r.text("proc/devices"); s != "" {
		imex := strings.Contains(s, "nvidia-caps-imex-channels")
		n.IMEX = &imex
	}
	for _, c := range natural(r.list("dev/nvidia-caps-imex-channels")) {
		if strings.HasPrefix(c, "channel") {
			n.Channels = append(n.Channels, *r.node("dev/nvidia-caps-imex-channels/" + c))
		}
	}
	if v := r.t.Fact("fabric-manager"); len(v) > 0 {
		n.FabricManager = v[0]
	} else if r.t.live {
		n.FabricManager = r.fabricManager()
	}
	n.KernelLog = r.t.Fact("kernel-log")
	if r.t.live && (n.Driver != "" || h.Modules["nvidia"].Loaded) {
		n.KernelLog = kernelLog()
	}

	info := map[string]map[string]string{}
	for _, bdf := range r.list("proc/driver/nvidia/gpus") {
		m := map[string]string{}
		for line := range strings.Lines(r.text("proc/driver/nvidia/gpus/" + bdf + "/information")) {
			if k, v, ok := strings.Cut(line, ":"); ok {
				m[strings.TrimSpace(k)] = strings.TrimSpace(v)
			}
		}
		info[strings.ToLower(bdf)] = m
	}
	var out []GPU
	add := func(bdf, vendor string, d *PCIDevice) {
		g := GPU{BDF: bdf, Vendor: vendor}
		if d != nil {
			g.NUMA = d.NUMA
			if b, ok := d.BARs[1]; ok {
				g.BAR1 = &b
			}
		}
		if m := info[bdf]; m != nil {
			g.Model, g.UUID = m["Model"], m["GPU UUID"]
			if v, err := strconv.Atoi(m["Device Minor"]); err == nil && v >= 0 {
				g.Minor = &v
				g.Node = r.node("dev/nvidia" + strconv.Itoa(v))
			}
			delete(info, bdf)
		}
		out = append(out, g)
	}
	for i := range h.PCI {
		d := &h.PCI[i]
		switch {
		case d.Vendor == vendorNVIDIA && strings.HasPrefix(d.Class, "0x0680"):
			n.NVSwitches++
		case d.Vendor == vendorNVIDIA && (strings.HasPrefix(d.Class, "0x0302") || strings.HasPrefix(d.Class, "0x0300")),
			d.Vendor == "0x1002" && (strings.HasPrefix(d.Class, "0x03") || strings.HasPrefix(d.Class, "0x1200")):
			add(d.BDF, d.Vendor, d)
		}
	}
	// The driver may know a GPU whose function a container's /sys does not show.
	var rest []string
	for bdf := range info {
		rest = append(rest, bdf)
	}
	sort.Strings(rest)
	for _, bdf := range rest {
		add(bdf, vendorNVIDIA, nil)
	}
	return n, out
}

var versionWord = regexp.MustCompile(`\b\d{3}\.\d+(\.\d+)?\b`)

// driverVersion reads "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build ...".
func driverVersion(s string) (version string, open *bool) {
	for line := range strings.Lines(s) {
		if !strings.HasPrefix(line, "NVRM version:") {
			continue
		}
		o := strings.Contains(line, "Open Kernel Module")
		return versionWord.FindString(line), &o
	}
	return "", nil
}

// nvidiaLibraries collects the versions in the names of the driver's libraries.
func (r *reader) nvidiaLibraries() (cuda, ml []string) {
	seen := map[string]bool{}
	for _, d := range libFolders {
		real, err := r.t.Resolve(d)
		if err != nil || seen[real] {
			continue
		}
		seen[real] = true
		l, err := r.t.ReadDir(real)
		if err != nil {
			continue
		}
		cuda, ml = addVersions(cuda, l, "libcuda.so."), addVersions(ml, l, "libnvidia-ml.so.")
	}
	return cuda, ml
}

// addVersions adds what follows prefix in the names; the bare "1" only where nothing longer says more.
func addVersions(to, names []string, prefix string) []string {
	bare, n := false, len(to)
	for _, f := range names {
		switch v, ok := strings.CutPrefix(f, prefix); {
		case !ok:
		case v == "1":
			bare = true
		default:
			to = append(to, v)
		}
	}
	if bare && len(to) == n {
		to = append(to, "1")
	}
	return to
}

// fabricManager looks for the running service among the processes that this namespace shows.
func (r *reader) fabricManager() string {
	for _, p := range r.list("proc") {
		if p[0] < '0' || p[0] > '9' {
			continue
		}
		// nv-fabricmanager; the kernel cuts names at 15 characters.
		if s, err := r.quiet("proc/" + p + "/comm"); err == nil && strings.HasPrefix(s, "nv-fabricmanage") {
			return "running"
		}
	}
	return ""
}
