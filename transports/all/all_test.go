package all

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// notTransports are the folders beside this one that are no transport, each with what it is.
var notTransports = map[string]string{
	"all": "this list", "fault": "the error table", "internal": "foreign libraries and shared machinery",
	"mem": "buffers", "topo": "facts of the host", "transporttest": "the conformance suite",
}

func TestEveryTransportIsListed(t *testing.T) {
	entries, err := os.ReadDir("..")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("all.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() || notTransports[e.Name()] != "" {
			continue
		}
		if files, _ := filepath.Glob(filepath.Join("..", e.Name(), "*.go")); len(files) == 0 {
			continue
		}
		if !strings.Contains(string(source), `"hopbench/transports/`+e.Name()+`"`) {
			t.Errorf("transports/%s is not in Drivers(): nobody can ask for it", e.Name())
		}
	}
}

func TestNamesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, d := range Drivers() {
		if seen[d.Name()] || d.Name() == "" || strings.ToLower(d.Name()) != d.Name() {
			t.Errorf("driver name %q is empty, used twice or not lower case", d.Name())
		}
		seen[d.Name()] = true
	}
}
