package staging

import (
	"errors"
	"fmt"
	"time"

	"hopbench/transports/internal/cuda"
)

// Calibration is how a ring's shape was chosen: what was tried and what came of it. A result row records it.
type Calibration struct {
	Config Config  `json:"config"`
	Chosen string  `json:"chosen"` // in words
	Trials []Trial `json:"trials,omitempty"`
}

// Trial is one measured shape: both copies of a transfer through pinned memory, overlapped.
type Trial struct {
	Config
	BytesPerSecond float64 `json:"bytes_per_second"`
}

const (
	smallestChunk = 128 << 10
	largestChunk  = 8 << 20
	// chunksPerTransfer keeps the two chunks that nothing overlaps (the first copy out and the last copy in) at about three
	// percent of a transfer.
	chunksPerTransfer = 64
	trialTime         = 15 * time.Millisecond
)

// Calibrate chooses a ring's shape on the device whose context is current, in about a quarter of a second: the smallest chunk that
// reaches 98 % of the best rate of those tried, then the fewest chunks that do. transferBytes is the size of one operation (0: not
// known); a chunk is at most a 64th of it where that is not below 128 KiB.
func Calibrate(th *cuda.Thread, transferBytes uint64) (Calibration, error) {
	most := largestChunk
	if transferBytes > 0 {
		for most > smallestChunk && uint64(most) > transferBytes/chunksPerTransfer {
			most /= 2
		}
	}
	var cal Calibration
	try := func(c Config) (float64, error) {
		rate, err := trial(th, c)
		cal.Trials = append(cal.Trials, Trial{c, rate})
		return rate, err
	}
	const depth = 4
	for chunk := smallestChunk; chunk <= most; chunk *= 2 {
		if _, err := try(Config{chunk, depth}); err != nil {
			return cal, err
		}
	}
	chunk := smallest(cal.Trials).ChunkBytes
	from := len(cal.Trials)
	// Two chunks overlap; more of them ride out a thread that wakes late. Both sides go at one rate, so what a hiccup costs is never won back.
	for _, d := range []int{depth, 6, 8, 16} {
		if _, err := try(Config{chunk, d}); err != nil {
			return cal, err
		}
	}
	cal.Config = smallest(cal.Trials[from:]).Config
	cal.Chosen = fmt.Sprintf("smallest of %d shapes within 2 %% of the best, chunks of at most %d bytes", len(cal.Trials), most)
	return cal, nil
}

// Choose is the ring's shape as it was asked for: chunkBytes and depth as they are given, and calibrated where they are 0.
func Choose(th *cuda.Thread, transferBytes uint64, chunkBytes, depth int) (Calibration, error) {
	if chunkBytes > 0 && depth > 0 {
		return Calibration{Config: Config{chunkBytes, depth}, Chosen: "as the settings say"}, nil
	}
	cal, err := Calibrate(th, transferBytes)
	switch {
	case err != nil:
	case chunkBytes > 0:
		cal.Config.ChunkBytes, cal.Chosen = chunkBytes, "chunk as the settings say, depth calibrated"
	case depth > 0:
		cal.Config.Depth, cal.Chosen = depth, "depth as the settings say, chunk calibrated"
	}
	return cal, err
}

// smallest is the first trial within 2 % of the best.
func smallest(trials []Trial) Trial {
	best := 0.0
	for _, t := range trials {
		best = max(best, t.BytesPerSecond)
	}
	for _, t := range trials {
		if t.BytesPerSecond >= 0.98*best {
			return t
		}
	}
	return trials[0]
}

// trial runs a pump into a sink of the same shape over a wire that is a copy in host memory.
func trial(th *cuda.Thread, c Config) (rate float64, err error) {
	size := uint64(4 * c.ChunkBytes * c.Depth)
	device, err := th.Alloc(2 * size)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, th.Free(device)) }()
	out, err := NewRing(th, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, out.Close(th)) }()
	in, err := NewRing(th, c)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, in.Close(th)) }()

	patience := Patience{Spin: 50 * time.Microsecond, Stall: 5 * time.Second}
	p, s := out.Pump(th, device, patience), in.Sink(th, device+cuda.Pointer(size), patience)
	spans := []Span{{0, size}}
	once := func() error {
		s.Begin(spans)
		if err := p.Push(spans); err != nil {
			return err
		}
		for p.Pending() > 0 {
			if err := relay(p, s); err != nil {
				return err
			}
		}
		return s.Flush()
	}
	if err := once(); err != nil { // first use is not measured
		return 0, err
	}
	begun := time.Now()
	for n := uint64(1); ; n++ {
		if err := once(); err != nil {
			return 0, err
		}
		if took := time.Since(begun); took > trialTime {
			return float64(n*size) / took.Seconds(), nil
		}
	}
}

// relay moves the next chunk of a pump into a sink.
func relay(p *Pump, s *Sink) error {
	c, err := p.Next()
	if err != nil {
		return err
	}
	for len(c.Bytes) > 0 {
		room, err := s.Space()
		if err != nil {
			return err
		}
		n := copy(room, c.Bytes)
		if n == 0 {
			return errNothing
		}
		c.Bytes = c.Bytes[n:]
		if err := s.Filled(n); err != nil {
			return err
		}
	}
	return p.Release()
}
