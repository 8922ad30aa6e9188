/* Waiting for completions: spinning, blocking on the completion channel, or the first and then the second. */
#define _GNU_SOURCE
#include "loop.h"
#ifdef HV_HEADERS
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>

int hv_fail(struct hv_run *r, int step, int error)
{
	if (r->why->step == HV_STEP_NONE) {
		r->why->step = step;
		r->why->error = error;
	}
	r->g->broken = 1;
	return -1;
}

/* The first completion that failed tells the cause; those that follow with status 5 only say that the queue pair is in
 * its error state. When a flushed one is met first, the cause may be right behind it. */
int hv_fail_completion(struct hv_run *r, const struct ibv_wc *wc)
{
	struct hv_failure *why = r->why;
	hv_fail(r, HV_STEP_COMPLETION, 0);
	why->status = wc->status;
	why->vendor = wc->vendor_err;
	why->qpn = wc->qp_num;
	why->received = (wc->wr_id & HV_ID_RECV) != 0;
	struct ibv_wc more[HV_POLL];
	for (int round = 0; round < 64; round++) {
		int n = ibv_poll_cq(r->g->cq, HV_POLL, more);
		if (n <= 0)
			break;
		hv_fail_rest(r, more, n);
	}
	return -1;
}

void hv_fail_rest(struct hv_run *r, const struct ibv_wc *wc, int n)
{
	struct hv_failure *why = r->why;
	if (why->step != HV_STEP_COMPLETION)
		return;
	for (int i = 0; i < n; i++) {
		if (wc[i].status == IBV_WC_SUCCESS)
			continue;
		if (wc[i].status == IBV_WC_WR_FLUSH_ERR) {
			why->flushed++;
		} else if (why->status == IBV_WC_WR_FLUSH_ERR) {
			why->flushed++;
			why->status = wc[i].status;
			why->vendor = wc[i].vendor_err;
			why->qpn = wc[i].qp_num;
			why->received = (wc[i].wr_id & HV_ID_RECV) != 0;
		}
	}
}

/* Sleeps until the channel has an event, or for at most so many ns. */
static int sleep_on(struct hv_run *r, int64_t ns)
{
	hv_group *g = r->g;
	struct pollfd p = {.fd = g->channel->fd, .events = POLLIN};
	struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
	r->tally->blocks++;
	int n = ppoll(&p, 1, &t, NULL);
	if (n < 0)
		return errno == EINTR ? 0 : hv_fail(r, HV_STEP_EVENT, errno);
	if (n == 0)
		return 0;
	struct ibv_cq *cq;
	void *unused;
	errno = 0;
	if (hv_verbs.ibv_get_cq_event(g->channel, &cq, &unused))
		return errno == EAGAIN || errno == EINTR ? 0 : hv_fail(r, HV_STEP_EVENT, hv_errno());
	g->armed = 0;
	/* Acknowledging takes a lock in the library, so it is done for many at once; destroying the queue does the rest. */
	if (++g->unacknowledged == 1u << 16) {
		hv_verbs.ibv_ack_cq_events(g->cq, g->unacknowledged);
		g->unacknowledged = 0;
	}
	return 0;
}

int hv_take(struct hv_run *r, struct ibv_wc *wc, int64_t until, int heed, int wait)
{
	hv_group *g = r->g;
	int64_t begun = 0, nap = 10000000;
	for (uint32_t spins = 0;; spins++) {
		int n = ibv_poll_cq(g->cq, HV_POLL, wc);
		r->tally->polls++;
		if (n > 0) {
			r->now = r->progress = (int64_t)hv_now();
			return n;
		}
		if (n < 0)
			return hv_fail(r, HV_STEP_POLL, EIO);
		if (spins % 16 != 0)
			continue;
		int64_t now = (int64_t)hv_now();
		if (begun == 0)
			begun = now;
		r->now = now;
		if (hv_stopped(r)) {
			if (heed)
				return 0;
			if (r->stall > 1000000000) /* asked to stop, and nothing moves: the peer has a second more */
				r->stall = 1000000000;
		}
		/* Before the time that was asked for: who asks for one look only (a loop of one operation) would never hear of a peer that is silent. */
		if (r->stall && now - r->progress > r->stall)
			return hv_fail(r, HV_STEP_STALL, ETIMEDOUT);
		if (until && now >= until)
			return 0;
		if (!g->channel || wait == HV_SPIN || (wait == HV_ADAPTIVE && now - begun < r->l->spin))
			continue;
		/* Ask to be woken, then look once more: what arrived in between raises no event. */
		if (!g->armed) {
			int error = ibv_req_notify_cq(g->cq, 0);
			if (error)
				return hv_fail(r, HV_STEP_ARM, error < 0 ? hv_errno() : error);
			g->armed = 1;
			n = ibv_poll_cq(g->cq, HV_POLL, wc);
			if (n > 0) {
				r->now = r->progress = (int64_t)hv_now();
				return n;
			}
			if (n < 0)
				return hv_fail(r, HV_STEP_POLL, EIO);
		}
		/* A stop word is seen within 20 ms; later, up to 160 ms, where nothing has come for long: a target that only looks on while the peer
		 * writes and reads would take the CPU from those who work a hundred times a second. What comes ends any sleep. */
		int64_t ns = nap;
		if (nap < 160000000)
			nap *= 2;
		if (until && until - now < ns)
			ns = until - now;
		if (sleep_on(r, ns) < 0)
			return -1;
		spins = UINT32_MAX; /* look at the time after the next empty look */
	}
}
#endif
