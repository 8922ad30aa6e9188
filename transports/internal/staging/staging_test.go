package staging_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/internal/staging"
)

const size = 1 << 20

var patience = staging.Patience{Spin: 20 * time.Microsecond, Stall: 10 * time.Second}

// stand is one device with two buffers, a ring for each way, and the first buffer's bytes.
type stand struct {
	th       *cuda.Thread
	from, to cuda.Pointer
	out, in  *staging.Ring
	want     []byte
	stream   cuda.Stream
	host     []byte
}

func on(t *testing.T, c staging.Config, f func(s *stand) error) {
	t.Helper()
	lib := cudatest.Load(t)
	ctx, err := lib.Context(0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	err = ctx.Do(func(th *cuda.Thread) (err error) {
		s := &stand{th: th, want: make([]byte, size)}
		s.from, _ = th.Alloc(size)
		s.to, _ = th.Alloc(size)
		s.host, _ = th.AllocHost(size)
		s.stream, err = th.NewStream()
		if err != nil {
			return err
		}
		if s.out, err = staging.NewRing(th, c); err != nil {
			return err
		}
		if s.in, err = staging.NewRing(th, c); err != nil {
			return err
		}
		for i := range s.want {
			s.want[i] = byte(i>>8) ^ byte(i*31)
		}
		copy(s.host, s.want)
		if err = errors.Join(th.ToDevice(s.from, s.host, s.stream), th.Set(s.to, 0xee, size, s.stream), th.Synchronize(s.stream)); err != nil {
			return err
		}
		return errors.Join(f(s), s.out.Close(th), s.in.Close(th), th.CloseStream(s.stream), th.FreeHost(s.host), th.Free(s.from), th.Free(s.to))
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *stand) got() ([]byte, error) {
	err := errors.Join(s.th.ToHost(s.host, s.to, s.stream), s.th.Synchronize(s.stream))
	return s.host, err
}

// TestScatteredSegmentsArriveWhole sends random lists through rings of several shapes, with chunks that cut pieces and pieces that share
// chunks, and the receiving side's spans unlike the sending side's.
func TestScatteredSegmentsArriveWhole(t *testing.T) {
	for _, c := range []staging.Config{{ChunkBytes: 4096, Depth: 1}, {ChunkBytes: 4096, Depth: 3}, {ChunkBytes: 1000, Depth: 2}, {ChunkBytes: size, Depth: 2}} {
		on(t, c, func(s *stand) error {
			rng := rand.New(rand.NewPCG(1, uint64(c.ChunkBytes)))
			p, k := s.out.Pump(s.th, s.from, patience), s.in.Sink(s.th, s.to, patience)
			expect := bytes.Repeat([]byte{0xee}, size)
			const segments, part = 40, size / 40
			pushed, ended := 0, 0
			for ended < segments {
				for ; pushed < segments && p.Pending() < 5; pushed++ {
					from, to := randomSpans(rng, pushed*part, part), randomSpans(rng, pushed*part, part)
					payload := []byte{}
					for _, x := range from {
						payload = append(payload, s.want[x.Offset:x.Offset+x.Bytes]...)
					}
					for _, x := range to {
						payload = payload[copy(expect[x.Offset:x.Offset+x.Bytes], payload):]
					}
					if err := p.Push(from); err != nil {
						return err
					}
					k.Begin(to)
				}
				chunk, err := p.Next()
				if err != nil {
					return err
				}
				if chunk.Segment != uint64(ended) {
					t.Fatalf("a chunk of segment %d where %d is due", chunk.Segment, ended)
				}
				for data := chunk.Bytes; len(data) > 0; {
					room, err := k.Space()
					if err != nil {
						return err
					}
					n := copy(room[:min(len(room), 1+rng.IntN(len(room)))], data)
					data = data[n:]
					if err := k.Filled(n); err != nil {
						return err
					}
				}
				if chunk.Last {
					ended++
				}
				if err := p.Release(); err != nil {
					return err
				}
				if done, err := k.Done(); err != nil || done > uint64(ended) {
					t.Errorf("%d segments landed of %d, %v", done, ended, err)
				}
			}
			if err := k.Flush(); err != nil {
				return err
			}
			if done, err := k.Done(); done != segments || err != nil {
				t.Errorf("%+v: %d segments landed, %v", c, done, err)
			}
			got, err := s.got()
			if !bytes.Equal(got, expect) {
				t.Errorf("%+v: the bytes differ", c)
			}
			if a, b := p.Phases(), k.Phases(); a.Bytes == 0 || a.Bytes != b.Bytes || a.DeviceToHost <= 0 || a.Wire <= 0 || b.HostToDevice <= 0 {
				t.Errorf("phases %+v and %+v", a, b)
			}
			return err
		})
	}
}

// randomSpans cuts [base, base+n) into pieces with half of the bytes left out, in random order.
func randomSpans(rng *rand.Rand, base, n int) []staging.Span {
	half := n / 2
	spans := []staging.Span{}
	for left := half; left > 0; {
		take := min(left, 1+rng.IntN(3000))
		spans = append(spans, staging.Span{Bytes: uint64(take)})
		left -= take
	}
	rng.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	gap, at := n-half, base
	for i := range spans {
		hole := rng.IntN(gap/len(spans) + 1)
		at += hole
		spans[i].Offset = uint64(at)
		at += int(spans[i].Bytes)
	}
	rng.Shuffle(len(spans), func(i, j int) { spans[i], spans[j] = spans[j], spans[i] })
	return spans
}

func TestSeveralChunksMayBeOnTheWire(t *testing.T) {
	on(t, staging.Config{ChunkBytes: 4096, Depth: 2}, func(s *stand) error {
		p := s.out.Pump(s.th, s.from, patience)
		if err := p.Push([]staging.Span{{Offset: 0, Bytes: 4096 * 3}}); err != nil {
			return err
		}
		a, err := p.Next()
		if err != nil {
			return err
		}
		b, err := p.Next()
		if err != nil {
			return err
		}
		if !p.Blocked() || !bytes.Equal(a.Bytes, s.want[:4096]) || !bytes.Equal(b.Bytes, s.want[4096:8192]) || a.Last {
			t.Error("two chunks are out, both whole, and a third has to wait")
		}
		if _, err := p.Next(); err == nil {
			t.Error("a chunk without memory was given")
		}
		if err := p.Release(); err != nil || p.Blocked() {
			t.Errorf("after a release: %v", err)
		}
		c, err := p.Next()
		if err != nil || !c.Last || !bytes.Equal(c.Bytes, s.want[8192:12288]) {
			t.Errorf("%v", err)
		}
		if err := errors.Join(p.Release(), p.Release()); err != nil || p.Pending() != 0 {
			t.Error(err)
		}
		if p.Release() == nil {
			t.Error("more was given back than was taken")
		}
		return nil
	})
}

// Small segments share the memory of the ring: its depth counts whole chunks.
func TestSmallSegmentsShareTheRing(t *testing.T) {
	on(t, staging.Config{ChunkBytes: 64 << 10, Depth: 2}, func(s *stand) error {
		p := s.out.Pump(s.th, s.from, patience)
		for i := range 40 {
			if err := p.Push([]staging.Span{{Offset: uint64(i * 100), Bytes: 100}}); err != nil {
				return err
			}
		}
		for i := range 40 {
			c, err := p.Next()
			if err != nil || !bytes.Equal(c.Bytes, s.want[i*100:i*100+100]) {
				t.Fatalf("segment %d: %v", i, err)
			}
		}
		for range 40 {
			if err := p.Release(); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestRingsThatAreNone(t *testing.T) {
	for _, c := range []staging.Config{{}, {ChunkBytes: 1}, {Depth: 1}, {ChunkBytes: -1, Depth: 1}, {ChunkBytes: 1 << 40, Depth: 1}, {ChunkBytes: 1 << 33, Depth: 4}} {
		if c.Check() == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestPhases(t *testing.T) {
	sender := staging.Phases{Bytes: 10, DeviceToHost: 2, Wire: 3}
	receiver := staging.Phases{Bytes: 10, HostToDevice: 1, Total: 1}
	for total, want := range map[float64]float64{6: 0, 4.5: 0.5, 3: 1, 2.9: 1, 7: 0} {
		p := staging.Join(sender, receiver, total)
		if p.Sum() != 6 || p.Slowest() != 3 || p.Hidden() == nil || *p.Hidden() != want {
			t.Errorf("total %v: %+v hides %v, want %v", total, p, *p.Hidden(), want)
		}
	}
	if staging.Join(staging.Phases{Wire: 3}, staging.Phases{}, 3).Hidden() != nil {
		t.Error("one phase has nothing to hide")
	}
}

func TestCalibrationRecordsWhatItTried(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_H2D_BYTES_PER_SECOND", "1e9", "FAKECUDA_D2H_BYTES_PER_SECOND", "1e9", "FAKECUDA_COPY_LATENCY_NS", "20000")
	ctx, err := lib.Context(0)
	if err != nil {
		t.Fatal(err)
	}
	defer ctx.Close()
	err = ctx.Do(func(th *cuda.Thread) error {
		cal, err := staging.Calibrate(th, 32<<20)
		if err != nil {
			return err
		}
		if cal.Config.Check() != nil || cal.Config.ChunkBytes > 512<<10 || len(cal.Trials) != 7 || cal.Chosen == "" {
			t.Errorf("%+v: a chunk is at most a 64th of the transfer", cal)
		}
		for _, trial := range cal.Trials {
			if trial.BytesPerSecond <= 0 || trial.BytesPerSecond > 1.05e9 {
				t.Errorf("%+v is faster than the engines", trial)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDeviceFailureComesBackFromTheRing(t *testing.T) {
	on(t, staging.Config{ChunkBytes: 4096, Depth: 2}, func(s *stand) error {
		t.Setenv("FAKECUDA_FAIL", "cuMemcpyDtoHAsync_v2:719:0:1")
		lib, err := cuda.Open(cudatest.Library(t)) // reads the injection
		if err != nil {
			return err
		}
		lib.Close()
		p := s.out.Pump(s.th, s.from, patience)
		var e *cuda.Error
		if err := p.Push([]staging.Span{{Bytes: 4096}}); !errors.As(err, &e) || e.Code != 719 {
			t.Errorf("got %v", err)
		}
		cudatest.Clear(t)
		return nil
	})
}
