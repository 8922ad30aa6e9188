package engine

import (
	"strings"
	"testing"
)

// Every preset says where each of its facts comes from.
func TestPresetsAreWhole(t *testing.T) {
	names := map[string]bool{}
	for _, p := range Presets() {
		if p.Engine == "" || p.Version == "" || p.BlockTokens < 1 || len(p.Sources) < 3 || p.HandoverFrom == "" || names[p.Name] {
			t.Errorf("%s is not whole: %+v", p.Name, p)
		}
		names[p.Name] = true
		if p.Operation != "read" && p.Operation != "write" || p.Overlap == "chunked" && p.OnRequest {
			t.Errorf("%s: operation %q, overlap %q", p.Name, p.Operation, p.Overlap)
		}
	}
	if _, err := Find("SGLang"); err != nil {
		t.Error(err)
	}
	if _, err := Find("x"); err == nil || !strings.Contains(err.Error(), "vllm-nixl, ") {
		t.Errorf("error %v, want the names that are known", err)
	}
}
