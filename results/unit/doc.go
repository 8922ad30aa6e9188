// Package unit parses what people type and formats what people read: sizes, rates
// and times. Inside the project a size is bytes, a rate bytes a second and a time
// seconds; prefixes exist only here, at the edge.
//
// Text and Lines make text from elsewhere fit to be printed.
//
// Two families of prefix never mix. KiB, MiB, GiB are powers of 1024 and are used
// for sizes; kB, MB, GB are powers of 1000 (IEC 80000-13) and are used for rates, so
// that 10^9 bytes in one second print as 1.00 GB/s and as 8.00 Gb/s. K, M, G alone mean
// KiB, MiB, GiB, as in perftest, iperf3 and nccl-tests.
package unit
