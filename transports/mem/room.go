package mem

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// room is how many bytes of host memory can be touched now: what the kernel calls available, or what is left of the container's limit where
// that is less. ok is false where the kernel does not say. Touching more would not fail: it would have a process killed, perhaps another one.
func room() (available uint64, source string, ok bool) {
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
			if rest, found := strings.CutPrefix(scan.Text(), "MemAvailable:"); found {
				kib, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 54)
				if err == nil {
					available, source, ok = kib<<10, "MemAvailable of /proc/meminfo", true
				}
			}
		}
	}
	limit, err1 := readUint("/sys/fs/cgroup/memory.max")
	used, err2 := readUint("/sys/fs/cgroup/memory.current")
	if err1 == nil && err2 == nil && limit >= used && (!ok || limit-used < available) {
		return limit - used, "memory.max less memory.current of the control group", true
	}
	return available, source, ok
}

func readUint(path string) (uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(b)), 10, 64)
}
