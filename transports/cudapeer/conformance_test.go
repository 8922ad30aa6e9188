package cudapeer_test

import (
	"testing"

	"hopbench/transports"
	"hopbench/transports/cudapeer"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/mem"
	"hopbench/transports/transporttest"
)

func TestConformance(t *testing.T) {
	cuda := func(n string) mem.Spec { return mem.Spec{Kind: mem.CUDA, Device: n} }
	for _, c := range []struct {
		name          string
		driver        func() transports.Driver
		local, remote mem.Spec
		peers         string
	}{
		{"peer access", func() transports.Driver { return cudapeer.New(nil) }, cuda("0"), cuda("1"), "all"},
		{"host-staged", func() transports.Driver { return cudapeer.New(nil) }, cuda("1"), cuda("0"), "none"},
		{"one-sided access", func() transports.Driver { return cudapeer.New(nil) }, cuda("0"), cuda("1"), "0>1"},
		{"within a GPU", func() transports.Driver { return cudapeer.NewCopy(nil) }, cuda("0"), cuda("0"), "all"},
		{"GPU and pinned memory", func() transports.Driver { return cudapeer.NewCopy(nil) }, cuda("0"), mem.Spec{Kind: mem.Pinned}, "all"},
		{"pinned memory and GPU", func() transports.Driver { return cudapeer.NewCopy(nil) }, mem.Spec{Kind: mem.Pinned}, cuda("1"), "all"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cudatest.Load(t, "FAKECUDA_PEERS", c.peers)
			transporttest.Run(t, transporttest.Config{Initiator: c.driver(), InitiatorMemory: c.local, TargetMemory: c.remote})
		})
	}
}
