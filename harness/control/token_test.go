package control

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"hopbench/transports/fault"
)

func TestParseToken(t *testing.T) {
	random := NewToken().key
	for _, c := range []struct {
		name, text string
		bytes      int
		bad        string
	}{
		{"hexadecimal", hex.EncodeToString(random), 32, ""},
		{"128 bits", " " + hex.EncodeToString(random[:16]) + "\n", 16, ""},
		{"base64", base64.StdEncoding.EncodeToString(random[:24]), 24, ""},
		{"base64url", base64.RawURLEncoding.EncodeToString(random), 32, ""},
		{"120 bits", hex.EncodeToString(random[:15]), 0, "too short"},
		{"empty", "", 0, "too short"},
		{"a word", "correct horse battery staple", 0, "hexadecimal or base64"},
		{"one letter", strings.Repeat("a", 64), 0, "not random"},
		{"zeros", strings.Repeat("0", 64), 0, "not random"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseToken(c.text)
			if c.bad != "" {
				if err == nil || !strings.Contains(err.Error(), c.bad) {
					t.Fatalf("got %v", err)
				}
				return
			}
			if err != nil || len(got.key) != c.bytes {
				t.Fatalf("%d bytes, %v", len(got.key), err)
			}
			if again, err := ParseToken(got.Text()); err != nil || again.Text() != got.Text() {
				t.Errorf("%v", err)
			}
		})
	}
	token := NewToken()
	if shown := fmt.Sprintf("%v %+v %#v %s", token, token, token, &token); strings.Contains(shown, token.Text()) {
		t.Errorf("a token shows itself: %s", shown)
	}
}

func TestTokenFor(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	given, stored := NewToken(), NewToken()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("\n"+given.Text()+"\nrest\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	empty := func(string) string { return "" }
	env := func(v string) func(string) string { return func(string) string { return v } }
	const here, there = "127.0.0.1:18515", "192.0.2.7:18515"
	if got, err := TokenFor(there, file, empty); err != nil || got.Text() != given.Text() {
		t.Errorf("of a file: %v", err)
	}
	if got, err := TokenFor(there, "", env(given.Text())); err != nil || got.Text() != given.Text() {
		t.Errorf("of the environment: %v", err)
	}
	if _, err := TokenFor(there, "", env("short")); err == nil {
		t.Error("a short token of the environment was taken")
	}
	if _, err := TokenFor(there, filepath.Join(t.TempDir(), "none"), empty); err == nil {
		t.Error("a missing file was taken")
	}
	_, err := TokenFor(there, "", empty)
	code(t, err, fault.PeerToken)
	_, err = TokenFor(here, "", empty)
	code(t, err, fault.PeerToken)
	path, remove, err := StoreToken(here, stored)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if got, err := TokenFor("localhost:18515", "", empty); err != nil || got.Text() != stored.Text() {
		t.Errorf("of this user's server: %v", err)
	}
	if _, err := TokenFor(there, "", empty); err == nil {
		t.Error("a token of this host was taken for another")
	}
	if _, again, err := StoreToken(here, given); err != nil { // the server before was killed
		t.Error(err)
	} else {
		again()
	}
	remove()
	if _, err := TokenFor(here, "", empty); err == nil {
		t.Error("the token is still there")
	}
	if err := os.Chmod(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, _, err := StoreToken(here, stored); err == nil || !strings.Contains(err.Error(), "open to others") {
		t.Errorf("a folder that others may enter: %v", err)
	}
}

// The rule of ssh: this user's own file that others may open is refused; what this user cannot mend is a caution.
func TestTokenFileThatOthersMayRead(t *testing.T) {
	token := NewToken()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(token.Text()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	read := func(mode os.FileMode) (Token, error) {
		t.Helper()
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return GivenToken(file, nil)
	}
	for _, mode := range []os.FileMode{0o600, 0o400} {
		if got, err := read(mode); err != nil || got.Text() != token.Text() || got.Caution() != "" {
			t.Errorf("%04o: %v, %q", mode, err, got.Caution())
		}
	}
	for _, mode := range []os.FileMode{0o644, 0o640, 0o604, 0o660, 0o444} {
		if _, err := read(mode); err == nil || !strings.Contains(err.Error(), "chmod 600 "+file) || !strings.Contains(err.Error(), fmt.Sprintf("mode %04o", mode)) {
			t.Errorf("%04o: %v", mode, err)
		} else if strings.Contains(err.Error(), token.Text()) {
			t.Errorf("%04o: the message shows the token", mode)
		}
	}
	if os.Geteuid() != 0 {
		t.Skip("the rest needs root: a file of somebody else, and a read-only mount as a pod sees its Secret")
	}
	t.Run("of somebody else", func(t *testing.T) {
		if err := os.Chown(file, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chown(file, 0, 0) })
		if got, err := read(0o644); err != nil || !strings.Contains(got.Caution(), "mode 0644") {
			t.Errorf("0644: %v, %q", err, got.Caution())
		}
		if got, err := read(0o440); err != nil || got.Caution() != "" { // as fsGroup makes it
			t.Errorf("0440: %v, %q", err, got.Caution())
		}
	})
	t.Run("a Secret's mount", func(t *testing.T) {
		dir := t.TempDir()
		if err := unix.Mount("hopbench-test", dir, "tmpfs", 0, "size=64k"); err != nil {
			t.Skipf("needs a mount: %v", err)
		}
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
		// kubelet's layout: a file behind two links.
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "..2026"), 0o755), os.WriteFile(filepath.Join(dir, "..2026", "token"), []byte(token.Text()), 0o644),
			os.Symlink("..2026", filepath.Join(dir, "..data")), os.Symlink(filepath.Join("..data", "token"), filepath.Join(dir, "token"))); err != nil {
			t.Fatal(err)
		}
		if _, err := GivenToken(filepath.Join(dir, "token"), nil); err == nil {
			t.Error("taken while it can be mended")
		}
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			t.Fatal(err)
		}
		got, err := GivenToken(filepath.Join(dir, "token"), nil)
		if err != nil || got.Text() != token.Text() || !strings.Contains(got.Caution(), "defaultMode: 0400") {
			t.Errorf("%v, %q", err, got.Caution())
		}
	})
}

func TestIsLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "[::1]:1": true, "localhost:1": true, "127.8.9.1:1": true, "[::ffff:127.0.0.1]:1": true,
		"0.0.0.0:1": false, "[::]:1": false, "192.0.2.1:1": false, "host:1": false, "127.0.0.1": false, ":1": false,
	} {
		if IsLoopback(addr) != want {
			t.Errorf("%s: %v", addr, !want)
		}
	}
}
