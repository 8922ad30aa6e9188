package rdmaport

import (
	"slices"

	"hopbench/transports/topo"
)

// Rail is one path of several that are used at once: a device, and the GPU that it serves (empty where there is none).
type Rail struct {
	LinkLayer string     `json:"link_layer"`
	Device    string     `json:"device"`
	GPU       string     `json:"gpu,omitempty"`       // PCI address
	UUID      string     `json:"gpu_uuid,omitempty"`  // of the GPU, where the driver says it
	Class     topo.Class `json:"pci_class,omitempty"` // distance between the two
}

// Rails gives each GPU its nearest usable RDMA device of a link layer ("InfiniBand", "Ethernet"), and a device of its own as
// long as there is one as near; without GPUs each usable device is a rail. Both hosts make the same list from like hardware,
// and rail i of one side talks to rail i of the other.
func Rails(h *topo.Host, link string) []Rail {
	usable := map[string]bool{}
	var order []string
	for _, p := range Assess(h) {
		if p.Verdict == Usable && p.LinkLayer == link && !usable[p.Device] {
			usable[p.Device] = true
			order = append(order, p.Device)
		}
	}
	var out []Rail
	if len(h.GPUs) == 0 {
		for _, d := range order {
			out = append(out, Rail{LinkLayer: link, Device: d})
		}
		return out
	}
	taken := map[string]int{}
	for _, g := range h.GPUs {
		near := slices.DeleteFunc(h.Nearest(g.BDF), func(n topo.NearNIC) bool { return !usable[n.NIC.RDMA] })
		if len(near) == 0 {
			continue
		}
		best := near[0]
		for _, n := range near[1:] {
			if n.Pair.Class == best.Pair.Class && taken[n.NIC.RDMA] < taken[best.NIC.RDMA] {
				best = n
			}
		}
		taken[best.NIC.RDMA]++
		out = append(out, Rail{LinkLayer: link, Device: best.NIC.RDMA, GPU: g.BDF, UUID: g.UUID, Class: best.Pair.Class})
	}
	return out
}
