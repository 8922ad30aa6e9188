package kvcache

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Placement says how an engine lays out the K and V of a block, and so how many descriptors a transfer takes.
type Placement string

const (
	// Split registers K and V of each layer apart: two descriptors a block and layer (vLLM's NixlConnector).
	Split Placement = "split"
	// Fused keeps K and V of a block together: one descriptor a block and layer.
	Fused Placement = "fused"
	// Packed gathers everything into a contiguous staging buffer first (TensorRT-LLM's cache transceiver).
	Packed Placement = "packed"
)

// Order says whether a block lies apart in each layer's tensor, or with all its layers together.
type Order string

const (
	// ByLayer has one tensor a layer: descriptors are a block of one layer.
	ByLayer Order = "layer"
	// ByBlock has all layers of a block contiguous: descriptors are a block of all layers of the rank.
	ByBlock Order = "block"
)

// Parallel is how one side (prefill or decode) spreads a model over GPUs. Zero values mean 1.
type Parallel struct {
	TP int // tensor-parallel ranks
	PP int // pipeline stages
	DP int // data-parallel replicas; one request uses one of them
	// AttentionDP: the replicas are taken out of the TP ranks, so that attention runs with TP/DP ranks
	// (DP = TP when DP is 0). Else each replica has TP x PP ranks of its own.
	AttentionDP bool
	Rails       int   // NICs a worker; 0: one a rank
	NICs        []int // NIC of each rank of the worker; nil: ranks share the rails in order, evenly
}

// Options is one question put to a model. The zero value of a field is its default.
type Options struct {
	Tokens       int64     // prompt tokens; at least 1
	BlockTokens  int       // tokens a block (page), 1 to 1024; 0: 16
	Prefill      Parallel  // the source
	Decode       Parallel  // the target
	KVDType      string    // "" or "auto": by the model's config
	StateDType   string    // "" or "auto": by the model's config
	Placement    Placement // "": Split
	Order        Order     // "": ByLayer
	TokenMajor   bool      // tokens before heads inside a block (NHD): a slice of heads is one piece a token
	StagingBytes int64     // size of the staging buffer for Packed; 0: 512 MiB
	WholeWindow  bool      // window layers send every block of the prompt, not the window's alone
	Draft        bool      // count the draft (multi-token-prediction) layers too
}

// Descriptor is a number of pieces of one size.
type Descriptor struct {
	SizeBytes int64 `json:"size_bytes"`
	Count     int64 `json:"count"`
}

// Flow is what one source rank sends to one target rank for a request.
type Flow struct {
	SourceRank  int          `json:"source_rank"`
	SourceNIC   int          `json:"source_nic"`
	TargetRank  int          `json:"target_rank"`
	TargetNIC   int          `json:"target_nic"`
	Bytes       int64        `json:"bytes"`
	Descriptors []Descriptor `json:"descriptors"`
}

// Rank is what one decode rank receives, or one prefill rank sends, for a request.
type Rank struct {
	Rank        int   `json:"rank"`
	NIC         int   `json:"nic"`
	Bytes       int64 `json:"bytes"`
	Descriptors int64 `json:"descriptors"`
	Peers       []int `json:"peers"` // ranks of the other side that it exchanges with
}

// NIC is the load that a request puts on one NIC of one side.
type NIC struct {
	Side        string `json:"side"` // prefill or decode
	NIC         int    `json:"nic"`
	Bytes       int64  `json:"bytes"`
	Descriptors int64  `json:"descriptors"`
	Ranks       []int  `json:"ranks"`
}

// Layout is the answer: what one request holds and what crosses the wire. Sizes are bytes.
type Layout struct {
	Model           string       `json:"model"`
	Architecture    string       `json:"architecture"`
	Tokens          int64        `json:"isl_tokens"`
	BlockTokens     int          `json:"block_tokens"`
	KVDType         string       `json:"kv_dtype"`
	KVBytesPerToken int64        `json:"kv_bytes_per_token"` // the rate at the end of the prompt: a full window adds nothing
	StateBytes      int64        `json:"state_bytes"`        // recurrent state of one request, held once
	RequestBytes    int64        `json:"request_bytes"`      // what one request holds once, state included, not rounded to blocks
	WireBytes       int64        `json:"wire_bytes"`         // what crosses, rounded to blocks, replicas included
	Descriptors     []Descriptor `json:"descriptors"`        // of one decode rank: DescriptorsRank, the one with most bytes
	DescriptorsRank int          `json:"descriptors_rank"`
	// ContiguousDescriptors is the least that the same rank's pieces can merge to, were all its blocks neighbours on both sides.
	ContiguousDescriptors int64 `json:"contiguous_descriptors"`

	Ranks        []Rank   `json:"ranks"`         // decode ranks; their bytes add up to WireBytes
	PrefillRanks []Rank   `json:"prefill_ranks"` // the same bytes seen from the source
	Flows        []Flow   `json:"flows"`
	NICs         []NIC    `json:"nics"`
	Binding      NIC      `json:"binding_nic"` // the NIC with most bytes: on equal NICs it ends last
	Estimate     bool     `json:"estimate"`
	Assumptions  []string `json:"assumptions"`
	Source       string   `json:"source,omitempty"`

	// EqualNICs is the number of NICs with as many bytes as Binding, itself included.
	EqualNICs int `json:"equally_loaded_nics"`

	model *Model
	opts  Options
}

// BulkSeconds is the least time of a request on NICs of the given bytes a second in one direction: the binding
// NIC's bytes over its rate, for a request ends with its slowest rank. It leaves out the cost of descriptors, so a
// measured transfer is never faster. A rate that is not positive gives +Inf.
func (l *Layout) BulkSeconds(nicBytesPerSecond float64) float64 {
	if !(nicBytesPerSecond > 0) {
		return math.Inf(1)
	}
	return float64(l.Binding.Bytes) / nicBytesPerSecond
}

// DefaultBlockTokens is vLLM's block size on GPUs.
const DefaultBlockTokens = 16

// defaultStagingBytes is TensorRT-LLM's default transfer buffer (TRTLLM_KVCACHE_TRANSFER_BUFFER_SIZE, 512 MB).
const defaultStagingBytes = 512 << 20

// maxTokens is far above any context, and keeps sizes inside 63 bits together with the check in Layout.
const maxTokens = 1 << 40

// normal fills defaults in and refuses what no layout can be made of.
func (o Options) normal(m *Model) (Options, error) {
	if o.Tokens < 1 {
		return o, fmt.Errorf("prompt tokens must be at least 1, not %d", o.Tokens)
	}
	if o.Tokens > maxTokens {
		return o, fmt.Errorf("prompt of %d tokens is above %d", o.Tokens, int64(maxTokens))
	}
	if o.BlockTokens == 0 {
		o.BlockTokens = DefaultBlockTokens
	}
	if o.BlockTokens < 1 || o.BlockTokens > 1024 {
		return o, fmt.Errorf("block size must be 1 to 1024 tokens, not %d", o.BlockTokens)
	}
	if o.Placement == "" {
		o.Placement = Split
	}
	if !slices.Contains([]Placement{Split, Fused, Packed}, o.Placement) {
		return o, fmt.Errorf("placement %q is not known (split, fused, packed)", o.Placement)
	}
	if o.Order == "" {
		o.Order = ByLayer
	}
	if o.Order != ByLayer && o.Order != ByBlock {
		return o, fmt.Errorf("order %q is not known (layer, block)", o.Order)
	}
	if o.StagingBytes == 0 {
		o.StagingBytes = defaultStagingBytes
	}
	if o.StagingBytes < 1 {
		return o, fmt.Errorf("staging buffer must be at least 1 byte, not %d", o.StagingBytes)
	}
	for _, d := range []struct {
		name   string
		value  *string
		config string
	}{{"kv dtype", &o.KVDType, m.KVDType}, {"state dtype", &o.StateDType, m.StateDType}} {
		if *d.value == "" || *d.value == "auto" {
			*d.value = d.config
			continue
		}
		name, err := canonicalDType(d.name, *d.value)
		if err != nil {
			return o, err
		}
		*d.value = name
	}
	return o, nil
}

// Layout answers opts for the model. An error names the option at fault.
func (m *Model) Layout(opts Options) (*Layout, error) {
	o, err := opts.normal(m)
	if err != nil {
		return nil, err
	}
	l := &Layout{Model: m.Name, Architecture: m.Architecture, Tokens: o.Tokens, BlockTokens: o.BlockTokens, KVDType: o.KVDType,
		Estimate: m.Estimate, Source: m.Source, Assumptions: m.assumptions(opts, o), model: m, opts: o}
	p, err := m.planner(o)
	if err != nil {
		return nil, err
	}
	if err := l.sizes(p); err != nil {
		return nil, err
	}
	l.flow(p)
	l.notes(p)
	return l, nil
}

func (m *Model) planner(o Options) (*planner, error) {
	layers := slices.Clone(m.Layers)
	draft := 0
	if o.Draft {
		layers = append(layers, m.DraftLayers...)
		draft = len(m.DraftLayers)
	}
	p := &planner{opts: o, prefill: o.Prefill.normal("prefill"), decode: o.Decode.normal("decode")}
	for i, l := range layers {
		ts, err := m.tensors(i, l, o)
		if err != nil {
			return nil, fmt.Errorf("layer %d: %w", i, err)
		}
		p.tensors = append(p.tensors, ts...)
	}
	for _, s := range []*side{&p.prefill, &p.decode} {
		if s.err != nil {
			return nil, s.err
		}
		if err := s.split(len(m.Layers), draft); err != nil {
			return nil, err
		}
		for _, heads := range append([]int{m.Heads}, m.otherHeads...) {
			if heads%s.tp != 0 {
				return nil, fmt.Errorf("%s: tp %d does not divide the %d attention heads: no engine splits the model so", s.name, s.tp, heads)
			}
		}
		for _, t := range p.tensors {
			if !splits(t.heads, s.tp) {
				return nil, fmt.Errorf("%s: tp %d and the %d heads of layer %d (%s) do not divide: no engine splits the model so", s.name, s.tp, t.heads, t.layer, t.name)
			}
		}
	}
	return p, nil
}

// sizes fills in what one request holds.
func (l *Layout) sizes(p *planner) error {
	n := p.opts.Tokens
	const fraction = 128 * 125 // every ratio that occurs divides it
	var rate int64
	var upper float64
	for _, t := range p.tensors {
		slot := int64(t.heads) * t.slotBytes
		held := t.scope.slots(n) * slot
		l.RequestBytes += held
		upper += float64(n) * float64(slot)
		switch {
		case t.scope.fixed:
			l.StateBytes += held
		case t.scope.window == 0 || n < int64(t.scope.window):
			rate += slot * (fraction / int64(t.scope.ratio))
		}
	}
	l.KVBytesPerToken = rate / fraction
	ranks := float64(p.decode.tp * p.decode.pp)
	if upper*ranks > math.MaxInt64/8 {
		return fmt.Errorf("a request of %d tokens over %.0f ranks is %.3g bytes: too large to count", n, ranks, upper*ranks)
	}
	if l.RequestBytes == 0 {
		return errors.New("a request of this length holds nothing")
	}
	return nil
}

// flow fills in what crosses, and who sends it to whom.
func (l *Layout) flow(p *planner) {
	sent, received := map[int]*Rank{}, map[int]*Rank{}
	perRank, fewest := map[int]map[int64]int64{}, map[int]int64{}
	prefill := make([][]region, p.prefill.pp)
	for i := range prefill {
		prefill[i] = p.stage(p.prefill, i)
	}
	for stage := range p.decode.pp {
		target := p.stage(p.decode, stage)
		links := make([]link, p.prefill.pp)
		for from := range links {
			links[from] = join(prefill[from], target)
		}
		for dst := range p.decode.tp {
			to := p.decode.rank(stage, dst)
			received[to] = &Rank{Rank: to, NIC: p.decode.nics[to], Peers: []int{}}
			perRank[to] = map[int64]int64{}
			for from := range p.prefill.pp {
				for src := range p.prefill.tp {
					specs := p.specs(links[from], src, dst)
					if len(specs) == 0 {
						continue
					}
					bytes, ds, merged := p.totals(specs)
					if bytes == 0 {
						continue
					}
					fewest[to] += merged
					rank := p.prefill.rank(from, src)
					l.Flows = append(l.Flows, Flow{rank, p.prefill.nics[rank], to, p.decode.nics[to], bytes, ds})
					if sent[rank] == nil {
						sent[rank] = &Rank{Rank: rank, NIC: p.prefill.nics[rank]}
					}
					for _, d := range ds {
						perRank[to][d.SizeBytes] += d.Count
						sent[rank].Descriptors += d.Count
						received[to].Descriptors += d.Count
					}
					sent[rank].Bytes += bytes
					sent[rank].Peers = append(sent[rank].Peers, to)
					received[to].Bytes += bytes
					received[to].Peers = append(received[to].Peers, rank)
					l.WireBytes += bytes
				}
			}
		}
	}
	l.Ranks, l.PrefillRanks = sortedRanks(received), sortedRanks(sent)
	heaviest := l.Ranks[0]
	for _, r := range l.Ranks {
		if r.Bytes > heaviest.Bytes {
			heaviest = r
		}
	}
	l.DescriptorsRank, l.Descriptors = heaviest.Rank, sortedDescriptors(perRank[heaviest.Rank])
	l.ContiguousDescriptors = fewest[heaviest.Rank]
	l.nics()
}

// nics adds the ranks up by NIC, and finds the one that binds.
func (l *Layout) nics() {
	for _, s := range []struct {
		name  string
		ranks []Rank
	}{{"prefill", l.PrefillRanks}, {"decode", l.Ranks}} {
		by := map[int]*NIC{}
		for _, r := range s.ranks {
			if by[r.NIC] == nil {
				by[r.NIC] = &NIC{Side: s.name, NIC: r.NIC}
			}
			n := by[r.NIC]
			n.Bytes += r.Bytes
			n.Descriptors += r.Descriptors
			n.Ranks = append(n.Ranks, r.Rank)
		}
		for _, key := range slices.Sorted(maps.Keys(by)) {
			l.NICs = append(l.NICs, *by[key])
		}
	}
	for _, n := range l.NICs {
		switch {
		case n.Bytes > l.Binding.Bytes:
			l.Binding, l.EqualNICs = n, 1
		case n.Bytes == l.Binding.Bytes:
			l.EqualNICs++
		}
	}
}

func sortedRanks(by map[int]*Rank) []Rank {
	out := make([]Rank, 0, len(by))
	for _, key := range slices.Sorted(maps.Keys(by)) {
		out = append(out, *by[key])
	}
	return out
}

// sortedDescriptors lists sizes from the largest down.
func sortedDescriptors(count map[int64]int64) []Descriptor {
	out := make([]Descriptor, 0, len(count))
	for _, size := range slices.Backward(slices.Sorted(maps.Keys(count))) {
		out = append(out, Descriptor{size, count[size]})
	}
	return out
}
