package topo

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// routes reads the IPv4 routing table and the interfaces' own addresses into devs, and says whether the table could be read.
//
// Addresses in /proc/net/route are little-endian words in hex. A capture without addresses has no such file; it says in
// facts which interfaces have a route: "route eth0 connected", "route eth0 default".
func (r *reader) routes(devs []NetDev) (known bool) {
	at := func(name string) *NetDev {
		if i := slices.IndexFunc(devs, func(d NetDev) bool { return d.Name == name }); i >= 0 {
			return &devs[i]
		}
		return nil
	}
	table, ok := r.try("proc/net/route")
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] == "Iface" {
			continue
		}
		dst, err1 := strconv.ParseUint(f[1], 16, 32)
		mask, err2 := strconv.ParseUint(f[7], 16, 32)
		d := at(f[0])
		switch {
		case err1 != nil || err2 != nil || d == nil:
		case dst == 0 && mask == 0:
			d.Default = true
		case f[2] == "00000000" && dst != 0:
			var a [4]byte
			binary.LittleEndian.PutUint32(a[:], uint32(dst))
			d.Subnets = add(d.Subnets, netip.PrefixFrom(netip.AddrFrom4(a), bits.OnesCount32(uint32(mask))).String())
		}
	}
	for _, line := range r.t.Fact("route") {
		f := strings.Fields(line)
		if len(f) == 2 && f[1] == "default" {
			if d := at(f[0]); d != nil {
				d.Default = true
			}
		}
	}
	for _, line := range r.t.Fact("addr") { // "addr eth0 192.0.2.1/24"
		if f := strings.Fields(line); len(f) == 2 {
			if _, err := netip.ParsePrefix(f[1]); err != nil {
				r.note(factsDir+"/facts", fmt.Errorf("not an address: %q", clip(f[1])))
			} else if d := at(f[0]); d != nil {
				d.Addrs = add(d.Addrs, f[1])
			}
		}
	}
	if r.t.live {
		for i := range devs {
			devs[i].Addrs = liveAddrs(devs[i].Name)
		}
	}
	return ok || len(r.t.Fact("route")) > 0
}

func add(to []string, s string) []string {
	if slices.Contains(to, s) {
		return to
	}
	return append(to, s)
}

func liveAddrs(name string) (out []string) {
	ifi, err := net.InterfaceByName(name)
	if err != nil {
		return nil
	}
	all, err := ifi.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		ip, ok := netip.AddrFromSlice(n.IP)
		ones, _ := n.Mask.Size()
		if ok {
			out = append(out, netip.PrefixFrom(ip.Unmap(), ones).String())
		}
	}
	return out
}

// Routed reports whether anything beyond this host can be reached through the interface, as far as its addresses and routes tell.
func (d *NetDev) Routed() bool { return d.Default || len(d.Subnets) > 0 || len(d.Addrs) > 0 }

// Has reports whether addr is one of the interface's own addresses.
func (d *NetDev) Has(addr netip.Addr) bool {
	return slices.ContainsFunc(d.Addrs, func(s string) bool {
		p, err := netip.ParsePrefix(s)
		return err == nil && p.Addr() == addr.Unmap().WithZone("")
	})
}
