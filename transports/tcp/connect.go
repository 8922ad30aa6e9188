package tcp

import (
	"context"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports/fault"
)

// A data connection opens with a greeting of the active side (magic, nonce, stream, streams) and a reply of the passive one.
const (
	greeting    = "hopdata1"
	accepted    = "hopready"
	refused     = "hopwrong"
	nonceLen    = 32
	greetingLen = len(greeting) + nonceLen + 8
	// strangerLimit is how long a connection may take to greet.
	strangerLimit = 2 * time.Second
)

// announced is where the peer shall connect: the bound address, or every address of this host where all are bound; the
// host part replaced where the caller names another.
func announced(bound netip.AddrPort, name string) ([]string, error) {
	port := fmt.Sprint(bound.Port())
	if name != "" {
		return []string{net.JoinHostPort(strings.Trim(name, "[]"), port)}, nil
	}
	if !bound.Addr().IsUnspecified() {
		return []string{bound.String()}, nil
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var routable, loop []string
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLinkLocalUnicast() || (bound.Addr().Is4() && n.IP.To4() == nil) {
			continue
		}
		if at := net.JoinHostPort(n.IP.String(), port); n.IP.IsLoopback() {
			loop = append(loop, at)
		} else {
			routable = append(routable, at)
		}
	}
	return append(routable, loop...), nil
}

// accept takes n data connections that open with the nonce. Strangers are sent away and do not hold up the rest.
func accept(ctx context.Context, listener int, nonce []byte, n int, at []string) ([]int, error) {
	type arrival struct {
		fd, stream int
		err        error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	arrivals, ended := make(chan arrival), make(chan error, 1)
	go func() {
		defer close(arrivals)
		pending := make(chan struct{}, 64) // greetings under way
		for {
			if waitFor(ctx, listener, unix.POLLIN) != nil {
				break
			}
			fd, _, err := unix.Accept4(listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
			if err != nil {
				if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) { // it stays so, and the connection waits in the queue
					ended <- fmt.Errorf("accept: %w", err)
					break
				}
				continue
			}
			pending <- struct{}{}
			go func() {
				defer func() { <-pending }()
				stream, err := greeted(ctx, fd, nonce, n)
				select {
				case arrivals <- arrival{fd, stream, err}:
				case <-ctx.Done():
					unix.Close(fd)
				}
			}()
		}
		for range cap(pending) { // wait for the greetings under way
			pending <- struct{}{}
		}
	}()
	start := time.Now()
	fds := make([]int, n)
	for i := range fds {
		fds[i] = -1
	}
	var wrong error
	fail := func(err error) ([]int, error) {
		cancel()
		for a := range arrivals {
			unix.Close(a.fd)
		}
		for _, fd := range fds {
			if fd >= 0 {
				unix.Close(fd)
			}
		}
		return nil, err
	}
	for got := 0; got < n; {
		select {
		case <-ctx.Done():
			if wrong != nil {
				return fail(&fault.Error{Code: fault.TCPNonce, Op: "take data connections", Device: strings.Join(at, ", "), Err: wrong})
			}
			return fail(&fault.Error{Code: fault.TCPDataUnreachable, Op: "take data connections", Device: strings.Join(at, ", "),
				Err: fault.Because(fmt.Sprintf("%d of %d arrived within %.1f s", got, n, time.Since(start).Seconds()), ctx.Err())})
		case err := <-ended:
			return fail(fault.Sharper(&fault.Error{Code: fault.TCPUnavailable, Op: "take data connections", Device: strings.Join(at, ", "), Err: err}))
		case a := <-arrivals:
			if a.err == nil && fds[a.stream] >= 0 {
				a.err = fmt.Errorf("stream %d connected twice", a.stream)
			}
			if a.err != nil {
				wrong = a.err
				unix.Close(a.fd)
				continue
			}
			fds[a.stream] = a.fd
			got++
		}
	}
	cancel()
	for a := range arrivals {
		unix.Close(a.fd)
	}
	return fds, nil
}

// greeted reads and answers the greeting of one connection and returns its stream.
func greeted(ctx context.Context, fd int, nonce []byte, n int) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, strangerLimit)
	defer cancel()
	var b [greetingLen]byte
	if err := readFull(ctx, fd, b[:]); err != nil {
		return 0, fmt.Errorf("a connection did not greet: %w", err)
	}
	rest := b[len(greeting):]
	stream, streams := binary.LittleEndian.Uint32(rest[nonceLen:]), binary.LittleEndian.Uint32(rest[nonceLen+4:])
	switch {
	case string(b[:len(greeting)]) != greeting:
		return 0, errors.New("a connection opened with something else than hopbench's greeting")
	case subtle.ConstantTimeCompare(rest[:nonceLen], nonce) != 1:
		writeFull(ctx, fd, []byte(refused))
		return 0, errors.New("a connection opened with the wrong nonce")
	case streams != uint32(n) || stream >= uint32(n):
		return 0, fmt.Errorf("a connection is stream %d of %d; %d are expected", stream, streams, n)
	}
	return int(stream), writeFull(ctx, fd, []byte(accepted))
}

// dialAll makes n data connections to the first of the peer's addresses that answers.
func dialAll(ctx context.Context, peer address, n int, local netip.Addr, s sockSettings) ([]int, error) {
	if len(peer.Listen) == 0 || len(peer.Nonce) != nonceLen {
		return nil, fault.New(fault.TCPProtocol, "read the peer's data address", "", "it names %d addresses and a nonce of %d bytes", len(peer.Listen), len(peer.Nonce))
	}
	var last error
	for i, at := range peer.Listen {
		// Share what is left of the time among the addresses that are left, so that one that drops everything leaves time for the next.
		share := ctx
		if deadline, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			share, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(len(peer.Listen)-i))
			defer cancel()
		}
		fds, err := dialStreams(share, at, peer.Nonce, n, local, s)
		if err == nil {
			return fds, nil
		}
		last = err
		if code := fault.CodeOf(err); code == fault.TCPNonce || code == fault.OpenFiles || fault.ClassOf(err) == fault.Usage {
			break
		}
	}
	return nil, last
}

func dialStreams(ctx context.Context, at string, nonce []byte, n int, local netip.Addr, s sockSettings) (fds []int, err error) {
	defer func() {
		if err != nil {
			for _, fd := range fds {
				unix.Close(fd)
			}
			fds = nil
		}
	}()
	start := time.Now()
	to, err := resolve(ctx, at, local)
	if err != nil {
		return nil, &fault.Error{Code: fault.TCPDataUnreachable, Op: "connect the data socket", Device: at, Err: err}
	}
	for stream := range n {
		fd, err := dial(ctx, local, to, s)
		if err != nil {
			return fds, dialError(at, local, start, err)
		}
		fds = append(fds, fd)
		hello := append([]byte(greeting), nonce...)
		hello = binary.LittleEndian.AppendUint32(hello, uint32(stream))
		hello = binary.LittleEndian.AppendUint32(hello, uint32(n))
		var reply [len(accepted)]byte
		if err := writeFull(ctx, fd, hello); err != nil {
			return fds, dialError(at, local, start, err)
		}
		if err := readFull(ctx, fd, reply[:]); err != nil {
			return fds, dialError(at, local, start, fmt.Errorf("no answer to the greeting: %w", err))
		}
		switch string(reply[:]) {
		case accepted:
		case refused:
			return fds, fault.New(fault.TCPNonce, "connect the data socket", at, "the peer refused the nonce")
		default:
			return fds, fault.New(fault.TCPProtocol, "connect the data socket", at, "what answers there is not a hopbench data port")
		}
	}
	return fds, nil
}

func dialError(at string, local netip.Addr, start time.Time, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		err = fault.Because(fmt.Sprintf("no answer within %.1f s", time.Since(start).Seconds()), err)
	}
	e := &fault.Error{Code: fault.TCPDataUnreachable, Op: "connect the data socket", Device: at, Err: err}
	if local.IsValid() {
		e.Op += " from " + local.String()
	}
	var errno unix.Errno
	if errors.As(err, &errno) {
		e.Native = fmt.Sprintf("%s (%d)", unix.ErrnoName(errno), int(errno))
		switch errno {
		case unix.ECONNREFUSED:
			e.Code = fault.TCPDataRefused
		case unix.EADDRNOTAVAIL:
			e.Code = fault.TCPBind
		}
	}
	return fault.Sharper(e)
}

// resolve turns host:port into an address, of the local address's family where one is bound.
func resolve(ctx context.Context, at string, local netip.Addr) (netip.AddrPort, error) {
	if a, err := netip.ParseAddrPort(at); err == nil {
		return a, nil
	}
	host, port, err := net.SplitHostPort(at)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return netip.AddrPort{}, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	for _, ip := range ips {
		if !local.IsValid() || local.IsUnspecified() || ip.Unmap().Is4() == local.Unmap().Is4() {
			return netip.AddrPortFrom(ip.Unmap(), uint16(n)), nil
		}
	}
	return netip.AddrPort{}, fmt.Errorf("%s has no address of the family of %s", host, local)
}

// addressOf is the address of a network interface: IPv4 before IPv6, link-local last.
func addressOf(device string) (netip.Addr, error) {
	i, err := net.InterfaceByName(device)
	if err != nil {
		return netip.Addr{}, fault.Because(fmt.Sprintf("this host has no network interface %q", device), err)
	}
	addrs, err := i.Addrs()
	if err != nil {
		return netip.Addr{}, err
	}
	var best netip.Addr
	rank := func(a netip.Addr) int {
		switch {
		case !a.IsValid():
			return 3
		case a.IsLinkLocalUnicast():
			return 2
		case a.Is6():
			return 1
		}
		return 0
	}
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		addr, ok := netip.AddrFromSlice(n.IP)
		if addr = addr.Unmap(); ok && rank(addr) < rank(best) {
			if addr.IsLinkLocalUnicast() && addr.Is6() {
				addr = addr.WithZone(device)
			}
			best = addr
		}
	}
	if !best.IsValid() {
		return best, fmt.Errorf("interface %s has no address", device)
	}
	return best, nil
}
