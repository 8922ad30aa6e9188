package cli_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// binary builds the program once for all tests that need it as a process.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hopbench-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "hopbench")
	out, err := exec.Command("go", "build", "-o", path, "hopbench/bench").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// TestScripts runs the scripts of testdata/script: what a user types, and what the command answers.
func TestScripts(t *testing.T) {
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(e *testscript.Env) error {
			e.Setenv("PATH", filepath.Dir(path)+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOME", e.WorkDir)
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"status": status, "oneline": oneline},
	})
}

// status runs a command and requires an exit status: status 2 hopbench run --sizes 0.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command [args]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if fmt.Sprint(got) != args[0] {
		ts.Fatalf("exit status %d, want %s", got, args[0])
	}
}

// oneline requires that the last command's standard error is one line: the message of a usage error.
func oneline(ts *testscript.TestScript, neg bool, args []string) {
	if text := strings.TrimRight(ts.ReadFile("stderr"), "\n"); text == "" || strings.Contains(text, "\n") {
		ts.Fatalf("standard error is not one line: %q", text)
	}
}
