package cudapeer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/mem"
)

func TestRefusalsAreWordsForAnOperator(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		code fault.Code
		want string
	}{
		{"one GPU", []string{"FAKECUDA_DEVICES", "1"}, fault.GPUOne, "NVLink to a GPU of another container cannot be measured from inside this one"},
		{"one visible of four", []string{"FAKECUDA_DEVICES", "4", "CUDA_VISIBLE_DEVICES", "2"}, fault.GPUOne, "1 GPU is visible in this process (Fake GPU (hopbench double) at 0000:30:00.0)"},
		{"MIG", []string{"FAKECUDA_MIG", "1"}, fault.GPUMIG, "is a MIG instance, and a process sees one instance"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cudatest.Load(t, c.env...)
			err := New(nil).Probe(context.Background())
			if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) || !fault.ClassOf(err).Waives() {
				t.Errorf("got %v", err)
			}
			if _, err := (pairer{newDriver(PeerName, nil)}).Pairs(t.Context()); fault.CodeOf(err) != c.code {
				t.Errorf("pairs: %v", err)
			}
			if err := NewCopy(nil).Probe(context.Background()); err != nil {
				t.Errorf("the copies of one GPU need no second: %v", err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Setenv("FAKECUDA_FAIL", "cuInit:802")
		for _, d := range []transports.Driver{New(nil), NewCopy(nil)} {
			if err := d.Probe(context.Background()); fault.CodeOf(err) != fault.GPUFabric {
				t.Errorf("%s: %v", d.Name(), err)
			}
		}
	})
}

// pair is two connected endpoints.
type pair struct {
	a, b   transports.Endpoint
	ba, bb mem.Buffer
	close  func()
}

// connect makes a pair whose loops have as long as a busy machine may need.
func connect(t *testing.T, d transports.Driver, local, remote mem.Spec, settings map[string]string) (*pair, error) {
	t.Helper()
	return connectWithin(t, 30, d, local, remote, settings)
}

// connectWithin is connect with the seconds after which a loop without progress ends.
func connectWithin(t *testing.T, stall float64, d transports.Driver, local, remote mem.Spec, settings map[string]string) (*pair, error) {
	t.Helper()
	var closers []func() error
	p := &pair{close: func() {
		for i := len(closers) - 1; i >= 0; i-- {
			if err := closers[i](); err != nil {
				t.Error(err)
			}
		}
		closers = nil
	}}
	side := func(s mem.Spec) (transports.Endpoint, transports.Region, mem.Buffer, error) {
		tr, err := d.Open(context.Background(), transports.Options{Settings: settings, Memory: s})
		if err != nil {
			return nil, nil, nil, err
		}
		closers = append(closers, tr.Close)
		b, err := mem.Allocate(s)
		if err != nil {
			return nil, nil, nil, err
		}
		closers = append(closers, b.Close)
		r, err := tr.Register(b)
		if err != nil {
			return nil, nil, nil, err
		}
		closers = append(closers, r.Close)
		e, err := tr.NewEndpoint(transports.EndpointOptions{Region: r, Streams: 1, Depth: 4, StallSeconds: stall})
		if err != nil {
			return nil, nil, nil, err
		}
		closers = append(closers, e.Close)
		return e, r, b, nil
	}
	var ra, rb transports.Region
	var err error
	if p.a, ra, p.ba, err = side(local); err == nil {
		p.b, rb, p.bb, err = side(remote)
	}
	if err == nil {
		err = errors.Join(p.a.Connect(context.Background(), transports.Remote{Address: p.b.Address(), RegionKey: rb.Key(), RegionBytes: p.bb.Len()}),
			p.b.Connect(context.Background(), transports.Remote{Address: p.a.Address(), RegionKey: ra.Key(), RegionBytes: p.ba.Len()}))
	}
	if err != nil {
		p.close()
		return nil, err
	}
	t.Cleanup(p.close)
	return p, nil
}

func on(device string, bytes uint64) mem.Spec {
	return mem.Spec{Kind: mem.CUDA, Device: device, Bytes: bytes}
}

// loop runs a loop against a serving peer.
func (p *pair) loop(l *transports.Loop, ping bool) error {
	stop := new(atomic.Uint32)
	served := make(chan error, 1)
	target := *l
	target.Stop, target.Stamps, target.Echo = stop, nil, ping
	go func() { served <- p.b.Serve(&target) }()
	var err error
	if ping {
		err = p.a.PingPong(l)
	} else {
		err = p.a.Stream(l)
	}
	stop.Store(1)
	return errors.Join(err, <-served)
}

func whole(bytes uint64) []transports.List {
	return []transports.List{{Pieces: []transports.Piece{{Length: bytes}}, Ends: []uint32{1}}}
}

func TestWrongPairsAreRefused(t *testing.T) {
	cudatest.Load(t)
	for _, c := range []struct {
		driver transports.Driver
		a, b   mem.Spec
		code   fault.Code
	}{
		{New(nil), on("0", 4096), on("0", 4096), fault.CUDASameGPU},
		{New(nil), on("0", 4096), mem.Spec{Kind: mem.Pinned, Bytes: 4096}, fault.MemoryKind},
		{New(nil), mem.Spec{Kind: mem.Host, Bytes: 4096}, on("0", 4096), fault.MemoryKind},
		{NewCopy(nil), on("0", 4096), on("1", 4096), fault.CUDATwoGPUs},
		{NewCopy(nil), mem.Spec{Kind: mem.Pinned, Bytes: 4096}, mem.Spec{Kind: mem.Pinned, Bytes: 4096}, fault.MemoryKind},
	} {
		if _, err := connect(t, c.driver, c.a, c.b, nil); fault.CodeOf(err) != c.code || !fault.ClassOf(err).Waives() {
			t.Errorf("%s, %s to %s: %v", c.driver.Name(), c.a.Name(), c.b.Name(), err)
		}
	}
	d := New(nil)
	for _, o := range []transports.Options{{Device: "7"}, {Settings: map[string]string{"peer-access": "yes"}}, {Settings: map[string]string{"color": "red"}}} {
		if _, err := d.Open(context.Background(), o); fault.ClassOf(err) != fault.Usage {
			t.Errorf("%+v: %v", o, err)
		}
	}
	tr, err := d.Open(context.Background(), transports.Options{Device: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	b, err := mem.Allocate(on("0", 4096))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := tr.Register(b); fault.CodeOf(err) != fault.CUDADevice {
		t.Errorf("a buffer on another GPU than the named one: %v", err)
	}
}

// TestEveryPair measures the matrix of four GPUs, one way, both ways and one source to all, at the rates that the double was told.
func TestEveryPair(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_DEVICES", "4", "FAKECUDA_P2P_BYTES_PER_SECOND", "4e8", "FAKECUDA_STAGED_BYTES_PER_SECOND", "1e8", "FAKECUDA_PEERS", "0-1,2-3,0>2")
	d := New(nil)
	const size = 1 << 20
	rate := func(run func(*transports.Loop) error) float64 {
		l := &transports.Loop{Op: transports.Write, Lists: whole(size), Depth: 2, Count: 4, Wait: transports.Block, Stamps: []transports.Stamps{{At: make([]int64, 8)}}}
		if err := run(l); err != nil {
			t.Error(err)
		}
		s := l.Stamps[0]
		return float64(s.Bytes) / (float64(s.At[s.N-1]-s.Start) / 1e9)
	}
	for i := range 4 {
		for j := range 4 {
			if i == j {
				continue
			}
			p, err := connect(t, d, on(fmt.Sprint(i), size), on(fmt.Sprint(j), size), nil)
			if err != nil {
				t.Fatal(err)
			}
			direct := i/2 == j/2 || (i == 0 && j == 2)
			most, name := 1e8, hostStaged
			if direct {
				most, name = 4e8, unproved
			}
			if got := p.a.Path().Name; got != name {
				t.Errorf("%d to %d is %q, want %q", i, j, got, name)
			}
			if l := transports.Label(d.Name(), p.a.Path(), p.b.Path()); strings.Contains(l, "nvlink") {
				t.Errorf("%d to %d is labelled %q", i, j, l)
			}
			if got := rate(func(l *transports.Loop) error { return p.loop(l, false) }); got > 1.02*most {
				t.Errorf("%d to %d at %.3g, faster than its link of %.3g", i, j, got, most)
			}
			p.close()
		}
	}
	// Both initiate, so neither serves: each waits for the other's leave until it gives up.
	both, err := connectWithin(t, 2, d, on("0", size), on("1", size), nil)
	if err != nil {
		t.Fatal(err)
	}
	there, back := make(chan float64, 1), make(chan float64, 1)
	begun := time.Now()
	go func() { there <- rate(both.a.Stream) }()
	go func() { back <- rate(both.b.Stream) }()
	for _, got := range []float64{<-there, <-back} {
		if got > 1.02*4e8 {
			t.Errorf("both ways at once: %.3g one way", got)
		}
	}
	t.Logf("both ways at once took %v; one way alone takes 10.5 ms at its link's rate", time.Since(begun))
}

func TestPeerAccessOffIsStaged(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_P2P_BYTES_PER_SECOND", "1e10", "FAKECUDA_STAGED_BYTES_PER_SECOND", "1e8")
	p, err := connect(t, New(nil), on("0", 1<<20), on("1", 1<<20), map[string]string{"peer-access": "off"})
	if err != nil {
		t.Fatal(err)
	}
	if path := p.a.Path(); path.Name != hostStaged || path.Settings["peer-access"] != "off" || path.GPUWay != transports.Staged {
		t.Errorf("%+v", path)
	}
	begun := time.Now()
	if err := p.loop(&transports.Loop{Op: transports.Write, Lists: whole(1 << 20), Depth: 1, Count: 1}, false); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < 10*time.Millisecond {
		t.Errorf("1 MiB at 100 MB/s through the host took %v", took)
	}
}

// Behind a translating IOMMU the driver allows access, copies succeed and bytes are lost. Only a look at the payload finds it.
func TestLostBytesAreFound(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_CORRUPT_P2P", "1")
	p, err := connect(t, New(nil), on("0", 4096), on("1", 4096), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte{0x5a}, 4096)
	if err := errors.Join(p.ba.CopyIn(0, want), p.loop(&transports.Loop{Op: transports.Write, Lists: whole(4096), Depth: 1, Count: 1}, false)); err != nil {
		t.Fatalf("the copies succeed: %v", err)
	}
	got := make([]byte, 4096)
	if err := p.bb.CopyOut(0, got); err != nil || bytes.Equal(got, want) {
		t.Errorf("the double lost nothing: %v", err)
	}
	row, _ := fault.Lookup(fault.PayloadMismatch)
	if !strings.Contains(row.Explain(), "first suspect is an IOMMU") {
		t.Error("the row of a mismatch does not name IOMMU translation first")
	}
}

func TestDeviceThatStallsEndsTheLoop(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_COPY_LATENCY_NS", "1e9")
	p, err := connectWithin(t, 0.3, New(nil), on("0", 4096), on("1", 4096), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, wait := range []transports.Wait{transports.Adaptive, transports.Spin} {
		err = p.loop(&transports.Loop{Op: transports.Write, Lists: whole(4096), Depth: 1, Count: 5, Wait: wait}, false)
		if fault.CodeOf(err) != fault.LoopStalled || !strings.Contains(err.Error(), "cuda:0") {
			t.Errorf("%s: got %v", wait, err)
		}
	}
	time.Sleep(2200 * time.Millisecond) // what was queued ends before memory is given back
}

func TestDeviceFailureIsNamed(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_FAIL_COPY", "719:8")
	p, err := connect(t, New(nil), on("0", 4096), on("1", 4096), nil)
	if err != nil {
		t.Fatal(err)
	}
	err = p.loop(&transports.Loop{Op: transports.Write, Lists: whole(4096), Depth: 2, Count: 100}, false)
	if fault.CodeOf(err) != fault.CUDACall || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED (719)") {
		t.Errorf("got %v", err)
	}
	cudatest.Clear(t)
}

func TestChecksOfTheCopyDriver(t *testing.T) {
	for _, c := range NewCopy(nil).Checks() {
		if c.Code == fault.GPUOne || c.Code == fault.GPUPeer {
			t.Errorf("one GPU is enough, and %s is asked", c.Code)
		}
	}
}

func TestExportIsShownByDoing(t *testing.T) {
	for _, c := range []struct{ env, value, want string }{
		{"FAKECUDA_DMABUF", "1", "granted (DMA-BUF over PCIe), 2097152 bytes of an allocation of 2097152"},
		{"FAKECUDA_DMABUF", "0", "refused: cuMemGetHandleForAddressRange: CUDA_ERROR_NOT_SUPPORTED (801)"},
		{"FAKECUDA_DRIVER", "12040", "granted (DMA-BUF), "},
	} {
		t.Run(c.want[:7]+c.value, func(t *testing.T) {
			cudatest.Load(t, c.env, c.value)
			p, err := connect(t, NewCopy(nil), on("0", 4096), mem.Spec{Kind: mem.Pinned, Bytes: 4096}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(p.a.Path().Evidence, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("%s", got)
			}
			if got := p.b.Path(); strings.Contains(strings.Join(got.Evidence, "\n"), "DMA-BUF") || got.Realm != transports.Double {
				t.Errorf("pinned memory: %+v", got)
			}
			p.close()
		})
	}
}
