package results

import (
	"errors"
	"io/fs"
	"os"
)

// ErrBusy is in the error of Create while another run writes the file.
var ErrBusy = errors.New("another run is writing this file")

// Busy is ErrBusy while a run writes the file at path, for those who would put another in its place; nil where none does or there is no file.
func Busy(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	return lock(f)
}

// notRegular says what stands where a result file was to be.
func notRegular(info fs.FileInfo) error {
	if info.IsDir() {
		return errors.New("it is a folder")
	}
	return errors.New("it is not a regular file, so no run can be kept in it")
}
