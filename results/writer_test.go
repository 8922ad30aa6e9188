package results

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestNoNaN(t *testing.T) {
	var out bytes.Buffer
	w, err := NewWriter(&out, "test", &Header{})
	if err != nil {
		t.Fatal(err)
	}
	before := out.Len()
	for key, c := range map[string]Cell{
		"bandwidth.low":       {Bandwidth: &Bandwidth{Low: ptr(math.NaN())}},
		"bandwidth.rounds[1]": {Bandwidth: &Bandwidth{Rounds: []float64{1, math.Inf(1)}}},
		"phases_seconds.wire": {Bandwidth: &Bandwidth{}, PhasesSeconds: map[string]float64{"wire": math.Inf(-1)}},
	} {
		c.Transport, c.Status, c.Definition = "t", StatusOK, "d"
		if err := w.Cell(&c); err == nil || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
	if out.Len() != before {
		t.Error("something of a refused cell was written")
	}
	if err := w.Cell(&Cell{Transport: "t", Definition: "d", Status: StatusOK, Bandwidth: &Bandwidth{}}); err != nil {
		t.Errorf("a good cell after a refused one: %v", err)
	}
	if err := w.Close(StateComplete, ""); err != nil {
		t.Error(err)
	}
	holdToSchema(t, out.Bytes())
}

func TestWriterRefusesCells(t *testing.T) {
	w, _ := NewWriter(io.Discard, "test", &Header{})
	b, l := &Bandwidth{}, &Latency{}
	for name, c := range map[string]Cell{
		"no transport": {Status: StatusOK, Bandwidth: b}, "no status": {Transport: "t", Bandwidth: b}, "odd status": {Transport: "t", Status: "fine", Bandwidth: b},
		"figure and failure": {Transport: "t", Status: StatusFailed, Reason: "r", Bandwidth: b}, "waived, no reason": {Transport: "t", Status: StatusWaived},
		"ok, no figure": {Transport: "t", Definition: "d", Status: StatusOK}, "two definitions": {Transport: "t", Definition: "d", Status: StatusOK, Bandwidth: b, Latency: l},
		"negative": {Transport: "t", Definition: "d", Status: StatusOK, Bandwidth: &Bandwidth{BytesPerSecond: -1}}, "no definition": {Transport: "t", Status: StatusOK, Latency: l},
		"negative size": {Transport: "t", Definition: "d", Status: StatusOK, Latency: l, TotalBytes: -1},
	} {
		if w.Cell(&c) == nil {
			t.Errorf("%s: written", name)
		}
	}
	if _, err := NewWriter(io.Discard, "test", &Header{Schema: "hopbench.results/v2"}); err == nil {
		t.Error("a header of another schema was written")
	}
}

func TestModes(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "r.jsonl")
	run := func(mode Mode) error {
		w, err := Create(path, mode, &Header{})
		if err != nil {
			return err
		}
		if err := w.Cell(&Cell{Transport: "t", Definition: "d", Status: StatusOK, Bandwidth: &Bandwidth{}}); err != nil {
			return err
		}
		return w.Close(StateComplete, "")
	}
	count := func() int {
		runs, err := ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return len(runs)
	}
	if err := run(Refuse); err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(path)
	if err := run(Refuse); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), path) {
		t.Errorf("an existing path: %v", err)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the refused path was touched")
	}
	if err := run(Append); err != nil || count() != 2 {
		t.Errorf("append: %v, %d runs", err, count())
	}
	file, _ := os.ReadFile(path)
	holdToSchema(t, file)
	if err := run(Overwrite); err != nil || count() != 1 {
		t.Errorf("overwrite: %v, %d runs", err, count())
	}
	// The last newline went missing, but the record is whole.
	file, _ = os.ReadFile(path)
	os.WriteFile(path, bytes.TrimSuffix(file, []byte("\n")), 0o644)
	if err := run(Append); err != nil || count() != 2 {
		t.Errorf("append behind a missing newline: %v, %d runs", err, count())
	}
	for name, content := range map[string]string{"foreign": "hello\n", "cut": string(file[:len(file)-20]), "newer": `{"record":"header","schema":"hopbench.results/v2"}` + "\n"} {
		os.WriteFile(path, []byte(content), 0o644)
		if err := run(Append); err == nil {
			t.Errorf("appended to a %s file", name)
		}
		if after, _ := os.ReadFile(path); string(after) != content {
			t.Errorf("the %s file was changed", name)
		}
	}
	os.WriteFile(path, nil, 0o644)
	if err := run(Append); err != nil || count() != 1 {
		t.Errorf("append to an empty file: %v", err)
	}
	if _, err := Create(filepath.Join(dir, "absent", "r.jsonl"), Refuse, &Header{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	if _, err := Create(dir, Overwrite, &Header{}); err == nil {
		t.Error("a folder was opened as a file")
	}
	if _, err := Create(filepath.Join(dir, "x.jsonl"), Refuse, &Header{Schema: "odd"}); err == nil {
		t.Error("a bad header was taken")
	}
	if _, err := os.Stat(filepath.Join(dir, "x.jsonl")); err == nil {
		t.Error("a bad header left a file behind")
	}
}

// TestValidAtEveryMoment reads the file behind each record, as after a crash.
func TestValidAtEveryMoment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	w, err := Create(path, Refuse, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		runs, err := ReadFile(path)
		if err != nil || len(runs) != 1 || len(runs[0].Cells) != i || runs[0].Footer != nil || len(runs[0].Warnings) != 1 {
			t.Fatalf("behind %d cells: %+v, %v", i, runs, err)
		}
		c := fullCell()
		if err := w.Cell(&c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(StateComplete, ""); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(StateFailed, "twice"); err != nil {
		t.Fatal(err)
	}
	c := fullCell()
	if w.Cell(&c) == nil {
		t.Error("a cell was written behind the footer")
	}
}

// TestDiskFull fills a real file system.
func TestDiskFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("hopbench", dir, "tmpfs", 0, "size=16k"); err != nil {
		t.Skipf("mounting a small tmpfs: %v", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	path := filepath.Join(dir, "r.jsonl")
	w, err := Create(path, Refuse, &Header{})
	if err != nil {
		t.Fatal(err)
	}
	written := 0
	c := fullCell()
	c.Reason = strings.Repeat("x", 3000)
	for range 100 {
		if err = w.Cell(&c); err != nil {
			break
		}
		written++
	}
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
		t.Fatalf("behind %d cells: %v", written, err)
	}
	if again := w.Cell(&Cell{Transport: "t", Definition: "d", Status: StatusOK, Bandwidth: &Bandwidth{}}); !errors.Is(again, syscall.ENOSPC) {
		t.Errorf("the next cell: %v", again)
	}
	if err := w.Close(StateComplete, ""); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Close: %v", err)
	}
	runs, err := ReadFile(path)
	if err != nil || len(runs) != 1 || len(runs[0].Cells) != written {
		t.Fatalf("read back: %d runs, %v; %d cells were written", len(runs), err, written)
	}
	if f := runs[0].Footer; f == nil || f.State != StateFailed || !strings.Contains(f.Reason, "no space") {
		t.Errorf("footer %+v", f)
	}
	file, _ := os.ReadFile(path)
	holdToSchema(t, file)
}

func TestDiskFullDevice(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("/dev/full: %v", err)
	}
	defer f.Close()
	if _, err := NewWriter(f, "/dev/full", &Header{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
}
