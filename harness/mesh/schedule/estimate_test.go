package schedule

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// TestThousandHosts is the mesh that nobody has at hand: its schedule is computed and checked, and what it takes is said.
func TestThousandHosts(t *testing.T) {
	start := time.Now()
	e, err := Size{Hosts: 1000, Bandwidth: 2, Latency: 2, CellSeconds: 1, OpenSeconds: 0.05, CellRounds: 10, Stamps: 4096}.Estimate()
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("computing and checking the schedule took %v", took)
	}
	if e.Rounds != 999 || e.PairsAtOnce != 500 || e.Pairs != 499_500 || e.Rows != 1_998_000 {
		t.Errorf("%d rounds of %d pairs, %d pairs, %d rows", e.Rounds, e.PairsAtOnce, e.Pairs, e.Rows)
	}
	if want := int64(499_500*2*(BandwidthRowBytes+LatencyRowBytes) + 1000*HostBytes); e.ResultBytes != want {
		t.Errorf("result %d, want %d", e.ResultBytes, want)
	}
	if want := int64(499_500 * (LinkCalls + 4*(CellCalls+10*RoundCalls))); e.ControlCalls != want {
		t.Errorf("calls %d, want %d", e.ControlCalls, want)
	}
	if want := 999 * (0.05 + 4*1); e.Seconds < want-1e-6 || e.Seconds > want+1e-6 {
		t.Errorf("%v s, want %v", e.Seconds, want)
	}
	if e.MemoryBytes != e.ConnectionBytes+e.MatrixBytes+e.StampBytes+e.ScheduleBytes || e.MatrixBytes != 1000*1000*(4*24+41) || e.ConnectionBytes != 1000*ConnectionBytes {
		t.Errorf("memory: %+v", e)
	}
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", text)
}

func TestEstimate(t *testing.T) {
	e, err := Size{Hosts: 9, Half: true, Rails: 4, Bandwidth: 1, CellSeconds: 2}.Estimate()
	if err != nil || e.Rounds != 5*4 || e.Pairs != 20 || e.Rows != 80 || e.Seconds != 40 {
		t.Errorf("%+v, %v", e, err)
	}
	for want, s := range map[string]Size{
		"between 2 and":      {Hosts: 1, Bandwidth: 1},
		"hosts: between":     {Hosts: MostHosts + 1, Bandwidth: 1},
		"rails":              {Hosts: 2, Rails: 65, Bandwidth: 1},
		"0 and 0 rows":       {Hosts: 2},
		"-1 and 2 rows":      {Hosts: 2, Bandwidth: -1, Latency: 2},
		"no times":           {Hosts: 2, Bandwidth: 1, CellSeconds: -1},
		"rounds of -1 stamp": {Hosts: 2, Bandwidth: 1, Stamps: -1},
	} {
		if _, err := s.Estimate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", s, err, want)
		}
	}
}

// TestRowBytes measures the rows of the committed run again.
func TestRowBytes(t *testing.T) {
	text, err := os.ReadFile("../../../results/runs/vm-2cpu-2026-12-01/run.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	bytes, rows := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		var c struct{ Definition, Status string }
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		kind, _, _ := strings.Cut(c.Definition, ".")
		if c.Status == "ok" {
			bytes[kind] += len(line)
			rows[kind]++
		}
	}
	for kind, want := range map[string]int{"bandwidth": BandwidthRowBytes - 120, "latency": LatencyRowBytes - 120} {
		if rows[kind] == 0 || bytes[kind]/rows[kind] < want-1 || bytes[kind]/rows[kind] > want+1 {
			t.Errorf("%s: %d bytes of %d rows; the estimate says %d each", kind, bytes[kind], rows[kind], want)
		}
	}
}
