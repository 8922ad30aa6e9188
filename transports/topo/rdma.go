package topo

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

// maxGIDs bounds the walk over a GID table; the largest known tables have 256 slots a port, macvlan hosts more.
const maxGIDs = 1024

// rdma reads the RDMA class folders, the device nodes and what userspace has to drive them.
func (r *reader) rdma(h *Host) RDMA {
	var m RDMA
	names, err := r.t.ReadDir("sys/class/infiniband")
	m.Class = err == nil || !errors.Is(err, fs.ErrNotExist) || len(r.t.Fact("rdma-class")) > 0
	r.note("sys/class/infiniband", err)
	m.NetNS = r.rdmaNetNS()

	nodes, err := r.t.ReadDir("dev/infiniband")
	m.DevFolder = err == nil
	r.note("dev/infiniband", err)
	for _, n := range natural(nodes) {
		if strings.HasPrefix(n, "uverbs") {
			m.DevNodes = append(m.DevNodes, n)
		}
		if n == "rdma_cm" {
			m.CM = r.node("dev/infiniband/rdma_cm")
		}
	}

	// Names and numbers of nodes and devices need not match: only this folder knows which opens which.
	uverbs := map[string]string{}
	for _, u := range r.list("sys/class/infiniband_verbs") {
		if !strings.HasPrefix(u, "uverbs") {
			continue
		}
		if dev, ok := r.try("sys/class/infiniband_verbs/" + u + "/ibdev"); ok && dev != "" {
			uverbs[dev] = u
		}
	}
	for _, n := range natural(names) {
		m.Devices = append(m.Devices, r.rdmaDevice(h, n, uverbs[n]))
	}
	r.rdmaUserspace(&m)
	if m.Class && len(m.Devices) > 0 {
		m.PeerHook = r.peerHook(h)
	}
	return m
}

func (r *reader) rdmaDevice(h *Host, name, uverbs string) RDMADevice {
	p := "sys/class/infiniband/" + name
	d := RDMADevice{Name: name, NodeType: r.text(p + "/node_type"), Desc: r.text(p + "/node_desc"), Firmware: r.text(p + "/fw_ver"), UVerbs: uverbs}
	real, err := r.t.Resolve(p)
	r.note(p, err)
	d.BDF = lastBDF(real)
	d.Driver = r.base(p + "/device/driver")
	d.NUMA = r.numa(p + "/device/numa_node")
	parent, err := r.quiet(p + "/parent") // a file of rxe; a folder link elsewhere
	if err == nil {
		d.Parent = parent
	}
	switch {
	case err == nil && parent != "", strings.HasPrefix(d.Desc, "rxe"):
		d.Software, d.Driver, d.BDF = true, "rdma_rxe", ""
	case strings.HasPrefix(d.Desc, "Software iWARP"):
		d.Software, d.Driver, d.BDF = true, "siw", ""
	case strings.Contains(real, "devices/virtual/"):
		d.Software = true
		if d.Driver == "" {
			if strings.HasPrefix(d.NodeType, "4") {
				d.Driver = "siw"
			} else {
				d.Driver = "rdma_rxe"
			}
		}
	}
	if uverbs != "" {
		d.Node = r.node("dev/infiniband/" + uverbs)
	}
	ports := r.list(p + "/ports")
	nums := make([]int, 0, len(ports))
	for _, s := range ports {
		if n, err := strconv.Atoi(s); err == nil && n > 0 {
			nums = append(nums, n)
		}
	}
	sort.Ints(nums)
	for _, n := range nums {
		d.Ports = append(d.Ports, r.rdmaPort(h, &d, n))
	}
	return d
}

func (r *reader) rdmaPort(h *Host, d *RDMADevice, num int) RDMAPort {
	p := fmt.Sprintf("sys/class/infiniband/%s/ports/%d", d.Name, num)
	pt := RDMAPort{Num: num, LinkLayer: r.text(p + "/link_layer")}
	pt.State, pt.Phys = afterColon(r.text(p+"/state")), afterColon(r.text(p+"/phys_state"))
	pt.LID, pt.SMLID = r.lid(p+"/lid"), r.lid(p+"/sm_lid")
	// rate answers EINVAL on a port without a cable.
	if s, err := r.quiet(p + "/rate"); err == nil {
		pt.RateText = s
		if !d.Software {
			pt.BitsPS = rate(s)
		}
	} else if !errors.Is(err, syscall.EINVAL) || pt.State == "ACTIVE" {
		r.note(p+"/rate", err)
	}
	for _, k := range natural(r.list(p + "/pkeys")) {
		i, err := strconv.Atoi(k)
		if err != nil || i != len(pt.PKeys) || i > 127 {
			continue
		}
		v, err := strconv.ParseUint(r.text(p+"/pkeys/"+k), 0, 16)
		if err != nil {
			break
		}
		pt.PKeys = append(pt.PKeys, uint16(v))
	}
	for len(pt.PKeys) > 0 && pt.PKeys[len(pt.PKeys)-1] == 0 {
		pt.PKeys = pt.PKeys[:len(pt.PKeys)-1]
	}
	pt.GIDs = r.gids(h, p)
	for _, g := range pt.GIDs {
		if g.NetDev != "" && !g.Foreign && (pt.NetDev == "" || len(g.NetDev) < len(pt.NetDev)) {
			pt.NetDev = g.NetDev
		}
	}
	if pt.NetDev == "" && d.Parent != "" {
		pt.NetDev = d.Parent
	}
	if pt.NetDev == "" {
		if l := r.list("sys/class/infiniband/" + d.Name + "/device/net"); len(l) > 0 {
			pt.NetDev = natural(l)[0]
			if h.NetDev(pt.NetDev) == nil {
				pt.NetDev = ""
			}
			if len(l) > 1 { // dev_port tells the ports of one function apart
				for _, n := range l {
					if v := r.int("sys/class/net/" + n + "/dev_port"); v != nil && *v == num-1 && h.NetDev(n) != nil {
						pt.NetDev = n
					}
				}
			}
		}
	}
	if pt.LinkLayer == "Ethernet" {
		if nd := h.NetDev(pt.NetDev); nd != nil && nd.MTU != nil {
			if mtu := RoCEMTU(*nd.MTU); mtu > 0 {
				pt.ActiveMTU, pt.MTUSource = &mtu, fmt.Sprintf("netdev %s mtu %d", nd.Name, *nd.MTU)
			}
		}
	}
	pt.TrafficClass = r.trafficClass(d.Name, num)
	return pt
}

// trafficClass is the forced traffic class: lines "Global tclass=106" of the out-of-tree driver.
func (r *reader) trafficClass(dev string, port int) *int {
	s, err := r.quiet(fmt.Sprintf("sys/class/infiniband/%s/tc/%d/traffic_class", dev, port))
	if err != nil {
		return nil
	}
	_, v, ok := strings.Cut(s, "tclass=")
	if !ok {
		v = s
	}
	n, err := strconv.Atoi(first(v))
	if err != nil {
		return nil
	}
	return &n
}

// gids reads the used slots. A slot may be all zero, its file may be gone, and its type or device may answer EINVAL: all
// three are empty slots or unknown fields, never the end of the table.
func (r *reader) gids(h *Host, p string) []GID {
	var out []GID
	for _, s := range natural(r.list(p + "/gids")) {
		i, err := strconv.Atoi(s)
		if err != nil || i < 0 || i > maxGIDs {
			continue
		}
		g, err := r.quiet(p + "/gids/" + s)
		if err != nil || strings.Trim(g, "0:") == "" {
			if err != nil && !errors.Is(err, syscall.EINVAL) {
				r.note(p+"/gids/"+s, err)
			}
			continue
		}
		e := GID{Index: i, GID: g}
		t, err := r.quiet(p + "/gid_attrs/types/" + s)
		if errors.Is(err, syscall.EINVAL) {
			continue // emptied between two reads
		}
		if err == nil {
			e.Type = t
		}
		if n, err := r.quiet(p + "/gid_attrs/ndevs/" + s); err == nil {
			e.NetDev = n
		}
		nd := h.NetDev(e.NetDev)
		e.Foreign = e.NetDev != "" && nd == nil
		e.Stale = nd != nil && e.Gone(nd.Addrs)
		out = append(out, e)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Index < out[j].Index })
	return out
}

func (r *reader) lid(p string) *uint32 {
	v := r.num(p)
	if v == nil || *v < 0 || *v > 1<<32-1 {
		return nil
	}
	l := uint32(*v)
	return &l
}

// rate parses "400 Gb/sec (4X NDR)" and "2.5 Gb/sec (1X SDR)" to bits a second; nil for anything else.
func rate(s string) *uint64 {
	f := strings.Fields(s)
	if len(f) < 2 || f[1] != "Gb/sec" {
		return nil
	}
	v, err := strconv.ParseFloat(f[0], 64)
	if err != nil || !(v > 0 && v < 1e5) {
		return nil
	}
	b := uint64(v*1e9 + 0.5)
	return &b
}

// RoCEMTU is the path MTU in bytes that a netdev MTU leaves for RoCE: the largest of 256 to 4096 that fits beside the
// headers, so that 1500 gives 1024 and 4200 gives 4096. 0: none fits. The header bytes are those that the kernel's
// iboe_get_mtu (include/rdma/ib_addr.h) subtracts: GRH 40, UDP 8, BTH 12, XRC 4, atomic 28, ICRC 4.
func RoCEMTU(netdev int) int {
	const headers = 40 + 8 + 12 + 4 + 28 + 4
	for _, m := range []int{4096, 2048, 1024, 512, 256} {
		if netdev-headers >= m {
			return m
		}
	}
	return 0
}

func afterColon(s string) string {
	if _, v, ok := strings.Cut(s, ":"); ok {
		return strings.TrimSpace(v)
	}
	return s
}

// libFolders are where the loader looks on the distributions of this field.
var libFolders = []string{
	"usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib/x86_64-linux-gnu", "lib/aarch64-linux-gnu",
	"usr/lib64", "lib64", "usr/lib", "lib", "usr/local/lib", "usr/local/lib64", "usr/local/cuda/compat", "usr/local/nvidia/lib64", "opt/amazon/efa/lib64", "opt/rdma-core/lib",
}

// rdmaUserspace looks for libibverbs and its providers on disk.
func (r *reader) rdmaUserspace(m *RDMA) {
	seen, prov := map[string]bool{}, map[string]bool{}
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
		m.LibraryKnown = true
		if slices.Contains(l, "libibverbs.so.1") {
			m.Library = append(m.Library, "/"+path.Join(real, "libibverbs.so.1"))
		}
		pl, _ := r.t.ReadDir(real + "/libibverbs")
		for _, f := range pl { // libmlx5-rdmav34.so
			if n, _, ok := strings.Cut(strings.TrimPrefix(f, "lib"), "-rdmav"); ok {
				prov[n] = true
			}
		}
	}
	// A provider may also be installed as a library of its own and only named here: "driver mlx5".
	for _, f := range func() []string { l, _ := r.t.ReadDir("etc/libibverbs.d"); return l }() {
		s, _ := r.quiet("etc/libibverbs.d/" + f)
		if n, ok := strings.CutPrefix(s, "driver "); ok && strings.Contains(n, "/") {
			prov[path.Base(strings.TrimSpace(n))] = true
		}
	}
	for n := range prov {
		m.Providers = append(m.Providers, n)
	}
	sort.Strings(m.Providers)
}

// peerHook looks for the symbol that nvidia-peermem binds to. It is part of the out-of-tree RDMA stack and of some
// distributions' kernels; where it is missing the module cannot be inserted ("Invalid argument").
func (r *reader) peerHook(h *Host) *bool {
	if h.Modules["nvidia"].Loaded || len(r.list("proc/driver/nvidia")) > 0 {
		b, err := r.t.ReadFile("proc/kallsyms")
		if err != nil {
			r.note("proc/kallsyms", err)
			return nil
		}
		if len(b) == 0 {
			return nil
		}
		has := strings.Contains(string(b), "ib_register_peer_memory_client")
		return &has
	}
	return nil
}
