package load

import (
	"math"
	"os"
	"strings"
	"testing"
)

func slice(t testing.TB) *Trace {
	t.Helper()
	f, err := os.Open("../testdata/conversation_head.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tr, err := ReadTrace(f)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// The published trace has stamps on a grid of 3 s, some of them a millisecond off.
func TestCoarseGridIsFoundAndSpread(t *testing.T) {
	tr := slice(t)
	if g := tr.Grid(); g != 3 {
		t.Fatalf("grid %g s, want 3", g)
	}
	spread := tr.Spread(1)
	if spread.Len() != tr.Len() {
		t.Fatalf("%d requests became %d", tr.Len(), spread.Len())
	}
	last := 0.0
	same := 0
	a, b := tr.Source(1), spread.Source(1)
	var x, y Request
	for a.Next(&x) {
		if !b.Next(&y) {
			t.Fatal("the spread trace ends early")
		}
		if y.Arrival < last {
			t.Fatalf("time goes back from %g to %g", last, y.Arrival)
		}
		if y.Input != x.Input || len(y.Blocks) != len(x.Blocks) {
			t.Fatal("the order of requests changed")
		}
		// Inside its own step, whose stamp may have been a millisecond early.
		if d := y.Arrival - x.Arrival; d < -0.02 || d > 3.02 {
			t.Fatalf("a request moved by %g s", d)
		}
		if y.Arrival == last {
			same++
		}
		last = y.Arrival
	}
	if same > 1 {
		t.Errorf("%d spread requests still share a stamp", same)
	}
	if again := tr.Spread(1); again.requests[7].Arrival != spread.requests[7].Arrival {
		t.Error("the same seed spreads otherwise")
	}
}

func TestFineStampsAreLeft(t *testing.T) {
	var b strings.Builder
	ms := 0
	for i := range 200 {
		ms += 37 + i*7%90
		b.WriteString(line(ms, 10, 10))
	}
	tr, err := ReadTrace(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	if g := tr.Grid(); g != 0 {
		t.Errorf("a grid of %g s is seen where there is none", g)
	}
	if tr.Spread(1) != tr {
		t.Error("stamps without a grid are spread")
	}
}

func line(ms, in, out int) string {
	return strings.NewReplacer("T", itoa(ms), "I", itoa(in), "O", itoa(out)).Replace(`{"timestamp": T, "input_length": I, "output_length": O}` + "\n")
}

func itoa(v int) string {
	if v == 0 {
		return "0"
	}
	s, neg := "", v < 0
	if neg {
		v = -v
	}
	for ; v > 0; v /= 10 {
		s = string(rune('0'+v%10)) + s
	}
	if neg {
		return "-" + s
	}
	return s
}

func TestBadTraces(t *testing.T) {
	good := line(0, 10, 10)
	for want, text := range map[string]string{
		"no requests": "\n\n",
		"line 2: timestamp 5 goes back behind 10": line(10, 1, 1) + line(5, 1, 1),
		"line 1: timestamp -1 is outside":         line(-1, 1, 1),
		"line 1: input_length 0 is outside":       line(0, 0, 1),
		"line 1: input_length -4 is outside":      line(0, -4, 1),
		"line 1: input_length 1000000000":         line(0, 1000000000, 1),
		"line 2: output_length 1000000000":        good + line(0, 1, 1000000000),
		"output_length is missing":                `{"timestamp": 0, "input_length": 1}`,
		"timestamp is missing":                    `{"input_length": 1, "output_length": 1, "timestamp": null}`,
		`1.5 is not a whole number`:               `{"timestamp": 1.5, "input_length": 1, "output_length": 1}`,
		"line 1:":                                 `{"timestamp": `,
		"line 1: json":                            `{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [-1]}`,
		"line 1: longer than":                     strings.Repeat("x", maxLineBytes+1),
		"line 1: json: exceeded max depth":        strings.Repeat("[", 20000),
	} {
		if _, err := ReadTrace(strings.NewReader(text)); err == nil {
			t.Errorf("%q is accepted", want)
		} else if got := err.Error(); !strings.Contains(got, want) && !strings.HasPrefix(want, "line 1: json") || !strings.HasPrefix(got, "trace") {
			t.Errorf("error %q, want %q in it", got, want)
		}
	}
}

func TestHashesThatDoNotCover(t *testing.T) {
	tr, err := ReadTrace(strings.NewReader(`{"timestamp":0,"input_length":2000,"output_length":1,"hash_ids":[1,2]}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Warnings) != 1 {
		t.Errorf("warnings %q, want one of hashes that cover too little", tr.Warnings)
	}
}

func TestPoissonIsPoisson(t *testing.T) {
	const n, rate = 200_000, 5.0
	s := Poisson(rate, n, Fixed(1, 1), 3)
	var r Request
	last, sum, square := 0.0, 0.0, 0.0
	for s.Next(&r) {
		d := r.Arrival - last
		last = r.Arrival
		sum += d
		square += d * d
	}
	mean := sum / n
	if math.Abs(mean*rate-1) > 0.01 || math.Abs(square/n/(mean*mean)-2) > 0.03 {
		t.Errorf("gaps of mean %g and second moment %g: not exponential with mean %g", mean, square/n, 1/rate)
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add(line(0, 10, 10) + line(3000, 20, 5))
	f.Add(`{"timestamp":0,"input_length":7,"output_length":1,"hash_ids":[1]}`)
	f.Add("{}\n[]\nnull")
	f.Add(line(3, 1, 1) + line(2, 1, 1))
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := ReadTrace(strings.NewReader(text))
		if err != nil {
			return
		}
		last := 0.0
		s := tr.Spread(1).Source(1)
		var r Request
		for n := 0; s.Next(&r); n++ {
			if r.Input < 1 || r.Output < 1 || r.Arrival < last || math.IsNaN(r.Arrival) || math.IsInf(r.Arrival, 0) {
				t.Fatalf("request %d: %+v after %g", n, r, last)
			}
			last = r.Arrival
		}
	})
}
