package foreign

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"hopbench/results"
)

// The samples under testdata/expected, and what is said here and in their .expect tables of what a reader must make of
// them, come from somebody who knew the programs' source and not this package.

func expected(t *testing.T, name, format string) (*File, error) {
	t.Helper()
	r, err := os.Open(filepath.Join("testdata", "expected", name))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	return Parse(r, format, Options{})
}

// expectation is the table beside a sample: its rows, by the names of its columns.
func expectation(t *testing.T, sample string) []map[string]string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "expected", strings.TrimSuffix(sample, filepath.Ext(sample))+".expect"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	var rows []map[string]string
	for line := range strings.Lines(string(b)) {
		fields := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range fields {
			fields[i] = strings.TrimSpace(fields[i])
		}
		if names == nil {
			names = fields
			continue
		}
		row := map[string]string{}
		for i, f := range fields {
			row[names[i]] = f
		}
		rows = append(rows, row)
	}
	return rows
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func isNear(got *float64, want float64) bool { return isWithin(got, want, 1e-9) }

func isWithin(got *float64, want, relative float64) bool {
	return got != nil && math.Abs(*got/want-1) < relative
}

// oneCell is the only cell of a definition and size.
func oneCell(t *testing.T, f *File, definition string, piece, total int64) *results.Cell {
	t.Helper()
	var found []*results.Cell
	for i := range f.Cells {
		if c := &f.Cells[i]; c.Definition == definition && c.PieceBytes == piece && c.TotalBytes == total {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		t.Errorf("%d cells of %s, %d of %d bytes; want one", len(found), definition, piece, total)
		return &results.Cell{}
	}
	return found[0]
}

func countCells(f *File, definition string) (n int) {
	for _, c := range f.Cells {
		if strings.HasPrefix(c.Definition, definition) {
			n++
		}
	}
	return n
}

func words(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	all := strings.Join(got, "\n")
	for _, w := range want {
		if !strings.Contains(all, w) {
			t.Errorf("%s: %q, want %q in it", what, all, w)
		}
	}
}

func TestExpectedNCCL(t *testing.T) {
	for _, c := range []struct {
		name, operation, redop, ranks string
		gpus                          int
		incomplete, warns             []string
	}{
		{"nccl_allreduce.json", "all_reduce", "sum", "4", 4, nil, []string{"out_of_bounds"}},
		{"nccl_allreduce_v1.json", "all_reduce", "sum", "4", 4, nil, []string{"out_of_bounds"}},
		{"nccl_allreduce_aborted.json", "all_reduce", "sum", "4", 4, []string{"end_time", "4194304", "in_place"}, nil},
		// Two ranks of one process: the second GPU is not in the file. A reduction means nothing in an exchange.
		{"nccl_sendrecv.json", "sendrecv", "", "2", 1, nil, nil},
		{"nccl_sendrecv_cputime.json", "sendrecv", "", "2", 1, nil, []string{"cpu_time"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := expected(t, c.name, "")
			if err != nil {
				t.Fatal(err)
			}
			if f.Tool != "nccl-tests (NCCL 2.28.7)" {
				t.Errorf("tool %q", f.Tool)
			}
			if (f.Incomplete != "") != (c.incomplete != nil) {
				t.Errorf("incomplete %q", f.Incomplete)
			}
			words(t, "incomplete", []string{f.Incomplete}, c.incomplete...)
			words(t, "warnings", f.Warnings, c.warns...)
			for _, w := range f.Warnings {
				if strings.Contains(w, "reports") || strings.Contains(w, "version") {
					t.Errorf("warning of a run without an error: %q", w)
				}
			}
			if len(f.Hosts) != 1 || f.Hosts[0].Hostname != "gx04" || len(f.Hosts[0].GPUs) != c.gpus {
				t.Errorf("hosts %+v", f.Hosts)
			}
			present := 0
			for _, row := range expectation(t, c.name) {
				half, size := row["half"], int64(number(t, row["size B"]))
				if strings.HasPrefix(row["verdict"], "ABSENT") {
					for _, cell := range f.Cells {
						if strings.HasSuffix(cell.Definition, "."+half) && cell.TotalBytes == size && cell.Status == results.StatusOK {
							t.Errorf("a figure for what the run did not reach: %s", brief(cell))
						}
					}
					continue
				}
				present++
				timed := !strings.HasPrefix(row["time s"], "none")
				cells := []*results.Cell{oneCell(t, f, "nccl-tests.bandwidth.algorithm."+half, size, size)}
				if timed {
					cells = append(cells, oneCell(t, f, "nccl-tests.latency.amortised."+half, size, size))
				}
				for _, cell := range cells {
					if cell.Operation != c.operation || cell.Settings["ranks"] != c.ranks || cell.Settings["redop"] != c.redop || cell.InitiatorMemory != "cuda" || cell.TargetMemory != "cuda" {
						t.Errorf("%s, settings %v", brief(*cell), cell.Settings)
					}
					switch {
					case strings.HasPrefix(row["verdict"], "FAILED"):
						if cell.Status != results.StatusFailed || cell.Bandwidth != nil || cell.Latency != nil || !strings.Contains(cell.Reason, "37 elements") {
							t.Errorf("%s", brief(*cell))
						}
					case cell.Status != results.StatusOK:
						t.Errorf("%s", brief(*cell))
					case row["verdict"] == "ok" && (cell.Verified == nil || !*cell.Verified), row["verdict"] == "not validated" && cell.Verified != nil:
						t.Errorf("%s is %s", brief(*cell), row["verdict"])
					}
				}
				if strings.HasPrefix(row["verdict"], "FAILED") {
					continue
				}
				if b := cells[0].Bandwidth; b == nil || !isNear(&b.BytesPerSecond, number(t, row["alg B/s"])) {
					t.Errorf("%s, want %s", brief(*cells[0]), row["alg B/s"])
				}
				if bus, err := strconv.ParseFloat(cells[0].Settings["bus_bytes_per_second"], 64); err != nil || !isNear(&bus, number(t, row["bus B/s"])) {
					t.Errorf("bus %s, want %s", cells[0].Settings["bus_bytes_per_second"], row["bus B/s"])
				}
				if timed {
					if l := cells[1].Latency; l == nil || !isNear(l.MeanSeconds, number(t, row["time s"])) {
						t.Errorf("%s, want %s", brief(*cells[1]), row["time s"])
					}
				}
			}
			if n := countCells(f, "nccl-tests.bandwidth"); n != present {
				t.Errorf("%d bandwidths, want %d", n, present)
			}
		})
	}
	// The distribution leaves the skipped iteration out, and the mean of all does not stand for it.
	f, err := expected(t, "nccl_sendrecv.json", "")
	if err != nil {
		t.Fatal(err)
	}
	l := oneCell(t, f, "nccl-tests.latency.iteration.out_of_place", 1048576, 1048576).Latency
	if l == nil || l.Samples != 4 || !isNear(l.MinSeconds, 1.7344e-5) || !isNear(l.MaxSeconds, 1.7664e-5) || !isNear(l.P50Seconds, 1.7536e-5) || len(l.RoundsP50Seconds) != 4 {
		t.Errorf("%+v", l)
	}
	f, err = expected(t, "nccl_sendrecv_cputime.json", "")
	if err != nil || countCells(f, "nccl-tests.latency") != 0 {
		t.Errorf("time to launch is a latency: %v", err)
	}
}

func TestExpectedNVBandwidth(t *testing.T) {
	const d2d, both = "bandwidth.median device_to_device_memcpy_read_ce 0 ", "device_to_device_bidirectional_memcpy_read_ce 0 "
	for _, c := range []struct {
		name, tool        string
		want              []string
		gpus              int
		incomplete, warns []string
	}{
		{"nvbandwidth_3gpu.json", "nvbandwidth v0.8", []string{
			"bandwidth.median host_to_device_memcpy_ce 0 host>cuda:0 55.3415 GB/s",
			"bandwidth.median host_to_device_memcpy_ce 0 host>cuda:1 55.3115 GB/s",
			"bandwidth.median host_to_device_memcpy_ce 0 host>cuda:2 53.0656 GB/s",
			// The row reads from the column, against the arrow in the description.
			d2d + "cuda:0>cuda:1 265.031 GB/s data=cuda:1 to cuda:0",
			d2d + "cuda:1>cuda:0 253.338 GB/s data=cuda:0 to cuda:1",
			d2d + "cuda:1>cuda:2 50.2004 GB/s data=cuda:2 to cuda:1",
			d2d + "cuda:2>cuda:1 40.0001 GB/s data=cuda:1 to cuda:2",
			"bandwidth.median.read1 " + both + "cuda:0>cuda:1 246.2 GB/s both",
			"bandwidth.median.read1 " + both + "cuda:1>cuda:0 245.343 GB/s both",
			"bandwidth.median.read1 " + both + "cuda:1>cuda:2 45.2052 GB/s both",
			"bandwidth.median.read1 " + both + "cuda:2>cuda:1 36.864 GB/s both",
			"bandwidth.median.read2 " + both + "cuda:0>cuda:1 242.811 GB/s both",
			"bandwidth.median.read2 " + both + "cuda:1>cuda:0 244.553 GB/s both",
			"bandwidth.median.read2 " + both + "cuda:1>cuda:2 37.5428 GB/s both",
			"bandwidth.median.read2 " + both + "cuda:2>cuda:1 44.8429 GB/s both",
			"bandwidth.median.total " + both + "cuda:0>cuda:1 489.012 GB/s both",
			"bandwidth.median.total " + both + "cuda:1>cuda:0 489.896 GB/s both",
			"bandwidth.median.total " + both + "cuda:1>cuda:2 82.7479 GB/s both",
			"bandwidth.median.total " + both + "cuda:2>cuda:1 81.7069 GB/s both",
			// Nanoseconds, under keys that say bandwidth: a GPU reads the host's memory.
			"latency.load host_device_latency_sm 0 cuda:0>host mean 0.803417",
			"latency.load host_device_latency_sm 0 cuda:1>host mean 0.811027",
			"latency.load host_device_latency_sm 0 cuda:2>host mean 1.00725",
		}, 3, nil, []string{"buffer size"}},
		{"nvbandwidth_error.json", "nvbandwidth v0.8 (v0.8-3-g0c1d2e3)", []string{
			"bandwidth.median host_to_device_memcpy_ce 0 host>cuda:0 55.063 GB/s",
			"bandwidth.median host_to_device_memcpy_ce 0 host>cuda:1 55.1032 GB/s",
			d2d + "cuda>cuda failed",
		}, 2, []string{"CUDA_ERROR_ECC_UNCORRECTABLE"}, nil},
		{"nvbandwidth_waived.json", "nvbandwidth v0.8", []string{
			"bandwidth.median host_to_device_memcpy_ce 0 host>cuda:0 25.5726 GB/s",
			d2d + "cuda>cuda waived",
			"bandwidth.median device_local_copy 0 cuda:0>cuda:0 325.771 GB/s",
		}, 1, nil, []string{"device_to_devcie_memcpy_write_ce", "smaller than the default buffer size"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := expected(t, c.name, "")
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i := range f.Cells {
				s := inWords(&f.Cells[i])
				if d := f.Cells[i].Settings["data"]; d != "" {
					s += " data=" + d
				}
				got = append(got, s)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if f.Tool != c.tool || len(f.Hosts) != 1 || len(f.Hosts[0].GPUs) != c.gpus {
				t.Errorf("tool %q, hosts %+v", f.Tool, f.Hosts)
			}
			if (f.Incomplete != "") != (c.incomplete != nil) || strings.Contains(f.Incomplete, "\n") {
				t.Errorf("incomplete %q", f.Incomplete)
			}
			words(t, "incomplete", []string{f.Incomplete}, c.incomplete...)
			words(t, "warnings", f.Warnings, c.warns...)
		})
	}
	// A size that the user knows is taken.
	r, err := os.Open("testdata/expected/nvbandwidth_3gpu.json")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if f, err := Parse(r, "", Options{BufferBytes: 1 << 20}); err != nil || f.Cells[0].TotalBytes != 1<<20 {
		t.Errorf("%v %+v", err, f)
	}
}
