/* The one view that Go has of the CUDA driver API: plain integers, opaque
 * pointers, and a table of functions that dlopen filled. No CUDA header is
 * needed to build it and nothing is linked; every prototype below was declared
 * by hand from the CUDA driver API reference
 * (https://docs.nvidia.com/cuda/cuda-driver-api/). */
#ifndef HB_CUDA_SHIM_H
#define HB_CUDA_SHIM_H
#include <stddef.h>
#include <stdint.h>

typedef int hb_result; /* CUresult, or HB_ABSENT */
typedef int hb_device;
typedef unsigned long long hb_ptr; /* CUdeviceptr */
typedef void *hb_ctx;
typedef void *hb_stream;
typedef void *hb_event;

enum {
	HB_ABSENT = -1,    /* the loaded library has no such function */
	HB_NOT_READY = 600 /* CUDA_ERROR_NOT_READY: a query's "not yet" */
};

/* X(name, required, (parameters), (arguments)). Suffixes matter: the names
 * without _v2 are ABIs of 2010 that still resolve. The *_ptsz and *_ptds
 * variants are for the per-thread default stream and are not wanted. */
#define HB_CUDA_SYMBOLS(X) \
	X(cuInit, 1, (unsigned flags), (flags)) \
	X(cuDriverGetVersion, 1, (int *v), (v)) \
	X(cuGetErrorName, 1, (hb_result r, const char **s), (r, s)) \
	X(cuGetErrorString, 1, (hb_result r, const char **s), (r, s)) \
	X(cuDeviceGetCount, 1, (int *n), (n)) \
	X(cuDeviceGet, 1, (hb_device *d, int ordinal), (d, ordinal)) \
	X(cuDeviceGetName, 1, (char *s, int n, hb_device d), (s, n, d)) \
	X(cuDeviceGetUuid_v2, 0, (void *uuid, hb_device d), (uuid, d)) \
	X(cuDeviceTotalMem_v2, 1, (size_t *n, hb_device d), (n, d)) \
	X(cuDeviceGetPCIBusId, 1, (char *s, int n, hb_device d), (s, n, d)) \
	X(cuDeviceGetAttribute, 1, (int *v, int attribute, hb_device d), (v, attribute, d)) \
	X(cuDevicePrimaryCtxRetain, 1, (hb_ctx *c, hb_device d), (c, d)) \
	X(cuDevicePrimaryCtxRelease_v2, 1, (hb_device d), (d)) \
	X(cuCtxGetCurrent, 1, (hb_ctx *c), (c)) \
	X(cuCtxSetCurrent, 1, (hb_ctx c), (c)) \
	X(cuMemAlloc_v2, 1, (hb_ptr *p, size_t n), (p, n)) \
	X(cuMemFree_v2, 1, (hb_ptr p), (p)) \
	X(cuMemGetInfo_v2, 1, (size_t *available, size_t *total), (available, total)) \
	X(cuMemGetAddressRange_v2, 1, (hb_ptr *base, size_t *n, hb_ptr p), (base, n, p)) \
	X(cuMemHostAlloc, 1, (void **p, size_t n, unsigned flags), (p, n, flags)) \
	X(cuMemFreeHost, 1, (void *p), (p)) \
	X(cuMemHostRegister_v2, 1, (void *p, size_t n, unsigned flags), (p, n, flags)) \
	X(cuMemHostUnregister, 1, (void *p), (p)) \
	X(cuMemsetD8Async, 1, (hb_ptr p, unsigned char v, size_t n, hb_stream s), (p, v, n, s)) \
	X(cuMemcpyHtoDAsync_v2, 1, (hb_ptr d, const void *h, size_t n, hb_stream s), (d, h, n, s)) \
	X(cuMemcpyDtoHAsync_v2, 1, (void *h, hb_ptr d, size_t n, hb_stream s), (h, d, n, s)) \
	X(cuMemcpyDtoDAsync_v2, 1, (hb_ptr d, hb_ptr from, size_t n, hb_stream s), (d, from, n, s)) \
	X(cuMemcpyPeerAsync, 1, (hb_ptr d, hb_ctx dc, hb_ptr from, hb_ctx fc, size_t n, hb_stream s), (d, dc, from, fc, n, s)) \
	X(cuStreamCreate, 1, (hb_stream *s, unsigned flags), (s, flags)) \
	X(cuStreamDestroy_v2, 1, (hb_stream s), (s)) \
	X(cuStreamSynchronize, 1, (hb_stream s), (s)) \
	X(cuStreamQuery, 1, (hb_stream s), (s)) \
	X(cuStreamWaitEvent, 1, (hb_stream s, hb_event e, unsigned flags), (s, e, flags)) \
	X(cuEventCreate, 1, (hb_event *e, unsigned flags), (e, flags)) \
	X(cuEventDestroy_v2, 1, (hb_event e), (e)) \
	X(cuEventRecord, 1, (hb_event e, hb_stream s), (e, s)) \
	X(cuEventQuery, 1, (hb_event e), (e)) \
	X(cuEventSynchronize, 1, (hb_event e), (e)) \
	X(cuEventElapsedTime, 1, (float *ms, hb_event from, hb_event to), (ms, from, to)) \
	X(cuDeviceCanAccessPeer, 1, (int *can, hb_device from, hb_device to), (can, from, to)) \
	X(cuDeviceGetP2PAttribute, 0, (int *v, int attribute, hb_device from, hb_device to), (v, attribute, from, to)) \
	X(cuCtxEnablePeerAccess, 1, (hb_ctx peer, unsigned flags), (peer, flags)) \
	X(cuCtxDisablePeerAccess, 1, (hb_ctx peer), (peer)) \
	X(cuPointerSetAttribute, 1, (const void *v, int attribute, hb_ptr p), (v, attribute, p)) \
	X(cuMemGetHandleForAddressRange, 0, (void *handle, hb_ptr p, size_t n, int type, unsigned long long flags), (handle, p, n, type, flags)) \
	X(cuFlushGPUDirectRDMAWrites, 0, (int target, int scope), (target, scope))

struct hb_cuda {
	void *handle;
	const char *double_name; /* the symbol hopbench_double, or NULL */
#define X(name, required, params, args) hb_result(*name) params;
	HB_CUDA_SYMBOLS(X)
#undef X
};

/* Opens the library and fills the table. 0: ready. 1: the loader refused, err
 * holds its words. 2: functions are missing, err holds their names. */
int hb_cuda_open(const char *path, struct hb_cuda **out, char *err, size_t n);
void hb_cuda_close(struct hb_cuda *t);
/* The path of the file that was loaded, or "". */
void hb_cuda_path(struct hb_cuda *t, char *path, size_t n);

/* hb_NAME calls NAME through the table, or returns HB_ABSENT. */
#define HB_WITH_TABLE(...) (struct hb_cuda * t, ##__VA_ARGS__)
#define X(name, required, params, args) hb_result hb_##name HB_WITH_TABLE params;
HB_CUDA_SYMBOLS(X)
#undef X

/* A piece of a list: n bytes at an offset of the local side and at an offset of
 * the remote side. The layout is that of transports.Piece. */
struct hb_piece {
	uint64_t local, remote, n;
};

/* One end of a copy. ctx is NULL for host memory. */
struct hb_side {
	uint64_t address;
	hb_ctx ctx;
};

/* A direction: from local to remote, or back where read is set. */
struct hb_way {
	struct hb_side local, remote;
	int read;
};

/* Queues every piece on the stream, between the two events where they are not
 * NULL: one crossing from Go for a whole list. */
hb_result hb_copy_list(struct hb_cuda *t, const struct hb_way *way, const struct hb_piece *pieces,
	size_t count, hb_event before, hb_event after, hb_stream s);

/* How a wait waits: spin for spin_ns (negative: for ever), then sleep between
 * looks. It gives up with HB_NOT_READY when nothing has happened for stall_ns
 * (0: never), or when stop is set. */
struct hb_patience {
	int64_t spin_ns, stall_ns;
	const uint32_t *stop;
};
hb_result hb_wait_event(struct hb_cuda *t, hb_event e, const struct hb_patience *p);

enum { HB_COUNT = 0, HB_STOPPED = 1, HB_DEADLINE = 2, HB_FULL = 3, HB_STALLED = 4 };

/* What a native loop is given and what it gives back. Times are nanoseconds of
 * CLOCK_MONOTONIC. */
struct hb_loop {
	struct hb_way way;
	const struct hb_piece *pieces; /* operation i is pieces[ends[i-1]..ends[i]) */
	const uint32_t *ends;
	size_t operations;
	hb_stream stream;
	hb_event *events; /* depth of them */
	size_t depth;
	uint64_t count;   /* operations to do; 0: until the deadline */
	int64_t deadline; /* 0: none */
	double bytes_per_ns; /* pace; 0: none */
	struct hb_patience patience;
	int64_t *stamps;
	size_t stamps_cap;
	uint64_t every;
	int notify, notify_fd, reply_fd; /* eventfds, where notify is set */
	/* results */
	int64_t start, last, first_use;
	uint64_t done, bytes;
	size_t stamps_len;
	int end; /* HB_COUNT... */
};

/* Keeps depth operations in flight and confirms them in order. Returns with
 * nothing in flight unless the device itself has stalled. */
hb_result hb_stream_loop(struct hb_cuda *t, struct hb_loop *l);

/* The way back of a ping-pong: the far device's own stream and event. */
struct hb_echo {
	struct hb_way way;
	hb_stream stream;
	hb_event event;
	hb_ctx ctx;
};

/* An operation and its wait, then the same pieces back and their wait. */
hb_result hb_pingpong_loop(struct hb_cuda *t, struct hb_loop *l, const struct hb_echo *back, hb_ctx ctx);

int64_t hb_now(void);
#endif
