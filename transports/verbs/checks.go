package verbs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/hostcheck"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// Checks are the doctor's questions about one link layer, "InfiniBand" or "Ethernet": causes first, then what to be warned of.
func Checks(link string) []transports.Check {
	c := checker{link}
	stack, device := fault.RDMANoStack, fault.RDMANoDevice
	list := []transports.Check{
		{Code: stack, Title: "the kernel's RDMA stack is loaded", Run: c.stack},
		{Code: device, Title: "there is an RDMA device", Needs: []fault.Code{stack}, Run: c.device},
		{Code: fault.RDMANoLibrary, Title: "libibverbs is installed", Needs: []fault.Code{device}, Run: c.library},
		{Code: fault.RDMALibraryTwice, Title: "one libibverbs is installed", Needs: []fault.Code{fault.RDMANoLibrary}, Run: c.copies},
	}
	// Kinds of devices that this transport cannot use, whatever the state of their ports.
	for _, k := range []fault.Code{fault.RDMAEFA, fault.RDMAIWARP} {
		list = append(list, transports.Check{Code: k, Title: title(k), Needs: []fault.Code{fault.RDMANoLibrary}, Run: func(h *topo.Host) []fault.Finding { return c.kind(h, k) }})
	}
	link1 := fault.RDMALinkLayer
	list = append(list, transports.Check{Code: link1, Title: "a port speaks " + c.words(),
		Needs: []fault.Code{fault.RDMANoLibrary, fault.RDMAEFA, fault.RDMAIWARP}, Run: c.linkLayer})
	causes := []fault.Code{fault.RDMANodeType, fault.RDMANoProvider, fault.RDMANoNode, fault.RDMANodeRefused, fault.RDMAUnreadable, fault.RDMANoSM, fault.RDMAPortDown, fault.RDMANoGID, fault.RDMAGIDForeign}
	for _, k := range causes {
		list = append(list, transports.Check{Code: k, Title: title(k), Needs: []fault.Code{link1}, Run: func(h *topo.Host) []fault.Finding { return c.cause(h, k) }})
	}
	ready := []fault.Code{link1}
	for _, k := range causes {
		if k != fault.RDMAUnreadable { // one unreadable port says nothing about the others
			ready = append(ready, k)
		}
	}
	advice := func(code fault.Code, title string, run func(*topo.Host) []fault.Finding) {
		list = append(list, transports.Check{Code: code, Title: title, Needs: ready, Run: run})
	}
	advice(fault.RDMAMemlock, "enough memory can be locked", c.memlock)
	for _, k := range []fault.Code{fault.RDMASoftware, fault.RDMAPKeyLimited, fault.RDMAGIDLinkLocal, fault.RDMAGIDStale, fault.RDMARoCEv1, fault.RDMAMTUCap, fault.RDMABond, fault.RDMACounters} {
		advice(k, title(k), func(h *topo.Host) []fault.Finding { return c.warning(h, k) })
	}
	advice(fault.RDMANetNS, "RDMA devices are shared between network namespaces", c.netns)
	advice(fault.RDMASameSubnet, "each RoCE interface has a subnet of its own", c.sameSubnet)
	advice(fault.RDMAFlowControl, "RoCE has a lossless class", c.flow)
	advice(fault.GDRNoWay, "GPU memory can be registered", c.gpuDirect)
	advice(fault.GDRBAR1, "BAR1 covers the GPU's memory", c.bar1)
	advice(fault.PCIDistance, "each GPU has a NIC near it", c.distance)
	advice(fault.PCIIOMMU, "the IOMMU leaves peer-to-peer traffic alone", c.iommu)
	advice(fault.PCIACS, "no bridge redirects peer-to-peer traffic", c.acs)
	advice(fault.PCIWidth, "the NICs use all of their lanes", c.width)
	advice(fault.PCIUpstream, "no bridge above a NIC is narrower than the NIC", c.upstream)
	advice(fault.Steering, "no variable steers RDMA", func(h *topo.Host) []fault.Finding { return hostcheck.Steering(h, "rdma") })
	return list
}

// title is the row's title, as what is looked for.
func title(c fault.Code) string {
	row, _ := fault.Lookup(c)
	return "not: " + row.Title
}

// checker asks about one link layer.
type checker struct{ link string }

func (c checker) words() string {
	if c.link == "Ethernet" {
		return "RoCE (link layer Ethernet)"
	}
	return "InfiniBand"
}

// ports are the assessed ports of this link layer; a port whose link layer could not be read may be one.
func (c checker) ports(h *topo.Host) []rdmaport.Port {
	var out []rdmaport.Port
	for _, p := range rdmaport.Assess(h) {
		if p.Port > 0 && (p.LinkLayer == c.link || p.LinkLayer == "") {
			out = append(out, p)
		}
	}
	return out
}

// usable are the ports of this link layer that work, and whether any of the rest could not be judged.
func (c checker) usable(h *topo.Host) (ok []rdmaport.Port, unknown bool) {
	for _, p := range c.ports(h) {
		switch p.Verdict {
		case rdmaport.Usable:
			ok = append(ok, p)
		case rdmaport.Unknown:
			unknown = true
		}
	}
	return ok, unknown
}

func (c checker) stack(h *topo.Host) []fault.Finding {
	if !h.RDMA.Class {
		return []fault.Finding{hostcheck.Finding(h, fault.RDMANoStack, fault.Fail, hostcheck.Ev("/sys/class/infiniband", "absent", "the folder"), "the kernel has no RDMA stack loaded")}
	}
	return []fault.Finding{hostcheck.Finding(h, fault.RDMANoStack, fault.OK, hostcheck.Ev("/sys/class/infiniband", "present", ""), "the kernel's RDMA stack is loaded")}
}

func (c checker) device(h *topo.Host) []fault.Finding {
	if len(h.RDMA.Devices) == 0 {
		ev := hostcheck.Ev("/sys/class/infiniband", "empty", "a device")
		if h.RDMA.NetNS != "" {
			ev = append(ev, fault.Evidence{Source: "RDMA netns mode", Got: h.RDMA.NetNS})
		}
		return []fault.Finding{hostcheck.Finding(h, fault.RDMANoDevice, fault.Fail, ev, "the RDMA stack is loaded and has no device")}
	}
	return []fault.Finding{hostcheck.Finding(h, fault.RDMANoDevice, fault.OK, nil, "%s", hostcheck.Plural(len(h.RDMA.Devices), "RDMA device"))}
}

func (c checker) library(h *topo.Host) []fault.Finding {
	switch {
	case !h.RDMA.LibraryKnown:
		return nil // a capture without library folders bears no finding
	case len(h.RDMA.Library) == 0:
		return []fault.Finding{hostcheck.Finding(h, fault.RDMANoLibrary, fault.Fail, hostcheck.Ev("the loader's folders", "no libibverbs.so.1", "libibverbs.so.1"), "libibverbs is not installed here")}
	}
	f := hostcheck.Finding(h, fault.RDMANoLibrary, fault.OK, nil, "libibverbs: %s", strings.Join(h.RDMA.Library, ", "))
	return []fault.Finding{f}
}

// copies warns of several copies: which of them a program loads depends on how it was linked and started.
func (c checker) copies(h *topo.Host) []fault.Finding {
	if len(h.RDMA.Library) < 2 {
		return nil
	}
	var ev []fault.Evidence
	for _, l := range h.RDMA.Library {
		ev = append(ev, fault.Evidence{Source: "the loader's folders", Got: l})
	}
	ev[0].Want = "one copy, beside its providers"
	return []fault.Finding{hostcheck.Finding(h, fault.RDMALibraryTwice, fault.Warn, hostcheck.Few(ev), "%d copies of libibverbs are installed", len(h.RDMA.Library))}
}

// kind fails where every device is of a kind that cannot be used, and else mentions them.
func (c checker) kind(h *topo.Host, code fault.Code) []fault.Finding {
	var ev []fault.Evidence
	others := 0
	for _, p := range rdmaport.Assess(h) {
		switch {
		case !p.Warns(code):
			others++
		case code == fault.RDMAIWARP && c.link != "Ethernet":
			// The link layer is the nearer cause for InfiniBand.
			return nil
		default:
			ev = append(ev, p.Evidence[code]...)
		}
	}
	if len(ev) == 0 {
		return nil
	}
	sev := fault.OK
	if others == 0 {
		sev = fault.Fail
	}
	row, _ := fault.Lookup(code)
	return []fault.Finding{hostcheck.Finding(h, code, sev, hostcheck.Few(ev), "%s", row.Title)}
}

func (c checker) linkLayer(h *topo.Host) []fault.Finding {
	all := rdmaport.Assess(h)
	ports := c.ports(h)
	if ok, unknown := c.usable(h); len(ok) == 0 && unknown {
		return []fault.Finding{hostcheck.Finding(h, fault.RDMALinkLayer, fault.Unknown, nil, "no port that is sure to be usable, and one that could not be judged")}
	}
	if len(ports) > 0 {
		return []fault.Finding{hostcheck.Finding(h, fault.RDMALinkLayer, fault.OK, nil, "%s", hostcheck.Plural(len(ports), "port")+" of link layer "+c.link)}
	}
	if !slices.ContainsFunc(all, func(p rdmaport.Port) bool { return p.Port > 0 }) {
		return []fault.Finding{hostcheck.Finding(h, fault.RDMALinkLayer, fault.Unknown, hostcheck.Ev("/sys/class/infiniband/*/ports", "no port could be read", "a port"), "no port could be read")}
	}
	var ev []fault.Evidence
	for _, p := range all {
		if p.Port == 0 {
			continue
		}
		ev = append(ev, fault.Evidence{Source: rdmaport.Path(p.Device, fmt.Sprintf("ports/%d/link_layer", p.Port)), Got: p.LinkLayer, Want: c.link})
	}
	return []fault.Finding{hostcheck.Finding(h, fault.RDMALinkLayer, fault.Fail, hostcheck.Few(ev), "no port speaks %s", c.words())}
}

// cause reports the ports that one code keeps from being usable: a failure where no other port works, else a warning.
func (c checker) cause(h *topo.Host, code fault.Code) []fault.Finding {
	var ev []fault.Evidence
	var reasons []string
	var worst rdmaport.Verdict
	for _, p := range c.ports(h) {
		if p.Verdict == rdmaport.Usable || !p.Warns(code) {
			continue
		}
		worst = p.Verdict
		ev = append(ev, p.Evidence[code]...)
		reasons = append(reasons, fmt.Sprintf("%s port %d: %s", p.Device, p.Port, p.Reason))
	}
	if code == fault.RDMAUnreadable {
		for _, p := range rdmaport.Assess(h) {
			if p.Port == 0 {
				worst = p.Verdict
				ev = append(ev, p.Evidence[code]...)
				reasons = append(reasons, p.Device+": no port could be read")
			}
		}
	}
	if len(ev) == 0 {
		return nil
	}
	ok, unknown := c.usable(h)
	sev := fault.Fail
	switch {
	case worst == rdmaport.Unknown:
		sev = fault.Unknown
	case len(ok) > 0 || unknown:
		sev = fault.Warn
	}
	summary := reasons[0]
	if len(reasons) > 1 {
		row, _ := fault.Lookup(code)
		summary = fmt.Sprintf("%s: %s", hostcheck.Plural(len(reasons), "port"), row.Title)
	}
	if len(ok) > 0 {
		summary += fmt.Sprintf("; %s usable", hostcheck.Plural(len(ok), "other is", "others are"))
	}
	return []fault.Finding{hostcheck.Finding(h, code, sev, hostcheck.Few(ev), "%s", summary)}
}

// warning reports a code that usable ports carry.
func (c checker) warning(h *topo.Host, code fault.Code) []fault.Finding {
	ok, _ := c.usable(h)
	var ev []fault.Evidence
	var names []string
	for _, p := range ok {
		if p.Warns(code) {
			ev = append(ev, p.Evidence[code]...)
			names = append(names, fmt.Sprintf("%s port %d", p.Device, p.Port))
		}
	}
	if len(ev) == 0 {
		return nil
	}
	row, _ := fault.Lookup(code)
	who := names[0]
	if len(names) > 1 {
		who = hostcheck.Plural(len(names), "port")
	}
	return []fault.Finding{hostcheck.Finding(h, code, fault.Warn, hostcheck.Few(ev), "%s: %s", who, row.Title)}
}

// What a run locks by default: the largest buffer of the default sweep, 16 MiB, and its queues. Below the smaller figure not even
// the queues of one connection are sure to fit (the old default limit is 64 KiB).
const (
	plannedLock = 20 << 20
	leastLock   = 1 << 20
)

func (c checker) memlock(h *topo.Host) []fault.Finding {
	if ok, unknown := c.usable(h); len(ok) == 0 && !unknown {
		return nil
	}
	p := h.Process
	if eff := topo.Has(p.CapEff, topo.CapIPCLock); eff != nil && *eff {
		return []fault.Finding{hostcheck.Finding(h, fault.RDMAMemlock, fault.OK, nil, "CAP_IPC_LOCK is effective: the limit on locked memory does not count")}
	}
	l := p.MemlockSoft
	if l == nil {
		return nil
	}
	planned, whose := uint64(plannedLock), "the default sweep's largest buffer and its queues"
	if p.LockWanted != nil {
		planned, whose = *p.LockWanted, "the plan's buffer"
	}
	if l.Unlimited || l.Bytes >= planned {
		got := "unlimited"
		if !l.Unlimited {
			got = strconv.FormatUint(l.Bytes, 10) + " bytes"
		}
		return []fault.Finding{hostcheck.Finding(h, fault.RDMAMemlock, fault.OK, nil, "locked memory: %s", got)}
	}
	ev := hostcheck.Ev("/proc/self/limits, Max locked memory", fmt.Sprintf("%d bytes", l.Bytes), fmt.Sprintf("%d bytes (%s), or unlimited", planned, whose))
	if h := p.MemlockHard; h != nil && (h.Unlimited || h.Bytes > l.Bytes) {
		got := "unlimited"
		if !h.Unlimited {
			got = fmt.Sprintf("%d bytes", h.Bytes)
		}
		ev = append(ev, fault.Evidence{Source: "/proc/self/limits, hard limit", Got: got, Want: "the soft limit can be raised to it: ulimit -l"})
	}
	sev := fault.Warn
	if l.Bytes < leastLock || p.LockWanted != nil { // a plan that was named does not fit; the default sweep still has its small sizes
		sev = fault.Fail
	}
	if granted(h) {
		uid := "not known"
		if p.UID != nil {
			uid = strconv.Itoa(*p.UID)
		}
		ev = append(ev, fault.Evidence{Source: "/proc/self/status, CapBnd and CapEff", Got: fmt.Sprintf("%016x and %016x, uid %s", *p.CapBnd, *p.CapEff, uid), Want: "bit 14 (IPC_LOCK) in CapEff"})
		return []fault.Finding{hostcheck.Finding(h, fault.RDMAMemlockBound, sev, ev, "CAP_IPC_LOCK is granted and not effective for uid %s: %d bytes of locked memory still count", uid, l.Bytes)}
	}
	if p.CapEff != nil {
		ev = append(ev, fault.Evidence{Source: "/proc/self/status, CapEff", Got: fmt.Sprintf("%016x", *p.CapEff), Want: "bit 14 (IPC_LOCK), or a larger limit"})
	}
	return []fault.Finding{hostcheck.Finding(h, fault.RDMAMemlock, sev, ev, "only %d bytes of memory can be locked", l.Bytes)}
}

// granted reports whether a runtime gave CAP_IPC_LOCK to a process that does not have it effective. On a plain host the
// bounding set of every user is full: there the bit says nothing.
func granted(h *topo.Host) bool {
	bnd, eff := topo.Has(h.Process.CapBnd, topo.CapIPCLock), topo.Has(h.Process.CapEff, topo.CapIPCLock)
	if bnd == nil || eff == nil || !*bnd || *eff {
		return false
	}
	full := *topo.Has(h.Process.CapBnd, topo.CapAdmin)
	return h.Container.Kind != "" || !full
}

func (c checker) netns(h *topo.Host) []fault.Finding {
	if h.RDMA.NetNS != "exclusive" || h.Container.Kind == "" {
		return nil
	}
	return []fault.Finding{hostcheck.Finding(h, fault.RDMANetNS, fault.Warn, hostcheck.Ev("RDMA netns mode (netlink)", "exclusive", "shared, or the device moved into this namespace"), "RDMA devices are exclusive to one network namespace, and this is a container")}
}

func (c checker) sameSubnet(h *topo.Host) []fault.Finding {
	if c.link != "Ethernet" || h.TCP.ARPIgnore != nil && *h.TCP.ARPIgnore > 0 {
		return nil
	}
	ok, _ := c.usable(h)
	by := map[string][]string{}
	for _, p := range ok {
		if nd := h.NetDev(p.NetDev); nd != nil && !p.Software {
			for _, s := range nd.Subnets {
				if !slices.Contains(by[s], nd.Name) {
					by[s] = append(by[s], nd.Name)
				}
			}
		}
	}
	var ev []fault.Evidence
	for s, names := range by {
		if len(names) > 1 {
			ev = append(ev, fault.Evidence{Source: "/proc/net/route", Got: s + " on " + strings.Join(names, ", "), Want: "one interface a subnet, or arp_ignore 1"})
		}
	}
	if len(ev) == 0 {
		return nil
	}
	slices.SortFunc(ev, func(a, b fault.Evidence) int { return strings.Compare(a.Got, b.Got) })
	return []fault.Finding{hostcheck.Finding(h, fault.RDMASameSubnet, fault.Warn, hostcheck.Few(ev), "several RoCE interfaces stand in one subnet with default ARP settings")}
}

func (c checker) flow(h *topo.Host) []fault.Finding {
	if c.link != "Ethernet" {
		return nil
	}
	ok, _ := c.usable(h)
	var off, blind, on []fault.Evidence
	for _, p := range ok {
		nd := h.NetDev(p.NetDev)
		if p.Software || nd == nil {
			continue
		}
		f := nd.Flow
		switch {
		case f == nil || f.PFC == "" && !f.ECNKnown:
			blind = append(blind, fault.Evidence{Source: "DCB of " + nd.Name, Got: "not readable", Want: "PFC or ECN for the traffic's priority"})
		case !strings.Contains(f.PFC, "1") && len(f.ECN) == 0:
			off = append(off, fault.Evidence{Source: "DCB of " + nd.Name + " (" + f.Source + ")", Got: strings.TrimSpace("PFC " + f.PFC + ", trust " + f.Trust), Want: "PFC or ECN for one priority"})
		default:
			on = append(on, fault.Evidence{Source: "DCB of " + nd.Name, Got: "PFC " + f.PFC + ", trust " + f.Trust})
		}
	}
	switch {
	case len(off) > 0:
		return []fault.Finding{hostcheck.Finding(h, fault.RDMAFlowControl, fault.Warn, hostcheck.Few(off), "no lossless class on %s", hostcheck.Plural(len(off), "RoCE interface"))}
	case len(blind) > 0:
		return []fault.Finding{hostcheck.Finding(h, fault.RDMAFlowControl, fault.Unknown, hostcheck.Few(blind), "cannot tell whether RoCE has a lossless class on %s", hostcheck.Plural(len(blind), "interface"))}
	case len(on) > 0:
		return []fault.Finding{hostcheck.Finding(h, fault.RDMAFlowControl, fault.OK, hostcheck.Few(on), "PFC or ECN is on")}
	}
	return nil
}
