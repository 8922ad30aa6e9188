//go:build cgo

package nvml

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/dgxh100"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock/server"
)

// old is the set of functions of a driver that knows little: calling any other would end a real process, and panics here.
func old(symbol string) error {
	for _, s := range []string{"nvmlSystemGetDriverVersion", "nvmlSystemGetCudaDriverVersion", "nvmlDeviceGetUUID", "nvmlDeviceGetName", "nvmlDeviceGetMigMode"} {
		if s == symbol {
			return nil
		}
	}
	return errors.New("undefined symbol")
}

func TestAnOldDriverIsAskedOnlyWhatItHas(t *testing.T) {
	lib := dgxh100.New()
	lib.LookupSymbolFunc = old
	a := read(lib)
	if a.Error != "" || a.Driver == "" || len(a.GPUs) != 8 {
		t.Fatalf("%+v", a)
	}
	g := a.GPUs[0]
	if g.Name == "" || !strings.HasPrefix(g.UUID, "GPU-") || g.MIG == nil || *g.MIG {
		t.Errorf("%+v", g)
	}
	if g.Links != nil || g.Peers != nil || g.BAR1Bytes != nil || g.Fabric != "" || g.LinkGenMax != nil {
		t.Errorf("what the driver lacks is absent: %+v", g)
	}
}

func TestLinksPeersAndFabric(t *testing.T) {
	lib := dgxh100.New()
	lib.LookupSymbolFunc = func(s string) error {
		if s == "nvmlDeviceGetNvLinkState" || s == "nvmlDeviceGetFieldValues" || s == "nvmlDeviceGetP2PStatus" || s == "nvmlDeviceGetGpuFabricInfo" || s == "nvmlDeviceGetNvLinkRemoteDeviceType" {
			return nil
		}
		return old(s)
	}
	for i := range 8 {
		d, _ := lib.DeviceGetHandleByIndex(i)
		m := d.(*server.Device)
		m.GetPciInfoFunc = func() (p nvml.PciInfo, _ nvml.Return) {
			for j, c := range fmt.Sprintf("00000000:%X0:00.0", i+10) {
				p.BusId[j] = int8(c)
			}
			return p, nvml.SUCCESS
		}
		m.GetNvLinkStateFunc = func(l int) (nvml.EnableState, nvml.Return) {
			switch {
			case l >= 18:
				return 0, nvml.ERROR_INVALID_ARGUMENT
			case i == 3 && l == 5:
				return nvml.FEATURE_DISABLED, nvml.SUCCESS
			}
			return nvml.FEATURE_ENABLED, nvml.SUCCESS
		}
		m.GetNvLinkRemoteDeviceTypeFunc = func(int) (nvml.IntNvLinkDeviceType, nvml.Return) {
			return nvml.NVLINK_DEVICE_TYPE_SWITCH, nvml.SUCCESS
		}
		m.GetFieldValuesFunc = func(v []nvml.FieldValue) nvml.Return {
			binary.NativeEndian.PutUint32(v[0].Value[:4], 26562)
			return nvml.SUCCESS
		}
		m.GetP2PStatusFunc = func(_ nvml.Device, c nvml.GpuP2PCapsIndex) (nvml.GpuP2PStatus, nvml.Return) {
			if c == nvml.P2P_CAPS_INDEX_PCI {
				return nvml.P2P_STATUS_CHIPSET_NOT_SUPPORTED, nvml.SUCCESS
			}
			return nvml.P2P_STATUS_OK, nvml.SUCCESS
		}
		m.GetGpuFabricInfoFunc = func() (nvml.GpuFabricInfo, nvml.Return) {
			return nvml.GpuFabricInfo{State: nvml.GPU_FABRIC_STATE_IN_PROGRESS}, nvml.SUCCESS
		}
	}
	a := read(lib)
	active := func(i int) (n int) {
		for _, l := range a.GPUs[i].Links {
			if l.Active {
				n++
			}
		}
		return n
	}
	if len(a.GPUs[0].Links) != 18 || active(0) != 18 || active(3) != 17 {
		t.Errorf("%d slots, %d and %d active", len(a.GPUs[0].Links), active(0), active(3))
	}
	l := a.GPUs[0].Links[0]
	if l.Remote != "switch" || l.BytesPS == nil || *l.BytesPS != 26562e6 || l.Version != nil {
		t.Errorf("%+v", l)
	}
	if p := a.GPUs[0].Peers; len(p) != 7 {
		t.Errorf("%d peers", len(p))
	} else if s := p[a.GPUs[1].BDF]; s.Read != "ok" || s.PCI != "chipset not supported" {
		t.Errorf("%+v", s)
	}
	if a.GPUs[0].Fabric != "in progress" {
		t.Errorf("fabric %q", a.GPUs[0].Fabric)
	}
	if b := a.GPUs[0].BDF; b != "0000:a0:00.0" {
		t.Errorf("address %q is not written as /sys does", b)
	}
}

func TestNoLibraryIsAnAnswer(t *testing.T) {
	if a := (Source{Path: "/nowhere/libnvidia-ml.so.1"}).ReadNVML(); a.Error != "ERROR_LIBRARY_NOT_FOUND" || a.GPUs != nil {
		t.Errorf("%+v", a)
	}
}
