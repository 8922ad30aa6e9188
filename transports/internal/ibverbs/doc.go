// Package ibverbs is the only package that knows libibverbs. The library is opened at run time, never linked, so that
// one program starts on every machine and says what is missing where RDMA is not there.
//
// Four states are told apart: this program was built without the library's header ([ErrNoHeaders]); the library cannot be
// opened or is too old ([LoadError]); it is there and the kernel has no RDMA stack (Devices gives ENOSYS); all is there and
// no device is (an empty list).
//
// The timed loops run in C from the first post to the last confirmation: one crossing a loop, no allocation, and no
// system call but the sleep of a wait that may block. Lists, stamps and the stop word are memory of the caller's; nothing
// of the library's own types is seen here, and every errno comes back as a value.
package ibverbs
