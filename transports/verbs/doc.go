// Package verbs moves bytes by RDMA: the drivers "infiniband" and "roce" are one implementation over two link layers.
//
// The data path is reliable connections: write, read and send, with a notification (a write with immediate, or a
// message) where one is asked for. Everything between the first post and the last confirmation runs in C; this package
// chooses device, port, address and path by rule, says why, and turns what the device answers into words. Queue pairs are
// joined over the caller's control channel, so no connection manager is needed.
//
// A completion is the acknowledgement of the reliable connection: the bytes are in the target's memory. With
// Loop.Notify it is the target's reply to a notification.
package verbs
