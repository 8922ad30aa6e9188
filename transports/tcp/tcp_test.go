package tcp

import (
	"net/netip"
	"testing"

	"hopbench/transports"
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
