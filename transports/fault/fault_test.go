package fault

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
)

func TestTableRowsAreWhole(t *testing.T) {
	shape := regexp.MustCompile(`^[a-z0-9]+(\.[a-z0-9]+(-[a-z0-9]+)*)+$`)
	seen := map[Code]bool{}
	for _, r := range Table() {
		if seen[r.Code] {
			t.Errorf("%s stands twice in the table", r.Code)
		}
		seen[r.Code] = true
		if !shape.MatchString(string(r.Code)) {
			t.Errorf("%q is not of the form area.what", r.Code)
		}
		if r.Title == "" || strings.HasSuffix(r.Title, ".") {
			t.Errorf("%s: title %q: one line without a full stop", r.Code, r.Title)
		}
		switch r.Class {
		case NotSupported, NotReady, Peer, Corrupt, Usage:
		default:
			t.Errorf("%s has class %q", r.Code, r.Class)
		}
		if r.Class == NotReady && len(r.Fixes) == 0 {
			t.Errorf("%s says that an operator can fix it, and not how", r.Code)
		}
	}
}

func TestErrorIsOneLineAndWholeOnRequest(t *testing.T) {
	err := &Error{Code: TCPDataUnreachable, Op: "connect", Device: "192.0.2.1:7", Native: "ETIMEDOUT (110)", Err: io.ErrUnexpectedEOF, Detail: "one\ntwo"}
	wrapped := fmt.Errorf("round 3: %w", err)
	line := wrapped.Error()
	if strings.Contains(line, "\n") {
		t.Errorf("more than one line: %q", line)
	}
	for _, want := range []string{"connect on 192.0.2.1:7", "unexpected EOF", "ETIMEDOUT (110)", "[tcp.data-unreachable]"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q lacks %q", line, want)
		}
	}
	if whole := fmt.Sprintf("%+v", err); !strings.Contains(whole, "two") || !strings.Contains(whole, "--data-port") {
		t.Errorf("the whole lacks the detail or the explanation:\n%s", whole)
	}
	if ClassOf(wrapped) != Peer || CodeOf(wrapped) != TCPDataUnreachable || !errors.Is(wrapped, io.ErrUnexpectedEOF) {
		t.Error("class, code or cause lost in the chain")
	}
	if ClassOf(io.EOF) != Internal || ClassOf(nil) != "" {
		t.Error("an error without a class is internal, nil has none")
	}
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		class Class
		asked bool
		want  int
	}{{NotSupported, false, 0}, {NotSupported, true, 3}, {NotReady, true, 3}, {Peer, false, 1}, {Corrupt, true, 1}, {Usage, false, 2}, {Internal, false, 1}} {
		if got := c.class.Exit(c.asked); got != c.want {
			t.Errorf("%s asked=%v: exit %d, want %d", c.class, c.asked, got, c.want)
		}
	}
}
