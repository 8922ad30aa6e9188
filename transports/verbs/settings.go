package verbs

import (
	"fmt"
	"strconv"

	"hopbench/transports"
	"hopbench/transports/internal/ibverbs"
)

// number is a setting between two bounds.
func number(name, usage, preset string, low, high int) transports.Setting {
	return transports.Setting{Name: name, Usage: usage, Default: preset, Check: func(v string) error {
		n, err := strconv.Atoi(v)
		if v == "auto" && preset == "auto" {
			return nil
		}
		if err != nil || n < low || n > high {
			return fmt.Errorf("%q: want a number from %d to %d", v, low, high)
		}
		return nil
	}}
}

func choice(name, usage, preset string, more ...string) transports.Setting {
	return transports.Setting{Name: name, Usage: usage, Default: preset, Check: func(v string) error {
		if v == preset {
			return nil
		}
		for _, m := range more {
			if v == m {
				return nil
			}
		}
		return fmt.Errorf("%q: want one of %v", v, append([]string{preset}, more...))
	}}
}

func ofGPU(s transports.Setting) transports.Setting {
	s.GPUMemory = true
	return s
}

// settings are the same for both link layers; those of an Ethernet header say so in their usage.
func settings() []transports.Setting {
	return []transports.Setting{
		number("port", "port of the RDMA device (auto: the first that is ACTIVE)", "auto", 1, 255),
		number("gid-index", "slot of the GID table (auto: by rule, and both sides agree on a family)", "auto", 0, 1023),
		{Name: "mtu", Usage: "path MTU in bytes (auto: the smaller of both ports)", Default: "auto", Check: func(v string) error {
			if n, err := strconv.Atoi(v); v != "auto" && (err != nil || ibverbs.MTUCode(n) == 0) {
				return fmt.Errorf("%q: want 256, 512, 1024, 2048, 4096 or auto", v)
			}
			return nil
		}},
		number("pkey-index", "slot of the partition key table", "0", 0, 127),
		number("sl", "service level (InfiniBand) or priority", "0", 0, 15),
		number("traffic-class", "traffic class of the route header (RoCE: the IP header's DSCP and ECN bits)", "0", 0, 255),
		number("qp-timeout", "local acknowledgement timeout, 4.096 us x 2^N", "14", 1, 31),
		// Not 7: soft-RoCE takes 7 for without end, as the specification does for RNR retries alone.
		number("retries", "times that an unacknowledged request is sent again", "6", 0, 7),
		number("rnr-retries", "times that a request is sent again to a peer without a receive; 7 is without end, and the stall limit ends it", "7", 0, 7),
		number("inline", "bytes that a work request carries itself; less where the device takes less, 0 for GPU memory", "220", 0, 4096),
		number("signal-every", "operations to one completion (auto: the batch, or a quarter of the depth up to 16)", "auto", 1, 1024),
		number("post-list", "operations to one post call, which rings the doorbell once (auto: the batch, or all that are due; 1: each its own)", "auto", 1, 1024),
		number("sge", "pieces that one work request gathers (auto: up to 8 for lists of pieces)", "auto", 1, 32),
		choice("relaxed-ordering", "let the device reorder its writes to memory", "off", "on"),
		choice("pong", "how the initiator of a write ping-pong sees the answer: its memory, or a completion", "auto", "memory", "completion"),
		ofGPU(choice("gpu-direct", "how GPU memory is reached (auto: dmabuf, then peermem, then staged through host memory)", "auto", "dmabuf", "peermem", "staged")),
		ofGPU(number("staging-chunk", "bytes of a chunk between a GPU and the wire; 0 calibrates", "0", 0, 1<<30)),
		ofGPU(number("staging-depth", "chunks of the ring between a GPU and the wire; 0 calibrates, 1 overlaps nothing", "0", 0, 1024)),
	}
}

// values reads settings that CheckSettings has passed.
type values struct{ o transports.Options }

func (v values) text(name string) string { return v.o.Get(settings(), name) }

// number is the value, or absent for auto.
func (v values) number(name string) (n int, set bool) {
	n, err := strconv.Atoi(v.text(name))
	return n, err == nil
}
