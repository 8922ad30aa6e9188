package results

import (
	"strings"
	"testing"
)

func TestReferencesAreWhole(t *testing.T) {
	list, err := References()
	if err != nil || len(list) < 4 {
		t.Fatalf("%d references, %v", len(list), err)
	}
	for _, r := range list {
		if r.Transport == "" || r.Label == "" || r.Source == "" || !strings.HasPrefix(r.URL, "https://") || !(r.LowBytesPerSecond > 0) || r.HighBytesPerSecond < r.LowBytesPerSecond {
			t.Errorf("%+v", r)
		}
	}
}
