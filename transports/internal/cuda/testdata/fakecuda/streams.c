#include "fake.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* The tail of a copy lands when its time is over, so that a caller that does
 * not wait is caught by the check of the payload. */
#define TAIL 64

int64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void sleep_until(int64_t t)
{
	struct timespec ts = { t / 1000000000, t % 1000000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

static int64_t later(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int copy_fails(void)
{
	int failed = 0;

	pthread_mutex_lock(&M.lock);
	if (M.fail_copy && M.fail_copy_after-- <= 0) {
		M.sticky = M.fail_copy;
		failed = 1;
	}
	pthread_mutex_unlock(&M.lock);
	return failed;
}

static void move(const struct op *op, size_t from, size_t n)
{
	if (op->kind == FILL)
		memset(op->to + from, op->value, n);
	else
		memmove(op->to + from, op->from + from, n);
}

static void run_copy(CUstream s, const struct op *op)
{
	struct engine *a = op->first, *b = op->second;
	size_t tail = op->n < TAIL ? op->n : TAIL;
	int64_t start, end;

	if (copy_fails())
		return;
	if (b && b < a) { /* one order for all threads */
		struct engine *swap = a;
		a = b;
		b = swap;
	}
	pthread_mutex_lock(&a->lock);
	if (b)
		pthread_mutex_lock(&b->lock);
	start = later(later(op->submitted, s->at), later(a->busy_until, b ? b->busy_until : 0));
	move(op, 0, op->n - tail);
	if (op->rate > 0 || M.latency) {
		end = start + M.latency + (op->rate > 0 ? (int64_t)((double)op->n / op->rate * 1e9) : 0);
		sleep_until(end);
	} else {
		end = later(start, now_ns());
	}
	move(op, op->n - tail, tail);
	if (op->corrupt && op->n >= 16)
		memset(op->to + op->n / 2 / 16 * 16, 0, 16);
	a->busy_until = end;
	if (b) {
		b->busy_until = end;
		pthread_mutex_unlock(&b->lock);
	}
	pthread_mutex_unlock(&a->lock);
	s->at = end;
}

static void run_record(CUstream s, const struct op *op)
{
	CUevent e = op->event;

	s->at = later(s->at, op->submitted);
	pthread_mutex_lock(&e->lock);
	if (op->generation > e->done) {
		e->done = op->generation;
		e->at = s->at;
	}
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&e->lock);
	event_unref(e);
}

static void run_wait(CUstream s, const struct op *op)
{
	CUevent e = op->event;

	pthread_mutex_lock(&e->lock);
	while (e->done < op->generation)
		pthread_cond_wait(&e->changed, &e->lock);
	s->at = later(s->at, e->at);
	pthread_mutex_unlock(&e->lock);
	event_unref(e);
}

static void use(const struct op *op, int count)
{
	int i;

	for (i = 0; i < 2; i++)
		if (op->uses[i])
			__atomic_add_fetch(&op->uses[i]->users, count, __ATOMIC_ACQ_REL);
}

static void *stream_thread(void *arg)
{
	CUstream s = arg;

	for (;;) {
		struct op *op;

		pthread_mutex_lock(&s->lock);
		while (!s->head)
			pthread_cond_wait(&s->changed, &s->lock);
		op = s->head;
		s->head = op->next;
		if (!s->head)
			s->tail = &s->head;
		pthread_mutex_unlock(&s->lock);

		switch (op->kind) {
		case COPY:
		case FILL:
			run_copy(s, op);
			use(op, -1);
			break;
		case RECORD:
			run_record(s, op);
			break;
		case WAIT_EVENT:
			run_wait(s, op);
			break;
		case QUIT:
			free(op);
			free(s);
			return NULL;
		}
		free(op);
		pthread_mutex_lock(&s->lock);
		s->done++;
		pthread_cond_broadcast(&s->changed);
		pthread_mutex_unlock(&s->lock);
	}
}

void stream_submit(CUstream s, const struct op *op)
{
	struct op *copy = malloc(sizeof *copy);

	*copy = *op;
	copy->next = NULL;
	copy->submitted = now_ns();
	use(copy, 1);
	if (copy->event) {
		pthread_mutex_lock(&copy->event->lock);
		copy->event->refs++;
		if (copy->kind == RECORD)
			copy->event->recorded++;
		copy->generation = copy->event->recorded;
		pthread_mutex_unlock(&copy->event->lock);
	}
	pthread_mutex_lock(&s->lock);
	*s->tail = copy;
	s->tail = &copy->next;
	s->submitted++;
	pthread_cond_broadcast(&s->changed);
	pthread_mutex_unlock(&s->lock);
}

static CUresult sticky(void)
{
	CUresult r;

	pthread_mutex_lock(&M.lock);
	r = M.sticky;
	pthread_mutex_unlock(&M.lock);
	return r;
}

CUresult stream_drain(CUstream s)
{
	uint64_t until;

	pthread_mutex_lock(&s->lock);
	until = s->submitted;
	while (s->done < until)
		pthread_cond_wait(&s->changed, &s->lock);
	pthread_mutex_unlock(&s->lock);
	return sticky();
}

CUresult stream_new(CUstream *out, CUcontext ctx)
{
	CUstream s = calloc(1, sizeof *s);
	pthread_attr_t attr;

	if (!s)
		return OUT_OF_MEMORY;
	s->ctx = ctx;
	s->tail = &s->head;
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->changed, NULL);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_attr_setstacksize(&attr, 256 * 1024);
	if (pthread_create(&s->thread, &attr, stream_thread, s)) {
		free(s);
		return OUT_OF_MEMORY;
	}
	*out = s;
	return OK;
}

CUresult cuStreamCreate(CUstream *s, unsigned flags)
{
	ENTER_CONTEXT("cuStreamCreate");
	if (flags > 1)
		return INVALID_VALUE;
	return stream_new(s, current);
}

CUresult cuStreamDestroy_v2(CUstream s)
{
	struct op quit = { .kind = QUIT };

	ENTER_CONTEXT("cuStreamDestroy_v2");
	if (!s)
		return INVALID_HANDLE;
	stream_submit(s, &quit); /* what is queued runs to its end first */
	return OK;
}

static CUstream resolve(CUstream s)
{
	if (s)
		return s;
	pthread_mutex_lock(&M.lock);
	if (!current->default_stream)
		stream_new(&current->default_stream, current);
	s = current->default_stream;
	pthread_mutex_unlock(&M.lock);
	return s;
}

CUresult cuStreamSynchronize(CUstream s)
{
	ENTER_CONTEXT("cuStreamSynchronize");
	return stream_drain(resolve(s));
}

CUresult cuStreamQuery(CUstream s)
{
	int busy;

	ENTER_CONTEXT("cuStreamQuery");
	s = resolve(s);
	pthread_mutex_lock(&s->lock);
	busy = s->done < s->submitted;
	pthread_mutex_unlock(&s->lock);
	return busy ? NOT_READY : sticky();
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned flags)
{
	struct op op = { .kind = WAIT_EVENT, .event = e };

	ENTER_CONTEXT("cuStreamWaitEvent");
	if (!e || flags)
		return e ? INVALID_VALUE : INVALID_HANDLE;
	stream_submit(resolve(s), &op);
	return OK;
}

CUresult cuEventCreate(CUevent *out, unsigned flags)
{
	CUevent e;

	ENTER_CONTEXT("cuEventCreate");
	e = calloc(1, sizeof *e);
	if (!e)
		return OUT_OF_MEMORY;
	e->refs = 1;
	e->ctx = current;
	e->timed = !(flags & 2);
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->changed, NULL);
	*out = e;
	return OK;
}

void event_unref(CUevent e)
{
	int last;

	pthread_mutex_lock(&e->lock);
	last = --e->refs == 0;
	pthread_mutex_unlock(&e->lock);
	if (last)
		free(e);
}

CUresult cuEventDestroy_v2(CUevent e)
{
	ENTER_CONTEXT("cuEventDestroy_v2");
	if (!e)
		return INVALID_HANDLE;
	event_unref(e);
	return OK;
}

CUresult cuEventRecord(CUevent e, CUstream s)
{
	struct op op = { .kind = RECORD, .event = e };

	ENTER_CONTEXT("cuEventRecord");
	s = resolve(s);
	if (!e || e->ctx != s->ctx)
		return INVALID_HANDLE;
	stream_submit(s, &op);
	return OK;
}

CUresult cuEventQuery(CUevent e)
{
	int ready;

	ENTER_CONTEXT("cuEventQuery");
	if (!e)
		return INVALID_HANDLE;
	pthread_mutex_lock(&e->lock);
	ready = e->done >= e->recorded;
	pthread_mutex_unlock(&e->lock);
	return ready ? OK : NOT_READY;
}

CUresult cuEventSynchronize(CUevent e)
{
	uint64_t until;

	ENTER_CONTEXT("cuEventSynchronize");
	if (!e)
		return INVALID_HANDLE;
	pthread_mutex_lock(&e->lock);
	until = e->recorded;
	while (e->done < until)
		pthread_cond_wait(&e->changed, &e->lock);
	pthread_mutex_unlock(&e->lock);
	return sticky();
}

CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
	ENTER_CONTEXT("cuEventElapsedTime");
	if (!from || !to || !from->recorded || !to->recorded || !from->timed || !to->timed)
		return INVALID_HANDLE;
	if (from->done < from->recorded || to->done < to->recorded)
		return NOT_READY;
	*ms = (float)((double)(to->at - from->at) / 1e6);
	return OK;
}
