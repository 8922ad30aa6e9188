package control

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"hopbench/harness"
)

// Arrival is what came of a connection to the first rank's port.
type Arrival struct {
	Member Member // who it is; where Err is set, who it claims to be, and without a Host where it did not say
	Tool   string // the version of its hopbench
	From   netip.AddrPort
	Local  netip.Addr   // by which it reached this host
	Peer   harness.Peer // nil where Err is set
	Err    error        // a *fault.Error: not a hopbench, another version, another token, no answer
	end    func(ctx context.Context, reason string, failed bool) error
}

// Dismiss ends the member's session and tells it why, and whether its rank has failed. An empty reason is a plain end. Whoever does not
// answer before ctx ends finds its connection closed.
func (a Arrival) Dismiss(ctx context.Context, reason string, failed bool) error {
	if a.end == nil {
		return nil
	}
	return a.end(ctx, reason, failed)
}

// Meet is the first rank's door: it takes connections from a listener, which it closes, until ctx ends, and calls arrived for each,
// from several goroutines at once. Over each connection it is the client and the one that dialled is the server: a mesh has one port,
// and only its first rank need be reachable. It returns when every call of arrived has.
func Meet(ctx context.Context, l net.Listener, token Token, o DialOptions, arrived func(Arrival)) error {
	if !token.valid() {
		return fmt.Errorf("a mesh needs a token of at least %d bits", 8*minTokenBytes)
	}
	o = o.withDefaults()
	stop := context.AfterFunc(ctx, func() { l.Close() })
	defer stop()
	defer l.Close()
	slots := make(chan struct{}, maxHandshakes)
	var greeting sync.WaitGroup
	defer greeting.Wait()
	for {
		conn, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				conn.Close()
			}
			return nil
		}
		if err != nil {
			if temporary(err) {
				continue
			}
			return fmt.Errorf("the first rank's port: %w", err)
		}
		slots <- struct{}{}
		greeting.Go(func() {
			a := meet(ctx, conn, token, o)
			<-slots // whoever is slow to be greeted does not keep the next one waiting; what arrived does is its own matter
			arrived(a)
		})
	}
}

// temporary says whether the listener goes on after an error: one connection was broken off, or there are no descriptors for a while.
func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// meet greets one connection.
func meet(ctx context.Context, conn net.Conn, token Token, o DialOptions) Arrival {
	a := Arrival{From: addrPort(conn.RemoteAddr()), Local: addrPort(conn.LocalAddr()).Addr()}
	addr := a.From.String()
	creds := o.credentials(addr, token)
	creds.meets = true
	// The limit of greeting holds for gRPC's own beginning as well.
	limited, cancel := context.WithTimeout(ctx, o.Connect)
	defer cancel()
	c, err := begin(limited, addr, creds, o, func(context.Context) (net.Conn, error) { return conn, nil })
	a.Member, a.Tool = creds.introduced(), creds.greeted().tool
	if err != nil {
		conn.Close()
		if why := creds.failure(); why != nil {
			err = why
		}
		a.Err = err
		return a
	}
	c.addr = fmt.Sprintf("%v (%v)", a.Member, a.From)
	a.Peer, a.end = c, c.end
	return a
}

func addrPort(a net.Addr) netip.AddrPort {
	t, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.AddrPort{}
	}
	p := t.AddrPort()
	return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
}
