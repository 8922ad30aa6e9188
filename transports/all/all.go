// Package all is the list of transports. A new one is a folder beside this and one line here.
package all

import (
	"hopbench/transports"
	"hopbench/transports/cudapeer"
	"hopbench/transports/loopback"
	"hopbench/transports/tcp"
	"hopbench/transports/topo/nvml"
	"hopbench/transports/verbs"
)

// Drivers returns every transport, in display order: from the memory's own ceiling outwards.
func Drivers() []transports.Driver {
	return []transports.Driver{
		loopback.New(),
		cudapeer.NewCopy(nvml.Source{}),
		cudapeer.New(nvml.Source{}),
		tcp.New(),
		verbs.RoCE(),
		verbs.InfiniBand(),
	}
}
