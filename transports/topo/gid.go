package topo

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Addr is the GID as an address: IPv4 where it is the mapped form of one. The zero Addr means that the text is none.
func (g GID) Addr() netip.Addr {
	a, err := netip.ParseAddr(g.GID)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}

// Family names what kind of address a GID is: "ipv4", "ipv6", "link-local", "infiniband" for a subnet prefix with a port GUID.
func (g GID) Family(linkLayer string) string {
	a := g.Addr()
	switch {
	case linkLayer == "InfiniBand":
		return "infiniband"
	case !a.IsValid():
		return ""
	case a.IsLinkLocalUnicast():
		return "link-local"
	case a.Is4():
		return "ipv4"
	}
	return "ipv6"
}

// V2 reports whether the slot is for RoCE v2 (routable, over UDP). A slot whose type could not be read is none.
func (g GID) V2() bool { return strings.Contains(g.Type, "v2") }

// ChooseGID picks the slot that two hosts most likely reach each other by, and says why; the whole order is in rank. On
// InfiniBand it is the first slot. Nil: there is no usable slot.
func (p *RDMAPort) ChooseGID() (*GID, string) {
	if len(p.GIDs) == 0 {
		return nil, "the GID table is empty"
	}
	if p.LinkLayer == "InfiniBand" {
		return &p.GIDs[0], "first slot; InfiniBand needs no other"
	}
	var best *GID
	var bestRank []int
	for i := range p.GIDs {
		g := &p.GIDs[i]
		if !g.Addr().IsValid() || g.Foreign {
			continue
		}
		r := g.rank()
		if best == nil || slices.Compare(r, bestRank) < 0 {
			best, bestRank = g, r
		}
	}
	if best == nil {
		return nil, "every slot belongs to an interface of another network namespace"
	}
	why := []string{cmp.Or(best.Type, "type not readable"), best.Family(p.LinkLayer)}
	if best.NetDev != "" {
		why = append(why, "interface "+best.NetDev+" is here")
	} else {
		why = append(why, "interface not readable")
	}
	return best, fmt.Sprintf("index %d: %s", best.Index, strings.Join(why, ", "))
}

// Gone reports whether the slot's address is none of an interface's, which are written as prefixes: the address has left it, and the slot
// has stayed. No addresses mean that they are not known.
func (g GID) Gone(addrs []string) bool {
	a := g.Addr()
	return len(addrs) > 0 && a.IsValid() && !a.IsLinkLocalUnicast() && !(&NetDev{Addrs: addrs}).Has(a)
}

// rank orders slots, smaller first: type v2 before v1; an interface of this namespace before one that cannot be read;
// an address that its interface still has; IPv4 before other IPv6 before link-local, which another host may not reach; then the smaller index. Private ranges are
// as good as any: fabrics use them.
func (g GID) rank() []int {
	r := []int{0, 0, 0, 0, g.Index}
	switch {
	case g.V2():
	case g.Type != "":
		r[0] = 1
	default:
		r[0] = 2
	}
	if g.NetDev == "" {
		r[1] = 1
	}
	if g.Stale {
		r[2] = 1
	}
	switch g.Family("Ethernet") {
	case "ipv4":
	case "ipv6":
		r[3] = 1
	default:
		r[3] = 2
	}
	// A link-local v2 slot is worse than no more than another v2 slot, but also worse than an address that routes on an
	// interface that could not be read.
	if r[3] == 2 {
		r[1] += 2
	}
	return r
}

// Short writes a GID the way a person reads it: an IPv4 address where it maps one.
func (g GID) Short() string {
	if a := g.Addr(); a.IsValid() {
		return a.String()
	}
	return g.GID
}
