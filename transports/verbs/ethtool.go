package verbs

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"hopbench/transports"
)

// Commands and sets of SIOCETHTOOL, from include/uapi/linux/ethtool.h.
const (
	ethtoolStrings = 0x1b // ETHTOOL_GSTRINGS
	ethtoolStats   = 0x1d // ETHTOOL_GSTATS
	ethtoolSetInfo = 0x37 // ETHTOOL_GSSET_INFO
	setOfStats     = 1    // ETH_SS_STATS
	stringBytes    = 32   // ETH_GSTRING_LEN
	mostStats      = 1 << 16
)

// asks is SIOCETHTOOL: the kernel reads a command from the buffer and writes its answer into it.
type asks func(netdev string, buffer []byte) error

// askKernel asks this host's kernel. For names and values the kernel writes as many as the driver has by now, whatever number it was told: the buffer
// ends at a page that nobody may write, so that more of them is an error instead of somebody else's memory.
func askKernel(netdev string, buffer []byte) error {
	page := os.Getpagesize()
	room := (len(buffer) + page - 1) / page * page
	area, err := unix.Mmap(-1, 0, room+page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	defer unix.Munmap(area)
	if err := unix.Mprotect(area[room:], unix.PROT_NONE); err != nil {
		return err
	}
	guarded := area[room-len(buffer) : room]
	copy(guarded, buffer)
	if err := askInto(netdev, guarded); err != nil {
		return err
	}
	copy(buffer, guarded)
	return nil
}

func askInto(netdev string, buffer []byte) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var request struct { // struct ifreq: a name and a pointer, in 40 bytes
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	if len(netdev) >= len(request.name) {
		return unix.ENODEV
	}
	copy(request.name[:], netdev)
	request.data = unsafe.Pointer(&buffer[0])
	if _, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); e != 0 {
		return e
	}
	return nil
}

// flowControl are the counters of an interface's driver that tell of flow control and congestion, as `ethtool -S` shows them: names and
// where each stands among the driver's. They are asked for once, since a driver may have thousands.
type flowControl struct {
	ask    asks
	netdev string
	all    int
	wanted []place
}

type place struct {
	at      int
	counter transports.Counter
}

// newFlowControl finds the counters; an interface without any, or that cannot be asked, has none and is no error.
func newFlowControl(ask asks, netdev string) (*flowControl, error) {
	f := &flowControl{ask: ask, netdev: netdev}
	order := binary.NativeEndian
	info := make([]byte, 16+4)
	order.PutUint32(info, ethtoolSetInfo)
	order.PutUint64(info[8:], 1<<setOfStats)
	if err := ask(netdev, info); err != nil {
		return f, absent(err)
	}
	if order.Uint64(info[8:])&(1<<setOfStats) == 0 {
		return f, nil
	}
	if f.all = int(order.Uint32(info[16:])); f.all == 0 {
		return f, nil
	}
	if f.all > mostStats {
		return f, fmt.Errorf("%s says that it has %d counters", netdev, f.all)
	}
	names := make([]byte, 12+f.all*stringBytes)
	order.PutUint32(names, ethtoolStrings)
	order.PutUint32(names[4:], setOfStats)
	order.PutUint32(names[8:], uint32(f.all))
	if err := ask(netdev, names); err != nil {
		return f, absent(err)
	}
	for i := range min(f.all, int(order.Uint32(names[8:]))) {
		text := names[12+i*stringBytes:][:stringBytes]
		name, _, _ := bytes.Cut(text, []byte{0})
		if c, ok := flowCounter(string(name)); ok {
			c.Source = "ethtool -S " + netdev
			f.wanted = append(f.wanted, place{i, c})
		}
	}
	return f, nil
}

// read is the counters now.
func (f *flowControl) read() []transports.Counter {
	if len(f.wanted) == 0 {
		return nil
	}
	order := binary.NativeEndian
	values := make([]byte, 8+8*f.all)
	order.PutUint32(values, ethtoolStats)
	order.PutUint32(values[4:], uint32(f.all))
	if f.ask(f.netdev, values) != nil || int(order.Uint32(values[4:])) != f.all {
		return nil // the driver was given other queues meanwhile: its places mean something else
	}
	var out []transports.Counter
	for _, w := range f.wanted {
		w.counter.Value = order.Uint64(values[8+8*w.at:])
		out = append(out, w.counter)
	}
	return out
}

// absent turns the answers of an interface without such counters into none.
func absent(err error) error {
	for _, none := range []error{unix.EOPNOTSUPP, unix.EINVAL, unix.ENODEV, unix.ENOTTY} {
		if errors.Is(err, none) {
			return nil
		}
	}
	return err
}

// flowCounter says whether a driver's counter tells of flow control, of congestion marks or of what was dropped for want of either, and
// what it counts. Drivers choose their names themselves: mlx5 has rx_prio3_pause, rx_prio3_pause_duration (in microseconds),
// rx_ecn_mark and rx_discards_phy (Documentation/networking/device_drivers/ethernet/mellanox/mlx5/counters.rst), ice
// rx_priority_3_xoff.nic, bnxt_en rx_pfc_ena_frames_pri3, hns3 mac_rx_pfc_pri3_pkt_num.
func flowCounter(name string) (transports.Counter, bool) {
	c := transports.Counter{Name: name, Unit: "packets"}
	has := func(words ...string) bool {
		for _, w := range words {
			if strings.Contains(name, w) {
				return true
			}
		}
		return false
	}
	switch {
	case has("xdp", "xsk"):
		return c, false
	case has("discards_phy", "_buf_discard", "prio_discard") || strings.Contains(name, "_prio") && strings.HasSuffix(name, "_discards"):
		c.Loss = true
	case has("pause", "pfc", "xoff"):
		switch {
		case strings.HasSuffix(name, "_duration"), strings.HasSuffix(name, "_duration_us"):
			c.Unit = "microseconds"
		case strings.HasSuffix(name, "_transition"), has("watchdog", "storm"):
			c.Unit = "events"
		}
	case has("ecn_mark", "_cnp"):
	default:
		return c, false
	}
	return c, true
}
