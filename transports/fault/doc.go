// Package fault is the vocabulary of failure that a failed run and the doctor share.
//
// An [Error] says what was attempted, on which device, what the library or the kernel answered and why that
// happens. Its [Code] is a row of one table (see [Table]): the finding that a failed run names is the one that
// `hopbench doctor --explain CODE` explains. A code has exactly one [Class], and the class decides how an outcome is
// shown and which exit status the command ends with.
//
// Rules for those who raise errors: print the cause where it is found, never a guess; a hint needs evidence that was
// read on this host; one line by default, the whole with %+v.
package fault
