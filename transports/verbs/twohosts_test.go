package verbs

import (
	"bytes"
	"context"
	"encoding/gob"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// TestTwoHosts runs in two machines at once, the first with MTU 4200 and the second with 1500.
func TestTwoHosts(t *testing.T) {
	guest := os.Getenv("HOPBENCH_GUEST")
	if os.Getenv("HOPBENCH_TWO_HOSTS") == "" {
		t.Skip("one machine: scripts/test-verbs.sh boots two for this")
	}
	conn := dial(t, guest)
	defer conn.Close()
	send, receive := gob.NewEncoder(conn), gob.NewDecoder(conn)
	exchange := func(mine, theirs any) {
		t.Helper()
		if err := send.Encode(mine); err != nil {
			t.Fatal(err)
		}
		if err := receive.Decode(theirs); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tr, err := RoCE().Open(ctx, transports.Options{Device: "rxe0"})
	if err != nil {
		t.Fatal(err)
	}
	const size = 1 << 20
	b, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: size})
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Register(b)
	if err != nil {
		t.Fatal(err)
	}
	e, err := tr.NewEndpoint(transports.EndpointOptions{Region: r, Streams: 1, Depth: 16, Pieces: 1, Largest: size, Passive: guest == "0"})
	if err != nil {
		t.Fatal(err)
	}
	var peer transports.Remote
	exchange(transports.Remote{Address: e.Address(), RegionKey: r.Key(), RegionBytes: size}, &peer)
	if err := e.Connect(ctx, peer); err != nil {
		t.Fatal(err)
	}
	path := e.Path()
	if path.PathMTU != 1024 || path.SameHost == nil || *path.SameHost {
		t.Errorf("path MTU %d, same host %v", path.PathMTU, path.SameHost)
	}
	pattern := make([]byte, size)
	for i := range pattern {
		pattern[i] = byte(i*7 + i>>8)
	}
	for _, op := range transports.Ops() {
		source := "1"
		if op == transports.Read {
			source = "0"
		}
		if fill := make([]byte, size); guest == source {
			b.CopyIn(0, pattern)
		} else {
			b.CopyIn(0, fill)
		}
		var ready bool
		exchange(true, &ready)
		l := &transports.Loop{Op: op, Lists: []transports.List{list(100_000, 8, 1, size-64)}, Depth: 4, Count: 8}
		for i := range l.Lists[0].Pieces { // the same place on both sides, so that one pattern tells
			l.Lists[0].Pieces[i].Remote = l.Lists[0].Pieces[i].Local
		}
		if guest == "1" {
			err = e.Stream(l)
		} else {
			l.Stop = new(atomic.Uint32)
			err = e.Serve(l)
		}
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		got := make([]byte, size)
		b.CopyOut(0, got)
		for _, q := range l.Lists[0].Pieces {
			if !bytes.Equal(got[q.Local:q.Local+q.Length], pattern[q.Local:q.Local+q.Length]) {
				t.Errorf("%s: the bytes at %d are not those that were sent", op, q.Local)
			}
		}
		exchange(true, &ready)
	}
	lossy(t, guest, e, exchange)
	t.Logf("seen: path MTU %d; %s", path.PathMTU, strings.Join(path.Evidence, "; "))
}

// lossy loses 1 % of the first machine's packets, and then the target's whole link in the middle of a stream.
func lossy(t *testing.T, guest string, e transports.Endpoint, exchange func(mine, theirs any)) {
	var ready bool
	run := func(l *transports.Loop) error {
		if guest == "1" {
			return e.Stream(l)
		}
		l.Stop = new(atomic.Uint32)
		time.AfterFunc(8*time.Second, func() { l.Stop.Store(1) })
		return e.Serve(l)
	}
	before, _ := e.Counters()
	if guest == "1" {
		sh(t, "tc qdisc add dev eth0 root netem loss 1%")
	}
	exchange(true, &ready)
	l := &transports.Loop{Op: transports.Write, Lists: []transports.List{list(65536, 8, 1, 1<<20)}, Depth: 4, Count: 64}
	if err := run(l); err != nil {
		t.Fatalf("with 1 %% loss: %v", err)
	}
	if guest == "1" {
		sh(t, "tc qdisc del dev eth0 root")
	}
	old, grown := map[string]uint64{}, 0
	for _, c := range before {
		old[c.Name] = c.Value
	}
	after, err := e.Counters()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range after {
		if c.Loss && c.Value > old[c.Name] {
			t.Logf("seen: %s grew by %d", c.Name, c.Value-old[c.Name])
			grown++
		}
	}
	if guest == "1" && grown == 0 {
		t.Error("no counter tells of the loss")
	}
	exchange(true, &ready)
	if guest == "0" {
		time.AfterFunc(500*time.Millisecond, func() { exec.Command("ip", "link", "set", "eth0", "down").Run() })
	}
	l = &transports.Loop{Op: transports.Write, Lists: []transports.List{list(4096, 8, 1, 1<<20)}, Depth: 4, Deadline: transports.Now() + 60e9}
	start := time.Now()
	err = run(l)
	took := time.Since(start)
	if guest == "0" {
		return
	}
	wantCode(t, err, fault.VerbsRetries, "status 12", "had been confirmed")
	if took > 15*time.Second {
		t.Errorf("ended after %v", took)
	}
	t.Logf("seen: ended after %v: %v", took, err)
}

func dial(t *testing.T, guest string) net.Conn {
	t.Helper()
	if guest == "0" {
		l, err := net.Listen("tcp", "10.9.2.1:7001")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute))
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for range 120 {
		if c, err := net.DialTimeout("tcp", "10.9.2.1:7001", time.Second); err == nil {
			return c
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Fatal("the other machine does not answer")
	return nil
}
