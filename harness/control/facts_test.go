package control

import (
	"context"
	"errors"
	"testing"

	"hopbench/harness"
	"hopbench/transports/fault"
)

func TestFactsOfThePeer(t *testing.T) {
	var facts []byte
	var failed error
	s := serve(t, Options{ToolVersion: "v7", Facts: func(context.Context) ([]byte, error) { return facts, failed }}, nil)
	c := s.client(t, DialOptions{})
	facts = []byte(`{"a":1}`)
	told, err := Facts(t.Context(), c)
	if err != nil || string(told.Facts) != `{"a":1}` || told.ToolVersion != "v7" {
		t.Errorf("%+v, %v", told, err)
	}
	facts = make([]byte, MaxFacts)
	if told, err = Facts(t.Context(), c); err != nil || len(told.Facts) != MaxFacts {
		t.Errorf("%d bytes, %v", len(told.Facts), err)
	}
	facts = make([]byte, MaxFacts+1)
	_, err = Facts(t.Context(), c)
	contains(t, code(t, err, fault.PeerRefused), "262145 bytes")
	failed = errors.New("/sys is gone")
	_, err = Facts(t.Context(), c)
	contains(t, code(t, err, fault.PeerRefused), "/sys is gone")
	facts, failed = nil, nil
	// The session goes on after each of them.
	if told, err = Facts(t.Context(), c); !errors.Is(err, ErrNoFacts) || told.ToolVersion != "v7" {
		t.Errorf("%+v, %v", told, err)
	}
}

func TestNoFactsAreToBeHad(t *testing.T) {
	s := serve(t, Options{}, nil)
	if _, err := Facts(t.Context(), s.client(t, DialOptions{})); !errors.Is(err, ErrNoFacts) {
		t.Error(err)
	}
	if _, err := Facts(t.Context(), harness.NewSide(nil, harness.Limits{})); !errors.Is(err, ErrNoFacts) {
		t.Error(err)
	}
}
