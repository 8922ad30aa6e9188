package tcp

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/mem"
)

// fewFiles lets this process open n files more, until the test ends.
func fewFiles(t *testing.T, n int) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	var held []int
	for range n { // the numbers that are free now
		fd, err := unix.Dup(0)
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, fd)
	}
	next, err := unix.Dup(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range append(held, next) {
		unix.Close(fd)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(next), Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &was); err != nil {
			t.Error(err)
		}
	})
}

// starved holds an error to naming the limit on open files.
func starved(t *testing.T, err error) {
	t.Helper()
	if fault.CodeOf(err) != fault.OpenFiles || !strings.Contains(err.Error(), "ulimit -n") || !strings.Contains(err.Error(), "EMFILE (24)") {
		t.Errorf("the limit on open files is told as: %v", err)
	}
}

func TestNoMoreFiles(t *testing.T) {
	t.Run("probe", func(t *testing.T) {
		fewFiles(t, 0)
		starved(t, New().Probe(t.Context()))
	})
	t.Run("listen", func(t *testing.T) {
		tr, err := New().Open(t.Context(), transports.Options{Bind: loopbackAddr})
		if err != nil {
			t.Fatal(err)
		}
		b, err := mem.Allocate(mem.Spec{Kind: mem.Host, Bytes: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		r, err := tr.Register(b)
		if err != nil {
			t.Fatal(err)
		}
		fewFiles(t, 0)
		_, err = tr.NewEndpoint(transports.EndpointOptions{Region: r, Streams: 1, Depth: 1, Passive: true})
		starved(t, err)
	})
	t.Run("dial", func(t *testing.T) {
		target, initiator := side(t, true, nil), side(t, false, nil)
		fewFiles(t, 0)
		starved(t, initiator.Connect(t.Context(), remote(target.Address())))
	})
	t.Run("accept", func(t *testing.T) {
		target := side(t, true, nil)
		var a address
		if err := json.Unmarshal(target.Address(), &a); err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", a.Listen[0]) // stands in the listener's queue
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		fewFiles(t, 0)
		start := time.Now()
		starved(t, target.Connect(ctx, remote(nobody(t))))
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("it took %v to find out", took)
		}
	})
}

// nobody is the address of an active side, of which a passive one needs nothing.
func nobody(t *testing.T) []byte {
	t.Helper()
	b, err := json.Marshal(address{Nonce: make([]byte, nonceLen)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}
