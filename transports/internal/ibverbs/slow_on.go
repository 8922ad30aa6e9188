//go:build cgo && hopbench_slow

package ibverbs

// #cgo CFLAGS: -DHOPBENCH_SLOW
import "C"
