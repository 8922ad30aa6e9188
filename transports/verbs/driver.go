package verbs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/topo"
)

// LibraryVariable names another libibverbs for the process to open, by path.
const LibraryVariable = "HOPBENCH_LIBIBVERBS"

// driver is one link layer.
type driver struct {
	name string
	link int    // as the library counts link layers
	text string // as /sys spells it
}

// InfiniBand is the driver for ports with link layer InfiniBand.
func InfiniBand() transports.Driver {
	return driver{"infiniband", ibverbs.LinkInfiniBand, "InfiniBand"}
}

// RoCE is the driver for ports with link layer Ethernet.
func RoCE() transports.Driver { return driver{"roce", ibverbs.LinkEthernet, "Ethernet"} }

func (d driver) Name() string                   { return d.name }
func (d driver) Settings() []transports.Setting { return settings() }
func (d driver) Checks() []transports.Check     { return Checks(d.text) }

// Probe opens the library and looks for a port that carries data, without keeping it.
func (d driver) Probe(ctx context.Context) error {
	c, err := d.choose(transports.Options{})
	if err != nil {
		return err
	}
	return c.context.Close()
}

// load opens libibverbs.
func load() (*ibverbs.Library, error) {
	lib, err := ibverbs.Load(os.Getenv(LibraryVariable))
	if err == nil {
		return lib, nil
	}
	e := &fault.Error{Code: fault.RDMANoLibrary, Op: "open libibverbs", Err: err}
	var old *ibverbs.LoadError
	switch {
	case errors.Is(err, ibverbs.ErrNoHeaders):
		e.Code = fault.VerbsBuiltWithout
	case errors.As(err, &old) && old.Missing != "":
		e.Code = fault.VerbsLibraryOld
	}
	return nil, e
}

// devices lists what the library can open, and tells the states of having none apart.
func devices(lib *ibverbs.Library, h *topo.Host) ([]ibverbs.Device, error) {
	list, err := lib.Devices()
	const op = "list RDMA devices"
	switch {
	case errors.Is(err, syscall.ENOSYS):
		return nil, &fault.Error{Code: fault.RDMANoStack, Op: op, Native: "ENOSYS (38)", Err: errors.New("the kernel has no RDMA stack loaded (ib_core, ib_uverbs)")}
	case err != nil:
		return nil, &fault.Error{Code: fault.VerbsCall, Op: op, Err: err}
	case len(list) == 0 && len(h.RDMA.Devices) > 0:
		d := h.RDMA.Devices[0]
		return nil, fault.New(fault.RDMANoProvider, op, "", "/sys shows %d (%s, kernel driver %s) and %s lists none: the userspace provider is missing or no node in /dev/infiniband opens",
			len(h.RDMA.Devices), d.Name, orUnknown(d.Driver), lib.Path)
	case len(list) == 0:
		return nil, fault.New(fault.RDMANoDevice, op, "", "the RDMA stack is loaded and has no device")
	}
	return list, nil
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// Open chooses a device and a port, and opens it.
func (d driver) Open(ctx context.Context, o transports.Options) (transports.Transport, error) {
	if err := transports.CheckSettings(settings(), o.Settings); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, &fault.Error{Code: fault.VerbsCall, Op: "open " + d.name, Err: err}
	}
	c, err := d.choose(o)
	if err != nil {
		return nil, err
	}
	return &transport{driver: d, options: o, set: values{o}, chosen: c}, nil
}

// where names a port for messages.
func where(device string, port int) string { return fmt.Sprintf("%s port %d", device, port) }
