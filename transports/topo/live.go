package topo

import (
	"encoding/binary"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// rdmaNetNS asks the kernel whether RDMA devices belong to one network namespace each ("exclusive") or are seen by all.
func (r *reader) rdmaNetNS() string {
	if !r.t.live {
		if v := r.t.Fact("rdma-netns"); len(v) > 0 {
			return v[0]
		}
		return ""
	}
	m, err := netlink.RdmaSystemGetNetnsMode()
	if err != nil {
		return "" // no RDMA subsystem, or a kernel without the question
	}
	return m
}

// kernelLog returns the lines about the NVIDIA modules that explain a refusal, where the log may be read (root, mostly).
func kernelLog() []string {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	var out []string
	buf := make([]byte, 8192)
	for range 100000 {
		n, err := unix.Read(fd, buf)
		if err == unix.EPIPE { // a line was overwritten while we read
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		_, msg, _ := strings.Cut(string(buf[:n]), ";")
		msg, _, _ = strings.Cut(msg, "\n")
		if strings.Contains(msg, "peermem") && (strings.Contains(msg, "disagrees") || strings.Contains(msg, "Unknown symbol")) || strings.Contains(msg, "API mismatch") {
			out = append(out, msg)
		}
	}
	return out
}

// Attributes of the kernel's data centre bridging interface, from include/uapi/linux/dcbnl.h.
const (
	dcbCmdIEEEGet  = 21
	dcbAttrIfname  = 1
	dcbAttrIEEE    = 13
	dcbIEEEPFC     = 2
	dcbIEEEAppTab  = 3
	dcbIEEEApp     = 1
	dcbSelectorDSC = 5 // IEEE_8021QAZ_APP_SEL_DSCP
)

// dcb asks the kernel for PFC and for whether the port maps DSCP to priorities.
func (r *reader) dcb(name string) *Flow {
	if !r.t.live {
		if v := r.t.Fact("flow"); len(v) > 0 { // "flow eth0 trust=dscp pfc=00010000 ecn=3"
			for _, line := range v {
				if f := strings.Fields(line); len(f) > 1 && f[0] == name {
					return flowFact(f[1:])
				}
			}
		}
		return nil
	}
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	tv := unix.Timeval{Sec: 1}
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
	body := []byte{unix.AF_UNSPEC, dcbCmdIEEEGet, 0, 0}
	body = append(body, attr(dcbAttrIfname, append([]byte(name), 0))...)
	msg := make([]byte, 16, 16+len(body))
	binary.NativeEndian.PutUint32(msg[0:], uint32(16+len(body)))
	binary.NativeEndian.PutUint16(msg[4:], 78) // RTM_GETDCB
	binary.NativeEndian.PutUint16(msg[6:], unix.NLM_F_REQUEST)
	msg = append(msg, body...)
	if err := unix.Sendto(fd, msg, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil
	}
	buf := make([]byte, 16384)
	n, _, err := unix.Recvfrom(fd, buf, 0)
	if err != nil || n < 20 || binary.NativeEndian.Uint16(buf[4:]) == unix.NLMSG_ERROR {
		return nil // the driver has no such control, which is most drivers
	}
	return parseDCB(buf[20:n])
}

func attr(typ uint16, data []byte) []byte {
	b := make([]byte, (4+len(data)+3)&^3)
	binary.NativeEndian.PutUint16(b[0:], uint16(4+len(data)))
	binary.NativeEndian.PutUint16(b[2:], typ)
	copy(b[4:], data)
	return b
}

// attrs calls f for each attribute of a netlink payload.
func attrs(b []byte, f func(typ uint16, data []byte)) {
	for len(b) >= 4 {
		n := int(binary.NativeEndian.Uint16(b))
		if n < 4 || n > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&0x3fff, b[4:n])
		n = (n + 3) &^ 3
		if n > len(b) {
			return
		}
		b = b[n:]
	}
}

// parseDCB reads the attributes of an answer to DCB_CMD_IEEE_GET. Nil when they hold neither PFC nor a mapping.
func parseDCB(b []byte) *Flow {
	var f Flow
	attrs(b, func(t uint16, d []byte) {
		if t != dcbAttrIEEE {
			return
		}
		attrs(d, func(t uint16, d []byte) {
			switch t {
			case dcbIEEEPFC: // struct ieee_pfc: capacity, enabled mask, ...
				if len(d) < 2 {
					return
				}
				bits := make([]byte, 8)
				for i := range bits {
					bits[i] = '0' + d[1]>>i&1
				}
				f.PFC, f.Source = string(bits), "netlink (DCB)"
			case dcbIEEEAppTab:
				attrs(d, func(t uint16, d []byte) { // struct dcb_app: selector, priority, protocol
					if t == dcbIEEEApp && len(d) >= 4 && d[0] == dcbSelectorDSC {
						f.Trust, f.Source = "dscp", "netlink (DCB)"
					}
				})
			}
		})
	})
	if f.Source == "" {
		return nil
	}
	return &f
}

func flowFact(fields []string) *Flow {
	f := &Flow{Source: "netlink (DCB)"}
	for _, kv := range fields {
		k, v, _ := strings.Cut(kv, "=")
		switch k {
		case "trust":
			f.Trust = v
		case "pfc":
			f.PFC = v
		case "ecn":
			f.ECNKnown = true
			for _, c := range v {
				if c >= '0' && c <= '7' {
					f.ECN = append(f.ECN, int(c-'0'))
				}
			}
		}
	}
	return f
}
