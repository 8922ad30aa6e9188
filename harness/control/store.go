package control

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A server on loopback leaves the token that it made in a file of this user, so that a client of the same user needs none. The
// name holds the port and the network namespace, since each namespace has a loopback of its own.

// storeDir is the folder of this user's tokens: made where it is missing, refused where others own it or may enter it.
func storeDir() (string, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("hopbench-%d", os.Geteuid()))
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return "", &os.PathError{Op: "lstat", Path: dir, Err: err}
	}
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFDIR:
		return "", fmt.Errorf("%s is not a folder", dir)
	case int(st.Uid) != os.Geteuid():
		return "", fmt.Errorf("%s belongs to uid %d", dir, st.Uid)
	case st.Mode&0o077 != 0:
		return "", fmt.Errorf("%s is open to others (mode %o)", dir, st.Mode&0o777)
	}
	return dir, nil
}

func storeFile(addr string) (string, error) {
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", err
	}
	dir, err := storeDir()
	if err != nil {
		return "", err
	}
	space, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		space = "net"
	}
	space = strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, space)
	return filepath.Join(dir, fmt.Sprintf("%s-%s.token", filepath.Base(port), space)), nil
}

// StoreToken leaves the token of a server on loopback for this user's clients and returns the file and how to remove it.
func StoreToken(addr string, t Token) (file string, remove func(), err error) {
	path, err := storeFile(addr)
	if err != nil {
		return "", nil, err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) { // of a server that was killed: nobody else has this port now
		return "", nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, err
	}
	_, err = fmt.Fprintln(f, t.Text())
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(path)
		return "", nil, err
	}
	return path, func() { os.Remove(path) }, nil
}

func storedToken(addr string) (Token, error) {
	path, err := storeFile(addr)
	if err != nil {
		return Token{}, err
	}
	return readToken(path)
}
