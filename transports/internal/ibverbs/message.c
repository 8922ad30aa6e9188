/* Making work requests from lists of pieces, and posting them. */
#define _GNU_SOURCE
#include "loop.h"
#ifdef HV_HEADERS
#include <errno.h>
#include <string.h>

/* One message: as much of the next pieces as may go into one work request. */
struct message {
	uint64_t theirs;
	uint64_t bytes;
	int sges;
	int last; /* its operation ends with it */
};

/* Goes to the next operation of the list. */
static inline void begin_op(struct hv_cursor *c)
{
	if (c->op == c->ops) {
		c->op = 0;
		c->piece = 0;
	}
	c->end = c->ends[c->op++];
}

/* Lays the next message out. A piece above the port's maximum is cut; short ones are gathered where the other side's
 * bytes are contiguous, or for a send, whose receive scatters them in the same way. */
static inline __attribute__((always_inline)) struct message gather(struct hv_cursor *c, const struct hv_layout *at, const struct hv_loop *l, int anywhere, uint32_t key,
				    struct ibv_sge *sge)
{
	const struct hv_piece *p = &c->pieces[c->piece];
	struct message m;
	uint64_t left = p->length - c->taken;
	m.theirs = at->theirs + (at->swap ? p->local : p->remote) + c->taken;
	m.sges = 1;
	sge[0].addr = at->ours + (at->swap ? p->remote : p->local) + c->taken;
	sge[0].lkey = key;
	if (left > l->max_message) {
		c->taken += l->max_message;
		sge[0].length = (uint32_t)l->max_message;
		m.bytes = l->max_message;
		m.last = 0;
		return m;
	}
	sge[0].length = (uint32_t)left;
	m.bytes = left;
	c->taken = 0;
	c->piece++;
	while (m.sges < (int)l->sge && c->piece < c->end) {
		p = &c->pieces[c->piece];
		uint64_t theirs = at->theirs + (at->swap ? p->local : p->remote);
		if (m.bytes + p->length > l->max_message || (!anywhere && theirs != m.theirs + m.bytes))
			break;
		sge[m.sges].addr = at->ours + (at->swap ? p->remote : p->local);
		sge[m.sges].lkey = key;
		sge[m.sges].length = (uint32_t)p->length;
		m.bytes += p->length;
		m.sges++;
		c->piece++;
	}
	m.last = c->piece == c->end;
	return m;
}

/* Whether an operation is due; if so, when the next one is. */
static int paced(struct hv_run *r, struct hv_queue *q, const struct hv_cursor *c)
{
	if (r->ending)
		return 1;
	if (r->now < q->due)
		return 0;
	uint64_t bytes = 0;
	uint32_t op = c->op == c->ops ? 0 : c->op;
	for (uint32_t i = op ? c->ends[op - 1] : 0; i < c->ends[op]; i++)
		bytes += c->pieces[i].length;
	q->due += (int64_t)((double)bytes * 1e9 / r->l->bytes_per_second);
	return 1;
}

static int post(struct hv_run *r, struct hv_queue *q, uint32_t n)
{
	struct ibv_send_wr *bad, *tail = &q->send[n - 1], *next = tail->next;
	tail->next = NULL;
	int error = ibv_post_send(q->qp, q->send, &bad);
	tail->next = next;
	r->tally->posts++;
	r->tally->messages += n;
	if (error)
		return hv_fail(r, HV_STEP_POST_SEND, error < 0 ? hv_errno() : error);
	return 0;
}

/* A batch waits until there is room for the whole of it, so that a post call carries what was asked for; but never
 * while operations are out that no completion will tell of. */
static inline int waits_for_batch(const struct hv_run *r, const struct hv_queue *q)
{
	if (r->batch <= 1 || q->unsignalled != 0 || q->started == q->done)
		return 0;
	uint64_t room = r->depth - (q->started - q->done), rest = q->limit - q->started;
	return room < r->batch && rest > room;
}

int hv_fill_due(struct hv_run *r, uint32_t queue)
{
	hv_group *g = r->g;
	const struct hv_loop *l = r->l;
	struct hv_queue *q = &g->queue[queue];
	if (q->out.piece == q->out.end && q->out.taken == 0 && waits_for_batch(r, q))
		return 0;
	/* What changes with every message is kept in registers, and put back before each post. */
	const uint32_t post_list = g->post_list, send_work = g->send_work, half = (g->send_work + 1) / 2, inline_bytes = r->inline_bytes, every = r->signal_every;
	const int anywhere = r->last == IBV_WR_SEND, extra = r->extra, empty = r->empty, by_send = r->by_send;
	const int last_takes = r->last != IBV_WR_RDMA_WRITE && r->last != IBV_WR_RDMA_READ, middle_takes = r->middle == IBV_WR_SEND;
	const struct hv_layout at = r->out;
	struct hv_cursor c = q->out;
	uint32_t used = q->used, since_signal = q->since_signal, unsignalled = q->unsignalled;
	uint64_t started = q->started;
	const uint64_t limit = q->limit, most = q->done + r->depth;
	for (;;) {
		uint32_t n = 0, ops = 0, took = 0;
		while (n < post_list && used < send_work) {
			struct ibv_send_wr *w = &q->send[n];
			unsigned flags;
			int last = 1;
			if (c.piece == c.end) { /* between operations */
				if (extra && c.taken) { /* the notification after this operation is still to come */
					c.taken = 0;
					w->num_sge = 0;
					w->opcode = IBV_WR_SEND;
					flags = IBV_SEND_FENCE;
					took++;
					goto laid;
				}
				if (ops == r->post_ops || started >= limit || started >= most)
					break;
				if (r->l->bytes_per_second > 0 && !paced(r, q, &c))
					break;
				ops++;
				started++;
				if (empty) {
					w->num_sge = 0;
					w->opcode = IBV_WR_SEND;
					flags = 0;
					took++;
					goto laid;
				}
				begin_op(&c);
			}
			struct message m = gather(&c, &at, l, anywhere, l->local_key, w->sg_list);
			w->num_sge = m.sges;
			w->wr.rdma.remote_addr = m.theirs;
			w->wr.rdma.rkey = l->remote_key;
			flags = m.bytes <= inline_bytes ? IBV_SEND_INLINE : 0;
			last = m.last;
			w->opcode = last ? r->last : r->middle;
			took += last ? last_takes : middle_takes;
			if (extra && last) {
				c.taken = 1; /* between operations nothing of a piece is taken: here it means that one more is due */
				last = 0;
			}
laid:
			n++;
			used++;
			since_signal++;
			unsignalled += last;
			if ((last && (unsignalled == every || (by_send && started == limit))) || since_signal >= half) {
				flags |= IBV_SEND_SIGNALED;
				w->wr_id = HV_ID(queue, g->loop, since_signal, unsignalled);
				since_signal = 0;
				unsignalled = 0;
			}
			w->send_flags = flags;
		}
		q->out = c;
		q->used = used;
		q->since_signal = since_signal;
		q->unsignalled = unsignalled;
		q->started = started;
		q->took += took;
		if (n == 0)
			return 0;
		if (q->stream->start == 0)
			q->stream->start = (int64_t)hv_now();
		if (post(r, q, n))
			return -1;
		if (!hv_due(r, q))
			return 0;
	}
}

/* What never changes in a loop of single messages: laid out once, before the clock. */
void hv_dress(struct hv_run *r)
{
	hv_group *g = r->g;
	for (int s = 0; s < r->l->streams; s++)
		for (uint32_t i = 0; i < g->post_list; i++) {
			struct ibv_send_wr *w = &g->queue[s].send[i];
			w->num_sge = 1;
			w->opcode = r->last;
			w->wr.rdma.rkey = r->l->remote_key;
			w->sg_list->lkey = r->l->local_key;
		}
}

/* The same where each operation is one message: only addresses, lengths and flags are left to fill in. */
int hv_fill_singles(struct hv_run *r, uint32_t queue)
{
	hv_group *g = r->g;
	struct hv_queue *q = &g->queue[queue];
	if (waits_for_batch(r, q))
		return 0;
	const struct hv_piece *pieces = q->out.pieces;
	const uint64_t ours = r->out.ours, theirs = r->out.theirs, inline_bytes = r->inline_bytes;
	const uint32_t ops = q->out.ops, every = r->signal_every, half = (g->send_work + 1) / 2;
	const int swap = r->out.swap, takes = r->last != IBV_WR_RDMA_WRITE && r->last != IBV_WR_RDMA_READ;
	uint64_t room = q->limit - q->started, free = q->done + r->depth - q->started;
	if (free < room)
		room = free;
	uint32_t op = q->out.op == ops ? 0 : q->out.op;
	while (room > 0 && q->used < g->send_work) {
		uint32_t since_signal = q->since_signal, unsignalled = q->unsignalled, n = g->send_work - q->used;
		if (n > room)
			n = (uint32_t)room;
		if (n > g->post_list)
			n = g->post_list;
		if (n > r->post_ops)
			n = r->post_ops;
		for (uint32_t i = 0; i < n; i++) {
			struct ibv_send_wr *w = &q->send[i];
			const struct hv_piece *p = &pieces[op];
			op = op + 1 == ops ? 0 : op + 1;
			w->sg_list->addr = ours + (swap ? p->remote : p->local);
			w->sg_list->length = (uint32_t)p->length;
			w->wr.rdma.remote_addr = theirs + (swap ? p->local : p->remote);
			w->send_flags = p->length <= inline_bytes ? IBV_SEND_INLINE : 0;
			since_signal++;
			if (++unsignalled != every && since_signal < half)
				continue;
			w->send_flags |= IBV_SEND_SIGNALED;
			w->wr_id = HV_ID(queue, g->loop, since_signal, unsignalled);
			since_signal = unsignalled = 0;
		}
		room -= n;
		q->started += n;
		if (r->by_send && unsignalled && q->started == q->limit) { /* the last of the loop is to be heard of */
			q->send[n - 1].send_flags |= IBV_SEND_SIGNALED;
			q->send[n - 1].wr_id = HV_ID(queue, g->loop, since_signal, unsignalled);
			since_signal = unsignalled = 0;
		}
		q->used += n;
		q->since_signal = since_signal;
		q->unsignalled = unsignalled;
		q->out.op = q->out.piece = q->out.end = op == 0 ? ops : op;
		if (takes)
			q->took += n;
		if (q->stream->start == 0)
			q->stream->start = (int64_t)hv_now();
		if (post(r, q, n))
			return -1;
	}
	return 0;
}

/* And where one is out at a time: nothing is kept for the next of a list. */
int hv_fill_one(struct hv_run *r, uint32_t queue)
{
	hv_group *g = r->g;
	struct hv_queue *q = &g->queue[queue];
	struct hv_cursor *c = &q->out;
	struct ibv_send_wr *w = q->send;
	if (q->used >= g->send_work)
		return 0;
	const struct hv_piece *p = &c->pieces[c->op == c->ops ? 0 : c->op];
	c->op = c->piece = c->end = (uint32_t)(p - c->pieces) + 1;
	w->sg_list->addr = r->out.ours + (r->out.swap ? p->remote : p->local);
	w->sg_list->length = (uint32_t)p->length;
	w->wr.rdma.remote_addr = r->out.theirs + (r->out.swap ? p->local : p->remote);
	w->send_flags = p->length <= r->inline_bytes ? IBV_SEND_INLINE : 0;
	q->took += r->last != IBV_WR_RDMA_WRITE && r->last != IBV_WR_RDMA_READ;
	q->used++;
	q->started++;
	q->unsignalled++;
	if (++q->since_signal >= (g->send_work + 1) / 2 || r->by_send) {
		w->send_flags |= IBV_SEND_SIGNALED;
		w->wr_id = HV_ID(queue, g->loop, q->since_signal, q->unsignalled);
		q->since_signal = q->unsignalled = 0;
	}
	if (q->stream->start == 0)
		q->stream->start = (int64_t)hv_now();
	return post(r, q, 1);
}

int hv_post_receives(struct hv_run *r, uint32_t queue)
{
	hv_group *g = r->g;
	struct hv_queue *q = &g->queue[queue];
	uint64_t outstanding = q->posted - q->received;
	/* In lists, so that a completion does not cost a call. */
	if (outstanding > r->receives / 2 && outstanding + g->post_list > r->receives)
		return 0;
	while (outstanding < r->receives) {
		uint32_t n = 0;
		while (n < g->post_list && outstanding + n < r->receives) {
			struct ibv_recv_wr *w = &q->recv[n++];
			w->wr_id = HV_ID_RECV | HV_ID(queue, g->loop, 0, 0);
			w->num_sge = 0;
			if (r->empty_in) {
				w->wr_id |= HV_ID_LAST;
				continue;
			}
			if (q->in.piece == q->in.end)
				begin_op(&q->in);
			struct message m = gather(&q->in, &r->in, r->l, 1, r->l->local_key, w->sg_list);
			w->num_sge = m.sges;
			if (m.last)
				w->wr_id |= HV_ID_LAST;
		}
		struct ibv_recv_wr *bad, *tail = &q->recv[n - 1], *next = tail->next;
		tail->next = NULL;
		int error = ibv_post_recv(q->qp, q->recv, &bad);
		tail->next = next;
		if (error)
			return hv_fail(r, HV_STEP_POST_RECV, error < 0 ? hv_errno() : error);
		q->posted += n;
		outstanding += n;
	}
	return 0;
}

/* ---- notes ---- */

static int post_note_receive(hv_group *g, uint32_t slot, struct hv_failure *why)
{
	struct hv_queue *q = &g->queue[g->queues];
	struct ibv_sge sge = {.addr = (uintptr_t)(g->notes + (size_t)slot * g->note_bytes), .length = g->note_bytes, .lkey = g->note_mr->lkey};
	struct ibv_recv_wr w = {.wr_id = HV_ID_RECV | HV_ID(g->queues, 0, 0, slot), .sg_list = &sge, .num_sge = 1}, *bad;
	int error = ibv_post_recv(q->qp, &w, &bad);
	if (error) {
		why->step = HV_STEP_POST_RECV;
		why->error = error < 0 ? hv_errno() : error;
		g->broken = 1;
		return -1;
	}
	return 0;
}

int hv_open_notes(hv_group *g, struct hv_failure *why)
{
	memset(why, 0, sizeof *why);
	for (uint32_t i = 0; i < HV_NOTE_SLOTS; i++)
		if (post_note_receive(g, i, why))
			return -1;
	return 0;
}

int hv_say(struct hv_run *r, uint32_t kind)
{
	hv_group *g = r->g;
	const struct hv_loop *l = r->l;
	struct hv_queue *q = &g->queue[g->queues];
	uint8_t *slot = g->notes + (size_t)g->note_bytes * (HV_NOTE_SLOTS + g->note_sent++ % HV_NOTE_SLOTS);
	struct hv_note *n = (struct hv_note *)slot;
	n->kind = kind;
	n->loop = g->loop;
	n->op = l->op;
	n->notify = l->notify;
	n->echo = r->echo;
	n->streams = l->streams;
	for (int s = 0; s < l->streams; s++) {
		n->stream[s].took = (uint32_t)g->queue[s].took;
		n->stream[s].left = (uint32_t)g->queue[s].posted - g->queue[s].peer_took;
	}
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot,
		.length = (uint32_t)(sizeof *n + l->streams * sizeof n->stream[0]),
		.lkey = g->note_mr->lkey,
	};
	struct ibv_send_wr w = {
		.wr_id = HV_ID(g->queues, g->loop, 1, 0),
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad;
	int error = ibv_post_send(q->qp, &w, &bad);
	if (error)
		return hv_fail(r, HV_STEP_POST_SEND, error < 0 ? hv_errno() : error);
	q->used++;
	return 0;
}

/* Takes in a completion of the notes' queue: keeps a copy of a note and posts its receive again. */
int hv_hear(struct hv_run *r, const struct ibv_wc *wc)
{
	hv_group *g = r->g;
	if (!(wc->wr_id & HV_ID_RECV)) {
		g->queue[g->queues].used--;
		return 0;
	}
	uint32_t slot = HV_ID_OPS(wc->wr_id);
	const struct hv_note *n = (const struct hv_note *)(g->notes + (size_t)slot * g->note_bytes);
	if (wc->byte_len < sizeof *n || wc->byte_len > g->note_bytes || n->kind == 0 || n->kind >= HV_NOTES || n->streams > g->queues ||
	    wc->byte_len < sizeof *n + n->streams * sizeof n->stream[0])
		return hv_fail(r, HV_STEP_DISAGREE, EPROTO);
	memcpy(g->note[n->kind], n, wc->byte_len);
	g->heard[n->kind] = n->loop;
	return post_note_receive(g, slot, r->why);
}
#endif
