// Package results holds the records that a hopbench run leaves behind, and the
// reader and writer of the file that they stand in.
//
// A result file is JSON Lines: a Header (schema, tool, plan, fingerprint of each
// host), one Cell for each thing measured, appended and flushed as it ends, and a
// Footer that says how the run ended. Long runs put Interval lines between them.
// What stands in a file is valid at every moment, after a crash too: at worst the
// last line is cut short, which the Reader reports as a warning.
//
// Units are base units, bytes and seconds, and each key names its unit. GB, where a
// person reads it, is 10^9 bytes. A value that is not known is absent: in Go an
// optional number is a nil pointer, never 0. Keys that this version does not know
// are kept in Extra and written back, so a file survives a round trip through an
// older tool. schema.json is the format as a JSON Schema.
package results
