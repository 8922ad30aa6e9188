package kvcache

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func pieces(t *testing.T, l *Layout, o PieceOptions) *Pieces {
	t.Helper()
	p, err := l.Pieces(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// disjoint checks that pieces lie inside the pools and share no byte of either.
func disjoint(t *testing.T, p *Pieces) {
	t.Helper()
	var all []Piece
	for _, r := range p.Requests {
		all = append(all, r...)
	}
	for _, s := range []struct {
		name string
		pool uint64
		at   func(Piece) uint64
	}{{"local", p.LocalPoolBytes, func(x Piece) uint64 { return x.Local }}, {"remote", p.RemotePoolBytes, func(x Piece) uint64 { return x.Remote }}} {
		slices.SortFunc(all, func(a, b Piece) int { return int(int64(s.at(a)) - int64(s.at(b))) })
		end := uint64(0)
		for _, x := range all {
			if s.at(x) < end {
				t.Fatalf("%s: piece at %d overlaps one that ends at %d", s.name, s.at(x), end)
			}
			if end = s.at(x) + x.Length; end > s.pool || x.Length == 0 {
				t.Fatalf("%s: piece of %d at %d, pool of %d", s.name, x.Length, s.at(x), s.pool)
			}
		}
	}
}

func TestPiecesAreTheDescriptors(t *testing.T) {
	for _, tt := range []struct {
		model string
		o     Options
	}{
		{"llama-3.1-8b", Options{Tokens: 1000}},
		{"llama-3.1-8b", Options{Tokens: 1}},
		{"llama-3.1-8b", Options{Tokens: 1000, Placement: Fused, Order: ByBlock}},
		{"llama-3.1-8b", Options{Tokens: 1000, Placement: Packed, StagingBytes: 1 << 20}},
		{"llama-3.1-8b", Options{Tokens: 1000, Prefill: Parallel{TP: 2}, Decode: Parallel{TP: 8}}},
		{"llama-3.1-8b", Options{Tokens: 1000, Prefill: Parallel{TP: 8}, Decode: Parallel{TP: 2}}},
		{"llama-3.1-8b", Options{Tokens: 100, Prefill: Parallel{TP: 2}, Decode: Parallel{TP: 8}, TokenMajor: true}},
		{"llama-3.1-8b", Options{Tokens: 100, Prefill: Parallel{TP: 2, PP: 3}, Decode: Parallel{TP: 4, PP: 2}, Order: ByBlock}},
		{"gpt-oss-120b", Options{Tokens: 1000, Decode: Parallel{TP: 2}}},
		{"DeepSeek-V3.2", Options{Tokens: 1000, Prefill: Parallel{TP: 2}, Decode: Parallel{TP: 4}}},
		{"DeepSeek-V4-Flash", Options{Tokens: 1000}},
		{"nemotron-3-nano", Options{Tokens: 100, Prefill: Parallel{TP: 1}, Decode: Parallel{TP: 4}}},
		{"qwen3.5-397b-a17b", Options{Tokens: 100, Prefill: Parallel{TP: 4}, Decode: Parallel{TP: 1}, Placement: Fused}},
		{"Qwen3-235B-A22B", both(Parallel{TP: 8}, Options{Tokens: 100})},
	} {
		l := layout(t, tt.model, tt.o)
		for _, rank := range []Rank{l.Ranks[0], l.Ranks[len(l.Ranks)-1]} {
			p := pieces(t, l, PieceOptions{Rank: rank.Rank, Requests: 3, Seed: 7})
			disjoint(t, p)
			for _, r := range p.Requests {
				by := map[int64]int64{}
				for _, x := range r {
					by[int64(x.Length)]++
				}
				got := sortedDescriptors(by)
				if descriptorBytes(got) != rank.Bytes || int64(len(r)) != rank.Descriptors {
					t.Errorf("%s %+v rank %d: %d pieces of %d bytes, want %d of %d", tt.model, tt.o, rank.Rank, len(r), descriptorBytes(got), rank.Descriptors, rank.Bytes)
				}
				if rank.Rank == l.DescriptorsRank && !slices.Equal(got, l.Descriptors) {
					t.Errorf("%s %+v: pieces %v, descriptors %v", tt.model, tt.o, got, l.Descriptors)
				}
			}
		}
	}
}

func TestPiecesBySeed(t *testing.T) {
	l := layout(t, "llama-3.1-8b", Options{Tokens: 500})
	a := pieces(t, l, PieceOptions{Seed: 1, MergeFraction: 0.5})
	if b := pieces(t, l, PieceOptions{Seed: 1, MergeFraction: 0.5}); !reflect.DeepEqual(a, b) {
		t.Error("one seed, two tables")
	}
	if b := pieces(t, l, PieceOptions{Seed: 2, MergeFraction: 0.5}); reflect.DeepEqual(a, b) {
		t.Error("two seeds, one table")
	}
}

func TestMergedPieces(t *testing.T) {
	l := layout(t, "llama-3.1-8b", Options{Tokens: 1616}) // 101 blocks: 100 neighbours
	for fraction, want := range map[float64]int{0: 64 * 101, 0.25: 64 * 76, 0.5: 64 * 51, 1: 64} {
		p := pieces(t, l, PieceOptions{Seed: 3, MergeFraction: fraction, Requests: 2})
		disjoint(t, p)
		if fraction == 1 && l.ContiguousDescriptors != int64(want) {
			t.Errorf("at the least %d descriptors, want %d", l.ContiguousDescriptors, want)
		}
		if len(p.Requests[1]) != want {
			t.Errorf("fraction %v: %d pieces, want %d", fraction, len(p.Requests[1]), want)
		}
	}
	// A slice of heads leaves gaps: nothing merges.
	l = layout(t, "llama-3.1-8b", Options{Tokens: 160, Prefill: Parallel{TP: 1}, Decode: Parallel{TP: 2}})
	if p := pieces(t, l, PieceOptions{MergeFraction: 1}); len(p.Requests[0]) != 64*10 {
		t.Errorf("%d pieces of sliced blocks, want 640", len(p.Requests[0]))
	}
}

// With fraction 0 no two neighbouring blocks touch on both sides, however few there are.
func TestWorstCaseNeverTouches(t *testing.T) {
	for blocks := int64(2); blocks < 20; blocks++ {
		for seed := range uint64(50) {
			l := layout(t, "DeepSeek-V3", Options{Tokens: 16 * blocks})
			for _, r := range pieces(t, l, PieceOptions{Seed: seed, Requests: 2, SpareBlocks: 1}).Requests {
				for i := 1; i < int(blocks); i++ { // the first layer's blocks, in the prompt's order
					a, b := r[i-1], r[i]
					if a.Local+a.Length == b.Local && a.Remote+a.Length == b.Remote {
						t.Fatalf("%d blocks, seed %d: blocks %d and %d touch", blocks, seed, i-1, i)
					}
				}
			}
		}
	}
}

func TestPiecesRefuse(t *testing.T) {
	l := layout(t, "llama-3.1-8b", Options{Tokens: 1000, Decode: Parallel{TP: 2}})
	for _, tt := range []struct {
		o    PieceOptions
		want string
	}{
		{PieceOptions{Rank: 2}, "no decode rank 2"},
		{PieceOptions{Requests: -1}, "at least 1"},
		{PieceOptions{MergeFraction: 1.5}, "merge fraction"},
		{PieceOptions{Requests: 1 << 30}, "are more than"},
	} {
		if _, err := l.Pieces(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one with %q", tt.o, err, tt.want)
		}
	}
	if _, err := layout(t, "llama-3.1-8b", Options{Tokens: 1_000_000_000}).Pieces(PieceOptions{}); err == nil {
		t.Error("a billion tokens in pieces")
	}
}
