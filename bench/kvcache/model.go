package kvcache

// Kind says what one layer of a model keeps for a request after prefill.
type Kind string

const (
	// Full keeps every token (MHA, GQA, MQA).
	Full Kind = "full"
	// Window keeps the last Layer.Window tokens (sliding-window attention).
	Window Kind = "window"
	// Chunked attends inside chunks of Layer.Window tokens (Llama 4) and keeps at most one chunk.
	Chunked Kind = "chunked"
	// Latent keeps one compressed vector and one rope part a token, the same on every tensor-parallel rank (MLA).
	Latent Kind = "latent"
	// Compressed keeps one entry every Layer.Ratio tokens beside a sliding window (compressed sparse attention).
	Compressed Kind = "compressed"
	// Recurrent keeps a state of fixed size, whatever the prompt's length (linear attention, Mamba).
	Recurrent Kind = "recurrent"
	// Shared reads an earlier layer's KV and keeps none of its own.
	Shared Kind = "shared"
	// None keeps nothing (a feed-forward layer, an attention that was removed).
	None Kind = "none"
)

// Layer is the geometry of one layer. Widths are elements, not bytes; a field that the kind does not use is zero.
type Layer struct {
	Kind    Kind
	KVHeads int // key and value heads (Full, Window, Chunked)
	KDim    int // width of one key head, or of the entry of a Compressed layer
	VDim    int // width of one value head; it may differ from KDim
	Window  int // tokens (Window, Chunked, Compressed)
	Rank    int // kv_lora_rank (Latent)
	RopeDim int // qk_rope_head_dim (Latent, Compressed)
	Ratio   int // tokens an entry (Compressed); 0: the window alone
	Index   int // index_head_dim of a sparse indexer; 0 without one

	state []statePart // Recurrent
}

// statePart is one tensor of a recurrent state, split over tensor-parallel ranks by head.
type statePart struct {
	name     string // conv or ssm
	heads    int
	elements int64 // elements a head
	rows     int64 // rows of a convolution: its heads lie side by side in each; 0: one
	wide     bool  // kept in the state's own dtype (ssm), not in the model's (conv)
}

// Model is the KV geometry that a config.json describes. It is immutable once loaded.
type Model struct {
	Name         string // catalogue name, or the path it was read from
	Architecture string // class name as the config gives it
	Heads        int    // query heads; every tensor-parallel size must divide them
	HiddenSize   int    // residual width
	Layers       []Layer
	DraftLayers  []Layer // multi-token-prediction layers, counted only when Options.Draft is set
	KVDType      string  // dtype of the cache by the config's own rules
	ModelDType   string  // dtype of the weights' activations; the convolution part of a state is kept in it
	StateDType   string  // dtype of the recurrent part of a state
	ActiveParams *int64  // parameters active a token, where the catalogue states them; nil when not known
	Source       string  // where the facts come from, with the date; empty for a file
	Estimate     bool    // the architecture is not known, and the caller asked for an estimate
	Assumptions  []string

	otherHeads []int // query heads of layers that have a number of their own
}
