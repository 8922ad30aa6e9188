package tcp

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tick is the longest that a blocking call of a loop waits before it looks at the stop word.
const tick = 10 * time.Millisecond

// Raw system calls: the Go scheduler is not told, which is what makes the loops fast. Each call below returns within tick or is
// non-blocking.

func sendmsg(fd int, m *unix.Msghdr, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), uintptr(flags))
	return int(n), e
}

func recvmsg(fd int, m *unix.Msghdr, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(m)), uintptr(flags))
	return int(n), e
}

func send(fd int, p []byte, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&p[0])), uintptr(len(p)), uintptr(flags), 0, 0)
	return int(n), e
}

func recv(fd int, p *unix.Iovec, flags int) (int, unix.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(p.Base)), uintptr(p.Len), uintptr(flags), 0, 0)
	return int(n), e
}

// readable waits until the socket's low-water mark is reached, an end or error is pending, or ms milliseconds have passed.
func readable(fd, ms int) bool {
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	ts := unix.NsecToTimespec(int64(ms) * 1e6)
	n, _, _ := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&ts)), 0, 0, 0) // arm64 has no poll
	return int(n) == 1
}

// yield lets another thread that waits for this CPU run; without one it returns at once.
func yield() { unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

func setInt(fd, level, option, value int) unix.Errno {
	v := int32(value)
	_, _, e := unix.RawSyscall6(unix.SYS_SETSOCKOPT, uintptr(fd), uintptr(level), uintptr(option), uintptr(unsafe.Pointer(&v)), 4, 0)
	return e
}

// sockaddr turns an address into what the system calls take.
func sockaddr(a netip.AddrPort) (int, unix.Sockaddr, error) {
	ip := a.Addr().Unmap()
	if ip.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}, nil
	}
	if !ip.Is6() {
		return 0, nil, fmt.Errorf("%q is no IP address", a)
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: ip.As16()}
	if zone := ip.Zone(); zone != "" {
		index, err := zoneIndex(zone)
		if err != nil {
			return 0, nil, err
		}
		sa.ZoneId = index
	}
	return unix.AF_INET6, sa, nil
}

func fromSockaddr(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		addr := netip.AddrFrom16(sa.Addr)
		if addr.IsLinkLocalUnicast() && sa.ZoneId != 0 {
			addr = addr.WithZone(fmt.Sprint(sa.ZoneId))
		}
		return netip.AddrPortFrom(addr.Unmap(), uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// newSocket makes a plain TCP socket: protocol IPPROTO_TCP, where Go's own listeners would be MPTCP since 1.24.
func newSocket(family int, s sockSettings) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_TCP)
	if err != nil {
		return -1, fmt.Errorf("socket: %w", err)
	}
	if err := s.apply(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func listen(a netip.AddrPort, backlog int, s sockSettings) (int, netip.AddrPort, error) {
	family, sa, err := sockaddr(a)
	if err != nil {
		return -1, a, err
	}
	fd, err := newSocket(family, s)
	if err != nil {
		return -1, a, err
	}
	fail := func(what string, err error) (int, netip.AddrPort, error) {
		unix.Close(fd)
		return -1, a, fmt.Errorf("%s %s: %w", what, a, err)
	}
	// The data port may be fixed by a flag, and an earlier run's connections may linger on it.
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return fail("SO_REUSEADDR on", err)
	}
	if family == unix.AF_INET6 {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0) // IPv4 peers of an unspecified address are welcome too
	}
	if err := unix.Bind(fd, sa); err != nil {
		return fail("bind", err)
	}
	if err := unix.Listen(fd, backlog); err != nil {
		return fail("listen on", err)
	}
	got, err := unix.Getsockname(fd)
	if err != nil {
		return fail("getsockname of", err)
	}
	return fd, fromSockaddr(got), nil
}

// dial connects within ctx's deadline, from the given local address where that is valid.
func dial(ctx context.Context, local netip.Addr, to netip.AddrPort, s sockSettings) (int, error) {
	family, sa, err := sockaddr(to)
	if err != nil {
		return -1, err
	}
	fd, err := newSocket(family, s)
	if err != nil {
		return -1, err
	}
	fail := func(err error) (int, error) {
		unix.Close(fd)
		return -1, err
	}
	if local.IsValid() && !local.IsUnspecified() && local.Unmap().Is4() == to.Addr().Unmap().Is4() {
		_, from, err := sockaddr(netip.AddrPortFrom(local, 0))
		if err != nil {
			return fail(err)
		}
		if err := unix.Bind(fd, from); err != nil {
			return fail(fmt.Errorf("bind %s: %w", local, err))
		}
	}
	err = unix.Connect(fd, sa)
	if errors.Is(err, unix.EINPROGRESS) {
		if err = waitFor(ctx, fd, unix.POLLOUT); err == nil {
			var code int
			if code, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR); err == nil && code != 0 {
				err = unix.Errno(code)
			}
		}
	}
	if err != nil {
		return fail(err)
	}
	return fd, nil
}

// waitFor polls a non-blocking socket until it is ready or ctx has ended.
func waitFor(ctx context.Context, fd int, events int16) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		p := []unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(p, 20)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n == 1 {
			return nil
		}
	}
}

// readFull and writeFull are for the few bytes that open a connection.
func readFull(ctx context.Context, fd int, p []byte) error {
	for len(p) > 0 {
		if err := waitFor(ctx, fd, unix.POLLIN); err != nil {
			return err
		}
		n, err := unix.Read(fd, p)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		case n == 0:
			return errors.New("the peer closed the connection")
		default:
			p = p[n:]
		}
	}
	return nil
}

func writeFull(ctx context.Context, fd int, p []byte) error {
	for len(p) > 0 {
		if err := waitFor(ctx, fd, unix.POLLOUT); err != nil {
			return err
		}
		n, err := unix.SendmsgN(fd, p, nil, nil, unix.MSG_NOSIGNAL)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		case err != nil:
			return err
		default:
			p = p[n:]
		}
	}
	return nil
}
