package compare

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"hopbench/results/page"
)

func TestRenderings(t *testing.T) {
	m := newMaker(t)
	six := []float64{100e6, 101e6, 102e6, 103e6, 104e6, 105e6}
	slow := []float64{80e6, 81e6, 82e6, 83e6, 84e6, 85e6}
	evil := plain(1 << 20)
	evil.Status, evil.Reason = "failed", "<script>alert(1)</script> | `x` \x1b[31m"
	old := m.load(m.file(0, withRounds(plain(64), six...), withRounds(plain(4096), six...), withRounds(plain(1<<20), six...)))
	new := m.load(m.file(1, withRounds(plain(64), six...), withRounds(plain(4096), slow...), evil))
	r := compared(t, old, new, Options{})
	failures := r.Failures(Regression)
	var text, markdown, js bytes.Buffer
	r.WriteText(&text, failures)
	r.WriteMarkdown(&markdown, failures)
	if err := r.WriteJSON(&js); err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string]*bytes.Buffer{"report.txt": &text, "report.md": &markdown, "report.json": &js} {
		golden := filepath.Join("testdata", name)
		if *update {
			os.MkdirAll("testdata", 0o755)
			os.WriteFile(golden, b.Bytes(), 0o644)
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), b.String()); d != "" {
			t.Errorf("%s (-update writes it anew):\n%s", name, d)
		}
		for line := range strings.Lines(b.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); name == "report.txt" && n > page.Width {
				t.Errorf("a line of %d columns: %s", n, line)
			}
		}
		if name != "report.txt" && strings.Contains(b.String(), "<script>") || strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s: text of a result file acts", name)
		}
	}
}

func TestMatch(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{{"*", "", true}, {"tcp/*", "tcp/write/x", true}, {"tcp", "tcp/write", false}, {"*64KiB*", "tcp/64KiB/x", true}, {"t?p", "tcp", true}, {"*a*b", "xaxbxb", true}, {"*a*b", "xaxbx", false}, {"", "x", false}} {
		if got := Match(c.pattern, c.name); got != c.want {
			t.Errorf("%q on %q: %v", c.pattern, c.name, got)
		}
	}
}
