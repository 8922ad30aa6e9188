// Package hostcheck holds the questions about a host that the checks of several drivers ask alike: the PCI way between two
// functions, what the IOMMU does with it, variables that steer a path, and the form of a finding.
package hostcheck

import (
	"fmt"
	"slices"
	"strings"

	"hopbench/transports/fault"
	"hopbench/transports/topo"
)

// Finding makes a finding whose fixes are those of the code's row, for the place that h is: a pod is told what its spec must
// ask for first, a container what its runtime must pass, and a plain host nothing of either.
func Finding(h *topo.Host, code fault.Code, severity fault.Severity, evidence []fault.Evidence, format string, args ...any) fault.Finding {
	f := fault.Finding{Code: code, Severity: severity, Summary: fmt.Sprintf(format, args...), Evidence: evidence}
	if severity == fault.OK {
		return f
	}
	row, ok := fault.Lookup(code)
	if !ok {
		return f
	}
	f.Fix = Fixes(h, row.Fixes)
	return f
}

// Fixes puts the fixes for the place that h is first and leaves away those for a place that it is not.
func Fixes(h *topo.Host, all []fault.Fix) []fault.Fix {
	rank := func(p fault.Place) int {
		switch {
		case p == fault.Kubernetes && h.Container.Pod:
			return 0
		case p == fault.Kubernetes:
			return -1
		case p == fault.Container && h.Container.Pod:
			return 1
		case p == fault.Container && h.Container.Kind != "":
			return 0
		case p == fault.Container:
			return -1
		}
		return 2
	}
	var out []fault.Fix
	for _, f := range all {
		if rank(f.Place) >= 0 {
			out = append(out, f)
		}
	}
	slices.SortStableFunc(out, func(a, b fault.Fix) int { return rank(a.Place) - rank(b.Place) })
	return out
}

// Ev is one piece of evidence.
func Ev(source, got, want string) []fault.Evidence {
	return []fault.Evidence{{Source: source, Got: got, Want: want}}
}

// IOMMU warns where the kernel translates device addresses.
func IOMMU(h *topo.Host) []fault.Finding {
	const src = "/sys/kernel/iommu_groups/*/type"
	var kinds []string
	for t, n := range h.IOMMU.Types {
		kinds = append(kinds, fmt.Sprintf("%d groups of type %s", n, t))
	}
	slices.Sort(kinds)
	switch t := h.IOMMU.Translates(); {
	case t == nil:
		got := "not readable"
		if len(kinds) > 0 {
			got = strings.Join(kinds, ", ")
		}
		return []fault.Finding{Finding(h, fault.PCIIOMMU, fault.Unknown, Ev(src, got, "identity, or no group"), "cannot tell whether the IOMMU translates")}
	case *t:
		return []fault.Finding{Finding(h, fault.PCIIOMMU, fault.Warn, Ev(src, strings.Join(kinds, ", "), "identity, or no group"),
			"the IOMMU translates: peer-to-peer traffic goes up to the root, and between GPUs it may carry wrong data")}
	}
	got := "no group"
	if len(kinds) > 0 {
		got = strings.Join(kinds, ", ")
	}
	return []fault.Finding{Finding(h, fault.PCIIOMMU, fault.OK, Ev(src, got, ""), "the IOMMU does not translate")}
}

// ACS looks at every bridge between the functions of each pair that meets below one root port. Pairs that meet only at the
// root complex are not concerned: their traffic goes there anyway.
func ACS(h *topo.Host, pairs [][2]string) []fault.Finding {
	var bad, blind []fault.Evidence
	seen := map[string]bool{}
	for _, p := range pairs {
		w := h.Distance(p[0], p[1])
		if w.Class != topo.PIX && w.Class != topo.PXB {
			continue
		}
		for _, bdf := range bridgesBetween(h, p[0], p[1]) {
			b := h.Function(bdf)
			if b == nil || seen[bdf] {
				continue
			}
			seen[bdf] = true
			src := "/sys/bus/pci/devices/" + bdf + "/config"
			switch {
			case b.ACS != nil && topo.ACSRedirects(*b.ACS):
				bad = append(bad, fault.Evidence{Source: src, Got: fmt.Sprintf("ACS control 0x%04x", *b.ACS), Want: "redirect bits clear"})
			case b.ACS == nil && !strings.Contains(b.ACSWhy, "no ACS capability"):
				blind = append(blind, fault.Evidence{Source: src, Got: b.ACSWhy, Want: "4096 bytes"})
			}
		}
	}
	switch {
	case len(bad) > 0:
		return []fault.Finding{Finding(h, fault.PCIACS, fault.Warn, Few(bad), "ACS redirects peer-to-peer traffic on %s", Plural(len(bad), "bridge"))}
	case len(blind) > 0:
		return []fault.Finding{Finding(h, fault.PCIACS, fault.Unknown, Few(blind), "cannot tell whether ACS redirects on %s: run again as root", Plural(len(blind), "bridge"))}
	case len(seen) > 0:
		return []fault.Finding{Finding(h, fault.PCIACS, fault.OK, nil, "no ACS redirection on %s", Plural(len(seen), "bridge"))}
	}
	return nil
}

// bridgesBetween lists the bridges of both branches below the bridge at which the two meet, and that one.
func bridgesBetween(h *topo.Host, a, b string) []string {
	da, db := h.Function(a), h.Function(b)
	if da == nil || db == nil {
		return nil
	}
	common := 0
	for common < len(da.Path) && common < len(db.Path) && da.Path[common] == db.Path[common] {
		common++
	}
	var out []string
	if common > 1 {
		out = append(out, da.Path[common-1])
	}
	for _, chain := range [][]string{da.Path[common:], db.Path[common:]} {
		if len(chain) > 1 {
			out = append(out, chain[:len(chain)-1]...)
		}
	}
	return out
}

// Width warns of functions that use fewer lanes than they have, and of upstream hops that are narrower than the function.
func Width(h *topo.Host, bdfs []string) []fault.Finding {
	var ev []fault.Evidence
	idle := 0
	seen := map[string]bool{}
	for _, bdf := range bdfs {
		d := h.Function(bdf)
		if d == nil {
			continue
		}
		for _, hop := range d.Path {
			u := h.Function(hop)
			if u == nil || seen[hop] {
				continue
			}
			seen[hop] = true
			if l := u.Link; l.WidthNow != nil && l.WidthMax != nil && *l.WidthNow < *l.WidthMax && u.BDF == bdf {
				ev = append(ev, fault.Evidence{Source: "/sys/bus/pci/devices/" + hop + "/current_link_width", Got: fmt.Sprintf("x%d", *l.WidthNow), Want: fmt.Sprintf("x%d", *l.WidthMax)})
			}
			if l := u.Link; u.BDF == bdf && l.SpeedNow != nil && l.SpeedMax != nil && *l.SpeedNow < *l.SpeedMax {
				idle++
			}
		}
	}
	var out []fault.Finding
	if len(ev) > 0 {
		out = append(out, Finding(h, fault.PCIWidth, fault.Warn, Few(ev), "%s fewer lanes than it could", Plural(len(ev), "device uses", "devices use")))
	}
	if idle > 0 {
		out = append(out, Finding(h, fault.PCISpeed, fault.OK, nil, "%s below the link's most now: an idle value, no fault by itself", Plural(idle, "link runs", "links run")))
	}
	return out
}

// Upstream warns of a bridge above a function whose link carries less than the function's own: the most of each, so that an idle link
// is not taken for a slow one.
func Upstream(h *topo.Host, bdfs []string) []fault.Finding {
	var ev []fault.Evidence
	seen := map[string]bool{}
	for _, bdf := range bdfs {
		d := h.Function(bdf)
		if d == nil {
			continue
		}
		own := most(d)
		for _, hop := range d.Path {
			u := h.Function(hop)
			if u == nil || hop == bdf || seen[hop] || own == nil {
				continue
			}
			if n := most(u); n != nil && n.BytesPS < own.BytesPS {
				seen[hop] = true
				ev = append(ev, fault.Evidence{Source: "/sys/bus/pci/devices/" + hop + "/max_link_{speed,width}", Got: fmt.Sprintf("Gen%d x%d, %.1f GB/s", n.Generation, n.Width, n.BytesPS/1e9),
					Want: fmt.Sprintf("Gen%d x%d, as %s below it", own.Generation, own.Width, bdf)})
			}
		}
	}
	if len(ev) == 0 {
		return nil
	}
	return []fault.Finding{Finding(h, fault.PCIUpstream, fault.Warn, Few(ev), "%s narrower than a device below", Plural(len(ev), "bridge is", "bridges are"))}
}

// most is what a function's link can do at most; nil where it does not tell.
func most(d *topo.PCIDevice) *topo.Hop {
	m := topo.PCIDevice{BDF: d.BDF, Link: topo.PCILink{SpeedMax: d.Link.SpeedMax, WidthNow: d.Link.WidthMax}}
	if m.Link.SpeedMax == nil || m.Link.WidthNow == nil || *m.Link.WidthNow < 1 {
		return nil
	}
	return m.Hop()
}

// steering says which transports a variable steers.
var steering = []struct {
	prefix string
	on     []string
}{
	{"UCX_TLS", []string{"rdma", "gpu", "tcp"}}, {"UCX_NET_DEVICES", []string{"rdma", "tcp"}}, {"UCX_", []string{"rdma"}},
	{"NCCL_IB_", []string{"rdma"}}, {"NCCL_NET", []string{"rdma", "tcp"}}, {"NCCL_P2P_", []string{"gpu"}}, {"NCCL_SOCKET_", []string{"tcp"}}, {"NCCL_DEBUG", nil}, {"NCCL_", []string{"rdma"}},
	{"MC_FORCE_TCP", []string{"rdma", "tcp"}}, {"MC_", []string{"rdma"}}, {"MOONCAKE_", []string{"rdma"}}, {"NIXL_LOG", nil}, {"NIXL_", []string{"rdma"}}, {"OMPI_MCA_btl", []string{"rdma", "tcp"}}, {"OMPI_MCA_pml", []string{"rdma"}}, {"OMPI_MCA_mtl", []string{"rdma"}},
	{"FI_", []string{"rdma"}}, {"NVSHMEM_", []string{"rdma"}}, {"IBV_", []string{"rdma"}}, {"RDMAV_", []string{"rdma"}}, {"MLX5_", []string{"rdma"}},
	{"GLOO_SOCKET_IFNAME", []string{"tcp"}}, {"CUDA_VISIBLE_DEVICES", []string{"gpu"}}, {"NVIDIA_VISIBLE_DEVICES", nil},
}

// Steering lists the variables that steer paths of a kind: "rdma", "gpu" or "tcp".
func Steering(h *topo.Host, kind string) []fault.Finding {
	var ev []fault.Evidence
	for _, v := range h.Env {
		for _, s := range steering {
			if strings.HasPrefix(v.Name, s.prefix) {
				if slices.Contains(s.on, kind) {
					ev = append(ev, fault.Evidence{Source: "environment", Got: v.Name + "=" + v.Value, Want: "unset, or set on purpose"})
				}
				break
			}
		}
	}
	if len(ev) == 0 {
		return nil
	}
	return []fault.Finding{Finding(h, fault.Steering, fault.Warn, ev, "%s which path libraries take", Plural(len(ev), "variable steers", "variables steer"))}
}

// Few keeps a page readable: the first four pieces of evidence, and how many are left out.
func Few(ev []fault.Evidence) []fault.Evidence {
	if len(ev) <= 4 {
		return ev
	}
	return append(slices.Clone(ev[:4]), fault.Evidence{Source: fmt.Sprintf("%d more", len(ev)-4), Got: "alike"})
}

// Plural is "1 bridge", "3 bridges"; a second form replaces the plain -s.
func Plural(n int, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return fmt.Sprintf("%d %s", n, many[0])
	}
	return fmt.Sprintf("%d %ss", n, one)
}
