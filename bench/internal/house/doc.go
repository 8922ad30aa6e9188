// Package house holds the tests of the repository as a whole: which package may import which and why, that every package says
// what it is for, and that the manual's examples are commands that exist. It has no code of its own.
package house
