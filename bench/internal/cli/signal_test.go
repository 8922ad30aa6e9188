package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"hopbench/results"
)

// A read that nothing ends does not keep a command whose context has ended.
func TestSignalEndsARead(t *testing.T) {
	for _, args := range [][]string{{"table", "-"}, {"import", "-"}, {"report", "-", "-o", "-"}, {"doctor", "--log", "-"}} {
		in, keep := io.Pipe()
		defer keep.Close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		env, _, _ := worldOf(t, nil, "")
		env.Stdin, env.Context = in, ctx
		var errs bytes.Buffer
		env.Stderr = &errs
		if code := Run(env, args); code != interrupted && code != 1 {
			t.Errorf("%v: status %d: %s", args, code, errs.String())
		}
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, unix.ENOSPC }

func TestStandardOutputFull(t *testing.T) {
	for _, args := range [][]string{{"run", "--help"}, {"--version"}, {"kv", "--list"}} {
		env, _, errs := worldOf(t, nil, "")
		env.Stdout = fullDisk{}
		if code := Run(env, args); code != 1 || !bytes.Contains([]byte(errs.String()), []byte("no space left")) {
			t.Errorf("%v: status %d: %s", args, code, errs.String())
		}
	}
}

func TestOutputWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := writeNew(path, "--out", false, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if err := writeNew(path, "--out", false, []byte("two")); status(err) != 2 {
		t.Errorf("it exists: %v", err)
	}
	if err := writeNew(path, "--out", true, []byte("two")); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "two" {
		t.Errorf("%q, %v", b, err)
	}
	if names, _ := os.ReadDir(dir); len(names) != 1 {
		t.Errorf("left beside: %v", names)
	}
	if err := writeNew("/dev/full", "--out", true, []byte("x")); status(err) != 1 || !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full device: %v", err)
	}
}

func TestRunIntoABusyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	w, err := results.Create(path, results.Refuse, &results.Header{ToolVersion: "dev"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close(results.StateComplete, "")
	before, _ := os.ReadFile(path)
	env, _, errs := worldOf(t, nil, "")
	env.Stdin = bytes.NewReader(before)
	for _, how := range []string{"--append", "--force"} {
		code := Run(env, []string{"run", "--transport", "loopback", "--sizes", "64", "--rounds", "5", "--round", "20ms", "--out", path, how})
		if code != 2 || !bytes.Contains([]byte(errs.String()), []byte("another run is writing")) {
			t.Errorf("%s: status %d: %s", how, code, errs.String())
		}
	}
	if err := writeNew(path, "--out", true, []byte("another")); status(err) != 2 || !errors.Is(err, results.ErrBusy) {
		t.Errorf("another file in its place: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the file of the first run changed")
	}
}

// TestImportIsWholeOrNothing: a disk that is full leaves no part of a file, and what stood there before stays.
func TestImportIsWholeOrNothing(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skip("a small file system of its own takes root: ", err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	out := filepath.Join(dir, "a.jsonl")
	if err := os.WriteFile(out, []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	args := []string{"import", "-o", out, "--force"}
	for range 40 {
		args = append(args, "../../../results/foreign/testdata/iperf3-loopback.json")
	}
	var env Env
	var stdout, stderr bytes.Buffer
	env.Stdout, env.Stderr, env.Now, env.Getenv = &stdout, &stderr, time.Now, os.Getenv
	if code := Run(&env, args); code != 1 || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("status %d: %s", code, stderr.String())
	}
	left, _ := os.ReadDir(dir)
	if text, _ := os.ReadFile(out); string(text) != "before" || len(left) != 1 {
		t.Errorf("%d files, and %.60q", len(left), text)
	}
}
