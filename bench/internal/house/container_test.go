package house

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/mod/modfile"
)

// TestContainerFile checks what a builder would trip over: instructions, sources of copies, stages, and the Go release.
func TestContainerFile(t *testing.T) {
	root := repository(t)
	data, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	known := []string{"FROM", "RUN", "WORKDIR", "COPY", "ARG", "ENTRYPOINT", "CMD", "EXPOSE", "ENV", "LABEL", "USER"}
	var stages []string
	for _, line := range instructions(string(data)) {
		f := strings.Fields(line)
		if !slices.Contains(known, f[0]) {
			t.Errorf("%q is no instruction", f[0])
			continue
		}
		switch f[0] {
		case "FROM":
			if !strings.Contains(f[1], ":") || strings.HasSuffix(f[1], ":latest") {
				t.Errorf("%s: the base is not pinned to a release", line)
			}
			if len(f) == 4 && f[2] == "AS" {
				stages = append(stages, f[3])
			}
			if release, ok := strings.CutPrefix(f[1], "golang:"); ok {
				holds(t, root, release)
			}
		case "COPY":
			from, sources := "", f[1:len(f)-1]
			if s, ok := strings.CutPrefix(f[1], "--from="); ok {
				from, sources = s, f[2:len(f)-1]
			}
			if from != "" && !slices.Contains(stages, from) {
				t.Errorf("%s: there is no stage %s", line, from)
			}
			for _, s := range sources {
				if _, err := os.Stat(filepath.Join(root, s)); from == "" && err != nil {
					t.Errorf("%s: %v", line, err)
				}
			}
		case "ENTRYPOINT", "CMD":
			if !strings.HasPrefix(f[1], `["`) || !strings.HasSuffix(line, `"]`) {
				t.Errorf("%s: a shell would stand between a signal and the program", line)
			}
		}
	}
	if len(stages) == 0 {
		t.Error("the compiler is in the image: there is no build stage")
	}
}

// holds says whether the image's Go is the release line that go.mod asks for.
func holds(t *testing.T, root, release string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := modfile.ParseLax("go.mod", data, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`^\d+\.\d+`).FindString(mod.Go.Version)
	if got, _, _ := strings.Cut(release, "-"); got != want {
		t.Errorf("the image builds with Go %s and go.mod asks for %s", got, want)
	}
}

// instructions are the logical lines of a container file.
func instructions(text string) (lines []string) {
	whole := ""
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if trimmed := strings.TrimSpace(line); trimmed == "" || strings.HasPrefix(trimmed, "#") {
			continue
		}
		if part, more := strings.CutSuffix(line, "\\"); more {
			whole += part
			continue
		}
		lines = append(lines, whole+line)
		whole = ""
	}
	return lines
}
