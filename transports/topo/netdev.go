package topo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// virtualDrivers are network drivers of hypervisors: PCI functions without a line rate of their own.
var virtualDrivers = []string{"virtio_net", "virtio-net", "hv_netvsc", "vmxnet3", "xen-netfront", "xen_netfront", "e1000"}

// net reads every interface of this network namespace.
func (r *reader) net() []NetDev {
	var out []NetDev
	for _, n := range natural(r.list("sys/class/net")) {
		p := "sys/class/net/" + n
		real, err := r.t.Resolve(p)
		if err != nil {
			r.note(p, err)
			continue
		}
		if _, err := r.t.ReadDir(p); err != nil { // bonding_masters is a file
			continue
		}
		d := NetDev{Name: n, MTU: r.int(p + "/mtu"), State: r.text(p + "/operstate"), Type: r.int(p + "/type")}
		d.Virtual = strings.Contains(real, "devices/virtual/")
		d.BDF = lastBDF(real)
		d.Driver = r.base(p + "/device/driver")
		if slices.Contains(virtualDrivers, d.Driver) {
			d.Virtual = true
		}
		d.NUMA = r.numa(p + "/device/numa_node")
		// carrier answers EINVAL while the interface is down: an answer, no trouble.
		if s, err := r.quiet(p + "/carrier"); err == nil {
			up := s == "1"
			d.Carrier = &up
		}
		d.Master = r.base(p + "/master")
		for _, l := range r.list(p) {
			if low, ok := strings.CutPrefix(l, "lower_"); ok {
				d.Lower = append(d.Lower, low)
			}
		}
		if mode, ok := r.try(p + "/bonding/mode"); ok {
			d.Bond = &Bond{Mode: first(mode), Slaves: strings.Fields(r.text(p + "/bonding/slaves")), Active: r.text(p + "/bonding/active_slave")}
		}
		// speed answers EINVAL for loopback and for a port that is down, -1 for "not known", and 10000 for veth by convention.
		if s, err := r.quiet(p + "/speed"); err == nil {
			if v, err := strconv.ParseInt(s, 10, 64); err == nil && v > 0 && v < 1<<31-1 && (!d.Virtual || d.Bond != nil) {
				b := uint64(v) * 1e6
				d.BitsPS = &b
			} else if err != nil {
				r.note(p+"/speed", fmt.Errorf("not a number: %q", clip(s)))
			}
		}
		d.Flow = r.flow(n)
		out = append(out, d)
	}
	// VLAN and bond interfaces stand on others: without hardware below they are virtual, with it they are not.
	for i := range out {
		if out[i].Bond != nil || len(out[i].Lower) > 0 {
			out[i].Virtual = !onHardware(out, out[i].Name, 0)
		}
		if out[i].Virtual {
			out[i].BitsPS = nil
		}
	}
	return out
}

func onHardware(all []NetDev, name string, depth int) bool {
	i := slices.IndexFunc(all, func(d NetDev) bool { return d.Name == name })
	if i < 0 || depth > 8 {
		return false
	}
	d := all[i]
	low := d.Lower
	if d.Bond != nil {
		low = append(slices.Clone(low), d.Bond.Slaves...)
	}
	if len(low) == 0 {
		return !d.Virtual
	}
	return slices.ContainsFunc(low, func(l string) bool { return l != name && onHardware(all, l, depth+1) })
}

// flow reads what Mellanox's out-of-tree driver shows of PFC, trust and ECN below the interface. The in-tree driver tells
// it over netlink only, which [Host] gets on a running host.
func (r *reader) flow(n string) *Flow {
	p := "sys/class/net/" + n
	var f Flow
	if s, ok := r.try(p + "/qos/trust"); ok {
		f.Trust, f.Source = strings.ToLower(s), "/"+p+"/qos"
	}
	if s, ok := r.try(p + "/qos/pfc"); ok {
		f.PFC, f.Source = strings.Join(strings.Fields(s), ""), "/"+p+"/qos"
	}
	for i := range 8 {
		if s, ok := r.try(fmt.Sprintf("%s/ecn/roce_np/enable/%d", p, i)); ok {
			f.ECNKnown = true
			if s == "1" {
				f.ECN = append(f.ECN, i)
			}
			if f.Source == "" {
				f.Source = "/" + p + "/ecn"
			}
		}
	}
	if f.Source == "" {
		return r.dcb(n)
	}
	return &f
}

func first(s string) string {
	if f := strings.Fields(s); len(f) > 0 {
		return f[0]
	}
	return ""
}

func lastBDF(p string) string {
	bdf := ""
	for _, c := range strings.Split(p, "/") {
		if bdfShape.MatchString(c) {
			bdf = c
		}
	}
	return bdf
}

// tcp reads the system-wide settings of TCP. Some of them are not shown inside a container's network namespace.
func (r *reader) tcp() TCP {
	var t TCP
	u := func(p string) *uint64 {
		v := r.num(p)
		if v == nil || *v < 0 {
			return nil
		}
		b := uint64(*v)
		return &b
	}
	three := func(p string) []int64 {
		f := strings.Fields(r.text(p))
		if len(f) != 3 {
			return nil
		}
		var out []int64
		for _, s := range f {
			v, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				r.note(p, fmt.Errorf("not a number: %q", clip(s)))
				return nil
			}
			out = append(out, v)
		}
		return out
	}
	t.RMemMax, t.WMemMax = u("proc/sys/net/core/rmem_max"), u("proc/sys/net/core/wmem_max")
	t.RMem, t.WMem = three("proc/sys/net/ipv4/tcp_rmem"), three("proc/sys/net/ipv4/tcp_wmem")
	t.Congestion = r.text("proc/sys/net/ipv4/tcp_congestion_control")
	t.MTUProbing = r.int("proc/sys/net/ipv4/tcp_mtu_probing")
	t.ARPIgnore = r.int("proc/sys/net/ipv4/conf/all/arp_ignore")
	return t
}
