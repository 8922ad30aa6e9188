//go:build cgo

package cuda_test

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"hopbench/transports/internal/cuda"
	"hopbench/transports/internal/cuda/cudatest"
)

// shortOperations runs 1,000 short pieces of GPU work from 50 goroutines over two devices, on two processors. Between
// its calls each goroutine is made to yield, so that the scheduler has every chance to move it.
func shortOperations(lib *cuda.Library) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	errs := make([]error, 50)
	var group sync.WaitGroup
	for g := range errs {
		group.Go(func() {
			c, err := lib.Context(g % 2)
			if err != nil {
				errs[g] = err
				return
			}
			defer c.Close()
			for i := 0; i < 20 && errs[g] == nil; i++ {
				errs[g] = c.Do(func(th *cuda.Thread) error { return shortOperation(th, g, i) })
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func shortOperation(th *cuda.Thread, g, i int) error {
	stray := func() {
		runtime.Gosched()
		if i%4 == 0 {
			time.Sleep(10 * time.Microsecond)
		}
	}
	p, err := th.Alloc(4096)
	if err != nil {
		return err
	}
	stray()
	host, err := th.AllocHost(4096)
	if err != nil {
		return err
	}
	s, err := th.NewStream()
	if err != nil {
		return err
	}
	e, err := th.NewEvent()
	if err != nil {
		return err
	}
	stray()
	want := byte(g*20 + i)
	err = errors.Join(th.Set(p, want, 4096, s), th.ToHost(host, p, s))
	stray()
	err = errors.Join(err, th.Record(e, s), th.Wait(e, 0, 10*time.Second))
	stray()
	if err == nil && host[4095] != want {
		err = fmt.Errorf("goroutine %d, operation %d: read %d", g, i, host[4095])
	}
	return errors.Join(err, th.CloseEvent(e), th.CloseStream(s), th.FreeHost(host), th.Free(p))
}

func TestShortOperationsKeepTheirContext(t *testing.T) {
	if err := shortOperations(cudatest.Load(t)); err != nil {
		t.Error(err)
	}
}

// The guard is seen red: without the lock the same work loses its context.
func TestShortOperationsWithoutTheLock(t *testing.T) {
	lib := cudatest.Load(t)
	cuda.WithoutThreadLock(t)
	var e *cuda.Error
	if err := shortOperations(lib); !errors.As(err, &e) || (e.Code != 201 && e.Code != 400) {
		t.Errorf("the lock was taken away and nothing was lost (%v): the test above proves nothing", err)
	}
}
