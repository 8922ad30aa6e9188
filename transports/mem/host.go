package mem

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"hopbench/transports/fault"
)

// hostBuffer is an anonymous mapping.
type hostBuffer struct {
	mu    sync.Mutex
	data  []byte // nil after Close
	whole []byte // the mapping, which is rounded up to whole pages
	facts Facts
}

const mpolPreferred = 1 // MPOL_PREFERRED of linux/mempolicy.h

func allocateHost(s Spec) (Buffer, error) {
	failed := func(code fault.Code, err error) error {
		return &fault.Error{Code: code, Op: fmt.Sprintf("allocate %d bytes of host memory", s.Bytes), Native: errnoName(err), Err: err}
	}
	page := uint64(os.Getpagesize())
	flags := unix.MAP_ANONYMOUS | unix.MAP_PRIVATE
	switch s.HugePages {
	case "":
	case "transparent":
		page = 2 << 20 // whole transparent huge pages, so that the tail has one too
	case "2MiB":
		page, flags = 2<<20, flags|unix.MAP_HUGETLB|21<<unix.MAP_HUGE_SHIFT
	case "1GiB":
		page, flags = 1<<30, flags|unix.MAP_HUGETLB|30<<unix.MAP_HUGE_SHIFT
	default:
		return nil, failed(fault.MemoryKind, fmt.Errorf("huge pages %q: want transparent, 2MiB or 1GiB", s.HugePages))
	}
	if s.Bytes > 1<<46 {
		return nil, failed(fault.MemoryExhausted, unix.ENOMEM)
	}
	if have, source, ok := room(); ok && s.HugePages != "2MiB" && s.HugePages != "1GiB" && s.Bytes > have {
		return nil, failed(fault.MemoryExhausted, fmt.Errorf("there is room for %d bytes (%s)", have, source))
	}
	rounded := (s.Bytes + page - 1) / page * page
	whole, err := unix.Mmap(-1, 0, int(rounded), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil && s.HugePages != "" && s.HugePages != "transparent" {
		err = fmt.Errorf("too few pages of %s are reserved (/proc/sys/vm/nr_hugepages, /sys/kernel/mm/hugepages): %w", s.HugePages, err)
	}
	if err != nil {
		return nil, failed(fault.MemoryExhausted, err)
	}
	b := &hostBuffer{data: whole[:s.Bytes:s.Bytes], whole: whole}
	b.facts = Facts{Kind: Host, Bytes: s.Bytes, HugeAsked: s.HugePages, NUMAAsked: s.NUMANode, Allocation: "mmap"}
	if s.HugePages == "transparent" {
		if err := unix.Madvise(whole, unix.MADV_HUGEPAGE); err != nil {
			b.facts.HugeAsked = "transparent, refused: " + errnoName(err)
		}
	}
	if s.NUMANode != nil {
		if *s.NUMANode < 0 || *s.NUMANode >= 1024 {
			b.Close()
			return nil, failed(fault.MemoryKind, fmt.Errorf("there is no NUMA node %d", *s.NUMANode))
		}
		var mask [1024 / 64]uint64
		mask[*s.NUMANode/64] = 1 << (*s.NUMANode % 64)
		_, _, errno := unix.Syscall6(unix.SYS_MBIND, uintptr(unsafe.Pointer(&whole[0])), uintptr(len(whole)), mpolPreferred, uintptr(unsafe.Pointer(&mask[0])), 1024, 0)
		if errno != 0 {
			b.Close()
			return nil, failed(fault.MemoryKind, fmt.Errorf("there is no NUMA node %d with memory here: %w", *s.NUMANode, errno))
		}
	}
	// Touch every page now. MADV_POPULATE_WRITE (Linux 5.14) reports a shortage as an error where touching by hand would end the process.
	if err := unix.Madvise(whole, unix.MADV_POPULATE_WRITE); err != nil && err != unix.EINVAL {
		b.Close()
		return nil, failed(fault.MemoryExhausted, err)
	} else if err == unix.EINVAL {
		for i := 0; i < len(whole); i += os.Getpagesize() {
			whole[i] = 0
		}
	}
	b.readFacts()
	return b, nil
}

// readFacts asks the kernel what backs the mapping: its page size and huge pages from smaps, its node from move_pages.
func (b *hostBuffer) readFacts() {
	start := uint64(uintptr(unsafe.Pointer(&b.whole[0])))
	if text, err := os.ReadFile("/proc/self/smaps"); err == nil {
		b.facts.PageBytes, b.facts.HugeBytes = pagesAt(text, start, start+uint64(len(b.whole)))
	}
	page := uintptr(start)
	status := int32(-1)
	_, _, errno := unix.Syscall6(unix.SYS_MOVE_PAGES, 0, 1, uintptr(unsafe.Pointer(&page)), 0, uintptr(unsafe.Pointer(&status)), 0)
	if errno == 0 && status >= 0 {
		node := int(status)
		b.facts.NUMANode = &node
	}
}

// pagesAt reads the page size and the bytes of huge pages of the mappings that overlap [start, end) from an smaps text.
// A mapping shared with a neighbour counts whole, so the bytes are capped by the range.
func pagesAt(smaps []byte, start, end uint64) (page, huge uint64) {
	inside := false
	for scan := bufio.NewScanner(bytes.NewReader(smaps)); scan.Scan(); {
		line := scan.Text()
		if low, rest, ok := strings.Cut(line, "-"); ok && !strings.Contains(low, ":") {
			high, _, _ := strings.Cut(rest, " ")
			l, err1 := strconv.ParseUint(low, 16, 64)
			h, err2 := strconv.ParseUint(high, 16, 64)
			if err1 == nil && err2 == nil {
				inside = l < end && h > start
			}
			continue
		}
		if !inside {
			continue
		}
		key, rest, _ := strings.Cut(line, ":")
		fields := strings.Fields(rest)
		if len(fields) == 0 {
			continue
		}
		kib, err := strconv.ParseUint(fields[0], 10, 54)
		if err != nil {
			continue
		}
		switch key {
		case "KernelPageSize":
			page = max(page, kib<<10)
		case "AnonHugePages", "Private_Hugetlb", "Shared_Hugetlb":
			huge += kib << 10
		}
	}
	return page, min(huge, end-start)
}

func (b *hostBuffer) Facts() Facts  { return b.facts }
func (b *hostBuffer) Len() uint64   { return b.facts.Bytes }
func (b *hostBuffer) Bytes() []byte { return b.data }

func (b *hostBuffer) Addr() uintptr {
	if b.data == nil {
		return 0
	}
	return uintptr(unsafe.Pointer(&b.data[0]))
}

func (b *hostBuffer) CopyIn(off uint64, src []byte) error {
	if err := inRange(off, uint64(len(src)), uint64(len(b.data))); err != nil {
		return err
	}
	copy(b.data[off:], src)
	return nil
}

func (b *hostBuffer) CopyOut(off uint64, dst []byte) error {
	if err := inRange(off, uint64(len(dst)), uint64(len(b.data))); err != nil {
		return err
	}
	copy(dst, b.data[off:])
	return nil
}

func (b *hostBuffer) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.whole == nil {
		return nil
	}
	err := unix.Munmap(b.whole)
	b.data, b.whole = nil, nil
	return err
}

// errnoName is "ENOMEM (12)" for an errno in err's chain, else empty.
func errnoName(err error) string {
	if errno, ok := err.(unix.Errno); ok {
		return fmt.Sprintf("%s (%d)", unix.ErrnoName(errno), int(errno))
	}
	return ""
}
