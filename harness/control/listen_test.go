package control

import "testing"

// An address of IPv4 is not listened on by IPv6.
func TestListenKeepsTheFamily(t *testing.T) {
	l, err := Listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Addr().String(); got[:8] != "0.0.0.0:" {
		t.Errorf("0.0.0.0:0 listens on %s", got)
	}
}
