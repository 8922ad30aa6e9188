package schedule

import (
	"fmt"
	"strings"
	"testing"
)

func sprint(v any) string { return fmt.Sprint(v) }

var three = []string{"a", "b", "c"}

func TestReadMatrix(t *testing.T) {
	want := "[[0 1024 2] [3 0 5] [0 7 0]]"
	for name, text := range map[string]string{
		"spaces":       "0 1K 2\n3 0 5\n0 7 0\n",
		"tabs":         "0\t1024\t2\n3\t0\t5\n0\t7\t0",
		"comments":     "# who to whom\n\n0 1KiB 2 # a\n3 0 5\n0 7 0\n",
		"csv":          "0,1024,2\n3,0,5\n0,7,0\n",
		"semicolons":   "0; 1024; 2\n3; 0; 5\n0; 7; 0\n",
		"names":        "host a b c\na 0 1024 2\nb 3 0 5\nc 0 7 0\n",
		"csv names":    ",a,b,c\na,0,1024,2\nb,3,0,5\nc,0,7,0\n",
		"other order":  ",c,a,b\nc,0,0,7\na,2,0,1024\nb,5,3,0\n",
		"no corner":    "a b c\na 0 1024 2\nb 3 0 5\nc 0 7 0\n",
		"float":        "0 1024.0 2e0\n3 0 5\n0 7 0\n",
		"windows ends": "0 1024 2\r\n3 0 5\r\n0 7 0\r\n",
	} {
		m, err := ReadMatrix(strings.NewReader(text), three)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if sprint(m) != want {
			t.Errorf("%s: %v", name, m)
		}
	}
	m, err := ReadMatrix(strings.NewReader("0 5\n6 0\n"), []string{"0", "5"})
	if err != nil || m[0][1] != 5 || m[1][0] != 6 {
		t.Errorf("hosts whose names are numbers: %v, %v", m, err)
	}
}

func TestReadMatrixRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "it is empty",
		"# nothing\n":                         "it is empty",
		"0 1\n1 0\n":                          "2 rows; the mesh has 3 ranks",
		"0 1 2\n3 0\n4 5 0\n":                 "row 2 has 2 columns; the mesh has 3 ranks",
		"0 1 2 9\n3 0 1 1\n4 5 0 1\n":         "row 1 has 4 columns",
		"0 1 2\n3 0 -7\n4 5 0\n":              "row 2, column 3: -7 is negative",
		"0 NaN 2\n3 0 7\n4 5 0\n":             `row 1, column 2: "NaN" is no number`,
		"0 Inf 2\n3 0 7\n4 5 0\n":             "row 1, column 2: Inf",
		"0 1e999 2\n3 0 7\n4 5 0\n":           "row 1, column 2: 1e999",
		"0 1.5 2\n3 0 7\n4 5 0\n":             "row 1, column 2: 1.5 is not whole",
		"0,,2\n3,0,7\n4,5,0\n":                "row 1, column 2: it is empty",
		"0 1 2\n3 0 x\n4 5 0\n":               `row 2, column 3: "x" is no number`,
		"0 2P 2\n3 0 1\n4 5 0\n":              "row 1, column 2",
		"x a b c\nz 0 1 2\nb 3 0 1\n\n":       "2 rows",
		",a,b,c\nz,0,1,2\nb,3,0,1\nc,0,0,0\n": `row 1: no host is called "z"`,
		",a,b,c\na,0,1,2\na,3,0,1\nc,0,0,0\n": "row 2: host a stands twice",
		",a,b,z\na,0,1,2\nb,3,0,1\nc,0,0,0\n": `column 3: no host is called "z"`,
		",a,b,a\na,0,1,2\nb,3,0,1\nc,0,0,0\n": "column 3: host a stands twice",
		"a b\na 0 1\nb 1 0\n":                 "2 names in its first line",
	} {
		if _, err := ReadMatrix(strings.NewReader(text), three); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	if _, err := ReadMatrix(strings.NewReader(strings.Repeat("1", mostLine+1)), three); err == nil {
		t.Error("a line without end is read")
	}
}

func TestFromMatrix(t *testing.T) {
	got, err := FromMatrix([][]uint64{{0, 5, 0}, {0, 0, 7}, {9, 0, 0}})
	if err != nil || sprint(got) != "[{{0 1} 5} {{1 2} 7} {{2 0} 9}]" {
		t.Errorf("%v, %v", got, err)
	}
	for want, m := range map[string][][]uint64{
		"row 2 has 1 column; the matrix has 2 rows":      {{0, 1}, {1}},
		"row 2, column 2: 3 bytes from a host to itself": {{0, 1}, {1, 3}},
		"it moves no bytes":                              {{0, 0}, {0, 0}},
	} {
		if _, err := FromMatrix(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", m, err, want)
		}
	}
}

func FuzzReadMatrix(f *testing.F) {
	for _, seed := range []string{"0 1K 2\n3 0 5\n0 7 0\n", ",a,b,c\na,0,1,2\nb,3,0,1\nc,0,0,0\n", "a b c\n", "0;1;2", "\"", "-1 nan 1e400", "0,\"1\",2\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		m, err := ReadMatrix(strings.NewReader(text), three)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "byte matrix: ") {
				t.Errorf("%q does not say what it is about", err)
			}
			return
		}
		if len(m) != 3 {
			t.Fatalf("%d rows", len(m))
		}
		var again strings.Builder
		for _, row := range m {
			if len(row) != 3 {
				t.Fatalf("a row of %d", len(row))
			}
			for _, b := range row {
				if b > mostBytes {
					t.Fatalf("%d bytes", b)
				}
				fmt.Fprintf(&again, "%d ", b)
			}
			again.WriteByte('\n')
		}
		back, err := ReadMatrix(strings.NewReader(again.String()), three)
		if err != nil || sprint(back) != sprint(m) {
			t.Errorf("%v is read again as %v, %v", m, back, err)
		}
	})
}
