package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestSummary(t *testing.T) {
	var out bytes.Buffer
	s := newSummary(&out)
	s.read(strings.NewReader(`{"Action":"output","Package":"hopbench/a","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"hopbench/a","Test":"TestA","Output":"    a_test.go:7: needs guest: there is no cpio\n"}
{"Action":"output","Package":"hopbench/a","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"hopbench/a","Test":"TestA","Elapsed":0}
{"Action":"pass","Package":"hopbench/a","Test":"TestB","Elapsed":0}
{"Action":"pass","Package":"hopbench/a","Elapsed":0.1}
{"Action":"output","Package":"hopbench/b","Test":"TestC","Output":"    b_test.go:1: 2 is not 3\n"}
{"Action":"fail","Package":"hopbench/b","Test":"TestC","Elapsed":0}
{"Action":"build-output","ImportPath":"hopbench/c","Output":"c.go:1: syntax error\n"}
not JSON
{"Action":"fail","Package":"hopbench/c","Elapsed":0}
`))
	s.close()
	for _, want := range []string{"ok   a (0.1 s)", "needs guest: there is no cpio\n    a TestA", "2 is not 3", "FAILED b TestC", "c.go:1: syntax error", "not JSON", "FAILED c\n", "1 passed, 1 skipped, 2 failed"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "=== RUN") {
		t.Error("noise is shown")
	}
}
