package verbs

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"hopbench/transports"
	"hopbench/transports/fault"
	"hopbench/transports/internal/ibverbs"
	"hopbench/transports/internal/staging"
	"hopbench/transports/topo"
)

// endpoint is one side: a group of queue pairs, one a stream and one for the group's own notes.
type endpoint struct {
	t       *transport
	region  *region
	options transports.EndpointOptions
	group   *ibverbs.Group
	mine    address
	encoded []byte
	stage   *stage // where this side's device memory is staged

	// set by Connect
	peer      address
	key       regionKey
	local     slot
	remote    slot
	way       ibverbs.Way
	sge       int
	message   uint64
	connected bool
	staged    bool // this side's or the peer's device memory is
	chunk     int  // bytes of a chunk, where it is
	warnings  []string

	flowOnce sync.Once
	flow     []*flowControl // of the interface below the port, or of those that carry it

	phasesMu sync.Mutex
	phases   staging.Phases // of all loops

	mu     sync.Mutex // one loop at a time
	closed bool
}

// address is what the peer's Connect reads. GIDs are ranked, and both sides choose one pair of them by the same rule.
type address struct {
	Version    int      `json:"version"`
	LinkLayer  int      `json:"link_layer"`
	LID        int      `json:"lid"`
	GIDs       []slot   `json:"gids"`
	QPNs       []uint32 `json:"qpns"`
	PSN        uint32   `json:"psn"`
	MTU        int      `json:"mtu"` // bytes
	MTUSource  string   `json:"mtu_source"`
	NeedsGRH   bool     `json:"needs_grh"`
	MaxMessage uint64   `json:"max_message"`
	SGE        int      `json:"sge"`
	ReadsIn    int      `json:"reads_in"`
	ReadsOut   int      `json:"reads_out"`
	Pollable   bool     `json:"pollable"`
	Passive    bool     `json:"passive"`
	RecvWork   int      `json:"recv_work"`
	// Staged is what the peer writes into where this side's device memory is staged.
	Staged *stagedSide `json:"staged,omitempty"`
}

const addressVersion = 2

// NewEndpoint makes the queue pairs.
func (t *transport) NewEndpoint(o transports.EndpointOptions) (transports.Endpoint, error) {
	r, ok := o.Region.(*region)
	if !ok || r.t != t {
		return nil, fault.New(fault.VerbsCall, "make an endpoint", "", "the region is not this device's")
	}
	o.Streams, o.Depth, o.Pieces = max(o.Streams, 1), max(o.Depth, 1), max(o.Pieces, 1)
	want := t.want(o, r)
	group, err := t.context.NewGroup(want)
	if err != nil {
		return nil, t.explainQueues(err, want)
	}
	e := &endpoint{t: t, region: r, options: o, group: group, warnings: slices.Clone(r.warnings)}
	fail := func(err error) (transports.Endpoint, error) {
		if e.stage != nil {
			err = errors.Join(err, e.stage.close())
		}
		return nil, errors.Join(err, group.Close())
	}
	if r.way == transports.Staged {
		if e.stage, err = t.newStage(r.buffer, o); err != nil {
			return fail(err)
		}
	}
	pkey, _ := t.set.number("pkey-index")
	if err := group.Init(t.number, pkey); err != nil {
		return fail(t.explainQueues(err, want))
	}
	var psn [4]byte
	if _, err := rand.Read(psn[:]); err != nil {
		return fail(&fault.Error{Code: fault.VerbsCall, Op: "draw a packet number", Err: err})
	}
	e.mine = address{Version: addressVersion, LinkLayer: t.port.Link, LID: t.port.LID, GIDs: t.gids, QPNs: group.QPNs, PSN: binary.LittleEndian.Uint32(psn[:]) & 0xffffff,
		MTU: ibverbs.MTUBytes(t.port.ActiveMTU), MTUSource: "port", NeedsGRH: t.port.Flags&ibverbs.FlagGRHRequired != 0, MaxMessage: t.port.MaxMessage,
		SGE: group.Want.SGE, ReadsIn: t.limits.MaxReadsIn, ReadsOut: t.limits.MaxReadsOut, Pollable: r.pollable(), Passive: o.Passive, RecvWork: group.Want.RecvWork}
	if e.stage != nil {
		e.mine.Staged = e.stage.side()
	}
	if len(e.mine.GIDs) > 64 {
		e.mine.GIDs = e.mine.GIDs[:64]
	}
	if mtu, set := t.set.number("mtu"); set {
		if mtu > e.mine.MTU {
			return fail(fault.New(fault.VerbsPathMTU, "use a path MTU of "+fmt.Sprint(mtu), where(t.device.Name, t.number), "the port's is %d", e.mine.MTU))
		}
		e.mine.MTU, e.mine.MTUSource = mtu, "forced"
	}
	if e.encoded, err = json.Marshal(e.mine); err != nil {
		return fail(&fault.Error{Code: fault.VerbsCall, Op: "encode the address", Err: err})
	}
	t.mu.Lock()
	t.endpoints++
	t.mu.Unlock()
	r.mu.Lock()
	r.users++
	r.mu.Unlock()
	return e, nil
}

// want sizes the queues: room for the depth, for lists as many work requests as keep a device busy, within its limits.
func (t *transport) want(o transports.EndpointOptions, r *region) ibverbs.Want {
	const most = 1024
	sge := 1
	if n, set := t.set.number("sge"); set {
		sge = n
	} else if o.Pieces > 1 {
		sge = 8
	}
	sge = min(sge, max(t.limits.MaxSGE, 1), max(t.limits.MaxSGERead, 1))
	if r.way != "" {
		sge = min(sge, 4)
	}
	perOp := (o.Pieces + sge - 1) / sge
	work := min(max(2*o.Depth*min(perOp, most), 64), most)
	send := max(work, o.Depth+1)
	recv := max(work, 256)
	if r.way == transports.Staged {
		send, recv = max(send, 256), max(recv, 256) // chunks and the words about them
	}
	if t.limits.MaxWork > 0 {
		send, recv = min(send, t.limits.MaxWork), min(recv, t.limits.MaxWork)
	}
	if t.limits.MaxCQE > 0 {
		for o.Streams*(send+recv)+64 > t.limits.MaxCQE && (recv > 16 || send > 16) {
			if recv > 16 {
				recv /= 2
			}
			if o.Streams*(send+recv)+64 > t.limits.MaxCQE && send > 16 {
				send /= 2
			}
		}
	}
	inline, _ := t.set.number("inline")
	if r.way != "" {
		inline = 0
	}
	return ibverbs.Want{Queues: o.Streams, SendWork: send, RecvWork: recv, SGE: sge, Inline: inline, PostList: min(64, send)}
}

func (e *endpoint) Address() []byte { return e.encoded }

// Connect joins the queue pairs with the peer's.
func (e *endpoint) Connect(ctx context.Context, r transports.Remote) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := where(e.t.device.Name, e.t.number)
	if e.closed || e.connected {
		return fault.New(fault.VerbsCall, "connect", at, "the endpoint is closed or already connected")
	}
	if err := json.Unmarshal(r.Address, &e.peer); err != nil || e.peer.Version != addressVersion {
		return fault.New(fault.VerbsCall, "connect", at, "the peer's address is none of this driver's")
	}
	if err := json.Unmarshal(r.RegionKey, &e.key); err != nil || e.key.Bytes != r.RegionBytes && r.RegionBytes != 0 {
		return fault.New(fault.VerbsCall, "connect", at, "the peer's region key is none of this driver's")
	}
	if err := e.join(at); err != nil {
		return err
	}
	for i, qpn := range e.peer.QPNs {
		if err := ctx.Err(); err != nil {
			return &fault.Error{Code: fault.VerbsCall, Op: "connect", Device: at, Err: err}
		}
		w := e.way
		w.QPN = qpn
		if err := e.group.Ready(i, w); err != nil {
			return e.explainPath(err)
		}
	}
	if e.stage != nil || e.peer.Staged != nil {
		if err := e.openStaged(); err != nil {
			return err
		}
	}
	e.connected = true
	return nil
}

// join agrees on the path: what both sides compute from both addresses, and so compute alike.
func (e *endpoint) join(at string) error {
	mine, peer := e.mine, e.peer
	switch {
	case peer.LinkLayer != mine.LinkLayer:
		return fault.New(fault.VerbsPeerLink, "connect", at, "this side is %s and the peer %s", linkName(mine.LinkLayer), linkName(peer.LinkLayer))
	case len(peer.QPNs) != len(mine.QPNs):
		return fault.New(fault.VerbsDisagree, "connect", at, "this side has %d queue pairs and the peer %d", len(mine.QPNs), len(peer.QPNs))
	case len(peer.GIDs) == 0:
		return fault.New(fault.RDMANoGID, "connect", at, "the peer has no GID")
	case peer.MaxMessage == 0 || peer.SGE < 1 || peer.RecvWork < 1 || peer.ReadsIn < 0 || peer.ReadsOut < 0:
		return fault.New(fault.VerbsCall, "connect", at, "the peer's address lacks its limits")
	}
	var ok bool
	if e.local, e.remote, ok = pair(mine, peer); !ok {
		return fault.New(fault.VerbsFamilies, "connect", at, "this side has %s; the peer has %s", families(mine.GIDs), families(peer.GIDs))
	}
	mtu := min(mine.MTU, peer.MTU)
	for _, side := range []struct {
		a    address
		b    address
		name string
	}{{mine, peer, "the peer's port allows"}, {peer, mine, "this port allows"}} {
		if side.a.MTUSource == "forced" && side.a.MTU > side.b.MTU {
			return fault.New(fault.VerbsPathMTU, fmt.Sprintf("use a path MTU of %d", side.a.MTU), at, "%s %d", side.name, side.b.MTU)
		}
	}
	number := func(name string) int { n, _ := e.t.set.number(name); return n }
	e.way = ibverbs.Way{GID: e.remote.raw(), SendPSN: mine.PSN, RecvPSN: peer.PSN, LID: peer.LID, GIDIndex: e.local.Index, HopLimit: 64,
		TrafficClass: number("traffic-class"), SL: number("sl"), Port: e.t.number, PKeyIndex: number("pkey-index"), MTU: ibverbs.MTUCode(mtu),
		Timeout: number("qp-timeout"), Retries: number("retries"), RNRRetries: number("rnr-retries"), RNRTimer: 12,
		ReadsOut: min(mine.ReadsOut, peer.ReadsIn, 255), ReadsIn: min(mine.ReadsIn, peer.ReadsOut, 255)}
	e.way.Global = mine.LinkLayer == ibverbs.LinkEthernet || mine.NeedsGRH || peer.NeedsGRH || subnet(e.local) != subnet(e.remote)
	e.sge = min(mine.SGE, peer.SGE)
	e.message = min(mine.MaxMessage, peer.MaxMessage, 1<<31)
	if mine.LinkLayer == ibverbs.LinkEthernet && e.local.Family == "link-local" {
		e.warnings = append(e.warnings, "the path uses link-local addresses, which do not leave the link")
	}
	if e.t.pkey != 0 && e.t.pkey&0x8000 == 0 {
		e.warnings = append(e.warnings, fmt.Sprintf("partition key %#04x is a limited member's: two limited members set up and then cannot talk", e.t.pkey))
	}
	if mine.LinkLayer == ibverbs.LinkInfiniBand && subnet(e.local) != subnet(e.remote) {
		e.warnings = append(e.warnings, "the sides are in two InfiniBand subnets: the peer's own LID is the destination, where a router's would be wanted, and no path is asked of the subnet manager")
	}
	if e.t.set.text("relaxed-ordering") == "on" && e.region.mr != nil && !e.region.mr.Relaxed {
		e.warnings = append(e.warnings, "relaxed ordering was asked for, and this libibverbs cannot give it")
	}
	if mine.LinkLayer == ibverbs.LinkEthernet && mtu < 4096 && mine.MTUSource != "forced" {
		e.warnings = append(e.warnings, fmt.Sprintf("path MTU %d: an interface MTU of 4200 or more allows 4096", mtu))
	}
	if e.t.facts.Warns(fault.RDMABond) && e.options.Streams == 1 {
		e.warnings = append(e.warnings, "the device is a bond: one queue pair uses one leg of it; --streams spreads the load")
	}
	return nil
}

// pair chooses the two GIDs of a path: one type and one family on both sides, the best worst rank, then the best sum, then
// the better rank of the active side. Both sides get the same answer.
func pair(mine, peer address) (local, remote slot, ok bool) {
	active, passive, swapped := mine, peer, false
	if mine.Passive && !peer.Passive {
		active, passive, swapped = peer, mine, true
	}
	best := [3]int{1 << 30}
	for i, a := range active.GIDs {
		for j, b := range passive.GIDs {
			if a.Family != b.Family || a.Type != b.Type {
				continue
			}
			if rank := [3]int{max(i, j), i + j, i}; !ok || less(rank, best) {
				best, ok = rank, true
				local, remote = a, b
			}
		}
	}
	if swapped {
		local, remote = remote, local
	}
	return local, remote, ok
}

func less(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func families(list []slot) string {
	var out []string
	for _, s := range list {
		out = append(out, fmt.Sprintf("%s %s", s.Type, s.Family))
	}
	return strings.Join(out, ", ")
}

// subnet is the first half of a GID.
func subnet(s slot) [8]byte { r := s.raw(); return [8]byte(r[:8]) }

func (e *endpoint) peerText() string {
	if e.t.port.Link == ibverbs.LinkInfiniBand && !e.way.Global {
		return fmt.Sprintf("LID %d", e.peer.LID)
	}
	return e.remote.short()
}

func (s slot) short() string {
	if a := s.addr(); a.IsValid() {
		return a.String()
	}
	return s.GID
}

// sameHost says whether the peer's address is one of this host's.
func (e *endpoint) sameHost() *bool {
	for _, mine := range e.t.gids {
		if mine.GID == e.remote.GID {
			yes := true
			return &yes
		}
	}
	a := e.remote.addr()
	if e.t.port.Link != ibverbs.LinkEthernet || a == (netip.Addr{}) || a.IsLinkLocalUnicast() {
		return nil
	}
	local := topo.IsLocal(a)
	return &local
}

func (e *endpoint) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true // whatever fails below, nothing of it can be used or given back again
	var errs []error
	failed := func(op string, err error) {
		if err != nil {
			errs = append(errs, &fault.Error{Code: fault.VerbsCall, Op: op, Device: where(e.t.device.Name, e.t.number), Err: err})
		}
	}
	failed("close an endpoint", e.group.Close())
	e.region.mu.Lock()
	e.region.users--
	e.region.mu.Unlock()
	e.t.mu.Lock()
	e.t.endpoints--
	e.t.mu.Unlock()
	if e.stage != nil {
		failed("close the staging rings", e.stage.close())
	}
	return errors.Join(errs...)
}
