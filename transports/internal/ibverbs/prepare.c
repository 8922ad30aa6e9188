/* Before a loop: what it needs, and what may be told from its lists. */
#define _GNU_SOURCE
#include "loop.h"
#ifdef HV_HEADERS
#include <errno.h>
#include <string.h>

/* Receives kept posted. Twice what may be on its way would do if the target's thread were always there; one that has to wait for a CPU falls
 * behind by more, since an acknowledged message has room for the next before its receive is posted again, and a message that finds none costs
 * both sides a pause (RNR). So 256 at least, but for ping-pong, where the next message waits for the answer to the last. */
uint32_t hv_receives_for(const hv_group *g, const struct hv_loop *l, const struct hv_stream *streams, int empty)
{
	uint64_t most = 1;
	for (int s = 0; !empty && s < l->streams; s++) {
		const struct hv_stream *st = &streams[s];
		for (uint32_t op = 0, first = 0; op < st->ops; first = st->ends[op++])
			most = st->ends[op] - first > most ? st->ends[op] - first : most;
		for (uint32_t i = 0; i < st->ends[st->ops - 1]; i++)
			if (st->pieces[i].length > l->max_message)
				most = UINT32_MAX;
	}
	most *= 2 * (uint64_t)(l->echo ? 1 : l->depth);
	if (!l->echo && most < 256)
		most = 256;
	return most < g->recv_work ? (uint32_t)most : g->recv_work;
}

int hv_uses_receives(const struct hv_run *r)
{
	return r->l->op == HV_SEND || r->l->notify || r->echo == HV_ECHO_MESSAGE;
}

int hv_prepare(struct hv_run *r, hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop,
		   struct hv_tally *tally, struct hv_failure *why)
{
	memset(why, 0, sizeof *why);
	memset(tally, 0, sizeof *tally);
	memset(r, 0, sizeof *r);
	r->g = g;
	r->l = l;
	r->stop = stop;
	r->tally = tally;
	r->why = why;
	r->echo = l->echo;
	r->batch = l->batch ? l->batch : 1;
	r->post_ops = r->batch > 1 ? r->batch : l->post_list ? l->post_list : UINT32_MAX;
	r->inline_bytes = l->op == HV_READ ? 0 : l->inline_bytes; /* what is fetched cannot travel in the request */
	r->stall = l->stall;
	r->now = r->progress = (int64_t)hv_now();
	if (g->broken || g->stale)
		return hv_fail(r, HV_STEP_BROKEN, EPIPE);
	if (l->streams < 1 || (uint32_t)l->streams > g->queues || l->depth < 1 || l->sge < 1 || l->sge > g->sge || l->max_message < 1 ||
	    l->max_message > UINT32_MAX || l->inline_bytes > g->inline_bytes || l->op < HV_WRITE || l->op > HV_SEND ||
	    (l->echo && (l->op == HV_READ || l->notify))) {
		why->step = HV_STEP_ARGUMENT;
		why->error = EINVAL;
		return -1;
	}
	for (int s = 0; s < l->streams; s++) {
		struct hv_stream *st = &streams[s];
		struct hv_queue *q = &g->queue[s];
		struct hv_cursor start = {.pieces = st->pieces, .ends = st->ends, .ops = st->ops};
		if (st->ops < 1 || (st->at && st->every < 1)) {
			why->step = HV_STEP_ARGUMENT;
			why->error = EINVAL;
			return -1;
		}
		st->stamps = st->done = 0;
		st->start = st->end = st->first = 0;
		q->stream = st;
		q->in = q->out = start;
		q->limit = l->count ? l->count : UINT64_MAX;
		if (st->at && st->room < q->limit / st->every)
			q->limit = st->room * st->every; /* a full record ends the loop as a count does */
		q->started = q->done = q->posted = q->received = q->took = 0;
		q->peer_took = q->unsignalled = 0;
		q->next_stamp = st->every;
		q->due = r->now;
		q->mark = NULL;
	}
	return 0;
}

/* Whether each operation is one message, which is told from the list alone. */
int hv_all_single(const struct hv_run *r)
{
	for (int s = 0; s < r->l->streams; s++) {
		const struct hv_cursor *c = &r->g->queue[s].out;
		for (uint32_t op = 0; op < c->ops; op++)
			if (c->ends[op] != op + 1 || c->pieces[op].length > r->l->max_message)
				return 0;
	}
	return 1;
}
#endif
