package unit

import "testing"

func TestCount(t *testing.T) {
	for _, c := range []struct {
		n    int
		noun string
		want string
	}{
		{0, "NIC", "0 NICs"}, {1, "NIC", "1 NIC"}, {2, "NIC", "2 NICs"}, {2, "copy", "2 copies"}, {3, "way", "3 ways"}, {2, "key", "2 keys"},
		{1, "request at once", "1 request at once"}, {8, "request at once", "8 requests at once"}, {-1, "byte", "-1 bytes"},
	} {
		if got := Count(c.n, c.noun); got != c.want {
			t.Errorf("%d %s: %q, want %q", c.n, c.noun, got, c.want)
		}
	}
}
