// Package tcp moves bytes over TCP sockets with one-sided semantics: a write lands at the target's offset, a read is
// served from it, a send goes to the next posted receive. This is what a KV cache travels over where there is no RDMA.
//
// # Frames
//
// A data connection carries frames of a 32-byte header, for lists of several pieces an array of 16-byte descriptors, and the
// payload; frame.go has the layout. The target answers with a cumulative acknowledgement after the last byte has landed
// in its memory. A completion is that acknowledgement, never the moment at which bytes were handed to a socket.
//
// # Speed
//
// Loops make raw system calls on locked threads, since entering and leaving the Go scheduler costs a fifth of the rate; the
// harness gives them processors of their own and runs no garbage collection meanwhile. The receiver reads straight into the target's
// memory, together with the next header, and for large messages sleeps until enough bytes are there (SO_RCVLOWAT) instead of
// waking for each segment. Which of that pays depends on the congestion control, so both are recorded in every row.
//
// # Limits
//
// Sockets are plain TCP, never MPTCP. Every offset and length that arrives is checked against the region. Nothing waits for
// ever: each blocking call has a limit of [tick] after which the stop word and the progress are looked at.
package tcp
