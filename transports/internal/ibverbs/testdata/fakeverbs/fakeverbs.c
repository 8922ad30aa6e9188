/* A double of libibverbs.so.1 that moves bytes inside one process and completes at once, so that what is left of a loop's
 * time is ours. It is built by the tests, and by scripts/count-instructions.sh under callgrind; no figure measured over it is a
 * device's, and it says so by hopbench_double.
 *
 *   FAKEVERBS_ENOSYS=1        the kernel has no RDMA stack
 *   FAKEVERBS_DEVICES=0       the stack has no device
 *   FAKEVERBS_INLINE=N        the most a queue pair takes inline; more is refused with EINVAL
 *   FAKEVERBS_FAIL_AT=N       the Nth completion of a send fails
 *   FAKEVERBS_STATUS=N        with that status (default 12)
 *   FAKEVERBS_LINK=1, 2       the port's link layer: InfiniBand, Ethernet (default: unspecified)
 *   FAKEVERBS_STATE=N         the port's state (default 4, ACTIVE)
 *   FAKEVERBS_NODE_TYPE=N     the device's (default 1; 4 is an iWARP NIC)
 *   FAKEVERBS_FAIL_OPEN=N     opening the device fails with that errno
 *   FAKEVERBS_FAIL_RTR=N      the step to RTR fails with that errno
 *   FAKEVERBS_FAIL_MR=N       registering fails with that errno
 *   FAKEVERBS_FAIL_QP=N       making a queue pair fails with that errno
 *   FAKEVERBS_MAX_MESSAGE=N   the port's largest message
 *   FAKEVERBS_NO_COPY=1       bytes stay where they are: only the work is counted
 *
 * A queue pair sends to the one whose number its path names; each is its own list of completions and receives. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <infiniband/verbs.h>
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_get_device_list

const char *hopbench_double = "fake libibverbs";

enum { QUEUES = 256, RING = 1 << 14 };

struct queue {
	struct ibv_qp qp;
	uint32_t peer, inline_bytes;
	struct ibv_recv_wr recv[4096];
	struct ibv_sge recv_sge[4096][8];
	uint32_t recv_head, recv_tail;
};

struct ring {
	struct ibv_cq cq;
	struct ibv_wc wc[RING];
	uint32_t head, tail;
	int armed;
	pthread_mutex_t lock;
};

static struct queue *queues[QUEUES];
static int no_copy, fail_at = -1, fail_status = 12;
static long sends;
static pthread_mutex_t wire = PTHREAD_MUTEX_INITIALIZER;

static long number(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtol(text, NULL, 0) : otherwise;
}

static void complete(struct ibv_cq *cq, struct ibv_wc wc)
{
	struct ring *r = (struct ring *)cq;
	pthread_mutex_lock(&r->lock); /* a queue's own sends and its peer's messages complete on it from two threads */
	r->wc[r->tail % RING] = wc;
	__atomic_store_n(&r->tail, r->tail + 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&r->lock);
	if (__atomic_exchange_n(&r->armed, 0, __ATOMIC_ACQ_REL) && cq->channel) {
		uint64_t one = 1;
		if (write(cq->channel->fd, &one, sizeof one) < 0)
			abort();
	}
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct ring *r = (struct ring *)cq;
	uint32_t tail = __atomic_load_n(&r->tail, __ATOMIC_ACQUIRE);
	int k = 0;
	while (k < n && r->head != tail)
		wc[k++] = r->wc[r->head++ % RING];
	return k;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)solicited;
	__atomic_store_n(&((struct ring *)cq)->armed, 1, __ATOMIC_RELEASE);
	return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *w, struct ibv_recv_wr **bad)
{
	struct queue *q = (struct queue *)qp;
	pthread_mutex_lock(&wire);
	for (; w; w = w->next) {
		if (q->recv_tail - q->recv_head == 4096) {
			*bad = w;
			pthread_mutex_unlock(&wire);
			return ENOMEM;
		}
		uint32_t slot = q->recv_tail++ % 4096;
		q->recv[slot] = *w;
		memcpy(q->recv_sge[slot], w->sg_list, (size_t)w->num_sge * sizeof *w->sg_list);
	}
	pthread_mutex_unlock(&wire);
	return 0;
}

/* Scatters a message into the peer's next receive; 0, or the status that the sender sees. */
static int deliver(struct queue *q, struct ibv_send_wr *w, int imm)
{
	struct queue *p = queues[q->peer % QUEUES];
	if (!p || p->recv_head == p->recv_tail)
		return IBV_WC_RNR_RETRY_EXC_ERR;
	uint32_t slot = p->recv_head++ % 4096;
	struct ibv_wc wc = {.wr_id = p->recv[slot].wr_id, .qp_num = p->qp.qp_num, .opcode = imm ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV, .imm_data = w->imm_data};
	if (!imm) {
		struct ibv_sge *to = p->recv_sge[slot];
		int left = p->recv[slot].num_sge;
		uint32_t at = 0;
		for (int i = 0; i < w->num_sge; i++) {
			for (uint32_t done = 0; done < w->sg_list[i].length;) {
				if (!left)
					return IBV_WC_REM_INV_REQ_ERR;
				uint32_t n = w->sg_list[i].length - done;
				if (n > to->length - at)
					n = to->length - at;
				if (!no_copy || w->num_sge) /* notes are read by the loops */
					memcpy((char *)(uintptr_t)to->addr + at, (char *)(uintptr_t)w->sg_list[i].addr + done, n);
				done += n;
				at += n;
				wc.byte_len += n;
				if (at == to->length) {
					to++;
					left--;
					at = 0;
				}
			}
		}
	}
	complete(p->qp.recv_cq, wc);
	return 0;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *w, struct ibv_send_wr **bad)
{
	struct queue *q = (struct queue *)qp;
	(void)bad;
	for (; w; w = w->next) {
		int status = 0, message = w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM;
		if (!message && !no_copy) { /* the bytes are there before the receiver hears of them */
			char *theirs = (char *)(uintptr_t)w->wr.rdma.remote_addr;
			for (int i = 0; i < w->num_sge; i++) {
				char *ours = (char *)(uintptr_t)w->sg_list[i].addr;
				if (w->opcode == IBV_WR_RDMA_READ)
					memcpy(ours, theirs, w->sg_list[i].length);
				else
					memcpy(theirs, ours, w->sg_list[i].length);
				theirs += w->sg_list[i].length;
			}
		}
		if (message || w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
			/* A receiver that is behind is tried again, as a reliable connection does. */
			for (long tries = 0; tries < 50000; tries++) {
				pthread_mutex_lock(&wire);
				status = deliver(q, w, !message);
				pthread_mutex_unlock(&wire);
				if (status != IBV_WC_RNR_RETRY_EXC_ERR)
					break;
				usleep(20);
			}
		}
		if (fail_at >= 0 && !message && ++sends == fail_at)
			status = fail_status;
		if (status || (w->send_flags & IBV_SEND_SIGNALED))
			complete(qp->send_cq, (struct ibv_wc){.wr_id = w->wr_id, .status = status, .qp_num = qp->qp_num, .vendor_err = status ? 0x51 : 0});
	}
	return 0;
}

static struct ibv_device device = {.name = "fake0", .dev_name = "uverbs0", .node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB};

struct ibv_device **ibv_get_device_list(int *n)
{
	if (getenv("FAKEVERBS_ENOSYS")) {
		errno = ENOSYS;
		return NULL;
	}
	struct ibv_device **l = calloc(2, sizeof *l);
	*n = (int)number("FAKEVERBS_DEVICES", 1);
	device.node_type = (enum ibv_node_type)number("FAKEVERBS_NODE_TYPE", IBV_NODE_CA);
	if (*n)
		l[0] = &device;
	return l;
}
void ibv_free_device_list(struct ibv_device **l) { free(l); }
__be64 ibv_get_device_guid(struct ibv_device *d) { (void)d; return 1; }

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	if ((errno = (int)number("FAKEVERBS_FAIL_OPEN", 0)))
		return NULL;
	struct ibv_context *c = calloc(1, sizeof *c); /* abi_compat is not set: there is no verbs_context behind it */
	no_copy = (int)number("FAKEVERBS_NO_COPY", 0);
	fail_at = (int)number("FAKEVERBS_FAIL_AT", -1);
	fail_status = (int)number("FAKEVERBS_STATUS", 12);
	sends = 0;
	c->device = d;
	c->async_fd = eventfd(0, EFD_NONBLOCK);
	c->ops.poll_cq = poll_cq;
	c->ops.post_send = post_send;
	c->ops.post_recv = post_recv;
	c->ops.req_notify_cq = req_notify_cq;
	return c;
}
int ibv_close_device(struct ibv_context *c) { close(c->async_fd); free(c); return 0; }

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	(void)c;
	memset(a, 0, sizeof *a);
	a->phys_port_cnt = 1;
	a->max_qp = QUEUES;
	a->max_qp_wr = 4096;
	a->max_sge = a->max_sge_rd = 8;
	a->max_cqe = RING;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = 16;
	return 0;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *x)
{
	struct ibv_port_attr *a = (void *)x;
	(void)c;
	(void)port;
	a->state = (enum ibv_port_state)number("FAKEVERBS_STATE", IBV_PORT_ACTIVE);
	a->link_layer = (uint8_t)number("FAKEVERBS_LINK", IBV_LINK_LAYER_UNSPECIFIED);
	a->active_mtu = a->max_mtu = IBV_MTU_4096;
	a->max_msg_sz = (uint32_t)number("FAKEVERBS_MAX_MESSAGE", 1 << 30);
	a->gid_tbl_len = 1;
	a->pkey_tbl_len = 1;
	a->lid = 7;
	return 0;
}
int ibv_query_gid(struct ibv_context *c, uint8_t p, int i, union ibv_gid *g)
{
	(void)c;
	(void)p;
	memset(g, 0, sizeof *g);
	g->raw[0] = 0xfe;
	g->raw[1] = 0x80;
	g->raw[15] = 1;
	return i ? -1 : 0;
}
int ibv_query_pkey(struct ibv_context *c, uint8_t p, int i, __be16 *k) { (void)c; (void)p; (void)i; *k = 0xffff; return 0; }
struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) { struct ibv_pd *p = calloc(1, sizeof *p); p->context = c; return p; }
int ibv_dealloc_pd(struct ibv_pd *p) { free(p); return 0; }
struct ibv_mr *ibv_reg_mr(struct ibv_pd *p, void *a, size_t n, int access)
{
	static unsigned key = 100;
	if (n > 1 << 15 && (errno = (int)number("FAKEVERBS_FAIL_MR", 0))) /* the loops' own notes are smaller */
		return NULL;
	struct ibv_mr *m = calloc(1, sizeof *m);
	(void)access;
	m->pd = p;
	m->addr = a;
	m->length = n;
	m->lkey = m->rkey = key++;
	return m;
}
int ibv_dereg_mr(struct ibv_mr *m) { free(m); return 0; }

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c)
{
	struct ibv_comp_channel *ch = calloc(1, sizeof *ch);
	ch->context = c;
	ch->fd = eventfd(0, EFD_SEMAPHORE);
	return ch;
}
int ibv_destroy_comp_channel(struct ibv_comp_channel *c) { close(c->fd); free(c); return 0; }
struct ibv_cq *ibv_create_cq(struct ibv_context *c, int n, void *x, struct ibv_comp_channel *ch, int v)
{
	struct ring *r = calloc(1, sizeof *r);
	(void)x;
	(void)v;
	r->cq.context = c;
	r->cq.channel = ch;
	r->cq.cqe = n;
	pthread_mutex_init(&r->lock, NULL);
	return &r->cq;
}
int ibv_destroy_cq(struct ibv_cq *c) { free(c); return 0; }
int ibv_get_cq_event(struct ibv_comp_channel *c, struct ibv_cq **q, void **x)
{
	uint64_t one;
	(void)q;
	(void)x;
	return read(c->fd, &one, sizeof one) == sizeof one ? 0 : -1;
}
void ibv_ack_cq_events(struct ibv_cq *c, unsigned n) { (void)c; (void)n; }

struct ibv_qp *ibv_create_qp(struct ibv_pd *p, struct ibv_qp_init_attr *a)
{
	uint32_t most = (uint32_t)number("FAKEVERBS_INLINE", 220);
	if ((errno = (int)number("FAKEVERBS_FAIL_QP", 0)))
		return NULL;
	if (a->cap.max_inline_data > most) {
		errno = EINVAL;
		return NULL;
	}
	for (uint32_t n = 10; n < QUEUES; n++) {
		if (queues[n])
			continue;
		struct queue *q = queues[n] = calloc(1, sizeof *q);
		q->qp.context = p->context;
		q->qp.pd = p;
		q->qp.send_cq = a->send_cq;
		q->qp.recv_cq = a->recv_cq;
		q->qp.qp_num = n;
		return &q->qp;
	}
	errno = ENOMEM;
	return NULL;
}
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *a, int mask)
{
	static const int before[] = {0, IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR};
	struct queue *q = (struct queue *)qp;
	if (a->qp_state <= IBV_QPS_RTS && (int)qp->state != before[a->qp_state])
		return EINVAL;
	if (a->qp_state == IBV_QPS_RTR && number("FAKEVERBS_FAIL_RTR", 0))
		return (int)number("FAKEVERBS_FAIL_RTR", 0);
	if (mask & IBV_QP_DEST_QPN)
		q->peer = a->dest_qp_num;
	qp->state = a->qp_state;
	return 0;
}
int ibv_query_qp(struct ibv_qp *q, struct ibv_qp_attr *a, int m, struct ibv_qp_init_attr *i) { (void)m; (void)i; a->qp_state = q->state; return 0; }
int ibv_destroy_qp(struct ibv_qp *qp) { queues[qp->qp_num] = NULL; free(qp); return 0; }
int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *e) { (void)c; (void)e; return -1; }
void ibv_ack_async_event(struct ibv_async_event *e) { (void)e; }
const char *ibv_wc_status_str(enum ibv_wc_status s) { return s == IBV_WC_RETRY_EXC_ERR ? "transport retry counter exceeded" : "a status of the double"; }
