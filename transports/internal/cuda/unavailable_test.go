//go:build cgo

package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"hopbench/transports/fault"
)

// A host is told apart by three facts beside the library: the kernel's driver, the PCI bus and CUDA_VISIBLE_DEVICES.
func TestUnavailableReadsTheHost(t *testing.T) {
	const version = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.163.01  Release Build  (builder@host)\nGCC version:  gcc version 12.2.0\n"
	for _, c := range []struct {
		name   string
		kernel string
		gpus   int
		state  State
		code   fault.Code
		want   string
	}{
		{"nothing", "", 0, NoLibrary, fault.GPUNone, "no NVIDIA GPU is on the PCI bus"},
		{"driver not installed", "", 2, NoLibrary, fault.GPUDriver, "2 NVIDIA GPUs are on the PCI bus"},
		{"library not mounted", version, 1, NoLibrary, fault.GPULibrary, "the kernel runs NVIDIA driver 550.163.01 but its user library cannot be loaded"},
		{"module not loaded", "", 1, NoDevice, fault.GPUDriver, "the kernel module nvidia is not loaded, and one NVIDIA GPU is on the PCI bus"},
		{"no node given", version, 1, NoDevice, fault.GPUNode, "the kernel runs driver 550.163.01, so no device node"},
		{"mismatch", version, 1, DriverMismatch, fault.GPUMismatch, "library 550.90.07 beside kernel driver 550.163.01"},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := t.TempDir()
			write := func(path, text string) {
				path = filepath.Join(root, path)
				if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
					t.Fatal(err)
				}
			}
			if c.kernel != "" {
				write("proc/driver/nvidia/version", c.kernel)
			}
			for i := range c.gpus {
				dir := "sys/bus/pci/devices/0000:0" + string(rune('1'+i)) + ":00.0/"
				write(dir+"vendor", "0x10de\n")
				write(dir+"class", "0x030200\n")
			}
			write("sys/bus/pci/devices/0000:09:00.0/vendor", "0x10de\n")
			write("sys/bus/pci/devices/0000:09:00.0/class", "0x040300\n") // its sound function
			write("lib/libcuda.so.550.90.07", "")
			if err := os.Symlink("libcuda.so.550.90.07", filepath.Join(root, "lib/libcuda.so.1")); err != nil {
				t.Fatal(err)
			}
			u := &Unavailable{State: c.state, Library: filepath.Join(root, "lib/libcuda.so.1"), Kernel: kernelDriver(root), OnBus: onBus(root), Detail: "the loader's words"}
			if !strings.Contains(u.Error(), c.want) {
				t.Errorf("%q lacks %q", u, c.want)
			}
			if got := fault.CodeOf(Fault(u, "open", "")); got != c.code {
				t.Errorf("code %s, want %s", got, c.code)
			}
		})
	}
	_, err := openAt("/nowhere/libcuda.so.1", t.TempDir())
	if fault.CodeOf(Fault(err, "open", "")) != fault.GPUNone {
		t.Errorf("got %v", err)
	}
}
