package cli

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"hopbench/bench/kvcache"
	"hopbench/harness"
)

// kvRequests turns --kv and --isl into the plan's requests: one rank's descriptors for each prompt length, and the same bytes in bulk.
func (f *runFlags) kvRequests(p *harness.Plan) error {
	if f.isl == "" {
		return usagef("--kv needs --isl, the prompt lengths in tokens")
	}
	model, err := kvcache.Load(f.kv, kvcache.LoadOptions{})
	if err != nil {
		return usagef("--kv: %v", err)
	}
	for _, text := range strings.Split(f.isl, ",") {
		tokens, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64)
		if err != nil || tokens < 1 || tokens > 1e9 {
			return usagef("--isl: %q: want tokens from 1 to 10^9", text)
		}
		groups, err := f.kvGroups(model, tokens)
		if err != nil {
			return usagef("--kv: %v", err)
		}
		p.Requests = append(p.Requests, harness.Request{Name: fmt.Sprintf("%s, %d tokens", model.Name, tokens), Groups: groups, Bulk: true})
	}
	return nil
}

// kvGroups is the pieces of the rank that receives most, merged where neighbouring blocks touch.
func (f *runFlags) kvGroups(m *kvcache.Model, tokens int64) ([]harness.Group, error) {
	tp := kvcache.Parallel{TP: f.kvTP}
	layout, err := m.Layout(kvcache.Options{Tokens: tokens, BlockTokens: f.kvBlock, Prefill: tp, Decode: tp, KVDType: f.kvDType})
	if err != nil {
		return nil, err
	}
	counts := map[uint64]int{}
	if f.kvMerge > 0 {
		pieces, err := layout.Pieces(kvcache.PieceOptions{Rank: layout.DescriptorsRank, Seed: f.seed, MergeFraction: f.kvMerge})
		if err != nil {
			return nil, err
		}
		for _, p := range pieces.Requests[0] {
			counts[p.Length]++
		}
	} else {
		for _, d := range layout.Descriptors {
			counts[uint64(d.SizeBytes)] += int(d.Count)
		}
	}
	var groups []harness.Group
	for _, bytes := range slices.Sorted(maps.Keys(counts)) {
		groups = append(groups, harness.Group{Bytes: bytes, Count: counts[bytes]})
	}
	return groups, nil
}
