package schedule

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"hopbench/results/unit"
)

// Traffic is a pair and the bytes that go from one to the other.
type Traffic struct {
	Pair
	Bytes uint64
}

// FromMatrix is the pairs of a byte matrix, row by row: bytes[i][j] go from host i to host j, none where it is 0. It must be square, with zeros on
// its diagonal.
func FromMatrix(bytes [][]uint64) ([]Traffic, error) {
	var out []Traffic
	for i, row := range bytes {
		if len(row) != len(bytes) {
			return nil, fmt.Errorf("byte matrix: row %d has %s; the matrix has %d rows", i+1, count(len(row), "column"), len(bytes))
		}
		for j, b := range row {
			switch {
			case b == 0:
			case i == j:
				return nil, fmt.Errorf("byte matrix: row %d, column %d: %d bytes from a host to itself", i+1, j+1, b)
			default:
				out = append(out, Traffic{Pair{i, j}, b})
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("byte matrix: it moves no bytes")
	}
	return out, nil
}

const (
	// mostLine bounds a line of a matrix file: MostHosts columns of a size each.
	mostLine = 32 * MostHosts
	// mostBytes bounds one entry: 1 PiB.
	mostBytes = 1 << 50
)

// ReadMatrix reads a byte matrix: a line for each host, with the bytes to each host, separated by spaces, tabs, commas or semicolons. Bytes may be
// plain or carry a unit (64KiB, 1.5M). Empty lines and what follows a # are skipped. A first line of names, and names before each row, put rows and
// columns into the order of names; without them the order of the file is that of the ranks. What is not such a matrix of len(names)
// hosts is an error that names the row and the column.
func ReadMatrix(r io.Reader, names []string) ([][]uint64, error) {
	rows, err := fields(r)
	if err != nil {
		return nil, err
	}
	n := len(names)
	if n == 0 || n > MostHosts {
		return nil, fmt.Errorf("byte matrix: a mesh of %d hosts", n)
	}
	columns, rows, err := heading(rows, names)
	if err != nil {
		return nil, err
	}
	if len(rows) != n {
		return nil, fmt.Errorf("byte matrix: %s; the mesh has %d ranks", count(len(rows), "row"), n)
	}
	out := make([][]uint64, n)
	for i, row := range rows {
		to := i
		if columns != nil {
			if to = slices.Index(names, row[0]); to < 0 {
				return nil, fmt.Errorf("byte matrix: row %d: no host is called %q", i+1, row[0])
			}
			row = row[1:]
		}
		if out[to] != nil {
			return nil, fmt.Errorf("byte matrix: row %d: host %s stands twice", i+1, names[to])
		}
		if len(row) != n {
			return nil, fmt.Errorf("byte matrix: row %d has %s; the mesh has %d ranks", i+1, count(len(row), "column"), n)
		}
		out[to] = make([]uint64, n)
		for j, text := range row {
			at := j
			if columns != nil {
				at = columns[j]
			}
			if out[to][at], err = size(text); err != nil {
				return nil, fmt.Errorf("byte matrix: row %d, column %d: %w", i+1, j+1, err)
			}
		}
	}
	return out, nil
}

// fields splits the lines of a matrix file.
func fields(r io.Reader) ([][]string, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 1<<16), mostLine)
	var rows [][]string
	for number := 1; lines.Scan(); number++ {
		line, _, _ := strings.Cut(lines.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if len(rows) > MostHosts {
			return nil, fmt.Errorf("byte matrix: more than %d rows", MostHosts)
		}
		row := strings.Fields(line)
		if sep := strings.IndexAny(line, ",;"); sep >= 0 { // a comma or semicolon may have an empty field at its side, a space has none
			c := csv.NewReader(strings.NewReader(line))
			c.Comma, c.TrimLeadingSpace, c.FieldsPerRecord = rune(line[sep]), true, -1
			var err error
			if row, err = c.Read(); err != nil {
				return nil, fmt.Errorf("byte matrix: line %d: %w", number, err)
			}
			for i := range row {
				row[i] = strings.TrimSpace(row[i])
			}
		}
		rows = append(rows, row)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("byte matrix: line %d: %w", len(rows)+1, err)
	}
	return rows, nil
}

// heading takes the first line off where it is one of names, and says which host each column is; nil where it is not. The line may have a field of
// its own above the names of the rows, or not.
func heading(rows [][]string, names []string) ([]int, [][]string, error) {
	if len(rows) == 0 {
		return nil, nil, errors.New("byte matrix: it is empty")
	}
	head := rows[0]
	if len(head) == len(names)+1 {
		head = head[1:]
	}
	if !slices.ContainsFunc(head, func(s string) bool { return slices.Contains(names, s) }) {
		return nil, rows, nil
	}
	if _, err := size(head[0]); err == nil && len(rows) == len(names) {
		return nil, rows, nil // hosts whose names are numbers, and a matrix without names
	}
	if len(head) != len(names) {
		return nil, nil, fmt.Errorf("byte matrix: %s in its first line; the mesh has %d ranks", count(len(head), "name"), len(names))
	}
	columns := make([]int, len(head))
	have := map[int]bool{}
	for j, name := range head {
		at := slices.Index(names, name)
		switch {
		case at < 0:
			return nil, nil, fmt.Errorf("byte matrix: column %d: no host is called %q", j+1, name)
		case have[at]:
			return nil, nil, fmt.Errorf("byte matrix: column %d: host %s stands twice", j+1, name)
		}
		columns[j], have[at] = at, true
	}
	return columns, rows[1:], nil
}

// size reads the bytes of one entry.
func size(text string) (uint64, error) {
	if text == "" {
		return 0, errors.New("it is empty; 0 is no traffic")
	}
	if v, err := strconv.ParseUint(text, 10, 64); err == nil {
		if v > mostBytes {
			return 0, fmt.Errorf("%s: more than 1 PiB", text)
		}
		return v, nil
	}
	if v, err := strconv.ParseFloat(text, 64); err == nil || math.IsInf(v, 0) {
		switch {
		case math.IsNaN(v):
			return 0, fmt.Errorf("%q is no number of bytes", text)
		case v < 0:
			return 0, fmt.Errorf("%s is negative", text)
		case v != math.Trunc(v):
			return 0, fmt.Errorf("%s is not whole", text)
		case v > mostBytes:
			return 0, fmt.Errorf("%s: more than 1 PiB", text)
		}
		return uint64(v), nil
	}
	v, err := unit.ParseBytes(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no number of bytes", text)
	case v < 0:
		return 0, fmt.Errorf("%s is negative", text)
	case v > mostBytes:
		return 0, fmt.Errorf("%s: more than 1 PiB", text)
	}
	return uint64(v), nil
}

func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
