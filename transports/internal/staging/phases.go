package staging

import "time"

// Phases is where the time of a staged transfer went, in seconds. The sending side knows the first two, the receiving side the
// third; [Join] puts them together.
type Phases struct {
	Bytes        uint64  `json:"bytes"`
	DeviceToHost float64 `json:"device_to_host"` // by the device's clock
	Wire         float64 `json:"wire"`           // waiting for the receiver included
	HostToDevice float64 `json:"host_to_device"` // by the device's clock
	Total        float64 `json:"total"`          // that passed, overlap and all
}

// Join is the record of a transfer from both sides' phases and the seconds that it took from the first post to the last
// confirmation. Sides that did not stage pass the zero value.
func Join(sender, receiver Phases, total float64) Phases {
	return Phases{
		Bytes:        max(sender.Bytes, receiver.Bytes),
		DeviceToHost: sender.DeviceToHost + receiver.DeviceToHost,
		Wire:         sender.Wire + receiver.Wire,
		HostToDevice: sender.HostToDevice + receiver.HostToDevice,
		Total:        total,
	}
}

// Sum is what the transfer would take if no phase overlapped another.
func (p Phases) Sum() float64 { return p.DeviceToHost + p.Wire + p.HostToDevice }

// Slowest is the longest phase: no overlap can do better.
func (p Phases) Slowest() float64 { return max(p.DeviceToHost, p.Wire, p.HostToDevice) }

// Hidden is the share of what could overlap that did: 0 where the phases ran one after the other, 1 where only the slowest
// shows. It is nil where there was nothing to hide.
func (p Phases) Hidden() *float64 {
	could := p.Sum() - p.Slowest()
	if could <= 0 || p.Total <= 0 {
		return nil
	}
	h := min(max((p.Sum()-p.Total)/could, 0), 1)
	return &h
}

// watch adds up the time in which it runs.
type watch struct {
	since   time.Time
	running bool
	sum     time.Duration
}

func (w *watch) start(now time.Time) {
	if !w.running {
		w.since, w.running = now, true
	}
}

func (w *watch) stop(now time.Time) {
	if w.running {
		w.sum += now.Sub(w.since)
		w.running = false
	}
}
