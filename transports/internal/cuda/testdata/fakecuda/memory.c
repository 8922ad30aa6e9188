#include "fake.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define DEVICE_GRAIN (2ull << 20) /* what a real driver maps at once */
#define HOST_PAGE 4096ull

static size_t round_up(size_t n, size_t grain)
{
	return (n + grain - 1) / grain * grain;
}

/* The allocation that holds [p, p+n), or NULL. M.lock is held. */
static struct allocation *holding(CUdeviceptr p, size_t n)
{
	struct allocation *a;

	for (a = M.allocations; a; a = a->next)
		if (p >= a->base && p - a->base <= a->n && n <= a->n - (p - a->base))
			return a;
	return NULL;
}

static struct allocation *find(CUdeviceptr p, size_t n)
{
	struct allocation *a;

	pthread_mutex_lock(&M.lock);
	a = holding(p, n);
	pthread_mutex_unlock(&M.lock);
	return a;
}

static void add(struct allocation *a)
{
	pthread_mutex_lock(&M.lock);
	a->next = M.allocations;
	M.allocations = a;
	pthread_mutex_unlock(&M.lock);
}

/* Takes the allocation that starts at p out of the list. */
static struct allocation *take(CUdeviceptr p, int host)
{
	struct allocation **at, *a = NULL;

	pthread_mutex_lock(&M.lock);
	for (at = &M.allocations; *at; at = &(*at)->next)
		if ((*at)->base == p && ((*at)->ctx == NULL) == host) {
			a = *at;
			*at = a->next;
			break;
		}
	pthread_mutex_unlock(&M.lock);
	while (a && __atomic_load_n(&a->users, __ATOMIC_ACQUIRE))
		usleep(100);
	return a;
}

CUresult cuMemAlloc_v2(CUdeviceptr *p, size_t n)
{
	struct allocation *a;
	int d;

	ENTER_CONTEXT("cuMemAlloc_v2");
	if (!n)
		return INVALID_VALUE;
	d = current->physical;
	a = calloc(1, sizeof *a);
	a->n = round_up(n, HOST_PAGE);
	a->ctx = current;
	pthread_mutex_lock(&M.lock);
	if ((double)M.used[d] + (double)a->n > M.memory) {
		pthread_mutex_unlock(&M.lock);
		free(a);
		return OUT_OF_MEMORY;
	}
	M.used[d] += a->n;
	a->base = M.next_address[d];
	M.next_address[d] += round_up(a->n, DEVICE_GRAIN) + DEVICE_GRAIN;
	pthread_mutex_unlock(&M.lock);
	a->fd = memfd_create("fakecuda", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	a->bytes = MAP_FAILED;
	if (a->fd >= 0 && !ftruncate(a->fd, (off_t)a->n))
		a->bytes = mmap(NULL, a->n, PROT_READ | PROT_WRITE, MAP_SHARED, a->fd, 0);
	if (a->bytes == MAP_FAILED) {
		if (a->fd >= 0)
			close(a->fd);
		free(a);
		return OUT_OF_MEMORY;
	}
	add(a);
	*p = a->base;
	return OK;
}

CUresult cuMemFree_v2(CUdeviceptr p)
{
	struct allocation *a;

	ENTER_CONTEXT("cuMemFree_v2");
	a = take(p, 0);
	if (!a)
		return INVALID_VALUE;
	pthread_mutex_lock(&M.lock);
	M.used[a->ctx->physical] -= a->n;
	pthread_mutex_unlock(&M.lock);
	munmap(a->bytes, a->n);
	close(a->fd);
	free(a);
	return OK;
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
	ENTER_CONTEXT("cuMemGetInfo_v2");
	*total = (size_t)M.memory;
	*available = *total - M.used[current->physical];
	return OK;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *n, CUdeviceptr p)
{
	struct allocation *a;

	ENTER_CONTEXT("cuMemGetAddressRange_v2");
	a = find(p, 1);
	if (!a || !a->ctx)
		return INVALID_VALUE;
	if (base)
		*base = a->base;
	if (n)
		*n = a->n;
	return OK;
}

CUresult cuMemHostAlloc(void **p, size_t n, unsigned flags)
{
	struct allocation *a;

	ENTER_CONTEXT("cuMemHostAlloc");
	if (!n || flags > 7)
		return INVALID_VALUE;
	a = calloc(1, sizeof *a);
	a->n = round_up(n, HOST_PAGE);
	a->fd = -1;
	a->bytes = mmap(NULL, a->n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (a->bytes == MAP_FAILED) {
		free(a);
		return OUT_OF_MEMORY;
	}
	a->base = (CUdeviceptr)(uintptr_t)a->bytes;
	add(a);
	*p = a->bytes;
	return OK;
}

CUresult cuMemFreeHost(void *p)
{
	struct allocation *a;

	ENTER_CONTEXT("cuMemFreeHost");
	a = take((CUdeviceptr)(uintptr_t)p, 1);
	if (!a)
		return INVALID_VALUE;
	munmap(a->bytes, a->n);
	free(a);
	return OK;
}

CUresult cuMemHostRegister_v2(void *p, size_t n, unsigned flags)
{
	struct allocation *a;

	ENTER_CONTEXT("cuMemHostRegister_v2");
	if (!p || !n || flags > 15)
		return INVALID_VALUE;
	if (find((CUdeviceptr)(uintptr_t)p, 1))
		return HOST_MEMORY_ALREADY_REGISTERED;
	a = calloc(1, sizeof *a);
	a->base = (CUdeviceptr)(uintptr_t)p;
	a->bytes = p;
	a->n = n;
	a->fd = -1;
	a->registered = 1;
	add(a);
	return OK;
}

CUresult cuMemHostUnregister(void *p)
{
	struct allocation *a;

	ENTER_CONTEXT("cuMemHostUnregister");
	a = take((CUdeviceptr)(uintptr_t)p, 1);
	if (!a)
		return HOST_MEMORY_NOT_REGISTERED;
	free(a);
	return OK;
}

static CUresult queue(CUstream s, struct op *op, int synchronous)
{
	if (!s) {
		CUresult r;

		pthread_mutex_lock(&M.lock);
		r = current->default_stream ? OK : stream_new(&current->default_stream, current);
		s = current->default_stream;
		pthread_mutex_unlock(&M.lock);
		if (r)
			return r;
	}
	stream_submit(s, op);
	return synchronous ? stream_drain(s) : OK;
}

static char *at(const struct allocation *a, CUdeviceptr p)
{
	return a->bytes + (p - a->base);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr d, const void *h, size_t n, CUstream s)
{
	struct allocation *to, *from;
	struct op op = { .kind = COPY, .n = n };

	ENTER_CONTEXT("cuMemcpyHtoDAsync_v2");
	to = find(d, n);
	if (!to || !to->ctx || !h)
		return INVALID_VALUE;
	from = find((CUdeviceptr)(uintptr_t)h, n);
	op.to = at(to, d);
	op.from = h;
	op.uses[0] = to;
	op.uses[1] = from;
	op.first = &to->ctx->engines[H2D];
	op.rate = M.rate[H2D];
	/* Pageable memory makes the call wait: that is how a forgotten pin
	 * shows itself on hardware too. */
	return queue(s, &op, !from);
}

CUresult cuMemcpyDtoHAsync_v2(void *h, CUdeviceptr d, size_t n, CUstream s)
{
	struct allocation *to, *from;
	struct op op = { .kind = COPY, .n = n };

	ENTER_CONTEXT("cuMemcpyDtoHAsync_v2");
	from = find(d, n);
	if (!from || !from->ctx || !h)
		return INVALID_VALUE;
	to = find((CUdeviceptr)(uintptr_t)h, n);
	op.to = h;
	op.from = at(from, d);
	op.uses[0] = to;
	op.uses[1] = from;
	op.first = &from->ctx->engines[D2H];
	op.rate = M.rate[D2H];
	return queue(s, &op, !to);
}

/* Whether the context that queues a copy may reach the other end of it. */
static int direct(CUcontext to, CUcontext from)
{
	if (current == from)
		return (from->peers >> to->physical) & 1;
	return current == to && (to->peers >> from->physical) & 1;
}

static CUresult between(struct allocation *to, CUdeviceptr d, struct allocation *from, CUdeviceptr f, size_t n, CUstream s)
{
	struct op op = { .kind = COPY, .n = n, .to = at(to, d), .from = at(from, f), .uses = { to, from } };
	CUcontext tc = to->ctx, fc = from->ctx;

	if (tc == fc) {
		op.first = &tc->engines[D2D];
		op.rate = M.rate[D2D];
	} else if (direct(tc, fc)) {
		op.first = &fc->engines[LINK_OUT];
		op.second = &tc->engines[LINK_IN];
		op.rate = M.pair_rate[fc->physical][tc->physical];
		if (!op.rate)
			op.rate = M.p2p;
		op.corrupt = M.corrupt;
	} else { /* through the host */
		op.first = &fc->engines[D2H];
		op.second = &tc->engines[H2D];
		op.rate = M.staged;
	}
	return queue(s, &op, 0);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr d, CUdeviceptr f, size_t n, CUstream s)
{
	struct allocation *to, *from;

	ENTER_CONTEXT("cuMemcpyDtoDAsync_v2");
	to = find(d, n);
	from = find(f, n);
	if (!to || !from || !to->ctx || !from->ctx)
		return INVALID_VALUE;
	if (to->ctx != from->ctx && !direct(to->ctx, from->ctx))
		return PEER_ACCESS_NOT_ENABLED;
	return between(to, d, from, f, n, s);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr d, CUcontext dc, CUdeviceptr f, CUcontext fc, size_t n, CUstream s)
{
	struct allocation *to, *from;

	ENTER_CONTEXT("cuMemcpyPeerAsync");
	to = find(d, n);
	from = find(f, n);
	if (!to || !from || to->ctx != dc || from->ctx != fc)
		return INVALID_VALUE;
	return between(to, d, from, f, n, s);
}

CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char v, size_t n, CUstream s)
{
	struct allocation *a;
	struct op op = { .kind = FILL, .n = n, .value = v };

	ENTER_CONTEXT("cuMemsetD8Async");
	a = find(p, n);
	if (!a || !a->ctx)
		return INVALID_VALUE;
	op.to = at(a, p);
	op.uses[0] = a;
	op.first = &a->ctx->engines[D2D];
	op.rate = M.rate[D2D];
	return queue(s, &op, 0);
}

CUresult cuPointerSetAttribute(const void *v, int attribute, CUdeviceptr p)
{
	struct allocation *a;

	ENTER_CONTEXT("cuPointerSetAttribute");
	a = find(p, 1);
	if (!a || !a->ctx || attribute != 6) /* SYNC_MEMOPS */
		return INVALID_VALUE;
	a->sync_memops = *(const int *)v;
	return OK;
}

/* The descriptor is the memfd itself, so a range has to start where its
 * allocation starts: a memfd cannot be cut. Hardware takes any whole pages. */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr p, size_t n, int type, unsigned long long flags)
{
	struct allocation *a;
	int fd;

	ENTER_CONTEXT("cuMemGetHandleForAddressRange");
	if (!M.dmabuf || type != 1)
		return NOT_SUPPORTED;
	if ((p | n) & (HOST_PAGE - 1) || !n)
		return INVALID_VALUE;
	if (flags && M.driver < 12080)
		return INVALID_VALUE;
	a = find(p, n);
	if (!a || !a->ctx || a->base != p)
		return INVALID_VALUE;
	fd = M.segment ? memfd_create("segment", 0) : dup(a->fd);
	if (fd < 0 || (M.segment && ftruncate(fd, M.segment)))
		return OUT_OF_MEMORY;
	*(int *)handle = fd;
	return OK;
}

CUresult cuFlushGPUDirectRDMAWrites(int target, int scope)
{
	ENTER_CONTEXT("cuFlushGPUDirectRDMAWrites");
	return target || (scope != 100 && scope != 200) ? INVALID_VALUE : OK;
}
