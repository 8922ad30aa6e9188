package control

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"hopbench/transports/fault"
)

const (
	tokenBytes    = 32 // of a token that is made here
	minTokenBytes = 16 // 128 bits
	maxTokenText  = 4 << 10
	// minDistinct is how many different bytes a token must have: of 16 random ones, fewer than 8 differ once in 10^10 times.
	minDistinct = 8
	// TokenVariable is the environment variable that holds a token.
	TokenVariable = "HOPBENCH_TOKEN"
)

// Token is the secret that both sides of a measurement hold. Its zero value is no token and proves nothing.
type Token struct {
	key     []byte
	caution string
}

// NewToken makes a token of 256 random bits.
func NewToken() Token {
	key := make([]byte, tokenBytes)
	rand.Read(key) // never fails: crypto/rand ends the program if the system has no randomness
	return Token{key: key}
}

// ParseToken reads a token: at least 128 bits as hexadecimal or base64 text.
func ParseToken(text string) (Token, error) {
	text = strings.TrimSpace(text)
	key, err := hex.DecodeString(text)
	if err != nil {
		plain := strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(text), "=")
		if key, err = base64.RawStdEncoding.DecodeString(plain); err != nil {
			return Token{}, fmt.Errorf("a token is hexadecimal or base64 text; make one with `openssl rand -hex 32`")
		}
	}
	if len(key) < minTokenBytes {
		return Token{}, fmt.Errorf("a token of %d bits is too short: at least %d random bits are needed; make one with `openssl rand -hex 32`", 8*len(key), 8*minTokenBytes)
	}
	var seen [256]bool
	distinct := 0
	for _, b := range key {
		if !seen[b] {
			seen[b] = true
			distinct++
		}
	}
	if distinct < minDistinct {
		return Token{}, fmt.Errorf("a token of only %d different bytes is not random; make one with `openssl rand -hex 32`", distinct)
	}
	return Token{key: key}, nil
}

// Text is the token as ParseToken reads it. It is a secret: show it only to whoever started the server.
func (t Token) Text() string { return hex.EncodeToString(t.key) }

// String hides the token, so that no message or log shows it by mistake.
func (t Token) String() string { return "(token)" }

// GoString hides the token.
func (t Token) GoString() string { return "(token)" }

func (t Token) valid() bool { return len(t.key) >= minTokenBytes }

// Caution is what to tell whoever gave the token about where it was read; empty where there is nothing to tell.
func (t Token) Caution() string { return t.caution }

// guarded holds the file of a token to the rule of ssh for private keys: this user's own file that others may open is refused, with the
// command that mends it. Where this user cannot mend it, that is a caution only: a file of somebody else that everybody may read, and
// a file on a read-only mount, which is how a pod sees its Secret (mode 0644, owned by root, whoever the pod runs as).
func guarded(f *os.File, path string) (caution string, err error) {
	var st unix.Stat_t
	var fs unix.Statfs_t
	fd := int(f.Fd())
	if err := errors.Join(unix.Fstat(fd, &st), unix.Fstatfs(fd, &fs)); err != nil {
		return "", &os.PathError{Op: "stat", Path: path, Err: err}
	}
	mode, own := st.Mode&0o7777, int(st.Uid) == os.Geteuid()
	switch {
	case st.Mode&unix.S_IFMT != unix.S_IFREG: // a pipe, as a shell's <(command) is one, or a terminal
		return "", nil
	case own && mode&0o077 != 0 && fs.Flags&unix.ST_RDONLY == 0:
		return "", fmt.Errorf("%s: others on this host may open it (mode %04o), and a token is a secret: chmod 600 %s", path, mode, path)
	case mode&0o004 != 0:
		return fmt.Sprintf("%s: everybody on this host may read the token (mode %04o); a Secret's volume takes defaultMode: 0400", path, mode), nil
	}
	return "", nil
}

// readToken reads a token from the first line of a file.
func readToken(path string) (Token, error) {
	f, err := os.Open(path)
	if err != nil {
		return Token{}, err
	}
	defer f.Close()
	caution, err := guarded(f, path)
	if err != nil {
		return Token{}, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxTokenText))
	if err != nil {
		return Token{}, err
	}
	line, _, _ := strings.Cut(strings.TrimLeft(string(text), "\r\n\t "), "\n")
	t, err := ParseToken(line)
	if err != nil {
		return Token{}, fmt.Errorf("%s: %w", path, err)
	}
	t.caution = caution
	return t, nil
}

// GivenToken is the token of --token-file (file, unless empty) or of HOPBENCH_TOKEN. It is not valid, without an error, where neither is given.
func GivenToken(file string, getenv func(string) string) (Token, error) {
	if file != "" {
		return readToken(file)
	}
	if text := getenv(TokenVariable); text != "" {
		t, err := ParseToken(text)
		if err != nil {
			return Token{}, fmt.Errorf("%s: %w", TokenVariable, err)
		}
		return t, nil
	}
	return Token{}, nil
}

// TokenFor is the token to use with a server: of file, of HOPBENCH_TOKEN, or for a server of this user on this host's loopback the
// one that it has left in a file that only this user can read.
func TokenFor(addr, file string, getenv func(string) string) (Token, error) {
	t, err := GivenToken(file, getenv)
	if err != nil || t.valid() {
		return t, err
	}
	if IsLoopback(addr) {
		if t, err = storedToken(addr); err == nil {
			return t, nil
		}
		return Token{}, fault.New(fault.PeerToken, "find the token", addr, "no --token-file, no %s, and no server of this user has left one here (%v)", TokenVariable, err)
	}
	return Token{}, fault.New(fault.PeerToken, "find the token", addr, "give the server's token by --token-file or %s", TokenVariable)
}

// Given says whether there is a token at all.
func (t Token) Given() bool { return t.valid() }

// IsLoopback says whether an address HOST:PORT can only be reached from this host.
func IsLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
