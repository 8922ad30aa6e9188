/* The initiator's timed loop. */
#define _GNU_SOURCE
#include "loop.h"
#include "mark.h"
#ifdef HV_HEADERS
#include <errno.h>
#include <string.h>

/* Tells the target to begin, and waits until it says that it is ready: with its receives posted and its marks cleared. */
static int open_loop(struct hv_run *r)
{
	hv_group *g = r->g;
	g->loop++;
	if (r->echo == HV_ECHO_MARK)
		hv_clear_marks(r, r->l->local + r->l->reply, 0);
	for (int s = 0; s < r->l->streams; s++)
		if (hv_receive(r, s))
			return -1;
	if (hv_say(r, HV_BEGIN))
		return -1;
	while (g->heard[HV_READY] != g->loop) {
		if (g->heard[HV_REFUSE] == g->loop)
			return hv_fail(r, HV_STEP_DISAGREE, EPROTO);
		if (hv_take_some(r, 0, 0, r->l->wait) < 0) {
			if (r->why->step == HV_STEP_STALL)
				r->why->step = HV_STEP_ABSENT;
			return -1;
		}
	}
	return 0;
}

static int close_loop(struct hv_run *r)
{
	hv_group *g = r->g;
	r->closing = 1;
	r->progress = (int64_t)hv_now();
	if (hv_say(r, HV_END))
		return -1;
	if (hv_uses_receives(r)) {
		while (g->heard[HV_LEFT] != g->loop)
			if (hv_take_some(r, 0, 0, r->l->wait) < 0)
				return -1;
		hv_note_took(r, g->note[HV_LEFT]);
		if (hv_say(r, HV_FLUSH) || hv_flush(r, g->note[HV_LEFT]))
			return -1;
		while (!hv_emptied(r))
			if (hv_take_some(r, 0, 0, r->l->wait) < 0)
				return -1;
	}
	while (g->queue[g->queues].used > 0)
		if (hv_take_some(r, 0, 0, r->l->wait) < 0)
			return -1;
	return 0;
}

/* Ping-pong by polled memory: looks at the bytes that answers change, and now and then at the clock and the queue. */
static int watch(struct hv_run *r)
{
	hv_group *g = r->g;
	for (uint32_t spins = 1;; spins++) {
		int moved = 0, full = 0;
		for (int s = 0; s < r->l->streams; s++) {
			struct hv_queue *q = &g->queue[s];
			full |= q->used > g->send_work / 2 || q->out.piece != q->out.end;
			if (!hv_marked(q))
				continue;
			q->mark = NULL;
			r->now = r->progress = (int64_t)hv_now();
			hv_complete(r, q, 1);
			moved = 1;
		}
		if (moved && !full)
			return 0;
		if (full || spins % 1024 == 0) {
			struct ibv_wc wc[HV_POLL];
			int n = ibv_poll_cq(g->cq, HV_POLL, wc);
			r->tally->polls++;
			if (n < 0)
				return hv_fail(r, HV_STEP_POLL, EIO);
			for (int i = 0; i < n; i++)
				if (hv_take_in(r, &wc[i])) {
					hv_fail_rest(r, &wc[i + 1], n - i - 1);
					return -1;
				}
			if (n > 0 || moved)
				return 0;
		}
		if (spins % 64 != 0)
			continue;
		r->now = (int64_t)hv_now();
		if (hv_stopped(r) && r->stall > 1000000000)
			r->stall = 1000000000;
		if (r->stall && r->now - r->progress > r->stall)
			return hv_fail(r, HV_STEP_STALL, ETIMEDOUT);
	}
}

static int advance(struct hv_run *r)
{
	hv_group *g = r->g;
	const struct hv_loop *l = r->l;
	if (r->shape == HV_ONE && l->streams == 1 && !l->notify)
		return hv_turns(r);
	for (;;) {
		int active = 0, outstanding = 0;
		int64_t due = 0;
		if (!r->ending && ((l->deadline && r->now >= l->deadline) || hv_stopped(r))) {
			r->ending = 1;
			for (int s = 0; s < l->streams; s++)
				hv_wind_up(r, &g->queue[s]);
		}
		for (int s = 0; s < l->streams; s++) {
			struct hv_queue *q = &g->queue[s];
			if (r->echo == HV_ECHO_MARK && q->started == q->done && q->started < q->limit &&
			    (l->bytes_per_second <= 0 || r->ending || r->now >= q->due))
				hv_lay_mark(r, q);
			if (hv_fill(r, s) || hv_receive(r, s))
				return -1;
			if (q->done >= q->limit)
				continue;
			active = 1;
			if (q->started > q->done)
				outstanding = 1;
			else if (due == 0 || q->due < due)
				due = q->due;
		}
		if (!active)
			return 0;
		if (outstanding && r->echo == HV_ECHO_MARK) {
			if (watch(r))
				return -1;
			continue;
		}
		int64_t stall = r->stall;
		if (!outstanding) {
			r->stall = 0;
			if (l->deadline && l->deadline < due)
				due = l->deadline;
		}
		int n = hv_take_some(r, due, !outstanding, l->wait);
		if (!outstanding) {
			r->stall = stall;
			r->progress = r->now;
		}
		if (n < 0)
			return -1;
	}
}

int hv_initiate(hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop, struct hv_tally *tally,
		struct hv_failure *why)
{
	struct hv_run run, *r = &run;
	if (hv_prepare(r, g, l, streams, stop, tally, why))
		return -1;
	int tells = l->notify || r->echo == HV_ECHO_MESSAGE;
	r->out = (struct hv_layout){.ours = l->local, .theirs = l->remote};
	r->in = (struct hv_layout){.ours = l->local + l->reply};
	switch (l->op) {
	case HV_WRITE:
		r->middle = IBV_WR_RDMA_WRITE;
		r->last = tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
		break;
	case HV_READ:
		r->middle = r->last = IBV_WR_RDMA_READ;
		r->extra = l->notify;
		break;
	default:
		r->middle = r->last = IBV_WR_SEND;
	}
	r->hears = l->notify || r->echo == HV_ECHO_MESSAGE;
	r->empty_in = !(l->op == HV_SEND && r->echo);
	r->by_send = !l->notify && !r->echo;
	r->depth = r->echo ? 1 : l->depth;
	r->signal_every = !r->by_send ? UINT32_MAX : l->signal_every < 1 ? 1 : l->signal_every < r->depth ? l->signal_every : r->depth;
	if (!r->extra && l->bytes_per_second <= 0 && hv_all_single(r))
		r->shape = r->depth == 1 ? HV_ONE : HV_SINGLES;
	hv_dress(r);
	r->receives = hv_receives_for(g, l, streams, r->empty_in);
	if (hv_stopped(r))
		return 0;
	if (open_loop(r))
		return -1;
	memset(tally, 0, sizeof *tally);
	r->now = r->progress = (int64_t)hv_now();
	for (int s = 0; s < l->streams; s++)
		g->queue[s].due = r->now;
	if (advance(r))
		return -1;
	struct hv_tally during = *tally;
	int status = close_loop(r);
	*tally = during;
	return status;
}

#endif
