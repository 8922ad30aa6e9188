package results

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestOneWriterAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.jsonl")
	h := &Header{ToolVersion: "dev", Started: time.Now()}
	w, err := Create(path, Refuse, h)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	for _, mode := range []Mode{Append, Overwrite} {
		if _, err := Create(path, mode, h); !errors.Is(err, ErrBusy) {
			t.Errorf("mode %d beside a writer: %v", mode, err)
		}
	}
	if err := Busy(path); !errors.Is(err, ErrBusy) {
		t.Errorf("a file that is being written: %v", err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Errorf("a refused writer changed the file")
	}
	if err := w.Close(StateComplete, ""); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(Busy(path), Busy(path+".none")); err != nil {
		t.Errorf("files that nobody writes: %v", err)
	}
	if w, err = Create(path, Append, h); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(StateComplete, ""); err != nil {
		t.Fatal(err)
	}
}

func TestNoPipeIsAResultFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Skip(err)
	}
	for _, mode := range []Mode{Append, Overwrite} {
		if _, err := Create(path, mode, &Header{ToolVersion: "dev"}); err == nil {
			t.Errorf("mode %d took a pipe", mode)
		}
	}
}
