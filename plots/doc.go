// Package plots draws figures from results: bandwidth and latency against size, CPU seconds per GB, the phases of staged
// transfers, distributions of latency, ratios of a comparison, heat maps of pairs, time to first token, topology.
//
// A constructor such as Bandwidth turns records into a Figure, which holds what is drawn and can list it (Series); Write draws
// it as SVG, PNG or PDF. Every figure carries a caption: what its numbers mean, the hosts, the date, the version of the tool,
// what was measured and what is a reference or projected, and what was left out and why. Devices of software and emulated
// machines are named in the label and have hollow markers. The same input gives the same bytes.
//
// Values are base units, bytes and seconds; prefixes appear only on what people read. What a logarithmic axis cannot show
// (zero, a negative value, what is not a number) is left out and counted in the caption.
package plots
