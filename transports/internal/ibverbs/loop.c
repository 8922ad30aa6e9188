/* The two timed loops: the initiator's, and the target's. */
#define _GNU_SOURCE
#include "loop.h"
#ifdef HV_HEADERS
#include <errno.h>
#include <string.h>

/* Receives kept posted. Twice what may be on its way would do if the target's thread were always there; one that has to wait for a CPU falls
 * behind by more, since an acknowledged message has room for the next before its receive is posted again, and a message that finds none costs
 * both sides a pause (RNR). So 256 at least, but for ping-pong, where the next message waits for the answer to the last. */
static uint32_t receives_for(const hv_group *g, const struct hv_loop *l, const struct hv_stream *streams, int empty)
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

static int uses_receives(const struct hv_run *r)
{
	return r->l->op == HV_SEND || r->l->notify || r->echo == HV_ECHO_MESSAGE;
}

static int prepare(struct hv_run *r, hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop,
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
static int all_single(const struct hv_run *r)
{
	for (int s = 0; s < r->l->streams; s++) {
		const struct hv_cursor *c = &r->g->queue[s].out;
		for (uint32_t op = 0; op < c->ops; op++)
			if (c->ends[op] != op + 1 || c->pieces[op].length > r->l->max_message)
				return 0;
	}
	return 1;
}

/* The last piece of the operation that a cursor starts next. */
static const struct hv_piece *tail_of_next(const struct hv_cursor *c)
{
	uint32_t op = c->op == c->ops ? 0 : c->op;
	return &c->pieces[c->ends[op] - 1];
}

static void clear_marks(const struct hv_run *r, uint64_t base, int remote)
{
	for (int s = 0; s < r->l->streams; s++) {
		const struct hv_cursor *c = &r->g->queue[s].out;
		for (uint32_t op = 0; op < c->ops; op++) {
			const struct hv_piece *p = &c->pieces[c->ends[op] - 1];
			*(volatile uint8_t *)(uintptr_t)(base + (remote ? p->remote : p->local) + p->length - 1) = 0;
		}
	}
}

/* Marks run from 1 to 255 and begin again: the byte that is waited for never holds the awaited value beforehand, as long
 * as a list has fewer than 255 operations. */
static uint8_t mark_of(uint64_t round)
{
	return (uint8_t)(1 + round % 255);
}

static int marked(const struct hv_queue *q)
{
	return q->mark && __atomic_load_n(q->mark, __ATOMIC_ACQUIRE) == q->mark_value;
}

#ifdef HOPBENCH_SLOW
/* Makes the initiator slower, for the regression gate's own test: after a completion the thread stays busy for half of the time since the last.
 * One operation at a time feels all of it; with several on their way the wire hides it. Built only with -tags hopbench_slow. */
static void drag(const struct hv_run *r)
{
	static __thread uint64_t loop;
	static __thread int64_t last;
	if (loop == r->g->loop) {
		int64_t until = r->now + (r->now - last) / 2;
		while ((int64_t)hv_now() < until)
			;
	}
	loop = r->g->loop;
	last = (int64_t)hv_now();
}
#else
static inline void drag(const struct hv_run *r)
{
	(void)r;
}
#endif

/* Counts operations as done, and stamps them. */
static inline void complete(struct hv_run *r, struct hv_queue *q, uint64_t ops)
{
	struct hv_stream *st = q->stream;
	if (ops == 0)
		return;
	q->done += ops;
	st->done = q->done;
	st->end = r->now;
	if (st->first == 0)
		st->first = r->now;
	while (st->at && q->next_stamp <= q->done) {
		if (st->stamps < st->room)
			st->at[st->stamps++] = r->now;
		q->next_stamp += st->every;
	}
	drag(r);
}

/* Nothing more is started on q, but for one operation where completions of the last ones would otherwise never be heard of. */
static void wind_up(struct hv_run *r, struct hv_queue *q)
{
	int between = q->out.piece == q->out.end && q->out.taken == 0;
	uint64_t limit = q->started + (between && r->by_send && q->unsignalled > 0);
	if (limit == 0 && !hv_stopped(r))
		limit = 1; /* a deadline that has passed before the first post still leaves one operation to measure */
	if (limit < q->limit)
		q->limit = limit;
}

/* Takes in one completion. */
static inline int take_in(struct hv_run *r, const struct ibv_wc *wc)
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
			complete(r, q, 1);
		return 0;
	}
	q->used -= HV_ID_WORK(wc->wr_id);
	if (r->by_send && HV_ID_LOOP(wc->wr_id) == (g->loop & 0xff))
		complete(r, q, HV_ID_OPS(wc->wr_id));
	return 0;
}

static int take_some(struct hv_run *r, int64_t until, int heed, int wait)
{
	struct ibv_wc wc[HV_POLL];
	int n = hv_take(r, wc, until, heed, wait);
	for (int i = 0; i < n; i++)
		if (take_in(r, &wc[i]))
			return -1;
	return n;
}

/* Uses up receives of the peer that no message of this loop took: the next loop may put other things in other places. */
static int flush(struct hv_run *r, const struct hv_note *said)
{
	hv_group *g = r->g;
	r->empty = 1;
	r->single = 0;
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
			if (q->started < q->limit && take_some(r, 0, 0, r->l->wait) < 0)
				return -1;
		}
	}
	return 0;
}

static int emptied(const struct hv_run *r)
{
	for (int s = 0; s < r->l->streams; s++)
		if (r->g->queue[s].posted != r->g->queue[s].received)
			return 0;
	return 1;
}

static void note_took(struct hv_run *r, const struct hv_note *said)
{
	for (int s = 0; s < r->l->streams; s++)
		r->g->queue[s].peer_took = said->stream[s].took;
}

/* Tells the target to begin, and waits until it says that it is ready: with its receives posted and its marks cleared. */
static int open_loop(struct hv_run *r)
{
	hv_group *g = r->g;
	g->loop++;
	if (r->echo == HV_ECHO_MARK)
		clear_marks(r, r->l->local + r->l->reply, 0);
	for (int s = 0; s < r->l->streams; s++)
		if (hv_receive(r, s))
			return -1;
	if (hv_say(r, HV_BEGIN))
		return -1;
	while (g->heard[HV_READY] != g->loop) {
		if (g->heard[HV_REFUSE] == g->loop)
			return hv_fail(r, HV_STEP_DISAGREE, EPROTO);
		if (take_some(r, 0, 0, r->l->wait) < 0) {
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
	if (uses_receives(r)) {
		while (g->heard[HV_LEFT] != g->loop)
			if (take_some(r, 0, 0, r->l->wait) < 0)
				return -1;
		note_took(r, g->note[HV_LEFT]);
		if (hv_say(r, HV_FLUSH) || flush(r, g->note[HV_LEFT]))
			return -1;
		while (!emptied(r))
			if (take_some(r, 0, 0, r->l->wait) < 0)
				return -1;
	}
	while (g->queue[g->queues].used > 0)
		if (take_some(r, 0, 0, r->l->wait) < 0)
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
			if (!marked(q))
				continue;
			q->mark = NULL;
			r->now = r->progress = (int64_t)hv_now();
			complete(r, q, 1);
			moved = 1;
		}
		if (moved && !full)
			return 0;
		if (full || spins % 1024 == 0) {
			struct ibv_wc wc[HV_POLL];
			int n = ibv_poll_cq(g->cq, HV_POLL, wc);
			r->tally->polls++;
			if (n < 0)
				return hv_fail(r, HV_STEP_POLL, n);
			for (int i = 0; i < n; i++)
				if (take_in(r, &wc[i]))
					return -1;
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

/* Gives the operation that starts next its mark, and remembers where the answer will show. */
static void lay_mark(const struct hv_run *r, struct hv_queue *q)
{
	const struct hv_piece *p = tail_of_next(&q->out);
	uint64_t at = r->l->local + p->local + p->length - 1;
	q->mark_value = mark_of(q->started);
	*(volatile uint8_t *)(uintptr_t)at = q->mark_value;
	q->mark = (volatile uint8_t *)(uintptr_t)(at + r->l->reply);
}

static int advance(struct hv_run *r)
{
	hv_group *g = r->g;
	const struct hv_loop *l = r->l;
	for (;;) {
		int active = 0, outstanding = 0;
		int64_t due = 0;
		if (!r->ending && ((l->deadline && r->now >= l->deadline) || hv_stopped(r))) {
			r->ending = 1;
			for (int s = 0; s < l->streams; s++)
				wind_up(r, &g->queue[s]);
		}
		for (int s = 0; s < l->streams; s++) {
			struct hv_queue *q = &g->queue[s];
			if (r->echo == HV_ECHO_MARK && q->started == q->done && q->started < q->limit &&
			    (l->bytes_per_second <= 0 || r->ending || r->now >= q->due))
				lay_mark(r, q);
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
		int n = take_some(r, due, !outstanding, l->wait);
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
	if (prepare(r, g, l, streams, stop, tally, why))
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
	r->single = r->depth == 1 && !l->notify && l->bytes_per_second <= 0 && all_single(r);
	r->receives = receives_for(g, l, streams, r->empty_in);
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

/* What the target must do for the loop that the peer has begun. */
static int begin_serving(struct hv_run *r)
{
	hv_group *g = r->g;
	const struct hv_loop *l = r->l;
	const struct hv_note *n = g->note[HV_BEGIN];
	if (n->op != (uint32_t)l->op || n->notify != (uint32_t)l->notify || n->streams != (uint32_t)l->streams || !n->echo != !l->echo) {
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
	r->hears = uses_receives(r);
	r->empty_in = l->op != HV_SEND;
	r->receives = receives_for(g, l, r->g->queue[0].stream, r->empty_in);
	r->depth = UINT32_MAX;
	r->signal_every = UINT32_MAX;
	r->single = r->echo && all_single(r);
	if (r->echo == HV_ECHO_MARK)
		clear_marks(r, l->local, 1);
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
			const struct hv_piece *p = tail_of_next(&q->out);
			q->mark = (volatile uint8_t *)(uintptr_t)(r->l->local + p->remote + p->length - 1);
			q->mark_value = mark_of(q->started);
		}
		if (marked(q)) {
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
	if (!uses_receives(r))
		return 0;
	note_took(r, g->note[HV_END]);
	if (hv_say(r, HV_LEFT))
		return -1;
	while (g->heard[HV_FLUSH] != g->loop)
		if (take_some(r, 0, 0, r->l->wait) < 0)
			return -1;
	if (flush(r, g->note[HV_FLUSH]))
		return -1;
	while (!emptied(r))
		if (take_some(r, 0, 0, r->l->wait) < 0)
			return -1;
	return 0;
}

int hv_serve(hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop, struct hv_tally *tally,
	     struct hv_failure *why)
{
	struct hv_run run, *r = &run;
	if (prepare(r, g, l, streams, stop, tally, why))
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
				return hv_fail(r, HV_STEP_POLL, n);
			for (int i = 0; i < n; i++)
				if (take_in(r, &wc[i]))
					return -1;
		} else {
			n = take_some(r, 0, 1, active ? l->wait : HV_BLOCK);
			if (n < 0)
				return -1;
			if (active && answer(r))
				return -1;
		}
		if (n == 0 && hv_stopped(r)) {
			g->stale = serving && !emptied(r);
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
