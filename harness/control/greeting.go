package control

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Version is the version of the control protocol. Two sides of different versions refuse each other by name.
const Version = 1

// The greeting, which every version begins with: magic, version, and the tool's version with its length in a byte.
//
//	client -> server   greeting
//	server -> client   greeting
//	client -> server   proof: tag, longest loop in seconds, name with its length in a byte
//	server -> client   verdict: one byte; unless the token was wrong, tag and a text with its length in two bytes
const (
	magic      = "HOPBENCH"
	maxTool    = 64
	maxName    = 128
	maxVerdict = 512
	tagLen     = sha256.Size
)

// Verdicts of the server.
const (
	admitted   = 'a'
	wrongToken = 't'
	busy       = 'b' // the text says by whom and since when
	overCap    = 'c' // the text says which cap
)

// errStranger is what does not greet like a hopbench.
var errStranger = errors.New("not a hopbench greeting")

type greeting struct {
	version uint16
	tool    string
}

func (g greeting) String() string {
	return fmt.Sprintf("protocol %d (hopbench %s)", g.version, g.tool)
}

func (g greeting) bytes() []byte {
	tool := clean(g.tool, maxTool)
	b := append([]byte(magic), 0, 0, byte(len(tool)))
	binary.BigEndian.PutUint16(b[len(magic):], g.version)
	return append(b, tool...)
}

// readGreeting reads the other side's greeting: at most 11 + maxTool bytes.
func readGreeting(r io.Reader) (greeting, error) {
	var head [len(magic) + 3]byte
	if n, err := io.ReadFull(r, head[:len(magic)]); err != nil {
		if n > 0 && !strings.HasPrefix(magic, string(head[:n])) {
			return greeting{}, fmt.Errorf("%w: it begins with %q", errStranger, head[:n])
		}
		return greeting{}, err
	}
	if string(head[:len(magic)]) != magic {
		return greeting{}, fmt.Errorf("%w: it begins with %q", errStranger, head[:len(magic)])
	}
	if _, err := io.ReadFull(r, head[len(magic):]); err != nil {
		return greeting{}, err
	}
	g := greeting{version: binary.BigEndian.Uint16(head[len(magic):])}
	n := int(head[len(magic)+2])
	if n > maxTool {
		return greeting{}, fmt.Errorf("%w: a tool's version of %d bytes", errStranger, n)
	}
	tool := make([]byte, n)
	if _, err := io.ReadFull(r, tool); err != nil {
		return greeting{}, err
	}
	g.tool = clean(string(tool), maxTool)
	return g, nil
}

// binding is what both proofs are bound to: this TLS session and both greetings.
type binding struct {
	export         []byte
	client, server []byte
}

// tag is the proof of a role that it holds the token, over what it says.
func (b binding) tag(t Token, role string, said []byte) []byte {
	m := hmac.New(sha256.New, t.key)
	for _, part := range [][]byte{[]byte(role), b.export, b.client, b.server, said} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(part)))
		m.Write(n[:])
		m.Write(part)
	}
	return m.Sum(nil)
}

const (
	clientRole = "hopbench control: client"
	serverRole = "hopbench control: server"
)

// proof is what a client says of itself.
type proof struct {
	tag  []byte
	loop time.Duration // the longest time for which it will be silent; whole seconds
	name string
}

func (p proof) said() []byte {
	name := clean(p.name, maxName)
	b := binary.BigEndian.AppendUint32(nil, uint32(p.loop/time.Second))
	return append(append(b, byte(len(name))), name...)
}

func readProof(r io.Reader) (p proof, said []byte, err error) {
	head := make([]byte, tagLen+5)
	if _, err := io.ReadFull(r, head); err != nil {
		return proof{}, nil, err
	}
	n := int(head[tagLen+4])
	if n > maxName {
		return proof{}, nil, fmt.Errorf("%w: a name of %d bytes", errStranger, n)
	}
	name := make([]byte, n)
	if _, err := io.ReadFull(r, name); err != nil {
		return proof{}, nil, err
	}
	p = proof{tag: head[:tagLen], loop: time.Duration(binary.BigEndian.Uint32(head[tagLen:])) * time.Second, name: clean(string(name), maxName)}
	return p, append(head[tagLen:tagLen+5:tagLen+5], name...), nil
}

// verdict is the server's answer.
type verdict struct {
	kind byte
	tag  []byte
	text string
}

func (v verdict) said() []byte { return append([]byte{v.kind}, clean(v.text, maxVerdict)...) }

func (v verdict) bytes() []byte {
	if v.kind == wrongToken {
		return []byte{wrongToken}
	}
	text := clean(v.text, maxVerdict)
	b := append([]byte{v.kind}, v.tag...)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
}

func readVerdict(r io.Reader) (verdict, error) {
	var kind [1]byte
	if _, err := io.ReadFull(r, kind[:]); err != nil {
		return verdict{}, err
	}
	switch kind[0] {
	case wrongToken:
		return verdict{kind: wrongToken}, nil
	case admitted, busy, overCap:
	default:
		return verdict{}, fmt.Errorf("%w: a verdict %q", errStranger, kind[0])
	}
	head := make([]byte, tagLen+2)
	if _, err := io.ReadFull(r, head); err != nil {
		return verdict{}, err
	}
	n := int(binary.BigEndian.Uint16(head[tagLen:]))
	if n > maxVerdict {
		return verdict{}, fmt.Errorf("%w: a text of %d bytes", errStranger, n)
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return verdict{}, err
	}
	return verdict{kind: kind[0], tag: head[:tagLen], text: string(text)}, nil
}
