// Package cudatest gives tests a CUDA driver on machines without a GPU: it builds the double of libcuda from
// ../testdata/fakecuda and loads it. What the double can be told is written at the head of fake.h there.
package cudatest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"hopbench/transports/internal/cuda"
)

// Prebuilt is the environment variable that names a double which is built already: a compiler takes minutes in an emulated machine.
const Prebuilt = "HOPBENCH_FAKECUDA"

var built = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(Prebuilt); path != "" {
		return path, nil
	}
	_, here, _, _ := runtime.Caller(0)
	sources, err := filepath.Glob(filepath.Join(filepath.Dir(here), "../testdata/fakecuda/*.c"))
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "fakecuda")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, cuda.DefaultLibrary)
	// nodelete: its stream threads outlive a dlclose.
	args := append([]string{"-O2", "-Wall", "-Wextra", "-Werror", "-fPIC", "-shared", "-pthread",
		"-Wl,-soname," + cuda.DefaultLibrary, "-Wl,-z,nodelete", "-Wl,-z,defs", "-o", path}, sources...)
	out, err := exec.Command("gcc", args...).CombinedOutput()
	if err != nil {
		os.Stderr.Write(out)
		return "", err
	}
	return path, nil
})

// Library builds the double once a process and returns its path. A process started with its directory in
// LD_LIBRARY_PATH loads it as its driver.
func Library(tb testing.TB) string {
	tb.Helper()
	path, err := built()
	if err != nil {
		tb.Fatalf("build the double of libcuda with gcc: %v", err)
	}
	return path
}

// Load sets the environment for the double ("FAKECUDA_DEVICES", "4", ...) and loads it into this process, where it
// then answers to the driver's own name: code that opens [cuda.DefaultLibrary] gets it. The configuration holds until the test
// ends, and is read when the first context is retained: contexts of earlier tests must be closed.
func Load(tb testing.TB, env ...string) *cuda.Library {
	tb.Helper()
	for i := 0; i+1 < len(env); i += 2 {
		tb.Setenv(env[i], env[i+1])
	}
	lib, err := cuda.Open(Library(tb))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(lib.Close)
	return lib
}

// Clear ends what was injected (FAKECUDA_FAIL, FAKECUDA_FAIL_COPY) so that what the test made can be given back.
func Clear(tb testing.TB) {
	tb.Helper()
	tb.Setenv("FAKECUDA_FAIL", "")
	tb.Setenv("FAKECUDA_FAIL_COPY", "")
	lib, err := cuda.Open(Library(tb))
	if err != nil {
		tb.Fatal(err)
	}
	lib.Close()
}
