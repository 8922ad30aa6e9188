package mem_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/mem"
)

func allocate(t *testing.T, s mem.Spec) mem.Buffer {
	t.Helper()
	b, err := mem.Allocate(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(b.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestDeviceAndPinnedBuffers(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_DEVICES", "2")
	node := 0
	for _, s := range []mem.Spec{
		{Kind: mem.CUDA, Device: "1", Bytes: 3<<20 + 17},
		{Kind: mem.CUDA, Device: "GPU-686f7062-656e-6368-0000-000000000000", Bytes: 3<<20 + 17},
		{Kind: mem.Pinned, Bytes: 3<<20 + 17, NUMANode: &node},
	} {
		t.Run(s.Name(), func(t *testing.T) {
			b := allocate(t, s)
			if b.Len() != s.Bytes || b.Addr() == 0 || b.Facts().Kind != s.Kind {
				t.Errorf("%d bytes at %#x, %+v", b.Len(), b.Addr(), b.Facts())
			}
			onDevice := s.Kind == mem.CUDA
			if (b.Bytes() == nil) != onDevice || (mem.CUDAContext(b) != nil) != onDevice {
				t.Error("the processor may touch pinned memory, and not device memory")
			}
			if mem.Double(b) == "" {
				t.Error("the double does not show")
			}
			got := make([]byte, b.Len())
			if err := b.CopyOut(0, got); err != nil || !bytes.Equal(got, make([]byte, b.Len())) {
				t.Errorf("not zeroed: %v", err)
			}
			want := make([]byte, 2<<20+5)
			for i := range want {
				want[i] = byte(i * 13)
			}
			if err := b.CopyIn(11, want); err != nil {
				t.Fatal(err)
			}
			if err := b.CopyOut(0, got); err != nil || !bytes.Equal(got[11:11+len(want)], want) || got[10] != 0 || got[11+len(want)] != 0 {
				t.Errorf("filled and read back: %v", err)
			}
			if b.CopyIn(b.Len(), []byte{1}) == nil || b.CopyOut(^uint64(0), got[:2]) == nil {
				t.Error("a copy past the end was let through")
			}
		})
	}
}

func TestDeviceBuffersRefusedWithReason(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_DEVICES", "1", "FAKECUDA_MEMORY_BYTES", "1e7")
	for _, c := range []struct {
		spec mem.Spec
		code fault.Code
		want string
	}{
		{mem.Spec{Kind: mem.CUDA, Device: "1", Bytes: 1}, fault.CUDADevice, "no device 1: 1 visible here (0 is GPU-686f"},
		{mem.Spec{Kind: mem.CUDA, Device: "MIG-1", Bytes: 1}, fault.CUDADevice, `no device "MIG-1"`},
		{mem.Spec{Kind: mem.CUDA, Device: "0", Bytes: 1 << 30}, fault.MemoryExhausted, "10000000 of 10000000 bytes are free"},
		{mem.Spec{Kind: mem.CUDA, Device: "0", Bytes: 1<<64 - 1}, fault.MemoryExhausted, ""},
		{mem.Spec{Kind: mem.Pinned, Bytes: 1 << 60}, fault.MemoryExhausted, ""},
	} {
		_, err := mem.Allocate(c.spec)
		if fault.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v", c.spec, err)
		}
	}
	t.Setenv("FAKECUDA_FAIL", "cuInit:802")
	if _, err := mem.Allocate(mem.Spec{Kind: mem.Pinned, Bytes: 1}); fault.CodeOf(err) != fault.GPUFabric {
		t.Errorf("got %v", err)
	}
}

func TestNothingIsLeftWhenAllocationFailsHalfWay(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_MEMORY_BYTES", "4194304")
	for _, function := range []string{"cuStreamCreate", "cuMemHostAlloc", "cuMemsetD8Async", "cuStreamSynchronize", "cuMemAlloc_v2"} {
		t.Setenv("FAKECUDA_FAIL", function+":999:0:1")
		if _, err := mem.Allocate(mem.Spec{Kind: mem.CUDA, Device: "0", Bytes: 4 << 20}); fault.CodeOf(err) != fault.CUDACall || !strings.Contains(err.Error(), function) {
			t.Errorf("%s: got %v", function, err)
		}
	}
	t.Setenv("FAKECUDA_FAIL", "")
	allocate(t, mem.Spec{Kind: mem.CUDA, Device: "0", Bytes: 4 << 20})
	t.Setenv("FAKECUDA_FAIL", "cuMemHostRegister_v2:999:0:1")
	if _, err := mem.Allocate(mem.Spec{Kind: mem.Pinned, Bytes: 4096}); fault.CodeOf(err) != fault.CUDACall {
		t.Errorf("got %v", err)
	}
}
