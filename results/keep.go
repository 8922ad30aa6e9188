package results

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"hopbench/results/unit"
)

// Keep is the part of a cell that a reading of very many files needs. The rest of each line is checked to be JSON and left out, which takes a small
// part of the time and memory of reading it.
type Keep struct{ cell kept }

// kept is a value of which everything is kept where keys is nil, else the members of those names.
type kept struct{ keys map[string]*kept }

// NewKeep keeps a cell's identity, label, status and reason, and what the JSON pointers name besides ("/bandwidth/rounds", "/cpu").
func NewKeep(pointers ...string) *Keep {
	k := &Keep{kept{map[string]*kept{}}}
	for _, key := range []string{"record", "label", "status", "reason"} {
		k.add([]string{key})
	}
	identity := reflect.TypeFor[Identity]()
	for i := range identity.NumField() {
		k.add([]string{keyOf(identity.Field(i))})
	}
	for _, p := range pointers {
		k.add(strings.Split(strings.TrimPrefix(p, "/"), "/"))
	}
	return k
}

func (k *Keep) add(path []string) {
	at := &k.cell
	for i, key := range path {
		next := at.keys[key]
		if next == nil {
			next = &kept{}
			if i+1 < len(path) {
				next.keys = map[string]*kept{}
			}
			at.keys[key] = next
		}
		at = next
	}
}

// EachFile is the package's EachFile with cells that have only what is kept. Their Extra is empty.
func (k *Keep) EachFile(paths []string, f func([]Run) error) error { return eachFile(k, paths, f) }

// decode reads a cell's line. buf is memory that it may use; what it returns is that memory, for the next.
func (k *Keep) decode(line []byte, into *plainCell, buf []byte) ([]byte, error) {
	c := cutter{in: line, out: buf[:0]}
	if !c.object(&k.cell, 0) || !c.done() {
		return c.out, decode(line, into, &into.Extra) // what is wrong with it is said there
	}
	return c.out, unit.Decoding(json.Unmarshal(c.out, into))
}

// cutter copies the part of a JSON object that is kept. It is strict: what it passes is valid JSON, and what it does not pass may be.
type cutter struct {
	in  []byte
	i   int
	out []byte
}

// deepest is how far objects and lists may stand in each other.
const deepest = 64

// space steps over white space and returns the byte behind it, 0 at the end.
func (c *cutter) space() byte {
	for c.i < len(c.in) {
		switch b := c.in[c.i]; b {
		case ' ', '\t', '\n', '\r':
			c.i++
		default:
			return b
		}
	}
	return 0
}

// done says whether nothing is left.
func (c *cutter) done() bool {
	c.space()
	return c.i == len(c.in)
}

// object copies an object's members that are kept.
func (c *cutter) object(k *kept, depth int) bool {
	if c.space() != '{' || depth > deepest {
		return false
	}
	c.i++
	c.out = append(c.out, '{')
	empty := true
	if c.space() == '}' {
		c.i++
		c.out = append(c.out, '}')
		return true
	}
	for {
		from := c.i
		if c.space() != '"' || !c.text() {
			return false
		}
		key := bytes.TrimSpace(c.in[from:c.i])
		if bytes.IndexByte(key, '\\') >= 0 || c.space() != ':' {
			return false
		}
		c.i++
		child := k.keys[string(key[1:len(key)-1])]
		if child == nil {
			if !c.value(depth + 1) {
				return false
			}
		} else {
			if !empty {
				c.out = append(c.out, ',')
			}
			empty = false
			c.out = append(append(c.out, key...), ':')
			if c.space() == '{' && child.keys != nil {
				if !c.object(child, depth+1) {
					return false
				}
			} else {
				from := c.i
				if !c.value(depth + 1) {
					return false
				}
				c.out = append(c.out, c.in[from:c.i]...)
			}
		}
		switch c.space() {
		case ',':
			c.i++
		case '}':
			c.i++
			c.out = append(c.out, '}')
			return true
		default:
			return false
		}
	}
}

// value steps over any value.
func (c *cutter) value(depth int) bool {
	if depth > deepest {
		return false
	}
	switch b := c.space(); {
	case b == '"':
		return c.text()
	case b == '{':
		c.i++
		if c.space() == '}' {
			c.i++
			return true
		}
		for {
			if c.space() != '"' || !c.text() || c.space() != ':' {
				return false
			}
			c.i++
			if !c.value(depth + 1) {
				return false
			}
			if done, ok := c.end('}'); done || !ok {
				return ok
			}
		}
	case b == '[':
		c.i++
		if c.space() == ']' {
			c.i++
			return true
		}
		for {
			if !c.value(depth + 1) {
				return false
			}
			if done, ok := c.end(']'); done || !ok {
				return ok
			}
		}
	case b == 't':
		return c.word("true")
	case b == 'f':
		return c.word("false")
	case b == 'n':
		return c.word("null")
	}
	return c.number()
}

// end steps over what stands behind a member: a comma, or the closing byte.
func (c *cutter) end(closing byte) (done, ok bool) {
	b := c.space()
	c.i++
	return b == closing, b == closing || b == ','
}

func (c *cutter) word(w string) bool {
	if !bytes.HasPrefix(c.in[c.i:], []byte(w)) {
		return false
	}
	c.i += len(w)
	return true
}

// text steps over a string, whose first quote is next.
func (c *cutter) text() bool {
	for c.i++; c.i < len(c.in); c.i++ {
		switch b := c.in[c.i]; {
		case b == '"':
			c.i++
			return true
		case b < ' ':
			return false
		case b == '\\':
			c.i++
			if c.i >= len(c.in) {
				return false
			}
			switch c.in[c.i] {
			case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			case 'u':
				for range 4 {
					if c.i++; c.i >= len(c.in) || !hexadecimal(c.in[c.i]) {
						return false
					}
				}
			default:
				return false
			}
		}
	}
	return false
}

func hexadecimal(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
}

// number steps over a number as JSON writes them.
func (c *cutter) number() bool {
	if c.peek() == '-' {
		c.i++
	}
	switch b := c.peek(); {
	case b == '0':
		c.i++
	case !c.digits():
		return false
	}
	if c.peek() == '.' {
		c.i++
		if !c.digits() {
			return false
		}
	}
	if b := c.peek(); b == 'e' || b == 'E' {
		c.i++
		if b := c.peek(); b == '+' || b == '-' {
			c.i++
		}
		return c.digits()
	}
	return true
}

func (c *cutter) peek() byte {
	if c.i < len(c.in) {
		return c.in[c.i]
	}
	return 0
}

// digits steps over one digit or more.
func (c *cutter) digits() bool {
	from := c.i
	for c.i < len(c.in) && c.in[c.i] >= '0' && c.in[c.i] <= '9' {
		c.i++
	}
	return c.i > from
}
