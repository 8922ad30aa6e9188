package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"hopbench/transports/fault"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// Side is what one host tells the other, small enough for the control channel.
type Side struct {
	Version string          `json:"version"`
	Kernel  string          `json:"kernel,omitempty"`
	Ports   []rdmaport.Port `json:"rdma_ports"`
	// Subnets are the IPv4 networks of each interface.
	Subnets map[string][]string `json:"subnets,omitempty"`
	// MTU of each interface, in bytes.
	MTU map[string]int `json:"mtu,omitempty"`
	// Data is the address that this side announces for data, host:port; empty: none yet.
	Data string `json:"data,omitempty"`
}

// SideOf takes from a host what the other side must know.
func SideOf(h *topo.Host, version string) Side {
	s := Side{Version: version, Kernel: h.Kernel, Ports: rdmaport.Assess(h), Subnets: map[string][]string{}, MTU: map[string]int{}}
	for _, d := range h.Net {
		if d.Name == "lo" {
			continue
		}
		if len(d.Subnets) > 0 {
			s.Subnets[d.Name] = d.Subnets
		}
		if d.MTU != nil {
			s.MTU[d.Name] = *d.MTU
		}
	}
	return s
}

// CompareHosts says what of two sides does not fit together. Only what both sides know is compared: a side without a
// usable RDMA port is left to its own doctor.
func CompareHosts(a, b Side) []fault.Finding {
	var out []fault.Finding
	say := func(code fault.Code, sev fault.Severity, source, here, there, format string, args ...any) {
		f := fault.Finding{Code: code, Severity: sev, Summary: fmt.Sprintf(format, args...), Evidence: []fault.Evidence{{Source: source + ", here", Got: here}, {Source: source + ", peer", Got: there}}}
		if row, ok := fault.Lookup(code); ok && sev != fault.OK {
			f.Fix = row.Fixes
		}
		out = append(out, f)
	}
	if a.Version != "" && b.Version != "" && a.Version != b.Version {
		say(fault.PairVersion, fault.Warn, "release", a.Version, b.Version, "the two sides run different releases")
	}
	pa, pb := usablePorts(a), usablePorts(b)
	if len(pa) == 0 || len(pb) == 0 {
		return out
	}
	layers := func(ps []rdmaport.Port) (l []string) {
		for _, p := range ps {
			if !slices.Contains(l, p.LinkLayer) {
				l = append(l, p.LinkLayer)
			}
		}
		slices.Sort(l)
		return l
	}
	la, lb := layers(pa), layers(pb)
	if !slices.ContainsFunc(la, func(l string) bool { return slices.Contains(lb, l) }) {
		say(fault.PairLinkLayer, fault.Fail, "link layers of usable ports", strings.Join(la, ", "), strings.Join(lb, ", "), "no link layer in common")
		return out
	}
	ra, rb := roce(pa), roce(pb)
	if len(ra) == 0 || len(rb) == 0 {
		return out
	}
	facts := func(ps []rdmaport.Port, f func(rdmaport.Port) string) []string {
		var l []string
		for _, p := range ps {
			if v := f(p); v != "" && !slices.Contains(l, v) {
				l = append(l, v)
			}
		}
		slices.Sort(l)
		return l
	}
	meet := func(x, y []string) bool {
		return len(x) == 0 || len(y) == 0 || slices.ContainsFunc(x, func(v string) bool { return slices.Contains(y, v) })
	}
	typ := func(p rdmaport.Port) string { return p.GIDType }
	if x, y := facts(ra, typ), facts(rb, typ); !meet(x, y) {
		say(fault.PairGIDType, fault.Fail, "types of the chosen GIDs", strings.Join(x, ", "), strings.Join(y, ", "), "the chosen GIDs have different RoCE versions")
	}
	family := func(p rdmaport.Port) string { return topo.GID{GID: p.GID}.Family("Ethernet") }
	if x, y := facts(ra, family), facts(rb, family); !meet(x, y) {
		say(fault.PairGIDFamily, fault.Fail, "address families of the chosen GIDs", strings.Join(x, ", "), strings.Join(y, ", "), "the chosen GIDs are of different address families")
	}
	mtu := func(p rdmaport.Port) string {
		if p.PathMTU == nil {
			return ""
		}
		return fmt.Sprint(*p.PathMTU)
	}
	if x, y := facts(ra, mtu), facts(rb, mtu); len(x) > 0 && len(y) > 0 && !slices.Equal(x, y) {
		say(fault.PairMTU, fault.Warn, "path MTU of RoCE ports", strings.Join(x, ", "), strings.Join(y, ", "), "the two sides have different MTUs; both must use the smaller")
	}
	soft := func(p rdmaport.Port) string {
		if p.Software {
			return "software"
		}
		return "hardware"
	}
	if x, y := facts(ra, soft), facts(rb, soft); !meet(x, y) {
		say(fault.PairSoftware, fault.Warn, "kind of RoCE ports", strings.Join(x, ", "), strings.Join(y, ", "), "one side is a software device and the other is hardware")
	}
	if together, known := sameSubnet(a, ra, rb); known && !together {
		gid := func(p rdmaport.Port) string { return topo.GID{GID: p.GID}.Short() + " on " + p.NetDev }
		say(fault.PairSubnet, fault.Warn, "GID addresses", strings.Join(facts(ra, gid), ", "), strings.Join(facts(rb, gid), ", "), "no two ports stand in one subnet: there must be a route between them")
	}
	return out
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

// sameSubnet reports whether some port of the peer has an IPv4 address within a subnet of one of ours.
func sameSubnet(a Side, ra, rb []rdmaport.Port) (together, known bool) {
	for _, x := range ra {
		for _, s := range a.Subnets[x.NetDev] {
			n, err := netip.ParsePrefix(s)
			if err != nil {
				continue
			}
			for _, y := range rb {
				if addr := (topo.GID{GID: y.GID}).Addr(); addr.Is4() {
					known = true
					together = together || n.Contains(addr)
				}
			}
		}
	}
	return together, known
}

// Reach tries to connect to the peer's data address. A refusal is an answer: the host is there and only nobody listens yet.
func Reach(ctx context.Context, data string, limit time.Duration) fault.Finding {
	f := fault.Finding{Code: fault.PairData, Severity: fault.OK, Summary: "the peer's data address " + data + " answers"}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", data)
	if err == nil {
		conn.Close()
		return f
	}
	f.Evidence = []fault.Evidence{{Source: "connect to " + data, Got: err.Error(), Want: "an answer"}}
	if errors.Is(err, syscall.ECONNREFUSED) {
		f.Summary = "the host at the peer's data address " + data + " answers; nobody listens at the port now"
		return f
	}
	f.Severity, f.Summary = fault.Fail, "the peer's data address "+data+" cannot be reached from here"
	if row, ok := fault.Lookup(fault.PairData); ok {
		f.Fix = row.Fixes
	}
	return f
}
