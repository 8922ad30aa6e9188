// Package topo reads what a host has: PCI tree, NUMA nodes, network and RDMA devices, GPUs, limits, and the place (host,
// container, pod) from which they are seen.
//
// One reader works over a [Tree]: the running host, a folder that holds a copy of /sys, /proc and /dev, or a text archive
// made by scripts/capture.sh. It decides nothing: [Host] is what was read, and where a thing could not be read, why. A fact
// that is absent is nil or missing, never zero; one unreadable device never hides another; each refused read is kept in
// [Host.Errors], so that a reader of the facts can tell "not there" from "could not tell".
//
// Speeds are bits per second, sizes bytes, PCI link speeds gigatransfers per second.
package topo
