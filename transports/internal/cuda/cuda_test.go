//go:build cgo

package cuda_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/cuda/cudatest"
)

func open(t *testing.T, lib *cuda.Library, ordinal int) *cuda.Context {
	t.Helper()
	c, err := lib.Context(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func do(t *testing.T, c *cuda.Context, f func(th *cuda.Thread) error) {
	t.Helper()
	if err := c.Do(f); err != nil {
		t.Fatal(err)
	}
}

func TestDevicesAsTheyAreVisible(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_DEVICES", "4", "CUDA_VISIBLE_DEVICES", "2,GPU-686f7062-656e-6368-0000-000000000001,9,0")
	all, err := lib.Devices()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 {
		t.Fatalf("%d devices: the driver's list ends at the first bad entry", len(all))
	}
	if all[0].BusID != "0000:30:00.0" || all[1].UUID != "GPU-686f7062-656e-6368-0000-000000000001" || all[0].Compute != "9.0" || !all[0].DMABuf {
		t.Errorf("%+v", all)
	}
	for name, want := range map[string]int{"1": 1, "gpu-686f7062-656e-6368-0000-000000000002": 0, "0000:24:00.0": 1} {
		if d, err := lib.Find(name); err != nil || d.Ordinal != want {
			t.Errorf("%s: %+v, %v", name, d, err)
		}
	}
	for _, name := range []string{"2", "-1", "GPU-00", "GPU-686f", ""} {
		if d, err := lib.Find(name); err == nil {
			t.Errorf("%q found %+v", name, d)
		}
	}
	if !strings.Contains(lib.Version(), "double") || lib.Double() == "" || !strings.Contains(all[0].Name, "double") {
		t.Error("the double does not name itself")
	}
}

func TestMIGInstance(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_DEVICES", "3", "FAKECUDA_MIG", "1", "CUDA_VISIBLE_DEVICES", "MIG-686f7062-656e-6368-0000-000000000100")
	all, err := lib.Devices()
	if err != nil || len(all) != 1 || !all[0].MIG || !strings.HasPrefix(all[0].UUID, "MIG-") {
		t.Fatalf("%+v, %v", all, err)
	}
}

func TestUnavailableHasASentenceForEachState(t *testing.T) {
	stub := compile(t, "int cuInit(unsigned f) { (void)f; return 34; }\n"+everything("cuInit"))
	old := compile(t, "int cuInit(unsigned f) { (void)f; return 0; } int cuDriverGetVersion(int *v) { *v = 9020; return 0; }")
	fake := cudatest.Library(t)
	cases := []struct {
		name, path, fail, visible string
		state                     cuda.State
		want                      string
	}{
		{"no library", "/nowhere/libcuda.so.1", "", "-", cuda.NoLibrary, "no NVIDIA driver here, and no NVIDIA GPU is on the PCI bus: /nowhere/libcuda.so.1: cannot open"},
		{"no device", fake, "cuInit:100", "-", cuda.NoDevice, "sees no GPU: the kernel module nvidia is not loaded"},
		{"nothing visible", fake, "", "", cuda.NoDevice, "CUDA_VISIBLE_DEVICES is set and empty"},
		{"nothing named", fake, "", "GPU-77", cuda.NoDevice, "CUDA_VISIBLE_DEVICES=GPU-77 may name none"},
		{"fabric", fake, "cuInit:802", "-", cuda.FabricNotReady, "nvidia-fabricmanager"},
		{"mismatch", fake, "cuInit:803", "-", cuda.DriverMismatch, "different driver releases"},
		{"stub", stub, "", "-", cuda.StubLibrary, "toolkit's stub"},
		{"too old", old, "", "-", cuda.TooOld, "(CUDA 9.2) is too old: it lacks cuGetErrorName, "},
		{"other", fake, "cuInit:999", "-", cuda.InitFailed, "does not initialise: cuInit: CUDA_ERROR_UNKNOWN (999)"},
	}
	seen := map[string]string{}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FAKECUDA_FAIL", c.fail)
			if c.visible != "-" {
				t.Setenv("CUDA_VISIBLE_DEVICES", c.visible)
			}
			_, err := cuda.Open(c.path)
			var u *cuda.Unavailable
			if !errors.As(err, &u) || u.State != c.state {
				t.Fatalf("got %v", err)
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("%q lacks %q", err, c.want)
			}
			if other, ok := seen[err.Error()]; ok {
				t.Errorf("the same sentence as %s", other)
			}
			seen[err.Error()] = c.name
		})
	}
}

// everything defines every function that shim.h wants but those named, each answering "not initialised".
func everything(but ...string) string {
	header, err := os.ReadFile("shim.h")
	if err != nil {
		panic(err)
	}
	var b strings.Builder
next:
	for _, line := range strings.Split(string(header), "\n") {
		name, found := strings.CutPrefix(strings.TrimSpace(line), "X(cu")
		if !found {
			continue
		}
		name = "cu" + name[:strings.IndexByte(name, ',')]
		for _, b := range but {
			if b == name {
				continue next
			}
		}
		fmt.Fprintf(&b, "int %s(void) { return 3; }\n", name)
	}
	return b.String()
}

func compile(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "libcuda.so.1")
	c := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", path, "-")
	c.Stdin = strings.NewReader(source)
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func TestRefusedCallIsNamed(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_MEMORY_BYTES", "1e6")
	do(t, open(t, lib, 0), func(th *cuda.Thread) error {
		_, err := th.Alloc(2e6)
		if err == nil || err.Error() != "cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): out of memory" {
			t.Errorf("got %v", err)
		}
		return nil
	})
	if _, err := lib.Context(7); err == nil || !strings.Contains(err.Error(), "device 7: cuDevicePrimaryCtxRetain: CUDA_ERROR_INVALID_DEVICE (101)") {
		t.Errorf("got %v", err)
	}
}

func TestOptionalFunctionThatIsMissingIsAnError(t *testing.T) {
	source := "int cuInit(unsigned f) { (void)f; return 0; } int cuCtxGetCurrent(void **c) { *c = 0; return 0; } int cuCtxSetCurrent(void *c) { (void)c; return 0; }" +
		"int cuDevicePrimaryCtxRetain(void **c, int d) { *c = (void *)(long)(d + 1); return 0; } int cuDevicePrimaryCtxRelease_v2(int d) { (void)d; return 0; }" +
		everything("cuInit", "cuCtxGetCurrent", "cuCtxSetCurrent", "cuDevicePrimaryCtxRetain", "cuDevicePrimaryCtxRelease_v2", "cuMemGetHandleForAddressRange", "cuFlushGPUDirectRDMAWrites")
	lib, err := cuda.Open(compile(t, source))
	if err != nil {
		t.Fatal(err)
	}
	defer lib.Close()
	do(t, open(t, lib, 0), func(th *cuda.Thread) error {
		if _, _, err := th.DMABuf(4096, 4096); err == nil || !strings.Contains(err.Error(), "no such function") {
			t.Errorf("got %v", err)
		}
		return th.FlushRDMAWrites()
	})
}

func TestCopiesAndExport(t *testing.T) {
	lib := cudatest.Load(t)
	do(t, open(t, lib, 0), func(th *cuda.Thread) error {
		const n = 1 << 20
		host, err := th.AllocHost(2 * n)
		if err != nil {
			return err
		}
		device, err := th.Alloc(n)
		if err != nil {
			return err
		}
		s, err := th.NewStream()
		if err != nil {
			return err
		}
		for i := range n {
			host[i] = byte(i * 7)
		}
		err = errors.Join(th.ToDevice(device, host[:n], s), th.ToHost(host[n:], device, s), th.Synchronize(s))
		if err != nil || !bytes.Equal(host[:n], host[n:]) {
			t.Errorf("there and back: %v, equal %v", err, bytes.Equal(host[:n], host[n:]))
		}
		fd, how, err := th.DMABuf(device, n)
		if err != nil {
			return err
		}
		if end, err := unix.Seek(fd, 0, 2); err != nil || end != n || how != "DMA-BUF over PCIe" {
			t.Errorf("descriptor of %d bytes, %q, %v", end, how, err)
		}
		m, err := unix.Mmap(fd, 0, n, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil || !bytes.Equal(m, host[:n]) {
			t.Errorf("the descriptor does not show the memory: %v", err)
		}
		unix.Munmap(m)
		unix.Close(fd)
		if _, _, err := th.DMABuf(device, 100); err == nil || !strings.Contains(err.Error(), "whole pages") {
			t.Errorf("got %v", err)
		}
		base, size, err := th.Range(device + 5)
		if err != nil || base != device || size < n {
			t.Errorf("range %#x, %d, %v", base, size, err)
		}
		return errors.Join(th.SyncMemops(device), th.CloseStream(s), th.Free(device), th.FreeHost(host))
	})
}

func TestExportWithoutTheNewFlag(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_DRIVER", "12040")
	do(t, open(t, lib, 0), func(th *cuda.Thread) error {
		p, err := th.Alloc(4096)
		if err != nil {
			return err
		}
		defer th.Free(p)
		fd, how, err := th.DMABuf(p, 4096)
		if err != nil || how != "DMA-BUF" {
			t.Errorf("%q, %v", how, err)
		}
		return unix.Close(fd)
	})
}

func TestPeerRules(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_DEVICES", "3", "FAKECUDA_PEERS", "0>1")
	if can, err := lib.CanAccess(0, 1); !can || err != nil {
		t.Errorf("0 to 1: %v, %v", can, err)
	}
	if can, err := lib.CanAccess(1, 0); can || err != nil {
		t.Errorf("1 to 0: %v, %v: the two directions are two questions", can, err)
	}
	a, b, c := open(t, lib, 0), open(t, lib, 1), open(t, lib, 2)
	do(t, a, func(th *cuda.Thread) error {
		if err := errors.Join(th.EnablePeer(b), th.EnablePeer(b)); err != nil {
			t.Errorf("twice: %v", err)
		}
		var e *cuda.Error
		if err := th.EnablePeer(c); !errors.As(err, &e) || e.Code != 217 {
			t.Errorf("got %v", err)
		}
		if err := th.DisablePeer(b); err != nil {
			t.Error(err)
		}
		if err := th.DisablePeer(b); !errors.As(err, &e) || e.Code != 705 {
			t.Errorf("got %v", err)
		}
		return nil
	})
}

func TestCopiesTakeTheirTimeOnEnginesOfTheirOwn(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_H2D_BYTES_PER_SECOND", "1e8", "FAKECUDA_D2H_BYTES_PER_SECOND", "1e8")
	do(t, open(t, lib, 0), func(th *cuda.Thread) error {
		const n = 1 << 20 // 10.5 ms at 100 MB/s
		host, _ := th.AllocHost(2 * n)
		p, _ := th.Alloc(2 * n)
		var s [2]cuda.Stream
		var e [3]cuda.Event
		for i := range s {
			s[i], _ = th.NewStream()
		}
		for i := range e {
			e[i], _ = th.NewEvent()
		}
		begun := time.Now()
		err := errors.Join(th.Record(e[0], s[0]), th.ToDevice(p, host[:n], s[0]), th.Record(e[1], s[0]),
			th.ToHost(host[n:], p+n, s[1]), th.Record(e[2], s[1]))
		if err != nil {
			return err
		}
		if took := time.Since(begun); took > 8*time.Millisecond {
			t.Logf("queueing took %v", took)
		}
		if passed, err := th.Passed(e[1]); passed || err != nil {
			t.Errorf("passed at once: %v, %v", passed, err)
		}
		if err := errors.Join(th.Wait(e[1], 0, 0), th.Wait(e[2], 0, 0)); err != nil {
			return err
		}
		if took := time.Since(begun); took < 10*time.Millisecond {
			t.Errorf("%d bytes at 100 MB/s took %v", n, took)
		}
		up, err := th.Elapsed(e[0], e[1])
		if err != nil || up < 0.0104 || up > 0.0106 {
			t.Errorf("host to device took %v s by the device's clock, %v", up, err)
		}
		// Two directions share no engine. A machine that is busy may queue the second copy late: one try of many has to overlap.
		both := 1.0
		for range 50 {
			if both < 0.018 {
				break
			}
			err := errors.Join(th.Record(e[0], s[0]), th.ToDevice(p, host[:n], s[0]), th.ToHost(host[n:], p+n, s[1]), th.Record(e[2], s[1]),
				th.Synchronize(s[0]), th.Synchronize(s[1]))
			if err != nil {
				return err
			}
			if both, err = th.Elapsed(e[0], e[2]); err != nil {
				return err
			}
		}
		if both >= 0.018 {
			t.Errorf("two directions never took less than %v s together, one takes %v", both, up)
		}
		for i := range s {
			err = errors.Join(err, th.CloseStream(s[i]))
		}
		for i := range e {
			err = errors.Join(err, th.CloseEvent(e[i]))
		}
		return errors.Join(err, th.Free(p), th.FreeHost(host))
	})
}

func TestWaitGivesUp(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_COPY_LATENCY_NS", "3e8")
	do(t, open(t, lib, 0), func(th *cuda.Thread) error {
		p, _ := th.Alloc(4096)
		s, _ := th.NewStream()
		e, _ := th.NewEvent()
		if err := errors.Join(th.Set(p, 1, 4096, s), th.Record(e, s)); err != nil {
			return err
		}
		if err := th.Wait(e, 0, 20*time.Millisecond); !errors.Is(err, cuda.ErrStalled) {
			t.Errorf("got %v", err)
		}
		return errors.Join(th.Synchronize(s), th.CloseEvent(e), th.CloseStream(s), th.Free(p))
	})
}

// pair is two devices with a buffer each and what a loop needs.
type pair struct {
	a, b   *cuda.Context
	pa, pb cuda.Pointer
	sa, sb cuda.Stream
	events []cuda.Event
	eb     cuda.Event
}

func newPair(t *testing.T, lib *cuda.Library, bytes uint64, depth int) *pair {
	p := &pair{a: open(t, lib, 0), b: open(t, lib, 1), events: make([]cuda.Event, depth)}
	var err error
	do(t, p.a, func(th *cuda.Thread) error {
		p.pa, err = th.Alloc(bytes)
		p.sa, _ = th.NewStream()
		for i := range p.events {
			p.events[i], _ = th.NewEvent()
		}
		return errors.Join(err, th.EnablePeer(p.b))
	})
	do(t, p.b, func(th *cuda.Thread) error {
		p.pb, err = th.Alloc(bytes)
		p.sb, _ = th.NewStream()
		p.eb, _ = th.NewEvent()
		return errors.Join(err, th.EnablePeer(p.a))
	})
	t.Cleanup(func() {
		do(t, p.a, func(th *cuda.Thread) error {
			for _, e := range p.events {
				th.CloseEvent(e)
			}
			return errors.Join(th.CloseStream(p.sa), th.Free(p.pa))
		})
		do(t, p.b, func(th *cuda.Thread) error {
			return errors.Join(th.CloseEvent(p.eb), th.CloseStream(p.sb), th.Free(p.pb))
		})
	})
	return p
}

func (p *pair) loop() *cuda.Loop {
	return &cuda.Loop{
		Way:    cuda.Way{Local: cuda.Side{Address: uint64(p.pa), Context: p.a}, Remote: cuda.Side{Address: uint64(p.pb), Context: p.b}},
		Pieces: []cuda.Piece{{Local: 0, Remote: 4096, Length: 100}, {Local: 200, Remote: 0, Length: 300}, {Local: 1000, Remote: 8192, Length: 50}},
		Ends:   []uint32{2, 3}, Stream: p.sa, Events: p.events, Stall: time.Second,
	}
}

func TestLoopsEndByCountDeadlineAndStop(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_COPY_LATENCY_NS", "200000")
	p := newPair(t, lib, 1<<16, 3)
	do(t, p.a, func(th *cuda.Thread) error {
		l := p.loop()
		l.Count, l.Every, l.Stamps = 7, 2, make([]int64, 16)
		done, err := th.Run(l)
		if err != nil || done.Ops != 7 || done.Bytes != 4*400+3*50 || done.Stamps != 4 {
			t.Errorf("%+v, %v: 7 operations give stamps at 2, 4, 6 and the last", done, err)
		}
		for i := 1; i < done.Stamps; i++ {
			if l.Stamps[i] <= l.Stamps[i-1] || l.Stamps[0] <= done.Start {
				t.Errorf("stamps %v from %d", l.Stamps[:done.Stamps], done.Start)
			}
		}
		l = p.loop()
		l.Deadline = now() + 5e6
		if done, err = th.Run(l); err != nil || done.Ops == 0 || now() < l.Deadline {
			t.Errorf("deadline: %+v, %v", done, err)
		}
		l = p.loop()
		l.Stamps = make([]int64, 5)
		if done, err = th.Run(l); err != nil || done.Stamps != 5 {
			t.Errorf("full stamps: %+v, %v", done, err)
		}
		l = p.loop()
		stop := new(atomic.Uint32)
		l.Stop = stop
		time.AfterFunc(5*time.Millisecond, func() { stop.Store(1) })
		if done, err = th.Run(l); err != nil {
			t.Errorf("stop: %+v, %v", done, err)
		}
		l = p.loop()
		l.Count, l.BytesPerSecond = 11, 225*1e3 // 225 bytes an operation on average: a thousand a second
		if done, err = th.Run(l); err != nil || now()-done.Start < 8e6 {
			t.Errorf("pace: %+v, %v", done, err)
		}
		l = p.loop()
		l.Count, l.Events = 5, l.Events[:1]
		back := cuda.Echo{Way: cuda.Way{Local: l.Way.Local, Remote: l.Way.Remote, Read: true}, Stream: p.sb, Event: p.eb, Context: p.b}
		if done, err = th.PingPong(l, back); err != nil || done.Ops != 5 {
			t.Errorf("ping-pong: %+v, %v", done, err)
		}
		return nil
	})
}

func TestLoopReportsTheDevicesFailure(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_FAIL_COPY", "719:4")
	p := newPair(t, lib, 1<<16, 2)
	err := p.a.Do(func(th *cuda.Thread) error {
		l := p.loop()
		l.Count = 1000
		done, err := th.Run(l)
		if done.Ops >= 1000 {
			t.Errorf("%+v", done)
		}
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "CUDA_ERROR_LAUNCH_FAILED (719)") {
		t.Errorf("got %v", err)
	}
	cudatest.Clear(t)
}

func TestLoopStalls(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_COPY_LATENCY_NS", "2e8")
	p := newPair(t, lib, 1<<16, 1)
	do(t, p.a, func(th *cuda.Thread) error {
		l := p.loop()
		l.Count, l.Stall = 1, 10*time.Millisecond
		if _, err := th.Run(l); !errors.Is(err, cuda.ErrStalled) {
			t.Errorf("got %v", err)
		}
		return th.Synchronize(p.sa)
	})
}

func now() int64 {
	var ts unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return ts.Nano()
}
