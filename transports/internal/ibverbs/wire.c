/* The wire of staged loops. They live outside of C, since between two chunks a device has to be asked, and cross into C a few times
 * a chunk: to post it, to tell the other side something by an immediate, and to take what has come. Each stream's queue keeps as many
 * empty receives posted as it holds; what comes in is a number each, and the bytes are where the sender put them. */
#define _GNU_SOURCE
#include "loop.h"
#ifdef HV_HEADERS
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

static int refuse(hv_group *g, struct hv_failure *why, int step, int error)
{
	why->step = step;
	why->error = error;
	g->broken = 1;
	return -1;
}

/* Posts n empty receives on a stream's queue. */
static int post_receives(hv_group *g, uint32_t queue, uint32_t n, struct hv_failure *why)
{
	struct hv_queue *q = &g->queue[queue];
	while (n > 0) {
		uint32_t k = 0;
		while (k < g->post_list && k < n) {
			struct ibv_recv_wr *w = &q->recv[k++];
			w->wr_id = HV_ID_RECV | HV_ID(queue, 0, 0, 0);
			w->num_sge = 0;
		}
		struct ibv_recv_wr *bad, *tail = &q->recv[k - 1], *next = tail->next;
		tail->next = NULL;
		int error = ibv_post_recv(q->qp, q->recv, &bad);
		tail->next = next;
		if (error)
			return refuse(g, why, HV_STEP_POST_RECV, error < 0 ? hv_errno() : error);
		n -= k;
	}
	return 0;
}

int hv_wire_open(hv_group *g, struct hv_failure *why)
{
	memset(why, 0, sizeof *why);
	for (uint32_t s = 0; s < g->queues; s++)
		if (post_receives(g, s, g->recv_work, why))
			return -1;
	return 0;
}

/* Signals a work request where it ends a chunk, and often enough that the queue can be used again. */
static void sign(hv_group *g, uint32_t queue, struct ibv_send_wr *w, uint32_t ends)
{
	struct hv_queue *q = &g->queue[queue];
	q->used++;
	q->since_signal++;
	w->send_flags = 0;
	if (!ends && q->since_signal < (g->send_work + 1) / 2)
		return;
	w->send_flags = IBV_SEND_SIGNALED;
	w->wr_id = HV_ID(queue, g->loop, q->since_signal, ends);
	q->since_signal = 0;
}

/* Lays out one work request from extents: as many as touch on the other side, and as this side's pieces may be gathered. */
static size_t lay(struct ibv_send_wr *w, const struct hv_wire_post *p, const struct hv_extent *e, size_t n)
{
	struct ibv_sge *sge = w->sg_list;
	uint64_t bytes = e[0].length;
	size_t i = 1;
	w->wr.rdma.remote_addr = e[0].remote;
	w->wr.rdma.rkey = p->remote_key;
	w->num_sge = 1;
	sge[0] = (struct ibv_sge){.addr = e[0].local, .length = (uint32_t)e[0].length, .lkey = p->local_key};
	while (i < n && e[i].remote == e[0].remote + bytes && bytes + e[i].length <= p->max_message) {
		struct ibv_sge *last = &sge[w->num_sge - 1];
		if (e[i].local == last->addr + last->length) {
			last->length += (uint32_t)e[i].length;
		} else if (w->num_sge < (int)p->sge) {
			sge[w->num_sge++] = (struct ibv_sge){.addr = e[i].local, .length = (uint32_t)e[i].length, .lkey = p->local_key};
		} else {
			break;
		}
		bytes += e[i++].length;
	}
	return i;
}

int hv_wire_post(hv_group *g, const struct hv_wire_post *p, const struct hv_extent *e, size_t n, size_t *taken, struct hv_failure *why)
{
	memset(why, 0, sizeof *why);
	*taken = 0;
	if (g->broken)
		return refuse(g, why, HV_STEP_BROKEN, EPIPE);
	if (p->queue >= g->queues || p->sge < 1 || p->sge > g->sge || p->max_message > UINT32_MAX)
		return refuse(g, why, HV_STEP_ARGUMENT, EINVAL);
	struct hv_queue *q = &g->queue[p->queue];
	while (*taken < n) {
		uint32_t k = 0;
		size_t i = *taken;
		while (k < g->post_list && q->used < g->send_work && i < n) {
			struct ibv_send_wr *w = &q->send[k++];
			if (e[i].length < 1 || e[i].length > p->max_message)
				return refuse(g, why, HV_STEP_ARGUMENT, EINVAL);
			i += lay(w, p, e + i, n - i);
			int end = i == n;
			w->opcode = p->read ? IBV_WR_RDMA_READ : end && p->tells ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
			w->imm_data = htonl(p->immediate);
			q->took += w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
			sign(g, p->queue, w, end);
		}
		if (k == 0)
			return 0; /* the queue is full: the rest waits for completions */
		struct ibv_send_wr *bad, *tail = &q->send[k - 1], *next = tail->next;
		tail->next = NULL;
		int error = ibv_post_send(q->qp, q->send, &bad);
		tail->next = next;
		if (error)
			return refuse(g, why, HV_STEP_POST_SEND, error < 0 ? hv_errno() : error);
		*taken = i;
	}
	return 0;
}

int hv_wire_tell(hv_group *g, uint32_t queue, uint32_t immediate, int *full, struct hv_failure *why)
{
	memset(why, 0, sizeof *why);
	*full = 0;
	if (g->broken)
		return refuse(g, why, HV_STEP_BROKEN, EPIPE);
	if (queue >= g->queues)
		return refuse(g, why, HV_STEP_ARGUMENT, EINVAL);
	struct hv_queue *q = &g->queue[queue];
	if (q->used >= g->send_work) {
		*full = 1;
		return 0;
	}
	struct ibv_send_wr *w = &q->send[0], *bad, *next = w->next;
	w->num_sge = 0;
	w->opcode = IBV_WR_SEND_WITH_IMM;
	w->imm_data = htonl(immediate);
	q->took++;
	sign(g, queue, w, 0);
	w->next = NULL;
	int error = ibv_post_send(q->qp, w, &bad);
	w->next = next;
	return error ? refuse(g, why, HV_STEP_POST_SEND, error < 0 ? hv_errno() : error) : 0;
}

int hv_wire_poll(hv_group *g, int wait, int64_t until, struct hv_wire_event *out, int *count, struct hv_failure *why)
{
	struct hv_loop l = {.wait = wait};
	struct hv_tally tally = {0};
	struct hv_run run = {.g = g, .l = &l, .tally = &tally, .why = why};
	struct ibv_wc wc[HV_POLL];
	memset(why, 0, sizeof *why);
	*count = 0;
	if (g->broken)
		return refuse(g, why, HV_STEP_BROKEN, EPIPE);
	int n = hv_take(&run, wc, until, 1, wait);
	if (n < 0)
		return -1;
	for (int i = 0; i < n; i++) {
		uint64_t id = wc[i].wr_id;
		uint32_t queue = HV_ID_QUEUE(id);
		if (wc[i].status != IBV_WC_SUCCESS)
			return hv_fail_completion(&run, &wc[i]);
		if (queue == g->queues) {
			if (hv_hear(&run, &wc[i]))
				return -1;
			if (id & HV_ID_RECV) /* which note it was, hv_wire_heard says */
				out[(*count)++] = (struct hv_wire_event){.queue = queue, .arrived = 1};
			continue;
		}
		if (id & HV_ID_RECV) {
			out[(*count)++] = (struct hv_wire_event){.queue = queue, .arrived = 1, .immediate = ntohl(wc[i].imm_data)};
			if (post_receives(g, queue, 1, why))
				return -1;
			continue;
		}
		g->queue[queue].used -= HV_ID_WORK(id);
		if (HV_ID_OPS(id) && HV_ID_LOOP(id) == (g->loop & 0xff)) /* what an earlier loop left is no chunk of this one */
			out[(*count)++] = (struct hv_wire_event){.queue = queue};
	}
	return 0;
}

/* Says something over the group's own queue pair. */
int hv_wire_say(hv_group *g, int note, const struct hv_loop *l, struct hv_failure *why)
{
	struct hv_tally tally = {0};
	struct hv_run run = {.g = g, .l = l, .echo = l->echo, .tally = &tally, .why = why};
	memset(why, 0, sizeof *why);
	if (g->broken)
		return refuse(g, why, HV_STEP_BROKEN, EPIPE);
	if (l->streams < 1 || (uint32_t)l->streams > g->queues)
		return refuse(g, why, HV_STEP_ARGUMENT, EINVAL);
	if (note == HV_BEGIN)
		hv_wire_start(g, g->loop + 1);
	return hv_say(&run, (uint32_t)note);
}

void hv_wire_start(hv_group *g, uint32_t loop)
{
	g->loop = loop;
	for (uint32_t s = 0; s < g->queues; s++)
		g->queue[s].took = g->queue[s].posted = g->queue[s].peer_took = 0;
}

void hv_wire_heard(hv_group *g, int note, struct hv_wire_note *out, uint32_t *took, uint32_t room)
{
	memset(out, 0, sizeof *out);
	out->loop = g->loop;
	out->unsent = g->queue[g->queues].used;
	if (note <= 0 || note >= HV_NOTES)
		return;
	const struct hv_note *n = g->note[note];
	out->heard = g->heard[note];
	out->op = (int32_t)n->op;
	out->notify = (int32_t)n->notify;
	out->echo = (int32_t)n->echo;
	out->streams = (int32_t)n->streams;
	for (uint32_t s = 0; s < n->streams && s < room; s++)
		took[s] = n->stream[s].took;
}

void hv_wire_break(hv_group *g)
{
	g->broken = 1;
}
#endif
