package tcp

import (
	"fmt"
	"strings"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/hostcheck"
	"hopbench/transports/topo"
)

// checks are the doctor's questions about TCP. Nothing of RDMA is among them: a TCP run locks no memory and needs no device.
func checks() []transports.Check {
	up := fault.TCPNoInterface
	return []transports.Check{
		{Code: up, Title: "an interface beside loopback is up", Run: checkInterfaces},
		{Code: fault.TCPNoRoute, Title: "an interface that is up has an address or a route", Needs: []fault.Code{up}, Run: checkRoute},
		{Code: fault.TCPAllVirtual, Title: "a hardware interface is visible", Run: checkVirtual},
		{Code: fault.TCPSpeed, Title: "the hardware interfaces tell their speed", Run: checkSpeed},
		{Code: fault.TCPBuffers, Title: "TCP buffers may grow to what the link needs", Run: checkBuffers},
		{Code: fault.PCIWidth, Title: "the NICs use all of their lanes", Run: checkWidth},
		{Code: fault.PCIUpstream, Title: "no bridge above a NIC is narrower than the NIC", Run: checkUpstream},
		{Code: fault.Steering, Title: "no variable steers TCP", Run: func(h *topo.Host) []fault.Finding { return hostcheck.Steering(h, "tcp") }},
	}
}

// loopback is the ARPHRD type of the loopback interface (include/uapi/linux/if_arp.h).
const loopback = 772

// outward lists the interfaces beside loopback that are up. Some drivers report "unknown" for an interface that works.
func outward(h *topo.Host) []topo.NetDev {
	var out []topo.NetDev
	for _, d := range h.Net {
		if d.Name != "lo" && (d.Type == nil || *d.Type != loopback) && d.State != "down" && (d.State == "up" || d.Carrier != nil && *d.Carrier) {
			out = append(out, d)
		}
	}
	return out
}

func checkInterfaces(h *topo.Host) []fault.Finding {
	if n := len(outward(h)); n > 0 {
		return []fault.Finding{hostcheck.Finding(h, fault.TCPNoInterface, fault.OK, nil, "%s up beside loopback", hostcheck.Plural(n, "interface is", "interfaces are"))}
	}
	return []fault.Finding{hostcheck.Finding(h, fault.TCPNoInterface, fault.Warn, hostcheck.Ev("/sys/class/net/*/operstate", fmt.Sprintf("none of %d up", len(h.Net)), "one up"), "no interface but loopback is up: only this host can be reached")}
}

func checkVirtual(h *topo.Host) []fault.Finding {
	up := outward(h)
	if len(up) == 0 {
		return nil
	}
	var ev []fault.Evidence
	for _, d := range up {
		if !d.Virtual {
			return nil
		}
		got := "virtual"
		if d.Driver != "" {
			got = "driver " + d.Driver
		}
		ev = append(ev, fault.Evidence{Source: "/sys/class/net/" + d.Name, Got: got, Want: "a device with a line rate"})
	}
	return []fault.Finding{hostcheck.Finding(h, fault.TCPAllVirtual, fault.Warn, hostcheck.Few(ev), "every interface is virtual: no line rate, and utilisation stays blank")}
}

func checkRoute(h *topo.Host) []fault.Finding {
	up := outward(h)
	if !h.TCP.RoutesKnown || len(up) == 0 {
		return nil // a capture that tells no routes bears no finding
	}
	var bare []fault.Evidence
	var gates []string
	routed := false
	for _, d := range up {
		above := h.NetDev(d.Master) // a leg of a bond or bridge has no address of its own
		if d.Default {
			gates = append(gates, d.Name)
		}
		if d.Routed() || above != nil && above.Routed() {
			routed = true
		} else {
			bare = append(bare, fault.Evidence{Source: "addresses and routes of " + d.Name, Got: "none", Want: "an address"})
		}
	}
	if !routed {
		return []fault.Finding{hostcheck.Finding(h, fault.TCPNoRoute, fault.Warn, hostcheck.Few(bare), "no interface that is up has an address or a route: only this host can be reached")}
	}
	got := "no default route"
	if len(gates) > 0 {
		got = "default route by " + strings.Join(gates, ", ")
	}
	return []fault.Finding{hostcheck.Finding(h, fault.TCPNoRoute, fault.OK, hostcheck.Ev("/proc/net/route", got, ""), "there is a route: %s", got)}
}

// checkSpeed lists the line rates: what utilisation is counted against.
func checkSpeed(h *topo.Host) []fault.Finding {
	var known, blind []fault.Evidence
	for _, d := range outward(h) {
		switch {
		case d.Virtual:
		case d.BitsPS != nil:
			known = append(known, fault.Evidence{Source: "/sys/class/net/" + d.Name + "/speed", Got: fmt.Sprintf("%g Gb/s", float64(*d.BitsPS)/1e9)})
		case d.BDF != "" && d.Bond == nil:
			blind = append(blind, fault.Evidence{Source: "/sys/class/net/" + d.Name + "/speed", Got: "not told", Want: "Mb/s"})
		}
	}
	switch {
	case len(blind) > 0:
		return []fault.Finding{hostcheck.Finding(h, fault.TCPSpeed, fault.Unknown, hostcheck.Few(blind), "cannot tell the line rate of %s", hostcheck.Plural(len(blind), "hardware interface"))}
	case len(known) > 0:
		return []fault.Finding{hostcheck.Finding(h, fault.TCPSpeed, fault.OK, hostcheck.Few(known), "the hardware interfaces tell their line rate")}
	}
	return nil
}

// A NIC of 25 Gb/s over a round trip of 5 ms keeps 16 MB in flight; below that the kernel's stock limits do.
const (
	fastBits  = 25_000_000_000
	wantBytes = 16 << 20
)

func checkBuffers(h *topo.Host) []fault.Finding {
	fast := ""
	for _, d := range outward(h) {
		if d.BitsPS != nil && *d.BitsPS >= fastBits {
			fast = fmt.Sprintf("%s at %d Gb/s", d.Name, *d.BitsPS/1e9)
		}
	}
	if fast == "" {
		return nil
	}
	var ev []fault.Evidence
	for _, s := range []struct {
		name string
		v    []int64
	}{{"tcp_rmem", h.TCP.RMem}, {"tcp_wmem", h.TCP.WMem}} {
		if len(s.v) == 3 && s.v[2] < wantBytes {
			ev = append(ev, fault.Evidence{Source: "/proc/sys/net/ipv4/" + s.name, Got: fmt.Sprintf("most %d bytes", s.v[2]), Want: fmt.Sprintf("%d bytes or more for %s over a distance", wantBytes, fast)})
		}
	}
	if len(ev) == 0 {
		return nil
	}
	return []fault.Finding{hostcheck.Finding(h, fault.TCPBuffers, fault.Warn, ev, "one connection cannot fill %s over a distance: TCP buffers may not grow enough", fast)}
}

func checkWidth(h *topo.Host) []fault.Finding { return hostcheck.Width(h, functions(h)) }

func checkUpstream(h *topo.Host) []fault.Finding { return hostcheck.Upstream(h, functions(h)) }

// functions are the PCI functions of the hardware interfaces that are up.
func functions(h *topo.Host) (nics []string) {
	for _, d := range outward(h) {
		if d.BDF != "" && !d.Virtual {
			nics = append(nics, d.BDF)
		}
	}
	return nics
}
