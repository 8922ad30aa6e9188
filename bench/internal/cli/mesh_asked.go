package cli

import (
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"hopbench/harness/mesh"
)

// ofRank are the flags in which ranks may differ: who and where each is, and what is done with the answer.
var ofRank = []string{
	"rank", "size", "local-rank", "local-size", "first", "first-port", "listen", "token-file", "bind", "data-address", "wait-for-ranks", "missing",
	"json", "records", "dry-run", "out", "force", "append",
}

// asked are the flags that say what is measured, as this rank was given them, in the order of their names.
func (f *meshFlags) asked() (flags []string) {
	f.flags.Visit(func(fl *pflag.Flag) {
		if !slices.Contains(ofRank, fl.Name) {
			flags = append(flags, "--"+fl.Name+" "+short(strings.Trim(fl.Value.String(), "[]")))
		}
	})
	slices.Sort(flags)
	return flags
}

// short keeps a value within what a rank may say of itself; values that are unlike stay unlike.
func short(value string) string {
	const most = 60
	if len(value) <= most {
		return value
	}
	return fmt.Sprintf("%s... (%d characters, CRC %08x)", value[:most-30], len(value), crc32.ChecksumIEEE([]byte(value)))
}

// otherwise tells which ranks were asked for something else than the first, one line for each such command line: one counts, and an engine
// gives all the same, so a difference is a mistake. A rank that was asked for nothing leaves it to the first.
func otherwise(members []*mesh.Member) (lines []string) {
	first := members[0]
	told := map[string]bool{}
	for _, m := range members {
		key := strings.Join(m.Asked, " ")
		if len(m.Asked) == 0 || slices.Equal(m.Asked, first.Asked) || told[key] {
			continue
		}
		told[key] = true
		same := 0
		for _, o := range members {
			if slices.Equal(o.Asked, m.Asked) {
				same++
			}
		}
		who := m.String()
		if same > 1 {
			who += fmt.Sprintf(" and %d more", same-1)
		}
		var what []string
		if more := lacking(m.Asked, first.Asked); len(more) > 0 {
			what = append(what, "with "+strings.Join(more, " "))
		}
		if less := lacking(first.Asked, m.Asked); len(less) > 0 {
			what = append(what, "without "+strings.Join(less, " "))
		}
		lines = append(lines, fmt.Sprintf("%s was started %s: what counts is the command line of %v", who, strings.Join(what, " and "), first))
	}
	return lines
}

// lacking are the texts of a list that another has not.
func lacking(list, other []string) (rest []string) {
	for _, s := range list {
		if !slices.Contains(other, s) {
			rest = append(rest, s)
		}
	}
	return rest
}
