package schedule

import (
	"fmt"
	"time"
)

// Size is a mesh that is not measured yet.
type Size struct {
	Hosts int
	Half  bool // every second round alone
	Rails int  // that each pair is measured over, one after the other; 0 is 1
	// Bandwidth and Latency are the rows that each pair gets of either kind on a rail: transports times operations times directions times sizes.
	Bandwidth, Latency int
	// CellSeconds is what measuring one row takes, all of its rounds, warm-up and verification, and OpenSeconds what opening, registering,
	// connecting and closing a pair's link takes: as a short run on two of the hosts shows them.
	CellSeconds, OpenSeconds float64
	// CellRounds is how often a row's loop is run, and Stamps how many completions are stamped in one run of it.
	CellRounds, Stamps int
}

// What one of each thing costs. They were measured with this program, and a test measures them again.
const (
	// BandwidthRowBytes and LatencyRowBytes are the mean length of a measured row in the committed run results/runs/vm-2cpu-2026-12-01 (42 and 24 rows),
	// with 120 bytes for the hosts, the schedule and the spread of the start that a row of a mesh has besides.
	BandwidthRowBytes = 3185 + 120
	LatencyRowBytes   = 4068 + 120
	// HostBytes is a host's fingerprint in the header: a host with eight GPUs and ten devices, as JSON.
	HostBytes = 4096
	// ConnectionBytes is what one open control connection takes: the growth of heap and stacks with 64 connections, for each (158,000 bytes). Both ends
	// were in one process, so the coordinator's part is less.
	ConnectionBytes = 160 << 10
	// StampBytes is a stamp with its latency as the coordinator holds them until the row is made.
	StampBytes = 16
	// PlaceBytes is one pair of one row's matrix in package results/matrix.
	PlaceBytes = 24
	// JudgeBytes is what one pair takes more while its matrix is judged: two tables of logarithms, its kind, and three sorted copies. The matrices are judged
	// one after the other.
	JudgeBytes = 2*8 + 1 + 3*8
	// LinkCalls are the calls of the control channel that a link takes, both sides together: open, connect and close.
	LinkCalls = 6
	// CellCalls are those of a row without its measured rounds: preparing, the first run over all places, which is verified, the trial that chooses the
	// length of the rounds, and the last verification; RoundCalls those of one measured round: arm, warm up, barrier, run, disarm.
	CellCalls, RoundCalls = 14, 5
)

// Estimate is what a mesh will take.
type Estimate struct {
	Hosts           int   `json:"hosts"`
	Rounds          int   `json:"rounds"`           // of disjoint pairs, over all rails
	PairsAtOnce     int   `json:"pairs_at_once"`    // of a round
	Pairs           int64 `json:"pairs"`            // unordered
	Rows            int64 `json:"rows"`             // of the result file
	ResultBytes     int64 `json:"result_bytes"`     // of the result file
	ControlCalls    int64 `json:"control_calls"`    // of the coordinator; each is a message there and one back
	MemoryBytes     int64 `json:"memory_bytes"`     // of the coordinator, at most
	MatrixBytes     int64 `json:"matrix_bytes"`     // of those, for the matrices of the answer
	StampBytes      int64 `json:"stamp_bytes"`      // of those, for the completions of a row's rounds
	ConnectionBytes int64 `json:"connection_bytes"` // of those, for the control connections
	ScheduleBytes   int64 `json:"schedule_bytes"`   // of those, for the schedule
	// Seconds is how long the measurement takes.
	Seconds float64 `json:"seconds"`
	// ScheduleSeconds is how long computing and checking the schedule just took.
	ScheduleSeconds float64 `json:"schedule_seconds"`
	// How says how each figure was computed, a line each.
	How []string `json:"how"`
}

// Estimate computes the schedule, checks it (each pair once, no host twice in a round), and says what measuring it takes:
//
//	rounds        (N-1, or N with an odd N; with Half every second) times rails
//	rows          pairs times rails times (Bandwidth + Latency)
//	result        rows times the bytes of a row of its kind, and HostBytes a host
//	calls         pairs times rails times (LinkCalls + rows of a pair times (CellCalls + RoundCalls times CellRounds))
//	memory        ConnectionBytes a host, PlaceBytes times N squared for each row of a pair and rail and JudgeBytes times N squared once, StampBytes times Stamps times CellRounds for each pair of a
//	              round, and 16 bytes a pair of the schedule
//	duration      rounds times (OpenSeconds + rows of a pair times CellSeconds): the pairs of a round are measured at the same time
func (s Size) Estimate() (*Estimate, error) {
	if s.Rails == 0 {
		s.Rails = 1
	}
	switch {
	case s.Hosts < 2 || s.Hosts > MostHosts:
		return nil, fmt.Errorf("schedule: %d hosts: between 2 and %d", s.Hosts, MostHosts)
	case s.Rails < 1 || s.Rails > 64:
		return nil, fmt.Errorf("schedule: %d rails: between 1 and 64", s.Rails)
	case s.Bandwidth < 0 || s.Latency < 0 || s.Bandwidth+s.Latency < 1 || s.Bandwidth+s.Latency > 1e6:
		return nil, fmt.Errorf("schedule: %d and %d rows a pair: between 1 and a million", s.Bandwidth, s.Latency)
	case !(s.CellSeconds >= 0) || !(s.OpenSeconds >= 0) || s.CellSeconds > 1e9 || s.OpenSeconds > 1e9:
		return nil, fmt.Errorf("schedule: %g s a row and %g s a link: no times", s.CellSeconds, s.OpenSeconds)
	case s.CellRounds < 0 || s.Stamps < 0 || s.CellRounds > 1e6 || s.Stamps > 1<<30:
		return nil, fmt.Errorf("schedule: %d rounds of %d stamps", s.CellRounds, s.Stamps)
	}
	start := time.Now()
	rounds, cover := AllPairs(s.Hosts), Every
	if s.Half {
		rounds, cover = Half(s.Hosts), Any
	}
	if err := Check(s.Hosts, rounds, true, cover); err != nil {
		return nil, err
	}
	e := &Estimate{Hosts: s.Hosts, ScheduleSeconds: time.Since(start).Seconds()}
	n, rails, cells := int64(s.Hosts), int64(s.Rails), int64(s.Bandwidth+s.Latency)
	for _, r := range rounds {
		e.Pairs += int64(len(r))
		e.PairsAtOnce = max(e.PairsAtOnce, len(r))
	}
	e.Rounds = len(rounds) * s.Rails
	e.Rows = e.Pairs * rails * cells
	e.ResultBytes = e.Pairs*rails*(int64(s.Bandwidth)*BandwidthRowBytes+int64(s.Latency)*LatencyRowBytes) + n*HostBytes
	e.ControlCalls = e.Pairs * rails * (LinkCalls + cells*(CellCalls+RoundCalls*int64(s.CellRounds)))
	e.ConnectionBytes = n * ConnectionBytes
	e.MatrixBytes = n * n * (rails*cells*PlaceBytes + JudgeBytes)
	e.StampBytes = int64(e.PairsAtOnce) * int64(s.CellRounds) * int64(s.Stamps) * StampBytes
	e.ScheduleBytes = 16 * e.Pairs
	e.MemoryBytes = e.ConnectionBytes + e.MatrixBytes + e.StampBytes + e.ScheduleBytes
	e.Seconds = float64(e.Rounds) * (s.OpenSeconds + float64(cells)*s.CellSeconds)
	e.How = []string{
		fmt.Sprintf("rounds: %d of the schedule, over %d rails one after the other", len(rounds), s.Rails),
		fmt.Sprintf("rows: %d pairs x %d rails x %d rows", e.Pairs, s.Rails, cells),
		fmt.Sprintf("result: %d B a row of bandwidth, %d B a row of latency, %d B a host", BandwidthRowBytes, LatencyRowBytes, HostBytes),
		fmt.Sprintf("calls: %d a link, and for each row %d and %d a round, %d rounds", LinkCalls, CellCalls, RoundCalls, s.CellRounds),
		fmt.Sprintf("memory: %d B a control connection, %d B a place of each matrix and %d B of one, %d B for each of %d stamps of %d rounds of %d pairs at once, 16 B a pair of the schedule",
			ConnectionBytes, PlaceBytes, JudgeBytes, StampBytes, s.Stamps, s.CellRounds, e.PairsAtOnce),
		fmt.Sprintf("duration: rounds x (%g s to open and close a link + %d rows x %g s)", s.OpenSeconds, cells, s.CellSeconds),
	}
	return e, nil
}
