//go:build !hopbench_slow

package tcp

// dragger does nothing in a product build; slow_on.go is a test build's.
type dragger struct{}

func (dragger) drag() {}
