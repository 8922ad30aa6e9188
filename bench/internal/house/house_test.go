package house

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// checks are all the rules, by name.
var checks = map[string]func(tree) []string{"directly": directly, "ever": everNever, "words": words, "silent": silent}

func TestArrows(t *testing.T) {
	w := read(t, os.DirFS(repository(t)))
	if len(w.packages) < 20 {
		t.Fatalf("only %d packages were found", len(w.packages))
	}
	for name, check := range checks {
		t.Run(name, func(t *testing.T) {
			for _, wrong := range check(w) {
				t.Error(wrong)
			}
		})
	}
}

// TestEachRuleIsBroken holds every rule to a small tree that breaks it: testdata/RULE-NAME.txtar, whose comment is words that the
// complaint must have, one set a line.
func TestEachRuleIsBroken(t *testing.T) {
	names, err := fs.Glob(os.DirFS("testdata"), "*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no trees: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(name, ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path.Join("testdata", name))
			if err != nil {
				t.Fatal(err)
			}
			root, err := txtar.FS(archive)
			if err != nil {
				t.Fatal(err)
			}
			rule, _, _ := strings.Cut(name, "-")
			if checks[rule] == nil {
				t.Fatalf("there is no rule %q", rule)
			}
			got := checks[rule](read(t, root))
			want := strings.Split(strings.TrimSpace(string(archive.Comment)), "\n")
			if len(got) != len(want) {
				t.Errorf("%d complaints, want %d:\n%s", len(got), len(want), strings.Join(got, "\n"))
			}
			for _, line := range want {
				if !complains(got, line) {
					t.Errorf("no complaint has the words %q:\n%s", line, strings.Join(got, "\n"))
				}
			}
		})
	}
}

// complains says whether one complaint has all the parts of a line, which "..." separates.
func complains(got []string, line string) bool {
	for _, g := range got {
		all := true
		for part := range strings.SplitSeq(line, "...") {
			at := strings.Index(g, strings.TrimSpace(part))
			if all = all && at >= 0; all {
				g = g[at:]
			}
		}
		if all {
			return true
		}
	}
	return false
}

func TestPatterns(t *testing.T) {
	for _, k := range []struct {
		pattern, path string
		want          bool
	}{
		{"results/...", "results", true}, {"results/...", "results/unit", true}, {"results/...", "resultsx", false},
		{"transports/*", "transports/tcp", true}, {"transports/*", "transports", false}, {"transports/*", "transports/internal/cuda", false},
	} {
		if got := matches(k.pattern, k.path); got != k.want {
			t.Errorf("%q fits %q: %v", k.path, k.pattern, got)
		}
	}
}
