/* A stand-in for libcuda.so.1 on machines without a GPU.
 *
 * It stands below our code, never beside it: the program dlopens it as it would
 * the real library. Device memory is a memfd mapped at an address that the
 * caller never learns (a device pointer that host code follows is a crash, as
 * on hardware). Copies run on a thread per stream, in order, through engines
 * that take real time at set rates. It proves code paths, never a speed: it
 * exports hopbench_double, and every device name says so.
 *
 * It is stricter than a real driver in one thing: cuMemcpyDtoDAsync between two
 * devices without peer access is refused with 705 where hardware would stage.
 *
 * Environment, read by cuInit while no context is retained:
 *   FAKECUDA_DEVICES=2              0 gives cuInit 100
 *   FAKECUDA_NAME="NVIDIA Fake"     " (hopbench double)" is appended
 *   FAKECUDA_DRIVER=12080           cuDriverGetVersion
 *   FAKECUDA_BUS_IDS=a,b            else 0000:18:00.0, 0000:28:00.0, ...
 *   FAKECUDA_MEMORY_BYTES=8e9       of each device
 *   FAKECUDA_PEERS=all|none|0-1,2>3[:rate]   2>3: device 2 reaches 3, not back
 *   FAKECUDA_MIG=1                  one MIG instance, no peers
 *   FAKECUDA_DMABUF=1, FAKECUDA_GDR=1
 *   FAKECUDA_DMABUF_BYTES=N  a descriptor of device memory covers only so many bytes, as of an allocation of several segments
 *   FAKECUDA_{H2D,D2H,D2D,P2P,STAGED}_BYTES_PER_SECOND   0 or unset: as fast as memcpy
 *   FAKECUDA_COPY_LATENCY_NS=0      added to each copy
 *   FAKECUDA_CORRUPT_P2P=1          peer copies lose 16 bytes, as behind a translating IOMMU
 *   FAKECUDA_FAIL=name:code[:after[:times]],...
 *   FAKECUDA_FAIL_COPY=code[:after] a copy fails on the device: later calls report it
 *   CUDA_VISIBLE_DEVICES            indices and GPU- UUID prefixes, first bad entry ends the list
 */
#ifndef FAKECUDA_H
#define FAKECUDA_H
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef int CUresult;
typedef int CUdevice;
typedef unsigned long long CUdeviceptr;

enum {
	OK = 0,
	INVALID_VALUE = 1,
	OUT_OF_MEMORY = 2,
	NOT_INITIALIZED = 3,
	NO_DEVICE = 100,
	INVALID_DEVICE = 101,
	INVALID_CONTEXT = 201,
	PEER_ACCESS_UNSUPPORTED = 217,
	INVALID_HANDLE = 400,
	NOT_READY = 600,
	PEER_ACCESS_ALREADY_ENABLED = 704,
	PEER_ACCESS_NOT_ENABLED = 705,
	HOST_MEMORY_ALREADY_REGISTERED = 712,
	HOST_MEMORY_NOT_REGISTERED = 713,
	NOT_SUPPORTED = 801
};

#define MAX_DEVICES 16

/* An engine moves one copy at a time. busy_until is the model's clock: a copy
 * starts when its engine, its stream and its caller are all ready, ends n/rate
 * later, and the thread really sleeps until then. A thread that wakes late
 * does not make the engine late. */
struct engine {
	pthread_mutex_t lock;
	int64_t busy_until;
};

enum { H2D, D2H, D2D, LINK_OUT, LINK_IN, ENGINES };

typedef struct context {
	int physical; /* index among all devices of the machine */
	int retained;
	unsigned peers; /* contexts that this one may reach, by physical index */
	struct engine engines[ENGINES];
	struct stream *default_stream;
} *CUcontext;

typedef struct event {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int refs;
	CUcontext ctx;
	int timed;
	uint64_t recorded, done; /* generations */
	int64_t at;
} *CUevent;

enum op_kind { COPY, FILL, RECORD, WAIT_EVENT, QUIT };

struct op {
	struct op *next;
	enum op_kind kind;
	int64_t submitted;
	char *to;
	const char *from;
	size_t n;
	int value;
	struct engine *first, *second; /* second may be NULL */
	struct allocation *uses[2];    /* what must not be freed before the end */
	double rate;
	int corrupt;
	CUevent event;
	uint64_t generation;
};

typedef struct stream {
	CUcontext ctx;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct op *head, **tail;
	uint64_t submitted, done;
	int64_t at; /* the model's clock */
} *CUstream;

struct allocation {
	struct allocation *next;
	CUdeviceptr base; /* what the caller holds: not mapped */
	char *bytes;      /* what it stands for */
	size_t n;
	CUcontext ctx; /* NULL: pinned host memory */
	int fd;
	int sync_memops;
	int registered; /* pinned by cuMemHostRegister: not ours to unmap */
	int users;      /* queued copies: a free waits for them, as the driver's does */
};

struct machine {
	pthread_mutex_t lock;
	int initialized;
	int count;
	int visible[MAX_DEVICES]; /* ordinal -> physical */
	int physical_count;
	int driver, mig, dmabuf, gdr, corrupt;
	long segment;
	char name[128];
	char bus[MAX_DEVICES][32];
	double memory;
	double rate[ENGINES], p2p, staged, pair_rate[MAX_DEVICES][MAX_DEVICES];
	int64_t latency;
	int reach[MAX_DEVICES][MAX_DEVICES];
	struct context contexts[MAX_DEVICES];
	size_t used[MAX_DEVICES];
	CUdeviceptr next_address[MAX_DEVICES];
	struct allocation *allocations;
	int fail_copy, fail_copy_after;
	int sticky; /* an error of the device that every later call reports */
};
extern struct machine M;
extern __thread CUcontext current;

/* config.c */
void configure(void);
void read_failures(void);
CUresult injected(const char *function);

/* streams.c */
int64_t now_ns(void);
CUresult stream_new(CUstream *out, CUcontext ctx);
void stream_submit(CUstream s, const struct op *op);
CUresult stream_drain(CUstream s);
void event_unref(CUevent e);

/* Every entry point: injected failures first, then initialisation. */
#define ENTER(name)                              \
	do {                                     \
		CUresult failed = injected(name); \
		if (failed)                      \
			return failed;           \
	} while (0)
/* The same where a context has to be current on this thread. */
#define ENTER_CONTEXT(name)                      \
	do {                                     \
		ENTER(name);                     \
		if (!current)                    \
			return INVALID_CONTEXT;  \
	} while (0)
#endif
