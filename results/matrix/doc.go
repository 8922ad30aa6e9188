// Package matrix makes the answer of a mesh from its cells: which pair, host, rail or switch group is slow against the others, and what
// flows do to each other.
//
// Cells are added one by one as they are measured, and no cell is kept: a place of a matrix takes 24 bytes. A Layer is the matrix of one
// definition, size, operation, transport, rail and schedule: all of a cell's identity but its two hosts.
//
// # How a slow one is told
//
// The logarithm of a pair's figure is taken as the sum of the population's, a part of the initiator, a part of the target, and the rest of the pair
// (a two-way table, fitted by Tukey's median polish: Exploratory Data Analysis, 1977, chapters 10 and 11). With switch groups the pairs within a
// group and those between groups have a level each. Medians are not moved by a minority, so what is slow does not hide what is normal.
// Suspicion goes from the small to the large: a pair whose rest is out of line is slow by itself; a host whose own part is, with all it was
// measured with, is one finding and not one for each pair; the hosts of a switch group that are slow together are one finding of the group; and
// a rail that is slower than the other rails of the same pairs is one of the rail. What a larger cause explains is not reported again.
//
// A finding is as slow as Judge.MinEffect at least, and further out than chance takes any of the pairs (or hosts) of a mesh of that size in more than
// about one mesh of forty; both chances together, 5 % a mesh, are measured by TestSimulatedMeshes with noise that is normal in the logarithm. How far
// is far depends on the number of hosts, since few pairs say little about their own spread: see critical.
//
// Simulated, with 3 % of noise from pair to pair: of 1,000 meshes in which nothing is slow 1.9 % have a finding with 4 hosts, 3.2 % with 5, 1.6 % with 8, 0.3 %
// with 16. With noise of heavier tails (Student's t of five degrees of freedom) they are 12 % with 8 hosts and 8.5 % with 64: a
// pair is then measured again before it is blamed. A host that is slow by 10 % is found in 99.1 % with 6 hosts and in all of 1,000 with 8 or 16; a
// pair by 20 % in 95.9 % with 8 hosts, by 30 % in 99.9 %. No pair of a slow host was named as a pair.
package matrix
