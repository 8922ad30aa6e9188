// Package nettest holds the tests of hopbench's two sides as real processes in two network namespaces, joined by a veth pair: what
// happens when one of them is killed or stopped, when the link goes down, a port is dropped, or something else answers.
// They need root; where that is missing they are skipped with the reason, or fail where HOPBENCH_REQUIRE lists namespaces.
package nettest
