package verbs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda/cudatest"
	"hopbench/transports/mem"
	"hopbench/transports/transporttest"
)

var gpu0, gpu1, hostMemory = mem.Spec{Kind: mem.CUDA, Device: "0"}, mem.Spec{Kind: mem.CUDA, Device: "1"}, mem.Spec{Kind: mem.Host}

// pairsOfMemory are the sides that staging can have.
var pairsOfMemory = []struct {
	name              string
	initiator, target mem.Spec
}{{"device to device", gpu0, gpu1}, {"device to host", gpu0, hostMemory}, {"host to device", hostMemory, gpu1}}

func stagedOptions(device, chunk, depth string) transports.Options {
	o := set("gpu-direct", "staged", "staging-chunk", chunk, "staging-depth", depth)
	o.Device = device
	return o
}

// TestConformanceOfStagedMemory runs the suite with device memory on each side and on both, over doubles of both libraries: rings with
// room, and one that a single chunk fills.
func TestConformanceOfStagedMemory(t *testing.T) {
	for _, shape := range [][2]string{{"262144", "4"}, {"40000", "1"}} {
		for _, k := range pairsOfMemory {
			if shape[1] == "1" && k.name != "device to device" { // both rings full says what one full ring would
				continue
			}
			t.Run(k.name+" in chunks of "+shape[0], func(t *testing.T) {
				onDouble(t)
				cudatest.Load(t, "FAKECUDA_DEVICES", "2")
				o := stagedOptions("fake0", shape[0], shape[1])
				transporttest.Run(t, transporttest.Config{Initiator: RoCE(), InitiatorOptions: o, TargetOptions: o, InitiatorMemory: k.initiator, TargetMemory: k.target, Slow: true})
			})
		}
	}
}

// TestStagedListsLandWhole moves lists whose pieces are smaller and larger than a chunk, over a port with small messages, with chunks that
// differ between the sides, on several streams.
func TestStagedListsLandWhole(t *testing.T) {
	onDouble(t, "FAKEVERBS_MAX_MESSAGE", "3000")
	cudatest.Load(t, "FAKECUDA_DEVICES", "2")
	a, b := stagedOptions("fake0", "50000", "3"), stagedOptions("fake0", "65536", "2")
	for _, k := range pairsOfMemory {
		t.Run(k.name, func(t *testing.T) {
			p := mustConnect(t, setup{options: [2]transports.Options{a, b}, memories: [2]mem.Spec{k.initiator, k.target}, bytes: 4 << 20,
				endpoint: transports.EndpointOptions{Streams: 3, Pieces: 500}})
			for _, op := range transports.Ops() {
				for _, size := range []uint64{1, 100, 70_001} {
					var lists []transports.List
					for s := range 3 {
						pieces := 500
						if size > 1000 {
							pieces = 3
						}
						l := list(size, 4, pieces, 1<<20)
						for i := range l.Pieces {
							l.Pieces[i].Local += uint64(s) << 20
							l.Pieces[i].Remote += uint64(s) << 20
						}
						lists = append(lists, l)
					}
					p.verify(t, op, lists...)
				}
			}
		})
	}
}

// TestStagingIsTheThirdWay: where neither DMA-BUF nor peermem registers the memory it is staged, and said; a way that was asked for by
// name stays an error.
func TestStagingIsTheThirdWay(t *testing.T) {
	onDouble(t, "FAKEVERBS_FAIL_MR", "14")
	cudatest.Load(t, "FAKECUDA_DEVICES", "1")
	auto := set("staging-chunk", "8192", "staging-depth", "2") // below what the double refuses to register
	auto.Device = "fake0"
	p := mustConnect(t, setup{options: [2]transports.Options{auto, auto}, memory: gpu0})
	path := p[0].endpoint.Path()
	if path.GPUWay != transports.Staged || path.Realm != transports.Double || path.Settings["staging_chunk_bytes"] != "8192" {
		t.Errorf("%+v", path)
	}
	if text := strings.Join(path.Warnings, "\n"); !strings.Contains(text, "dmabuf: ") || !strings.Contains(text, "peermem: ") || !strings.Contains(text, string(fault.GDRNoWay)) {
		t.Errorf("the warnings do not say why: %q", text)
	}
	if label := transports.Label("roce", path, p[1].endpoint.Path()); !strings.Contains(label, "roce, staged") {
		t.Errorf("label %q", label)
	}
	p.verify(t, transports.Write, list(30_000, 4, 1, 1<<20))
	for way, code := range map[string]fault.Code{"dmabuf": fault.GDRDMABuf, "peermem": fault.GDRPeerMemMissing} {
		o := set("gpu-direct", way)
		o.Device = "fake0"
		_, err := connect(t, setup{options: [2]transports.Options{o, o}, memory: gpu0})
		wantCode(t, err, code, way)
	}
}

// TestStagedPhases: a row's phases come from the counters, of the side that did the copy.
func TestStagedPhases(t *testing.T) {
	onDouble(t)
	cudatest.Load(t, "FAKECUDA_DEVICES", "2")
	stagedPhases(t, "fake0")
}

func stagedPhases(t *testing.T, device string) {
	t.Helper()
	o := stagedOptions(device, "65536", "4")
	p := mustConnect(t, setup{options: [2]transports.Options{o, o}, memory: gpu0, bytes: 2 << 20})
	p.verify(t, transports.Write, list(1<<20, 1, 1, 2<<20))
	for i, names := range [][]string{{"device_to_host", "wire"}, {"host_to_device"}} {
		counters, err := p[i].endpoint.Counters()
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"device_to_host", "wire", "host_to_device"} {
			c := named(counters, name)
			switch {
			case c == nil || c.Source != transports.StagingPhases:
				t.Errorf("side %d has no phase %s", i, name)
			case (c.Value > 0) != slices.Contains(names, name):
				t.Errorf("side %d: %s took %d ns", i, name, c.Value)
			}
		}
	}
}

// TestConfirmedIsOnTheDevice: an operation into device memory takes at least as long as its last copy to the device, on either side. The
// device takes 30 ms for each copy here, so that a confirmation before the copy would be far too early.
func TestConfirmedIsOnTheDevice(t *testing.T) {
	onDouble(t)
	const latency = 30 * time.Millisecond
	cudatest.Load(t, "FAKECUDA_DEVICES", "1", "FAKECUDA_COPY_LATENCY_NS", fmt.Sprint(latency.Nanoseconds()))
	o := stagedOptions("fake0", "65536", "4")
	for _, c := range []struct {
		memories [2]mem.Spec
		ops      []transports.Op
		copies   int // one after the other, that the shortest way to a confirmation needs
	}{
		{[2]mem.Spec{hostMemory, gpu0}, []transports.Op{transports.Write, transports.Send}, 1},
		{[2]mem.Spec{gpu0, hostMemory}, []transports.Op{transports.Read}, 1},
		{[2]mem.Spec{gpu0, gpu0}, transports.Ops(), 2},
	} {
		p := mustConnect(t, setup{options: [2]transports.Options{o, o}, memories: c.memories, bytes: 1 << 16})
		for _, op := range c.ops {
			st := make([]transports.Stamps, 1)
			st[0].At = make([]int64, 1)
			l := &transports.Loop{Op: op, Lists: []transports.List{list(4096, 1, 1, 1<<16)}, Depth: 1, Count: 1, Stamps: st}
			if err := p.run(l); err != nil {
				t.Fatal(err)
			}
			if took, least := time.Duration(st[0].At[0]-st[0].Start), time.Duration(c.copies)*latency; took < least {
				t.Errorf("%s from %s to %s: confirmed after %v; its copies alone take %v", op, c.memories[0].Name(), c.memories[1].Name(), took, least)
			}
		}
	}
}

// TestStagedPeerIsNotBelieved: words of a peer that confirms what was never sent, or points outside a ring, end the loop with an error.
func TestStagedPeerIsNotBelieved(t *testing.T) {
	s := &sender{cut: cutter{list: &transports.List{Pieces: []transports.Piece{{Length: 8}}, Ends: []uint32{1}}}}
	if err := s.gone(1); fault.CodeOf(err) != fault.VerbsDisagree {
		t.Errorf("a chunk that was never sent has left: %v", err)
	}
	if err := s.sent(nil); fault.CodeOf(err) != fault.VerbsDisagree {
		t.Errorf("a chunk that was never posted is confirmed: %v", err)
	}
	loop := &stagedLoop{e: &endpoint{}, l: &transports.Loop{Op: transports.Read}, initiates: true}
	if err := loop.confirm(&flow{in: &receiver{landed: 3}, started: 2}); fault.CodeOf(err) != fault.VerbsDisagree {
		t.Errorf("more operations have landed than were started: %v", err)
	}
	onDouble(t)
	cudatest.Load(t, "FAKECUDA_DEVICES", "1")
	o := stagedOptions("fake0", "65536", "2")
	for name, change := range map[string]func(*address){
		"no rings":   func(a *address) { a.Staged.Rings = nil },
		"no chunk":   func(a *address) { a.Staged.ChunkBytes = 0 },
		"small ring": func(a *address) { a.Staged.Rings[0].Bytes = 10 },
		"huge ring":  func(a *address) { a.Staged.Rings[0].Bytes = 1 << 40 },
		"no flight":  func(a *address) { a.Staged.Flight = 0 },
	} {
		_, err := connect(t, setup{options: [2]transports.Options{o, o}, memory: gpu0, tamper: func(to int, r *transports.Remote) {
			if to == 0 {
				r.Address = changed(t, r.Address, change)
			}
		}})
		if fault.CodeOf(err) != fault.VerbsDisagree {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTooManyStagedStreams(t *testing.T) {
	onDouble(t)
	cudatest.Load(t, "FAKECUDA_DEVICES", "1")
	tr, err := RoCE().Open(context.Background(), stagedOptions("fake0", "4096", "2"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tr.(*transport).newStage(mustAllocate(t, gpu0), transports.EndpointOptions{Streams: mostStaged + 1}); fault.CodeOf(err) != fault.CapabilityGap {
		t.Error(err)
	}
	if err := tr.Close(); err != nil {
		t.Error(err)
	}
}

func mustAllocate(t *testing.T, s mem.Spec) mem.Buffer {
	t.Helper()
	s.Bytes = 1 << 20
	b, err := mem.Allocate(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// TestStagedOverRXE runs the suite with device memory of the double of libcuda on each side and on both, over real verbs.
func TestStagedOverRXE(t *testing.T) {
	onRXE(t)
	inChild(t, "TestStagedOverRXEChild")
}

// slowCases are left out where they would compare hundreds of megabytes by an emulated processor: verify has every size there.
var slowCases = []string{"every size arrives whole", "many pieces", "scattered lists land where they should", "a deadline that has passed"}

func TestStagedOverRXEChild(t *testing.T) {
	child(t)
	cudatest.Load(t, "FAKECUDA_DEVICES", "2")
	o := stagedOptions("rxe0", "65536", "4")
	for i, k := range pairsOfMemory {
		for _, c := range transporttest.Cases() {
			// One side that is staged runs a part of what two do, and so a part of the cases.
			if slices.Contains(slowCases, c.Name) || i > 0 && !slices.Contains([]string{"claims", "notification", "streams keep apart"}, c.Name) {
				continue
			}
			t.Run(k.name+", "+c.Name, func(t *testing.T) {
				c.Run(t, transporttest.Config{Initiator: RoCE(), InitiatorOptions: o, TargetOptions: o, InitiatorMemory: k.initiator, TargetMemory: k.target, Slow: true})
			})
		}
		t.Run(k.name+", verified", func(t *testing.T) {
			p := mustConnect(t, setup{options: [2]transports.Options{o, o}, memories: [2]mem.Spec{k.initiator, k.target}, bytes: 4 << 20, endpoint: transports.EndpointOptions{Pieces: 200}})
			for _, op := range transports.Ops() {
				for _, size := range []uint64{1, 4097, 1<<20 + 5} {
					p.verify(t, op, list(size, 2, 1, 4<<20))
				}
				p.verify(t, op, list(700, 2, 200, 1<<20))
			}
		})
	}
	stagedPhases(t, "rxe0")
	p := mustConnect(t, setup{options: [2]transports.Options{o, o}, memory: gpu0})
	a, b := p[0].endpoint.Path(), p[1].endpoint.Path()
	if a.Realm != transports.Double || a.GPUWay != transports.Staged {
		t.Errorf("%+v", a)
	}
	t.Logf("seen: %s, realm %s", transports.Label("roce", a, b), a.Realm)
}
