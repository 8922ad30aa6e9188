package topo

import (
	"fmt"
	"slices"
	"strings"
)

// Class says how far apart two PCI functions are, nearest first.
type Class string

const (
	Self Class = "SELF" // one function, or two functions of one device
	PIX  Class = "PIX"  // one switch between them
	PXB  Class = "PXB"  // several switches, below one root port
	PHB  Class = "PHB"  // two root ports of one root complex
	NODE Class = "NODE" // two root complexes of one NUMA node
	SYS  Class = "SYS"  // across the link between NUMA nodes
)

var classOrder = []Class{Self, PIX, PXB, PHB, NODE, SYS, ""}

// Farther reports whether c is a longer way than d; an unknown class is the longest.
func (c Class) Farther(d Class) bool {
	return slices.Index(classOrder, c) > slices.Index(classOrder, d)
}

// Pair is the way between two functions of one host.
type Pair struct {
	A     string `json:"a"`
	B     string `json:"b"`
	Class Class  `json:"class,omitempty"` // empty: not known
	Why   string `json:"why,omitempty"`   // what the class rests on
	// Narrow is the narrowest hop between the two, by what each link can do.
	Narrow *Hop `json:"narrowest,omitempty"`
}

// Hop is one PCI link.
type Hop struct {
	BDF        string  `json:"bdf"`
	SpeedGTS   float64 `json:"speed_gts"` // the link's most: an idle link may report less now
	Generation int     `json:"generation"`
	Width      int     `json:"width"`            // lanes in use now
	BytesPS    float64 `json:"bytes_per_second"` // one direction, after line coding, before packet headers
	// Downgraded: the port and its partner could use more lanes than are in use.
	WidthMax int `json:"width_max,omitempty"`
}

// generations are the transfer rates of PCI Express 1 to 6 with the share of bits that line coding leaves:
// 8b/10b, 128b/130b and, from the sixth on, 242 of 256 bytes of a flit.
var generations = []struct {
	gts, share float64
}{{2.5, 0.8}, {5, 0.8}, {8, 128.0 / 130}, {16, 128.0 / 130}, {32, 128.0 / 130}, {64, 242.0 / 256}}

// Generation is the PCI Express generation of a transfer rate; 0 for a rate of none.
func Generation(gts float64) int {
	for i, g := range generations {
		if gts == g.gts {
			return i + 1
		}
	}
	return 0
}

// Hop is the link that a function's own attributes describe; nil where speed or width is not known.
func (d *PCIDevice) Hop() *Hop {
	s, w := d.Link.SpeedMax, d.Link.WidthNow
	if s == nil {
		s = d.Link.SpeedNow
	}
	if w == nil {
		w = d.Link.WidthMax
	}
	if s == nil || w == nil {
		return nil
	}
	g := Generation(*s)
	if g == 0 {
		return nil
	}
	h := &Hop{BDF: d.BDF, SpeedGTS: *s, Generation: g, Width: *w}
	h.BytesPS = *s * 1e9 * generations[g-1].share * float64(*w) / 8
	if d.Link.WidthMax != nil && *d.Link.WidthMax > *w {
		h.WidthMax = *d.Link.WidthMax
	}
	return h
}

// Function is the PCI function with the address bdf, or nil.
func (h *Host) Function(bdf string) *PCIDevice {
	if i := slices.IndexFunc(h.PCI, func(d PCIDevice) bool { return d.BDF == bdf }); i >= 0 && bdf != "" {
		return &h.PCI[i]
	}
	return nil
}

// NetDev is the network interface called name, or nil.
func (h *Host) NetDev(name string) *NetDev {
	if i := slices.IndexFunc(h.Net, func(d NetDev) bool { return d.Name == name }); i >= 0 && name != "" {
		return &h.Net[i]
	}
	return nil
}

// Device is the RDMA device called name, or nil.
func (h *Host) Device(name string) *RDMADevice {
	if i := slices.IndexFunc(h.RDMA.Devices, func(d RDMADevice) bool { return d.Name == name }); i >= 0 {
		return &h.RDMA.Devices[i]
	}
	return nil
}

// Distance is the way between two functions, by address. A function that is not known gives an unknown class.
func (h *Host) Distance(a, b string) Pair {
	p := Pair{A: a, B: b}
	da, db := h.Function(a), h.Function(b)
	if da == nil || db == nil {
		p.Why = "the PCI function is not shown here"
		return p
	}
	common := 0
	for common < len(da.Path) && common < len(db.Path) && da.Path[common] == db.Path[common] {
		common++
	}
	switch {
	case a == b, strings.TrimRight(a, "01234567") == strings.TrimRight(b, "01234567"):
		p.Class, p.Why = Self, "one device"
	case common == 0:
		p.Class, p.Why = h.acrossRoots(da, db)
	case common == 1:
		p.Class, p.Why = PHB, "two root ports of "+da.Path[0]
	default:
		up, down := len(da.Path)-common-1, len(db.Path)-common-1
		if up <= 1 && down <= 1 {
			p.Class, p.Why = PIX, "one switch below "+da.Path[common-1]
		} else {
			p.Class, p.Why = PXB, fmt.Sprintf("%d bridges below %s", up+down, da.Path[common-1])
		}
	}
	for _, chain := range [][]string{da.Path[common:], db.Path[common:]} {
		for _, bdf := range chain {
			if d := h.Function(bdf); d != nil {
				if hop := d.Hop(); hop != nil && (p.Narrow == nil || hop.BytesPS < p.Narrow.BytesPS) {
					p.Narrow = hop
				}
			}
		}
	}
	return p
}

func (h *Host) acrossRoots(a, b *PCIDevice) (Class, string) {
	switch {
	case a.NUMA != nil && b.NUMA != nil && *a.NUMA == *b.NUMA:
		return NODE, fmt.Sprintf("two root complexes of NUMA node %d", *a.NUMA)
	case a.NUMA != nil && b.NUMA != nil:
		return SYS, fmt.Sprintf("NUMA nodes %d and %d", *a.NUMA, *b.NUMA)
	case len(h.NUMA) == 1:
		return NODE, "two root complexes, and the host has one NUMA node"
	}
	return "", "two root complexes whose NUMA nodes the firmware does not tell"
}

// NIC is a network or RDMA function on the PCI bus.
type NIC struct {
	Name   string `json:"name"` // the RDMA device where there is one, else the interface
	BDF    string `json:"bdf"`
	NetDev string `json:"netdev,omitempty"`
	RDMA   string `json:"rdma,omitempty"`
}

// NICs lists the physical network and RDMA functions, RDMA devices first. Software devices have no place on the bus.
func (h *Host) NICs() []NIC {
	var out []NIC
	taken := map[string]bool{}
	for _, d := range h.RDMA.Devices {
		if d.BDF == "" || d.Software {
			continue
		}
		n := NIC{Name: d.Name, BDF: d.BDF, RDMA: d.Name}
		for _, p := range d.Ports {
			if n.NetDev == "" {
				n.NetDev = p.NetDev
			}
		}
		taken[d.BDF] = true
		out = append(out, n)
	}
	for _, d := range h.Net {
		if d.BDF != "" && !taken[d.BDF] {
			out = append(out, NIC{Name: d.Name, BDF: d.BDF, NetDev: d.Name})
		}
	}
	return out
}

// Nearest lists, for one GPU, every NIC with its distance, nearest first; among equals the wider path, then the order of NICs.
func (h *Host) Nearest(gpu string) []NearNIC {
	var out []NearNIC
	for _, n := range h.NICs() {
		out = append(out, NearNIC{NIC: n, Pair: h.Distance(gpu, n.BDF)})
	}
	slices.SortStableFunc(out, func(a, b NearNIC) int {
		if a.Pair.Class != b.Pair.Class {
			if a.Pair.Class.Farther(b.Pair.Class) {
				return 1
			}
			return -1
		}
		// RDMA devices before plain interfaces of the same distance.
		if (a.NIC.RDMA != "") != (b.NIC.RDMA != "") {
			if a.NIC.RDMA != "" {
				return -1
			}
			return 1
		}
		return 0
	})
	return out
}

// NearNIC is a NIC seen from a GPU.
type NearNIC struct {
	NIC  NIC  `json:"nic"`
	Pair Pair `json:"pair"`
}
