/* A group: queue pairs that share one completion queue, and their way through the states of a connection. */
#define _GNU_SOURCE
#include "verbs.h"
#ifdef HV_HEADERS
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static int failed(struct hv_failure *why, int step, int error)
{
	why->step = step;
	why->error = error;
	return error;
}

/* Devices differ in how much they take inline, and say so only by refusing the queue pair. */
static struct ibv_qp *create_qp(hv_group *g, uint32_t send_work, uint32_t recv_work, uint32_t *inline_bytes)
{
	uint32_t want = *inline_bytes;
	for (;;) {
		struct ibv_qp_init_attr a = {
			.send_cq = g->cq,
			.recv_cq = g->cq,
			.qp_type = IBV_QPT_RC,
			.cap = {
				.max_send_wr = send_work,
				.max_recv_wr = recv_work,
				.max_send_sge = g->sge,
				.max_recv_sge = g->sge,
				.max_inline_data = want,
			},
		};
		errno = 0;
		struct ibv_qp *qp = hv_verbs.ibv_create_qp(g->context->pd, &a);
		if (qp) {
			/* What is granted may exceed what was asked for; the policy is what was asked. */
			*inline_bytes = a.cap.max_inline_data < want ? a.cap.max_inline_data : want;
			return qp;
		}
		if (want == 0 || (errno != EINVAL && errno != ENOMEM && errno != EOPNOTSUPP))
			return NULL;
		want = want > 128 ? 128 : want > 64 ? 64 : want > 28 ? 28 : 0;
	}
}

static int lay_out(hv_group *g, struct hv_queue *q)
{
	uint32_t n = g->post_list, sge = g->sge;
	q->send = calloc(n, sizeof *q->send);
	q->send_sge = calloc((size_t)n * sge, sizeof *q->send_sge);
	q->recv = calloc(n, sizeof *q->recv);
	q->recv_sge = calloc((size_t)n * sge, sizeof *q->recv_sge);
	if (!q->send || !q->send_sge || !q->recv || !q->recv_sge)
		return ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		q->send[i].sg_list = &q->send_sge[(size_t)i * sge];
		q->send[i].next = i + 1 < n ? &q->send[i + 1] : NULL;
		q->recv[i].sg_list = &q->recv_sge[(size_t)i * sge];
		q->recv[i].next = i + 1 < n ? &q->recv[i + 1] : NULL;
	}
	return 0;
}

/* The memory of the notes: registered, since the device reads and writes it. */
static int lay_out_notes(hv_group *g)
{
	g->note_bytes = (uint32_t)(sizeof(struct hv_note) + g->queues * sizeof ((struct hv_note *)0)->stream[0] + 63) / 64 * 64;
	size_t bytes = (size_t)g->note_bytes * (2 * HV_NOTE_SLOTS + HV_NOTES);
	if (posix_memalign((void **)&g->notes, 4096, bytes))
		return ENOMEM;
	memset(g->notes, 0, bytes);
	for (int i = 0; i < HV_NOTES; i++)
		g->note[i] = (struct hv_note *)(g->notes + (size_t)g->note_bytes * (2 * HV_NOTE_SLOTS + i));
	errno = 0;
	g->note_mr = hv_verbs.ibv_reg_mr(g->context->pd, g->notes, (size_t)g->note_bytes * 2 * HV_NOTE_SLOTS, IBV_ACCESS_LOCAL_WRITE);
	return g->note_mr ? 0 : hv_errno();
}

int hv_group_create(hv_context *c, const struct hv_group_request *want, struct hv_group_grant *got, uint32_t *qpns,
		    hv_group **out, struct hv_failure *why)
{
	memset(why, 0, sizeof *why);
	memset(got, 0, sizeof *got);
	if (want->queues == 0 || want->queues > HV_QUEUES || want->post_list == 0 || want->sge == 0 || want->send_work == 0)
		return failed(why, HV_STEP_ARGUMENT, EINVAL);
	hv_group *g = calloc(1, sizeof *g);
	if (!g)
		return failed(why, HV_STEP_MEMORY, ENOMEM);
	g->context = c;
	g->queues = want->queues;
	g->send_work = want->send_work;
	g->recv_work = want->recv_work;
	g->sge = want->sge;
	g->post_list = want->post_list;
	g->inline_bytes = want->inline_bytes;
	g->queue = calloc(g->queues + 1, sizeof *g->queue);
	if (!g->queue) {
		free(g);
		return failed(why, HV_STEP_MEMORY, ENOMEM);
	}
	int error;
	if (want->events) {
		errno = 0;
		g->channel = hv_verbs.ibv_create_comp_channel(c->verbs);
		if (!g->channel) {
			error = failed(why, HV_STEP_CHANNEL, hv_errno());
			goto undo;
		}
		int flags = fcntl(g->channel->fd, F_GETFL);
		fcntl(g->channel->fd, F_SETFL, flags | O_NONBLOCK);
	}
	struct ibv_device_attr limits;
	memset(&limits, 0, sizeof limits);
	error = hv_verbs.ibv_query_device(c->verbs, &limits);
	if (error) {
		failed(why, HV_STEP_CQ, error);
		goto undo;
	}
	uint64_t cqe = (uint64_t)g->queues * ((uint64_t)g->send_work + g->recv_work) + 2 * HV_NOTE_SLOTS + 1;
	if (limits.max_cqe > 0 && cqe > (uint64_t)limits.max_cqe) {
		error = failed(why, HV_STEP_CQ, E2BIG); /* the caller says which limit, and asks for less */
		got->cqe = (uint32_t)limits.max_cqe;
		goto undo;
	}
	errno = 0;
	g->cq = hv_verbs.ibv_create_cq(c->verbs, (int)cqe, NULL, g->channel, 0);
	if (!g->cq) {
		error = failed(why, HV_STEP_CQ, hv_errno());
		goto undo;
	}
	for (uint32_t i = 0; i <= g->queues; i++) {
		struct hv_queue *q = &g->queue[i];
		q->qp = i < g->queues ? create_qp(g, g->send_work, g->recv_work, &g->inline_bytes)
				      : create_qp(g, HV_NOTE_SLOTS, HV_NOTE_SLOTS, &(uint32_t){0});
		if (!q->qp) {
			error = failed(why, HV_STEP_QP, hv_errno());
			goto undo;
		}
		error = lay_out(g, q);
		if (error) {
			failed(why, HV_STEP_MEMORY, error);
			goto undo;
		}
		qpns[i] = q->qp->qp_num;
	}
	error = lay_out_notes(g);
	if (error) {
		failed(why, HV_STEP_MEMORY, error);
		goto undo;
	}
	got->send_work = g->send_work;
	got->recv_work = g->recv_work;
	got->sge = g->sge;
	got->inline_bytes = g->inline_bytes;
	got->cqe = (uint32_t)g->cq->cqe;
	*out = g;
	return 0;
undo:
	hv_group_destroy(g);
	return error;
}

/* Takes everything down in reverse order. It goes on past a refusal, so that one object cannot keep the rest, and
 * returns the first. */
int hv_group_destroy(hv_group *g)
{
	int first = 0, error;
	for (uint32_t i = g->queues + 1; i-- > 0;) {
		struct hv_queue *q = &g->queue[i];
		if (q->qp && (error = hv_verbs.ibv_destroy_qp(q->qp)) && !first)
			first = error;
		free(q->send);
		free(q->send_sge);
		free(q->recv);
		free(q->recv_sge);
	}
	if (g->cq) {
		if (g->unacknowledged)
			hv_verbs.ibv_ack_cq_events(g->cq, g->unacknowledged);
		if ((error = hv_verbs.ibv_destroy_cq(g->cq)) && !first)
			first = error;
	}
	if (g->channel && (error = hv_verbs.ibv_destroy_comp_channel(g->channel)) && !first)
		first = error;
	if (g->note_mr && (error = hv_verbs.ibv_dereg_mr(g->note_mr)) && !first)
		first = error;
	free(g->notes);
	free(g->queue);
	free(g);
	return first;
}

static int modify(hv_group *g, uint32_t queue, struct ibv_qp_attr *a, int mask)
{
	if (queue > g->queues)
		return EINVAL;
	errno = 0;
	int error = hv_verbs.ibv_modify_qp(g->queue[queue].qp, a, mask);
	return error < 0 ? hv_errno() : error;
}

int hv_queue_init(hv_group *g, uint32_t queue, int port, int pkey_index)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = port,
		.pkey_index = pkey_index,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	return modify(g, queue, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

int hv_queue_rtr(hv_group *g, uint32_t queue, const struct hv_path *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = p->mtu,
		.dest_qp_num = p->qpn,
		.rq_psn = p->recv_psn,
		.max_dest_rd_atomic = p->reads_in,
		.min_rnr_timer = p->rnr_timer,
		.ah_attr = {
			.dlid = p->lid,
			.sl = p->sl,
			.port_num = p->port,
			.is_global = p->global,
		},
	};
	if (p->global) {
		memcpy(a.ah_attr.grh.dgid.raw, p->gid, sizeof p->gid);
		a.ah_attr.grh.sgid_index = p->gid_index;
		a.ah_attr.grh.hop_limit = p->hop_limit;
		a.ah_attr.grh.traffic_class = p->traffic_class;
		a.ah_attr.grh.flow_label = p->flow_label;
	}
	return modify(g, queue, &a,
		      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			      IBV_QP_MIN_RNR_TIMER);
}

int hv_queue_rts(hv_group *g, uint32_t queue, const struct hv_path *p)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTS,
		.timeout = p->timeout,
		.retry_cnt = p->retries,
		.rnr_retry = p->rnr_retries,
		.sq_psn = p->send_psn,
		.max_rd_atomic = p->reads_out,
	};
	return modify(g, queue, &a,
		      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

int hv_queue_error(hv_group *g, uint32_t queue)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_ERR};
	return modify(g, queue, &a, IBV_QP_STATE);
}

int hv_queue_state(hv_group *g, uint32_t queue, int *state)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;
	if (queue > g->queues)
		return EINVAL;
	memset(&a, 0, sizeof a);
	int error = hv_verbs.ibv_query_qp(g->queue[queue].qp, &a, IBV_QP_STATE, &init);
	*state = a.qp_state;
	return error < 0 ? hv_errno() : error;
}
#endif
