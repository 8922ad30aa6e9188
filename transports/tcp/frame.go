package tcp

import (
	"encoding/binary"
	"fmt"

	"hopbench/transports"
)

// A frame is a header of 32 bytes, little-endian:
//
//	 0  uint16  magic
//	 2  uint8   kind
//	 3  uint8   flags
//	 4  uint32  pieces
//	 8  uint64  payload bytes that follow (asked for, in a read request)
//	16  uint64  operation number, from 0 in each loop; in an acknowledgement the number of operations that have landed
//	24  uint64  offset of the only piece, else 0
//
// With more than one piece, as many descriptors of 16 bytes (offset, length) follow, then the payload of all of them.
// An operation of more than maxPieces pieces is several frames; only the last one has flagLast.
const (
	magic      = 0x6b68 // "hk"
	headerLen  = 32
	descLen    = 16
	maxPieces  = 480 // of one frame: payload and descriptors fit one vector of system-call pieces (IOV_MAX is 1024)
	maxPayload = 1 << 40
)

type kind uint8

const (
	kindWrite kind = 1 + iota // payload for the target's offsets
	kindSend                  // payload for the target's next posted receive
	kindRead                  // asks for the bytes at the target's offsets
	kindData                  // the payload of a read, or of an answer to a ping-pong
	kindAck                   // so many operations have landed
	kindEnd                   // the initiator's loop has ended
)

const (
	flagLast   = 1 << 0 // the operation ends with this frame
	flagNotify = 1 << 1 // the operation ends with a notification: the target's program replies
)

type header struct {
	kind   kind
	flags  uint8
	pieces uint32
	bytes  uint64
	seq    uint64
	offset uint64
}

func (h header) put(b []byte) {
	_ = b[headerLen-1]
	binary.LittleEndian.PutUint16(b[0:], magic)
	b[2], b[3] = byte(h.kind), h.flags
	binary.LittleEndian.PutUint32(b[4:], h.pieces)
	binary.LittleEndian.PutUint64(b[8:], h.bytes)
	binary.LittleEndian.PutUint64(b[16:], h.seq)
	binary.LittleEndian.PutUint64(b[24:], h.offset)
}

// parseHeader reads a header and refuses what no peer of this version sends.
func parseHeader(b []byte) (header, error) {
	_ = b[headerLen-1]
	h := header{
		kind: kind(b[2]), flags: b[3],
		pieces: binary.LittleEndian.Uint32(b[4:]),
		bytes:  binary.LittleEndian.Uint64(b[8:]),
		seq:    binary.LittleEndian.Uint64(b[16:]),
		offset: binary.LittleEndian.Uint64(b[24:]),
	}
	// Frames of one piece are by far the most, and small ones wait for nothing but this.
	if binary.LittleEndian.Uint16(b) == magic && h.kind >= kindWrite && h.kind <= kindData && h.flags <= flagLast|flagNotify &&
		h.pieces == 1 && h.bytes-1 < maxPayload {
		return h, nil
	}
	return h, h.check(binary.LittleEndian.Uint16(b))
}

// check is parseHeader's refusal, or nil.
func (h header) check(begins uint16) error {
	switch {
	case begins != magic:
		return fmt.Errorf("a frame begins with %#04x instead of %#04x", begins, magic)
	case h.kind < kindWrite || h.kind > kindEnd:
		return fmt.Errorf("there is no frame of kind %d", h.kind)
	case h.flags&^(flagLast|flagNotify) != 0:
		return fmt.Errorf("a frame has flags %#x", h.flags)
	case h.kind == kindAck || h.kind == kindEnd:
		if h.pieces != 0 || h.bytes != 0 {
			return fmt.Errorf("an acknowledgement or end with %d pieces and %d bytes", h.pieces, h.bytes)
		}
	case h.pieces < 1 || h.pieces > maxPieces:
		return fmt.Errorf("a frame of %d pieces; 1 to %d are possible", h.pieces, maxPieces)
	case h.bytes < 1 || h.bytes > maxPayload:
		return fmt.Errorf("a frame of %d bytes; 1 to %d are possible", h.bytes, uint64(maxPayload))
	case h.bytes < uint64(h.pieces):
		return fmt.Errorf("a frame of %d pieces and %d bytes", h.pieces, h.bytes)
	}
	return nil
}

// span is a checked piece of a region.
type span struct{ off, len uint64 }

// parseSpans reads the pieces of a frame into dst and checks each against a region of size bytes. desc holds the
// descriptors of a frame with several pieces.
func parseSpans(h header, desc []byte, size uint64, dst []span) ([]span, error) {
	dst = dst[:0]
	if h.pieces == 1 {
		if h.offset > size || h.bytes > size-h.offset {
			return dst, fmt.Errorf("bytes %d + %d lie outside the region of %d", h.offset, h.bytes, size)
		}
		return append(dst, span{h.offset, h.bytes}), nil
	}
	total := uint64(0)
	for i := range int(h.pieces) {
		p := span{binary.LittleEndian.Uint64(desc[i*descLen:]), binary.LittleEndian.Uint64(desc[i*descLen+8:])}
		if p.len == 0 || p.off > size || p.len > size-p.off {
			return dst, fmt.Errorf("piece %d: bytes %d + %d lie outside the region of %d, or are none", i, p.off, p.len, size)
		}
		total += p.len // at most maxPieces * size: both are far from overflow
		dst = append(dst, p)
	}
	if total != h.bytes {
		return dst, fmt.Errorf("the pieces of a frame hold %d bytes, its header says %d", total, h.bytes)
	}
	return dst, nil
}

// putFrame writes the header and descriptors of a frame over pieces and returns their length and the frame's payload.
func putFrame(b []byte, k kind, flags uint8, seq uint64, pieces []transports.Piece) (n int, payload uint64) {
	h := header{kind: k, flags: flags, pieces: uint32(len(pieces)), seq: seq}
	n = headerLen
	if len(pieces) == 1 {
		h.offset, h.bytes = pieces[0].Remote, pieces[0].Length
	} else {
		for _, p := range pieces {
			binary.LittleEndian.PutUint64(b[n:], p.Remote)
			binary.LittleEndian.PutUint64(b[n+8:], p.Length)
			h.bytes += p.Length
			n += descLen
		}
	}
	h.put(b)
	return n, h.bytes
}
