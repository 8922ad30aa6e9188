package scripts

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestARelease builds the archive for this machine and uses what is in it: the program says its version and that it has the planner, and
// its report is a page whose inputs recompute.
func TestARelease(t *testing.T) {
	if testing.Short() {
		t.Skip("a release takes a minute to build, and -short was given")
	}
	dist := filepath.Join(t.TempDir(), "dist")
	c := exec.Command("./dist.sh")
	c.Env = append(os.Environ(), "DIST="+dist, "ARCHES="+runtime.GOARCH, "VERSION=v9.8.7", "SOURCE_DATE_EPOCH=1700000000")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	archives, err := filepath.Glob(filepath.Join(dist, "hopbench-v9.8.7-linux-"+runtime.GOARCH+"*.tar.gz"))
	if err != nil || len(archives) != 1 {
		t.Fatalf("%q %v", archives, err)
	}
	b, err := os.ReadFile(archives[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	if sums, err := os.ReadFile(filepath.Join(dist, "SHA256SUMS")); err != nil || !strings.Contains(string(sums), hex.EncodeToString(sum[:])) {
		t.Errorf("SHA256SUMS: %v: %s", err, sums)
	}
	program := unpack(t, archives[0])
	version, err := exec.Command(program, "--version").Output()
	if err != nil || !strings.Contains(string(version), "hopbench v9.8.7") || !strings.Contains(string(version), "planner: built in") {
		t.Errorf("--version: %v\n%s", err, version)
	}
	page := filepath.Join(t.TempDir(), "report.html")
	c = exec.Command(program, "report", "../bench/report/testdata/typical.jsonl", "-o", page)
	if out, err := c.CombinedOutput(); err != nil || strings.Contains(string(out), "without the planner") {
		t.Errorf("report: %v\n%s", err, out)
	}
	if text, err := os.ReadFile(page); err != nil || !strings.Contains(string(text), `id="planner-wasm"`) {
		t.Errorf("the page has no planner: %v", err)
	}
}

// unpack writes the archive's program into a folder and returns its path. The other files must be those that a release has.
func unpack(t *testing.T, archive string) (program string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		have[filepath.Base(h.Name)] = true
		if filepath.Base(h.Name) != "hopbench" || h.Typeflag != tar.TypeReg {
			continue
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		program = filepath.Join(t.TempDir(), "hopbench")
		if err := os.WriteFile(program, b, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"README.md", "LICENSE", "METHOD.md"} {
		if !have[name] {
			t.Errorf("the archive has no %s", name)
		}
	}
	if program == "" {
		t.Fatal("the archive has no program")
	}
	return program
}
