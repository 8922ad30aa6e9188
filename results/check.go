package results

import (
	"fmt"
	"math"
	"reflect"
	"strings"
)

// check refuses a header that this version cannot read.
func (h *Header) check() error {
	name, version, ok := strings.Cut(h.Schema, "/v")
	if name != "hopbench.results" || !ok {
		return fmt.Errorf("schema %q: not a hopbench result file", h.Schema)
	}
	major, _, _ := strings.Cut(version, ".")
	if major != "1" {
		return fmt.Errorf("schema %q: this version reads hopbench.results/v1", h.Schema)
	}
	return nil
}

// check refuses a cell that no program could use: without its names, or with a negative figure.
func (c *Cell) check() error {
	if c.Transport == "" {
		return fmt.Errorf("a cell without transport")
	}
	switch c.Status {
	case StatusOK, StatusWaived, StatusFailed, StatusPartial:
	default:
		return fmt.Errorf("a cell with status %q, not ok, waived, failed or partial", c.Status)
	}
	if c.Definition == "" && c.Status == StatusOK {
		return fmt.Errorf("a cell without definition")
	}
	for _, n := range []struct {
		key string
		v   int64
	}{{"piece_bytes", c.PieceBytes}, {"total_bytes", c.TotalBytes}, {"descriptors", c.Descriptors}, {"depth", c.Depth}, {"streams", c.Streams}, {"concurrency", c.Concurrency}} {
		if n.v < 0 {
			return fmt.Errorf("%s is negative: %d", n.key, n.v)
		}
	}
	if b := c.Bandwidth; b != nil {
		if b.BytesPerSecond < 0 {
			return fmt.Errorf("bandwidth.bytes_per_second is negative: %v", b.BytesPerSecond)
		}
		for i, r := range b.Rounds {
			if r < 0 {
				return fmt.Errorf("bandwidth.rounds: number %d is negative: %v", i, r)
			}
		}
	}
	if l := c.Latency; l != nil {
		if l.Samples < 0 {
			return fmt.Errorf("latency.samples is negative: %d", l.Samples)
		}
		for _, n := range []struct {
			key string
			v   *float64
		}{{"min", l.MinSeconds}, {"p50", l.P50Seconds}, {"p90", l.P90Seconds}, {"p99", l.P99Seconds}, {"p999", l.P999Seconds}, {"max", l.MaxSeconds}} {
			if n.v != nil && *n.v < 0 {
				return fmt.Errorf("latency.%s_seconds is negative: %v", n.key, *n.v)
			}
		}
		for i, r := range l.RoundsP50Seconds {
			if r < 0 {
				return fmt.Errorf("latency.rounds_p50_seconds: number %d is negative: %v", i, r)
			}
		}
	}
	return nil
}

// checkNew is check, and what a reader lets pass but this version does not write: a figure beside a failure, a
// failure without reason, success without a figure, two definitions in one cell.
func (c *Cell) checkNew() error {
	if err := c.check(); err != nil {
		return err
	}
	figure := c.Bandwidth != nil || c.Latency != nil || c.MessageRatePerSecond != nil
	switch {
	case c.Bandwidth != nil && c.Latency != nil:
		return fmt.Errorf("%s: a cell with both bandwidth and latency: it holds one definition", c.Transport)
	case (c.Status == StatusWaived || c.Status == StatusFailed) && figure:
		return fmt.Errorf("%s: a %s cell with a figure", c.Transport, c.Status)
	case (c.Status == StatusWaived || c.Status == StatusFailed) && c.Reason == "":
		return fmt.Errorf("%s: a %s cell without reason", c.Transport, c.Status)
	case c.Status == StatusOK && !figure:
		return fmt.Errorf("%s: an ok cell without bandwidth, latency or message rate", c.Transport)
	}
	return nil
}

// notFinite is the key of the first number of a record that is NaN or infinite, "" where there is none:
// encoding/json refuses such a number but does not say where it stands.
func notFinite(v reflect.Value, at string) string {
	switch v.Kind() {
	case reflect.Float64:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return strings.TrimPrefix(at, ".")
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return notFinite(v.Elem(), at)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if name := keyOf(v.Type().Field(i)); name != "" {
				if bad := notFinite(v.Field(i), at+"."+name); bad != "" {
					return bad
				}
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			if bad := notFinite(v.Index(i), fmt.Sprintf("%s[%d]", at, i)); bad != "" {
				return bad
			}
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			if bad := notFinite(v.MapIndex(k), at+"."+k.String()); bad != "" {
				return bad
			}
		}
	}
	return ""
}
