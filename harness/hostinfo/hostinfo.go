// Package hostinfo reads the fingerprint of a host that goes into every result: what a reader must know to judge a figure and to
// tell two hosts apart. What cannot be read is absent.
package hostinfo

import (
	"bufio"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"hopbench/results"
	"hopbench/transports/topo"
)

// Read reads this host. The error says that not even its name could be read.
func Read() (results.Host, error) {
	name, err := os.Hostname()
	if err != nil {
		return results.Host{}, err
	}
	h := results.Host{
		Hostname: name, Architecture: runtime.GOARCH, GoVersion: runtime.Version(),
		OS:                value("/etc/os-release", "PRETTY_NAME", "="),
		CPUModel:          value("/proc/cpuinfo", "model name", ":"),
		CongestionControl: text("/proc/sys/net/ipv4/tcp_congestion_control"),
		ClockSource:       text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
		Governor:          text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		h.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) == nil {
		n := int64(set.Count())
		h.CPUs = &n
	}
	if n, err := filepath.Glob("/sys/devices/system/node/node[0-9]*"); err == nil && len(n) > 0 {
		nodes := int64(len(n))
		h.NUMANodes = &nodes
	}
	if kib, err := strconv.ParseInt(strings.TrimSuffix(value("/proc/meminfo", "MemTotal", ":"), " kB"), 10, 64); err == nil {
		b := kib << 10
		if limit, err := strconv.ParseInt(text("/sys/fs/cgroup/memory.max"), 10, 64); err == nil && limit < b {
			b = limit
		}
		h.MemoryBytes = &b
	}
	var res unix.Timespec
	if unix.ClockGetres(unix.CLOCK_MONOTONIC, &res) == nil {
		s := float64(res.Nano()) / 1e9
		h.ClockResolution = &s
	}
	h.Virtualisation = virtualisation()
	if t, err := topo.Read("/", topo.Options{}); err == nil {
		fromTopo(&h, t)
	}
	return h, nil
}

// Emulated says whether the host's processor is emulated in software, so that its speeds say nothing about silicon.
func Emulated(h results.Host) bool { return h.Virtualisation == "qemu-tcg" }

// virtualisation tells a virtual machine by what the firmware and the processor say of themselves.
func virtualisation() string {
	vendor, product := text("/sys/class/dmi/id/sys_vendor"), text("/sys/class/dmi/id/product_name")
	flags, model := value("/proc/cpuinfo", "flags", ":"), value("/proc/cpuinfo", "model name", ":")
	hypervisor := strings.Contains(" "+flags+" ", " hypervisor ")
	kvm := text("/sys/devices/system/clocksource/clocksource0/available_clocksource")
	switch {
	case strings.Contains(model, "QEMU TCG"), strings.HasPrefix(vendor, "QEMU") && !strings.Contains(kvm, "kvm-clock"):
		return "qemu-tcg" // under KVM a guest has the paravirtual clock; under software emulation it has none
	case strings.Contains(kvm, "kvm-clock"):
		return "kvm"
	case strings.HasPrefix(vendor, "VMware"):
		return "vmware"
	case strings.HasPrefix(vendor, "Microsoft") && strings.Contains(product, "Virtual"):
		return "hyper-v"
	case strings.HasPrefix(vendor, "Amazon EC2") && hypervisor:
		return "kvm"
	case hypervisor:
		return "unknown hypervisor"
	case flags != "":
		return "none"
	}
	return ""
}

func fromTopo(h *results.Host, t *topo.Host) {
	h.Container = t.Container.Kind
	if t.Container.Pod {
		h.Container = "pod"
	}
	h.ContainerEvidence = strings.Join(t.Container.Evidence, "; ")
	for _, d := range t.Net {
		virtual := d.Virtual
		n := results.NIC{Device: d.Name, Driver: d.Driver, PCI: d.BDF, MTUBytes: wide(d.MTU), NUMANode: wide(d.NUMA), Virtual: &virtual}
		if d.BitsPS != nil {
			rate := int64(*d.BitsPS)
			n.RateBitsPerSecond = &rate
		}
		h.NICs = append(h.NICs, n)
	}
}

func wide(n *int) *int64 {
	if n == nil {
		return nil
	}
	w := int64(*n)
	return &w
}

// text is a file's content without blanks around it, or "".
func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// value is what follows a key on its line of a file, without quotes.
func value(path, key, separator string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if k, v, ok := strings.Cut(scan.Text(), separator); ok && strings.TrimSpace(k) == key {
			return strings.Trim(strings.TrimSpace(v), `"`)
		}
	}
	return ""
}
