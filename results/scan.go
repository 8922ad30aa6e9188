package results

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// shape is what a type has fields for: the fields of a struct, the element of a slice of structs. A nil
// shape is a leaf, of which nothing is unknown.
type shape struct {
	fields map[string]*shape
	elem   *shape
}

// shapes holds the shape of each record.
var shapes = map[reflect.Type]*shape{
	reflect.TypeFor[plainHeader]():   shapeOf(reflect.TypeFor[plainHeader]()),
	reflect.TypeFor[plainCell]():     shapeOf(reflect.TypeFor[plainCell]()),
	reflect.TypeFor[plainInterval](): shapeOf(reflect.TypeFor[plainInterval]()),
	reflect.TypeFor[plainFooter]():   shapeOf(reflect.TypeFor[plainFooter]()),
}

func shapeOf(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t.Kind() == reflect.Slice:
		if elem := shapeOf(t.Elem()); elem != nil {
			return &shape{elem: elem}
		}
	case t.Kind() == reflect.Struct && t.PkgPath() == reflect.TypeFor[Cell]().PkgPath():
		s := &shape{fields: map[string]*shape{}}
		for i := range t.NumField() {
			if name := keyOf(t.Field(i)); name != "" {
				s.fields[name] = shapeOf(t.Field(i).Type)
			}
		}
		return s
	}
	return nil
}

// keyOf is the JSON key of a field, empty where it has none.
func keyOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if name == "-" {
		return ""
	}
	return name
}

// scanner walks JSON that is known to be valid, in one pass, beside a shape, and notes each key that the shape
// has no field for.
type scanner struct {
	b     []byte
	i     int
	found Extra
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\n' || s.b[s.i] == '\r') {
		s.i++
	}
}

// next steps over spaces and the byte behind them.
func (s *scanner) next() byte {
	s.space()
	if s.i >= len(s.b) {
		return 0
	}
	s.i++
	return s.b[s.i-1]
}

// text steps over a string and returns it with its quotes.
func (s *scanner) text() []byte {
	s.space()
	from := s.i
	for s.i++; s.i < len(s.b) && s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			s.i++
		}
	}
	s.i = min(s.i+1, len(s.b))
	return s.b[from:s.i]
}

// skip steps over a value and returns it.
func (s *scanner) skip() []byte {
	s.space()
	from, depth := s.i, 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			s.text()
			if depth == 0 {
				return s.b[from:s.i]
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return bytes.TrimRight(s.b[from:s.i], " \t\r\n") // the end of what a bare value stands in
			}
			if depth--; depth == 0 {
				s.i++
				return s.b[from:s.i]
			}
		case ',':
			if depth == 0 {
				return bytes.TrimRight(s.b[from:s.i], " \t\r\n")
			}
		}
		s.i++
	}
	return s.b[from:s.i]
}

func (s *scanner) value(t *shape, at string) {
	s.space()
	if t == nil || s.i >= len(s.b) {
		s.skip()
		return
	}
	switch {
	case s.b[s.i] == '{' && t.fields != nil:
		s.i++
		for s.peek() == '"' {
			quoted := s.text()
			s.next() // the colon
			key := unquote(quoted)
			if child, known := t.fields[string(key)]; !known {
				s.found[at+"/"+pointerEscape.Replace(string(key))] = bytes.Clone(s.skip())
			} else if child == nil {
				s.skip()
			} else {
				s.value(child, at+"/"+pointerEscape.Replace(string(key)))
			}
			if s.next() != ',' {
				return
			}
		}
		s.next()
	case s.b[s.i] == '[' && t.elem != nil:
		s.i++
		for n := 0; s.peek() != ']' && s.i < len(s.b); n++ {
			s.value(t.elem, at+"/"+strconv.Itoa(n))
			if s.next() != ',' {
				return
			}
		}
		s.next()
	default:
		s.skip()
	}
}

func (s *scanner) peek() byte {
	s.space()
	if s.i >= len(s.b) {
		return 0
	}
	return s.b[s.i]
}

func unquote(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && len(quoted) >= 2 {
		return quoted[1 : len(quoted)-1]
	}
	var t string
	if json.Unmarshal(quoted, &t) != nil {
		return quoted
	}
	return []byte(t)
}

// kindOf is the value of a record's "record" key, empty where there is none. The line is valid JSON.
func kindOf(line []byte) string {
	s := scanner{b: line}
	if s.next() != '{' {
		return ""
	}
	kind := ""
	for s.peek() == '"' {
		key := string(unquote(s.text()))
		s.next()
		v := s.skip()
		if key == "record" && len(v) > 0 && v[0] == '"' {
			kind = string(unquote(v))
			return kind
		}
		if s.next() != ',' {
			break
		}
	}
	return kind
}
