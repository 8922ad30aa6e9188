/* What the loops are made of. Everything here runs inside the clock: no allocation, no lock, and no system call of ours
 * but the sleep of a wait that was asked to block. */
#ifndef HOPBENCH_VERBS_LOOP_H
#define HOPBENCH_VERBS_LOOP_H
#include "verbs.h"
#ifdef HV_HEADERS

enum { HV_POLL = 32 }; /* completions taken in one call */

/* A work request's id says what its completion is worth: queue, loop, and for sends how many work requests and how many
 * ends of operations it stands for; for receives whether the message was the last of its operation. */
#define HV_ID_RECV (1ull << 63)
#define HV_ID_LAST (1ull << 62)
#define HV_ID_QUEUE(id) ((uint32_t)((id) >> 48) & 0x3fff)
#define HV_ID_LOOP(id) ((uint32_t)((id) >> 40) & 0xff)
#define HV_ID_WORK(id) ((uint32_t)((id) >> 20) & 0xfffff)
#define HV_ID_OPS(id) ((uint32_t)(id) & 0xfffff)
#define HV_ID(queue, loop, work, ops) \
	((uint64_t)(queue) << 48 | (uint64_t)((loop) & 0xff) << 40 | (uint64_t)(work) << 20 | (uint64_t)(ops))

/* How one side lays messages out: whose offset of a piece is ours, and where the two regions are. */
struct hv_layout {
	uint64_t ours, theirs;
	int swap; /* 1: the piece's remote offset is ours */
};

/* One running loop. */
struct hv_run {
	hv_group *g;
	const struct hv_loop *l;
	uint32_t *stop;
	struct hv_tally *tally;
	struct hv_failure *why;
	struct hv_layout out, in;
	enum ibv_wr_opcode middle, last; /* of an operation's messages */
	int extra;    /* 1: a message without payload follows each operation (the notification after a read) */
	int empty;    /* 1: answers without payload (replies to notifications) */
	int empty_in; /* 1: what comes in lands in no memory of ours: it only tells */
	int hears;    /* 1: messages come in that take receives */
	int serves;   /* 1: this is the target's loop: what comes in may want an answer */
	/* How messages are laid out (hv_fill): HV_SINGLES where each operation is one message of ours, HV_ONE where also one is out at a time. */
	enum { HV_ANY, HV_SINGLES, HV_ONE } shape;
	uint32_t receives; /* receives kept posted a stream */
	int by_send;  /* 1: an operation is done when its send is acknowledged */
	int echo;     /* HV_NO_ECHO, HV_ECHO_MARK or HV_ECHO_MESSAGE */
	int ending;   /* nothing more is started but what is needed to hear of what was */
	int closing;  /* what arrives now only uses up receives */
	uint32_t depth, signal_every;
	uint32_t batch;
	uint32_t post_ops; /* most operations of one post */
	uint32_t inline_bytes;
	int64_t now;  /* time of the last completions */
	int64_t progress; /* and of the last that moved something */
	int64_t stall;
};

/* Takes completions: more than 0, or 0 when `until` came (0: never) or the stop word was set and `heed` is on, or -1 with
 * r->why. */
int hv_take(struct hv_run *r, struct ibv_wc *wc, int64_t until, int heed, int wait);
int hv_fail(struct hv_run *r, int step, int error);
int hv_fail_completion(struct hv_run *r, const struct ibv_wc *wc);
void hv_fail_rest(struct hv_run *r, const struct ibv_wc *wc, int n); /* those that came with the one that failed */
/* Posts what may be started on q. Where nothing may, the asking is cheap: a loop asks after every completion. */
int hv_fill_due(struct hv_run *r, uint32_t queue);
static inline int hv_due(const struct hv_run *r, const struct hv_queue *q)
{
	/* An operation may begin, or one that has begun goes on: with its pieces, or with the notification after it. */
	return (q->started < q->limit && q->started - q->done < r->depth) || q->out.piece != q->out.end || q->out.taken != 0;
}
int hv_fill_singles(struct hv_run *r, uint32_t queue);
int hv_fill_one(struct hv_run *r, uint32_t queue);
void hv_dress(struct hv_run *r); /* before the clock, for those two: what never changes */
static inline int hv_fill(struct hv_run *r, uint32_t queue)
{
	if (!hv_due(r, &r->g->queue[queue]))
		return 0;
	return r->shape == HV_ONE ? hv_fill_one(r, queue) : r->shape == HV_SINGLES ? hv_fill_singles(r, queue) : hv_fill_due(r, queue);
}
/* Keeps q's receives posted. */
int hv_post_receives(struct hv_run *r, uint32_t queue);
static inline int hv_receive(struct hv_run *r, uint32_t queue)
{
	return r->hears ? hv_post_receives(r, queue) : 0;
}
/* Notes. */
int hv_say(struct hv_run *r, uint32_t kind);
int hv_hear(struct hv_run *r, const struct ibv_wc *wc);

static inline int hv_stopped(const struct hv_run *r)
{
	return r->stop && __atomic_load_n(r->stop, __ATOMIC_RELAXED) != 0;
}

#ifdef HOPBENCH_SLOW
/* Makes the initiator slower, for the regression gate's own test: after a completion the thread stays busy for half of the time since the last.
 * One operation at a time feels all of it; with several on their way the wire hides it. Built only with -tags hopbench_slow. */
static inline void hv_drag(const struct hv_run *r)
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
static inline void hv_drag(const struct hv_run *r)
{
	(void)r;
}
#endif

/* Writes down that the operations up to q->done were done at `at`. */
static inline void hv_record(struct hv_queue *q, int64_t at)
{
	struct hv_stream *st = q->stream;
	st->done = q->done;
	st->end = at;
	if (st->first == 0)
		st->first = at;
	while (st->at && q->next_stamp <= q->done) {
		if (st->stamps < st->room)
			st->at[st->stamps++] = at;
		q->next_stamp += st->every;
	}
}

/* Counts operations as done now. */
static inline void hv_complete(struct hv_run *r, struct hv_queue *q, uint64_t ops)
{
	if (ops == 0)
		return;
	q->done += ops;
	hv_record(q, r->now);
	hv_drag(r);
}

/* Before: receives that are kept posted, what every loop sets up, and whether each operation is one message. */
uint32_t hv_receives_for(const hv_group *g, const struct hv_loop *l, const struct hv_stream *streams, int empty);
int hv_uses_receives(const struct hv_run *r);
int hv_prepare(struct hv_run *r, hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop,
	       struct hv_tally *tally, struct hv_failure *why);
int hv_all_single(const struct hv_run *r);
/* The loop itself where one operation is out at a time, on one queue. */
int hv_turns(struct hv_run *r);
/* After. */
void hv_wind_up(struct hv_run *r, struct hv_queue *q);
int hv_take_in(struct hv_run *r, const struct ibv_wc *wc);
int hv_take_some(struct hv_run *r, int64_t until, int heed, int wait);
int hv_flush(struct hv_run *r, const struct hv_note *said);
int hv_emptied(const struct hv_run *r);
void hv_note_took(struct hv_run *r, const struct hv_note *said);
#endif
#endif
