// Package compare sets two sets of result files against each other, cell by cell: better, worse, the same,
// undecided, too few samples, or not comparable, each with its reason.
//
// A cell is paired by its identity (results.Identity), so figures of another definition,
// memory kind or realm never meet. Per cell it gives the ratio of medians, new over old, with its
// interval; the p of a Mann-Whitney test, taken within blocks where the runs alternate in time (A B B A …), so
// that a drift or a phase of the machine that is slower than a block falls on both sides; and a verdict
// that needs both a p that survives Holm's correction over all cells and an effect of at least the
// size that matters, and of the noise floor that the machine's own A/A pairs show.
//
// A comparison that could not have found anything says so, and how many samples it would take. POWER.md has the
// measured rate of false alarms, and what is found at which size; TestPower makes it.
package compare
