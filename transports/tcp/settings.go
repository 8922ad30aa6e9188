package tcp

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
)

// The names of the driver's settings.
const (
	settingSndbuf     = "sndbuf"
	settingRcvbuf     = "rcvbuf"
	settingCongestion = "congestion"
	settingZerocopy   = "zerocopy"
	settingDataPort   = "data-port"
	settingChunk      = "staging-chunk"
	settingRing       = "staging-depth"
)

var settings = []transports.Setting{
	{Name: settingSndbuf, Usage: "send buffer of each data socket in bytes; 0 leaves it to the kernel", Default: "0", Check: checkBuffer},
	{Name: settingRcvbuf, Usage: "receive buffer of each data socket in bytes; 0 leaves it to the kernel", Default: "0", Check: checkBuffer},
	{Name: settingCongestion, Usage: "TCP congestion control of the data sockets (cubic, bbr, reno, ...); empty takes the kernel's default", Default: ""},
	{Name: settingZerocopy, Usage: "send with MSG_ZEROCOPY: true or false; pays on a real NIC only", Default: "false", Check: checkBool},
	{Name: settingDataPort, Usage: "port on which this side takes data connections; 0 lets the kernel choose", Default: "0", Check: checkPort},
	{Name: settingChunk, Usage: "bytes of a chunk between a GPU and the wire; 0 calibrates", Default: "0", Check: checkBuffer, GPUMemory: true},
	{Name: settingRing, Usage: "chunks of the ring between a GPU and the wire; 0 calibrates, 1 overlaps nothing", Default: "0", Check: checkRing, GPUMemory: true},
}

func checkBuffer(v string) error {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < 0 || n > 1<<30 {
		return fmt.Errorf("%q: want bytes from 0 to %d", v, 1<<30)
	}
	return nil
}

func checkBool(v string) error {
	if _, err := strconv.ParseBool(v); err != nil {
		return fmt.Errorf("%q: want true or false", v)
	}
	return nil
}

func checkPort(v string) error {
	if _, err := strconv.ParseUint(v, 10, 16); err != nil {
		return fmt.Errorf("%q: want a port from 0 to 65535", v)
	}
	return nil
}

func checkRing(v string) error {
	if n, err := strconv.ParseUint(v, 10, 16); err != nil || n > 1024 {
		return fmt.Errorf("%q: want chunks from 0 to 1024", v)
	}
	return nil
}

// sockSettings is what every data socket of a transport gets.
type sockSettings struct {
	sndbuf, rcvbuf int // 0 leaves it to the kernel
	congestion     string
	zerocopy       bool
	dataPort       uint16
	stagingChunk   int // 0 calibrates
	stagingDepth   int // 0 calibrates
}

func readSettings(o transports.Options) (sockSettings, error) {
	if err := transports.CheckSettings(settings, o.Settings); err != nil {
		return sockSettings{}, err
	}
	get := func(name string) string { return o.Get(settings, name) }
	var s sockSettings
	s.sndbuf, _ = strconv.Atoi(get(settingSndbuf))
	s.rcvbuf, _ = strconv.Atoi(get(settingRcvbuf))
	s.congestion = get(settingCongestion)
	s.zerocopy, _ = strconv.ParseBool(get(settingZerocopy))
	port, _ := strconv.ParseUint(get(settingDataPort), 10, 16)
	s.dataPort = uint16(port)
	s.stagingChunk, _ = strconv.Atoi(get(settingChunk))
	s.stagingDepth, _ = strconv.Atoi(get(settingRing))
	return s, nil
}

// apply sets the options before the socket connects or listens: buffers decide the window scale of the handshake.
func (s sockSettings) apply(fd int) error {
	set := func(what string, err error) error {
		if err != nil {
			return fmt.Errorf("set %s: %w", what, err)
		}
		return nil
	}
	if s.sndbuf > 0 {
		if err := set("SO_SNDBUF", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, s.sndbuf)); err != nil {
			return err
		}
	}
	if s.rcvbuf > 0 {
		if err := set("SO_RCVBUF", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, s.rcvbuf)); err != nil {
			return err
		}
	}
	if s.congestion != "" {
		if err := set("TCP_CONGESTION to "+s.congestion, unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, s.congestion)); err != nil {
			return &fault.Error{Code: fault.SettingInvalid, Op: "choose the congestion control", Err: fmt.Errorf("%w (this kernel has %s)", err, available())}
		}
	}
	if s.zerocopy {
		if err := set("SO_ZEROCOPY", unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ZEROCOPY, 1)); err != nil {
			return err
		}
	}
	return nil
}

// available lists the congestion controls that the kernel has loaded.
func available() string {
	text, err := os.ReadFile("/proc/sys/net/ipv4/tcp_available_congestion_control")
	if err != nil {
		return "an unknown set"
	}
	return strings.TrimSpace(string(text))
}

// forLoops makes a connected socket ready for loops: blocking with a limit of one tick, no delay of small segments.
func forLoops(fd int) error {
	if err := unix.SetNonblock(fd, false); err != nil {
		return err
	}
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return fmt.Errorf("set TCP_NODELAY: %w", err)
	}
	limit := unix.NsecToTimeval(int64(tick / time.Nanosecond))
	for _, option := range []int{unix.SO_RCVTIMEO, unix.SO_SNDTIMEO} {
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, option, &limit); err != nil {
			return fmt.Errorf("set a time limit: %w", err)
		}
	}
	return nil
}

// zoneIndex is the number of an IPv6 zone, given as a number or an interface's name.
func zoneIndex(zone string) (uint32, error) {
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n), nil
	}
	i, err := net.InterfaceByName(zone)
	if err != nil {
		return 0, fault.Because(fmt.Sprintf("zone %q is no network interface of this host", zone), err)
	}
	return uint32(i.Index), nil
}
