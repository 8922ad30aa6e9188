package verbs

import (
	"os"
	"strings"
	"testing"

	"hopbench/transports"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/mem"
)

// TestCompletionsCarryNoDeviceMemory: before GPU memory is registered in any way, the provider is told not to put payload into completions,
// which it would copy to the device with the CPU; who set it otherwise keeps that.
func TestCompletionsCarryNoDeviceMemory(t *testing.T) {
	const variable = "MLX5_SCATTER_TO_CQE"
	for before, after := range map[string]string{"": "0", "1": "1"} {
		t.Setenv(variable, before)
		r := &region{}
		tr := &transport{set: values{set("gpu-direct", "staged")}}
		if err := tr.registerGPU(r, 0); err != nil || r.way != transports.Staged || r.how == "" {
			t.Errorf("%+v, %v", r, err)
		}
		if got := os.Getenv(variable); got != after {
			t.Errorf("%s was %q and is %q", variable, before, got)
		}
		if w := twoPorts(ibverbs.LinkEthernet).t.want(transports.EndpointOptions{Streams: 1, Depth: 1, Pieces: 1}, r); w.Inline != 0 {
			t.Errorf("%d bytes inline, which the CPU would read from device memory", w.Inline)
		}
	}
}

// TestSeveralSegmentsAreNotRegistered: a descriptor that covers less than the buffer would fail late, or at far offsets only; it is refused with both
// sizes before the device sees it.
func TestSeveralSegmentsAreNotRegistered(t *testing.T) {
	cudatest.Load(t, "FAKECUDA_DEVICES", "1", "FAKECUDA_DMABUF_BYTES", "65536")
	b, err := mem.Allocate(mem.Spec{Kind: mem.CUDA, Device: "0", Bytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	err = (&transport{}).registerDMABuf(&region{buffer: b}, 0)
	if err == nil || !strings.Contains(err.Error(), "covers 65536 bytes of 1048576: the allocation has several segments") {
		t.Error(err)
	}
}
