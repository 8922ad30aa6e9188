package harness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// meter is a reading of this process's and this host's use of processors.
type meter struct {
	self unix.Rusage
	busy float64 // seconds of all CPUs of the host; negative where the kernel does not say
}

func readMeter() meter {
	var m meter
	if unix.Getrusage(unix.RUSAGE_SELF, &m.self) != nil {
		m.self = unix.Rusage{}
	}
	m.busy = hostBusy()
	return m
}

// since is the growth from before to m.
func (m meter) since(before meter) Usage {
	seconds := func(t unix.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	u := Usage{
		UserSeconds:     seconds(m.self.Utime) - seconds(before.self.Utime),
		SystemSeconds:   seconds(m.self.Stime) - seconds(before.self.Stime),
		Voluntary:       m.self.Nvcsw - before.self.Nvcsw,
		Involuntary:     m.self.Nivcsw - before.self.Nivcsw,
		HostBusySeconds: -1,
		Process:         fmt.Sprintf("%s/%d", hostID, os.Getpid()),
		HostID:          hostID,
	}
	if m.busy >= 0 && before.busy >= 0 {
		u.HostBusySeconds = m.busy - before.busy
	}
	return u
}

// hostBusy sums the busy columns of /proc/stat: user, nice, system, irq, softirq and steal of all CPUs, in clock ticks of 1/100 s
// (USER_HZ, which the kernel's interface fixes at 100 on every architecture that Go runs on).
func hostBusy() float64 {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return -1
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return -1
	}
	ticks := 0.0
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.ParseUint(fields[i], 10, 63)
		if err != nil {
			return -1
		}
		ticks += float64(n)
	}
	return ticks / 100
}

// hostID tells hosts apart: the boot identifier, which processes in containers and network namespaces of one host share.
var hostID = func() string {
	if b, err := os.ReadFile("/proc/sys/kernel/random/boot_id"); err == nil {
		return strings.TrimSpace(string(b))
	}
	name, _ := os.Hostname()
	return name
}()

// cpuShare is the index-th of shares parts of the CPUs that this process may use; all of them where there are fewer CPUs than
// shares.
func cpuShare(index, shares int) []int {
	all := allowedCPUs()
	if shares < 2 || len(all) < shares {
		return all
	}
	per := len(all) / shares
	return all[index*per : (index+1)*per]
}

// allowedCPUs lists the CPUs that this process may run on, ascending.
func allowedCPUs() []int {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return nil
	}
	var cpus []int
	for c := 0; len(cpus) < set.Count(); c++ {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}
