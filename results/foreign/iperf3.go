package foreign

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"hopbench/results"
)

// iperf3 is the JSON of `iperf3 -J`. The receiver's count is the figure: the sender's ends when its last byte is in the socket.
var iperf3 = Format{
	Name: "iperf3", Summary: "JSON of iperf3 -J (TCP)",
	Definitions: []string{"iperf3.bandwidth.received: bytes the receiver counted over its own time, all streams together"},
	detect: func(b []byte) bool {
		return bytes.Contains(b, []byte(`"iperf `)) || bytes.Contains(b, []byte(`"intervals"`)) && bytes.Contains(b, []byte(`"start"`))
	},
	parse: parseIperf3,
}

type iperf3Sum struct {
	Seconds     loose `json:"seconds"`
	Bits        loose `json:"bits_per_second"`
	Bytes       loose `json:"bytes"`
	Retransmits loose `json:"retransmits"`
}

func parseIperf3(in *reader) error {
	var doc struct {
		Start struct {
			Version    string `json:"version"`
			SystemInfo string `json:"system_info"`
			Timestamp  struct {
				Seconds loose `json:"timesecs"`
			} `json:"timestamp"`
			Connected []struct {
				Local  string `json:"local_host"`
				Remote string `json:"remote_host"`
			} `json:"connected"`
			Test struct {
				Protocol string `json:"protocol"`
				Streams  loose  `json:"num_streams"`
				Block    loose  `json:"blksize"`
				Reverse  loose  `json:"reverse"`
				Rate     loose  `json:"target_bitrate"`
			} `json:"test_start"`
		} `json:"start"`
		End struct {
			Sent             *iperf3Sum `json:"sum_sent"`
			Received         *iperf3Sum `json:"sum_received"`
			SentBackward     *iperf3Sum `json:"sum_sent_bidir_reverse"`
			ReceivedBackward *iperf3Sum `json:"sum_received_bidir_reverse"`
			CPU              *struct {
				Host   loose `json:"host_total"`
				Remote loose `json:"remote_total"`
			} `json:"cpu_utilization_percent"`
			Congestion string `json:"sender_tcp_congestion"`
		} `json:"end"`
		Error string `json:"error"`
	}
	if err := in.decode(&doc); err != nil {
		return err
	}
	in.f.Tool = or(strings.Replace(doc.Start.Version, "iperf ", "iperf3 ", 1), "iperf3")
	if t, ok := count(string(doc.Start.Timestamp.Seconds)); ok {
		in.f.Started = time.Unix(t, 0).UTC()
	}
	if f := strings.Fields(doc.Start.SystemInfo); len(f) > 2 { // "Linux HOST KERNEL …"
		in.f.Hosts = []results.Host{{Hostname: f[1], Role: "initiator", OS: f[0], Kernel: f[2]}}
	}
	test := doc.Start.Test
	c := results.Cell{Transport: "tcp", Operation: "send", Definition: "iperf3.bandwidth.received", Wait: "block"}
	if p := test.Protocol; p != "" && p != "TCP" && p != "MPTCP" {
		return fmt.Errorf("a run over %s: only TCP is read, since %s has losses that one bandwidth hides", p, p)
	}
	c.TotalBytes, _ = count(string(test.Block))
	c.Streams, _ = count(string(test.Streams))
	if rate, ok := count(string(test.Rate)); ok {
		rate /= 8
		c.RateBytesPerSecond = &rate
	}
	if n := doc.Start.Connected; len(n) > 0 {
		side := &results.Side{Address: n[0].Local}
		if n[0].Local == n[0].Remote || strings.HasPrefix(n[0].Remote, "127.") || n[0].Remote == "::1" {
			c.Realm, side.Route = results.RealmSoftware, "same host"
		}
		c.Path = &results.Path{Initiator: side, Target: &results.Side{Address: n[0].Remote, Route: side.Route}}
	} else if in.o.Realm == "" && doc.Error == "" && doc.End.Received != nil {
		return errors.New("it has no \"connected\" entry, so nothing shows what carried the bytes: say it with --realm (hardware, software, emulated)")
	}
	if doc.Error != "" {
		c.Status, c.Reason = results.StatusFailed, "iperf3: "+doc.Error
		in.add(c)
		return nil
	}
	if doc.End.Received == nil {
		c.Status, c.Reason = results.StatusFailed, "the receiver's count is not in it: the run did not end by itself"
		in.add(c)
		return nil
	}
	rate := func(s *iperf3Sum) *float64 { return scaled(string(s.Bits), 1./8) }
	c.Direction = "forward"
	if test.Reverse == "1" {
		c.Direction = "reverse"
	}
	bytesMoved, _ := figure(string(doc.End.Received.Bytes))
	in.bandwidth(&c, rate(doc.End.Received))
	if back := doc.End.ReceivedBackward; back != nil { // present with --bidir alone; 3.12 has no other sign of it
		c.Direction = "both"
		forward, backward := rate(doc.End.Received), rate(back)
		if forward != nil && backward != nil {
			c.Bandwidth = &results.Bandwidth{BytesPerSecond: *forward + *backward, ForwardBytesPerSecond: forward, ReverseBytesPerSecond: backward, Rounds: []float64{}}
		}
		more, _ := figure(string(back.Bytes))
		bytesMoved += more
	}
	if seconds, ok := figure(string(doc.End.Received.Seconds)); ok && bytesMoved > 0 && doc.End.CPU != nil {
		// percent of one CPU over the run
		c.CPU = &results.CPU{InitiatorSecondsPerGigabyte: scaled(string(doc.End.CPU.Host), seconds/100/(bytesMoved/1e9)),
			TargetSecondsPerGigabyte: scaled(string(doc.End.CPU.Remote), seconds/100/(bytesMoved/1e9))}
	}
	info := &results.TCPInfo{CongestionControl: doc.End.Congestion}
	if doc.End.Sent != nil {
		if n, err := strconv.ParseInt(string(doc.End.Sent.Retransmits), 10, 64); err == nil && n >= 0 {
			info.Retransmits = &n
		}
	}
	c.TCP = &results.TCP{Initiator: info}
	if test.Reverse == "1" {
		c.TCP = &results.TCP{Target: info}
	}
	in.add(c)
	return nil
}
