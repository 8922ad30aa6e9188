package tcp

import (
	"net/netip"
	"testing"

	"hopbench/transports"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/mem"
	"hopbench/transports/transporttest"
)

func TestConformance(t *testing.T) {
	for name, addr := range map[string]string{"IPv4": "127.0.0.1", "IPv6": "::1"} {
		t.Run(name, func(t *testing.T) {
			o := transports.Options{Bind: netip.MustParseAddr(addr)}
			transporttest.Run(t, transporttest.Config{Initiator: New(), InitiatorOptions: o, TargetOptions: o})
		})
	}
}

// TestConformanceOfDeviceMemory runs the suite with device memory on each side and on both, over the double of the driver.
func TestConformanceOfDeviceMemory(t *testing.T) {
	lib := cudatest.Load(t, "FAKECUDA_DEVICES", "2")
	t.Cleanup(lib.Close)
	o := transports.Options{Bind: netip.MustParseAddr("127.0.0.1"), Settings: map[string]string{"staging-chunk": "262144", "staging-depth": "4"}}
	gpu0, gpu1, host := mem.Spec{Kind: mem.CUDA, Device: "0"}, mem.Spec{Kind: mem.CUDA, Device: "1"}, mem.Spec{Kind: mem.Host}
	for name, k := range map[string][2]mem.Spec{"device to device": {gpu0, gpu1}, "device to host": {gpu0, host}, "host to device": {host, gpu1}} {
		t.Run(name, func(t *testing.T) {
			transporttest.Run(t, transporttest.Config{Initiator: New(), InitiatorOptions: o, TargetOptions: o, InitiatorMemory: k[0], TargetMemory: k[1], Slow: true})
		})
	}
}
