package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"hopbench/harness/doctor"
	"hopbench/transports/topo"
	"hopbench/transports/topo/tree"
)

// FuzzDoctor: whatever a captured host holds, there is a report, it fits the page, and each verdict has its finding.
func FuzzDoctor(f *testing.F) {
	files, _ := filepath.Glob(hostFolder + "/*.txtar")
	for _, n := range files {
		if b, err := os.ReadFile(n); err == nil && len(b) < 20000 {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tr, err := topo.ParseArchive("fuzz", b)
		if err != nil {
			return
		}
		h := tr.Read(topo.Options{})
		r := doctor.Examine(h, patients())
		var out bytes.Buffer
		if err := r.WriteText(&out, true); err != nil {
			t.Fatal(err)
		}
		if err := tree.Write(&out, h); err != nil {
			t.Fatal(err)
		}
		if err := tree.WriteMatrix(&out, h); err != nil {
			t.Fatal(err)
		}
		if err := tree.GraphOf(h).WriteSVG(&bytes.Buffer{}); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > doctor.Columns {
				t.Fatalf("too wide: %q", line)
			}
		}
		for _, x := range r.Transports {
			if x.Verdict != doctor.Usable && len(x.Findings) == 0 {
				t.Fatalf("%s is %s without a finding", x.Name, x.Verdict)
			}
		}
	})
}
