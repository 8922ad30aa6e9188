// Package control is a [harness.Peer] in another process, on this host or on another: [Dial] speaks to it, [NewServer] is it,
// and [StartLocal] starts one as a second process of this program.
//
// # The channel
//
// The channel is gRPC over TLS 1.3. Between the TLS handshake and gRPC both sides exchange a fixed greeting and prove that they
// hold the same token, so that something that is no hopbench, another version and a wrong token are three different failures, each
// with its own code in package fault. The certificate is made at start and proves nothing: the proof is an HMAC by the token
// over keying material exported from this TLS session and over both greetings, with a label for each role. Whoever relays
// between two sessions has two different exports, and the token itself is never sent.
//
// # Who is served
//
// A server does one session at a time; a second client is told who is measuring and since when. A session lives as long as
// its connection: when that ends, everything that the session opened is closed. What a client sends is decoded in one place
// (requests.go), which refuses what is malformed and what is over the server's caps before anything is allocated for it; a request
// cannot name a file or a program.
//
// # Silence
//
// Nothing is sent on the channel during a timed loop: TCP and gRPC keep-alives are off, and so is gRPC's bandwidth
// estimation with its pings. What then finds a peer that went away:
//
//   - a process that ends closes its connection, and the other side sees that at once;
//   - each call has its own limit ([DialOptions.Phase]), longer where it fills memory or runs a loop. A call that exceeds it ends
//     the session: control.deadline names the call and the limit;
//   - bytes that nobody acknowledges break the connection after [unacknowledged] (TCP_USER_TIMEOUT);
//   - the server ends a session without any call for the longest loop that the client declared ([DialOptions.Loop]) and a
//     minute. A client that has nothing to ask for longer than that calls Alive between its loops;
//   - the data loop itself gives up when no byte moves (loop.stalled).
//
// # A mesh
//
// The ranks of a mesh dial the first rank ([Join], [Meet]) and then serve it over that connection: the one that dials has the server's
// role in TLS, greeting and calls. Before its greeting it introduces itself ([Member]), in a form that all versions read, so that both
// sides of a refusal can name it; what it says is part of both proofs. The first rank ends a session with a reason. A rank whose
// connection was silent for a minute probes it by TCP's keep-alive, so that none is left over when a first rank's host vanishes.
package control
