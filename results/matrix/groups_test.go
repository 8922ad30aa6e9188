package matrix

import (
	"fmt"
	"strings"
	"testing"
)

func TestReadGroups(t *testing.T) {
	got, err := ReadGroups(strings.NewReader("# leafs\n\nn1 leaf1\nn2,leaf1 # the same\r\n n3\tleaf2\n"))
	if err != nil || fmt.Sprint(got) != "map[n1:leaf1 n2:leaf1 n3:leaf2]" {
		t.Errorf("%v, %v", got, err)
	}
	for text, want := range map[string]string{
		"":                         "no line has",
		"n1\n":                     "line 1: want a host and its switch group, not 1 words",
		"n1 a b\n":                 "line 1: want a host",
		"n1 a\n\nn1 b\n":           "line 3: host n1 stands twice, in a before",
		strings.Repeat("x", 70000): "line 1",
	} {
		if _, err := ReadGroups(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v, want %q", text, err, want)
		}
	}
}

func FuzzReadGroups(f *testing.F) {
	f.Add("n1 leaf1\nn2,leaf1\n")
	f.Add("n1 a\nn1 b\n#")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReadGroups(strings.NewReader(text))
		if err != nil {
			return
		}
		var b strings.Builder
		for host, group := range got {
			fmt.Fprintf(&b, "%s %s\n", host, group)
		}
		back, err := ReadGroups(strings.NewReader(b.String()))
		if err != nil || fmt.Sprint(back) != fmt.Sprint(got) {
			t.Errorf("%v is read again as %v, %v", got, back, err)
		}
	})
}
