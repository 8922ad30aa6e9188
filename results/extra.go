package results

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"hopbench/results/unit"
)

// Extra keeps what a record carried under keys that this version does not know, at
// any depth: from the JSON Pointer (RFC 6901) of the key to its value.
type Extra map[string]json.RawMessage

// The alias types drop the methods, so that encoding/json does not recurse.
type (
	plainHeader   Header
	plainCell     Cell
	plainInterval Interval
	plainFooter   Footer
)

// MarshalJSON writes the record with its "record" key and its Extra.
func (h Header) MarshalJSON() ([]byte, error) {
	if h.Hosts == nil {
		h.Hosts = []Host{}
	}
	return encode(struct {
		Record string `json:"record"`
		plainHeader
	}{"header", plainHeader(h)}, h.Extra)
}

// MarshalJSON writes the record with its "record" key and its Extra.
func (c Cell) MarshalJSON() ([]byte, error) {
	if c.Bandwidth != nil && c.Bandwidth.Rounds == nil {
		b := *c.Bandwidth
		b.Rounds, c.Bandwidth = []float64{}, &b
	}
	if c.Latency != nil && c.Latency.RoundsP50Seconds == nil {
		l := *c.Latency
		l.RoundsP50Seconds, c.Latency = []float64{}, &l
	}
	return encode(struct {
		Record string `json:"record"`
		plainCell
	}{"cell", plainCell(c)}, c.Extra)
}

// MarshalJSON writes the record with its "record" key and its Extra.
func (v Interval) MarshalJSON() ([]byte, error) {
	return encode(struct {
		Record string `json:"record"`
		plainInterval
	}{"interval", plainInterval(v)}, v.Extra)
}

// MarshalJSON writes the record with its "record" key and its Extra.
func (f Footer) MarshalJSON() ([]byte, error) {
	return encode(struct {
		Record string `json:"record"`
		plainFooter
	}{"footer", plainFooter(f)}, f.Extra)
}

// UnmarshalJSON reads the record, and keeps unknown keys in Extra.
func (h *Header) UnmarshalJSON(b []byte) error {
	var p plainHeader
	err := decode(b, &p, &p.Extra)
	*h = Header(p)
	return err
}

// UnmarshalJSON reads the record, and keeps unknown keys in Extra.
func (c *Cell) UnmarshalJSON(b []byte) error {
	var p plainCell
	err := decode(b, &p, &p.Extra)
	*c = Cell(p)
	return err
}

// UnmarshalJSON reads the record, and keeps unknown keys in Extra.
func (v *Interval) UnmarshalJSON(b []byte) error {
	var p plainInterval
	err := decode(b, &p, &p.Extra)
	*v = Interval(p)
	return err
}

// UnmarshalJSON reads the record, and keeps unknown keys in Extra.
func (f *Footer) UnmarshalJSON(b []byte) error {
	var p plainFooter
	err := decode(b, &p, &p.Extra)
	*f = Footer(p)
	return err
}

// decode reads a record into one of the plain types, and what it has no field for into extra.
func decode(b []byte, into any, extra *Extra) error {
	if err := json.Unmarshal(b, into); err != nil {
		return unit.Decoding(err)
	}
	found := Extra{}
	s := scanner{b: b, found: found}
	s.value(shapes[reflect.TypeOf(into).Elem()], "")
	delete(found, "/record")
	if len(found) > 0 {
		*extra = found
	}
	return nil
}

var pointerEscape, pointerUnescape = strings.NewReplacer("~", "~0", "/", "~1"), strings.NewReplacer("~1", "/", "~0", "~")

// encode writes the record; where there is an extra it is put back at its place. An extra whose
// parent is gone (a pointer cleared since) is left out.
func encode(record any, extra Extra) ([]byte, error) {
	b, err := json.Marshal(record)
	if err != nil || len(extra) == 0 {
		return b, err
	}
	keys := make([]string, 0, len(extra))
	for k := range extra {
		keys = append(keys, k)
	}
	sort.Strings(keys) // the same bytes each time
	for _, k := range keys {
		if !strings.HasPrefix(k, "/") {
			return nil, fmt.Errorf("extra key %q is not a JSON pointer", k)
		}
		if b, err = insert(b, strings.Split(k[1:], "/"), extra[k]); err != nil {
			return nil, fmt.Errorf("extra key %q: %w", k, err)
		}
	}
	return b, nil
}

// insert puts value at the pointer in the JSON text b, keeping the order of the keys that are there.
func insert(b []byte, pointer []string, value json.RawMessage) ([]byte, error) {
	if len(b) == 0 {
		return b, nil
	}
	key := pointerUnescape.Replace(pointer[0])
	switch b[0] {
	case '{':
		members, err := members(b)
		if err != nil {
			return nil, err
		}
		at := -1
		for i, m := range members {
			if m.key == key {
				at = i
			}
		}
		switch {
		case len(pointer) == 1 && at < 0:
			if !json.Valid(value) {
				return nil, fmt.Errorf("not valid JSON")
			}
			members = append(members, member{key, value})
		case len(pointer) == 1, at < 0:
			return b, nil // a field of ours wins; a parent that is gone takes its extras along
		default:
			if members[at].value, err = insert(members[at].value, pointer[1:], value); err != nil {
				return nil, err
			}
		}
		return object(members)
	case '[':
		var list []json.RawMessage
		if err := json.Unmarshal(b, &list); err != nil {
			return nil, err
		}
		i, err := strconv.Atoi(key)
		if err != nil || i < 0 || i >= len(list) || len(pointer) == 1 {
			return b, nil
		}
		if list[i], err = insert(list[i], pointer[1:], value); err != nil {
			return nil, err
		}
		return json.Marshal(list)
	}
	return b, nil
}

type member struct {
	key   string
	value json.RawMessage
}

// members lists an object's members in their order.
func members(b []byte) ([]member, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var list []member
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, err
		}
		list = append(list, member{key, v})
	}
	return list, nil
}

func object(list []member) ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			out.WriteByte(',')
		}
		k, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		out.Write(k)
		out.WriteByte(':')
		if err := json.Compact(&out, m.value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}
