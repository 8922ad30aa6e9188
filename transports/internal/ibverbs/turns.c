/* One operation at a time, each a single message that a completion ends: what a latency is measured with. Half of what a small read takes on an
 * adapter is spent on the host, so nothing stands between a completion and the next post that is not needed there. */
#define _GNU_SOURCE
#include "loop.h"
#ifdef HV_HEADERS
#include <errno.h>

enum { HV_LOOKS = 64 }; /* empty looks at the queue before the clock, the stop word and a sleep are thought of */

/* The answer to the operation that is out. Others' completions (a note, an old send) are taken in on the way. */
static int await(struct hv_run *r, struct hv_queue *q)
{
	hv_group *g = r->g;
	struct ibv_wc wc;
	while (q->started > q->done) {
		int n = 0;
		for (int looks = 0; n == 0 && looks < HV_LOOKS; looks++)
			n = ibv_poll_cq(g->cq, 1, &wc);
		r->tally->polls++;
		if (n == 0) {
			if (hv_take_some(r, 0, 0, r->l->wait) < 0)
				return -1;
			continue;
		}
		if (n < 0)
			return hv_fail(r, HV_STEP_POLL, n);
		r->now = r->progress = (int64_t)hv_now();
		if (hv_take_in(r, &wc))
			return -1;
	}
	return 0;
}

int hv_turns(struct hv_run *r)
{
	const struct hv_loop *l = r->l;
	struct hv_queue *q = &r->g->queue[0];
	for (;;) {
		if (!r->ending && ((l->deadline && r->now >= l->deadline) || hv_stopped(r))) {
			r->ending = 1;
			hv_wind_up(r, q);
		}
		if (q->done >= q->limit)
			return 0;
		if (hv_fill_one(r, 0) || hv_receive(r, 0) || await(r, q))
			return -1;
	}
}
#endif
