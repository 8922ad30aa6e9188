package control

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
)

// Member is what a rank of a mesh says of itself when it joins.
type Member struct {
	Number int `json:"number"` // its rank
	Size   int `json:"size"`   // how many ranks it was told that there are
	// Host is its host's name, and HostID tells hosts apart: ranks with the same one share a host, its processors and its network
	// devices.
	Host   string `json:"host"`
	HostID string `json:"host_id"`
	// Bind is the local address of its data connections; zero: the choice of the first rank, which is Local where that leads anywhere.
	Bind netip.Addr `json:"bind,omitzero"`
	// Local is the address by which it reached the first rank. Join fills it in.
	Local netip.Addr `json:"local,omitzero"`
	// Announce is the data address that others shall use; empty: Bind.
	Announce string `json:"announce,omitempty"`
	// Device is the device of its data by the kind of device ("netdev", "rdma"), where one was chosen.
	Device map[string]string `json:"device,omitempty"`
	Memory string            `json:"memory,omitempty"` // where its data lies, "cuda:1"; empty: as the plan says
	Chosen string            `json:"chosen,omitempty"` // how device and memory were chosen, in words
	// Rails are the devices of a mesh that is measured rail by rail: those at one place of all members' lists are one rail.
	Rails []Rail `json:"rails,omitempty"`
	// Asked are the flags of its command line that say what is measured. The first rank's count; who was given others is told.
	Asked []string `json:"asked,omitempty"`
}

// Rail is a device of a rank, and the memory that its data lies in where that is another one for each rail.
type Rail struct {
	Device string `json:"device"`
	Memory string `json:"memory,omitempty"`
}

// MaxRanks is the largest mesh: beyond, a matrix of pairs is no longer something that one process coordinates.
const MaxRanks = 1 << 14

// What a member introduces itself with, before the greeting of its version of the protocol, so that ranks of two versions can name
// each other: a length in two bytes, and so much JSON. Fields may be added; those that a version does not know are skipped.
const (
	maxIntroduction = 8 << 10
	maxDevices      = 16
	maxRails        = 32
	maxAsked        = 64
)

// String names a member in messages.
func (m Member) String() string { return fmt.Sprintf("rank %d on %s", m.Number, m.Host) }

// introduction is a member on the wire.
func (m Member) introduction() ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(b) > maxIntroduction {
		return nil, fmt.Errorf("what this rank says of itself takes %d bytes; %d are possible", len(b), maxIntroduction)
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(len(b))), b...), nil
}

// readIntroduction reads a member, and returns with it the bytes that it was read from.
func readIntroduction(r io.Reader) (m Member, said []byte, err error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return Member{}, nil, err
	}
	n := int(binary.BigEndian.Uint16(head[:]))
	if n > maxIntroduction {
		return Member{}, nil, fmt.Errorf("%w: an introduction of %d bytes", errStranger, n)
	}
	said = append(make([]byte, 0, 2+n), head[:]...)
	said = said[:2+n]
	if _, err := io.ReadFull(r, said[2:]); err != nil {
		return Member{}, nil, err
	}
	if err := json.Unmarshal(said[2:], &m); err != nil {
		return Member{}, nil, fmt.Errorf("%w: its introduction is no introduction", errStranger)
	}
	if m, err = m.checked(); err != nil {
		return Member{}, nil, fmt.Errorf("%w: it introduces itself with %w", errStranger, err)
	}
	return m, said, nil
}

// checked is a member from the wire with every text fit for a terminal, or why it is none.
func (m Member) checked() (Member, error) {
	switch {
	case m.Number < 0 || m.Number >= MaxRanks:
		return m, fmt.Errorf("the number %d", m.Number)
	case m.Size < 0 || m.Size > MaxRanks:
		return m, fmt.Errorf("%d ranks", m.Size)
	case len(m.Device) > maxDevices:
		return m, fmt.Errorf("%d devices", len(m.Device))
	case len(m.Rails) > maxRails:
		return m, fmt.Errorf("%d rails", len(m.Rails))
	case len(m.Asked) > maxAsked:
		return m, fmt.Errorf("%d flags", len(m.Asked))
	case m.Host == "":
		return m, errors.New("no host")
	}
	m.Bind, m.Local = m.Bind.Unmap(), m.Local.Unmap()
	m.Host, m.HostID, m.Announce = clean(m.Host, maxName), clean(m.HostID, maxName), clean(m.Announce, maxName)
	m.Memory, m.Chosen = clean(m.Memory, maxName), clean(m.Chosen, maxVerdict)
	m.Rails = slices.Clone(m.Rails)
	for i, r := range m.Rails {
		m.Rails[i] = Rail{clean(r.Device, maxName), clean(r.Memory, maxName)}
	}
	if m.Asked = slices.Clone(m.Asked); len(m.Asked) == 0 {
		m.Asked = nil
	}
	for i, flag := range m.Asked {
		m.Asked[i] = clean(flag, maxName)
	}
	devices := map[string]string{}
	for kind, d := range m.Device {
		devices[clean(kind, maxName)] = clean(d, maxName)
	}
	if m.Device = devices; len(devices) == 0 {
		m.Device = nil
	}
	return m, nil
}

// introduce takes what the other end says of itself: failures before its proof name what it claims to be, those after it what it is.
func (c *clientCredentials) introduce(m Member) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.member = m
	c.addr = fmt.Sprintf("%s, which claims to be %v", c.addr, m)
}

// introduced is what the other end said of itself; Host is empty where it said nothing.
func (c *clientCredentials) introduced() Member {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.member
}
