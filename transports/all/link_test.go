package all

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// lazy is what the Makefile builds with. go-nvml leaves NVML's functions undefined until its library is loaded, so the program starts
// only where the loader binds functions at their first call; a tool chain whose default is -z now would end it before main.
const lazy = "-ldflags=-extldflags=-Wl,-z,lazy"

func program(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("links the whole program, which takes some seconds")
	}
	path := filepath.Join(t.TempDir(), "hopbench")
	if out, err := exec.Command("go", "build", lazy, "-o", path, "hopbench/bench").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	return path
}

// The program names no vendor's library and binds lazily: it starts on every machine and says what is missing.
func TestProgramStartsWithoutForeignLibraries(t *testing.T) {
	path := program(t)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	needed, err := f.ImportedLibraries()
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range needed {
		for _, foreign := range []string{"libcuda", "libnvidia", "libibverbs", "librdmacm", "libmlx5"} {
			if strings.HasPrefix(lib, foreign) {
				t.Errorf("the program needs %s to start", lib)
			}
		}
	}
	flags, _ := f.DynValue(elf.DT_FLAGS)
	flags1, _ := f.DynValue(elf.DT_FLAGS_1)
	now, _ := f.DynValue(elf.DT_BIND_NOW)
	for _, v := range flags {
		if elf.DynFlag(v)&elf.DF_BIND_NOW != 0 {
			t.Error("DT_FLAGS has BIND_NOW")
		}
	}
	for _, v := range flags1 {
		if elf.DynFlag1(v)&elf.DF_1_NOW != 0 {
			t.Error("DT_FLAGS_1 has NOW")
		}
	}
	if len(now) > 0 {
		t.Error("DT_BIND_NOW is set")
	}
	c := exec.Command(path, "--version")
	c.Env = append(os.Environ(), "LD_LIBRARY_PATH=")
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("the program does not start: %v\n%s", err, out)
	}
	// What cannot be had: with LD_BIND_NOW in the environment the loader binds at once whatever the program says.
	c = exec.Command(path, "--version")
	c.Env = append(os.Environ(), "LD_BIND_NOW=1")
	if out, err := c.CombinedOutput(); err == nil {
		t.Log("the program starts under LD_BIND_NOW too: README and METHOD say that it does not")
	} else if !strings.Contains(string(out), "undefined symbol: nvml") {
		t.Errorf("under LD_BIND_NOW: %v\n%s", err, out)
	}
}

// The linker is told to let NVML's functions be undefined, and so would let a slip of our own pass: what is undefined is NVML's or a library's.
func TestNothingOfOursIsUndefined(t *testing.T) {
	path := program(t)
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.DynamicSymbols()
	if err != nil {
		t.Fatal(err)
	}
	nvml := 0
	for _, s := range symbols {
		if s.Section != elf.SHN_UNDEF || elf.ST_BIND(s.Info) == elf.STB_WEAK {
			continue
		}
		switch {
		case strings.HasPrefix(s.Name, "nvml"):
			nvml++
		case s.Version == "":
			t.Errorf("%s is undefined and no library has it", s.Name)
		}
	}
	if nvml == 0 {
		t.Log("no function of NVML is undefined: the binding has changed, and -z lazy may not be needed any more")
	}
}
