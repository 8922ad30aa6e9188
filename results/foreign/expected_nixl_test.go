package foreign

import (
	"strings"
	"testing"
)

func TestExpectedNixlbench(t *testing.T) {
	for _, c := range []struct {
		name, operation, from, to string
		depth, threads            int64
		host                      string
		iterations                func(block int64) int64
		amortised                 bool // not where several devices share a block's time
		incomplete, warns         []string
	}{
		{"nixlbench_pair.txt", "read", "cuda", "cuda", 16, 1, "gx04", sixteenthAbove(1008), true, nil, nil},
		{"nixlbench_4ranks.txt", "write", "host", "host", 1, 1, "gx04", sixteenthAbove(1008), true, nil, nil},
		{"nixlbench_mg.txt", "write", "cuda", "cuda", 1, 2, "gx07", sixteenthAbove(1024), false, nil, []string{"4 devices"}},
		{"nixlbench_v050.txt", "write", "host", "cuda", 1, 1, "gx04", sixteenthAbove(1008), true, nil, nil},
		{"nixlbench_truncated.txt", "read", "cuda", "cuda", 16, 1, "gx04", sixteenthAbove(1008), true, []string{"4194304", "3 of 10", "11 of 12"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := expected(t, c.name, "")
			if err != nil {
				t.Fatal(err)
			}
			if f.Tool != "nixlbench" || len(f.Hosts) != 1 || f.Hosts[0].Hostname != c.host {
				t.Errorf("tool %q, hosts %+v", f.Tool, f.Hosts)
			}
			if (f.Incomplete != "") != (c.incomplete != nil) {
				t.Errorf("incomplete %q", f.Incomplete)
			}
			words(t, "incomplete", []string{f.Incomplete}, c.incomplete...)
			words(t, "warnings", f.Warnings, c.warns...)
			rows := expectation(t, c.name)
			if c.incomplete != nil {
				rows = rows[:11]
			}
			var aggregates, transfers int
			for _, row := range rows {
				block, batch := int64(number(t, row["block B"])), int64(number(t, row["batch"]))
				request, n := int64(number(t, row["request B"])), c.iterations(block)
				bw := oneCell(t, f, "nixlbench.bandwidth.total", block, request)
				if bw.Bandwidth == nil || !isNear(&bw.Bandwidth.BytesPerSecond, number(t, row["B/W B/s"])) {
					t.Errorf("%s, want %s", brief(*bw), row["B/W B/s"])
				}
				if bw.Operation != c.operation || bw.InitiatorMemory != c.from || bw.TargetMemory != c.to || bw.Descriptors != batch || bw.Depth != c.depth || bw.Concurrency != c.threads || bw.Transport != "nixl-ucx" {
					t.Errorf("%s", brief(*bw))
				}
				if c.amortised {
					if l := oneCell(t, f, "nixlbench.latency.amortised", block, request).Latency; l == nil || !isNear(l.MeanSeconds, number(t, row["time per block s"])) {
						t.Errorf("%+v, want %s", l, row["time per block s"])
					}
				}
				if sum := row["aggregate B/s"]; sum != "" {
					aggregates++
					a := oneCell(t, f, "nixlbench.bandwidth.aggregate", block, request)
					if a.Bandwidth == nil || !isNear(&a.Bandwidth.BytesPerSecond, number(t, sum)) {
						t.Errorf("%s, want %s", brief(*a), sum)
					}
				}
				if row["tx avg/p99 s (per request)"] == "" {
					continue // 0.5.0 has no such columns
				}
				transfers++
				for name, column := range map[string]string{"prepare": "prep avg/p99 s", "post": "post avg/p99 s"} {
					mean, _, _ := strings.Cut(row[column], " / ")
					if v := bw.PhasesSeconds[name]; !isNear(&v, number(t, mean)) {
						t.Errorf("%s %v, want %s", name, v, mean)
					}
				}
				mean, p99, _ := strings.Cut(row["tx avg/p99 s (per request)"], " / ")
				l := oneCell(t, f, "nixlbench.latency.transfer", block, request).Latency
				if l == nil || l.Samples != n || !isWithin(l.MeanSeconds, number(t, mean), 5e-4) { // the table has four digits of the sample's five
					t.Fatalf("%+v, want %d of %s", l, n, mean)
				}
				if n >= 100 && !isWithin(l.P99Seconds, number(t, p99), 5e-4) || n < 100 && l.P99Seconds != nil {
					t.Errorf("p99 of %d samples: %v, want %s", n, l.P99Seconds, p99)
				}
			}
			for definition, want := range map[string]int{"nixlbench.bandwidth.total": len(rows), "nixlbench.bandwidth.aggregate": aggregates, "nixlbench.latency.transfer": transfers} {
				if n := countCells(f, definition); n != want {
					t.Errorf("%d cells of %s, want %d", n, definition, want)
				}
			}
			if !c.amortised && countCells(f, "nixlbench.latency.amortised") != 0 {
				t.Error("a time over several devices stands as one block's")
			}
		})
	}
}

func sixteenthAbove(iterations int64) func(int64) int64 {
	return func(block int64) int64 {
		if block > 1<<20 {
			return iterations / 16
		}
		return iterations
	}
}
