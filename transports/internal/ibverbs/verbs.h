/* What the C files share: the header where it exists, the table of functions, and the structs behind the opaque
 * pointers. Without rdma-core's header every file but absent.c compiles to nothing. */
#ifndef HOPBENCH_VERBS_VERBS_H
#define HOPBENCH_VERBS_VERBS_H
#include "shim.h"

#if defined(__has_include) && !defined(HOPBENCH_NO_VERBS)
#if __has_include(<infiniband/verbs.h>)
#define HV_HEADERS 1
#endif
#endif

#ifdef HV_HEADERS
#include <infiniband/verbs.h>
/* The header hides these behind function-like macros, which would rewrite a call through our table. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

/* X(name, symbol version, required). The version matters: several names exist twice, and an unversioned reference
 * binds to the ABI of 2006. */
#define HV_SYMBOLS(X) \
	X(ibv_get_device_list, "IBVERBS_1.1", 1) \
	X(ibv_free_device_list, "IBVERBS_1.1", 1) \
	X(ibv_get_device_guid, "IBVERBS_1.1", 1) \
	X(ibv_open_device, "IBVERBS_1.1", 1) \
	X(ibv_close_device, "IBVERBS_1.1", 1) \
	X(ibv_query_device, "IBVERBS_1.1", 1) \
	X(ibv_query_port, "IBVERBS_1.1", 1) \
	X(ibv_query_gid, "IBVERBS_1.1", 1) \
	X(ibv_query_pkey, "IBVERBS_1.1", 1) \
	X(ibv_alloc_pd, "IBVERBS_1.1", 1) \
	X(ibv_dealloc_pd, "IBVERBS_1.1", 1) \
	X(ibv_reg_mr, "IBVERBS_1.1", 1) \
	X(ibv_dereg_mr, "IBVERBS_1.1", 1) \
	X(ibv_create_comp_channel, "IBVERBS_1.0", 1) \
	X(ibv_destroy_comp_channel, "IBVERBS_1.0", 1) \
	X(ibv_create_cq, "IBVERBS_1.1", 1) \
	X(ibv_destroy_cq, "IBVERBS_1.1", 1) \
	X(ibv_get_cq_event, "IBVERBS_1.1", 1) \
	X(ibv_ack_cq_events, "IBVERBS_1.1", 1) \
	X(ibv_create_qp, "IBVERBS_1.1", 1) \
	X(ibv_modify_qp, "IBVERBS_1.1", 1) \
	X(ibv_query_qp, "IBVERBS_1.1", 1) \
	X(ibv_destroy_qp, "IBVERBS_1.1", 1) \
	X(ibv_get_async_event, "IBVERBS_1.1", 1) \
	X(ibv_ack_async_event, "IBVERBS_1.1", 1) \
	X(ibv_wc_status_str, "IBVERBS_1.1", 1) \
	X(ibv_reg_mr_iova2, "IBVERBS_1.8", 0) \
	X(_ibv_query_gid_ex, "IBVERBS_1.11", 0) \
	X(_ibv_query_gid_table, "IBVERBS_1.11", 0) \
	X(ibv_reg_dmabuf_mr, "IBVERBS_1.12", 0)

struct hv_table {
#define X(name, version, required) __typeof__(&name) name;
	HV_SYMBOLS(X)
#undef X
};

extern struct hv_table hv_verbs;

struct hv_context {
	struct ibv_context *verbs;
	struct ibv_pd *pd;
};

struct hv_region {
	struct ibv_mr *mr;
};

/* A place in a stream's list. */
struct hv_cursor {
	const struct hv_piece *pieces;
	const uint32_t *ends;
	uint32_t ops, op;     /* how many, and the one after that which is being laid out */
	uint32_t piece, end;  /* the next piece, and where its operation ends; equal between operations */
	uint64_t taken;       /* how much of a long piece is already cut off */
};

/* Work requests are laid out once, when the group is made; a loop fills in what changes and posts them. */
struct hv_queue {
	struct ibv_qp *qp;
	struct ibv_send_wr *send; /* post_list of them, linked */
	struct ibv_sge *send_sge; /* post_list x sge */
	struct ibv_recv_wr *recv;
	struct ibv_sge *recv_sge;

	/* These outlive a loop: what the queue pair holds. */
	uint32_t used;         /* send work requests not yet known to be done */
	uint32_t since_signal; /* of them, after the last that asks for a completion */

	/* These belong to one loop. */
	struct hv_stream *stream;
	struct hv_cursor out, in;
	uint64_t limit;            /* operations to start */
	uint64_t started, done;    /* operations */
	uint32_t unsignalled;      /* operations that ended since the last request for a completion */
	uint64_t next_stamp;
	uint64_t posted, received; /* messages that take a receive of ours */
	uint64_t took;             /* messages that took one of the peer's */
	uint32_t peer_took;        /* messages of the peer's that took one of ours, as it says at the end */
	int64_t due;               /* paced: when the next operation may start */
	volatile uint8_t *mark;    /* ping-pong by polled memory: the byte that will change */
	uint8_t mark_value;
};

enum { HV_NOTE_SLOTS = 8 };

/* What two loops tell each other, outside the clock, over the group's own queue pair. */
struct hv_note {
	uint32_t kind, loop;
	uint32_t op, notify, echo, streams;
	struct {
		uint32_t took, left; /* messages sent to the other's receives; receives of mine that nothing took */
	} stream[];
};

struct hv_group {
	hv_context *context;
	struct ibv_comp_channel *channel; /* NULL: this group only spins */
	struct ibv_cq *cq;
	struct hv_queue *queue;
	uint32_t queues, send_work, recv_work, sge, inline_bytes, post_list;
	uint32_t note_bytes;
	uint8_t *notes;       /* HV_NOTE_SLOTS to receive into, then as many to send from */
	struct ibv_mr *note_mr;
	uint32_t note_sent;   /* how many, for the slot of the next */
	uint32_t loop;        /* number of the loop that runs or ran last; both sides count the same ones */
	uint32_t heard[HV_NOTES]; /* the loop of the last note of each kind */
	struct hv_note *note[HV_NOTES]; /* a copy of it */
	int broken;           /* a loop failed: the queue pairs are in the error state */
	int stale;            /* a loop was stopped in the middle: receives of unknown lists are still posted */
	uint32_t unacknowledged; /* events taken from the channel and not yet acknowledged */
	int armed;               /* a notification was asked for and not yet taken */
};

/* The errno of a call that failed and may have left none. */
int hv_errno(void);
#endif
#endif
