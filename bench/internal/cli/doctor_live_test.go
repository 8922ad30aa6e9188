package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"hopbench/harness/doctor"
	"hopbench/transports/fault"
)

// childArgs makes the test binary be the command: a process that can be given other mounts, limits and capabilities.
const childArgs = "HOPBENCH_TEST_DOCTOR"

func TestMain(m *testing.M) {
	if os.Getenv(childArgs) != "" {
		env := &Env{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Drivers: patients(), Getenv: os.Getenv}
		os.Exit(Run(env, strings.Fields(os.Getenv(childArgs))))
	}
	os.Exit(m.Run())
}

// TestDoctorLive gives the doctor a running host that really is so: in a mount namespace of its own /sys is that of a host
// with one RoCE port and /dev/infiniband holds real nodes; limits, users and capabilities are the kernel's.
func TestDoctorLive(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for mounts and capabilities")
	}
	for _, tool := range []string{"unshare", "prlimit", "setpriv", "mount", "mknod"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("needs %s: %v", tool, err)
		}
	}
	if out, err := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt && mknod /mnt/null c 1 3").CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody mount: %v: %s", err, out)
	}
	sys, several := materialise(t, "single-roce"), materialise(t, "partial-nodes")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The program must be readable by another user.
	bin := filepath.Join(sys, "doctor.test")
	if out, err := exec.Command("cp", self, bin).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, d := range []string{sys, several} {
		for ; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
			_ = os.Chmod(d, 0o755)
		}
	}
	const nobody = "setpriv --reuid=65534 --regid=65534 --clear-groups"
	const nodes = "mkdir -p /dev/infiniband && mknod -m MODE /dev/infiniband/uverbs0 c 1 3"
	for _, c := range []struct {
		name, nodes, as string
		verdict         doctor.Verdict
		code            fault.Code // of a finding that must be there; empty: no memlock finding and no failure
		evidence        string
	}{
		{"root", strings.Replace(nodes, "MODE", "666", 1), "", doctor.Usable, "", ""},
		{"no node", "true", "", doctor.Unusable, fault.RDMANoNode, "ENOENT"},
		{"node of another user", strings.Replace(nodes, "MODE", "600", 1), nobody, doctor.Unusable, fault.RDMANodeRefused, "EACCES, mode 0600"},
		{"no such device behind the node", "mkdir -p /dev/infiniband && mknod -m 666 /dev/infiniband/uverbs0 c 231 192", "", doctor.Unusable, fault.RDMANoNode, "ENXIO"},
		{"granted and not effective", strings.Replace(nodes, "MODE", "666", 1), "prlimit --memlock=65536 setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all,+ipc_lock", doctor.Unusable, fault.RDMAMemlockBound, "65536 bytes"},
		{"capability dropped", strings.Replace(nodes, "MODE", "666", 1), "prlimit --memlock=65536 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock", doctor.Unusable, fault.RDMAMemlock, "65536 bytes"},
		{"limit that may be raised", strings.Replace(nodes, "MODE", "666", 1), "prlimit --memlock=65536:1048576 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock", doctor.Unusable, fault.RDMAMemlock, "1048576 bytes"},
		// Two of four nodes are passed, by bind mounts, as a container runtime does it.
		{"some nodes", "HOST=" + several + "; rm -rf /sys/*; cp -a $HOST/sys/. /sys/; mkdir -p /dev/infiniband /all; mount -t tmpfs none /all; for n in 0 1 2 3; do mknod -m 666 /all/uverbs$n c 1 3; done; " +
			"for n in 0 2; do touch /dev/infiniband/uverbs$n; mount --bind /all/uverbs$n /dev/infiniband/uverbs$n; done", "", doctor.Usable, fault.RDMANoNode, "ENOENT"},
		// The group of this test may not open c 1:5, whatever the node's mode: that is EPERM, and not EACCES.
		{"refused by the device cgroup", "mkdir -p /dev/infiniband && mknod -m 666 /dev/infiniband/uverbs0 c 1 5", "", doctor.Unusable, fault.RDMANodeRefused, "EPERM, mode 0666"},
		{"no sys", strings.Replace(nodes, "MODE", "666", 1) + "; mount -t tmpfs none /sys", "", doctor.Unusable, fault.RDMANoStack, "absent"},
		{"hidden class folder", strings.Replace(nodes, "MODE", "666", 1) + "; mount -t tmpfs none /sys/class/infiniband", "", doctor.Unusable, fault.RDMANoDevice, "empty"},
		{"a state that may not be read", strings.Replace(nodes, "MODE", "666", 1) + "; chmod 000 /sys/class/infiniband/mlx5_0/ports/1/state", nobody, doctor.Unknown, fault.RDMAUnreadable, "EACCES"},
		{"nodes on a mount without devices", "mkdir -p /dev/infiniband; mount -t tmpfs -o nodev none /dev/infiniband; mknod -m 666 /dev/infiniband/uverbs0 c 1 3", "", doctor.Unusable, fault.RDMANodeRefused, "EACCES, mode 0666"},
		{"capability dropped, limit between", strings.Replace(nodes, "MODE", "666", 1), "prlimit --memlock=8388608 setpriv --bounding-set=-ipc_lock --inh-caps=-ipc_lock", doctor.Usable, fault.RDMAMemlock, "8388608 bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			script := "set -e; mount -t tmpfs none /sys; cp -a " + sys + "/sys/. /sys/; mount -t tmpfs none /dev; " +
				"mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9; " + c.nodes + "; exec " + c.as + " " + bin
			transport, args := "roce", []string{"unshare", "-m", "--propagation", "private", "sh", "-c", script}
			switch c.name {
			case "some nodes":
				transport = "infiniband"
			case "refused by the device cgroup":
				args = append([]string{"sh", "-c", "echo 0 > " + deviceGroup(t, "c 1:5 rw") + "/cgroup.procs && exec \"$@\"", "sh"}, args...)
			}
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Env = append(os.Environ(), childArgs+"=doctor --json --transport "+transport)
			var errs strings.Builder
			cmd.Stderr = &errs
			out, err := cmd.Output()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			var r doctor.Report
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatalf("%v\n%s%s", err, out, errs.String())
			}
			if want := map[doctor.Verdict]int{doctor.Usable: 0, doctor.Unusable: 3, doctor.Unknown: 3}[c.verdict]; cmd.ProcessState.ExitCode() != want {
				t.Errorf("exit %d, want %d", cmd.ProcessState.ExitCode(), want)
			}
			if r.Transports[0].Verdict != c.verdict {
				t.Errorf("verdict %s, want %s", r.Transports[0].Verdict, c.verdict)
			}
			found := c.code == ""
			for _, f := range r.Transports[0].Findings {
				if c.code == "" && f.Severity != fault.OK && (f.Severity == fault.Fail || strings.HasPrefix(string(f.Code), "verbs.memlock")) {
					t.Errorf("%s: %s", f.Code, f.Summary)
				}
				if f.Code == c.code {
					for _, e := range f.Evidence {
						found = found || strings.Contains(e.Got, c.evidence)
					}
				}
			}
			if !found {
				t.Errorf("no %s with %q in\n%s", c.code, c.evidence, out)
			}
		})
	}
}

// TestCaptureOfAHost runs capture.sh where /sys and /dev are those of a host with RDMA devices, and holds what is read back to what
// the doctor says there.
func TestCaptureOfAHost(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root for mounts")
	}
	if out, err := exec.Command("unshare", "-m", "sh", "-c", "mount -t tmpfs none /mnt && mknod /mnt/null c 1 3").CombinedOutput(); err != nil {
		t.Skipf("this machine lets nobody mount: %v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script, err := filepath.Abs("../../../scripts/capture.sh")
	if err != nil {
		t.Fatal(err)
	}
	for host, transport := range map[string]string{"single-roce": "roce", "macvlan-holes": "roce", "partial-nodes": "infiniband", "roce-bond": "roce"} {
		t.Run(host, func(t *testing.T) {
			sys, capture := materialise(t, host), filepath.Join(t.TempDir(), "host.txtar")
			in := "set -e; mount -t tmpfs none /sys; cp -a " + sys + "/sys/. /sys/; mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; mknod -m 666 /dev/urandom c 1 9; " +
				"mkdir /dev/infiniband; for u in /sys/class/infiniband_verbs/*; do mknod -m 666 /dev/infiniband/${u##*/} c 1 3; done; " +
				"sh " + script + " --addresses >" + capture + "; exec " + self
			look := func(args ...string) (r doctor.Report) {
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Env = append(os.Environ(), childArgs+"=doctor --json --transport "+transport)
				if len(args) == 1 {
					cmd.Env = append(cmd.Env, childArgs+"=doctor --json --transport "+transport+" --root "+capture)
				}
				out, err := cmd.Output()
				var exit *exec.ExitError
				if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 3) {
					t.Fatalf("%v: %s", err, exit.Stderr)
				}
				if err := json.Unmarshal(out, &r); err != nil {
					t.Fatal(err)
				}
				return r
			}
			live := look("unshare", "-m", "--propagation", "private", "sh", "-c", in)
			back := look(self)
			say := func(r doctor.Report) (out []string) {
				for _, x := range r.Transports {
					out = append(out, x.Name+" "+string(x.Verdict))
					for _, f := range x.Findings {
						if f.Severity != fault.OK {
							out = append(out, string(f.Code)+" "+string(f.Severity))
						}
					}
				}
				for _, p := range r.Ports {
					gid := -1
					if p.GIDIndex != nil {
						gid = *p.GIDIndex
					}
					out = append(out, fmt.Sprint(p.Device, p.Port, p.Verdict, p.LinkLayer, gid, p.GID, p.GIDType, p.NetDev, p.UVerbs, p.Codes))
				}
				return out
			}
			if a, b := say(live), say(back); !slices.Equal(a, b) || len(live.Ports) == 0 {
				t.Errorf("live:\n%s\ncaptured:\n%s", strings.Join(a, "\n"), strings.Join(b, "\n"))
			}
		})
	}
}

// deviceGroup makes a control group whose processes may not open some devices, and returns its folder.
func deviceGroup(t *testing.T, deny string) string {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		if len(f) < 4 || f[2] != "cgroup" || !slices.Contains(strings.Split(f[3], ","), "devices") {
			continue
		}
		dir, err := os.MkdirTemp(f[1], "hopbench-test-")
		if err == nil {
			t.Cleanup(func() { os.Remove(dir) })
			err = os.WriteFile(filepath.Join(dir, "devices.deny"), []byte(deny), 0o200)
		}
		if err != nil {
			t.Skipf("no device cgroup may be made here: %v", err)
		}
		return dir
	}
	t.Skip("there is no device cgroup of version 1; version 2 needs a program in BPF")
	return ""
}

// materialise writes a host's /sys into a folder, links and all.
func materialise(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	a, err := txtar.ParseFile(filepath.Join(hostFolder, name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(p string, f func(string) error) {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := f(p); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range a.Files {
		if strings.HasPrefix(f.Name, "sys/") {
			put(f.Name, func(p string) error { return os.WriteFile(p, f.Data, 0o644) })
		}
	}
	for _, f := range a.Files {
		if f.Name != ".hopbench/links" {
			continue
		}
		for line := range strings.Lines(string(f.Data)) {
			from, to, ok := strings.Cut(strings.TrimSpace(line), " -> ")
			if ok {
				put(from, func(p string) error { return os.Symlink(to, p) })
			}
		}
	}
	return dir
}
