package fault

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
)

// Sharper gives an error whose cause is that no more files may be open the code [OpenFiles] and the limit that was read, and every other error
// as it is: whatever opened something would else blame what it opened.
func Sharper(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Code == OpenFiles {
		return err
	}
	native, cause := starved(err)
	if native == "" {
		return err
	}
	out := &Error{Code: OpenFiles, Native: native, Err: Because(cause, err)}
	if e != nil {
		out.Op, out.Device = e.Op, e.Device
	}
	return out
}

// starved tells whether an error says that no more files may be open: by its errno, or where a library that was loaded lost that, by the C
// library's words.
func starved(err error) (native, cause string) {
	switch text := fmt.Sprint(err); {
	case errors.Is(err, syscall.ENFILE), strings.Contains(text, "Too many open files in system"):
		cause = "this host has as many files open as it may"
		if most, err := os.ReadFile("/proc/sys/fs/file-max"); err == nil {
			cause += fmt.Sprintf(": %s (fs.file-max)", strings.TrimSpace(string(most)))
		}
		return fmt.Sprintf("ENFILE (%d)", int(syscall.ENFILE)), cause
	case errors.Is(err, syscall.EMFILE), strings.Contains(text, "Too many open files"):
		cause = "this process has as many files open as it may"
		var limit syscall.Rlimit
		if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
			cause += fmt.Sprintf(": %d (ulimit -n; the hard limit is %d)", limit.Cur, limit.Max)
		}
		return fmt.Sprintf("EMFILE (%d)", int(syscall.EMFILE)), cause
	}
	return "", ""
}
