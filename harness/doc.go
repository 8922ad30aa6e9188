// Package harness turns a plan into measurements. It knows the contract of package transports and no transport: which one
// runs is a name in the plan.
//
// # Two sides, one plan
//
// A measurement has an initiator and a target. Each is a [Peer]: the process that calls [Run] is one by itself ([NewSide]); the
// other is either a second Side in the same process, for transports that live in one, or a process elsewhere that package control
// speaks to. Both drive the same code, and a plan cannot tell which it has.
//
// # A cell
//
// A cell is one definition of one operation at one size over one transport. Its rounds are interleaved with those of the same
// cell over the other transports, in an order rotated by the round, so that a drift of the machine does not fall on one of them:
//
//	Prepare   lists are built, memory is filled with the round's pattern          (both sides)
//	Arm       the target's threads are in Serve                                   (barrier)
//	Warm      the initiator's loop, unrecorded                                    (at least one operation)
//	Barrier   the target is in Serve again and has read its counters and its CPU  (barrier)
//	Run       the timed loop: nothing but the transport's own bytes on the wire
//	Disarm    the target's threads have ended; its counters and its CPU come back
//
// METHOD.md beside this file says what is inside each clock and what outside.
package harness
