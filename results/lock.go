package results

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrBusy is in the error of Create while another run writes the file.
var ErrBusy = errors.New("another run is writing this file")

// lock takes the file for this writer until it is closed. A file system without locks does not keep a run from being written.
func lock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		case err == nil, errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENOLCK):
			return nil
		}
		return fmt.Errorf("lock: %w", err)
	}
}

// notRegular says what stands where a result file was to be.
func notRegular(info fs.FileInfo) error {
	if info.IsDir() {
		return errors.New("it is a folder")
	}
	return errors.New("it is not a regular file, so no run can be kept in it")
}
