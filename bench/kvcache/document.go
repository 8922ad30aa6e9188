package kvcache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
)

const (
	// maxConfigBytes bounds a config.json. The largest published ones, with a per-layer quantisation list, are below 2 MB.
	maxConfigBytes = 8 << 20
	maxDepth       = 64
)

// FieldError is a field of a config that cannot be used: missing, of the wrong type, or out of range.
type FieldError struct {
	Field  string // its path, text_config.head_dim
	Reason string
}

func (e *FieldError) Error() string { return e.Field + ": " + e.Reason }

func fieldErr(field, format string, args ...any) error {
	return &FieldError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// parseDocument reads one JSON object. Go's reader takes the last of two equal keys in silence and nests ten thousand deep,
// so the tokens are walked here. Python writes Infinity and NaN into configs (Mamba's time_step_limit): no field that is
// read here may hold them, so they are blanked.
func parseDocument(data []byte) (map[string]any, error) {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	if len(data) > maxConfigBytes {
		return nil, fmt.Errorf("larger than %d MiB: not a model's config", maxConfigBytes>>20)
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return nil, errors.New("empty")
	}
	dec := json.NewDecoder(bytes.NewReader(withoutNonFinite(data)))
	dec.UseNumber()
	v, err := readValue(dec, "", 0)
	if err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			err = errors.New("ends in the middle of a value")
		case errors.As(err, &syntax):
			return nil, fmt.Errorf("not valid JSON at byte %d", syntax.Offset)
		}
		return nil, fmt.Errorf("not valid JSON at byte %d: %w", dec.InputOffset(), err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, fmt.Errorf("not valid JSON at byte %d: more follows the first value", dec.InputOffset())
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("not a JSON object")
	}
	return object, nil
}

func readValue(dec *json.Decoder, path string, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("nested deeper than %d", maxDepth)
	}
	tok, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch tok {
	case json.Delim('{'):
		object := map[string]any{}
		for dec.More() {
			tok, err := dec.Token()
			if err != nil {
				return nil, err
			}
			key, ok := tok.(string)
			if !ok {
				return nil, fmt.Errorf("key %v is not a string", tok)
			}
			at := joinPath(path, key)
			if _, twice := object[key]; twice {
				return nil, fmt.Errorf("key %s stands twice", at)
			}
			if object[key], err = readValue(dec, at, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = dec.Token()
		return object, err
	case json.Delim('['):
		list := []any{}
		for dec.More() {
			v, err := readValue(dec, path, depth+1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = dec.Token()
		return list, err
	}
	return tok, nil
}

func joinPath(path, key string) string {
	if len(key) > 80 {
		key = key[:80] + "..."
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// withoutNonFinite turns the bare words Infinity and -Infinity outside strings into null, and NaN into 0.0, keeping
// every offset.
func withoutNonFinite(data []byte) []byte {
	if !bytes.Contains(data, []byte("Infinity")) && !bytes.Contains(data, []byte("NaN")) {
		return data
	}
	out := bytes.Clone(data)
	inString := false
	for i := 0; i < len(out); i++ {
		switch c := out[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case !inString && (c == 'I' || c == 'N' || c == '-'):
			for _, word := range []string{"-Infinity", "Infinity", "NaN"} {
				if bytes.HasPrefix(out[i:], []byte(word)) {
					blank := "null" + strings.Repeat(" ", max(0, len(word)-4))
					if len(word) < 4 {
						blank = "0.0"
					}
					copy(out[i:], blank)
					i += len(word) - 1
					break
				}
			}
		}
	}
	return out
}

// section is one object of a config with the path that errors name.
type section struct {
	path   string
	fields map[string]any
}

func (s section) at(key string) string { return joinPath(s.path, key) }

// has reports whether a key is there with another value than null.
func (s section) has(key string) bool { return s.fields[key] != nil }

// sub is the object under key; ok is false where it is absent or null.
func (s section) sub(key string) (sub section, ok bool, err error) {
	v := s.fields[key]
	if v == nil {
		return section{}, false, nil
	}
	object, isObject := v.(map[string]any)
	if !isObject {
		return section{}, false, fieldErr(s.at(key), "must be an object, got %s", show(v))
	}
	return section{s.at(key), object}, true, nil
}

// Limits on what a config may claim: far above any model, and low enough that sizes stay inside 63 bits.
const (
	maxLayers = 4096
	maxWidth  = 1 << 20
)

func whole(field string, v any, low, high int) (int, error) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, fieldErr(field, "must be a whole number, got %s", show(v))
	}
	i, err := n.Int64()
	if err != nil {
		f, ferr := n.Float64() // 8.0 is a whole number to Python's writers
		if ferr != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
			return 0, fieldErr(field, "must be a whole number, got %s", show(v))
		}
		i = int64(f)
	}
	if i < int64(low) {
		if low == 1 {
			return 0, fieldErr(field, "must be positive, got %d", i)
		}
		return 0, fieldErr(field, "must be at least %d, got %d", low, i)
	}
	if i > int64(high) {
		return 0, fieldErr(field, "%d is above %d: no model is like this", i, high)
	}
	return int(i), nil
}

// optional reads a positive whole number; ok is false where it is absent or null.
func (s section) optional(key string) (n int, ok bool, err error) {
	if !s.has(key) {
		return 0, false, nil
	}
	n, err = whole(s.at(key), s.fields[key], 1, maxWidth)
	return n, err == nil, err
}

// first reads the first of keys that is there; an error names the first key when none is.
func (s section) first(keys ...string) (int, error) {
	for _, key := range keys {
		if n, ok, err := s.optional(key); ok || err != nil {
			return n, err
		}
	}
	return 0, fieldErr(s.at(keys[0]), "missing")
}

// or reads an optional number with a default.
func (s section) or(def int, keys ...string) (int, error) {
	for _, key := range keys {
		if n, ok, err := s.optional(key); ok || err != nil {
			return n, err
		}
	}
	return def, nil
}

func (s section) boolean(key string, def bool) (bool, error) {
	switch v := s.fields[key].(type) {
	case nil:
		return def, nil
	case bool:
		return v, nil
	default:
		return false, fieldErr(s.at(key), "must be true or false, got %s", show(v))
	}
}

func (s section) text(key string) (string, error) {
	switch v := s.fields[key].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", fieldErr(s.at(key), "must be text, got %s", show(v))
	}
}

// list reads an array; nil where it is absent or null.
func (s section) list(key string) ([]any, error) {
	switch v := s.fields[key].(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	default:
		return nil, fieldErr(s.at(key), "must be a list, got %s", show(v))
	}
}

// texts reads an array of strings.
func (s section) texts(key string) ([]string, error) {
	raw, err := s.list(key)
	if err != nil || raw == nil {
		return nil, err
	}
	out := make([]string, len(raw))
	for i, v := range raw {
		text, ok := v.(string)
		if !ok {
			return nil, fieldErr(fmt.Sprintf("%s[%d]", s.at(key), i), "must be text, got %s", show(v))
		}
		out[i] = text
	}
	return out, nil
}

// wholes reads an array of whole numbers from low up.
func (s section) wholes(key string, low int) ([]int, error) {
	raw, err := s.list(key)
	if err != nil || raw == nil {
		return nil, err
	}
	out := make([]int, len(raw))
	for i, v := range raw {
		if out[i], err = whole(fmt.Sprintf("%s[%d]", s.at(key), i), v, low, maxWidth); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func show(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "a list"
	case string:
		if len(v) > 40 {
			v = v[:40] + "..."
		}
		return fmt.Sprintf("%q", v)
	default:
		text := fmt.Sprint(v)
		if len(text) > 40 {
			text = text[:40] + "..."
		}
		return text
	}
}
