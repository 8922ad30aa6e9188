/* The one view that Go has of libibverbs: plain integers, our own plain structs and opaque pointers. No type of
 * infiniband/verbs.h crosses this line, so the package builds without that header (and then says so), and Go never
 * depends on the layout of somebody else's struct.
 *
 * Every call returns an errno as its value, 0 for success: Go never reads errno itself, since by then the goroutine
 * may be on another thread. */
#ifndef HOPBENCH_VERBS_SHIM_H
#define HOPBENCH_VERBS_SHIM_H
#include <stddef.h>
#include <stdint.h>

typedef struct hv_context hv_context; /* an open device and its protection domain */
typedef struct hv_region hv_region;   /* a memory registration */
typedef struct hv_group hv_group;     /* queue pairs that share one completion queue */

/* ---- the library ---- */

struct hv_library {
	int headers;         /* 0: this program was built without infiniband/verbs.h */
	int loaded;          /* 1: opened, and nothing required is missing */
	char path[512];      /* the file that the loader chose */
	char error[256];     /* what the loader answered */
	char missing[1024];  /* required symbols that are not there, each NAME@VERSION */
	char optional[1024]; /* optional symbols that are not there */
	char marker[256];    /* how a test double names itself; empty for the real library */
};

void hv_load(const char *soname, struct hv_library *out);

/* ---- devices ---- */

struct hv_device {
	char name[64];      /* mlx5_0 */
	char node[64];      /* uverbs0 */
	uint64_t guid;      /* host byte order */
	int32_t node_type;  /* IBV_NODE_* */
	int32_t transport;  /* IBV_TRANSPORT_* */
};

int hv_devices(struct hv_device *out, int capacity, int *count);
int hv_open(const char *name, hv_context **out);
int hv_close(hv_context *c);

struct hv_device_limits {
	char firmware[64];
	uint64_t max_region;
	uint32_t vendor, part;
	int32_t max_qp, max_work, max_sge, max_sge_read, max_cq, max_cqe, max_regions;
	int32_t max_reads_in, max_reads_out; /* RDMA reads that a QP may have in flight as responder, as requester */
	int32_t ports;
};

struct hv_port {
	uint64_t max_message;
	uint32_t capabilities;
	int32_t state, physical_state, link_layer, max_mtu, active_mtu, gids, pkeys; /* mtu as IBV_MTU_* */
	int32_t lid, sm_lid, lmc, sm_sl, width, speed, flags;
};

struct hv_gid {
	uint8_t raw[16];
	int32_t type;      /* IBV_GID_TYPE_*; -1 where the library cannot say */
	uint32_t ifindex;  /* 0: none, or another namespace's */
	int32_t index;     /* of the slot */
};

int hv_query_device(hv_context *c, struct hv_device_limits *out);
int hv_query_port(hv_context *c, int port, struct hv_port *out);
int hv_query_gid(hv_context *c, int port, int index, struct hv_gid *out); /* ENODATA: an empty slot */
/* All used slots of a port in one call; ENOSYS where the library or the kernel has no such call. */
int hv_query_gids(hv_context *c, int port, struct hv_gid *out, int capacity, int *count);
int hv_query_pkey(hv_context *c, int port, int index, uint16_t *out);
int hv_async_event(hv_context *c, int *type, uint32_t *qpn); /* EAGAIN: nothing is waiting */

/* ---- memory ---- */

enum { HV_REMOTE_WRITE = 1, HV_REMOTE_READ = 2, HV_RELAXED = 4 };

struct hv_keys {
	uint32_t local, remote;
	int32_t relaxed; /* 1: relaxed ordering was asked for and given */
};

int hv_register(hv_context *c, uint64_t address, uint64_t length, int access, hv_region **out, struct hv_keys *keys);
int hv_register_dmabuf(hv_context *c, int fd, uint64_t offset, uint64_t length, uint64_t iova, int access, hv_region **out,
		       struct hv_keys *keys);
int hv_deregister(hv_region *r);

/* ---- queue pairs ---- */

enum { HV_QUEUES = 1024 };

struct hv_failure {
	int32_t step;    /* enum hv_step */
	int32_t error;   /* errno, where the step has one */
	int32_t status;  /* IBV_WC_*, where a completion failed */
	uint32_t vendor; /* the device's own code beside it */
	uint32_t qpn;
	int32_t received; /* 1: the completion was a receive's */
	uint64_t flushed; /* completions with status 5 that were seen before or after */
};

enum hv_step {
	HV_STEP_NONE,
	HV_STEP_CHANNEL,
	HV_STEP_CQ,
	HV_STEP_QP,
	HV_STEP_INIT,
	HV_STEP_RTR,
	HV_STEP_RTS,
	HV_STEP_POST_SEND,
	HV_STEP_POST_RECV,
	HV_STEP_POLL,
	HV_STEP_ARM,
	HV_STEP_EVENT,
	HV_STEP_COMPLETION,
	HV_STEP_STALL,
	HV_STEP_MEMORY,
	HV_STEP_ARGUMENT,
	HV_STEP_DISAGREE, /* the peer serves another kind of loop */
	HV_STEP_ABSENT,   /* the peer did not answer that it serves */
	HV_STEP_BROKEN,   /* an earlier loop left the group unusable */
};

struct hv_group_request {
	uint32_t queues;
	uint32_t send_work, recv_work; /* work requests a QP holds */
	uint32_t sge;                  /* pieces a work request may gather */
	uint32_t inline_bytes;
	uint32_t post_list;            /* work requests in one post */
	int32_t events;                /* 1: with a completion channel, so that a loop can block */
};

struct hv_group_grant {
	uint32_t send_work, recv_work, sge, inline_bytes, cqe;
};

int hv_group_create(hv_context *c, const struct hv_group_request *want, struct hv_group_grant *got, uint32_t *qpns,
		    hv_group **out, struct hv_failure *why);
int hv_group_destroy(hv_group *g);

struct hv_path {
	uint8_t gid[16];
	uint32_t qpn, send_psn, recv_psn, flow_label;
	int32_t lid, global, gid_index, hop_limit, traffic_class, sl, port, pkey_index, mtu;
	int32_t timeout, retries, rnr_retries, rnr_timer, reads_out, reads_in;
};

/* Queue number `queues` is the group's own, for the notes with which two loops begin and end. qpns has room for it. */
int hv_queue_init(hv_group *g, uint32_t queue, int port, int pkey_index);
int hv_queue_rtr(hv_group *g, uint32_t queue, const struct hv_path *p);
int hv_queue_rts(hv_group *g, uint32_t queue, const struct hv_path *p);
int hv_queue_error(hv_group *g, uint32_t queue);
int hv_queue_state(hv_group *g, uint32_t queue, int *state);

/* ---- loops ---- */

enum { HV_WRITE, HV_READ, HV_SEND };
enum { HV_ADAPTIVE, HV_SPIN, HV_BLOCK };

/* How the initiator of a ping-pong learns of the answer. */
enum { HV_NO_ECHO, HV_ECHO_MARK, HV_ECHO_MESSAGE };

struct hv_piece {
	uint64_t local, remote, length;
};

/* One stream's part of a loop. Operation i is pieces[ends[i-1]] up to before pieces[ends[i]]; they repeat in order. */
struct hv_stream {
	const struct hv_piece *pieces;
	const uint32_t *ends;
	int64_t *at;       /* room for stamps, or NULL */
	uint64_t room;     /* how many */
	uint64_t every;    /* one stamp every so many operations, at least 1 */
	uint32_t ops;      /* operations in the list, at least 1 */
	uint32_t reserved;
	/* filled in by the loop */
	uint64_t stamps;   /* how many were written */
	uint64_t done;     /* operations confirmed */
	int64_t start;     /* time of the first post */
	int64_t end;       /* time of the last confirmation */
	int64_t first;     /* time of the first confirmation */
};

struct hv_loop {
	int32_t op, wait, notify, echo, streams;
	uint32_t depth;        /* operations outstanding a stream */
	uint32_t batch;        /* operations that wait for each other and go in one post; 0, 1: none waits */
	uint32_t post_list;    /* most operations of one post where none waits; 0: all that are due */
	uint32_t signal_every; /* every so manyth operation asks for a completion */
	uint32_t inline_bytes; /* up to this many go into the work request itself; 0: none */
	uint32_t sge;          /* pieces a message may gather */
	uint64_t max_message;  /* longer pieces are cut */
	uint64_t count;        /* operations a stream; 0: until the deadline */
	int64_t deadline;      /* when nothing more is posted; 0: until the count */
	int64_t stall;         /* ns without a completion until the loop gives up */
	int64_t spin;          /* ns that an adaptive wait spins */
	double bytes_per_second;
	uint64_t local, remote; /* addresses of the two regions */
	uint64_t reply;         /* where answers land, relative to the pieces' local offsets */
	uint32_t local_key, remote_key;
	int32_t watched; /* 1: the CPU may look at and write this side's memory */
	int32_t reserved;
};

struct hv_tally {
	uint64_t posts;    /* calls that handed over work */
	uint64_t messages; /* work requests in them, payload only */
	uint64_t polls;    /* calls that asked for completions */
	uint64_t blocks;   /* times the thread slept */
};

/* Streams or ping-pongs (echo) until the count, the deadline or the stop word. The peer must be in hv_serve with the same
 * lists. */
int hv_initiate(hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop, struct hv_tally *tally,
		struct hv_failure *why);
/* Does the target's part until the peer says that its loop has ended, or the stop word is set. */
int hv_serve(hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop, struct hv_tally *tally,
	     struct hv_failure *why);
/* Posts the receives for the notes of both loops: once, before the peer may send. */
int hv_open_notes(hv_group *g, struct hv_failure *why);

/* ---- the wire of staged loops ---- */

enum { HV_BEGIN = 1, HV_READY, HV_REFUSE, HV_END, HV_LEFT, HV_FLUSH, HV_NOTES };

/* Bytes of one chunk: addresses on both sides. */
struct hv_extent {
	uint64_t local, remote, length;
};

struct hv_wire_post {
	uint32_t queue, sge;
	uint32_t local_key, remote_key;
	uint32_t immediate;
	int32_t read;  /* 1: fetch the bytes instead of sending them */
	int32_t tells; /* 1: the immediate goes with the last of them */
	int32_t reserved;
	uint64_t max_message; /* no extent is longer */
};

/* Something that a poll found: a number from the other side, a note (on the group's own queue), or that the oldest chunk on a
 * queue is confirmed. */
struct hv_wire_event {
	uint32_t queue, arrived, immediate;
};

struct hv_wire_note {
	uint32_t heard; /* the loop of the last note of that kind */
	uint32_t loop;  /* that runs or ran last */
	uint32_t unsent; /* notes of this side that are not yet confirmed */
	int32_t op, notify, echo, streams;
};

/* Posts the receives of every stream: once, before the other side may send. */
int hv_wire_open(hv_group *g, struct hv_failure *why);
/* Posts one chunk, as far as the queue has room: taken says how many extents. The chunk is confirmed when its last one is. */
int hv_wire_post(hv_group *g, const struct hv_wire_post *p, const struct hv_extent *e, size_t n, size_t *taken, struct hv_failure *why);
/* Sends a number alone; full: the queue had no room. */
int hv_wire_tell(hv_group *g, uint32_t queue, uint32_t immediate, int *full, struct hv_failure *why);
/* Takes what has come, at most HV_EVENTS; waits for it until then, by the clock of hv_now. A time that has passed is one look. */
enum { HV_EVENTS = 32 };
int hv_wire_poll(hv_group *g, int wait, int64_t until, struct hv_wire_event *out, int *count, struct hv_failure *why);
/* Notes, as the native loops exchange them. HV_BEGIN begins the next loop on this side; hv_wire_start the one that was heard of. */
int hv_wire_say(hv_group *g, int note, const struct hv_loop *l, struct hv_failure *why);
void hv_wire_start(hv_group *g, uint32_t loop);
void hv_wire_heard(hv_group *g, int note, struct hv_wire_note *out, uint32_t *took, uint32_t room);
void hv_wire_break(hv_group *g);

const char *hv_status_text(int status);
uint64_t hv_now(void); /* CLOCK_MONOTONIC, ns */

#endif
