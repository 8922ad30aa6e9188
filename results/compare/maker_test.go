package compare

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"hopbench/results"
)

var update = flag.Bool("update", false, "write the golden files and POWER.md anew")

// maker writes result files for tests.
type maker struct {
	t   *testing.T
	dir string
	n   int
}

var start = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

func plain(size int64) results.Cell {
	return results.Cell{
		Transport: "tcp", Label: "tcp, same host", Realm: "software", Definition: "bandwidth.confirmed", Operation: "write", Direction: "forward",
		PieceBytes: size, TotalBytes: size, Descriptors: 1, Pattern: "contiguous", Depth: 16, Streams: 1, Concurrency: 1,
		InitiatorMemory: "host", TargetMemory: "host", Wait: "adaptive", Status: "ok",
	}
}

func withRounds(c results.Cell, rounds ...float64) results.Cell {
	if strings.HasPrefix(c.Definition, "latency") {
		m := rounds[len(rounds)/2]
		c.Latency = &results.Latency{Samples: 100, P50Seconds: &m, RoundsP50Seconds: rounds}
	} else {
		c.Bandwidth = &results.Bandwidth{BytesPerSecond: rounds[len(rounds)/2], Rounds: rounds}
	}
	return c
}

// file writes a run that began the given number of minutes after the start.
func (m *maker) file(minute int, cells ...results.Cell) string {
	m.t.Helper()
	m.n++
	name := filepath.Join(m.dir, fmt.Sprintf("%04d.jsonl", m.n))
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.Encode(results.Header{Schema: results.Schema, ToolVersion: "1", Started: start.Add(time.Duration(minute) * time.Minute), Hosts: []results.Host{{Hostname: "h", Kernel: "6.1"}}})
	for _, c := range cells {
		if err := e.Encode(c); err != nil {
			m.t.Fatal(err)
		}
	}
	e.Encode(results.Footer{State: "complete", Cells: int64(len(cells))})
	if err := os.WriteFile(name, b.Bytes(), 0o644); err != nil {
		m.t.Fatal(err)
	}
	return name
}

func (m *maker) load(files ...string) *Set {
	m.t.Helper()
	s, err := Load(files...)
	if err != nil {
		m.t.Fatal(err)
	}
	return s
}

func newMaker(t *testing.T) *maker { return &maker{t: t, dir: t.TempDir()} }

// interleaved writes a gate's runs of cells of the given sizes, A B B A; the new side of size slow is slowed.
func (m *maker) interleaved(rounds int, sizes []int64, slow int64, factor, spread float64) (old, new *Set) {
	random := rand.New(rand.NewPCG(20, uint64(rounds)))
	var a, b []string
	for i, isNew := range order(gateOrder(rounds)) {
		var cells []results.Cell
		for _, size := range sizes {
			v := 1e9 * math.Exp(spread*random.NormFloat64())
			if isNew && size == slow {
				v *= factor
			}
			cells = append(cells, withRounds(plain(size), v))
		}
		f := m.file(i, cells...)
		if isNew {
			b = append(b, f)
		} else {
			a = append(a, f)
		}
	}
	return m.load(a...), m.load(b...)
}

func compared(t *testing.T, old, new *Set, o Options) *Report {
	t.Helper()
	r, err := Compare(old, new, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func verdictOf(r *Report, size int64) string {
	for _, row := range r.Rows {
		if row.TotalBytes == size {
			return row.Verdict
		}
	}
	return "no row"
}
