/* One operation at a time, each a single message: what a latency is measured with. Half of what a small message takes on an adapter is spent on
 * the host, so between an answer and the next post stands only what must: the clock. What is to be written down about the answer is written while
 * the next message is on its way. */
#define _GNU_SOURCE
#include "loop.h"
#include "mark.h"
#ifdef HV_HEADERS
#include <errno.h>

enum { HV_LOOKS = 256 }; /* empty looks at the queue before the clock, the stop word and a sleep are thought of */

/* Takes in a completion; 1 if it is the answer that is waited for. */
static inline int answered(struct hv_run *r, struct hv_queue *q, const struct ibv_wc *wc)
{
	uint64_t id = wc->wr_id;
	if (wc->status != IBV_WC_SUCCESS || HV_ID_QUEUE(id) != 0)
		return hv_take_in(r, wc);
	if (id & HV_ID_RECV) {
		q->received++;
		return r->echo == HV_ECHO_MESSAGE && (id & HV_ID_LAST) != 0;
	}
	q->used -= HV_ID_WORK(id);
	return r->by_send && HV_ID_LOOP(id) == (r->g->loop & 0xff);
}

/* Waits for the completion of the operation that is out, or of the answer to it. Others' completions are taken in on the way. */
static int await_completion(struct hv_run *r, struct hv_queue *q)
{
	hv_group *g = r->g;
	const int wait = r->l->wait;
	const int most = wait == HV_BLOCK ? 1 : HV_LOOKS;
	struct ibv_wc wc;
	for (;;) {
		int n = 0;
		for (int looks = 0; n == 0 && looks < most; looks++)
			n = ibv_poll_cq(g->cq, 1, &wc);
		r->tally->polls++;
		if (n < 0)
			return hv_fail(r, HV_STEP_POLL, EIO);
		if (n == 0) {
			/* One look more, with all that a wait has to think of; to sleep, or to come back here. */
			int sleeps = wait == HV_BLOCK || (wait == HV_ADAPTIVE && r->now - r->progress > r->l->spin);
			uint64_t done = q->done;
			if (hv_take_some(r, sleeps ? 0 : 1, 0, sleeps ? HV_BLOCK : HV_SPIN) < 0)
				return -1;
			if (q->done != done)
				return 0;
			continue;
		}
		int is = answered(r, q, &wc);
		if (is < 0)
			return -1;
		if (is) {
			r->now = r->progress = (int64_t)hv_now();
			q->done++;
			return 1;
		}
	}
}

/* Waits until the last byte of the answer has changed; looks now and then at the clock and the queue. */
static int await_mark(struct hv_run *r, struct hv_queue *q)
{
	hv_group *g = r->g;
	for (uint32_t spins = 1;; spins++) {
		if (hv_marked(q)) {
			q->mark = NULL;
			r->now = r->progress = (int64_t)hv_now();
			q->done++;
			return 1;
		}
		if (q->used > g->send_work / 2 || spins % 1024 == 0) {
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

int hv_turns(struct hv_run *r)
{
	const struct hv_loop *l = r->l;
	struct hv_queue *q = &r->g->queue[0];
	int64_t owed = 0; /* when the last operation was done, where that is not yet written down */
	int status = 0;
	while (status == 0) {
		if (!r->ending && ((l->deadline && r->now >= l->deadline) || hv_stopped(r))) {
			r->ending = 1;
			hv_wind_up(r, q);
		}
		if (q->done >= q->limit)
			break;
		if (q->used >= r->g->send_work) { /* room first: of what needed no completion one is due */
			status = hv_take_some(r, 0, 0, l->wait) < 0 ? -1 : 0;
			continue;
		}
		if (r->echo == HV_ECHO_MARK)
			hv_lay_mark(r, q);
		status = hv_fill_one(r, 0);
		if (owed)
			hv_record(q, owed);
		owed = 0;
		if (status || (status = hv_receive(r, 0)))
			break;
		int answer = r->echo == HV_ECHO_MARK ? await_mark(r, q) : await_completion(r, q);
		if (answer < 0)
			status = -1;
		if (answer > 0) {
			owed = r->now;
			hv_drag(r);
		}
	}
	if (owed)
		hv_record(q, owed);
	return status;
}
#endif
