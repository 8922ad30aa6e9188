package matrix

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestOrder(t *testing.T) {
	// Two groups that are mixed in the order of the hosts, and one host that is slow with all.
	group := []int{0, 1, 0, 1, 1, 0, 0, 1}
	at := func(i, j int) (float64, bool) {
		if i == j {
			return 0, false
		}
		v := 10.0
		if group[i] != group[j] {
			v = 5
		}
		if i == 3 || j == 3 {
			v = 1
		}
		return v, true
	}
	got := Order(8, at, false)
	text := ""
	for _, h := range got {
		text += fmt.Sprint(h)
	}
	if text != "02561473" && text != "14702563" && text != "14730256" {
		t.Errorf("%s", text)
	}
	if got[7] != 3 {
		t.Errorf("the slow host is not last: %v", got)
	}
	for n := range 3 {
		if got := Order(n, at, false); len(got) != n {
			t.Errorf("%d hosts: %v", n, got)
		}
	}
	all := Order(60, func(i, j int) (float64, bool) { return 0, false }, true)
	slices.Sort(all)
	if all[59] != 59 || len(all) != 60 {
		t.Errorf("hosts without figures: %v", all)
	}
}

func TestDistribution(t *testing.T) {
	v := make([]float64, 20)
	for i := range v {
		v[i] = float64(i + 1)
	}
	d := DistributionOf(v)
	if *d != (Distribution{20, 1, 1, 10.5, 19, 20}) {
		t.Errorf("%+v", *d)
	}
	if DistributionOf(nil) != nil {
		t.Error("of nothing")
	}
}

func TestMiddle(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		v := make([]float64, 1+r.IntN(30))
		for i := range v {
			v[i] = float64(r.IntN(9))
		}
		s := slices.Sorted(slices.Values(v))
		if got := middle(v); got != median(s) {
			t.Fatalf("%v: %v", s, got)
		}
	}
}

func TestNatural(t *testing.T) {
	v := []string{"n10", "n2", "rack2-n1", "rack10-n1", "n02", "b", "a", "n2a", "", "n"}
	slices.SortFunc(v, natural)
	if got := strings.Join(v, " "); got != " a b n n02 n2 n2a n10 rack2-n1 rack10-n1" {
		t.Errorf("%q", got)
	}
}
