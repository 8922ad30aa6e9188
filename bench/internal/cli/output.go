package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"hopbench/results"
)

// writeNew puts content at path, which flag named, whole or not at all: it is written beside and moved there. What exists is replaced
// only with force; a device that exists is written as it is.
func writeNew(path, flag string, force bool, content []byte) error {
	if path == "" {
		return usagef("%s is empty: it names a file", flag)
	}
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return usagef("%s %s: it is a folder", flag, path)
	case err == nil && !force:
		return usagef("%s %s: it exists; --force replaces it", flag, path)
	case err == nil && info.Mode()&fs.ModeDevice != 0:
		return exitIfFailed(flag, path, os.WriteFile(path, content, 0o644))
	case err == nil && !info.Mode().IsRegular():
		return usagef("%s %s: it is not a regular file", flag, path)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return usagef("%s: %w", flag, err)
	}
	if err := results.Busy(path); err != nil {
		return usagef("%s %s: %w", flag, path, err)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // a link stays one
	}
	beside := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d", filepath.Base(path), os.Getpid()))
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, unix.ENOSPC) {
		return exitIfFailed(flag, path, err)
	}
	if err != nil {
		return usagef("%s: %w", flag, err)
	}
	_, err = bytes.NewReader(content).WriteTo(f)
	if err == nil && info != nil {
		err = f.Chmod(info.Mode().Perm())
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		os.Remove(beside)
	}
	return exitIfFailed(flag, path, err)
}

func exitIfFailed(flag, path string, err error) error {
	if err == nil {
		return nil
	}
	return exitError{1, fmt.Errorf("%s %s: nothing was written: %w", flag, path, err)}
}
