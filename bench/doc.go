// Hopbench measures the paths that a KV cache can take from a prefill GPU to a decode GPU, and says what each costs in time to
// first token: NVLink through CUDA peer access, InfiniBand, RoCE, and TCP with staging through host memory, with one harness and
// one definition of each number.
//
// Usage:
//
//	hopbench SUBCOMMAND [flags]
//
// # Measure
//
// On one host, every transport that it can use, and for the others the reason why not:
//
//	hopbench run --transport all --sizes 64:256MiB:x16 --out run.jsonl
//
// Between two hosts, one serves and the other measures. The server prints a token, which the client reads from a file or from
// HOPBENCH_TOKEN:
//
//	hopbench serve --listen 0.0.0.0:18515
//	hopbench run --peer 192.0.2.7:18515 --token-file token --out run.jsonl
//
// A plan can be looked at before it runs; each result file holds the plan that it was made by:
//
//	hopbench run --transport tcp --dry-run
//
// Between many hosts, started once a rank by srun, mpirun, an indexed Kubernetes Job or torchrun with one command line for all. Rank 0
// prints the matrix of links, what is out of line and by whom, and with other patterns than all pairs what flows do to each other:
//
//	srun hopbench mesh --token-file token --out mesh.jsonl
//	mpirun -n 8 hopbench mesh --token-file token --pattern incast --to 0
//	hopbench mesh --dry-run --size 64
//
// # Look
//
// Tables and figures are made from result files, on any machine:
//
//	hopbench table run.jsonl
//	hopbench plot run.jsonl --out figures
//	hopbench compare old.jsonl new.jsonl
//	hopbench export run.jsonl
//
// One page for those who did not measure: the summary in words, tables that sort and filter, figures with their values, the evidence of
// each path, what did not run and why, and a planner for time to first token that recomputes in the page. It needs no network:
//
//	hopbench report run.jsonl -o report.html
//
// # Ask
//
// Why a transport cannot be used on this host, and what to do about it:
//
//	hopbench doctor
//
// What a model's cache weighs, and what its transfer costs in time to first token:
//
//	hopbench kv Qwen3-8B --isl 4096
//	hopbench ttft --help
//
// # Numbers
//
// Bandwidth is bytes over the time from the first post to the last confirmation, on the initiator's monotonic clock; latency is
// half of a round trip, or post to completion where that is what an operation has. Each row names the definition that it used, the
// path that its bytes took with the evidence for it, and whether a device, a software device, an emulated machine or a test double
// was at work. GB is 10^9 bytes; GiB, MiB and KiB are powers of two, and so is a K, M or G that stands alone in a size.
// The write-up, harness/METHOD.md, says for each transport what is inside the clock and what is outside.
//
// # Exit status
//
//	0  all is well; a transport that this host cannot use was waived with its reason
//	1  a measurement failed, was interrupted, or a regression was found
//	2  usage: the flag or the line of input is named
//	3  a transport that was asked for by name cannot be used here
//
// 2 comes before 1 and 1 before 3 where several apply.
//
// # Environment
//
//	HOPBENCH_TOKEN  the token that both sides of a measurement hold
package main
