// Package cuda is the one place that knows the CUDA driver API.
//
// libcuda.so.1 is opened at run time through a table of hand-declared functions: nothing is linked and no CUDA header
// is needed, so one binary starts on every machine and says in words why GPUs cannot be used here (see [Unavailable]).
//
// # Threads
//
// A CUDA context is current on an operating-system thread, not on a goroutine. Everything that needs one is a method of
// [Thread], and the only way to a Thread is [Context.Do], which locks the goroutine to its thread, makes the context
// current and puts both back. A goroutine that moved to another thread between two calls would meet
// CUDA_ERROR_INVALID_CONTEXT, or worse, the context of another GPU.
//
// # Doubles
//
// A library that exports the symbol hopbench_double is a stand-in for tests ([Library.Double]). What was measured
// through one has realm "double" and is never shown as a measurement.
package cuda
