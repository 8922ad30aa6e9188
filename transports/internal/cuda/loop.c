/* The native loops: from the first post to the last confirmation nothing of Go
 * runs. */
#define _GNU_SOURCE
#include "shim.h"
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

int64_t hb_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int stopped(const uint32_t *stop)
{
	return stop && __atomic_load_n(stop, __ATOMIC_ACQUIRE);
}

static hb_result copy_piece(struct hb_cuda *t, const struct hb_way *w, const struct hb_piece *p, hb_stream s)
{
	const struct hb_side *from = w->read ? &w->remote : &w->local, *to = w->read ? &w->local : &w->remote;
	uint64_t a = from->address + (w->read ? p->remote : p->local);
	uint64_t b = to->address + (w->read ? p->local : p->remote);

	if (!from->ctx)
		return t->cuMemcpyHtoDAsync_v2(b, (const void *)(uintptr_t)a, p->n, s);
	if (!to->ctx)
		return t->cuMemcpyDtoHAsync_v2((void *)(uintptr_t)b, a, p->n, s);
	if (from->ctx == to->ctx)
		return t->cuMemcpyDtoDAsync_v2(b, a, p->n, s);
	return t->cuMemcpyPeerAsync(b, to->ctx, a, from->ctx, p->n, s);
}

hb_result hb_copy_list(struct hb_cuda *t, const struct hb_way *way, const struct hb_piece *pieces,
	size_t count, hb_event before, hb_event after, hb_stream s)
{
	hb_result r;
	size_t i;

	if (before && (r = t->cuEventRecord(before, s)))
		return r;
	for (i = 0; i < count; i++)
		if ((r = copy_piece(t, way, &pieces[i], s)))
			return r;
	return after ? t->cuEventRecord(after, s) : 0;
}

/* cuEventSynchronize would block for ever behind a copy that never ends, and
 * nothing can call it back. Looking every ten microseconds costs a sleeping
 * thread's wake-up, as the interrupt would. */
hb_result hb_wait_event(struct hb_cuda *t, hb_event e, const struct hb_patience *p)
{
	const struct timespec nap = { 0, 10000 };
	int64_t begun = 0, now;
	hb_result r;

	while ((r = t->cuEventQuery(e)) == HB_NOT_READY) {
		now = hb_now();
		if (!begun)
			begun = now;
		if (stopped(p->stop) || (p->stall_ns && now - begun > p->stall_ns))
			return HB_NOT_READY;
		if (p->spin_ns >= 0 && now - begun >= p->spin_ns)
			nanosleep(&nap, NULL);
	}
	return r;
}

static size_t first_piece(const struct hb_loop *l, size_t op)
{
	return op ? l->ends[op - 1] : 0;
}

static uint64_t op_bytes(const struct hb_loop *l, size_t op)
{
	uint64_t n = 0;
	size_t i;

	for (i = first_piece(l, op); i < l->ends[op]; i++)
		n += l->pieces[i].n;
	return n;
}

static hb_result post(struct hb_cuda *t, const struct hb_loop *l, size_t op, hb_event e)
{
	size_t first = first_piece(l, op);

	return hb_copy_list(t, &l->way, l->pieces + first, l->ends[op] - first, NULL, e, l->stream);
}

/* Whether no further operation may be posted. A round lasts at least one
 * operation: a thread that got its processor after the deadline does one. */
static int over(struct hb_loop *l, uint64_t posted)
{
	if (l->count && posted >= l->count)
		return 1;
	if (stopped(l->patience.stop))
		l->end = HB_STOPPED;
	else if (l->deadline && posted && hb_now() >= l->deadline)
		l->end = HB_DEADLINE;
	else if (l->stamps_cap && posted / l->every >= l->stamps_cap)
		l->end = HB_FULL;
	else
		return 0;
	return 1;
}

/* Tells the target that an operation has landed and waits for its word. */
static hb_result notify(struct hb_loop *l)
{
	struct pollfd reply = { .fd = l->reply_fd, .events = POLLIN };
	int64_t begun = hb_now();
	uint64_t one = 1;

	while (write(l->notify_fd, &one, sizeof one) < 0)
		if (errno != EINTR && errno != EAGAIN)
			return 999;
	for (;;) {
		int64_t waited = hb_now() - begun;
		int spin = l->patience.spin_ns < 0 || waited < l->patience.spin_ns;

		if (read(l->reply_fd, &one, sizeof one) == sizeof one)
			return 0;
		if (stopped(l->patience.stop) || (l->patience.stall_ns && waited > l->patience.stall_ns))
			return HB_NOT_READY;
		if (!spin)
			poll(&reply, 1, 10);
	}
}

static void confirm(struct hb_loop *l, uint64_t bytes)
{
	int64_t now = hb_now();

	if (!l->done)
		l->first_use = now - l->start;
	l->last = now;
	l->done++;
	l->bytes += bytes;
	if (l->done % l->every == 0 && l->stamps_len < l->stamps_cap)
		l->stamps[l->stamps_len++] = now;
}

/* The last completion always has a stamp. */
static void finish(struct hb_loop *l)
{
	if (l->done % l->every && l->stamps_len < l->stamps_cap)
		l->stamps[l->stamps_len++] = l->last;
}

/* Waits for the oldest operation. What is in flight has to land before memory
 * is given back, so the stop word does not end this wait: only a stall does. */
static hb_result reap(struct hb_cuda *t, struct hb_loop *l)
{
	struct hb_patience p = l->patience;
	hb_result r;

	p.stop = NULL;
	r = hb_wait_event(t, l->events[l->done % l->depth], &p);
	if (!r && l->notify)
		r = notify(l);
	if (r == HB_NOT_READY) {
		l->end = stopped(l->patience.stop) ? HB_STOPPED : HB_STALLED;
		return r;
	}
	if (!r)
		confirm(l, op_bytes(l, l->done % l->operations));
	return r;
}

static int due(const struct hb_loop *l, uint64_t posted_bytes)
{
	return !l->bytes_per_ns || (double)(hb_now() - l->start) * l->bytes_per_ns >= (double)posted_bytes;
}

hb_result hb_stream_loop(struct hb_cuda *t, struct hb_loop *l)
{
	const struct timespec nap = { 0, 10000 };
	uint64_t posted = 0, posted_bytes = 0;
	hb_result r = 0;
	int last = 0;

	l->start = hb_now();
	for (;;) {
		while (!last && posted - l->done < l->depth) {
			if ((last = over(l, posted)))
				break;
			if (!due(l, posted_bytes)) {
				if (posted != l->done && t->cuEventQuery(l->events[l->done % l->depth]) == 0)
					break;
				nanosleep(&nap, NULL);
				continue;
			}
			r = post(t, l, posted % l->operations, l->events[posted % l->depth]);
			if (r)
				goto failed;
			posted_bytes += op_bytes(l, posted % l->operations);
			posted++;
		}
		if (l->done == posted && last)
			break;
		if (l->done != posted && (r = reap(t, l)))
			goto failed;
	}
	finish(l);
	return 0;
failed:
	finish(l);
	if (l->end != HB_STALLED)
		t->cuStreamSynchronize(l->stream);
	return r == HB_NOT_READY && l->end == HB_STOPPED ? 0 : r;
}

static hb_result echo(struct hb_cuda *t, const struct hb_loop *l, const struct hb_echo *back, size_t op)
{
	size_t first = first_piece(l, op);
	hb_result r = t->cuCtxSetCurrent(back->ctx);

	return r ? r : hb_copy_list(t, &back->way, l->pieces + first, l->ends[op] - first, NULL, back->event, back->stream);
}

hb_result hb_pingpong_loop(struct hb_cuda *t, struct hb_loop *l, const struct hb_echo *back, hb_ctx ctx)
{
	struct hb_patience p = l->patience;
	hb_result r = 0;

	p.stop = NULL;
	l->start = hb_now();
	while (!over(l, l->done)) {
		size_t op = l->done % l->operations;

		r = post(t, l, op, l->events[0]);
		if (!r)
			r = hb_wait_event(t, l->events[0], &p);
		if (!r)
			r = echo(t, l, back, op);
		if (!r)
			r = hb_wait_event(t, back->event, &p);
		if (!r)
			r = t->cuCtxSetCurrent(ctx);
		if (r)
			break;
		confirm(l, op_bytes(l, op));
	}
	t->cuCtxSetCurrent(ctx);
	finish(l);
	if (r == HB_NOT_READY)
		l->end = HB_STALLED;
	return r;
}
