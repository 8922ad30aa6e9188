// Package compare sets two sets of result files against each other, cell by cell: better, worse, the same,
// undecided, too few samples, or not comparable, each with its reason.
//
// A cell is paired by its identity (results.Identity), so figures of another definition,
// memory kind or realm never meet. Per cell it gives the ratio of medians, new over old, with its
// interval; the p of a rank test; and a verdict that needs both a p that survives Holm's correction over all cells and an effect of at least
// the size that matters, and of the noise floor that A/A pairs show.
//
// Where the runs of the sides alternate in time (A B B A …) the test relabels within blocks of them, exactly, so that a drift or a phase of the
// machine that is slower than a block falls on both sides; its scores lean on the fast runs, since what disturbs a machine only slows it. Else it
// is the Mann-Whitney test of golang.org/x/perf/benchmath.
//
// A comparison that could not have found anything says so, and how many samples it would take. POWER.md has the
// measured rate of false alarms, and what is found at which size; TestPowerTable makes it.
package compare
