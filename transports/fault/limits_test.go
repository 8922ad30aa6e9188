package fault

import (
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
)

func TestSharperNamesTheLimit(t *testing.T) {
	library := errors.New("libcuda.so.1: cannot open shared object file: Too many open files")
	for what, c := range map[string]struct {
		err   error
		parts []string
	}{
		"a socket":   {&Error{Code: TCPDataUnreachable, Op: "connect the data socket", Device: "192.0.2.1:7", Err: fmt.Errorf("socket: %w", syscall.EMFILE)}, []string{"connect the data socket on 192.0.2.1:7", "EMFILE (24)", "ulimit -n"}},
		"a device":   {&Error{Code: VerbsCall, Op: "open", Device: "mlx5_0", Err: fmt.Errorf("ibv_open_device: %w", syscall.ENFILE)}, []string{"mlx5_0", "ENFILE (23)", "fs.file-max"}},
		"a library":  {library, []string{"EMFILE (24)", "ulimit -n"}},
		"in a chain": {fmt.Errorf("round 3: %w", &Error{Code: VerbsCall, Op: "open", Err: syscall.EMFILE}), []string{"open: ", "EMFILE (24)"}},
	} {
		got := Sharper(c.err)
		if CodeOf(got) != OpenFiles || ClassOf(got) != NotReady {
			t.Errorf("%s: %v", what, got)
		}
		for _, part := range c.parts {
			if !strings.Contains(got.Error(), part) {
				t.Errorf("%s: %q lacks %q", what, got, part)
			}
		}
		if !errors.Is(got, c.err) || Sharper(got) != got {
			t.Errorf("%s: the cause is lost, or it is told twice", what)
		}
	}
	other := &Error{Code: VerbsCall, Err: syscall.ENOMEM}
	if Sharper(nil) != nil || Sharper(other) != error(other) {
		t.Error("another error was changed")
	}
}
