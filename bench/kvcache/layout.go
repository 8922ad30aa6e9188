package kvcache

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
	Ranks           []Rank       `json:"ranks"`         // decode ranks; their bytes add up to WireBytes
	PrefillRanks    []Rank       `json:"prefill_ranks"` // the same bytes seen from the source
	Flows           []Flow       `json:"flows"`
	NICs            []NIC        `json:"nics"`
	Binding         NIC          `json:"binding_nic"` // the NIC with most bytes: on equal NICs it ends last
	Estimate        bool         `json:"estimate"`
	Assumptions     []string     `json:"assumptions"`
	Source          string       `json:"source,omitempty"`

	opts  Options
	flows []flowPlan // for Pieces; as long as Flows
}

type flowPlan struct{}

// BulkSeconds is the least time of a request on NICs of the given bytes a second in one direction: the binding
// NIC's bytes over its rate. It leaves out the cost of descriptors, so a measured transfer is never faster.
func (l *Layout) BulkSeconds(nicBytesPerSecond float64) float64 {
	return float64(l.Binding.Bytes) / nicBytesPerSecond
}

// Layout answers opts for the model.
func (m *Model) Layout(opts Options) (*Layout, error) { return nil, errNotBuilt }
