package tcp

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/mem"
)

// Path reads back what the kernel gave the first data connection: addresses, device, congestion control, buffers, protocol.
func (e *endpoint) Path() transports.Path {
	p := transports.Path{Realm: transports.Software, Settings: map[string]string{}}
	if len(e.conns) == 0 {
		return p
	}
	fd := e.conns[0].fd
	var local, remote netip.AddrPort
	if sa, err := unix.Getsockname(fd); err == nil {
		local = fromSockaddr(sa)
	}
	if sa, err := unix.Getpeername(fd); err == nil {
		remote = fromSockaddr(sa)
	}
	p.Local, p.Remote = local.Addr().String(), remote.Addr().String()
	same := sameHost(remote.Addr())
	p.SameHost = &same
	if same {
		p.Evidence = append(p.Evidence, fmt.Sprintf("%s is an address of this host: the traffic loops inside the kernel", remote.Addr()))
	}
	p.Netdev = netdevOf(local.Addr())
	p.Virtual = true
	if p.Netdev != "" {
		device := "/sys/class/net/" + p.Netdev
		if _, err := os.Stat(device + "/device"); err == nil && !same {
			p.Virtual, p.Realm = false, transports.Hardware
			if mbit, ok := readInt(device + "/speed"); ok && mbit > 0 && !paravirtual(device) {
				p.Limit = &transports.Limit{BytesPerSecond: float64(mbit) * 1e6 / 8, Source: device + "/speed"}
			}
		} else if !same {
			p.Evidence = append(p.Evidence, device+"/device is absent: a virtual device without a line rate")
		}
		if mtu, ok := readInt(device + "/mtu"); ok {
			p.PathMTU = int(mtu)
		}
	}
	text := func(name string, level, option int) {
		if v, err := unix.GetsockoptString(fd, level, option); err == nil {
			p.Settings[name] = strings.TrimRight(v, "\x00")
		}
	}
	number := func(name string, level, option int) {
		if v, err := unix.GetsockoptInt(fd, level, option); err == nil {
			p.Settings[name] = strconv.Itoa(v)
		}
	}
	text("congestion_control", unix.IPPROTO_TCP, unix.TCP_CONGESTION)
	number("mss_bytes", unix.IPPROTO_TCP, unix.TCP_MAXSEG)
	number("sndbuf_got_bytes", unix.SOL_SOCKET, unix.SO_SNDBUF)
	number("rcvbuf_got_bytes", unix.SOL_SOCKET, unix.SO_RCVBUF)
	number("protocol", unix.SOL_SOCKET, unix.SO_PROTOCOL)
	if e.device != nil {
		p.GPUWay = transports.Staged
		e.device.describe(p.Settings)
		p.Evidence = append(p.Evidence, "device memory is copied through a ring of pinned host memory")
	}
	if double := mem.Double(e.region.Buffer()); double != "" {
		p.Realm = transports.Double
		p.Evidence = append(p.Evidence, "the memory's driver is a double: "+double)
	}
	p.Settings["zerocopy"] = strconv.FormatBool(e.t.settings.zerocopy)
	p.Warnings = append(p.Warnings, bufferWarning("sndbuf", e.t.settings.sndbuf, p.Settings), bufferWarning("rcvbuf", e.t.settings.rcvbuf, p.Settings))
	p.Warnings = nonEmpty(p.Warnings)
	if got := p.Settings["protocol"]; got == strconv.Itoa(unix.IPPROTO_TCP) {
		p.Evidence = append(p.Evidence, "SO_PROTOCOL is 6: plain TCP, not MPTCP")
	}
	return p
}

// bufferWarning records what was asked beside what was got. The kernel doubles the value for its own bookkeeping (socket(7)).
func bufferWarning(name string, asked int, settings map[string]string) string {
	if asked == 0 {
		return ""
	}
	settings[name+"_asked_bytes"] = strconv.Itoa(asked)
	if got, err := strconv.Atoi(settings[name+"_got_bytes"]); err == nil && got < 2*asked {
		return fmt.Sprintf("asked for a %s of %d bytes, got %d (net.core.%cmem_max)", name, asked, got/2, map[string]rune{"sndbuf": 'w', "rcvbuf": 'r'}[name])
	}
	return ""
}

func nonEmpty(all []string) []string {
	kept := all[:0]
	for _, s := range all {
		if s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

// sameHost says whether an address is one of this network namespace's own.
func sameHost(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	return netdevOf(a) != ""
}

// netdevOf is the interface that holds an address, or "".
func netdevOf(a netip.Addr) string {
	all, err := net.Interfaces()
	if err != nil {
		return ""
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, got := range addrs {
			if n, ok := got.(*net.IPNet); ok && n.IP.Equal(a.AsSlice()) {
				return i.Name
			}
		}
	}
	return ""
}

// paravirtual says whether a device is a virtual machine's, whose speed attribute is made up.
func paravirtual(device string) bool {
	driver, err := os.Readlink(device + "/device/driver")
	return err == nil && (strings.HasSuffix(driver, "virtio_net") || strings.HasSuffix(driver, "vmxnet3") || strings.HasSuffix(driver, "hv_netvsc") || strings.HasSuffix(driver, "xen_netfront"))
}

func readInt(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n, err == nil
}

// Counters sums tcp_info over the data connections: the kernel's own count of what was acknowledged and received.
func (e *endpoint) Counters() ([]transports.Counter, error) {
	var acked, received, retrans, rtt, cwnd, minRTT, delivery uint64
	for _, c := range e.conns {
		info, err := unix.GetsockoptTCPInfo(c.fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		if err != nil {
			return nil, fmt.Errorf("tcp_info of %s: %w", c.peer, err)
		}
		acked += info.Bytes_acked
		received += info.Bytes_received
		retrans += uint64(info.Total_retrans)
		rtt, cwnd = max(rtt, uint64(info.Rtt)), max(cwnd, uint64(info.Snd_cwnd))
		if minRTT == 0 || uint64(info.Min_rtt) < minRTT {
			minRTT = uint64(info.Min_rtt)
		}
		delivery += info.Delivery_rate
	}
	const source = "tcp_info"
	counters := []transports.Counter{
		{Name: "bytes_acked", Source: source, Unit: "bytes", Value: acked, Sent: true, BytesPerUnit: 1},
		{Name: "bytes_received", Source: source, Unit: "bytes", Value: received, Received: true, BytesPerUnit: 1},
		{Name: "retransmits", Source: source, Unit: "segments", Value: retrans, Loss: true},
		{Name: "rtt", Source: source, Unit: "microseconds", Value: rtt, Gauge: true},
		{Name: "min_rtt", Source: source, Unit: "microseconds", Value: minRTT, Gauge: true},
		{Name: "cwnd", Source: source, Unit: "segments", Value: cwnd, Gauge: true},
		{Name: "delivery_rate", Source: source, Unit: "bytes per second", Value: delivery, Gauge: true},
	}
	for i, c := range e.conns {
		if c.stage == nil {
			continue
		}
		for j, phase := range c.stage.counters() {
			if i == 0 {
				counters = append(counters, phase)
			} else {
				at := len(counters) - 3 + j
				counters[at].Value += phase.Value
			}
		}
	}
	return counters, nil
}
