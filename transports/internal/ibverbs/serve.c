/* The target's timed loop. */
#define _GNU_SOURCE
#include "loop.h"
#include "mark.h"
#ifdef HV_HEADERS
#include <errno.h>

/* What the target must do for the loop that the peer has begun. */
static int begin_serving(struct hv_run *r)
{
	hv_group *g = r->g;
	const struct hv_loop *l = r->l;
	const struct hv_note *n = g->note[HV_BEGIN];
	if (n->op != (uint32_t)l->op || n->notify != (uint32_t)l->notify || n->streams != (uint32_t)l->streams || !n->echo != !l->echo ||
	    n->echo > HV_ECHO_MESSAGE || (n->echo == HV_ECHO_MARK && (!l->watched || l->op != HV_WRITE))) {
		hv_say(r, HV_REFUSE);
		return hv_fail(r, HV_STEP_DISAGREE, EPROTO);
	}
	r->echo = n->echo;
	r->out = (struct hv_layout){.ours = l->local, .theirs = l->remote + l->reply, .swap = 1};
	r->in = (struct hv_layout){.ours = l->local, .swap = 1};
	r->middle = r->last = IBV_WR_SEND;
	if (l->op == HV_WRITE) {
		r->middle = IBV_WR_RDMA_WRITE;
		r->last = r->echo == HV_ECHO_MESSAGE ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
	}
	r->empty = l->notify;
	r->hears = hv_uses_receives(r);
	r->empty_in = l->op != HV_SEND;
	r->receives = hv_receives_for(g, l, r->g->queue[0].stream, r->empty_in);
	r->depth = UINT32_MAX;
	r->signal_every = UINT32_MAX;
	if (r->echo && hv_all_single(r))
		r->shape = HV_ONE;
	hv_dress(r);
	if (r->echo == HV_ECHO_MARK)
		hv_clear_marks(r, l->local, 1);
	for (int s = 0; s < l->streams; s++)
		if (hv_receive(r, s))
			return -1;
	return hv_say(r, HV_READY);
}

/* Answers what has arrived. */
static int answer(struct hv_run *r)
{
	hv_group *g = r->g;
	int answers = r->l->notify || r->echo;
	for (int s = 0; s < r->l->streams; s++) {
		struct hv_queue *q = &g->queue[s];
		if (!answers)
			q->limit = q->started;
		if (r->echo == HV_ECHO_MARK && q->mark == NULL && q->started == q->limit && q->out.piece == q->out.end) {
			const struct hv_piece *p = hv_tail_of_next(&q->out);
			q->mark = (volatile uint8_t *)(uintptr_t)(r->l->local + p->remote + p->length - 1);
			q->mark_value = hv_mark_of(q->started);
		}
		if (hv_marked(q)) {
			q->mark = NULL;
			q->limit++;
		}
		if (hv_fill(r, s) || hv_receive(r, s))
			return -1;
		q->done = q->started;
		q->stream->done = q->started;
	}
	return 0;
}

/* The peer's loop has ended: what is left of the receives on both sides is used up. */
static int end_serving(struct hv_run *r)
{
	hv_group *g = r->g;
	r->closing = 1;
	r->progress = (int64_t)hv_now();
	if (!hv_uses_receives(r))
		return 0;
	hv_note_took(r, g->note[HV_END]);
	if (hv_say(r, HV_LEFT))
		return -1;
	while (g->heard[HV_FLUSH] != g->loop)
		if (hv_take_some(r, 0, 0, r->l->wait) < 0)
			return -1;
	if (hv_flush(r, g->note[HV_FLUSH]))
		return -1;
	while (!hv_emptied(r))
		if (hv_take_some(r, 0, 0, r->l->wait) < 0)
			return -1;
	return 0;
}

int hv_serve(hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop, struct hv_tally *tally,
	     struct hv_failure *why)
{
	struct hv_run run, *r = &run;
	if (hv_prepare(r, g, l, streams, stop, tally, why))
		return -1;
	uint32_t serving = 0, before = g->loop;
	int64_t stall = r->stall;
	r->serves = 1;
	r->batch = 1;
	r->post_ops = UINT32_MAX;
	for (int s = 0; s < l->streams; s++)
		g->queue[s].limit = 0;
	for (uint32_t turns = 0;; turns++) {
		int active = serving && (l->notify || r->echo || l->op == HV_SEND), n = 0;
		/* While nothing is asked of it the target waits without a limit: only the stop word tells that the peer is gone. */
		r->stall = 0;
		if (active && r->echo == HV_ECHO_MARK) {
			if (answer(r))
				return -1;
			if (turns % 256 != 0)
				continue;
			struct ibv_wc wc[HV_POLL];
			n = ibv_poll_cq(g->cq, HV_POLL, wc);
			if (n < 0)
				return hv_fail(r, HV_STEP_POLL, EIO);
			for (int i = 0; i < n; i++)
				if (hv_take_in(r, &wc[i])) {
					hv_fail_rest(r, &wc[i + 1], n - i - 1);
					return -1;
				}
		} else {
			n = hv_take_some(r, 0, 1, active ? l->wait : HV_BLOCK);
			if (n < 0)
				return -1;
			if (active && answer(r))
				return -1;
		}
		if (n == 0 && hv_stopped(r)) {
			g->stale = serving && !hv_emptied(r);
			return 0;
		}
		if (g->heard[HV_BEGIN] > before && g->heard[HV_BEGIN] != serving) {
			serving = g->loop = g->heard[HV_BEGIN];
			if (begin_serving(r))
				return -1;
		}
		if (serving && g->heard[HV_END] == serving) {
			r->stall = stall;
			return end_serving(r);
		}
	}
}
#endif
