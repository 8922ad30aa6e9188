// Package ttft says what a hop costs in time to first token: a model's KV
// geometry, a link's measured times, a prefill model and an engine's way of
// handing over, under a load, give TTFT and its parts.
//
// The parts live in packages of their own: curve and link (times of a transfer),
// prefill, engine (who does what when), load (arrivals and traces) and sim (the
// simulation). Here they are put together. ask has the reverse questions, figure the
// data of figures, example a published figure worked out, report the output.
//
// Nothing here reads files, uses the network or knows a clock: the package also
// runs in a browser. Sizes are bytes, times seconds, lengths tokens.
//
// METHOD.md has the formulas and what they were held against.
package ttft
