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
	"roce_adp_retrans": {Unit: "events", Loss: true}, "roce_adp_retrans_to": {Unit: "events", Loss: true}, "roce_slow_restart": {Unit: "events", Loss: true},
	"duplicate_request": {Unit: "packets", Loss: true}, "req_cqe_error": {Unit: "events"}, "resp_cqe_error": {Unit: "events"},
	// rxe, from drivers/infiniband/sw/rxe/rxe_hw_counters.c
	"sent_pkts": {Unit: "packets"}, "rcvd_pkts": {Unit: "packets"}, "out_of_seq_request": {Unit: "packets", Loss: true},
	"rcvd_rnr_err": {Unit: "packets"}, "send_rnr_err": {Unit: "packets"}, "rcvd_seq_err": {Unit: "packets", Loss: true},
	"retry_exceeded_err": {Unit: "events", Loss: true}, "completer_retry_err": {Unit: "events", Loss: true}, "send_err": {Unit: "events", Loss: true},
	"ack_deffered": {Unit: "events"}, "retry_rnr_exceeded_err": {Unit: "events", Loss: true},
}

// Counters reads what the port counts: sysfs, and netlink for a device that has its counters only there.
func (e *endpoint) Counters() ([]transports.Counter, error) {
	base := fmt.Sprintf("/sys/class/infiniband/%s/ports/%d", e.t.device.Name, e.t.number)
	mtu := uint64(min(e.mine.MTU, max(e.peer.MTU, 256)))
	var out []transports.Counter
	out = append(out, readCounters(filepath.Join(base, "counters"), portCounters)...)
	proven := false
	for _, c := range out {
		proven = proven || c.Sent && c.Value > 0
	}
	if e.t.facts.Software || !proven {
		// A port that counts no bytes is proven by its packets: each carries at most the path MTU.
		for _, c := range e.packets(base) {
			switch c.Name {
			case "sent_pkts":
				c.Sent, c.BytesPerUnit = true, mtu
			case "rcvd_pkts":
				c.Received, c.BytesPerUnit = true, mtu
			}
			out = append(out, c)
		}
		if e.t.facts.Software {
			for i := range out { // rxe has files of port counters that stay 0
				if out[i].BytesPerUnit == 4 {
					out[i].Sent, out[i].Received = false, false
				}
			}
		}
	} else {
		out = append(out, readCounters(filepath.Join(base, "hw_counters"), hardwareCounters)...)
	}
	if netdev := e.local.netdev; netdev != "" {
		out = append(out, pauses(netdev)...)
	}
	sort.SliceStable(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out, nil
}

// packets are the hw_counters of the port, by netlink where sysfs has none.
func (e *endpoint) packets(base string) []transports.Counter {
	if out := readCounters(filepath.Join(base, "hw_counters"), hardwareCounters); len(out) > 0 {
		return out
	}
	link, err := netlink.RdmaLinkByName(e.t.device.Name)
	if err != nil {
		return nil
	}
	stat, err := netlink.RdmaPortStatisticList(link, uint32(e.t.number))
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

// pauses are the flow-control counters of the interface below, where its driver has them as files.
func pauses(netdev string) []transports.Counter {
	dir := filepath.Join("/sys/class/net", netdev, "statistics")
	return readCounters(dir, map[string]transports.Counter{"tx_dropped": {Unit: "packets", Loss: true}, "rx_dropped": {Unit: "packets", Loss: true}, "rx_missed_errors": {Unit: "packets", Loss: true}})
}
