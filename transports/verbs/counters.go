package verbs

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"hopbench/transports"
)

// portCounters are the counters of a port that prove a path or tell of trouble. Names are the kernel's; what is not here is left out.
var portCounters = map[string]transports.Counter{
	// The unit of these two is four octets: Documentation/ABI/stable/sysfs-class-infiniband.
	"port_xmit_data": {Unit: "bytes", Sent: true, BytesPerUnit: 4},
	"port_rcv_data":  {Unit: "bytes", Received: true, BytesPerUnit: 4},

	"port_xmit_packets": {Unit: "packets"}, "port_rcv_packets": {Unit: "packets"}, "port_xmit_wait": {Unit: "events"},
	"symbol_error": {Unit: "events", Loss: true}, "link_downed": {Unit: "events", Loss: true}, "port_rcv_errors": {Unit: "events", Loss: true},
	"port_xmit_discards": {Unit: "packets", Loss: true}, "local_link_integrity_errors": {Unit: "events", Loss: true}, "excessive_buffer_overrun_errors": {Unit: "events", Loss: true},
}

// hardwareCounters are those of hw_counters, of NICs and of rxe alike.
var hardwareCounters = map[string]transports.Counter{
	"np_cnp_sent": {Unit: "packets"}, "np_ecn_marked_roce_packets": {Unit: "packets"}, "rp_cnp_handled": {Unit: "packets"}, "rp_cnp_ignored": {Unit: "packets"},
	"out_of_sequence": {Unit: "packets", Loss: true}, "out_of_buffer": {Unit: "packets", Loss: true}, "packet_seq_err": {Unit: "events", Loss: true},
	"local_ack_timeout_err": {Unit: "events", Loss: true}, "implied_nak_seq_err": {Unit: "events", Loss: true}, "rnr_nak_retry_err": {Unit: "events"},
	"rx_write_requests": {Unit: "packets"}, "rx_read_requests": {Unit: "packets"}, "rx_icrc_encapsulated": {Unit: "packets", Loss: true},
	"roce_slow_restart_cnps": {Unit: "events"}, "roce_slow_restart_trans": {Unit: "events"},
	"roce_adp_retrans": {Unit: "events", Loss: true}, "roce_adp_retrans_to": {Unit: "events", Loss: true}, "roce_slow_restart": {Unit: "events", Loss: true},
	"duplicate_request": {Unit: "packets", Loss: true}, "req_cqe_error": {Unit: "events"}, "resp_cqe_error": {Unit: "events"},
	// rxe, from drivers/infiniband/sw/rxe/rxe_hw_counters.c
	"sent_pkts": {Unit: "packets"}, "rcvd_pkts": {Unit: "packets"}, "out_of_seq_request": {Unit: "packets", Loss: true},
	"rcvd_rnr_err": {Unit: "packets"}, "send_rnr_err": {Unit: "packets"}, "rcvd_seq_err": {Unit: "packets", Loss: true},
	"retry_exceeded_err": {Unit: "events", Loss: true}, "completer_retry_err": {Unit: "events", Loss: true}, "send_err": {Unit: "events", Loss: true},
	"ack_deffered": {Unit: "events"}, "retry_rnr_exceeded_err": {Unit: "events", Loss: true},
}

// Counters reads what the port counts: sysfs, netlink for a device that has its counters only there, and the driver of the interface below.
func (e *endpoint) Counters() ([]transports.Counter, error) {
	mtu := uint64(min(e.mine.MTU, max(e.peer.MTU, 256)))
	e.flowOnce.Do(func() {
		for _, netdev := range carriers("/", e.local.netdev) {
			if f, err := newFlowControl(askKernel, netdev); err == nil { // what cannot be asked is absent
				e.flow = append(e.flow, f)
			}
		}
	})
	w := witness{root: "/", device: e.t.device.Name, port: e.t.number, software: e.t.facts.Software, netdev: e.local.netdev, mtu: mtu, flow: e.flow}
	out := w.read()
	if e.stage != nil {
		out = append(out, e.phaseCounters()...)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// witness is whose counters are read, and where.
type witness struct {
	root     string // of /sys
	device   string
	port     int
	software bool
	netdev   string // below the port; empty for InfiniBand
	mtu      uint64 // most payload of one packet
	flow     []*flowControl
}

// read is the counters now. What a device does not count is absent.
func (w witness) read() []transports.Counter {
	base := filepath.Join(w.root, fmt.Sprintf("sys/class/infiniband/%s/ports/%d", w.device, w.port))
	var out []transports.Counter
	out = append(out, readCounters(filepath.Join(base, "counters"), portCounters)...)
	proven := false
	for _, c := range out {
		proven = proven || c.Sent && c.Value > 0
	}
	if w.software || !proven {
		// A port that counts no bytes is proven by its packets: each carries at most the path MTU.
		for _, c := range w.packets(base) {
			switch c.Name {
			case "sent_pkts":
				c.Sent, c.BytesPerUnit = true, w.mtu
			case "rcvd_pkts":
				c.Received, c.BytesPerUnit = true, w.mtu
			}
			out = append(out, c)
		}
		if w.software {
			for i := range out { // rxe has files of port counters that stay 0
				if out[i].BytesPerUnit == 4 {
					out[i].Sent, out[i].Received = false, false
				}
			}
		}
	} else {
		out = append(out, readCounters(filepath.Join(base, "hw_counters"), hardwareCounters)...)
	}
	if w.netdev != "" {
		out = append(out, w.drops()...)
	}
	for _, f := range w.flow {
		out = append(out, f.read()...)
	}
	return out
}

// carriers are the interfaces whose drivers count for one: those below a VLAN or a bond, else itself.
func carriers(root, netdev string) (out []string) {
	if netdev == "" {
		return nil
	}
	dir := filepath.Join(root, "sys/class/net", netdev)
	below, _ := filepath.Glob(filepath.Join(dir, "lower_*")) // the pattern is well formed
	for _, b := range below {
		out = append(out, strings.TrimPrefix(filepath.Base(b), "lower_"))
	}
	if len(out) == 0 {
		return []string{netdev}
	}
	return out
}

// packets are the hw_counters of the port, by netlink where sysfs has none.
func (w witness) packets(base string) []transports.Counter {
	if out := readCounters(filepath.Join(base, "hw_counters"), hardwareCounters); len(out) > 0 {
		return out
	}
	if w.root != "/" {
		return nil // a captured host has no netlink
	}
	link, err := netlink.RdmaLinkByName(w.device)
	if err != nil {
		return nil
	}
	stat, err := netlink.RdmaPortStatisticList(link, uint32(w.port))
	if err != nil {
		return nil
	}
	var out []transports.Counter
	for name, v := range stat.Statistics {
		if c, ok := hardwareCounters[name]; ok {
			c.Name, c.Value, c.Source = name, v, "netlink, RDMA_NLDEV_CMD_STAT_GET"
			out = append(out, c)
		}
	}
	return out
}

func readCounters(dir string, known map[string]transports.Counter) []transports.Counter {
	var out []transports.Counter
	for name, c := range known {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			continue // this device does not count it
		}
		v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil {
			continue
		}
		c.Name, c.Value, c.Source = name, v, dir
		out = append(out, c)
	}
	return out
}

// drops are what the interface below lost, as the kernel counts it for every driver.
func (w witness) drops() []transports.Counter {
	dir := filepath.Join(w.root, "sys/class/net", w.netdev, "statistics")
	return readCounters(dir, map[string]transports.Counter{"tx_dropped": {Unit: "packets", Loss: true}, "rx_dropped": {Unit: "packets", Loss: true}, "rx_missed_errors": {Unit: "packets", Loss: true}})
}
