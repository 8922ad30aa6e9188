package verbs

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"hopbench/transports"
)

// port is a tree of /sys with one mlx5 port that counts what it is given.
func port(t *testing.T, counters, hardware, statistics map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for dir, files := range map[string]map[string]string{
		"sys/class/infiniband/mlx5_0/ports/1/counters": counters, "sys/class/infiniband/mlx5_0/ports/1/hw_counters": hardware, "sys/class/net/ens1f0np0/statistics": statistics,
	} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, value := range files {
			if err := os.WriteFile(filepath.Join(root, dir, name), []byte(value+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// driver answers SIOCETHTOOL as a kernel does: the names and values of a driver's counters.
type fakeDriver struct {
	names  []string
	values []uint64
	refuse error
}

func (d *fakeDriver) ask(netdev string, b []byte) error {
	order := binary.NativeEndian
	switch {
	case d.refuse != nil:
		return d.refuse
	case netdev != "ens1f0np0":
		return unix.ENODEV
	}
	switch order.Uint32(b) {
	case ethtoolSetInfo:
		order.PutUint32(b[16:], uint32(len(d.names)))
	case ethtoolStrings:
		for i := range min(len(d.names), int(order.Uint32(b[8:]))) {
			copy(b[12+32*i:][:31], d.names[i])
		}
	case ethtoolStats:
		order.PutUint32(b[4:], uint32(len(d.values)))
		for i := range min(len(d.values), (len(b)-8)/8) {
			order.PutUint64(b[8+8*i:], d.values[i])
		}
	default:
		return unix.EOPNOTSUPP
	}
	return nil
}

func named(list []transports.Counter, name string) *transports.Counter {
	i := slices.IndexFunc(list, func(c transports.Counter) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// TestPausesAndMarksOfAHardwarePort reads what an mlx5 port and its driver count: bytes in units of four octets, congestion notifications,
// PFC pauses and ECN marks; what is not there stays absent.
func TestPausesAndMarksOfAHardwarePort(t *testing.T) {
	root := port(t, map[string]string{"port_xmit_data": "25000", "port_rcv_data": "12", "port_xmit_discards": "0", "port_xmit_wait": "7"},
		map[string]string{"np_ecn_marked_roce_packets": "41", "np_cnp_sent": "40", "rp_cnp_handled": "39", "out_of_sequence": "3", "lifespan": "10"},
		map[string]string{"rx_dropped": "0", "rx_missed_errors": "N/A"})
	d := &fakeDriver{names: []string{"rx_packets", "rx_prio3_pause", "rx_prio3_pause_duration", "tx_prio3_pause", "tx_prio3_pause_transition", "rx_ecn_mark",
		"rx_prio3_buf_discard", "rx0_xdp_tx_pause"}, values: []uint64{1e9, 11, 2200, 5, 4, 17, 2, 9}}
	flow, err := newFlowControl(d.ask, "ens1f0np0")
	if err != nil {
		t.Fatal(err)
	}
	got := witness{root: root, device: "mlx5_0", port: 1, netdev: "ens1f0np0", mtu: 4096, flow: []*flowControl{flow}}.read()
	for name, want := range map[string]transports.Counter{
		"port_xmit_data": {Value: 25000, Unit: "bytes", Sent: true, BytesPerUnit: 4}, "np_ecn_marked_roce_packets": {Value: 41, Unit: "packets"},
		"np_cnp_sent": {Value: 40, Unit: "packets"}, "out_of_sequence": {Value: 3, Unit: "packets", Loss: true},
		"rx_prio3_pause": {Value: 11, Unit: "packets"}, "rx_prio3_pause_duration": {Value: 2200, Unit: "microseconds"},
		"tx_prio3_pause_transition": {Value: 4, Unit: "events"}, "rx_ecn_mark": {Value: 17, Unit: "packets"},
		"rx_prio3_buf_discard": {Value: 2, Unit: "packets", Loss: true}, "rx_dropped": {Value: 0, Unit: "packets", Loss: true},
	} {
		c := named(got, name)
		if c == nil {
			t.Errorf("%s is missing", name)
			continue
		}
		if c.Source == "" {
			t.Errorf("%s does not say where it was read", name)
		}
		want.Name, want.Source = name, c.Source
		if *c != want {
			t.Errorf("%+v instead of %+v", *c, want)
		}
	}
	for _, name := range []string{"rx_packets", "rx0_xdp_tx_pause", "rx_missed_errors", "tx_dropped", "lifespan", "symbol_error", "tx_prio0_pause"} {
		if c := named(got, name); c != nil {
			t.Errorf("%+v: nobody counts that", *c)
		}
	}
	// A driver that was given other queues has other places: its figures are absent, not wrong.
	d.values = append(d.values, 1)
	if c := flow.read(); c != nil {
		t.Errorf("counters of places that have moved: %+v", c)
	}
}

func TestInterfaceWithoutFlowControl(t *testing.T) {
	for name, d := range map[string]*fakeDriver{"no counters": {}, "no such call": {refuse: unix.EOPNOTSUPP}, "gone": {refuse: unix.ENODEV}} {
		f, err := newFlowControl(d.ask, "ens1f0np0")
		if err != nil || f.read() != nil {
			t.Errorf("%s: %v, %v", name, f.read(), err)
		}
	}
	if _, err := newFlowControl((&fakeDriver{refuse: unix.EPERM}).ask, "ens1f0np0"); !errors.Is(err, unix.EPERM) {
		t.Errorf("a refusal is told: %v", err)
	}
	if _, err := newFlowControl(askKernel, "lo"); err != nil {
		t.Errorf("the kernel's loopback has no counters of a driver: %v", err)
	}
	if err := askKernel("a-name-longer-than-any", make([]byte, 20)); !errors.Is(err, unix.ENODEV) {
		t.Errorf("no interface has such a name: %v", err)
	}
}

// TestCarriers looks below a bond and a VLAN, whose own drivers count nothing.
func TestCarriers(t *testing.T) {
	root := t.TempDir()
	for _, d := range []string{"bond0/lower_ens1f0np0", "bond0/lower_ens1f1np1", "ens1f0np0"} {
		if err := os.MkdirAll(filepath.Join(root, "sys/class/net", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := carriers(root, "bond0"); !slices.Equal(got, []string{"ens1f0np0", "ens1f1np1"}) {
		t.Error(got)
	}
	if got := carriers(root, "ens1f0np0"); !slices.Equal(got, []string{"ens1f0np0"}) {
		t.Error(got)
	}
	if got := carriers(root, ""); got != nil {
		t.Error(got)
	}
}

// TestKernelAnswers asks a real driver in the guest: veth counts by queue, and knows no pauses.
func TestKernelAnswers(t *testing.T) {
	onRXE(t)
	f, err := newFlowControl(askKernel, "veth0")
	if err != nil || f.all == 0 {
		t.Fatalf("%d counters of veth0: %v", f.all, err)
	}
	if got := f.read(); got != nil {
		t.Errorf("veth has no flow control: %+v", got)
	}
	// A driver that has more counters by now than were asked for does not write past the buffer.
	few := make([]byte, 12)
	binary.NativeEndian.PutUint32(few, ethtoolStrings)
	binary.NativeEndian.PutUint32(few[4:], setOfStats)
	if err := askKernel("veth0", few); !errors.Is(err, unix.EFAULT) {
		t.Errorf("more names than there is room for: %v", err)
	}
}
