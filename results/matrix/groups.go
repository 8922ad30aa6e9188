package matrix

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

const (
	mostGroupLine  = 64 << 10
	mostGroupHosts = 100_000
)

// ReadGroups reads which switch group each host is of: a line a host, its name and its group's, with spaces, tabs or a comma between. Empty lines and what
// follows a # are skipped. The host of several ranks stands for all of them. A host that stands twice, and a line of another form, are
// errors that name the line.
func ReadGroups(r io.Reader) (map[string]string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, mostGroupLine)
	out := map[string]string{}
	number := 0
	for lines.Scan() {
		number++
		line, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == '\r' })
		switch {
		case len(words) == 0:
			continue
		case len(words) != 2:
			return nil, fmt.Errorf("line %d: want a host and its switch group, not %d words", number, len(words))
		case len(out) == mostGroupHosts:
			return nil, fmt.Errorf("line %d: more than %d hosts", number, mostGroupHosts)
		}
		if before, ok := out[words[0]]; ok {
			return nil, fmt.Errorf("line %d: host %s stands twice, in %s before", number, words[0], before)
		}
		out[words[0]] = words[1]
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no line has a host and its switch group")
	}
	return out, nil
}
