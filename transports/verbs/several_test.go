package verbs

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/topo"
)

// onSeveral runs the test of the given name in a fresh process over a double with two devices.
func onSeveral(t *testing.T, name string, env ...string) {
	t.Helper()
	if os.Getenv("HOPBENCH_RXE") != "" {
		t.Skip("this process has the real library: the double is for machines without RDMA")
	}
	dir := t.TempDir()
	const source = "../internal/ibverbs/testdata/fakeverbs"
	object, library := filepath.Join(dir, "double.o"), filepath.Join(dir, "libibverbs.so.1")
	rename := []string{object}
	for _, f := range []string{"get_device_list", "open_device", "query_device", "query_port", "query_gid", "query_pkey"} {
		rename = append(rename, "--redefine-sym", "ibv_"+f+"=double_"+f)
	}
	for _, c := range []*exec.Cmd{
		exec.Command("gcc", "-c", "-fPIC", "-O1", "-o", object, source+"/fakeverbs.c"),
		exec.Command("objcopy", rename...),
		exec.Command("gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-Wl,-soname,libibverbs.so.1", "-Wl,--version-script="+source+"/fakeverbs.map", "-o", library, "testdata/several.c", object),
	} {
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", c.Args, err, out)
		}
	}
	inChild(t, name, append(env, LibraryVariable+"="+library, "FAKEVERBS_LINK=2")...)
}

// opened opens a device and closes it, and gives what was chosen.
func opened(d transports.Driver, o transports.Options) (*chosen, error) {
	tr, err := d.Open(context.Background(), o)
	if err != nil {
		return nil, err
	}
	return tr.(*transport).chosen, tr.Close()
}

// TestPortThatIsDownIsPassedOver: the first device's port is DOWN and the second's ACTIVE. By rule the second is taken and the first named
// with its state; the first by name fails.
func TestPortThatIsDownIsPassedOver(t *testing.T) {
	onSeveral(t, "TestPortThatIsDownIsPassedOverChild", "SEVERAL_DOWN=fake0")
}

func TestPortThatIsDownIsPassedOverChild(t *testing.T) {
	child(t)
	c, err := opened(RoCE(), transports.Options{})
	if err != nil || c.device.Name != "fake1" || !strings.Contains(strings.Join(c.why, "\n"), "fake0 port 1: the port is DOWN") {
		t.Fatalf("%+v, %v", c, err)
	}
	_, err = opened(RoCE(), transports.Options{Device: "fake0"})
	wantCode(t, err, fault.RDMAPortDown, "fake0", "DOWN")
	_, err = opened(RoCE(), transports.Options{Device: "fake0:2"})
	wantCode(t, err, fault.RDMANoDevice, "fake0:1", "fake1:1")
}

// TestOneRefusedNodeSinksNothing: what cannot be opened is named, and the other is used.
func TestOneRefusedNodeSinksNothing(t *testing.T) {
	onSeveral(t, "TestOneRefusedNodeSinksNothingChild", "SEVERAL_REFUSED=fake0")
}

func TestOneRefusedNodeSinksNothingChild(t *testing.T) {
	child(t)
	c, err := opened(RoCE(), transports.Options{})
	if err != nil || c.device.Name != "fake1" || !strings.Contains(strings.Join(c.why, "\n"), string(fault.RDMANodeRefused)) {
		t.Fatalf("%+v, %v", c, err)
	}
	if err := RoCE().Probe(context.Background()); err != nil {
		t.Error(err)
	}
	_, err = opened(RoCE(), transports.Options{Device: "fake0"})
	wantCode(t, err, fault.RDMANodeRefused, "uverbs0", "EACCES")
}

// TestHolesInTheGIDTable: slots that are empty or answer EINVAL are empty slots, before the first used one and after the last.
func TestHolesInTheGIDTable(t *testing.T) {
	onSeveral(t, "TestHolesInTheGIDTableChild", "SEVERAL_GIDS=1", "SEVERAL_PART=0xa2dc")
}

func TestHolesInTheGIDTableChild(t *testing.T) {
	child(t)
	c, err := opened(RoCE(), transports.Options{Device: "fake0"})
	if err != nil {
		t.Fatal(err)
	}
	var used []int
	for _, s := range c.gids {
		used = append(used, s.Index)
	}
	if !slices.Equal(used, []int{5, 7}) || c.gids[0].addr().String() != "10.0.0.5" || c.gids[0].Family != "ipv4" {
		t.Errorf("slots %v, first %+v", used, c.gids[0])
	}
	if !strings.Contains(strings.Join(c.why, "\n"), "BlueField-3") {
		t.Errorf("the DPU is not named: %q", c.why)
	}
	for index, code := range map[string]fault.Code{"4": fault.RDMANoGID, "2": fault.RDMANoGID, "7": ""} {
		o := set("gid-index", index)
		o.Device = "fake0"
		c, err := opened(RoCE(), o)
		if code == "" {
			if err != nil || len(c.gids) != 1 || c.gids[0].Index != 7 {
				t.Errorf("index 7: %+v, %v", c, err)
			}
			continue
		}
		wantCode(t, err, code, "index "+index, "5 (10.0.0.5", "7 (10.0.0.7")
	}
}

// TestRouteHeaderAndPartitionOfAnInfiniBandPort: the port's flag and its key reach the path.
func TestRouteHeaderAndPartitionOfAnInfiniBandPort(t *testing.T) {
	onSeveral(t, "TestRouteHeaderAndPartitionOfAnInfiniBandPortChild", "FAKEVERBS_LINK=1", "SEVERAL_FLAGS=1", "SEVERAL_PKEY=0x7fff")
}

func TestRouteHeaderAndPartitionOfAnInfiniBandPortChild(t *testing.T) {
	child(t)
	t.Setenv("FAKEVERBS_LINK", "1")
	o := transports.Options{Device: "fake1"}
	p := mustConnect(t, setup{driver: InfiniBand(), options: [2]transports.Options{o, o}})
	path := p[0].endpoint.Path()
	if path.Settings["route_header"] != "true" || !strings.Contains(strings.Join(path.Warnings, "\n"), "0x7fff") {
		t.Errorf("%+v", path)
	}
	p.verify(t, transports.Write, list(30_000, 8, 1, 1<<20))
}

// TestKindsThatHaveNoReliableConnections: EFA shows itself as a node of no kind; what it lacks is said, not what it is called, and neither
// permissions nor firmware.
func TestKindsThatHaveNoReliableConnections(t *testing.T) {
	onSeveral(t, "TestKindsThatHaveNoReliableConnectionsChild", "FAKEVERBS_NODE_TYPE=7")
}

func TestKindsThatHaveNoReliableConnectionsChild(t *testing.T) {
	child(t)
	// The library's devices as /sys of a machine with EFA would show them.
	host.facts = &topo.Host{RDMA: topo.RDMA{Class: true, Devices: []topo.RDMADevice{{Name: "fake0", Driver: "efa", NodeType: "7: <unknown>"}, {Name: "fake1", Driver: "mlx5_core", NodeType: "7: <unknown>"}}}}
	for _, d := range []transports.Driver{RoCE(), InfiniBand()} {
		_, err := opened(d, transports.Options{Device: "fake0"})
		wantCode(t, err, fault.RDMAEFA, "efa", "reliable connections (RC)")
		if fault.ClassOf(err) != fault.NotSupported {
			t.Errorf("class %s: no operator can mend that", fault.ClassOf(err))
		}
		_, err = opened(d, transports.Options{Device: "fake1"})
		wantCode(t, err, fault.RDMANodeType, "node type 7")
	}
	if _, err := devices(mustLoad(t), host.facts); err != nil {
		t.Error(err)
	}
	t.Setenv("FAKEVERBS_DEVICES", "0")
	_, err := devices(mustLoad(t), host.facts)
	wantCode(t, err, fault.RDMANoProvider, "/sys shows 2", "fake0", "efa", "libibverbs.so.1")
	_, err = devices(mustLoad(t), &topo.Host{})
	wantCode(t, err, fault.RDMANoDevice)
}

func mustLoad(t *testing.T) *ibverbs.Library {
	t.Helper()
	lib, err := load()
	if err != nil {
		t.Fatal(err)
	}
	return lib
}
