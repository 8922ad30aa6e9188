package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"

	"hopbench/harness"
	"hopbench/results"
)

// readPlan reads a plan from a YAML file, or from the header of a result file.
func readPlan(path string, p *harness.Plan) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(strings.TrimSpace(string(b))) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	if strings.HasPrefix(strings.TrimSpace(string(b)), `{"record"`) {
		runs, err := results.ReadFile(path)
		if err != nil {
			return err
		}
		if b = runs[0].Header.Plan; len(b) == 0 {
			return fmt.Errorf("%s: its first run holds no plan", path)
		}
	}
	d := yaml.NewDecoder(strings.NewReader(string(b))) // JSON is YAML
	d.KnownFields(true)
	given := yaml.Node{}
	if yaml.Unmarshal(b, &given) == nil && given.Kind == yaml.DocumentNode && given.Content[0].Tag == "!!null" {
		return fmt.Errorf("%s: no plan is in it", path)
	}
	if err := d.Decode(p); err != nil {
		return fmt.Errorf("%s: %s", path, yamlWords(err))
	}
	return nil
}

// yamlWords says of an error of the YAML library what is wrong with the text, on one line and in no words of Go. The library writes a line a fault.
func yamlWords(err error) string {
	if errors.Is(err, io.EOF) {
		return "no plan is in it"
	}
	text := strings.Join(strings.Fields(err.Error()), " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, "yaml: "), "unmarshal errors: ")
	text = yamlUnknown.ReplaceAllString(text, `there is no key "$1"`)
	text = yamlNext.ReplaceAllString(text, "; line $1:")
	return yamlKind.ReplaceAllStringFunc(text, func(s string) string {
		m := yamlKind.FindStringSubmatch(s)
		return cmp.Or(m[1], "what stands there") + " is not " + kindWords(m[2])
	})
}

var (
	yamlNext    = regexp.MustCompile(` line (\d+):`)
	yamlUnknown = regexp.MustCompile(`field (\S+) not found in type \S+`)
	yamlKind    = regexp.MustCompile("cannot (?:unmarshal|decode|construct) !!\\w+ ?(`[^`]*`)? into ([\\w.\\[\\]*]+)")
)

// kindWords are the words for a Go type that a value was to be read into.
func kindWords(kind string) string {
	switch kind = strings.TrimLeft(kind, "*"); {
	case strings.HasPrefix(kind, "[]"):
		return "a list"
	case strings.HasPrefix(kind, "uint"):
		return "a whole number of 0 or more"
	case strings.HasPrefix(kind, "int"):
		return "a whole number"
	case strings.HasPrefix(kind, "float"):
		return "a number"
	case kind == "bool":
		return "true or false"
	case kind == "string", strings.HasPrefix(kind, "transports."), strings.HasPrefix(kind, "harness.") && kind != "harness.Plan":
		return "text"
	}
	return "keys with values"
}
