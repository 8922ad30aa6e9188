// Package mesh measures between N hosts: the ranks' meeting, who is here and who is not, which pairs move data at once, and the end of
// all of them together.
//
// Rank 0 is the first: it listens, takes the others in ([Gather]) and coordinates; every other rank dials it and then serves its calls
// over that same connection ([control.Join]). So a mesh has one port, nothing but rank 0 need be reachable for control, a rank that
// dies is a connection that ended, and a first rank that dies is one for all others, which end with it.
//
// [Gather] refuses what would make figures of a wrong mesh: two ranks with one number, ranks that were told different sizes, and
// different releases. Each such refusal names the rank and its host on both sides and ends the mesh on all of them. What has not
// proved the token ends nothing: it is told why, is named at the first rank as what it claims to be, and the mesh waits on until its
// limit.
//
// The pairs of a pattern become flows and steps of package harness ([Mesh.Flows], [Steps]); which pairs, in which order, is package
// schedule's. Every rank's clock is its own: a figure is the initiator's, and no two clocks are compared.
package mesh
