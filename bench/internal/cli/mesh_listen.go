package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"hopbench/harness/control"
)

// listen opens the first rank's port: on loopback alone where all ranks are on this host, else on every address, since which of them
// the name in First stands for on another host is not this host's to know.
func (f *meshFlags) listen(ctx context.Context, me place) (net.Listener, error) {
	addr := f.listenAt
	if addr == "" {
		host, port, err := net.SplitHostPort(me.Address(f.port))
		if err != nil {
			return nil, usagef("--first %s: %v", me.First, err)
		}
		local, others := areHere(ctx, host)
		switch {
		case local == nil && len(others) > 0:
			return nil, exitError{1, fmt.Errorf("%v: the first rank is to be reached at %s (%s), and that is not this host: "+
				"start rank 0 there, or say with --listen where it listens", me.member, host, strings.Join(others, ", "))}
		case local != nil && *local:
			addr = net.JoinHostPort(host, port)
		default:
			addr = ":" + port
		}
	}
	l, err := control.Listen(ctx, addr)
	if err == nil {
		return l, nil
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, exitError{1, fmt.Errorf("%v: port %s is taken on this host: is another rank 0 here? --first-port chooses another one, for all ranks", me.member, addr)}
	}
	return nil, usagef("%v: listen on %s: %s", me.member, addr, listenCause(err))
}

// areHere says whether a host's name stands for addresses of this host: true where they are all loopback, false where one is another
// address of this host, nil where none is. A name that cannot be resolved is nil without addresses.
func areHere(ctx context.Context, host string) (loopback *bool, addresses []string) {
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(limited, "ip", host)
	if err != nil {
		return nil, nil
	}
	all := true
	here := false
	own := ownAddresses()
	for _, a := range found {
		a = a.Unmap().WithZone("")
		addresses = append(addresses, a.String())
		switch {
		case a.IsLoopback():
			here = true
		case slices.Contains(own, a):
			here, all = true, false
		}
	}
	if !here {
		return nil, addresses
	}
	// A name that stands for loopback by this host's own /etc/hosts stands for something else on other hosts.
	if _, err := netip.ParseAddr(host); err != nil && host != "localhost" {
		all = false
	}
	return &all, addresses
}

func ownAddresses() []netip.Addr {
	var own []netip.Addr
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			own = append(own, p.Addr().Unmap().WithZone(""))
		}
	}
	return own
}
