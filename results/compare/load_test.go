package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"hopbench/results"
)

func TestOtherSchemaIsRefusedByName(t *testing.T) {
	name := filepath.Join(t.TempDir(), "x.jsonl")
	os.WriteFile(name, []byte(`{"record":"header","schema":"hopbench.results/v2","tool_version":"9","started":"2026-01-01T00:00:00Z","hosts":[]}`+"\n"), 0o644)
	if _, err := Load(name); err == nil || !strings.Contains(err.Error(), "hopbench.results/v2") {
		t.Error(err)
	}
}

func TestBrokenCells(t *testing.T) {
	m := newMaker(t)
	six := []float64{100, 101, 102, 103, 104, 105}
	fine := withRounds(plain(64), six...)
	failed := plain(64)
	failed.Status, failed.Reason = "failed", "connection reset by peer"
	wrong := fine
	no := false
	wrong.Verified = &no
	zero := withRounds(plain(64), 100, 0, 102)
	for _, c := range []struct {
		name string
		cell results.Cell
		want string
	}{{"failed", failed, "connection reset"}, {"corrupt", wrong, "payload was wrong"}, {"zero", zero, "no measurement"}} {
		r := compared(t, m.load(m.file(0, fine)), m.load(m.file(1, c.cell)), Options{})
		if r.Rows[0].Verdict != Worse || !strings.Contains(r.Rows[0].Reason, c.want) || r.Verdict != Regression || len(r.Failures(Regression)) == 0 {
			t.Errorf("%s: %+v", c.name, r.Rows[0])
		}
		r = compared(t, m.load(m.file(0, c.cell)), m.load(m.file(1, fine)), Options{})
		if r.Rows[0].Verdict != NotComparable {
			t.Errorf("%s on the old side: %+v", c.name, r.Rows[0])
		}
	}
}

func TestSameFileOnBothSides(t *testing.T) {
	m := newMaker(t)
	f := m.file(0, withRounds(plain(64), 100, 101, 102, 103, 104, 105))
	r := compared(t, m.load(f), m.load(f), Options{})
	if !r.SameFiles || r.Verdict != Same || !strings.Contains(strings.Join(r.Warnings, " "), "the same file") {
		t.Errorf("%+v", r)
	}
}

func TestBadFiles(t *testing.T) {
	dir := t.TempDir()
	header := `{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}` + "\n"
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "empty.jsonl"},
		{"foreign", "hello\n", "foreign.jsonl:1"},
		{"other JSON", `{"a":1}` + "\n", "other JSON.jsonl:1"},
		{"NaN", header + `{"record":"cell","transport":"tcp","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":NaN,"rounds":[]}}` + "\n" + header, "NaN.jsonl:2"},
		{"negative", header + `{"record":"cell","transport":"tcp","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":-1,"rounds":[-1]}}` + "\n", "negative"},
		{"double", header + `{"record":"cell","transport":"tcp","realm":"double","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":1,"rounds":[1]}}` + "\n", "double"},
	} {
		p := filepath.Join(dir, c.name+".jsonl")
		os.WriteFile(p, []byte(c.text), 0o644)
		if _, err := Load(p); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	// a truncated last line costs that line
	p := filepath.Join(dir, "cut.jsonl")
	whole, _ := json.Marshal(withRounds(plain(64), 1, 2, 3))
	os.WriteFile(p, []byte(header+string(whole)+"\n"+string(whole[:40])), 0o644)
	s, err := Load(p)
	if err != nil || len(s.Warnings) == 0 || len(s.cells) != 1 {
		t.Error(s, err)
	}
	if _, err := Load(t.TempDir()); err == nil {
		t.Error("an empty folder is taken")
	}
	if _, err := Load(filepath.Join(dir, "none")); err == nil {
		t.Error("a file that is not there is taken")
	}
}

// A thousand files of a hundred cells: memory is bounded by what is kept, not by what is read.
func TestThousandFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 1,000 files; not with -short")
	}
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(12, 12))
	var line bytes.Buffer
	bytesWritten := 0
	for i := range 1000 {
		line.Reset()
		e := json.NewEncoder(&line)
		e.Encode(results.Header{Schema: results.Schema, ToolVersion: "1", Started: start.Add(time.Duration(i) * time.Minute), Hosts: []results.Host{{Hostname: "h"}}})
		for c := range 100 {
			cell := plain(64 << (c % 20))
			cell.Streams = int64(1 + c/20)
			cell.Warnings = []string{strings.Repeat("a long text that nothing here needs ", 8)}
			rounds := make([]float64, 8)
			for k := range rounds {
				rounds[k] = 1e9 * math.Exp(0.03*random.NormFloat64())
			}
			e.Encode(withRounds(cell, rounds...))
		}
		e.Encode(results.Footer{State: "complete", Cells: 100})
		side := "old"
		if i%4 == 1 || i%4 == 2 {
			side = "new"
		}
		os.MkdirAll(filepath.Join(dir, side), 0o755)
		os.WriteFile(filepath.Join(dir, side, fmt.Sprintf("%04d.jsonl", i)), line.Bytes(), 0o644)
		bytesWritten += line.Len()
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	old, new := (&maker{t: t}).load(filepath.Join(dir, "old")), (&maker{t: t}).load(filepath.Join(dir, "new"))
	r := compared(t, old, new, Options{})
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	kept := int64(after.HeapAlloc) - int64(before.HeapAlloc)
	t.Logf("%d MB read in %v, %d MB kept, %d rows", bytesWritten>>20, took, kept>>20, len(r.Rows))
	if !r.Interleaved || r.Tested != 100 {
		t.Errorf("interleaved %v, %d rows", r.Interleaved, r.Tested)
	}
	if kept > int64(bytesWritten)/2 {
		t.Errorf("keeps %d of %d bytes", kept, bytesWritten)
	}
	runtime.KeepAlive(old)
	runtime.KeepAlive(new)
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(`{"record":"header","schema":"hopbench.results/v1","tool_version":"1","started":"2026-01-01T00:00:00Z","hosts":[]}` + "\n" +
		`{"record":"cell","transport":"tcp","status":"ok","definition":"bandwidth.confirmed","bandwidth":{"bytes_per_second":1,"rounds":[1,1e308,5e-324]}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p := filepath.Join(t.TempDir(), "f.jsonl")
		os.WriteFile(p, b, 0o644)
		s, err := Load(p)
		if err != nil {
			return
		}
		r, err := Compare(s, s, Options{})
		if err != nil {
			return
		}
		var out bytes.Buffer
		if err := r.WriteJSON(&out); err != nil {
			t.Fatal(err)
		}
		r.WriteText(&out, r.Failures(FailOn()...))
		r.WriteMarkdown(&out, r.Failures(FailOn()...))
	})
}
