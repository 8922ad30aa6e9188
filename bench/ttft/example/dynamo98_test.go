package example

import (
	"math"
	"strings"
	"testing"
)

// The example's arithmetic, worked by hand: 8000 x 131072 B = 1.048576 GB.
func TestDynamo98(t *testing.T) {
	e, err := Dynamo98()
	if err != nil {
		t.Fatal(err)
	}
	const gb = 1.048576
	for i, want := range []struct{ transfer, last float64 }{
		{gb / 1, 10 * gb / 1}, {gb / 3, 10 * gb / 3}, {gb / 0.1, 10 * gb / 0.1}, {9.8, 98}, {gb / 9.6, 0}, {0.037, 0},
	} {
		c := e.Cases[i]
		t.Logf("%-40s transfer %.3f s, TTFT alone %.3f s, last of ten %.2f s, ten users p50 %.2f p99 %.2f s (stated: %s)", c.Label, c.Transfer, c.Alone, c.Last, c.P50, c.P99, c.Stated)
		if math.Abs(c.Transfer-want.transfer) > 1e-3*want.transfer {
			t.Errorf("%s: transfer %.4g s, want %.4g", c.Label, c.Transfer, want.transfer)
		}
		// Ten share the link from the first one's prefill on: the last ends after
		// all ten transfers, and at most all ten prefills and a few steps later.
		if want.last > 0 && (c.Last < want.last || c.Last > want.last+10*0.173+0.1) {
			t.Errorf("%s: last of ten after %.4g s, want %.4g and up to ten prefills more", c.Label, c.Last, want.last)
		}
	}
	if e.Cases[0].Last > 20 {
		t.Error("98 s seems to follow from 1 GB/s: it does not")
	}
	all := ""
	for _, r := range e.Rows {
		all += r.What + r.Stated + r.Computed + r.Assumed + "\n"
	}
	for _, want := range []string{"1.0486 GB", "0.107 GB/s", "0.35-1.05 s", "3.5-10.5 s", "at most 29 s", "= 56"} {
		if !strings.Contains(all, want) {
			t.Errorf("the example does not say %q:\n%s", want, all)
		}
	}
}
