/* What completions mean, and what is left to hear of when a loop ends. */
#define _GNU_SOURCE
#include "loop.h"
#ifdef HV_HEADERS

/* Nothing more is started on q, but for one operation where completions of the last ones would otherwise never be heard of. */
void hv_wind_up(struct hv_run *r, struct hv_queue *q)
{
	int between = q->out.piece == q->out.end && q->out.taken == 0;
	uint64_t limit = q->started + (between && r->by_send && q->unsignalled > 0);
	if (limit == 0 && !hv_stopped(r))
		limit = 1; /* a deadline that has passed before the first post still leaves one operation to measure */
	if (limit < q->limit)
		q->limit = limit;
}

/* Takes in one completion. */
int hv_take_in(struct hv_run *r, const struct ibv_wc *wc)
{
	hv_group *g = r->g;
	if (wc->status != IBV_WC_SUCCESS)
		return hv_fail_completion(r, wc);
	uint32_t queue = HV_ID_QUEUE(wc->wr_id);
	if (queue == g->queues)
		return hv_hear(r, wc);
	struct hv_queue *q = &g->queue[queue];
	if (wc->wr_id & HV_ID_RECV) {
		q->received++;
		if (r->closing || !(wc->wr_id & HV_ID_LAST))
			return 0;
		if (r->serves)
			q->limit++; /* one more answer is due */
		else
			hv_complete(r, q, 1);
		return 0;
	}
	q->used -= HV_ID_WORK(wc->wr_id);
	if (r->by_send && HV_ID_LOOP(wc->wr_id) == (g->loop & 0xff))
		hv_complete(r, q, HV_ID_OPS(wc->wr_id));
	return 0;
}

int hv_take_some(struct hv_run *r, int64_t until, int heed, int wait)
{
	struct ibv_wc wc[HV_POLL];
	int n = hv_take(r, wc, until, heed, wait);
	for (int i = 0; i < n; i++)
		if (hv_take_in(r, &wc[i])) {
			hv_fail_rest(r, &wc[i + 1], n - i - 1);
			return -1;
		}
	return n;
}

/* Uses up receives of the peer that no message of this loop took: the next loop may put other things in other places. */
int hv_flush(struct hv_run *r, const struct hv_note *said)
{
	hv_group *g = r->g;
	r->empty = 1;
	r->shape = HV_ANY;
	r->extra = 0;
	r->by_send = 0;
	r->depth = UINT32_MAX;
	r->signal_every = UINT32_MAX;
	r->batch = 1;
	r->post_ops = UINT32_MAX;
	for (int s = 0; s < r->l->streams; s++) {
		struct hv_queue *q = &g->queue[s];
		q->limit = q->started + said->stream[s].left;
		q->done = q->started;
		while (q->started < q->limit) {
			if (hv_fill(r, s))
				return -1;
			if (q->started < q->limit && hv_take_some(r, 0, 0, r->l->wait) < 0)
				return -1;
		}
	}
	return 0;
}

int hv_emptied(const struct hv_run *r)
{
	for (int s = 0; s < r->l->streams; s++)
		if (r->g->queue[s].posted != r->g->queue[s].received)
			return 0;
	return 1;
}

void hv_note_took(struct hv_run *r, const struct hv_note *said)
{
	for (int s = 0; s < r->l->streams; s++)
		r->g->queue[s].peer_took = said->stream[s].took;
}
#endif
