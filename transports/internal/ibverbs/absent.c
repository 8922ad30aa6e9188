/* The body for a build without infiniband/verbs.h: the library is never opened, and every call answers ENOSYS. */
#include "verbs.h"
#ifndef HV_HEADERS
#include <errno.h>
#include <string.h>

void hv_load(const char *soname, struct hv_library *out)
{
	(void)soname;
	memset(out, 0, sizeof *out);
}

const char *hv_status_text(int status)
{
	(void)status;
	return "";
}

#define ABSENT(name, ...) \
	int name(__VA_ARGS__) { return ENOSYS; }

#pragma GCC diagnostic ignored "-Wunused-parameter"
ABSENT(hv_devices, struct hv_device *out, int capacity, int *count)
ABSENT(hv_open, const char *name, hv_context **out)
ABSENT(hv_close, hv_context *c)
ABSENT(hv_query_device, hv_context *c, struct hv_device_limits *out)
ABSENT(hv_query_port, hv_context *c, int port, struct hv_port *out)
ABSENT(hv_query_gid, hv_context *c, int port, int index, struct hv_gid *out)
ABSENT(hv_query_gids, hv_context *c, int port, struct hv_gid *out, int capacity, int *count)
ABSENT(hv_query_pkey, hv_context *c, int port, int index, uint16_t *out)
ABSENT(hv_async_event, hv_context *c, int *type, uint32_t *qpn)
ABSENT(hv_register, hv_context *c, uint64_t address, uint64_t length, int access, hv_region **out, struct hv_keys *keys)
ABSENT(hv_register_dmabuf, hv_context *c, int fd, uint64_t offset, uint64_t length, uint64_t iova, int access, hv_region **out, struct hv_keys *keys)
ABSENT(hv_deregister, hv_region *r)
ABSENT(hv_group_create, hv_context *c, const struct hv_group_request *want, struct hv_group_grant *got, uint32_t *qpns, hv_group **out, struct hv_failure *why)
ABSENT(hv_group_destroy, hv_group *g)
ABSENT(hv_queue_init, hv_group *g, uint32_t queue, int port, int pkey_index)
ABSENT(hv_queue_rtr, hv_group *g, uint32_t queue, const struct hv_path *p)
ABSENT(hv_queue_rts, hv_group *g, uint32_t queue, const struct hv_path *p)
ABSENT(hv_queue_error, hv_group *g, uint32_t queue)
ABSENT(hv_queue_state, hv_group *g, uint32_t queue, int *state)
ABSENT(hv_initiate, hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop, struct hv_tally *tally, struct hv_failure *why)
ABSENT(hv_serve, hv_group *g, const struct hv_loop *l, struct hv_stream *streams, uint32_t *stop, struct hv_tally *tally, struct hv_failure *why)
ABSENT(hv_open_notes, hv_group *g, struct hv_failure *why)
ABSENT(hv_wire_open, hv_group *g, struct hv_failure *why)
ABSENT(hv_wire_post, hv_group *g, const struct hv_wire_post *p, const struct hv_extent *e, size_t n, size_t *taken, struct hv_failure *why)
ABSENT(hv_wire_tell, hv_group *g, uint32_t queue, uint32_t immediate, int *full, struct hv_failure *why)
ABSENT(hv_wire_poll, hv_group *g, int wait, int64_t until, struct hv_wire_event *out, int *count, struct hv_failure *why)
ABSENT(hv_wire_say, hv_group *g, int note, const struct hv_loop *l, struct hv_failure *why)

void hv_wire_start(hv_group *g, uint32_t loop) {}
void hv_wire_heard(hv_group *g, int note, struct hv_wire_note *out, uint32_t *took, uint32_t room) {}
void hv_wire_break(hv_group *g) {}
#endif
