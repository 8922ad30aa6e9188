package unit

import (
	"math"
	"reflect"
	"strings"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"1": 1, "64": 64, "64B": 64, "64K": 65536, "64k": 65536, "64KiB": 65536, "64kib": 65536, "64 KiB": 65536, " 64Ki ": 65536,
		"64kB": 64000, "64KB": 64000, "1M": 1 << 20, "1MiB": 1 << 20, "1MB": 1e6, "1.5G": 3 << 29, "1.5GiB": 3 << 29, "1.5GB": 15e8,
		"0.5K": 512, ".5K": 512, "1.K": 1024, "8GiB": 8 << 30, "1T": 1 << 40, "7E": 7 << 60, "9223372036854775807": math.MaxInt64,
		"007": 7,
	} {
		if got, err := ParseBytes(text); err != nil || got != want {
			t.Errorf("ParseBytes(%q) = %d, %v; want %d", text, got, err, want)
		}
	}
}

func TestParseBytesRefuses(t *testing.T) {
	for text, reason := range map[string]string{
		"": "empty", "  ": "empty", "-1": "negative", "-1K": "negative", "0": "at least 1 byte", "0K": "at least 1 byte", "0.0": "at least 1 byte",
		"18446744073709551616": "larger than", "9223372036854775808": "larger than", "8E": "larger than", "2^64": "unknown unit",
		"10XB": `unknown unit "XB"`, "KiB": "not a number", "1.2.3": "not a number", ".": "not a number", "1e6": "unknown unit", "+1": "not a number",
		"0x10": "unknown unit", "1_000": "unknown unit", "1,5": "unknown unit", "64kb": "a small b is a bit", "64b": "a small b is a bit",
		"1.0001K": "whole number", "0.3": "whole number", "1KiBs": "unknown unit", "NaN": "not a number", "Inf": "not a number", "1 K K": "unknown unit",
		strings.Repeat("9", 65): "65 digits",
	} {
		got, err := ParseBytes(text)
		if err == nil {
			t.Errorf("ParseBytes(%q) = %d, want an error", text, got)
			continue
		}
		if !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), `"`+text+`"`) {
			t.Errorf("ParseBytes(%q): %v: does not say %q or name the text", text, err, reason)
		}
	}
}

func TestParseSizes(t *testing.T) {
	for text, want := range map[string][]int64{
		"64":            {64},
		"64,1K,1MiB":    {64, 1024, 1 << 20},
		"64:1K":         {64, 128, 256, 512, 1024},
		"64:1K:x4":      {64, 256, 1024},
		"1:10:x3":       {1, 3, 9},
		"5:5":           {5},
		"64:1K:x4,64K":  {64, 256, 1024, 65536},
		"64,64:256,128": {64, 128, 256},
		"4E:7E":         {4 << 60},
		"1:7E:x1000000": {1, 1e6, 1e12, 1e18},
	} {
		if got, err := ParseSizes(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("ParseSizes(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for text, reason := range map[string]string{
		"": "empty", ",": "empty", "64,": "empty", "1M:1K": "from 1M is more than to 1K", "64:1K:4": `step "4"`, "64:1K:x1": `step "x1"`, "64:1K:x0": "step",
		"64:1K:x-2": "step", "64:1K:x2:x2": "FROM:TO", "64:": "empty", ":64": "empty", "64:10XB": "XB", "0:64": "at least 1 byte", "64:1K:x99999999999999999999": "step",
	} {
		got, err := ParseSizes(text)
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("ParseSizes(%q) = %v, %v; want an error with %q", text, got, err, reason)
		}
	}
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{
		"1GB/s": 1e9, "1G": 1e9, "8Gb/s": 1e9, "8Gbit/s": 1e9, "8Gbps": 1e9, "100Mbit": 12.5e6, "1MiB/s": 1 << 20, "1000B/s": 1000, "800b/s": 100, "8Mib/s": 1 << 20, "5B/s": 5,
	} {
		if got, err := ParseRate(text); err != nil || got != want {
			t.Errorf("ParseRate(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "0", "0GB/s", "-1", "1XB/s", "1BB/s", "GB/s", "99999999999E", "100", "1000000000", "2.5"} {
		if got, err := ParseRate(text); err == nil {
			t.Errorf("ParseRate(%q) = %v, want an error", text, got)
		}
	}
}

func TestBytes(t *testing.T) {
	for n, want := range map[int64]string{
		0: "0 B", 1: "1 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1025: "1025 B", 65536: "64 KiB", 1 << 20: "1 MiB", 3 << 29: "1.5 GiB",
		37748736: "36 MiB", 37748744: "37748744 B", 256 << 20: "256 MiB", 1 << 40: "1 TiB", 1000: "1000 B", 1e9: "1000000000 B",
		-1024: "-1 KiB", 1152: "1.125 KiB", 1088: "1088 B", 1049600: "1025 KiB", math.MaxInt64: "9223372036854775807 B", math.MinInt64: "-9223372036854775808 B",
	} {
		if got := Bytes(n); got != want {
			t.Errorf("Bytes(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 0.00213: "0.00213", 0.0021349: "0.00213", 5.614: "5.61", 9.994: "9.99", 9.996: "10.0", 12.64: "12.6", 99.96: "100", 100: "100", 61234.4: "61234",
		999.9: "1000", -2.5: "-2.50", 1e-9: "0.00000000100", math.Inf(1): "-",
	} {
		if got := Number(v); got != want {
			t.Errorf("Number(%v) = %q, want %q", v, got, want)
		}
	}
	if got := Number(math.NaN()); got != "-" {
		t.Errorf("Number(NaN) = %q", got)
	}
}

// TestExact holds the project's rule: 10^9 bytes in one second are 1.00 GB/s and 8.00 Gb/s.
func TestExact(t *testing.T) {
	for got, want := range map[string]string{
		Rate(1e9): "1.00 GB/s", Bits(1e9): "8.00 Gb/s", Rate(1 << 30): "1.07 GB/s", Rate(999.6e6): "1.00 GB/s", Rate(0): "0 B/s", Rate(12.5e6): "12.5 MB/s", Rate(3): "3.00 B/s",
		Seconds(14.2e-6): "14.2 µs", Seconds(1.5): "1.50 s", Seconds(0.9996e-3): "1.00 ms", Seconds(0): "0 ns", Seconds(5e-10): "0.500 ns", Seconds(-2e-3): "-2.00 ms",
		Rate(math.NaN()): "-",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestScales(t *testing.T) {
	for _, c := range []struct {
		got  Scale
		unit string
	}{
		{RateScale([]float64{2e6, 5.6e9}), "GB/s"}, {RateScale([]float64{12e6, 1e3}), "MB/s"}, {RateScale(nil), "GB/s"}, {RateScale([]float64{0}), "GB/s"},
		{RateScale([]float64{1e8}), "GB/s"}, {RateScale([]float64{5e13}), "GB/s"}, {RateScale([]float64{1}), "B/s"}, {RateScale([]float64{0.001}), "B/s"}, {RateScale([]float64{math.NaN(), 1e9}), "GB/s"},
		{TimeScale([]float64{14e-6, 60e-3}), "µs"}, {TimeScale([]float64{2e-3, 0}), "ms"}, {TimeScale(nil), "µs"}, {TimeScale([]float64{40e-9}), "ns"}, {TimeScale([]float64{40e-9, 14e-6}), "µs"}, {TimeScale([]float64{3}), "s"}, {TimeScale([]float64{1e-12}), "ns"},
	} {
		if c.got.Unit != c.unit {
			t.Errorf("scale %+v, want %s", c.got, c.unit)
		}
	}
	if got := RateScale([]float64{2e6, 5.6e9}).Format(2.13e6); got != "0.00213" {
		t.Errorf("a small rate prints as %q", got)
	}
}

func TestBetter(t *testing.T) {
	for metric, want := range map[string]Direction{
		"bandwidth": Higher, "bandwidth.confirmed": Higher, "latency_p50": Lower, "latency.half_rtt": Lower, "cpu.initiator": Lower, "initiator_seconds_per_gigabyte": Lower,
		"message_rate": Higher, "rate.messages": Higher, "p99_seconds": Lower, "ttft": Lower, "GB/s": Higher, "sec/op": Lower, "B/sec": Higher, "colour": Neither, "": Neither,
	} {
		if got := Better(metric); got != want {
			t.Errorf("Better(%q) = %v, want %v", metric, got, want)
		}
	}
}

func FuzzParseSizes(f *testing.F) {
	for _, s := range []string{"64:256M:x4", "64KiB", "1.5G,2K", "-1", "0", "", "10XB", "18446744073709551616", "1M:1K", "1:7E:x2", "64kb"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseSizes(s)
		if err != nil {
			return
		}
		if len(list) == 0 || len(list) > maxSizes {
			t.Fatalf("%q gives %d sizes", s, len(list))
		}
		seen := map[int64]bool{}
		for _, n := range list {
			if n < 1 || seen[n] {
				t.Fatalf("%q gives %v", s, list)
			}
			seen[n] = true
			if back, err := ParseBytes(Bytes(n)); err != nil || back != n {
				t.Fatalf("%d prints as %q, which parses as %d, %v", n, Bytes(n), back, err)
			}
		}
	})
}

func FuzzParseRate(f *testing.F) {
	f.Add("100Gb/s")
	f.Add("1.5MiB/s")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := ParseRate(s); err == nil && (!(v > 0) || math.IsInf(v, 0)) {
			t.Fatalf("%q gives %v", s, v)
		}
	})
}

func FuzzNumber(f *testing.F) {
	f.Add(0.00213)
	f.Add(9.9996)
	f.Fuzz(func(t *testing.T, v float64) {
		got := Number(v)
		if v != 0 && got != "-" && strings.Trim(got, "-0.") == "" {
			t.Fatalf("Number(%v) = %q: a value that is not zero reads as zero", v, got)
		}
	})
}
