package transporttest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"hopbench/transports/loopback"
	"hopbench/transports/transporttest"
)

// recorder is a transporttest.T that keeps the first complaint and ends the case there, as Fatalf does.
type recorder struct {
	mu    sync.Mutex
	first string
}

func (r *recorder) Helper()             {}
func (r *recorder) Logf(string, ...any) {}
func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == "" {
		r.first = fmt.Sprintf(format, args...)
	}
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// complaint runs one case in a goroutine of its own and returns its first complaint, or nothing.
func complaint(k transporttest.Case, c transporttest.Config) string {
	r := &recorder{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.Run(r, c)
	}()
	<-done
	return r.first
}

func TestEachFaultTurnsACaseRed(t *testing.T) {
	// What must notice each mode, so that a case that is weakened is missed even where another one still turns red.
	notices := map[transporttest.Mode]string{
		transporttest.Errors:           "every size arrives whole",
		transporttest.Delays:           "deadline ends a loop",
		transporttest.Corruption:       "scattered lists land where they should",
		transporttest.SwappedPages:     "many pieces",
		transporttest.StaleRounds:      "scattered lists land where they should",
		transporttest.StrayWrites:      "every size arrives whole",
		transporttest.LostCompletions:  "stamps",
		transporttest.ExtraCompletions: "stamps",
		transporttest.HeaderBytes:      "every size arrives whole",
		transporttest.WrongStamps:      "stamps",
		transporttest.Overclaims:       "claims",
		transporttest.Underclaims:      "claims",
		transporttest.LooseClose:       "close refuses what is borrowed",
		transporttest.LooseBounds:      "pieces outside the regions are refused",
	}
	for _, mode := range transporttest.Modes() {
		t.Run(strings.ReplaceAll(string(mode), " ", "-"), func(t *testing.T) {
			t.Parallel()
			c := transporttest.Config{Initiator: transporttest.Faulty(loopback.New(), mode), Slow: true}
			for _, k := range transporttest.Cases() {
				if k.Name != notices[mode] {
					continue
				}
				got := complaint(k, c)
				if got == "" {
					t.Fatalf("the case %q does not notice %s", k.Name, mode)
				}
				t.Logf("%s: %s", k.Name, got)
				return
			}
			t.Fatalf("no case %q is there to notice %s", notices[mode], mode)
		})
	}
}

func TestWithoutAFaultNoCaseIsRed(t *testing.T) {
	for _, mode := range []transporttest.Mode{"", "none"} { // the bare driver, and the wrapper without a fault
		c := transporttest.Config{Initiator: loopback.New(), Slow: true}
		if mode != "" {
			c.Initiator = transporttest.Faulty(c.Initiator, mode)
		}
		for _, k := range transporttest.Cases() {
			if got := complaint(k, c); got != "" {
				t.Errorf("wrapped as %q: %s: %s", mode, k.Name, got)
			}
		}
	}
}
