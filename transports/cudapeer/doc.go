// Package cudapeer measures what the copy engines of GPUs can do inside one process, through two drivers.
//
// "cuda-peer" copies between the memories of two GPUs. Which way the bytes go is read, never assumed, and each row is named by it:
// "nvlink" only where the driver allows peer access and NVML shows active links between the two; "pcie-peer" where it allows peer
// access and NVML shows that no link joins them; "host-staged" where it refuses, so that the driver copies through host memory; and plain
// "cuda-peer" where peer access works and nothing here can tell over what.
//
// "cuda-copy" copies within one GPU, to pinned host memory and from it: the ceilings that stand beside every transfer that
// starts or ends in device memory.
//
// # The clock
//
// An operation is a list of asynchronous copies on a stream of the initiator's GPU, then an event. It starts when the first copy is
// queued by the host and is confirmed when the host sees the event passed. In a ping-pong the host waits for the first half's event before it
// queues the second half on the other GPU's stream: it is the latency of a program that is told by the host that data has come.
// Allocation, peer enabling and the making of streams are outside the clock.
package cudapeer
