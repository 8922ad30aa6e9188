package control

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
