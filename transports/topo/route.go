package topo

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Route is how this host would send to a peer.
type Route struct {
	Peer netip.Addr `json:"peer"`
	// Local is set where the peer's address is one of this host's: the traffic never leaves the kernel, whatever interface
	// holds the address.
	Local  bool       `json:"local"`
	NetDev string     `json:"netdev"` // "lo" for a local peer
	Source netip.Addr `json:"source"` // the address that would be sent from
	Via    netip.Addr `json:"via"`    // the gateway; the zero Addr where the peer is on the link
	MTU    *int       `json:"mtu,omitempty"`
	// Virtual is set where the interface has no line rate: loopback, veth, bridge, a hypervisor's device.
	Virtual bool `json:"virtual"`
	// BitsPS is the line rate of the interface; nil where it has none or does not tell.
	BitsPS *uint64 `json:"bits_per_second,omitempty"`
	BDF    string  `json:"bdf,omitempty"`
	// Driver is the interface's kernel driver, where it has one.
	Driver string `json:"driver,omitempty"`
}

// RouteTo asks the running kernel for the route to peer and reads the interface that carries it. The error wraps the
// kernel's errno: ENETUNREACH for no route.
func RouteTo(peer netip.Addr) (*Route, error) {
	peer = peer.Unmap()
	if !peer.IsValid() {
		return nil, errors.New("route lookup: no address")
	}
	rs, err := netlink.RouteGet(net.IP(peer.AsSlice()))
	if err != nil {
		return nil, fmt.Errorf("route to %s: %w", peer, err)
	}
	if len(rs) == 0 {
		return nil, fmt.Errorf("route to %s: %w", peer, unix.ENETUNREACH)
	}
	rt := rs[0]
	r := &Route{Peer: peer, Local: rt.Type == unix.RTN_LOCAL}
	if a, ok := netip.AddrFromSlice(rt.Src); ok {
		r.Source = a.Unmap()
	}
	if a, ok := netip.AddrFromSlice(rt.Gw); ok {
		r.Via = a.Unmap()
	}
	// A source equal to the peer is this host too, even where a policy rule hides the local table.
	if r.Source == peer {
		r.Local = true
	}
	if ifi, err := net.InterfaceByIndex(rt.LinkIndex); err == nil {
		r.NetDev = ifi.Name
		mtu := ifi.MTU
		if rt.MTU > 0 && rt.MTU < mtu {
			mtu = rt.MTU
		}
		r.MTU = &mtu
	}
	t := &Tree{name: "/", live: true, raw: dirTree("/")}
	h := &Host{Net: (&reader{t: t, seen: map[string]bool{}}).net()}
	d := h.NetDev(r.NetDev)
	switch {
	case d != nil:
		r.Virtual, r.BitsPS, r.BDF, r.Driver = d.Virtual, d.BitsPS, d.BDF, d.Driver
	case r.NetDev == "lo":
		r.Virtual = true
	}
	return r, nil
}

// IsLocal reports whether addr is an address of this host.
func IsLocal(addr netip.Addr) bool {
	addr = addr.Unmap()
	if addr.IsLoopback() {
		return true
	}
	as, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, a := range as {
		if n, ok := a.(*net.IPNet); ok {
			if x, ok := netip.AddrFromSlice(n.IP); ok && x.Unmap() == addr.WithZone("") {
				return true
			}
		}
	}
	return false
}
