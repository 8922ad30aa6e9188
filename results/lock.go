package results

import (
	"errors"
	"io/fs"
)

// ErrBusy is in the error of Create while another run writes the file.
var ErrBusy = errors.New("another run is writing this file")

// notRegular says what stands where a result file was to be.
func notRegular(info fs.FileInfo) error {
	if info.IsDir() {
		return errors.New("it is a folder")
	}
	return errors.New("it is not a regular file, so no run can be kept in it")
}
