package mem

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"hopbench/transports/fault"
)

func TestHostBufferIsOutsideTheHeapAndWhole(t *testing.T) {
	b, err := Allocate(Spec{Kind: Host, Bytes: 5000})
	if err != nil {
		t.Fatal(err)
	}
	if b.Len() != 5000 || len(b.Bytes()) != 5000 || b.Addr()%4096 != 0 {
		t.Errorf("len %d, bytes %d, address %#x", b.Len(), len(b.Bytes()), b.Addr())
	}
	if f := b.Facts(); f.PageBytes == 0 || f.Kind != Host {
		t.Errorf("facts %+v lack the page size", f)
	}
	if err := b.CopyIn(4990, []byte("0123456789")); err != nil {
		t.Error(err)
	}
	got := make([]byte, 10)
	if err := b.CopyOut(4990, got); err != nil || !bytes.Equal(got, []byte("0123456789")) {
		t.Errorf("%q, %v", got, err)
	}
	if b.CopyIn(4991, got) == nil || b.CopyOut(1<<63, got) == nil || b.CopyIn(^uint64(0), got) == nil {
		t.Error("a copy past the end was let through")
	}
	if err := errors.Join(b.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

func TestShortageIsAnErrorNotACrash(t *testing.T) {
	_, err := Allocate(Spec{Kind: Host, Bytes: 1 << 60})
	if fault.CodeOf(err) != fault.MemoryExhausted {
		t.Errorf("got %v", err)
	}
	if have, _, ok := room(); ok {
		// A little more than there is: the kernel would promise it and kill somebody when it is touched.
		if _, err := Allocate(Spec{Kind: Host, Bytes: have + 1<<30}); fault.CodeOf(err) != fault.MemoryExhausted || !strings.Contains(err.Error(), "room for") {
			t.Errorf("more than is available: %v", err)
		}
	}
	if _, err := Allocate(Spec{Kind: Host, Bytes: 4096, HugePages: "1GiB"}); err == nil {
		t.Log("this host has 1 GiB pages reserved")
	} else if fault.CodeOf(err) != fault.MemoryExhausted {
		t.Errorf("reserved pages that are not there: %v", err)
	}
	if _, err := Allocate(Spec{Kind: Host}); err == nil {
		t.Error("zero bytes")
	}
	node := 900
	if _, err := Allocate(Spec{Kind: Host, Bytes: 4096, NUMANode: &node}); err == nil {
		t.Error("a NUMA node that is not there was accepted")
	}
}

func TestTransparentHugePagesAreRecordedAsGiven(t *testing.T) {
	b, err := Allocate(Spec{Kind: Host, Bytes: 8 << 20, HugePages: "transparent"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if f := b.Facts(); f.HugeBytes > 8<<20 || f.HugeAsked == "" {
		t.Errorf("facts %+v", f)
	}
}

func TestParseKind(t *testing.T) {
	for in, want := range map[string]string{"host": "host", "pinned": "pinned", "cuda": "cuda:0", "cuda:3": "cuda:3", "cuda:MIG-ab": "cuda:MIG-ab"} {
		kind, device, err := ParseKind(in)
		if got := (Spec{Kind: kind, Device: device}).Name(); err != nil || got != want {
			t.Errorf("%s: %s, %v", in, got, err)
		}
	}
	for _, in := range []string{"", "hst", "cuda:", "cuda:-1", "host:0", "CUDA:0"} {
		if _, _, err := ParseKind(in); err == nil {
			t.Errorf("%q was accepted", in)
		}
	}
}

func TestPagesAt(t *testing.T) {
	const text = "7f00-8f00 rw-p 00000000 00:00 0 \nKernelPageSize:        4 kB\nAnonHugePages:      2048 kB\n9000-a000 rw-p 0 0 0\nKernelPageSize:     2048 kB\n"
	page, huge := pagesAt([]byte(text), 0x8000, 0x8f00)
	if page != 4096 || huge != 0xf00 {
		t.Errorf("page %d, huge %d: another mapping's lines, or more than the range", page, huge)
	}
}
