// Package need says what a test needs of its host. Where that is missing the test is skipped with the reason; where the
// environment requires the kind, it fails: HOPBENCH_REQUIRE=namespaces,guest. A continuous build sets it for what its runner has
// a right to, so that a kind of test cannot disappear unseen.
//
// The reason of a skip starts with its kind, so that a run's log can be counted by it: "needs guest: ...".
package need

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Require is the environment variable that lists the kinds whose absence is a failure, with commas between them.
const Require = "HOPBENCH_REQUIRE"

// Skip is the environment variable that lists kinds whose tests are run by themselves, elsewhere: they are skipped, and say so.
const Skip = "HOPBENCH_SKIP"

// Kinds lists the kinds that can be required.
func Kinds() []string {
	return []string{"namespaces", "guest", "slurm", "mpi", "browser", "tool", "verbs", "gpu"}
}

// T is the part of testing.TB that this package uses.
type T interface {
	Helper()
	Skipf(format string, args ...any)
	Fatalf(format string, args ...any)
}

var _ T = testing.TB(nil)

// Missing ends a test that lacks something of a kind: a skip with the reason, or a failure where the kind is required.
func Missing(t T, kind, format string, args ...any) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(Require), ","), kind) {
		t.Fatalf("needs "+kind+", which "+Require+" requires: "+format, args...)
		return
	}
	t.Skipf("needs "+kind+": "+format, args...)
}

// Namespaces needs the right to make network namespaces, and iproute2 to fill them.
func Namespaces(t T) {
	t.Helper()
	ip, err := exec.LookPath("ip")
	if err != nil {
		Missing(t, "namespaces", "there is no ip command (Debian: iproute2)")
		return
	}
	// By doing: root alone is not enough in a container without CAP_SYS_ADMIN or CAP_NET_ADMIN.
	out, err := exec.Command("unshare", "--net", ip, "link", "add", "hopbench-a", "type", "veth", "peer", "name", "hopbench-b").CombinedOutput()
	if err != nil {
		Missing(t, "namespaces", "a veth pair in a network namespace of its own is refused: %v: %s", err, strings.TrimSpace(string(out)))
	}
}

// Guest needs what a virtual machine under software emulation takes: QEMU for this machine's architecture, busybox and cpio to
// make its first file system, and no -short.
func Guest(t T) {
	t.Helper()
	if slices.Contains(strings.Split(os.Getenv(Skip), ","), "guest") {
		t.Skipf("needs guest: left to scripts/test-verbs.sh by " + Skip)
		return
	}
	if testing.Short() {
		t.Skipf("needs guest: a virtual machine under emulation takes minutes, and -short was given")
		return
	}
	qemu := map[string]string{"amd64": "qemu-system-x86_64", "arm64": "qemu-system-aarch64"}[runtime.GOARCH]
	if qemu == "" {
		Missing(t, "guest", "no guest is made for %s", runtime.GOARCH)
		return
	}
	for _, tool := range []string{qemu, "busybox", "cpio"} {
		if _, err := exec.LookPath(tool); err != nil {
			Missing(t, "guest", "there is no %s", tool)
			return
		}
	}
}

// Slurm needs the programs of a Slurm cluster on this machine, and the right to namespaces, in which it is started.
func Slurm(t T) {
	t.Helper()
	for _, tool := range []string{"munged", "slurmctld", "slurmd", "srun", "sbatch"} {
		if find(tool) == "" {
			Missing(t, "slurm", "there is no %s (Debian: munge, slurmctld, slurmd, slurm-client)", tool)
			return
		}
	}
	Namespaces(t)
}

// MPI needs the launcher of an MPI, and returns its path: "Open MPI" or "MPICH".
func MPI(t T, which string) string {
	t.Helper()
	name, debian := "mpirun.openmpi", "openmpi-bin"
	if which == "MPICH" {
		name, debian = "mpiexec.hydra", "mpich"
	}
	path := find(name)
	if path == "" {
		Missing(t, "mpi", "there is no %s (Debian: %s)", name, debian)
	}
	return path
}

// Browser needs a Chromium, and returns its path.
func Browser(t T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, "browser", "there is no chromium (Debian: chromium)")
	return ""
}

// Tool needs a program, and returns its path.
func Tool(t T, name string) string {
	t.Helper()
	path := find(name)
	if path == "" {
		Missing(t, "tool", "there is no %s", name)
	}
	return path
}

// find is the path of a program, or "".
func find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} { // not on every user's path
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}
