package scripts

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"hopbench/transports/transporttest/need"
)

// started are the processes whose arguments have a word.
func started(t *testing.T, word string) (found []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if line, err := os.ReadFile(p); err == nil && strings.Contains(string(line), word) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

// The cluster ends with its command, and with its script, whichever way that ends.
func TestClusterEndsWhole(t *testing.T) {
	need.Slurm(t)
	for name, signal := range map[string]syscall.Signal{"by itself": 0, "terminated": syscall.SIGTERM, "killed": syscall.SIGKILL} {
		t.Run(name, func(t *testing.T) {
			seconds := "600"
			if signal == 0 {
				seconds = "0"
			}
			c := command(t, t.TempDir(), nil, absolute(t, "slurm/cluster.sh"), "--nodes", "2", "sh", "-c", "echo $SLURM_CONF; sleep "+seconds+"; exit 7")
			c.Stderr = os.Stderr
			out, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			line, err := bufio.NewReader(out).ReadString('\n')
			dir, file := filepath.Split(strings.TrimSpace(line))
			if err != nil || file != "slurm.conf" {
				t.Fatalf("%q, %v", line, err)
			}
			if n := len(started(t, dir)); signal != 0 && n < 4 {
				t.Errorf("only %d processes of the cluster are there", n)
			}
			if signal != 0 {
				if err := c.Process.Signal(signal); err != nil {
					t.Fatal(err)
				}
			}
			err = c.Wait()
			if exit, ok := err.(*exec.ExitError); !ok || signal == 0 && exit.ExitCode() != 7 {
				t.Errorf("%v", err)
			}
			for until := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
				left := started(t, dir)
				if len(left) == 0 {
					break
				}
				if time.Now().After(until) {
					t.Fatalf("left behind: %q", left)
				}
			}
			if _, err := os.Stat(dir); signal != syscall.SIGKILL && err == nil {
				t.Errorf("%s is left behind", dir)
			} else if err == nil {
				if err := os.Remove(dir); err != nil { // it is empty even then
					t.Error(err)
				}
			}
		})
	}
}

func TestClusterSaysWhyItDoesNotStart(t *testing.T) {
	out, err := command(t, t.TempDir(), []string{"PATH=/bin:/usr/bin"}, absolute(t, "slurm/cluster.sh"), "--nodes", "0", "true").CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(string(out), "--nodes N") {
		t.Errorf("%v, %s", err, out)
	}
}
