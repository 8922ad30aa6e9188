package tcp

import (
	"fmt"

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
		{Code: fault.TCPAllVirtual, Title: "a hardware interface is visible", Run: checkVirtual},
		{Code: fault.TCPBuffers, Title: "TCP buffers may grow to what the link needs", Run: checkBuffers},
		{Code: fault.PCIWidth, Title: "the NICs use all of their lanes", Run: checkWidth},
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

func checkWidth(h *topo.Host) []fault.Finding {
	var nics []string
	for _, d := range outward(h) {
		if d.BDF != "" && !d.Virtual {
			nics = append(nics, d.BDF)
		}
	}
	return hostcheck.Width(h, nics)
}
