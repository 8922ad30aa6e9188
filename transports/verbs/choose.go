package verbs

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/mem"
	"hopbench/transports/topo"
	"hopbench/transports/topo/rdmaport"
)

// chosen is an open device with the port that will carry data, and why.
type chosen struct {
	lib     *ibverbs.Library
	host    *topo.Host
	context *ibverbs.Context
	device  ibverbs.Device
	limits  ibverbs.Limits
	number  int // of the port
	port    ibverbs.Port
	facts   rdmaport.Port    // what /sys says of the port
	sys     *topo.RDMADevice // nil where /sys does not show the device
	gids    []slot           // usable slots, best first; one where it was forced
	why     []string
	pkey    uint16
}

// slot is one usable GID.
type slot struct {
	Index  int    `json:"index"`
	GID    string `json:"gid"`
	Type   string `json:"type"`
	Family string `json:"family"`
	why    string
	netdev string
}

// candidate is one port of one device that the library lists.
type candidate struct {
	device ibverbs.Device
	facts  rdmaport.Port
	known  bool // /sys shows it
	near   int  // distance from the memory, smaller is nearer
}

// choose opens the best port of this link layer: the named one, or by rule. Each port that was passed over has its reason.
func (d driver) choose(o transports.Options) (*chosen, error) {
	lib, err := load()
	if err != nil {
		return nil, err
	}
	host, err := facts(nil)
	if err != nil {
		return nil, err
	}
	list, err := devices(lib, host)
	if err != nil {
		return nil, err
	}
	if host, err = facts(list); err != nil {
		return nil, err
	}
	v := values{o}
	name, port := o.Device, 0
	if n, text, ok := strings.Cut(name, ":"); ok {
		if port, err = strconv.Atoi(text); err != nil || port < 1 {
			return nil, fault.New(fault.SettingInvalid, "choose an RDMA device", name, "want DEVICE or DEVICE:PORT")
		}
		name = n
	}
	if p, set := v.number("port"); set {
		port = p
	}
	all := candidates(list, host, o)
	var passed, others []string // others: those with another link layer
	var first error
	found := false
	for _, c := range all {
		if name != "" && c.device.Name != name || port != 0 && c.facts.Port != port {
			continue
		}
		found = true
		got, err := d.try(lib, host, c, v)
		if err == nil {
			if len(passed) > 0 {
				got.why = append(got.why, "passed over: "+strings.Join(passed, "; "))
			}
			return got, nil
		}
		passed = append(passed, err.Error())
		if fault.CodeOf(err) == fault.RDMALinkLayer {
			others = append(others, fmt.Sprintf("%s:%d (%s)", c.device.Name, c.facts.Port, cmp.Or(c.facts.LinkLayer, "Unknown")))
		}
		// The nearest to usable speaks for all: a wrong link layer is the weakest of reasons.
		if first == nil || fault.CodeOf(first) == fault.RDMALinkLayer {
			first = err
		}
	}
	if !found {
		var names []string
		for _, c := range all {
			names = append(names, fmt.Sprintf("%s:%d", c.device.Name, c.facts.Port))
		}
		return nil, fault.New(fault.RDMANoDevice, "choose an RDMA device", o.Device, "there is no such device or port; there is %s", strings.Join(names, ", "))
	}
	if len(others) > 1 && len(others) == len(passed) {
		return nil, fault.New(fault.RDMALinkLayer, "choose an RDMA device", "", "no port speaks %s; there is %s", d.text, strings.Join(others, ", "))
	}
	var e *fault.Error
	if errors.As(first, &e) && len(passed) > 1 {
		e.Detail = strings.Join(passed, "\n")
	}
	return nil, first
}

// candidates orders the ports: hardware before software, nearest to the memory, then as they are named.
func candidates(list []ibverbs.Device, host *topo.Host, o transports.Options) []candidate {
	assessed := map[string][]rdmaport.Port{}
	for _, p := range rdmaport.Assess(host) {
		assessed[p.Device] = append(assessed[p.Device], p)
	}
	near := map[string]int{}
	if o.Memory.Kind == mem.CUDA {
		for i, n := range host.Nearest(gpuAddress(host, o.Memory.Device)) {
			near[n.NIC.RDMA] = i - 1<<20
		}
	}
	var out []candidate
	for _, d := range list {
		ports := assessed[d.Name]
		if len(ports) == 0 {
			out = append(out, candidate{device: d, facts: rdmaport.Port{Device: d.Name, Port: 1}, near: near[d.Name]})
		}
		for _, p := range ports {
			out = append(out, candidate{device: d, facts: p, known: true, near: near[d.Name]})
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		soft := func(c candidate) int {
			if c.facts.Software {
				return 1
			}
			return 0
		}
		return cmp.Or(soft(a)-soft(b), a.near-b.near)
	})
	return out
}

// gpuAddress is the PCI address of a GPU that is named by index or UUID.
func gpuAddress(h *topo.Host, device string) string {
	n, err := strconv.Atoi(device)
	for i, g := range h.GPUs {
		if g.UUID == device || err == nil && i == n {
			return g.BDF
		}
	}
	return ""
}

// try opens one port, or says why it cannot carry this transport's data.
func (d driver) try(lib *ibverbs.Library, host *topo.Host, c candidate, v values) (*chosen, error) {
	at := where(c.device.Name, c.facts.Port)
	const op = "use"
	sys := host.Device(c.device.Name)
	switch {
	case sys != nil && sys.Driver == "efa":
		return nil, fault.New(fault.RDMAEFA, op, at, "driver efa offers no reliable connections (RC), which every operation here needs")
	case c.device.NodeType == 4 || c.device.Transport == 1:
		return nil, fault.New(fault.RDMAIWARP, op, at, "iWARP: its connections are made by a connection manager only, which this program does not use")
	case c.device.NodeType != 1:
		return nil, fault.New(fault.RDMANodeType, op, at, "node type %d is no channel adapter", c.device.NodeType)
	}
	open, err := lib.Open(c.device.Name)
	if err != nil {
		return nil, openError(err, at, c)
	}
	keep := false
	defer func() {
		if !keep {
			open.Close()
		}
	}()
	limits, err := open.Limits()
	if err != nil {
		return nil, &fault.Error{Code: fault.VerbsCall, Op: op, Device: at, Err: err}
	}
	port, err := open.Port(c.facts.Port)
	if err != nil {
		return nil, &fault.Error{Code: fault.RDMAUnreadable, Op: op, Device: at, Err: err}
	}
	if port.Link != d.link {
		return nil, fault.New(fault.RDMALinkLayer, op, at, "its link layer is %s, not %s", linkName(port.Link), d.text)
	}
	if port.State != ibverbs.PortActive {
		code := fault.RDMAPortDown
		if port.State == 2 && d.link == ibverbs.LinkInfiniBand {
			code = fault.RDMANoSM
		}
		return nil, fault.New(code, op, at, "the port is %s", stateName(port.State))
	}
	got := &chosen{lib: lib, host: host, context: open, device: c.device, limits: limits, number: c.facts.Port, port: port, facts: c.facts, sys: sys}
	if err := got.address(d, v); err != nil {
		return nil, err
	}
	if name := blueField(limits); name != "" {
		got.why = append(got.why, name)
	}
	index, _ := v.number("pkey-index")
	if got.pkey, err = open.PKey(c.facts.Port, index); err != nil {
		return nil, &fault.Error{Code: fault.SettingInvalid, Op: fmt.Sprintf("read partition key %d", index), Device: at, Err: err}
	}
	keep = true
	return got, nil
}

func openError(err error, at string, c candidate) error {
	e := &fault.Error{Code: fault.VerbsCall, Op: "open", Device: at, Native: native(err), Err: err}
	switch {
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ENODEV):
		e.Code, e.Hint = fault.RDMANoNode, "its node is "+c.device.Node
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		e.Code, e.Hint = fault.RDMANodeRefused, "its node is "+c.device.Node
	}
	return e
}

// address ranks the port's GIDs, or takes the forced one.
func (c *chosen) address(d driver, v values) error {
	at := where(c.device.Name, c.number)
	link := d.text
	var table topo.RDMAPort
	if c.sys != nil {
		for _, p := range c.sys.Ports {
			if p.Num == c.number {
				table = p
			}
		}
	}
	table.LinkLayer = link
	// The library's answer is of this moment; the facts of the host may be as old as the process.
	if fresh := c.libraryGIDs(); len(fresh) > 0 {
		table.GIDs = fresh
	}
	if index, set := v.number("gid-index"); set {
		for _, g := range table.GIDs {
			if g.Index == index {
				c.gids = []slot{newSlot(g, link, fmt.Sprintf("index %d: forced", index))}
				if g.Foreign {
					c.why = append(c.why, fmt.Sprintf("GID %d belongs to an interface of another network namespace", index))
				}
				return nil
			}
		}
		var used []string
		for _, g := range table.GIDs {
			used = append(used, fmt.Sprintf("%d (%s, %s)", g.Index, g.Short(), g.Type))
		}
		return fault.New(fault.RDMANoGID, "use GID index "+strconv.Itoa(index), at, "the slot is empty; in use are %s", strings.Join(used, ", "))
	}
	reason := ""
	for rest := table; ; {
		g, why := rest.ChooseGID()
		if reason == "" {
			reason = why
		}
		if g == nil {
			break
		}
		c.gids = append(c.gids, newSlot(*g, link, why))
		index := g.Index
		rest.GIDs = slices.DeleteFunc(slices.Clone(rest.GIDs), func(o topo.GID) bool { return o.Index == index })
	}
	// The address of the data path comes from the control channel where nobody gave one, so it is a preference: a GID that holds
	// it comes first. A demand is made with --device and --gid-index.
	if bind := v.o.Bind; bind.IsValid() && !bind.IsUnspecified() && !bind.IsLoopback() && d.link == ibverbs.LinkEthernet {
		holds := slices.IndexFunc(c.gids, func(s slot) bool { return s.addr() == bind.Unmap() })
		if holds > 0 {
			first := c.gids[holds]
			first.why += ", holds the address " + bind.String()
			c.gids = slices.Insert(slices.Delete(c.gids, holds, holds+1), 0, first)
		} else if holds < 0 {
			c.why = append(c.why, "no GID of the port holds the address "+bind.String())
		}
	}
	if len(c.gids) == 0 {
		return fault.New(fault.RDMANoGID, "choose a GID", at, "%s", reason)
	}
	return nil
}

func newSlot(g topo.GID, link, why string) slot {
	kind := g.Type
	if link == "InfiniBand" {
		kind = "InfiniBand"
	}
	return slot{Index: g.Index, GID: g.GID, Type: kind, Family: g.Family(link), why: why, netdev: g.NetDev}
}

func (s slot) addr() netip.Addr { return topo.GID{GID: s.GID}.Addr() }

// raw is the GID's bytes.
func (s slot) raw() (out [16]byte) {
	if a, err := netip.ParseAddr(s.GID); err == nil {
		out = a.As16()
	}
	return out
}

// libraryGIDs asks the library for the port's table, whole where it can.
func (c *chosen) libraryGIDs() []topo.GID {
	list, err := c.context.GIDs(c.number)
	if err != nil {
		for i := range min(c.port.GIDs, 1024) {
			if g, err := c.context.GID(c.number, i); err == nil {
				list = append(list, g)
			}
		}
	}
	var out []topo.GID
	for _, g := range list {
		if g.Raw == [16]byte{} {
			continue
		}
		e := topo.GID{Index: g.Index, GID: netip.AddrFrom16(g.Raw).StringExpanded(), Type: map[int]string{0: "IB/RoCE v1", 1: "IB/RoCE v1", 2: "RoCE v2"}[g.Type]}
		if g.Ifindex != 0 {
			if dev, err := net.InterfaceByIndex(int(g.Ifindex)); err == nil {
				e.NetDev = dev.Name
				e.Stale = e.Gone(prefixes(dev))
			} else {
				e.Foreign = true // the device is another network namespace's
			}
		}
		out = append(out, e)
	}
	return out
}

// prefixes are an interface's addresses at this moment; none where they cannot be read.
func prefixes(dev *net.Interface) (out []string) {
	list, err := dev.Addrs()
	if err != nil {
		return nil
	}
	for _, a := range list {
		out = append(out, a.String())
	}
	return out
}

// host is what was read of this host. Reading it takes seconds where a GID table has thousands of slots, so it is kept
// as long as it knows the devices.
var host struct {
	sync.Mutex
	facts *topo.Host
}

// facts reads this host, again only if a device of the list is new.
func facts(list []ibverbs.Device) (*topo.Host, error) {
	host.Lock()
	defer host.Unlock()
	fresh := host.facts != nil
	for _, d := range list {
		fresh = fresh && host.facts.Device(d.Name) != nil
	}
	if fresh {
		return host.facts, nil
	}
	h, err := topo.Read("/", topo.Options{})
	if err != nil {
		return nil, &fault.Error{Code: fault.VerbsCall, Op: "read this host", Err: err}
	}
	host.facts = h
	return h, nil
}

func linkName(l int) string {
	switch l {
	case ibverbs.LinkInfiniBand:
		return "InfiniBand"
	case ibverbs.LinkEthernet:
		return "Ethernet"
	}
	return "Unknown"
}

func stateName(s int) string {
	names := []string{"NOP", "DOWN", "INIT", "ARMED", "ACTIVE", "ACTIVE_DEFER"}
	if s < 0 || s >= len(names) {
		return fmt.Sprintf("in state %d", s)
	}
	return names[s]
}
