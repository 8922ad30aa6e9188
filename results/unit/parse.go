package unit

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// maxSizes bounds a list of sizes, so that a slip of the pen is not a week's run.
const maxSizes = 1024

// ParseBytes reads a size: "65536", "64KiB", "64K", "1.5G", "64 kB". K, M, G, T, P and E
// alone are powers of 1024; with a B they are powers of 1000. The result is at least 1
// and a whole number of bytes. The error names the text.
func ParseBytes(s string) (int64, error) {
	n, err := parseBytes(s)
	if err != nil {
		return 0, fmt.Errorf("size %q: %w", s, err)
	}
	return n, nil
}

func parseBytes(s string) (int64, error) {
	number, suffix, err := split(s)
	if err != nil {
		return 0, err
	}
	factor, ok := byteFactor(suffix)
	if !ok {
		if len(suffix) == 2 && suffix[1] == 'b' && strings.ContainsRune("kKmMgGtTpPeE", rune(suffix[0])) || suffix == "b" {
			return 0, fmt.Errorf("a small b is a bit (write %sB or %siB)", suffix[:len(suffix)-1], strings.ToUpper(suffix[:len(suffix)-1]))
		}
		return 0, fmt.Errorf("unknown unit %q (B, K or KiB, M or MiB, G or GiB, T or TiB; kB, MB, GB, TB for powers of 1000)", suffix)
	}
	number.Mul(number, new(big.Rat).SetFrac(factor, big.NewInt(1)))
	if number.Sign() == 0 {
		return 0, fmt.Errorf("a size is at least 1 byte")
	}
	if !number.IsInt() {
		return 0, fmt.Errorf("not a whole number of bytes")
	}
	if !number.Num().IsInt64() {
		return 0, fmt.Errorf("larger than %d bytes", int64(math.MaxInt64))
	}
	return number.Num().Int64(), nil
}

// split cuts a text into its number, without sign or exponent, and its unit.
func split(s string) (*big.Rat, string, error) {
	t := strings.TrimSpace(s)
	if t == "" {
		return nil, "", fmt.Errorf("empty")
	}
	if t[0] == '-' {
		return nil, "", fmt.Errorf("negative")
	}
	end := 0
	for end < len(t) && (t[end] >= '0' && t[end] <= '9' || t[end] == '.') {
		end++
	}
	digits := t[:end]
	if strings.Trim(digits, ".") == "" || strings.Count(digits, ".") > 1 {
		return nil, "", fmt.Errorf("not a number")
	}
	if len(digits) > 64 {
		return nil, "", fmt.Errorf("a number of %d digits", len(digits))
	}
	r, ok := new(big.Rat).SetString(digits)
	if !ok {
		return nil, "", fmt.Errorf("not a number")
	}
	return r, strings.TrimSpace(t[end:]), nil
}

const prefixes = "KMGTPE"

// byteFactor is the number of bytes of a unit.
func byteFactor(u string) (*big.Int, bool) {
	if u == "" || u == "B" {
		return big.NewInt(1), true
	}
	power := strings.IndexByte(prefixes, upper(u[0])) + 1
	if power == 0 {
		return nil, false
	}
	base := int64(0)
	switch rest := u[1:]; {
	case rest == "" || strings.EqualFold(rest, "i") || strings.EqualFold(rest, "iB"):
		base = 1024
	case rest == "B":
		base = 1000
	default:
		return nil, false
	}
	return new(big.Int).Exp(big.NewInt(base), big.NewInt(int64(power)), nil), true
}

func upper(c byte) byte {
	if c >= 'a' && c <= 'z' {
		return c - 'a' + 'A'
	}
	return c
}

// ParseSizes reads a list of sizes, each a size or a sweep FROM:TO[:xN]: "64:1MiB:x4" is
// 64, 256, … up to and including 1 MiB. Without xN each is twice the one before. TO itself
// stands in the list only where the sweep meets it. A size that comes twice is kept once, at its
// first place. The error names the bad part.
func ParseSizes(s string) ([]int64, error) {
	if strings.TrimSpace(s) == "" {
		return nil, fmt.Errorf("sizes %q: empty", s)
	}
	var list []int64
	seen := map[int64]bool{}
	for part := range strings.SplitSeq(s, ",") {
		sizes, err := parseSweep(part)
		if err != nil {
			return nil, err
		}
		for _, n := range sizes {
			if !seen[n] {
				seen[n] = true
				list = append(list, n)
			}
		}
		if len(list) > maxSizes {
			return nil, fmt.Errorf("sizes %q: more than %d", clip(s), maxSizes)
		}
	}
	return slices.Clip(list), nil
}

func parseSweep(s string) ([]int64, error) {
	parts := strings.Split(s, ":")
	if len(parts) == 1 {
		n, err := ParseBytes(s)
		return []int64{n}, err
	}
	if len(parts) > 3 {
		return nil, fmt.Errorf("sweep %q: a sweep is FROM:TO or FROM:TO:xN", s)
	}
	from, err := parseBytes(parts[0])
	if err != nil {
		return nil, fmt.Errorf("sweep %q: from %q: %w", s, parts[0], err)
	}
	to, err := parseBytes(parts[1])
	if err != nil {
		return nil, fmt.Errorf("sweep %q: to %q: %w", s, parts[1], err)
	}
	if from > to {
		return nil, fmt.Errorf("sweep %q: from %s is more than to %s", s, parts[0], parts[1])
	}
	factor := int64(2)
	if len(parts) == 3 {
		text, found := strings.CutPrefix(strings.TrimSpace(parts[2]), "x")
		factor, err = strconv.ParseInt(text, 10, 64)
		if !found || err != nil || factor < 2 {
			return nil, fmt.Errorf("sweep %q: step %q: a step is x2, x4 or another whole factor above 1", s, parts[2])
		}
	}
	var list []int64
	for n := from; ; n *= factor {
		list = append(list, n)
		if n > to/factor {
			return list, nil
		}
	}
}

// ParseRate reads a rate in bytes a second: "1GB/s", "12.5MB/s", "100Gb/s", "100Gbit/s",
// "40Gbps", "900MiB/s". Here a small b is a bit, and K, M, G alone mean powers of 1000, as iperf3 has
// them. A bare number is refused: who writes 100 for a NIC of 100 Gb/s does not mean 100 bytes. It is more than 0.
func ParseRate(s string) (float64, error) {
	number, suffix, err := split(s)
	if err != nil {
		return 0, fmt.Errorf("rate %q: %w", s, err)
	}
	if suffix == "" {
		return 0, fmt.Errorf("rate %q: it has no unit; such as 100MB/s or 100Gb/s", s)
	}
	u := strings.TrimSuffix(suffix, "/s")
	bits := false
	for _, bit := range []string{"bits", "bit", "bps", "b"} {
		if rest, found := strings.CutSuffix(u, bit); found {
			u, bits = rest, true
			break
		}
	}
	if !bits && len(u) == 1 && u != "B" {
		u += "B"
	}
	if bits && u != "" && !strings.HasSuffix(u, "i") {
		u += "B" // a power of 1000
	}
	factor, ok := byteFactor(u)
	if !ok || bits && strings.HasPrefix(u, "B") {
		return 0, fmt.Errorf("rate %q: unknown unit %q (B/s, MB/s, GB/s, MiB/s, Mb/s, Gb/s)", s, suffix)
	}
	number.Mul(number, new(big.Rat).SetFrac(factor, big.NewInt(1)))
	v, _ := number.Float64()
	if bits {
		v /= 8
	}
	if v <= 0 {
		return 0, fmt.Errorf("rate %q: a rate is more than 0", s)
	}
	if v > math.MaxInt64 {
		return 0, fmt.Errorf("rate %q: larger than %d bytes a second", s, int64(math.MaxInt64))
	}
	return v, nil
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
