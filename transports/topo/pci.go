package topo

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

var bdfShape = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// pci reads the functions that matter: bridges, GPUs, network and InfiniBand controllers.
func (r *reader) pci() []PCIDevice {
	var out []PCIDevice
	for _, bdf := range r.list("sys/bus/pci/devices") {
		if !bdfShape.MatchString(bdf) {
			continue
		}
		p := "sys/bus/pci/devices/" + bdf
		d := PCIDevice{BDF: bdf, Class: r.text(p + "/class")}
		if !keepClass(d.Class) {
			continue
		}
		d.Vendor, d.Device = r.text(p+"/vendor"), r.text(p+"/device")
		d.Driver = r.base(p + "/driver")
		d.NUMA = r.numa(p + "/numa_node")
		d.Path = pciPath(r, p, bdf)
		d.Link = PCILink{
			SpeedNow: r.gts(p + "/current_link_speed"), SpeedMax: r.gts(p + "/max_link_speed"),
			WidthNow: r.width(p + "/current_link_width"), WidthMax: r.width(p + "/max_link_width"),
		}
		if g, err := strconv.Atoi(r.base(p + "/iommu_group")); err == nil {
			d.Group = &g
		}
		if pf := r.base(p + "/physfn"); bdfShape.MatchString(pf) {
			d.PhysFn = pf
		}
		if strings.HasPrefix(d.Class, "0x0604") {
			d.ACS, d.ACSWhy = r.acs(bdf, p+"/config")
		}
		d.BARs = bars(r.text(p + "/resource"))
		out = append(out, d)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].BDF < out[j].BDF })
	return out
}

// keepClass keeps bridges (06), displays and 3D controllers (03), network (02, 0c06) and accelerators (12). A class that
// could not be read is kept: its device may be what is looked for.
func keepClass(c string) bool {
	if len(c) < 6 {
		return true
	}
	switch c[2:4] {
	case "02", "03", "06", "12":
		return true
	}
	return strings.HasPrefix(c, "0x0c06")
}

// pciPath is the chain from the root bus to the function, taken from where the link of the bus folder leads.
func pciPath(r *reader, p, bdf string) []string {
	real, err := r.t.Resolve(p)
	if err != nil {
		r.note(p, err)
		return []string{bdf}
	}
	var chain []string
	for _, c := range strings.Split(real, "/") {
		if strings.HasPrefix(c, "pci") && strings.Contains(c, ":") || bdfShape.MatchString(c) {
			chain = append(chain, c)
		}
	}
	if len(chain) == 0 {
		chain = []string{bdf}
	}
	return chain
}

// gts parses "32.0 GT/s PCIe" and "16 GT/s"; nil for "Unknown".
func (r *reader) gts(p string) *float64 {
	s, ok := r.try(p)
	if !ok || s == "" || strings.HasPrefix(s, "Unknown") {
		return nil
	}
	v, err := strconv.ParseFloat(strings.Fields(s)[0], 64)
	if err != nil || !strings.Contains(s, "GT/s") || v <= 0 || v > 1e4 {
		r.note(p, fmt.Errorf("not a link speed: %q", clip(s)))
		return nil
	}
	return &v
}

// width is a number of lanes; 0 and 255 are what a port without a link reports.
func (r *reader) width(p string) *int {
	w := r.int(p)
	if w == nil || *w <= 0 || *w > 32 {
		return nil
	}
	return w
}

// bars parses the sysfs resource file: a line a BAR, "start end flags".
func bars(s string) map[int]uint64 {
	var out map[int]uint64
	n := 0
	for line := range strings.Lines(s) {
		f := strings.Fields(line)
		if n < 6 && len(f) == 3 {
			a, err1 := strconv.ParseUint(f[0], 0, 64)
			b, err2 := strconv.ParseUint(f[1], 0, 64)
			if err1 == nil && err2 == nil && b > a {
				if out == nil {
					out = map[int]uint64{}
				}
				out[n] = b - a + 1
			}
		}
		n++
	}
	return out
}

// acs finds the Access Control Services capability (PCI Express base specification, extended capability 0x000d) in a
// bridge's configuration space and returns its control word. An ordinary user gets only the first 64 bytes: that is "not known", never "off".
func (r *reader) acs(bdf, p string) (*uint16, string) {
	if !r.t.live { // a text archive holds the answer instead of the bytes
		for _, f := range r.t.Fact("acs") {
			if a, v, _ := strings.Cut(f, " "); a == bdf {
				if c, err := strconv.ParseUint(v, 0, 16); err == nil {
					w := uint16(c)
					return &w, ""
				}
				return nil, "only 64 bytes of the configuration space were readable (root reads 4096)"
			}
		}
	}
	b, err := r.t.ReadFile(p)
	if err != nil {
		return nil, errText(err)
	}
	if len(b) <= 256 {
		return nil, fmt.Sprintf("only %d bytes of the configuration space are readable (root reads 4096)", len(b))
	}
	for off, hops := 0x100, 0; off >= 0x100 && off+8 <= len(b) && hops < 64; hops++ {
		h := binary.LittleEndian.Uint32(b[off:])
		if h == 0 || h == 0xffffffff {
			break
		}
		if h&0xffff == 0x000d {
			c := binary.LittleEndian.Uint16(b[off+6:])
			return &c, ""
		}
		off = int(h >> 20)
	}
	return nil, "the bridge has no ACS capability"
}

// ACSRedirects reports whether the control bits send peer-to-peer traffic up to the root: source validation, P2P request
// redirect, P2P completion redirect or upstream forwarding.
func ACSRedirects(control uint16) bool { return control&(1<<0|1<<2|1<<3|1<<4) != 0 }

// iommu reads the units and the default domain of each group.
func (r *reader) iommu() IOMMU {
	var m IOMMU
	m.Units = natural(r.list("sys/class/iommu"))
	names, err := r.t.ReadDir("sys/kernel/iommu_groups")
	r.note("sys/kernel/iommu_groups", err)
	m.Known = err == nil || len(r.t.Fact("iommu-groups")) > 0
	for _, g := range names {
		s, ok := r.try("sys/kernel/iommu_groups/" + g + "/type")
		if !ok || s == "" {
			s = "unknown"
		}
		if m.Types == nil {
			m.Types = map[string]int{}
		}
		m.Types[s]++
	}
	return m
}

// Translates reports whether some group's addresses are translated by default; nil where it is not known.
func (m IOMMU) Translates() *bool {
	if !m.Known {
		return nil
	}
	yes, no := true, false
	unknown := false
	for t := range m.Types {
		switch {
		case strings.HasPrefix(t, "DMA"), t == "blocked":
			return &yes
		case t != "identity":
			unknown = true
		}
	}
	if unknown {
		return nil
	}
	return &no
}

// numaNodes reads /sys/devices/system/node.
func (r *reader) numaNodes() []NUMANode {
	var out []NUMANode
	for _, n := range natural(r.list("sys/devices/system/node")) {
		id, err := strconv.Atoi(strings.TrimPrefix(n, "node"))
		if err != nil || !strings.HasPrefix(n, "node") {
			continue
		}
		p := "sys/devices/system/node/" + n
		node := NUMANode{ID: id, CPUs: r.text(p + "/cpulist")}
		for _, d := range strings.Fields(r.text(p + "/distance")) {
			if v, err := strconv.Atoi(d); err == nil {
				node.Distance = append(node.Distance, v)
			}
		}
		for line := range strings.Lines(r.text(p + "/meminfo")) {
			if _, rest, ok := strings.Cut(line, "MemTotal:"); ok {
				if f := strings.Fields(rest); len(f) > 0 {
					if v, err := strconv.ParseUint(f[0], 10, 50); err == nil {
						v *= 1024
						node.Bytes = &v
					}
				}
			}
		}
		out = append(out, node)
	}
	return out
}
