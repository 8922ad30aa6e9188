//go:build !hopbench_slow

package tcp

// drag does nothing in a product build; slow_on.go is a test build's.
func (*limits) drag() {}
