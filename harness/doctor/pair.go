package doctor

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"hopbench/transports/fault"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// pairFinding is a finding about two sides: what each was seen to have.
func pairFinding(code fault.Code, sev fault.Severity, source, here, there, format string, args ...any) fault.Finding {
	f := fault.Finding{Code: code, Severity: sev, Summary: fmt.Sprintf(format, args...), Evidence: []fault.Evidence{{Source: source + ", here", Got: here}, {Source: source + ", peer", Got: there}}}
	if row, ok := fault.Lookup(code); ok && sev != fault.OK {
		f.Fix = row.Fixes
	}
	return f
}

// CompareHosts says what of two sides does not fit together. Only what both sides know is compared: a side without a
// usable RDMA port is left to its own doctor.
func CompareHosts(a, b Side) []fault.Finding {
	var out []fault.Finding
	say := func(code fault.Code, sev fault.Severity, source, here, there, format string, args ...any) {
		out = append(out, pairFinding(code, sev, source, here, there, format, args...))
	}
	if a.Version != "" && b.Version != "" && a.Version != b.Version {
		say(fault.PairVersion, fault.Warn, "release", a.Version, b.Version, "the two sides run different releases")
	}
	pa, pb := usablePorts(a), usablePorts(b)
	if len(pa) == 0 || len(pb) == 0 {
		return out
	}
	layer := func(p rdmaport.Port) string { return p.LinkLayer }
	la, lb := each(pa, layer), each(pb, layer)
	if !meet(la, lb) {
		say(fault.PairLinkLayer, fault.Fail, "link layers of usable ports", strings.Join(la, ", "), strings.Join(lb, ", "), "no link layer in common")
		return out
	}
	ra, rb := roce(pa), roce(pb)
	if len(ra) == 0 || len(rb) == 0 {
		return out
	}
	typ := func(p rdmaport.Port) string { return p.GIDType }
	if x, y := each(ra, typ), each(rb, typ); !meet(x, y) {
		say(fault.PairGIDType, fault.Fail, "types of the chosen GIDs", strings.Join(x, ", "), strings.Join(y, ", "), "the chosen GIDs have different RoCE versions")
	}
	family := func(p rdmaport.Port) string { return topo.GID{GID: p.GID}.Family("Ethernet") }
	if x, y := each(ra, family), each(rb, family); !meet(x, y) {
		say(fault.PairGIDFamily, fault.Fail, "address families of the chosen GIDs", strings.Join(x, ", "), strings.Join(y, ", "), "the chosen GIDs are of different address families")
	}
	mtu := func(p rdmaport.Port) string {
		if p.PathMTU == nil {
			return ""
		}
		return fmt.Sprint(*p.PathMTU)
	}
	if x, y := each(ra, mtu), each(rb, mtu); len(x) > 0 && len(y) > 0 && !slices.Equal(x, y) {
		say(fault.PairMTU, fault.Warn, "path MTU of RoCE ports", strings.Join(x, ", "), strings.Join(y, ", "), "the two sides have different MTUs; both must use the smaller")
	}
	soft := func(p rdmaport.Port) string {
		if p.Software {
			return "software"
		}
		return "hardware"
	}
	if x, y := each(ra, soft), each(rb, soft); !meet(x, y) {
		say(fault.PairSoftware, fault.Warn, "kind of RoCE ports", strings.Join(x, ", "), strings.Join(y, ", "), "one side is a software device and the other is hardware")
	}
	if together, known := sameSubnet(a, ra, rb); known && !together {
		gid := func(p rdmaport.Port) string { return topo.GID{GID: p.GID}.Short() + " on " + p.NetDev }
		say(fault.PairSubnet, fault.Warn, "GID addresses", few(each(ra, gid)), few(each(rb, gid)), "no two ports stand in one subnet: there must be a route between them")
	}
	return out
}

// CompareData compares the two interfaces that carry, or would carry, the data of a path between two sides: by name, an address of each
// side where known. Passed says that data was seen to pass.
func CompareData(a, b Side, here, there End, passed bool) []fault.Finding {
	var out []fault.Finding
	x, y := here.of(&a), there.of(&b)
	if x != nil && y != nil && x.MTU != nil && y.MTU != nil && *x.MTU != *y.MTU {
		out = append(out, pairFinding(fault.PairMTU, fault.Warn, "MTU of the data path's interface", fmt.Sprintf("%s, %d bytes", x.Name, *x.MTU), fmt.Sprintf("%s, %d bytes", y.Name, *y.MTU),
			"the interfaces of the data path have MTUs of %d and %d bytes", *x.MTU, *y.MTU))
	}
	// One of our networks holds the peer's address, or the other way round.
	holds := func(n *Interface, addr netip.Addr) bool {
		return slices.ContainsFunc(n.networks(), func(p netip.Prefix) bool { return p.Contains(addr.Unmap().WithZone("")) })
	}
	if x == nil || y == nil || !here.Addr.IsValid() && !there.Addr.IsValid() || len(x.networks()) == 0 || len(y.networks()) == 0 {
		return out
	}
	if there.Addr.IsValid() && holds(x, there.Addr) || here.Addr.IsValid() && holds(y, here.Addr) {
		return out
	}
	sev, what := fault.Warn, "the data addresses stand in different subnets: there must be a route between them"
	if passed {
		sev, what = fault.OK, "the data addresses stand in different subnets, and data passed between them: they are routed"
	}
	return append(out, pairFinding(fault.PairSubnet, sev, "data address and interface", here.text(x), there.text(y), "%s", what))
}

// End is one end of a data path: what is known of it.
type End struct {
	Interface string
	Addr      netip.Addr
}

// of is the interface of the end: by its name, else the one that has the address.
func (e End) of(s *Side) *Interface {
	if n := s.named(e.Interface); n != nil {
		return n
	}
	return s.holding(e.Addr)
}

func (e End) text(n *Interface) string {
	if e.Addr.IsValid() {
		return fmt.Sprintf("%s on %s (%s)", e.Addr, n.Name, few(n.Networks))
	}
	return fmt.Sprintf("%s (%s)", n.Name, few(n.Networks))
}

// each lists what f says of the ports, each word once, in order.
func each(ps []rdmaport.Port, f func(rdmaport.Port) string) []string {
	var l []string
	for _, p := range ps {
		if v := f(p); v != "" && !slices.Contains(l, v) {
			l = append(l, v)
		}
	}
	slices.Sort(l)
	return l
}

// meet reports whether two lists have a word in common; an empty one is not known, and meets any.
func meet(x, y []string) bool {
	return len(x) == 0 || len(y) == 0 || slices.ContainsFunc(x, func(v string) bool { return slices.Contains(y, v) })
}

// few keeps a list readable.
func few(l []string) string {
	if len(l) > 4 {
		return fmt.Sprintf("%s and %d more", strings.Join(l[:4], ", "), len(l)-4)
	}
	return strings.Join(l, ", ")
}

func usablePorts(s Side) (out []rdmaport.Port) {
	for _, p := range s.Ports {
		if p.Verdict == rdmaport.Usable {
			out = append(out, p)
		}
	}
	return out
}

func roce(ps []rdmaport.Port) (out []rdmaport.Port) {
	for _, p := range ps {
		if p.LinkLayer == "Ethernet" {
			out = append(out, p)
		}
	}
	return out
}

// sameSubnet reports whether some port of the peer has an address within a network of one of ours; known only where we have a
// network of the address's family.
func sameSubnet(a Side, ra, rb []rdmaport.Port) (together, known bool) {
	for _, x := range ra {
		for _, n := range a.named(x.NetDev).networks() {
			for _, y := range rb {
				addr := (topo.GID{GID: y.GID}).Addr()
				if addr.IsValid() && !addr.IsLinkLocalUnicast() && addr.Is4() == n.Addr().Is4() {
					known = true
					together = together || n.Contains(addr)
				}
			}
		}
	}
	return together, known
}
