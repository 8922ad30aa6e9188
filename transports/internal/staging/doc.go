// Package staging moves device memory over a wire that only reaches host memory, so that the copies hide behind the wire.
//
// A [Ring] is pinned host memory. On the sending side a [Pump] copies chunk k+1 from the device while chunk k is on the wire;
// on the receiving side a [Sink] copies chunk k-1 to the device meanwhile. Neither knows the wire: it takes ready bytes from
// Next and says Release, or asks for Space and says Filled. A wire that writes into the other side's memory by itself (RDMA) keeps a
// [Window] over that side's ring instead, and the sink is told where a chunk has Arrived. Chunks come in order and never span two
// segments (what a transport frames and confirms as one).
//
// How much was hidden is read from [Phases]: the seconds that each phase took by itself, against the seconds that passed.
//
// A Pump and a Sink belong to the thread that they were made on ([cuda.Thread]): one goroutine inside [cuda.Context.Do]. In steady
// state they allocate nothing, and each chunk crosses into C a few times, however many pieces it gathers.
package staging
