package cli

import (
	"io"
	"os"
	"path/filepath"
	"strconv"

	"hopbench/bench/kvcache"
)

// engineLayout is what a file of command lines says of both sides.
type engineLayout struct {
	model           string
	prefill, decode kvcache.Parallel
	block           int
	dtype           string
	placement       kvcache.Placement
	order           kvcache.Order
	notes           []string
}

func readEngineArgs(path string) (engineLayout, error) {
	var out engineLayout
	f, err := os.Open(path)
	if err != nil {
		return out, usagef("--engine-args: %v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 2<<20))
	if err != nil {
		return out, usagef("--engine-args: %v", err)
	}
	sides, err := kvcache.ParseEngineArgs(text, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) {
			name = filepath.Join(filepath.Dir(path), name)
		}
		return os.ReadFile(name)
	})
	if err != nil {
		return out, usagef("--engine-args: %s: %v", path, err)
	}
	byRole := map[string]*kvcache.EngineArgs{}
	for i := range sides {
		if byRole[sides[i].Role] != nil {
			what := "no role"
			if sides[i].Role != "" {
				what = "role " + sides[i].Role
			}
			return out, usagef("--engine-args: %s: two commands of %s; put prefill: or decode: before each", path, what)
		}
		byRole[sides[i].Role] = &sides[i]
	}
	prefill, decode := byRole["prefill"], byRole["decode"]
	if prefill == nil {
		prefill = byRole[""]
	}
	if decode == nil {
		decode = byRole[""]
	}
	switch {
	case prefill == nil && decode == nil:
		return out, usagef("--engine-args: %s: no command", path)
	case prefill == nil:
		prefill = decode
		out.notes = append(out.notes, "engine args name the decode side alone: prefill is taken to be laid out like it")
	case decode == nil:
		decode = prefill
		out.notes = append(out.notes, "engine args name the prefill side alone: decode is taken to be laid out like it")
	}
	for _, c := range []struct{ what, a, b string }{
		{"block size", strconv.Itoa(prefill.BlockTokens), strconv.Itoa(decode.BlockTokens)},
		{"KV dtype", prefill.KVDType, decode.KVDType}, {"model", prefill.Model, decode.Model},
	} {
		if c.a != c.b && (c.what != "model" || c.a != "" && c.b != "") {
			return out, usagef("--engine-args: %s: %s differs, %q for prefill and %q for decode: the transfer needs one", path, c.what, c.a, c.b)
		}
	}
	out.prefill, out.decode = prefill.Parallel, decode.Parallel
	out.block, out.dtype, out.placement, out.order = decode.BlockTokens, decode.KVDType, decode.Placement, decode.Order
	if out.model = decode.Model; out.model == "" {
		out.model = prefill.Model
	}
	seen := map[string]bool{}
	for _, s := range []*kvcache.EngineArgs{prefill, decode} {
		for _, n := range s.Notes {
			if !seen[n] {
				seen[n] = true
				out.notes = append(out.notes, n)
			}
		}
	}
	return out, nil
}
