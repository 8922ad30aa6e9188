// Package transports is the contract between the harness and the ways to move bytes, and nothing else: no transport
// lives here, and nothing here knows one.
//
// # Loops, not messages
//
// A transport is driven by loops. The harness hands over a [Loop] (prepared operations, a depth, a count, a deadline, a
// stop word and memory for stamps) and gets it back filled: from the first post to the last confirmation nothing of the
// harness runs, no interface is crossed, nothing is allocated and no lock is taken. Every figure is derived from the
// stamps afterwards. The initiator's loops are [Endpoint.Stream] and [Endpoint.PingPong]; the target's is
// [Endpoint.Serve], which does what needs the target's processor (receiving for TCP, copying out of a staging ring,
// answering a ping-pong or a notification) and otherwise sleeps.
//
// # Life cycle
//
//	Driver.Open -> Transport.Register -> Transport.NewEndpoint -> (addresses change hands)
//	            -> Endpoint.Connect on both sides at once -> loops, one at a time -> Close in reverse order
//
// Every endpoint connects once, before a sweep, and serves all its cells. Close refuses while something is borrowed: a
// transport with open regions or endpoints, a region that an endpoint uses. The error names what is still open.
//
// # Ownership
//
// The caller owns buffers, lists and stamps and must not touch them while a loop runs. A transport borrows a buffer from
// Register to Region.Close. Slices given to a loop hold no pointers into Go memory, so that a native loop can read them.
//
// # Progress
//
// A loop ends by its count, its deadline or its stop word, whichever comes first, but it makes one operation at least: on a busy
// machine its thread may get a CPU after the deadline. After the deadline it posts nothing more and
// waits for what is outstanding. A loop in which no byte moves for EndpointOptions.StallSeconds ends with
// loop.stalled: nothing waits for ever. Serve ends when the stop word is set (within 20 ms), or when the peer's loop said that it ended.
// Setting the stop word of a loop whose peer is gone ends it as well; what was confirmed until then stays in the stamps.
//
// # Confirmation
//
// A completion means that the bytes are in the target's memory and that the target's side has said so: the acknowledgement
// of a reliable connection for RDMA straight into memory; for TCP, and for every target that is staged, the target's own
// message after its last byte (and its last device copy) has landed. With Loop.Notify the target's program has seen a
// notification after the data and replied.
//
// # Errors
//
// Everything that a transport returns to its caller is a [fault.Error] with a code of the table, the operation, the
// device and what the kernel or library answered. A transport never falls back to another way by itself: what was asked for
// either runs or fails with the reason.
package transports
