//go:build hopbench_slow

package tcp

import "hopbench/transports"

// dragger remembers when drag last let the loop go on.
type dragger struct{ dragged int64 }

// drag makes the initiator's loop slower, for the regression gate's own test: after each operation it keeps the thread busy for half of the
// time that has passed since the last. The figure is measured like any other. Built only with -tags hopbench_slow.
func (m *limits) drag() {
	if m.dragged == 0 {
		m.dragged = m.start
	}
	now := transports.Now()
	for until := now + (now-m.dragged)/2; transports.Now() < until; {
	}
	m.dragged = transports.Now()
}
