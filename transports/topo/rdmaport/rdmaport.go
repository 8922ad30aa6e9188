// Package rdmaport says of each RDMA port of a host whether it can be used from here, by one rule that the verbs drivers,
// their checks and the doctor's list share: the first cause that holds is named, and what would only follow from it is not.
package rdmaport

import (
	"fmt"
	"slices"
	"strings"

	"hopbench/transports/fault"
	"hopbench/transports/topo"
)

// Verdict is the answer about one port.
type Verdict string

const (
	Usable   Verdict = "usable"
	Unusable Verdict = "unusable"
	Unknown  Verdict = "unknown"
)

// Port is one port with its verdict. Absent fields were not known.
type Port struct {
	Device    string       `json:"device"`
	Port      int          `json:"port,omitempty"` // 0: the device shows no port that could be read
	Verdict   Verdict      `json:"verdict"`
	Reason    string       `json:"reason,omitempty"`
	LinkLayer string       `json:"link_layer,omitempty"`
	BitsPS    *uint64      `json:"rate_bits_per_second,omitempty"`
	GIDIndex  *int         `json:"gid_index,omitempty"`
	GID       string       `json:"gid,omitempty"`
	GIDType   string       `json:"gid_type,omitempty"`
	PathMTU   *int         `json:"path_mtu,omitempty"`
	Software  bool         `json:"software"`
	NetDev    string       `json:"netdev,omitempty"`
	UVerbs    string       `json:"uverbs,omitempty"`
	Codes     []fault.Code `json:"codes"` // the cause of an unusable port, or what to be warned of on a usable one

	// Evidence is what the verdict was taken from, by code.
	Evidence map[fault.Code][]fault.Evidence `json:"-"`
	// Why explains the choice of the GID.
	Why string `json:"gid_choice,omitempty"`
}

// providers maps kernel drivers to the name of their userspace provider, from the provider folders of rdma-core.
var providers = map[string]string{
	"mlx5_core": "mlx5", "mlx4_core": "mlx4", "irdma": "irdma", "ice": "irdma", "i40e": "irdma", "idpf": "irdma", "bnxt_re": "bnxt_re", "bnxt_en": "bnxt_re",
	"efa": "efa", "rdma_rxe": "rxe", "siw": "siw", "hns3": "hns", "hns_roce_hw_v2": "hns", "qede": "qedr", "cxgb4": "cxgb4", "erdma": "erdma",
	"mana": "mana", "hfi1": "hfi1verbs", "ionic": "ionic",
}

// Assess gives a verdict to each port of h, in the order of devices and ports. A device none of whose ports can be listed stands
// for itself, with the verdict unknown.
func Assess(h *topo.Host) []Port {
	var out []Port
	for i := range h.RDMA.Devices {
		d := &h.RDMA.Devices[i]
		if len(d.Ports) == 0 {
			p := Port{Device: d.Name, Verdict: Unknown, Reason: "cannot tell: no port of the device could be read", Software: d.Software, UVerbs: d.UVerbs, Codes: []fault.Code{fault.RDMAUnreadable}}
			p.Evidence = map[fault.Code][]fault.Evidence{fault.RDMAUnreadable: {{Source: Path(d.Name, "ports"), Got: "no port could be read", Want: "a folder for each port"}}}
			out = append(out, p)
		}
		for j := range d.Ports {
			out = append(out, assess(h, d, &d.Ports[j]))
		}
	}
	return out
}

func assess(h *topo.Host, d *topo.RDMADevice, p *topo.RDMAPort) Port {
	out := Port{Device: d.Name, Port: p.Num, Verdict: Usable, LinkLayer: p.LinkLayer, BitsPS: p.BitsPS, PathMTU: p.ActiveMTU,
		Software: d.Software, NetDev: p.NetDev, UVerbs: d.UVerbs, Codes: []fault.Code{}, Evidence: map[fault.Code][]fault.Evidence{}}
	g, why := p.ChooseGID()
	if g != nil {
		i := g.Index
		out.GIDIndex, out.GID, out.GIDType, out.Why = &i, g.GID, g.Type, why
	}
	if code, verdict, reason, ev := cause(h, d, p, g, why); code != "" {
		out.Verdict, out.Reason, out.Codes = verdict, reason, []fault.Code{code}
		out.Evidence[code] = ev
		return out
	}
	out.warn(h, d, p, g)
	return out
}

// Path is the folder of a device or of a port's attribute, for evidence.
func Path(d, attr string) string { return "/sys/class/infiniband/" + d + "/" + attr }

// cause is the first reason for which the port cannot be used, or could not be judged.
func cause(h *topo.Host, d *topo.RDMADevice, p *topo.RDMAPort, g *topo.GID, gidWhy string) (fault.Code, Verdict, string, []fault.Evidence) {
	no := func(c fault.Code, source, got, want, format string, a ...any) (fault.Code, Verdict, string, []fault.Evidence) {
		return c, Unusable, fmt.Sprintf(format, a...), []fault.Evidence{{Source: source, Got: got, Want: want}}
	}
	portPath := func(attr string) string { return Path(d.Name, fmt.Sprintf("ports/%d/%s", p.Num, attr)) }
	kind, _, _ := strings.Cut(d.NodeType, ":")
	switch {
	case d.Driver == "efa":
		return no(fault.RDMAEFA, Path(d.Name, "device/driver"), "efa", "a driver with reliable connections", "EFA has no reliable connections")
	case kind == "4":
		return no(fault.RDMAIWARP, Path(d.Name, "node_type"), d.NodeType, "1: CA", "iWARP connects only through the connection manager")
	case kind != "" && kind != "1":
		return no(fault.RDMANodeType, Path(d.Name, "node_type"), d.NodeType, "1: CA", "no channel adapter (node type %s)", d.NodeType)
	}
	if h.RDMA.LibraryKnown && len(h.RDMA.Library) == 0 {
		return no(fault.RDMANoLibrary, "the loader's folders", "no libibverbs.so.1", "libibverbs.so.1", "libibverbs is not installed here")
	}
	if n, ok := providers[d.Driver]; ok && h.RDMA.LibraryKnown && !slices.Contains(h.RDMA.Providers, n) {
		return no(fault.RDMANoProvider, "libibverbs provider folders", fmt.Sprintf("%v", h.RDMA.Providers), n, "no provider %q for the kernel driver %s", n, d.Driver)
	}
	switch {
	case d.UVerbs == "":
		return no(fault.RDMANoNode, "/sys/class/infiniband_verbs/*/ibdev", "no entry says "+d.Name, "one entry", "no device node belongs to it (ib_uverbs)")
	case d.Node.Err == "":
	case d.Node.Err == "ENOENT", d.Node.Err == "ENODEV", d.Node.Err == "ENXIO":
		return no(fault.RDMANoNode, "open "+d.Node.Path, d.Node.Err, "opens for reading and writing", "visible in /sys, its node %s is not here", d.Node.Path)
	default:
		got := d.Node.Err
		if d.Node.Mode != nil {
			got += fmt.Sprintf(", mode %04o", *d.Node.Mode)
		}
		return no(fault.RDMANodeRefused, "open "+d.Node.Path, got, "opens for reading and writing", "opening %s is refused: %s", d.Node.Path, got)
	}
	switch p.LinkLayer {
	case "InfiniBand", "Ethernet":
	case "":
		return unreadable(h, d, portPath("link_layer"))
	default:
		return no(fault.RDMALinkLayer, portPath("link_layer"), p.LinkLayer, "InfiniBand or Ethernet", "link layer is %s", p.LinkLayer)
	}
	switch {
	case p.State == "":
		return unreadable(h, d, portPath("state"))
	case p.State == "ACTIVE":
	case p.LinkLayer == "InfiniBand" && p.State == "INIT":
		lid := "not read"
		if p.SMLID != nil {
			lid = fmt.Sprintf("0x%x", *p.SMLID)
		}
		c, v, r, ev := no(fault.RDMANoSM, portPath("state"), "INIT", "ACTIVE", "link up, and no subnet manager has configured the port (INIT)")
		return c, v, r, append(ev, fault.Evidence{Source: portPath("sm_lid"), Got: lid, Want: "the LID of a subnet manager"})
	default:
		c, v, r, ev := no(fault.RDMAPortDown, portPath("state"), p.State, "ACTIVE", "port is %s", p.State)
		if p.Phys != "" {
			r += " (" + p.Phys + ")"
			ev = append(ev, fault.Evidence{Source: portPath("phys_state"), Got: p.Phys, Want: "LinkUp"})
		}
		return c, v, r, ev
	}
	if p.LinkLayer == "Ethernet" && g == nil {
		if len(p.GIDs) == 0 {
			return no(fault.RDMANoGID, portPath("gids"), "every slot empty", "an entry of an interface here", "no GID: the port's interface has no address here")
		}
		names := map[string]bool{}
		for _, e := range p.GIDs {
			names[e.NetDev] = true
		}
		var l []string
		for n := range names {
			l = append(l, n)
		}
		slices.Sort(l)
		return no(fault.RDMAGIDForeign, portPath("gid_attrs/ndevs"), strings.Join(l, ", "), "an interface of this network namespace", "%s", gidWhy)
	}
	return "", "", "", nil
}

// unreadable names the attribute whose refusal leaves the port without a verdict.
func unreadable(h *topo.Host, d *topo.RDMADevice, path string) (fault.Code, Verdict, string, []fault.Evidence) {
	attr := path[strings.LastIndex(path, "/"):]
	got := refusal(h, d, attr)
	return fault.RDMAUnreadable, Unknown, "cannot tell: " + attr[1:] + " is " + got, []fault.Evidence{{Source: path, Got: got, Want: "readable"}}
}

// refusal is how the device's attribute answered: the errno, or that it is absent.
func refusal(h *topo.Host, d *topo.RDMADevice, attr string) string {
	got := "absent"
	for _, e := range h.Errors {
		if strings.HasSuffix(e.Path, attr) && strings.Contains(e.Path, "/"+d.Name+"/") {
			got = e.Err
		}
	}
	return got
}

// warn adds what a user of the port should know although it works.
func (o *Port) warn(h *topo.Host, d *topo.RDMADevice, p *topo.RDMAPort, g *topo.GID) {
	add := func(c fault.Code, source, got, want string) {
		o.Codes = append(o.Codes, c)
		o.Evidence[c] = append(o.Evidence[c], fault.Evidence{Source: source, Got: got, Want: want})
	}
	portPath := func(attr string) string { return Path(d.Name, fmt.Sprintf("ports/%d/%s", p.Num, attr)) }
	if d.Software {
		add(fault.RDMASoftware, Path(d.Name, "node_desc"), strings.TrimSpace(d.Desc+" ("+d.Driver+")"), "hardware")
	}
	if !d.Software {
		const attr = "rate"
		switch {
		case p.BitsPS == nil:
			got := p.RateText
			if got == "" {
				got = refusal(h, d, "/"+attr)
			}
			add(fault.RDMACounters, portPath(attr), got, "Gb/sec")
		case *p.BitsPS == 10e9 && strings.Contains(p.RateText, "(4X"):
			// What the kernel says of a speed code that it does not know: it takes it for the first, SDR, which no port of the last
			// fifteen years runs at.
			add(fault.RDMACounters, portPath(attr), p.RateText, "the port's real rate")
		}
	}
	if p.LinkLayer == "InfiniBand" {
		full := len(p.PKeys) == 0
		for _, k := range p.PKeys {
			full = full || k&0x8000 != 0
		}
		if !full {
			add(fault.RDMAPKeyLimited, portPath("pkeys/0"), fmt.Sprintf("0x%04x", p.PKeys[0]), "0x8000 set: a full member")
		}
		return
	}
	if g.Family(p.LinkLayer) == "link-local" {
		add(fault.RDMAGIDLinkLocal, portPath(fmt.Sprintf("gids/%d", g.Index)), g.Short(), "a routable address")
	}
	if nd := h.NetDev(g.NetDev); nd != nil && g.Gone(nd.Addrs) {
		add(fault.RDMAGIDStale, "addresses of "+nd.Name, strings.Join(nd.Addrs, ", "), g.Short()+", as GID "+fmt.Sprint(g.Index)+" says")
	}
	if g.Type != "" && !g.V2() {
		add(fault.RDMARoCEv1, portPath(fmt.Sprintf("gid_attrs/types/%d", g.Index)), g.Type, "RoCE v2")
	}
	if p.ActiveMTU != nil && *p.ActiveMTU < 4096 {
		add(fault.RDMAMTUCap, p.MTUSource, fmt.Sprintf("path MTU %d", *p.ActiveMTU), "netdev MTU 4200 or more for a path MTU of 4096")
	}
	if nd := h.NetDev(p.NetDev); strings.Contains(d.Name, "_bond_") || nd != nil && nd.Bond != nil {
		got := d.Name
		if nd != nil && nd.Bond != nil {
			got = fmt.Sprintf("%s of %s (%s)", nd.Name, strings.Join(nd.Bond.Slaves, ", "), nd.Bond.Mode)
		}
		add(fault.RDMABond, "interface of "+d.Name, got, "")
	}
}

// Warns reports whether the port carries code.
func (o Port) Warns(code fault.Code) bool { return slices.Contains(o.Codes, code) }
