package rank

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	// maxHosts bounds what an expression expands to; it is Slurm's own bound of one range (src/common/hostlist.c, MAX_RANGE).
	maxHosts = 64 << 10
	// maxHostName is the longest name of the DNS (RFC 1035, 2.3.4: 255 octets, of which 253 are text).
	maxHostName = 253
)

// ExpandHosts expands a host list as Slurm writes it, in its order: names and expressions with commas between them, where brackets
// hold numbers and ranges: "node[01-03,07],gpu5" is node01, node02, node03, node07 and gpu5. The digits of a range's first number are
// the width of all, and several brackets in one name vary from the last to the first. `scontrol show hostnames` does the same.
// A list that is empty, malformed, or of more than 65,536 names is an error; a name that is there twice is not.
func ExpandHosts(list string) ([]string, error) {
	var hosts []string
	for rest := list; ; {
		end, err := word(rest)
		if err != nil {
			return nil, fmt.Errorf("host list %s: %w", clip(list), err)
		}
		names, err := expand(rest[:end], maxHosts-len(hosts))
		if err != nil {
			return nil, fmt.Errorf("host list %s: %w", clip(list), err)
		}
		hosts = append(hosts, names...)
		if end == len(rest) {
			return hosts, nil
		}
		rest = rest[end+1:]
	}
}

// word is the length of the first expression of a list: up to a comma outside brackets.
func word(s string) (int, error) {
	open := false
	for i := range len(s) {
		switch s[i] {
		case '[':
			if open {
				return 0, fmt.Errorf("a bracket inside brackets")
			}
			open = true
		case ']':
			if !open {
				return 0, fmt.Errorf("a closing bracket without an opening one")
			}
			open = false
		case ',':
			if !open {
				return i, nil
			}
		}
	}
	if open {
		return 0, fmt.Errorf("a bracket is not closed")
	}
	return len(s), nil
}

// expand makes the names of one expression, at most so many.
func expand(s string, most int) ([]string, error) {
	if s == "" {
		return nil, fmt.Errorf("an empty name")
	}
	names := []string{""}
	for s != "" {
		text, after, bracket := strings.Cut(s, "[")
		if err := hostText(text); err != nil {
			return nil, err
		}
		tails := []string{""}
		s = ""
		if bracket {
			inside, rest, _ := strings.Cut(after, "]") // word has seen that it is closed
			var err error
			if tails, err = numbers(inside, most/len(names)); err != nil {
				return nil, err
			}
			s = rest
		}
		next := make([]string, 0, len(names)*len(tails))
		for _, n := range names {
			for _, t := range tails {
				if len(n)+len(text)+len(t) > maxHostName {
					return nil, fmt.Errorf("a name of more than %d characters", maxHostName)
				}
				next = append(next, n+text+t)
			}
		}
		names = next
	}
	if len(names) > most {
		return nil, fmt.Errorf("more than %d names", maxHosts)
	}
	return names, nil
}

// hostText refuses what no host name has, so that a damaged variable is not taken for a host.
func hostText(s string) error {
	for i := range len(s) {
		c := s[i]
		if ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_'; !ok {
			return fmt.Errorf("%q in a name", c)
		}
	}
	return nil
}

// numbers expands what stands in brackets, to at most so many.
func numbers(s string, most int) (all []string, err error) {
	for part := range strings.SplitSeq(s, ",") {
		low, high, isRange := strings.Cut(part, "-")
		if !isRange {
			high = low
		}
		from, err := digits(low)
		if err != nil {
			return nil, err
		}
		to, err := digits(high)
		if err != nil {
			return nil, err
		}
		switch {
		case to < from:
			return nil, fmt.Errorf("the range %s ends before it begins", part)
		case len(high) < len(low), len(high) > len(low) && high[0] == '0':
			return nil, fmt.Errorf("the range %s changes its width", part)
		case to-from >= uint64(max(most-len(all), 0)):
			return nil, fmt.Errorf("more than %d names", maxHosts)
		}
		for n := from; n <= to; n++ {
			all = append(all, fmt.Sprintf("%0*d", len(low), n))
		}
	}
	return all, nil
}

// digits reads a number of a range; 18 digits are below the largest of 64 bits, so that counting up cannot wrap.
func digits(s string) (uint64, error) {
	if s == "" || len(s) > 18 || strings.Trim(s, "0123456789") != "" {
		return 0, fmt.Errorf("%q in brackets is not a number or a range", s)
	}
	return strconv.ParseUint(s, 10, 64)
}
