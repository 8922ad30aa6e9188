package scripts

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lazy is what dist.sh and the Makefile tell the linker. go-nvml leaves the library's functions to the first call: bound at the start they would keep
// the program from starting on every machine without NVIDIA's library.
const lazy = "-Wl,-z,lazy"

// bound says whether a program asks to be bound at its start.
func bound(t *testing.T, path string) bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for tag, flag := range map[elf.DynTag]uint64{elf.DT_FLAGS: uint64(elf.DF_BIND_NOW), elf.DT_FLAGS_1: uint64(elf.DF_1_NOW)} {
		values, err := f.DynValue(tag)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range values {
			if v&flag != 0 {
				return true
			}
		}
	}
	now, err := f.DynValue(elf.DT_BIND_NOW)
	return err == nil && len(now) > 0
}

// A toolchain that binds at once (hardened distributions do) must still give a program that starts anywhere.
func TestReleasedBuildBindsLate(t *testing.T) {
	for _, name := range []string{"dist.sh", "../Makefile"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "-extldflags="+lazy) {
			t.Errorf("%s does not link with %s", name, lazy)
		}
	}
	build := func(told string) string {
		path := filepath.Join(t.TempDir(), "hopbench")
		// What a hardened toolchain says to its linker stands before what it is told.
		c := exec.Command("go", "build", "-ldflags", `-extldflags "-Wl,-z,now `+told+`"`, "-o", path, "hopbench/bench")
		if b, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
		return path
	}
	version := func(path string, env ...string) (string, error) {
		c := exec.Command(path, "--version")
		c.Env = append(os.Environ(), env...)
		b, err := c.CombinedOutput()
		return string(b), err
	}
	released := build(lazy)
	if bound(t, released) {
		t.Error("the released build asks to be bound at its start")
	}
	if said, err := version(released); err != nil || !strings.Contains(said, "hopbench") {
		t.Errorf("it does not start: %v\n%s", err, said)
	}
	if _, err := exec.LookPath("nvidia-smi"); err == nil {
		t.Skip("NVIDIA's library is on this machine: what its absence does is not to be seen")
	}
	// What cannot be had: under LD_BIND_NOW the loader binds everything whatever the program asks. harness/METHOD.md says so.
	if said, err := version(released, "LD_BIND_NOW=1"); err == nil || !strings.Contains(said, "undefined symbol: nvml") {
		t.Errorf("LD_BIND_NOW=1: %v\n%s", err, said)
	}
	method, err := os.ReadFile("../harness/METHOD.md")
	if err != nil || !strings.Contains(string(method), "LD_BIND_NOW=1") {
		t.Errorf("METHOD.md does not say what LD_BIND_NOW does: %v", err)
	}
	// And the guard can fail: without the flag such a toolchain's program does not start here.
	if hardened := build(""); !bound(t, hardened) {
		t.Error("the linker was told to bind at once and did not: this test shows nothing")
	} else if said, err := version(hardened); err == nil {
		t.Errorf("it starts without the library: %s", said)
	}
}
