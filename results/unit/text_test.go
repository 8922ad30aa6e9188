package unit

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"tcp, same host · 5 µs → ü 日本": "tcp, same host · 5 µs → ü 日本",
		"a\nb\tc\r\u2028d\u00a0e":      "a b c  d e",
		"\x1b[31mred\x07":              `\u001b[31mred\u0007`,
		"\u202egpj.exe\u2066":          `\u202egpj.exe\u2066`,
		"\u009b2J":                     `\u009b2J`,
		"a\xffb":                       `a\ufffdb`,
		"x\U000e0041y":                 `x\udb40\udc41y`,
		"":                             "",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := Lines("a\tb\n\x1b[2J\u202ec\u00a0\u200b\u00ad\r\n\n"), "a\tb\n"+`\u001b[2J\u202ec`+"\u00a0\u200b\u00ad \n\n"; got != want {
		t.Errorf("Lines: %q, want %q", got, want)
	}
	// Inside a JSON string the escape means what it stands for.
	for _, s := range []string{"\u202e", "\U000e0041", "\u009b"} {
		var back string
		if err := json.Unmarshal([]byte(`"`+Text(s)+`"`), &back); err != nil || back != s {
			t.Errorf("%q came back as %q, %v", s, back, err)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("a\u202e\xff\x1b\n")
	f.Fuzz(func(t *testing.T, s string) {
		for _, r := range Text(s) {
			if !printed(r) {
				t.Fatalf("%q left in the text of %q", r, s)
			}
		}
		if strings.Count(Lines(s), "\n") != strings.Count(s, "\n") {
			t.Fatalf("lines of %q", s)
		}
	})
}

func TestDecoding(t *testing.T) {
	var into struct {
		Depth int64          `json:"depth"`
		Name  string         `json:"name"`
		Rates []float64      `json:"rates"`
		On    *bool          `json:"on"`
		Deep  map[string]any `json:"deep"`
		At    time.Time      `json:"at"`
	}
	for text, want := range map[string]string{
		"{":                  "the JSON ends in the middle of a value",
		"":                   "the JSON ends in the middle of a value",
		"{,}":                "not valid JSON at byte 2",
		`{"depth":"x"}`:      "depth is text, not a whole number",
		`{"depth":1.5}`:      "depth is 1.5, not a whole number",
		`{"name":[1]}`:       "name is a list, not text",
		`{"rates":["x"]}`:    "rates is text, not a number",
		`{"on":{}}`:          "on is an object, not true or false",
		`{"deep":true}`:      "deep is true or false, not an object",
		`{"at":"yesterday"}`: `"yesterday" is not a time such as 2006-01-02T15:04:05Z`,
		`[1]`:                "byte 1 is a list, not an object",
		`{"depth":1e400}`:    "depth is 1e400, not a whole number",
		`{"name":"x"} more`:  "not valid JSON at byte 14",
	} {
		err := json.Unmarshal([]byte(text), &into)
		got := Decoding(err)
		if got == nil || got.Error() != want {
			t.Errorf("%s: %v (of %v), want %q", text, got, err, want)
		}
		if !errors.Is(got, err) {
			t.Errorf("%s: the cause is lost", text)
		}
	}
	_, number := strconv.Atoi("99999999999999999999")
	if got := Decoding(number).Error(); got != "99999999999999999999 is too large" {
		t.Error(got)
	}
	if got := Decoding(io.ErrClosedPipe); got != io.ErrClosedPipe {
		t.Error(got)
	}
}
