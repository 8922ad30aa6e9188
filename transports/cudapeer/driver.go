package cudapeer

import (
	"context"
	"fmt"
	"sync"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/ledger"
	"hopbench/transports/mem"
	"hopbench/transports/topo"
)

// Names of the two drivers.
const (
	PeerName = "cuda-peer"
	CopyName = "cuda-copy"
)

// driver also introduces the two sides to each other.
type driver struct {
	name      string
	host      func() (*topo.Host, error) // what paths are read from
	endpoints ledger.Directory[*endpoint]
}

// New returns the driver for copies between two GPUs. NVML tells NVLink from PCIe; nil leaves that unknown. Both sides of a connection must
// come from the same driver.
func New(nvml topo.NVMLSource) transports.Driver { return pairer{newDriver(PeerName, nvml)} }

// NewCopy returns the driver for copies within one GPU and between it and pinned host memory.
func NewCopy(nvml topo.NVMLSource) transports.Driver { return newDriver(CopyName, nvml) }

func newDriver(name string, nvml topo.NVMLSource) *driver {
	return &driver{name: name, host: sync.OnceValues(func() (*topo.Host, error) {
		return topo.Read("/", topo.Options{NVML: nvml})
	})}
}

func (d *driver) Name() string { return d.name }

func (d *driver) Settings() []transports.Setting {
	if d.name == CopyName {
		return nil
	}
	return []transports.Setting{{
		Name: "peer-access", Default: "auto",
		Usage: "auto: directly where the driver allows it; off: always through host memory, to see what direct access is worth",
		Check: func(v string) error {
			if v != "auto" && v != "off" {
				return fmt.Errorf("%q: want auto or off", v)
			}
			return nil
		},
	}}
}

func (d *driver) Checks() []transports.Check {
	if d.name == CopyName {
		return copyChecks()
	}
	return Checks()
}

// copyChecks are those of the peer driver that one GPU is concerned by.
func copyChecks() []transports.Check {
	var list []transports.Check
	for _, c := range Checks() {
		switch c.Code {
		case fault.GPUNone, fault.GPUDriver, fault.GPULibrary, fault.GPUMismatch, fault.GPUNode, fault.PCIWidth:
			list = append(list, c)
		}
	}
	for i := range list {
		var needs []fault.Code
		for _, before := range list[:i] {
			needs = append(needs, before.Code)
		}
		list[i].Needs = needs
	}
	return list
}

// Probe opens the driver library and counts the GPUs that this process sees.
func (d *driver) Probe(context.Context) error {
	lib, err := d.library()
	if err != nil {
		return err
	}
	lib.Close()
	return nil
}

// library opens libcuda and refuses a host whose GPUs cannot do what the driver is for.
func (d *driver) library() (*cuda.Library, error) {
	op := "open " + d.name
	lib, err := cuda.Open("")
	if err != nil {
		return nil, cuda.Fault(err, op, "")
	}
	all, err := lib.Devices()
	if err == nil && d.name == PeerName {
		err = peersPossible(all)
	}
	if err != nil {
		lib.Close()
		return nil, cuda.Fault(err, op, "")
	}
	return lib, nil
}

// peersPossible says in words that an operator of a cluster understands why there is nothing to measure here.
func peersPossible(all []cuda.Device) error {
	for _, d := range all {
		if d.MIG {
			return fault.New(fault.GPUMIG, "look for a pair of GPUs", d.UUID,
				"%s is a MIG instance, and a process sees one instance: peer access between GPUs cannot be measured from here. Ask for whole GPUs", d.Name)
		}
	}
	if len(all) < 2 {
		only := "none"
		if len(all) == 1 {
			only = fmt.Sprintf("%s at %s", all[0].Name, all[0].BusID)
		}
		return fault.New(fault.GPUOne, "look for a pair of GPUs", "",
			"%d GPU is visible in this process (%s), and peer access joins two. NVLink to a GPU of another container cannot be measured from inside this one; that says nothing against the link",
			len(all), only)
	}
	return nil
}

func (d *driver) Open(_ context.Context, o transports.Options) (transports.Transport, error) {
	if err := transports.CheckSettings(d.Settings(), o.Settings); err != nil {
		return nil, err
	}
	lib, err := d.library()
	if err != nil {
		return nil, err
	}
	t := &transport{d: d, lib: lib, ledger: ledger.Ledger{Name: d.name}, staged: o.Get(d.Settings(), "peer-access") == "off"}
	if o.Device != "" {
		device, err := lib.Find(o.Device)
		if err != nil {
			lib.Close()
			return nil, &fault.Error{Code: fault.CUDADevice, Op: "choose the GPU", Device: o.Device, Err: err}
		}
		t.device = &device
	}
	return t, nil
}

// transport is the open driver of one side.
type transport struct {
	d      *driver
	lib    *cuda.Library
	device *cuda.Device // the one that was named, if any
	staged bool         // peer-access=off
	ledger ledger.Ledger
}

const maxStreams = 64

func (t *transport) Caps() transports.Caps {
	kinds := []mem.Kind{mem.CUDA}
	if t.d.name == CopyName {
		kinds = append(kinds, mem.Pinned)
	}
	return transports.Caps{
		Stream: []transports.Op{transports.Write, transports.Read}, PingPong: []transports.Op{transports.Write},
		Notify: true, Local: kinds, Remote: kinds, MaxStreams: maxStreams, OneProcess: true,
	}
}

func (t *transport) Register(b mem.Buffer) (transports.Region, error) {
	ctx := mem.CUDAContext(b)
	kind := b.Facts().Kind
	if ctx == nil && (t.d.name != CopyName || kind != mem.Pinned) {
		return nil, fault.New(fault.MemoryKind, "register memory", "", "%s moves %v memory, not %s", t.d.name, t.Caps().Local, kind)
	}
	if ctx != nil && t.device != nil && ctx.Ordinal() != t.device.Ordinal {
		return nil, fault.New(fault.CUDADevice, "register memory", fmt.Sprintf("cuda:%d", ctx.Ordinal()), "the buffer is on another GPU than the one that was named, cuda:%d", t.device.Ordinal)
	}
	r, err := t.ledger.Register(b)
	if err != nil {
		return nil, err
	}
	return &region{Region: r, side: cuda.Side{Address: uint64(b.Addr()), Context: ctx}}, nil
}

func (t *transport) Close() error {
	return t.ledger.Close(func() error {
		t.lib.Close()
		return nil
	})
}

// region is a buffer with the side that a copy names. Inside a process an address needs no key.
type region struct {
	*ledger.Region
	side cuda.Side
}
