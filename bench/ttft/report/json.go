// Package report writes projections: a table, a paragraph to paste into a
// plan, the worked example, and JSON with the provenance of every number.
package report

import (
	"strings"

	"hopbench/bench/kvcache"
	"hopbench/bench/ttft"
	"hopbench/bench/ttft/curve"
	"hopbench/bench/ttft/engine"
	"hopbench/bench/ttft/example"
	"hopbench/bench/ttft/figure"
	"hopbench/bench/ttft/sim"
	"hopbench/results"
)

// Document is what --json prints. Keys carry units; what is not known is absent.
type Document struct {
	Projections []Projection    `json:"projections"`
	Answers     []Answer        `json:"answers,omitempty"`
	Example     *Example        `json:"example,omitempty"`
	Refused     []Refusal       `json:"refused,omitempty"`
	Sensitivity []Effects       `json:"sensitivity,omitempty"`
	AgainstISL  []figure.Series `json:"against_isl_tokens,omitempty"`
	AgainstRate []figure.Series `json:"against_rate_requests_per_second,omitempty"`
	Skipped     []string        `json:"cells_not_used,omitempty"`
	// Runs are where the measured links come from; Tool is what made the document, with its version.
	Runs []Run  `json:"measured_by,omitempty"`
	Tool string `json:"tool,omitempty"`
}

// Run is one run of a result file: where, when and by what its cells were measured.
type Run struct {
	File        string         `json:"file"`
	Started     string         `json:"started,omitempty"` // RFC 3339
	ToolVersion string         `json:"tool_version"`
	ToolCommit  string         `json:"tool_commit,omitempty"`
	Hosts       []results.Host `json:"hosts,omitempty"` // what a caption names of each
}

// RunOf is a run without its cells, plan and the rest of its hosts' fingerprints.
func RunOf(r *results.Run) Run {
	out := Run{File: r.File[strings.LastIndexAny(r.File, `/\`)+1:], ToolVersion: r.Header.ToolVersion, ToolCommit: r.Header.ToolCommit}
	if !r.Header.Started.IsZero() {
		out.Started = r.Header.Started.UTC().Format("2006-01-02T15:04:05Z")
	}
	for _, h := range r.Header.Hosts {
		out.Hosts = append(out.Hosts, results.Host{Hostname: h.Hostname, CPUModel: h.CPUModel, CPUs: h.CPUs, GPUs: h.GPUs, Virtualisation: h.Virtualisation, Kernel: h.Kernel})
	}
	return out
}

// Refusal is a link without a projection, and why.
type Refusal struct {
	Label  string `json:"label"`
	Reason string `json:"reason"`
}

// Effects is the sensitivity on one link.
type Effects struct {
	Label   string   `json:"label"`
	Effects []Effect `json:"effects"`
}

// Effect is what one mechanism adds to TTFT, in seconds.
type Effect struct {
	Mechanism     string   `json:"mechanism"`
	AddedP50      *float64 `json:"added_p50_seconds,omitempty"`
	AddedP99      *float64 `json:"added_p99_seconds,omitempty"`
	P50           *float64 `json:"p50_without_seconds,omitempty"`
	P99           *float64 `json:"p99_without_seconds,omitempty"`
	Unserviceable string   `json:"unserviceable_without,omitempty"`
}

// Answer is one answer to a reverse question.
type Answer struct {
	Question   string   `json:"question"`
	Transport  string   `json:"transport,omitempty"`
	Label      string   `json:"label,omitempty"`
	Text       string   `json:"answer"`
	Value      *float64 `json:"value,omitempty"`
	Unit       string   `json:"unit,omitempty"`
	Provenance string   `json:"provenance,omitempty"`
}

// Example is the worked example.
type Example struct {
	Title   string         `json:"title"`
	Rows    []example.Row  `json:"rows"`
	Cases   []example.Case `json:"cases"`
	Sources []string       `json:"sources"`
}

// Projection is one link under one load.
type Projection struct {
	Transport     string             `json:"transport"`
	Label         string             `json:"label"`
	Hypothetical  string             `json:"hypothetical,omitempty"`
	Model         string             `json:"model"`
	ISL           float64            `json:"isl_tokens"` // mean
	OSL           float64            `json:"osl_tokens"` // mean
	Load          Load               `json:"load"`
	Overlap       string             `json:"overlap"`
	Engine        engine.Preset      `json:"engine"`
	Prefill       Prefill            `json:"prefill"`
	TTFT          *Times             `json:"ttft_seconds,omitempty"`
	Parts         *Parts             `json:"parts_seconds,omitempty"`        // mean: they add up to the mean TTFT
	PartsMedian   *Parts             `json:"parts_median_seconds,omitempty"` // of the requests around p50
	PartsTail     *Parts             `json:"parts_p99_seconds,omitempty"`    // of the requests around p99
	Request       Request            `json:"request"`
	Layout        Layout             `json:"layout"`
	Utilisation   map[string]float64 `json:"utilisation"`
	Goodput       *float64           `json:"goodput_requests_per_second,omitempty"`
	Within        *float64           `json:"within_limit_share,omitempty"`
	Limit         *float64           `json:"limit_seconds,omitempty"`
	Throughput    *float64           `json:"throughput_requests_per_second,omitempty"`
	Expired       int64              `json:"expired_leases,omitempty"`
	CachedTokens  int64              `json:"prefix_cached_tokens,omitempty"`
	HeldTokens    int64              `json:"held_by_decode_tokens,omitempty"`
	Unserviceable *Unserviceable     `json:"unserviceable,omitempty"`
	Provenance    map[string]string  `json:"provenance"`
	Sources       map[string]string  `json:"sources"`
	Measured      *curve.Origin      `json:"measured_on,omitempty"`
	Assumptions   []string           `json:"assumptions"`
	Warnings      []string           `json:"warnings"`
}

// Unserviceable says why there is no TTFT.
type Unserviceable struct {
	Part        string  `json:"part"`
	Utilisation float64 `json:"utilisation"`
	Reason      string  `json:"reason"`
}

// Load is what arrived.
type Load struct {
	Kind        string  `json:"kind"`
	Rate        float64 `json:"rate_requests_per_second,omitempty"`
	Concurrency int     `json:"concurrency,omitempty"`
	Requests    int64   `json:"requests"`
	Seed        uint64  `json:"seed"`
	Stamps      string  `json:"stamps,omitempty"` // of a trace: as recorded, or spread
	Grid        float64 `json:"stamp_grid_seconds,omitempty"`
}

// Prefill says where prefill times come from.
type Prefill struct {
	Source  string  `json:"source"`
	Floor   float64 `json:"floor_seconds"`
	Workers int     `json:"workers"`
	Budget  int     `json:"budget_tokens,omitempty"`
}

// Times is a distribution in seconds.
type Times struct {
	Samples int64    `json:"samples"`
	Mean    *float64 `json:"mean,omitempty"`
	P50     *float64 `json:"p50,omitempty"`
	P90     *float64 `json:"p90,omitempty"`
	P99     *float64 `json:"p99,omitempty"`
	// Interval of the link's times carried through; absent where there is none.
	P50Low  *float64 `json:"p50_low,omitempty"`
	P50High *float64 `json:"p50_high,omitempty"`
	P99Low  *float64 `json:"p99_low,omitempty"`
	P99High *float64 `json:"p99_high,omitempty"`
}

// Parts of TTFT in seconds. QueueDecode is contained in Queue.
type Parts struct {
	Queue         float64 `json:"queue"`
	QueueDecode   float64 `json:"queue_decode"`
	Prefill       float64 `json:"prefill"`
	Transfer      float64 `json:"transfer"`
	Orchestration float64 `json:"orchestration"`
	FirstDecode   float64 `json:"first_decode"`
}

// Request is a request of the mean length, alone on the link.
type Request struct {
	WireBytes      int64    `json:"wire_bytes"`
	RankBytes      int64    `json:"rank_bytes"`
	NIC            string   `json:"binding_nic"`
	NICBytes       int64    `json:"nic_bytes"`
	Descriptors    int64    `json:"nic_descriptors"`
	PieceBytes     int64    `json:"piece_bytes"`
	Transfer       float64  `json:"transfer_seconds"`
	Low            *float64 `json:"transfer_low_seconds,omitempty"`
	High           *float64 `json:"transfer_high_seconds,omitempty"`
	BytesPerSecond float64  `json:"nic_bytes_per_second"`
	Bulk           float64  `json:"nic_bulk_bytes_per_second"`
}

// Layout is both sides.
type Layout struct {
	Prefill       kvcache.Parallel `json:"prefill"`
	Decode        kvcache.Parallel `json:"decode"`
	DecodeWorkers int              `json:"decode_workers"`
	BlockTokens   int              `json:"block_tokens"`
}

// Of turns a projection into what is written.
func Of(p *ttft.Projection) Projection {
	s := p.Scenario
	o := Projection{
		Transport: p.Link.Transport, Label: p.Link.Label, Hypothetical: p.Link.Hypothetical, Model: s.Model.Name,
		ISL: p.Input, OSL: p.Output, Overlap: OverlapName(s.Overlap), Engine: s.Engine,
		Load:    Load{Kind: s.Load.Kind(), Rate: s.Load.Rate, Concurrency: s.Load.Concurrency, Requests: p.Result.Requests, Seed: s.Seed},
		Prefill: Prefill{Source: s.Prefill.Source, Floor: s.Prefill.Floor, Workers: s.PrefillWorkers, Budget: s.Budget},
		Request: Request{
			WireBytes: p.Request.WireBytes, RankBytes: p.Request.RankBytes, NIC: p.Request.NIC, NICBytes: p.Request.NICBytes,
			Descriptors: p.Request.Descriptors, PieceBytes: p.Request.PieceBytes, Transfer: p.Request.Seconds,
			Low: p.Request.Low, High: p.Request.High, BytesPerSecond: p.Request.BytesPerSecond, Bulk: p.Request.Bulk,
		},
		Layout:      Layout{s.Layout.Prefill, s.Layout.Decode, s.DecodeWorkers, s.Layout.BlockTokens},
		Utilisation: utilisation(p.Result.Utilisation), Expired: p.Result.Expired,
		CachedTokens: p.Result.CachedTokens, HeldTokens: p.Result.HeldTokens,
		Goodput: p.Result.Goodput, Within: p.Result.Within, Provenance: p.Provenance,
		Sources:  map[string]string{"transfer": p.Link.Source, "prefill": s.Prefill.Source},
		Measured: p.Link.Measured(), Assumptions: Assumptions(p), Warnings: p.Warnings,
	}
	if o.Sources["transfer"] == "" {
		o.Sources["transfer"] = "result cells of " + p.Link.Label
	}
	if o.Warnings == nil {
		o.Warnings = []string{}
	}
	if s.Load.Trace != nil && s.Load.Kind() == "trace" {
		o.Load.Grid = s.Load.Trace.Grid()
		o.Load.Stamps = "as recorded"
		if s.Load.Spread && o.Load.Grid > 0 {
			o.Load.Stamps = "spread over their grid"
		}
	}
	if s.Limit > 0 {
		o.Limit = &s.Limit
	}
	if u := p.Unserviceable; u != nil {
		o.Unserviceable = &Unserviceable{u.Part, u.Utilisation, u.Error()}
		return o
	}
	r := &p.Result
	o.Throughput = &r.Throughput
	t := Times{Samples: r.TTFT.Samples, Mean: r.TTFT.Mean, P50: r.TTFT.P50, P90: r.TTFT.P90, P99: r.TTFT.P99}
	if p.P50 != nil {
		t.P50Low, t.P50High = p.P50.Low, p.P50.High
	}
	if p.P99 != nil {
		t.P99Low, t.P99High = p.P99.Low, p.P99.High
	}
	o.TTFT = &t
	o.Parts = parts(&r.Mean)
	o.PartsMedian = parts(&r.Median)
	if r.Tail != nil {
		o.PartsTail = parts(r.Tail)
	}
	return o
}

func parts(p *sim.Parts) *Parts {
	return &Parts{p.Queue, p.QueueDecode, p.Prefill, p.Transfer, p.Orchestration, p.FirstDecode}
}

func utilisation(u sim.Utilisation) map[string]float64 {
	m := map[string]float64{}
	for k, v := range map[string]*float64{
		"prefill": u.Prefill, "prefill_egress": u.Egress, "decode_ingress": u.Ingress, "spine": u.Spine, "decode": u.Decode,
		"decode_batch": u.DecodeBatch, "prefill_pool": u.PrefillPool, "decode_pool": u.DecodePool,
	} {
		if v != nil {
			m[k] = *v
		}
	}
	return m
}

// OverlapName is serial, chunked or layerwise.
func OverlapName(o sim.Overlap) string {
	return [...]string{"serial", "chunked", "layerwise"}[o]
}
