package mesh

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"hopbench/harness/control"
	"hopbench/harness/mesh/rank"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// Kinds of devices by which a rank says what its data uses.
const (
	NetDev = "netdev" // a network interface
	RDMA   = "rdma"   // an RDMA device
)

// PlaceOptions is what decides where a rank's data lies and which way it leaves the host.
type PlaceOptions struct {
	Bind     netip.Addr // given by the user; zero: the address towards the first rank
	Announce string     // address that others shall use, where it is another one
	// GPU puts the data into GPU memory: each rank of a host takes another GPU.
	GPU bool
	// Visible is CUDA_VISIBLE_DEVICES.
	Visible string
	// Devices are the rails by name, the same on every host; Link finds them instead: of GPUs and the RDMA devices of a link layer
	// ("InfiniBand", "Ethernet") that are nearest to them. Neither: the mesh has no rails.
	Devices []string
	Link    string
	// Topology is this host's; nil: it is read where something is to be chosen.
	Topology *topo.Host
}

// Place describes this process as a rank: who it is, and, where its host has several ranks or its data lies in a GPU, which GPU and
// which network device are its own. The n-th rank of a host takes the n-th GPU that it sees, and the network device that is nearest to
// that by the PCI tree; without GPUs the n-th RDMA device. Where there is one rank a host and no GPU, nothing is chosen: the
// transport finds the device by the route.
func Place(r rank.Rank, o PlaceOptions) (control.Member, error) {
	host, err := os.Hostname()
	if err != nil {
		return control.Member{}, fmt.Errorf("read the host's name: %w", err)
	}
	m := control.Member{Number: r.Number, Size: r.Size, Host: host, HostID: hostID(host), Bind: o.Bind, Announce: o.Announce}
	for _, d := range o.Devices {
		m.Rails = append(m.Rails, control.Rail{Device: d})
	}
	if len(m.Rails) > 0 || o.Link == "" && r.LocalSize < 2 && !o.GPU {
		return m, nil
	}
	h := o.Topology
	if h == nil {
		if h, err = topo.Read("/", topo.Options{}); err != nil {
			if o.GPU || o.Link != "" {
				return m, fmt.Errorf("choose devices for %v: %w", m, err)
			}
			m.Chosen = "the topology could not be read, and no device was chosen: " + err.Error()
			return m, nil
		}
	}
	if o.Link != "" {
		return m, rails(&m, h, o)
	}
	if err := choose(&m, r.LocalNumber, h, o); err != nil {
		return m, fmt.Errorf("choose devices for %v: %w", m, err)
	}
	return m, nil
}

// rails finds the rails of a host.
func rails(m *control.Member, h *topo.Host, o PlaceOptions) error {
	var names []string
	for i, r := range rdmaport.Rails(h, o.Link) {
		one := control.Rail{Device: r.Device}
		if o.GPU && r.GPU != "" {
			if one.Memory = "cuda:" + strconv.Itoa(i); r.UUID != "" {
				one.Memory = "cuda:" + r.UUID
			}
		}
		m.Rails = append(m.Rails, one)
		names = append(names, strings.TrimSpace(one.Device+" "+one.Memory))
	}
	if len(m.Rails) == 0 {
		return fmt.Errorf("%v has no usable RDMA device of %s", m, o.Link)
	}
	m.Chosen = fmt.Sprintf("%d rails: %s", len(m.Rails), strings.Join(names, ", "))
	return nil
}

// choose picks GPU and network device of the local-th rank of a host.
func choose(m *control.Member, local int, h *topo.Host, o PlaceOptions) error {
	var said []string
	var nic *topo.NIC
	gpu, index := ownGPU(local, h, o.Visible)
	if o.GPU {
		if gpu == nil {
			return fmt.Errorf("this host shows %d GPUs and CUDA_VISIBLE_DEVICES is %q", len(h.GPUs), o.Visible)
		}
		m.Memory = "cuda:" + strconv.Itoa(index)
		said = append(said, fmt.Sprintf("GPU %s as cuda:%d, the %s of this host's ranks", gpu.BDF, index, ordinal(local)))
	}
	if gpu != nil {
		if near := h.Nearest(gpu.BDF); len(near) > 0 {
			// Among those that are equally near, ranks take turns.
			equal := 1
			for equal < len(near) && near[equal].Pair.Class == near[0].Pair.Class {
				equal++
			}
			n := near[local%equal]
			nic = &n.NIC
			said = append(said, fmt.Sprintf("%s, nearest to GPU %s (%s)", n.NIC.Name, gpu.BDF, orUnknown(string(n.Pair.Class))))
		}
	} else {
		// Without a GPU only RDMA devices are dealt out: an Ethernet device without one may be the host's management port.
		nics := slices.DeleteFunc(h.NICs(), func(n topo.NIC) bool { return n.RDMA == "" })
		if len(nics) > 1 {
			nic = &nics[local%len(nics)]
			said = append(said, fmt.Sprintf("%s, the %s of %d RDMA devices", nic.Name, ordinal(local%len(nics)), len(nics)))
		}
	}
	if nic != nil && !o.Bind.IsValid() { // an address that was given decides the device
		m.Device = map[string]string{}
		if nic.RDMA != "" {
			m.Device[RDMA] = nic.RDMA
		}
		if d := h.NetDev(nic.NetDev); d != nil && len(d.Addrs) > 0 {
			m.Device[NetDev] = nic.NetDev
		} else {
			said = append(said, fmt.Sprintf("%s has no IP address: sockets go by the route", orUnknown(nic.NetDev)))
		}
	}
	m.Chosen = strings.Join(said, "; ")
	return nil
}

// ownGPU is the GPU of the local-th rank of a host, and its number in CUDA's count, which begins anew behind CUDA_VISIBLE_DEVICES.
func ownGPU(local int, h *topo.Host, visible string) (*topo.GPU, int) {
	if visible == "" {
		if len(h.GPUs) == 0 {
			return nil, 0
		}
		n := local % len(h.GPUs)
		return &h.GPUs[n], n
	}
	list := strings.Split(visible, ",")
	n := local % len(list)
	name := strings.TrimSpace(list[n])
	if at, err := strconv.Atoi(name); err == nil && at >= 0 && at < len(h.GPUs) {
		return &h.GPUs[at], n
	}
	if at := slices.IndexFunc(h.GPUs, func(g topo.GPU) bool { return g.UUID != "" && strings.HasPrefix(g.UUID, name) }); name != "" && at >= 0 {
		return &h.GPUs[at], n
	}
	return nil, 0
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

func ordinal(n int) string {
	switch n {
	case 0:
		return "first"
	case 1:
		return "second"
	case 2:
		return "third"
	}
	return strconv.Itoa(n+1) + "th"
}

// hostID tells hosts apart: the kernel's boot identifier, which ranks in containers and network namespaces of one host share.
func hostID(name string) string {
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(b))
	}
	return name
}
