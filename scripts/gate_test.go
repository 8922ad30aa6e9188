// Package scripts holds the tests of the scripts in this folder.
package scripts

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// fake is a program that stands in for a build under test: `run … --out FILE` writes a result file of four cells with 2 % of
// noise, each times its factor. It lets the gate be tried in seconds, on any machine.
const fake = `#!/usr/bin/env bash
# slowed: FACTOR, broken: BROKEN
while [ $# -gt 0 ]; do [ "$1" = --out ] && out=$2; shift; done
[ -z "$BROKEN" ] || { [ "$BROKEN" = silent ] && exit 3; }
now=$(date -u +%Y-%m-%dT%H:%M:%S.%NZ)
awk -v seed="$(date +%N)" -v now="$now" -v factor=FACTOR -v broken="$BROKEN" 'BEGIN {
	srand(seed)
	printf "{\"record\":\"header\",\"schema\":\"hopbench.results/v1\",\"tool_version\":\"fake\",\"started\":\"%s\",\"hosts\":[]}\n", now
	for (i = 0; i < 4; i++) {
		size = 4096 * 2 ^ (4 * i)
		v = 1e9 * (1 + 0.02 * (rand() + rand() + rand() + rand() - 2)) * (i == 2 ? factor : 1)
		head = sprintf("{\"record\":\"cell\",\"transport\":\"tcp\",\"label\":\"tcp, same host\",\"realm\":\"software\",\"definition\":\"bandwidth.confirmed\",\"operation\":\"write\",\"direction\":\"forward\",\"piece_bytes\":%d,\"total_bytes\":%d,\"descriptors\":1,\"pattern\":\"contiguous\",\"depth\":16,\"streams\":1,\"concurrency\":1,\"initiator_memory\":\"host\",\"target_memory\":\"host\",\"wait\":\"adaptive\"", size, size)
		if (broken == "cell" && i == 1)
			printf "%s,\"status\":\"failed\",\"reason\":\"payload differs at byte 17\",\"code\":\"x\"}\n", head
		else
			printf "%s,\"status\":\"ok\",\"bandwidth\":{\"bytes_per_second\":%.0f,\"rounds\":[%.0f]}}\n", head, v, v
	}
	if (broken != "cut") printf "{\"record\":\"footer\",\"state\":\"complete\",\"cells\":4}\n"
}' >"$out"
`

func program(t *testing.T, name, factor, broken string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	text := strings.NewReplacer("=FACTOR", "="+factor, "# slowed: FACTOR, broken: BROKEN", "# "+name+"\nBROKEN="+broken).Replace(fake)
	if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return p
}

// gate runs gate.sh and returns its exit status, output and comparison.
func gate(t *testing.T, args ...string) (code int, output string, report struct {
	Verdict     string
	Interleaved bool
	Old_files   int
	Rows        []struct {
		Total_bytes       int64
		Verdict           string
		Old_samples       int
		Detectable_effect *float64
	}
}) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "out")
	c := exec.Command("./gate.sh", append([]string{"--out", out, "--tool", tool}, args...)...)
	b, err := c.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); ok {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if j, err := os.ReadFile(filepath.Join(out, "compare.json")); err == nil {
		if err := json.Unmarshal(j, &report); err != nil {
			t.Fatalf("%v\n%s", err, b)
		}
	}
	return code, string(b), report
}

var tool string // the built hopbench

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "gate")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		tool = os.Getenv("HOPBENCH")
		if tool == "" {
			tool = filepath.Join(dir, "hopbench")
			if b, err := exec.Command("go", "build", "-o", tool, "hopbench/bench").CombinedOutput(); err != nil {
				os.Stderr.Write(b)
				return 1
			}
		}
		return m.Run()
	}())
}

func TestGateFiresOnTheSlowedBuildAndNotOnItself(t *testing.T) {
	base := program(t, "base", "1", "")
	code, output, report := gate(t, "--base", base, "--head", program(t, "head", "0.9", ""), "--", "--sizes", "4KiB")
	if code != 1 || report.Verdict != "regression" || !report.Interleaved || len(report.Rows) != 4 {
		t.Fatalf("exit %d\n%s", code, output)
	}
	for _, r := range report.Rows {
		if (r.Verdict == "worse") != (r.Total_bytes == 1<<20) || r.Old_samples != 16 || r.Detectable_effect == nil {
			t.Errorf("%+v", r)
		}
	}
	code, output, report = gate(t, "--base", base, "--head", base, "--aa", "--")
	if code != 0 || report.Verdict == "regression" {
		t.Errorf("A/A: exit %d\n%s", code, output)
	}
}

func TestGateFailsOnWhatIsNotASpeed(t *testing.T) {
	base := program(t, "base", "1", "")
	code, output, report := gate(t, "--base", base, "--head", program(t, "corrupt", "1", "cell"), "--rounds", "8", "--")
	if code != 1 || report.Verdict != "regression" || !strings.Contains(output, "payload differs") {
		t.Errorf("exit %d\n%s", code, output)
	}
	code, output, _ = gate(t, "--base", base, "--head", program(t, "silent", "1", "silent"), "--rounds", "8", "--")
	if code == 0 || !strings.Contains(output, "wrote no result file") {
		t.Errorf("exit %d\n%s", code, output)
	}
	code, output, _ = gate(t, "--base", base, "--head", program(t, "cut", "1", "cut"), "--rounds", "8", "--")
	if code != 1 || !strings.Contains(output, "did not come to its end") {
		t.Errorf("exit %d\n%s", code, output)
	}
}

func TestGateCommandAndSwitch(t *testing.T) {
	// The difference is made by --switch alone, as with two kernel modules.
	dir := t.TempDir()
	base, slow := program(t, "base", "1", ""), program(t, "head", "0.8", "")
	code, output, report := gate(t, "--base", base, "--head", base, "--rounds", "8",
		"--switch", `if [ $SIDE = head ]; then ln -sf `+slow+` `+dir+`/now; else ln -sf `+base+` `+dir+`/now; fi`,
		"--command", dir+`/now --out "$FILE"`)
	if code != 1 || report.Verdict != "regression" {
		t.Errorf("exit %d\n%s", code, output)
	}
	code, output, _ = gate(t, "--base", base, "--head", base, "--switch", "exit 9", "--rounds", "8", "--")
	if code != 1 || !strings.Contains(output, "--switch failed") {
		t.Errorf("exit %d\n%s", code, output)
	}
}

func TestGateUsage(t *testing.T) {
	base := program(t, "base", "1", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--base", base, "--head", base, "--"}, "such a gate cannot fail"},
		{[]string{"--base", base, "--head", base, "--aa", "--rounds", "5"}, "even"},
		{[]string{"--base", base, "--head", base, "--aa", "--rounds", "4"}, "at least 8"},
		{[]string{"--base", base, "--head", "none"}, "no program"},
		{[]string{"--base", base}, "--head"},
		{[]string{"--bse", base}, "unknown argument"},
	} {
		if code, output, _ := gate(t, c.args...); code != 2 || !strings.Contains(output, c.want) {
			t.Errorf("%v: exit %d\n%s", c.args, code, output)
		}
	}
}
