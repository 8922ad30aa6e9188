package cuda

// #include "shim.h"
import "C"

import (
	"fmt"
	"strconv"
	"strings"
	"unsafe"
)

// Attributes of the CUDA driver API (CUdevice_attribute), as far as they are read here.
const (
	attrGPUDirectRDMA   = 116
	attrFlushOptions    = 117
	attrWritesOrdering  = 118
	attrDMABufSupported = 124
	attrAsyncEngines    = 40
	attrComputeMajor    = 75
	attrComputeMinor    = 76
)

// Devices lists the visible GPUs in ordinal order.
func (l *Library) Devices() ([]Device, error) {
	var n C.int
	if err := l.check("cuDeviceGetCount", C.hb_cuDeviceGetCount(l.table, &n)); err != nil {
		return nil, err
	}
	all := make([]Device, 0, n)
	for i := range int(n) {
		d, err := l.device(i)
		if err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
		all = append(all, d)
	}
	return all, nil
}

func (l *Library) device(ordinal int) (Device, error) {
	d := Device{Ordinal: ordinal}
	var h C.hb_device
	if err := l.check("cuDeviceGet", C.hb_cuDeviceGet(l.table, &h, C.int(ordinal))); err != nil {
		return d, err
	}
	var text [256]C.char
	if err := l.check("cuDeviceGetName", C.hb_cuDeviceGetName(l.table, &text[0], C.int(len(text)), h)); err != nil {
		return d, err
	}
	d.Name = C.GoString(&text[0])
	if err := l.check("cuDeviceGetPCIBusId", C.hb_cuDeviceGetPCIBusId(l.table, &text[0], C.int(len(text)), h)); err != nil {
		return d, err
	}
	d.BusID = strings.ToLower(C.GoString(&text[0]))
	var total C.size_t
	if err := l.check("cuDeviceTotalMem_v2", C.hb_cuDeviceTotalMem_v2(l.table, &total, h)); err != nil {
		return d, err
	}
	d.Bytes = uint64(total)
	// The driver names an instance after its profile: "NVIDIA A100-SXM4-40GB MIG 1g.5gb".
	d.MIG = strings.Contains(d.Name, " MIG ")
	var uuid [16]byte
	if C.hb_cuDeviceGetUuid_v2(l.table, unsafe.Pointer(&uuid[0]), h) == 0 {
		kind := "GPU"
		if d.MIG {
			kind = "MIG"
		}
		d.UUID = fmt.Sprintf("%s-%x-%x-%x-%x-%x", kind, uuid[:4], uuid[4:6], uuid[6:8], uuid[8:10], uuid[10:])
	}
	d.Compute = fmt.Sprintf("%d.%d", l.attribute(attrComputeMajor, h), l.attribute(attrComputeMinor, h))
	d.CopyEngines = l.attribute(attrAsyncEngines, h)
	d.GPUDirectRDMA = l.attribute(attrGPUDirectRDMA, h) == 1
	d.DMABuf = l.attribute(attrDMABufSupported, h) == 1
	return d, nil
}

// attribute is 0 where the driver does not know the attribute: it is older than it.
func (l *Library) attribute(which int, h C.hb_device) int {
	var v C.int
	if C.hb_cuDeviceGetAttribute(l.table, &v, C.int(which), h) != 0 {
		return 0
	}
	return int(v)
}

// Find returns the visible device that a flag names: an ordinal, a whole or unambiguous beginning of a UUID ("GPU-…",
// "MIG-…"), or a PCI bus id.
func (l *Library) Find(name string) (Device, error) {
	all, err := l.Devices()
	if err != nil {
		return Device{}, err
	}
	if i, err := strconv.Atoi(name); err == nil {
		if i < 0 || i >= len(all) {
			return Device{}, fmt.Errorf("there is no device %d: %s", i, visible(all))
		}
		return all[i], nil
	}
	var found []Device
	for _, d := range all {
		if strings.EqualFold(d.BusID, name) || (strings.Contains(name, "-") && strings.HasPrefix(strings.ToLower(d.UUID), strings.ToLower(name))) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 0:
		return Device{}, fmt.Errorf("there is no device %q: %s", name, visible(all))
	case 1:
		return found[0], nil
	}
	return Device{}, fmt.Errorf("device %q is ambiguous: %d UUIDs begin so", name, len(found))
}

func visible(all []Device) string {
	names := make([]string, len(all))
	for i, d := range all {
		names[i] = fmt.Sprintf("%d is %s", i, d.UUID)
	}
	return fmt.Sprintf("%d visible here (%s)", len(all), strings.Join(names, ", "))
}

// CanAccess says whether device from can reach the memory of device to. The two directions may differ.
func (l *Library) CanAccess(from, to int) (bool, error) {
	var can C.int
	err := l.check("cuDeviceCanAccessPeer", C.hb_cuDeviceCanAccessPeer(l.table, &can, C.hb_device(from), C.hb_device(to)))
	return can == 1, err
}

// PerformanceRank is the driver's ranking of the link between two devices: 0 is the best. Absent where the driver does
// not tell.
func (l *Library) PerformanceRank(from, to int) *int {
	var v C.int
	if C.hb_cuDeviceGetP2PAttribute(l.table, &v, 1, C.hb_device(from), C.hb_device(to)) != 0 {
		return nil
	}
	rank := int(v)
	return &rank
}
