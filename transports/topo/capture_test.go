package topo

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCaptureTellsWhatTheHostTells captures this machine and reads it back: the facts are the same, and nothing of the
// environment but the steering variables is in the archive.
func TestCaptureTellsWhatTheHostTells(t *testing.T) {
	script, err := filepath.Abs("../../scripts/capture.sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := exec.LookPath("readlink"); err != nil {
		t.Skipf("needs coreutils: %v", err)
	}
	cmd := exec.Command("sh", script)
	cmd.Env = append(os.Environ(), "UCX_TLS=rc", "HOPBENCH_TOKEN=hush-hush", "NCCL_SECRET=hush-hush", "DATABASE_PASSWORD=hush-hush")
	var errs strings.Builder
	cmd.Stderr = &errs
	b, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	if strings.Contains(string(b), "hush-hush") {
		t.Error("a value of the environment that steers nothing is in the archive")
	}
	if name, err := os.Hostname(); err == nil && len(name) > 3 && strings.Contains(string(b), name) {
		t.Error("the host's name is in the archive")
	}
	tr, err := ParseArchive("capture", b)
	if err != nil {
		t.Fatal(err)
	}
	got := tr.Read(Options{})
	want, err := Read("/", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got.Kernel != want.Kernel || len(got.NUMA) != len(want.NUMA) || len(got.RDMA.Devices) != len(want.RDMA.Devices) || got.RDMA.Class != want.RDMA.Class {
		t.Errorf("kernel %q, %d NUMA nodes, %d RDMA devices; the host has %q, %d, %d", got.Kernel, len(got.NUMA), len(got.RDMA.Devices), want.Kernel, len(want.NUMA), len(want.RDMA.Devices))
	}
	if !slices.ContainsFunc(got.Env, func(v EnvVar) bool { return v.Name == "UCX_TLS" && v.Value == "rc" }) {
		t.Errorf("steering variables: %v", got.Env)
	}
	for _, d := range want.Net {
		g := got.NetDev(d.Name)
		if g == nil || g.Virtual != d.Virtual || g.Driver != d.Driver || (g.MTU == nil) != (d.MTU == nil) {
			t.Errorf("interface %s: captured as %+v, is %+v", d.Name, g, d)
		}
	}
	for _, d := range want.PCI {
		g := got.Function(d.BDF)
		if g == nil || g.Driver != d.Driver || !slices.Equal(g.Path, d.Path) {
			t.Errorf("function %s: captured as %+v, is %+v", d.BDF, g, d)
		}
	}
	if p, q := got.Process, want.Process; p.UID == nil || *p.UID != *q.UID || p.MemlockSoft == nil || *p.MemlockSoft != *q.MemlockSoft || *p.CapBnd != *q.CapBnd {
		t.Errorf("process: captured as %+v, is %+v", p, q)
	}
}
