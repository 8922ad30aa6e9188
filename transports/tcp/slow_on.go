//go:build hopbench_slow

package tcp

import "hopbench/transports"

// dragger makes the initiator's loop slower, for the regression gate's own test: after each operation it keeps the thread busy for half of the
// time that has passed since the last. The figure is measured like any other. Built only with -tags hopbench_slow.
type dragger struct{ last int64 }

func (d *dragger) drag() {
	now := transports.Now()
	if d.last == 0 {
		d.last = now
	}
	for until := now + (now-d.last)/2; transports.Now() < until; {
	}
	d.last = transports.Now()
}
