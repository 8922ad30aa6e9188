package control

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"
)

// decoder checks the values of one message while they are converted, and keeps the first thing that is wrong.
type decoder struct {
	err error
}

func (d *decoder) failf(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf(format, args...)
	}
}

// count is an integer from least to most.
func (d *decoder) count(what string, v, least, most int64) int {
	if v < least || v > most || int64(int(v)) != v {
		d.failf("%s of %d; %d to %d are possible", what, v, least, most)
		return int(least)
	}
	return int(v)
}

// number is a finite number from 0 to most.
func (d *decoder) number(what string, v, most float64) float64 {
	if math.IsNaN(v) || v < 0 || v > most {
		d.failf("%s of %g; 0 to %g are possible", what, v, most)
		return 0
	}
	return v
}

// finite is a number that JSON can hold.
func (d *decoder) finite(what string, v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		d.failf("%s of %g", what, v)
		return 0
	}
	return v
}

func (d *decoder) finites(what string, v []float64) []float64 {
	for _, x := range v {
		d.finite(what, x)
	}
	return v
}

// word is a name: letters, digits and a few marks. Nothing that it can spell leaves a folder or reaches a shell.
func (d *decoder) word(what, v string, most int) string {
	if len(v) > most {
		d.failf("%s of %d bytes; at most %d are possible", what, len(v), most)
		return ""
	}
	for _, r := range v {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._:%@+,=-", r) {
			continue
		}
		d.failf("%s %q holds %q", what, v, r)
		return ""
	}
	if strings.Contains(v, "..") {
		d.failf("%s %q holds two dots", what, v)
		return ""
	}
	return v
}

// oneOf is one of known words.
func oneOf[T ~string](d *decoder, what, v string, known ...T) T {
	if !slices.Contains(known, T(v)) {
		d.failf("%s %q; there is %v", what, clean(v, 64), known)
		return ""
	}
	return T(v)
}

// address is an IP address, or the zero one for an empty text.
func (d *decoder) address(what, v string) netip.Addr {
	if v == "" {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(d.word(what, v, 128))
	if err != nil && d.err == nil {
		d.failf("%s: %w", what, err)
	}
	return a
}

// blob is opaque bytes.
func (d *decoder) blob(what string, v []byte, most int) []byte {
	if len(v) > most {
		d.failf("%s of %d bytes; at most %d are possible", what, len(v), most)
		return nil
	}
	return v
}

// optional converts a number that may be absent.
func optional[To, From any](v *From, convert func(From) To) *To {
	if v == nil {
		return nil
	}
	to := convert(*v)
	return &to
}

func each[To, From any](from []From, convert func(From) To) []To {
	if len(from) == 0 {
		return nil
	}
	to := make([]To, len(from))
	for i, v := range from {
		to[i] = convert(v)
	}
	return to
}
