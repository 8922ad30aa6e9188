package control

import (
	"math"

	"hopbench/harness"
	"hopbench/harness/control/controlpb"
	"hopbench/transports"
	"hopbench/transports/mem"
)

// This file converts requests: what a client sends is checked here and nowhere else, before the harness sees it. Every count
// has a bound, every text is a word, every number is finite; what costs memory or time is then held against the server's caps
// (budget.go).
const (
	maxStreams    = 1024
	maxDepth      = 1 << 16
	maxPieces     = 1 << 24
	maxSettings   = 64
	maxGroups     = 1024
	maxLoops      = 1000
	maxStamps     = 1 << 22 // a stream
	maxAddress    = 64 << 10
	maxKey        = 64 << 10
	maxStall      = 600.0     // seconds
	maxRate       = 1e15      // bytes a second
	maxSpan       = 7 * 86400 // seconds
	maxWord       = 256
	maxDriverName = 64
)

var waits = []transports.Wait{transports.Adaptive, transports.Spin, transports.Block}

func encodeOpen(r harness.OpenRequest) *controlpb.OpenRequest {
	m := &controlpb.OpenRequest{
		Driver: r.Driver, Device: r.Device, Settings: r.Settings, Announce: r.Announce,
		Memory: &controlpb.MemorySpec{
			Kind: string(r.Memory.Kind), Device: r.Memory.Device, Bytes: r.Memory.Bytes, HugePages: r.Memory.HugePages,
			NumaNode: optional(r.Memory.NUMANode, toInt64),
		},
		Endpoints: int64(r.Endpoints), Passive: r.Passive, Streams: int64(r.Streams), Depth: int64(r.Depth), Pieces: int64(r.Pieces),
		Largest: r.Largest, Wait: string(r.Wait), StallSeconds: r.StallSeconds,
	}
	if r.Bind.IsValid() {
		m.Bind = r.Bind.String()
	}
	return m
}

func decodeOpen(m *controlpb.OpenRequest) (harness.OpenRequest, error) {
	var d decoder
	r := harness.OpenRequest{
		Driver:   d.word("a driver's name", m.GetDriver(), maxDriverName),
		Device:   d.word("a device", m.GetDevice(), maxWord),
		Bind:     d.address("the address to bind", m.GetBind()),
		Announce: d.word("the address to announce", m.GetAnnounce(), maxWord),
		Memory: mem.Spec{
			Kind:      oneOf(&d, "memory of kind", m.GetMemory().GetKind(), mem.Host, mem.Pinned, mem.CUDA, ""),
			Device:    d.word("the memory's device", m.GetMemory().GetDevice(), maxWord),
			Bytes:     m.GetMemory().GetBytes(),
			HugePages: d.word("huge pages", m.GetMemory().GetHugePages(), 32),
			NUMANode: optional(numaNode(m.GetMemory()), func(v int64) int {
				return d.count("a NUMA node", v, 0, 4096)
			}),
		},
		Endpoints: d.count("endpoints", m.GetEndpoints(), 1, 2),
		Passive:   m.GetPassive(),
		Streams:   d.count("streams", m.GetStreams(), 1, maxStreams),
		Depth:     d.count("depth", m.GetDepth(), 1, maxDepth),
		Pieces:    d.count("pieces", m.GetPieces(), 1, maxPieces),
		Largest:   m.GetLargest(),
		Wait:      oneOf(&d, "wait", m.GetWait(), append(waits, "")...),

		StallSeconds: d.number("a stall limit", m.GetStallSeconds(), maxStall),
	}
	if n := len(m.GetSettings()); n > maxSettings {
		d.failf("%d settings; at most %d are possible", n, maxSettings)
	} else if n > 0 {
		r.Settings = make(map[string]string, n)
		for k, v := range m.GetSettings() {
			r.Settings[d.word("a setting's name", k, maxWord)] = d.word("setting "+clean(k, maxWord), v, maxWord)
		}
	}
	return r, d.err
}

func encodeConnect(lane uint64, r harness.ConnectRequest) *controlpb.ConnectRequest {
	return &controlpb.ConnectRequest{Lane: lane, Addresses: r.Addresses, RegionKey: r.RegionKey, RegionBytes: r.RegionBytes}
}

func decodeConnect(m *controlpb.ConnectRequest) (harness.ConnectRequest, error) {
	var d decoder
	if n := len(m.GetAddresses()); n > 2 {
		d.failf("%d addresses; 1 or 2 are possible", n)
	}
	r := harness.ConnectRequest{RegionKey: d.blob("a region's key", m.GetRegionKey(), maxKey), RegionBytes: m.GetRegionBytes()}
	for _, a := range m.GetAddresses() {
		r.Addresses = append(r.Addresses, d.blob("an endpoint's address", a, maxAddress))
	}
	return r, d.err
}

func encodeWork(w harness.Work) *controlpb.Work {
	return &controlpb.Work{
		Endpoint: int64(w.Endpoint), Op: string(w.Op), PingPong: w.PingPong, Notify: w.Notify, Initiate: w.Initiate,
		Shape: &controlpb.Shape{
			Groups: each(w.Shape.Groups, func(g harness.Group) *controlpb.Group {
				return &controlpb.Group{Bytes: g.Bytes, Count: int64(g.Count)}
			}),
			Scattered: w.Shape.Scattered, Streams: int64(w.Shape.Streams), Slots: int64(w.Shape.Slots), Seed: w.Shape.Seed, Base: w.Shape.Base,
		},
		Depth: int64(w.Depth), Batch: int64(w.Batch), Rate: w.Rate, Wait: string(w.Wait), Share: int64(w.Share), Shares: int64(w.Shares),
		Seed: w.Seed, Round: w.Round,
	}
}

func decodeWork(m *controlpb.Work) (harness.Work, error) {
	var d decoder
	groups := m.GetShape().GetGroups()
	if n := len(groups); n > maxGroups {
		d.failf("a shape of %d groups; at most %d are possible", n, maxGroups)
		return harness.Work{}, d.err
	}
	w := harness.Work{
		Endpoint: d.count("endpoint", m.GetEndpoint(), 0, 1),
		Op:       oneOf(&d, "operation", m.GetOp(), transports.Ops()...),
		PingPong: m.GetPingPong(), Notify: m.GetNotify(), Initiate: m.GetInitiate(),
		Shape: harness.Shape{
			Groups: each(groups, func(g *controlpb.Group) harness.Group {
				return harness.Group{Bytes: g.GetBytes(), Count: d.count("pieces of a group", g.GetCount(), 1, maxPieces)}
			}),
			Scattered: m.GetShape().GetScattered(),
			Streams:   d.count("streams", m.GetShape().GetStreams(), 1, maxStreams),
			Slots:     d.count("slots", m.GetShape().GetSlots(), 1, 1<<20),
			Seed:      m.GetShape().GetSeed(), Base: m.GetShape().GetBase(),
		},
		Depth: d.count("depth", m.GetDepth(), 1, maxDepth),
		Batch: d.count("batch", m.GetBatch(), 0, maxDepth),
		Rate:  d.number("a rate", m.GetRate(), maxRate),
		Wait:  oneOf(&d, "wait", m.GetWait(), append(waits, "")...),
		Share: d.count("share", m.GetShare(), 0, 1024), Shares: d.count("shares", m.GetShares(), 0, 1024),
		Seed: m.GetSeed(), Round: m.GetRound(),
	}
	if d.err != nil {
		return harness.Work{}, d.err
	}
	if err := w.Shape.Check(); err != nil {
		return harness.Work{}, err
	}
	return w, nil
}

func encodeSpan(s harness.Span) *controlpb.Span {
	return &controlpb.Span{Operations: s.Operations, Seconds: s.Seconds, StampEvery: s.StampEvery, Stamps: int64(s.Stamps)}
}

func decodeSpan(m *controlpb.Span) (harness.Span, error) {
	var d decoder
	s := harness.Span{
		Operations: m.GetOperations(), Seconds: d.number("a loop's seconds", m.GetSeconds(), maxSpan), StampEvery: m.GetStampEvery(),
		Stamps: d.count("stamps", m.GetStamps(), 0, maxStamps),
	}
	if s.StampEvery > math.MaxInt64 {
		d.failf("a stamp every %d completions", s.StampEvery)
	}
	return s, d.err
}

func toInt64(v int) int64 { return int64(v) }
func toInt(v int64) int   { return int(v) }

// numaNode is the optional field of a message that may be absent itself.
func numaNode(m *controlpb.MemorySpec) *int64 {
	if m == nil {
		return nil
	}
	return m.NumaNode
}
