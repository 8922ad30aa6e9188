package kvcache

// Piece is one contiguous move between two registered pools. All three are bytes.
type Piece struct {
	Local, Remote, Length uint64
}

// PieceOptions says how the blocks of the requests lie in the pools.
type PieceOptions struct {
	Rank          int     // decode rank whose transfer is wanted (Layout.DescriptorsRank is the heaviest)
	Requests      int     // requests that hold blocks of the same pools at once; 0: 1
	Seed          uint64  // the same seed gives the same block tables
	MergeFraction float64 // 0 to 1: share of neighbouring blocks that touch on both sides and become one piece; 0 is the worst case
	PoolBlocks    int64   // blocks a pool has; 0: as many as the requests need
}

// Pieces is the work of one decode rank: a list for each request, over two pools. Local is the decode rank's
// pool, Remote the prefill side's (the pools of its source ranks one after the other).
type Pieces struct {
	Requests        [][]Piece
	LocalPoolBytes  uint64
	RemotePoolBytes uint64
}

// Pieces lists the moves of one decode rank.
func (l *Layout) Pieces(opts PieceOptions) (*Pieces, error) { return nil, errNotBuilt }
