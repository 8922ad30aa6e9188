package results

import "strings"

// Identity is what makes two cells the same thing measured twice. It is comparable,
// so it can be a map's key. Label, hosts' names outside a mesh and every figure are
// left out.
type Identity struct {
	Transport          string `json:"transport"`
	Definition         string `json:"definition"`
	Operation          string `json:"operation"`
	Direction          string `json:"direction"`
	PieceBytes         int64  `json:"piece_bytes"`
	TotalBytes         int64  `json:"total_bytes"`
	Descriptors        int64  `json:"descriptors"`
	Pattern            string `json:"pattern"`
	Depth              int64  `json:"depth"`
	Streams            int64  `json:"streams"`
	Concurrency        int64  `json:"concurrency"`
	InitiatorMemory    string `json:"initiator_memory"`
	TargetMemory       string `json:"target_memory"`
	InitiatorGPUWay    string `json:"initiator_gpu_way,omitempty"`
	TargetGPUWay       string `json:"target_gpu_way,omitempty"`
	Wait               string `json:"wait"`
	Realm              string `json:"realm"`
	Rail               string `json:"rail,omitempty"`
	InitiatorHost      string `json:"initiator_host,omitempty"`
	TargetHost         string `json:"target_host,omitempty"`
	Schedule           string `json:"schedule,omitempty"`
	RateBytesPerSecond int64  `json:"rate_bytes_per_second,omitempty"` // 0 is no limit
}

// Identity returns the cell's identity.
func (c *Cell) Identity() Identity {
	id := Identity{
		Transport: c.Transport, Definition: c.Definition, Operation: c.Operation, Direction: c.Direction,
		PieceBytes: c.PieceBytes, TotalBytes: c.TotalBytes, Descriptors: c.Descriptors, Pattern: c.Pattern,
		Depth: c.Depth, Streams: c.Streams, Concurrency: c.Concurrency,
		InitiatorMemory: c.InitiatorMemory, TargetMemory: c.TargetMemory,
		InitiatorGPUWay: c.InitiatorGPUWay, TargetGPUWay: c.TargetGPUWay,
		Wait: c.Wait, Realm: c.Realm,
		Rail: c.Rail, InitiatorHost: c.InitiatorHost, TargetHost: c.TargetHost, Schedule: c.Schedule,
	}
	if c.RateBytesPerSecond != nil {
		id.RateBytesPerSecond = *c.RateBytesPerSecond
	}
	return id
}

// Metric is the family of the cell's definition: the part before its first dot,
// "bandwidth" or "latency" for cells of our own.
func (c *Cell) Metric() string {
	m, _, _ := strings.Cut(c.Definition, ".")
	return m
}

// HasFigure reports whether the cell carries a number that may be shown: its status is ok or
// partial, and its payload was not found wrong.
func (c *Cell) HasFigure() bool {
	if c.Status != StatusOK && c.Status != StatusPartial {
		return false
	}
	if c.Verified != nil && !*c.Verified {
		return false
	}
	return c.Bandwidth != nil || c.Latency != nil || c.MessageRatePerSecond != nil
}
