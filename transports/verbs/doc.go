// Package verbs moves bytes by RDMA: the drivers "infiniband" and "roce" are one implementation over two link layers.
//
// The data path is reliable connections: write, read and send, with a notification (a write with immediate, or a
// message) where one is asked for. Everything between the first post and the last confirmation runs in C; this package
// chooses device, port, address and path by rule, says why, and turns what the device answers into words. Queue pairs are
// joined over the caller's control channel, so no connection manager is needed.
//
// GPU memory that no device reaches is staged through pinned host memory ([staging]): chunk k+1 leaves the GPU while chunk k is on the
// wire, and a target that is staged confirms an operation when its last copy to the GPU has ended. Those loops run in Go, a few crossings a chunk.
//
// A completion is the acknowledgement of the reliable connection: the bytes are in the target's memory. With
// Loop.Notify it is the target's reply to a notification.
package verbs
