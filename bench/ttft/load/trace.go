package load

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"hopbench/results/unit"
)

// Limits of what a trace may hold. They are far above any real prompt and
// exist so that a broken file is refused with its line, rather than turned
// into a run that never ends.
const (
	maxTokens    = 100_000_000
	maxLineBytes = 16 << 20
)

// Trace is a recorded load: the requests of a file in Mooncake's JSON Lines
// format (timestamp in milliseconds, input_length, output_length, hash_ids).
// Format and traces: https://github.com/kvcache-ai/Mooncake, FAST25-release/traces.
type Trace struct {
	requests []Request
	millis   []int64 // as stamped; the grid is looked for in these
	// Warnings are findings that do not stop a run.
	Warnings []string
}

// traceLine has pointers so that an absent field and a zero differ.
type traceLine struct {
	Timestamp json.RawMessage `json:"timestamp"`
	Input     json.RawMessage `json:"input_length"`
	Output    json.RawMessage `json:"output_length"`
	Hashes    []uint64        `json:"hash_ids"`
}

// mooncakeBlock is the number of tokens under one hash id: "hash_ids" are
// those of 512-token blocks in all of Mooncake's published traces.
const mooncakeBlock = 512

// ReadTrace reads a trace. An error names the line and the field: time that
// goes back, a length below 1 or above 100 million tokens, a field that is
// missing or no whole number, a file without requests.
func ReadTrace(r io.Reader) (*Trace, error) {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 0, 64<<10), maxLineBytes)
	t := &Trace{}
	mismatched := 0
	line := 0
	for sc.Scan() {
		line++
		raw := bytes.TrimSpace(sc.Bytes())
		if len(raw) == 0 {
			continue
		}
		var l traceLine
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("trace line %d: %w", line, unit.Decoding(err))
		}
		stamp, err := field(line, "timestamp", l.Timestamp, 0, math.MaxInt64/2)
		if err != nil {
			return nil, err
		}
		in, err := field(line, "input_length", l.Input, 1, maxTokens)
		if err != nil {
			return nil, err
		}
		out, err := field(line, "output_length", l.Output, 0, maxTokens)
		if err != nil {
			return nil, err
		}
		if n := len(t.millis); n > 0 && stamp < t.millis[n-1] {
			return nil, fmt.Errorf("trace line %d: timestamp %d goes back behind %d", line, stamp, t.millis[n-1])
		}
		req := Request{Arrival: float64(stamp) / 1000, Input: int(in), Output: max(1, int(out))}
		if len(l.Hashes) > 0 {
			req.Blocks, req.BlockTokens = l.Hashes, mooncakeBlock
			if len(l.Hashes) != (int(in)+mooncakeBlock-1)/mooncakeBlock {
				mismatched++
			}
		}
		t.requests = append(t.requests, req)
		t.millis = append(t.millis, stamp)
	}
	if err := sc.Err(); err != nil {
		if errors.Is(err, bufio.ErrTooLong) {
			return nil, fmt.Errorf("trace line %d: longer than %d bytes", line+1, maxLineBytes)
		}
		return nil, fmt.Errorf("trace line %d: %w", line+1, err)
	}
	if len(t.requests) == 0 {
		return nil, errors.New("trace: no requests")
	}
	if mismatched > 0 {
		t.Warnings = append(t.Warnings, fmt.Sprintf("%d of %d requests have a number of hash_ids that does not cover their input_length in %d-token blocks", mismatched, len(t.requests), mooncakeBlock))
	}
	first := t.requests[0].Arrival
	for i := range t.requests {
		t.requests[i].Arrival -= first
	}
	return t, nil
}

func field(line int, name string, raw json.RawMessage, low, high int64) (int64, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return 0, fmt.Errorf("trace line %d: %s is missing", line, name)
	}
	v, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("trace line %d: %s %s is not a whole number", line, name, unit.Text(string(raw[:min(len(raw), 40)])))
	}
	if v < low || v > high {
		return 0, fmt.Errorf("trace line %d: %s %d is outside %d to %d", line, name, v, low, high)
	}
	return v, nil
}

// Len is the number of requests.
func (t *Trace) Len() int { return len(t.requests) }

// Span is the time from the first stamp to the last, in seconds.
func (t *Trace) Span() float64 { return t.requests[len(t.requests)-1].Arrival }

// Mean gives the mean prompt and output length in tokens.
func (t *Trace) Mean() (input, output float64) {
	for _, r := range t.requests {
		input += float64(r.Input)
		output += float64(r.Output)
	}
	n := float64(len(t.requests))
	return input / n, output / n
}

// Grid is the step in seconds on which the stamps lie, when that step is
// coarse: at least 100 ms, with at least 8 places taken and more than 1.5 requests
// at each in the mean, and 99 % of the stamps within 0.5 % of the step of one
// (Mooncake's conversation trace has 2999 and 3001 ms beside 3000). 0 means no
// such grid: the stamps are taken as they are.
//
// A coarse grid is not a burst of users but a clock that was cut off, and
// taken literally it puts a queue in front of every request.
func (t *Trace) Grid() float64 {
	var gaps []int64
	for i, m := range t.millis[1:] {
		if d := m - t.millis[i]; d > 0 {
			gaps = append(gaps, d)
		}
	}
	// The jitter of a grid makes gaps of its own: they are far below its step.
	slices.Sort(gaps)
	if n := len(gaps); n > 0 {
		gaps = slices.DeleteFunc(gaps, func(d int64) bool { return d*20 < gaps[n-1] && d <= 10 })
	}
	if len(gaps) < 7 {
		return 0
	}
	step := gaps[len(gaps)/2]
	if step < 100 {
		return 0
	}
	on, places, last := 0, 0, int64(-1)
	for _, m := range t.millis {
		k := t.place(m, step)
		if d := m - t.millis[0] - k*step; max(d, -d)*200 <= max(step, 400) {
			on++
		}
		if k != last {
			places, last = places+1, k
		}
	}
	n := float64(len(t.millis))
	if float64(on) < 0.99*n || places < 8 || n < 1.5*float64(places) {
		return 0
	}
	return float64(step) / 1000
}

// place is the number of the grid's place that a stamp is nearest to.
func (t *Trace) place(m, step int64) int64 { return (m - t.millis[0] + step/2) / step }

// Spread returns a copy whose requests of one place of the grid are spread over
// its step, in their order, at uniformly drawn places: what a Poisson stream looks
// like inside a window whose count is known. Without a coarse grid it returns
// the trace itself.
func (t *Trace) Spread(seed uint64) *Trace {
	grid := t.Grid()
	if grid == 0 {
		return t
	}
	step := int64(math.Round(grid * 1000))
	rng := rand.New(rand.NewPCG(seed, 0xa0761d6478bd642f))
	out := &Trace{millis: t.millis, Warnings: t.Warnings, requests: slices.Clone(t.requests)}
	for i := 0; i < len(out.requests); {
		k := t.place(t.millis[i], step)
		j := i
		for j < len(t.millis) && t.place(t.millis[j], step) == k {
			j++
		}
		// Order statistics of j-i uniforms, from normalised exponential gaps.
		sum := 0.0
		for n := i; n < j; n++ {
			sum += rng.ExpFloat64()
			out.requests[n].Arrival = sum
		}
		sum += rng.ExpFloat64()
		for n := i; n < j; n++ {
			out.requests[n].Arrival = grid * (float64(k) + out.requests[n].Arrival/sum)
		}
		i = j
	}
	return out
}

// Source replays the trace, its time divided by speed (1 is as recorded).
func (t *Trace) Source(speed float64) Source { return &replay{t: t, speed: speed} }

type replay struct {
	t     *Trace
	speed float64
	next  int
}

func (p *replay) Next(r *Request) bool {
	if p.next >= len(p.t.requests) {
		return false
	}
	*r = p.t.requests[p.next]
	r.Arrival /= p.speed
	p.next++
	return true
}

// Lengths draws pairs of lengths from the trace's requests, for a load of
// another shape with the same mix.
func (t *Trace) Lengths() Lengths {
	return func(r *rand.Rand) (int, int) {
		q := &t.requests[r.IntN(len(t.requests))]
		return q.Input, q.Output
	}
}

// Longest is the largest prompt length in tokens.
func (t *Trace) Longest() int {
	top := 0
	for i := range t.requests {
		top = max(top, t.requests[i].Input)
	}
	return top
}
