package staging_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/internal/staging"
)

// engineRate is how fast each of the three phases goes in the benchmark, in bytes a second: slow enough that moving the bytes does
// not compete for the machine's processors. HOPBENCH_STAGING_RATE sets another.
func engineRate() float64 {
	if s := os.Getenv("HOPBENCH_STAGING_RATE"); s != "" {
		if r, err := strconv.ParseFloat(s, 64); err == nil && r > 0 {
			return r
		}
	}
	return 400e6
}

// BenchmarkOverlap stages 64 MiB from one GPU to another over a wire, each phase at the same set rate, and reports the share of the
// slowest phase's own rate (measured alone, the same way) that the whole transfer reaches. With a ring of one chunk nothing overlaps.
//
//	go test -run '^$' -bench Overlap -benchtime 5x ./transports/internal/staging
func BenchmarkOverlap(b *testing.B) {
	const transfer = 64 << 20
	rate := engineRate()
	for _, depth := range []int{1, 2, 4} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			set := strconv.FormatFloat(rate, 'f', -1, 64)
			lib := cudatest.Load(b, "FAKECUDA_H2D_BYTES_PER_SECOND", set, "FAKECUDA_D2H_BYTES_PER_SECOND", set)
			config := staging.Config{ChunkBytes: 512 << 10, Depth: depth}
			w, err := newWire(rate)
			if err != nil {
				b.Fatal(err)
			}
			defer w.close()
			slowest, err := alone(lib, w, transfer, config)
			if err != nil {
				b.Fatal(err)
			}
			var all staging.Phases
			b.SetBytes(transfer)
			for b.Loop() {
				p, err := staged(lib, w, transfer, config)
				if err != nil {
					b.Fatal(err)
				}
				all.Total += p.Total
				all.DeviceToHost, all.Wire, all.HostToDevice = all.DeviceToHost+p.DeviceToHost, all.Wire+p.Wire, all.HostToDevice+p.HostToDevice
			}
			n := float64(b.N)
			b.ReportMetric(100*slowest*n/all.Total, "%-of-slowest")
			b.ReportMetric(1e3*all.DeviceToHost/n, "d2h-ms")
			b.ReportMetric(1e3*all.Wire/n, "wire-ms")
			b.ReportMetric(1e3*all.HostToDevice/n, "h2d-ms")
			b.ReportMetric(1e3*all.Total/n, "total-ms")
			b.ReportMetric(1e3*slowest, "slowest-alone-ms")
		})
	}
}

// wire is a TCP connection over loopback that the kernel paces, with buffers too small to hide a phase in. As in a transport, the
// receiver confirms at the end.
type wire struct {
	send, receive int
}

func newWire(rate float64) (*wire, error) {
	l, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(l)
	w := &wire{}
	if err := errors.Join(unix.SetsockoptInt(l, unix.SOL_SOCKET, unix.SO_RCVBUF, 128<<10),
		unix.Bind(l, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), unix.Listen(l, 1)); err != nil {
		return nil, err
	}
	at, err := unix.Getsockname(l)
	if err != nil {
		return nil, err
	}
	if w.send, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, err
	}
	const maxPacingRate = 47 // SO_MAX_PACING_RATE
	if err := errors.Join(unix.SetsockoptInt(w.send, unix.SOL_SOCKET, unix.SO_SNDBUF, 128<<10),
		unix.SetsockoptUint64(w.send, unix.SOL_SOCKET, maxPacingRate, uint64(rate)),
		unix.Connect(w.send, at)); err != nil {
		return nil, err
	}
	w.receive, _, err = unix.Accept(l)
	return w, err
}

func (w *wire) close() {
	unix.Close(w.send)
	unix.Close(w.receive)
}

func (w *wire) write(p []byte) error {
	for len(p) > 0 {
		n, err := unix.Write(w.send, p)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

func (w *wire) confirm() error {
	_, err := unix.Write(w.receive, []byte{1})
	return err
}

func (w *wire) confirmed() error {
	_, err := unix.Read(w.send, make([]byte, 1))
	return err
}

var bench = staging.Patience{Spin: 20 * time.Microsecond, Stall: 10 * time.Second}

// onDevice gives f a thread on a device, a buffer and a ring.
func onDevice(lib *cuda.Library, ordinal int, bytes uint64, c staging.Config, f func(th *cuda.Thread, p cuda.Pointer, r *staging.Ring) error) error {
	ctx, err := lib.Context(ordinal)
	if err != nil {
		return err
	}
	defer ctx.Close()
	return ctx.Do(func(th *cuda.Thread) error {
		p, err := th.Alloc(bytes)
		if err != nil {
			return err
		}
		r, err := staging.NewRing(th, c)
		if err != nil {
			return errors.Join(err, th.Free(p))
		}
		return errors.Join(f(th, p, r), r.Close(th), th.Free(p))
	})
}

// staged is one transfer from device 0 to device 1.
func staged(lib *cuda.Library, w *wire, bytes uint64, c staging.Config) (staging.Phases, error) {
	var sent, received staging.Phases
	var total float64
	ready := make(chan struct{})
	failed := make(chan error, 1)
	spans := []staging.Span{{Bytes: bytes}}
	go func() {
		failed <- onDevice(lib, 1, bytes, c, func(th *cuda.Thread, to cuda.Pointer, r *staging.Ring) error {
			s := r.Sink(th, to, bench)
			s.Begin(spans)
			close(ready)
			for {
				room, err := s.Space()
				if err != nil {
					return err
				}
				if len(room) == 0 {
					break
				}
				n, err := unix.Read(w.receive, room)
				if err == unix.EINTR {
					continue
				}
				if err == nil && n == 0 {
					err = errors.New("the wire was closed")
				}
				if err := errors.Join(err, s.Filled(max(n, 0))); err != nil {
					return err
				}
			}
			err := errors.Join(s.Flush(), w.confirm())
			received = s.Phases()
			return err
		})
	}()
	err := onDevice(lib, 0, bytes, c, func(th *cuda.Thread, from cuda.Pointer, r *staging.Ring) error {
		<-ready
		begun := time.Now()
		p := r.Pump(th, from, bench)
		if err := p.Push(spans); err != nil {
			return err
		}
		for p.Pending() > 0 {
			chunk, err := p.Next()
			if err != nil {
				return err
			}
			if err := errors.Join(w.write(chunk.Bytes), p.Release()); err != nil {
				return err
			}
		}
		err := w.confirmed()
		total = time.Since(begun).Seconds()
		sent = p.Phases()
		return err
	})
	err = errors.Join(err, <-failed)
	return staging.Join(sent, received, total), err
}

// alone is the longest of the three phases, each run by itself over the same bytes.
func alone(lib *cuda.Library, w *wire, bytes uint64, c staging.Config) (float64, error) {
	deep := staging.Config{ChunkBytes: c.ChunkBytes, Depth: 4}
	spans := []staging.Span{{Bytes: bytes}}
	slowest := 0.0
	timed := func(f func() error) error {
		begun := time.Now()
		err := f()
		slowest = max(slowest, time.Since(begun).Seconds())
		return err
	}
	err := onDevice(lib, 0, bytes, deep, func(th *cuda.Thread, p cuda.Pointer, r *staging.Ring) error {
		return errors.Join(
			timed(func() error { // device to host
				pump := r.Pump(th, p, bench)
				err := pump.Push(spans)
				for err == nil && pump.Pending() > 0 {
					if _, err = pump.Next(); err == nil {
						err = pump.Release()
					}
				}
				return err
			}),
			timed(func() error { // host to device
				s := r.Sink(th, p, bench)
				s.Begin(spans)
				for {
					room, err := s.Space()
					if err != nil {
						return err
					}
					if len(room) == 0 {
						return s.Flush()
					}
					if err := s.Filled(len(room)); err != nil {
						return err
					}
				}
			}))
	})
	if err != nil {
		return 0, err
	}
	host := make([]byte, bytes)
	err = timed(func() error {
		failed := make(chan error, 1)
		go func() {
			into := make([]byte, c.ChunkBytes)
			for left := bytes; left > 0; {
				n, err := unix.Read(w.receive, into)
				if err == unix.EINTR {
					continue
				}
				if err != nil || n == 0 {
					failed <- errors.Join(err, errors.New("the wire was closed"))
					return
				}
				left -= uint64(n)
			}
			failed <- w.confirm()
		}()
		return errors.Join(w.write(host), w.confirmed(), <-failed)
	})
	return slowest, err
}
