// Package threads runs the streams of a loop on operating-system threads of their own, pinned where asked.
package threads

import (
	"fmt"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// Run calls body(s) for each stream s of n, each on a locked thread pinned to cpus[s%len(cpus)] (empty: left where it is),
// and returns the first error in stream order. One stream runs on the caller's own thread, several start together.
func Run(n int, cpus []int, body func(stream int) error) error {
	if n == 1 {
		return pinned(0, cpus, func() error { return body(0) })
	}
	errs := make([]error, n)
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(n)
	done.Add(n)
	for s := range n {
		go func() {
			defer done.Done()
			errs[s] = pinned(s, cpus, func() error {
				ready.Done()
				<-start
				return body(s)
			})
		}()
	}
	ready.Wait()
	close(start)
	done.Wait()
	for s, err := range errs {
		if err != nil {
			return fmt.Errorf("stream %d: %w", s, err)
		}
	}
	return nil
}

// pinned locks the goroutine to its thread, moves the thread to its CPU and puts both back afterwards. A CPU that the
// process may not use is no reason to fail a loop: it then runs unpinned, which the context switches of the row show.
func pinned(stream int, cpus []int, body func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if len(cpus) > 0 {
		var before, want unix.CPUSet
		if unix.SchedGetaffinity(0, &before) == nil {
			want.Set(cpus[stream%len(cpus)])
			if unix.SchedSetaffinity(0, &want) == nil {
				defer unix.SchedSetaffinity(0, &before)
			}
		}
	}
	return body()
}
