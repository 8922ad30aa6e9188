package verbs

import (
	"fmt"

	"hopbench/transports/internal/ibverbs"
)

// blueFields are the network functions of BlueField DPUs by the part that the device reports, which is its PCI device number: table
// mlx5_core_pci_table of drivers/net/ethernet/mellanox/mlx5/core/main.c.
var blueFields = map[uint32]string{0xa2d2: "BlueField", 0xa2d3: "BlueField", 0xa2d6: "BlueField-2", 0xa2dc: "BlueField-3", 0xa2df: "BlueField-4"}

// vendors of those devices: what the firmware reports, an OUI, and the number on the PCI bus.
const mellanoxOUI, mellanoxPCI = 0x02c9, 0x15b3

// blueField names a DPU; empty for every other device. The description of a node, which the host chooses itself, says nothing about it.
func blueField(l ibverbs.Limits) string {
	name, ok := blueFields[l.Part]
	if !ok || l.Vendor != mellanoxOUI && l.Vendor != mellanoxPCI {
		return ""
	}
	return fmt.Sprintf("a %s DPU: its cores run an operating system of their own, whose traffic shares this port", name)
}
