/* Devices, ports, addresses and memory. */
#define _GNU_SOURCE
#include "verbs.h"
#ifdef HV_HEADERS
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int hv_devices(struct hv_device *out, int capacity, int *count)
{
	int n = 0;
	errno = 0;
	struct ibv_device **list = hv_verbs.ibv_get_device_list(&n);
	*count = 0;
	if (!list)
		return hv_errno();
	for (int i = 0; i < n && i < capacity; i++) {
		struct hv_device *d = &out[i];
		memset(d, 0, sizeof *d);
		snprintf(d->name, sizeof d->name, "%s", list[i]->name);
		snprintf(d->node, sizeof d->node, "%s", list[i]->dev_name);
		d->guid = be64toh(hv_verbs.ibv_get_device_guid(list[i]));
		d->node_type = list[i]->node_type;
		d->transport = list[i]->transport_type;
	}
	*count = n;
	hv_verbs.ibv_free_device_list(list);
	return 0;
}

int hv_open(const char *name, hv_context **out)
{
	int n = 0;
	errno = 0;
	struct ibv_device **list = hv_verbs.ibv_get_device_list(&n);
	if (!list)
		return hv_errno();
	int error = ENODEV;
	for (int i = 0; i < n; i++) {
		if (strcmp(list[i]->name, name) != 0)
			continue;
		hv_context *c = calloc(1, sizeof *c);
		if (!c) {
			error = ENOMEM;
			break;
		}
		errno = 0;
		c->verbs = hv_verbs.ibv_open_device(list[i]);
		if (!c->verbs) {
			error = hv_errno();
			free(c);
			break;
		}
		/* Several endpoints ask one context for its events: who comes second finds none, and must not wait in the library for the next. */
		int flags = fcntl(c->verbs->async_fd, F_GETFL);
		if (flags < 0 || fcntl(c->verbs->async_fd, F_SETFL, flags | O_NONBLOCK) < 0) {
			error = errno;
			hv_verbs.ibv_close_device(c->verbs);
			free(c);
			break;
		}
		errno = 0;
		c->pd = hv_verbs.ibv_alloc_pd(c->verbs);
		if (!c->pd) {
			error = hv_errno();
			hv_verbs.ibv_close_device(c->verbs);
			free(c);
			break;
		}
		*out = c;
		error = 0;
		break;
	}
	hv_verbs.ibv_free_device_list(list);
	return error;
}

int hv_close(hv_context *c)
{
	int error = hv_verbs.ibv_dealloc_pd(c->pd);
	if (error)
		return error;
	errno = 0;
	if (hv_verbs.ibv_close_device(c->verbs))
		return hv_errno();
	free(c);
	return 0;
}

int hv_query_device(hv_context *c, struct hv_device_limits *out)
{
	struct ibv_device_attr a;
	memset(&a, 0, sizeof a);
	memset(out, 0, sizeof *out);
	int error = hv_verbs.ibv_query_device(c->verbs, &a);
	if (error)
		return error < 0 ? hv_errno() : error;
	snprintf(out->firmware, sizeof out->firmware, "%.63s", a.fw_ver);
	out->max_region = a.max_mr_size;
	out->vendor = a.vendor_id;
	out->part = a.vendor_part_id;
	out->max_qp = a.max_qp;
	out->max_work = a.max_qp_wr;
	out->max_sge = a.max_sge;
	out->max_sge_read = a.max_sge_rd;
	out->max_cq = a.max_cq;
	out->max_cqe = a.max_cqe;
	out->max_regions = a.max_mr;
	out->max_reads_in = a.max_qp_rd_atom;
	out->max_reads_out = a.max_qp_init_rd_atom;
	out->ports = a.phys_port_cnt;
	return 0;
}

int hv_query_port(hv_context *c, int port, struct hv_port *out)
{
	struct ibv_port_attr a;
	int error;
	memset(&a, 0, sizeof a);
	memset(out, 0, sizeof *out);
	/* The newer call lives in the provider's table; libraries without it have only the function with the short struct. */
	struct verbs_context *v = verbs_get_ctx_op(c->verbs, query_port);
	if (v)
		error = v->query_port(c->verbs, port, &a, sizeof a);
	else
		error = hv_verbs.ibv_query_port(c->verbs, port, (struct _compat_ibv_port_attr *)&a);
	if (error)
		return error < 0 ? hv_errno() : error;
	out->max_message = a.max_msg_sz;
	out->capabilities = a.port_cap_flags;
	out->state = a.state;
	out->physical_state = a.phys_state;
	out->link_layer = a.link_layer;
	out->max_mtu = a.max_mtu;
	out->active_mtu = a.active_mtu;
	out->gids = a.gid_tbl_len;
	out->pkeys = a.pkey_tbl_len;
	out->lid = a.lid;
	out->sm_lid = a.sm_lid;
	out->lmc = a.lmc;
	out->sm_sl = a.sm_sl;
	out->width = a.active_width;
	out->speed = a.active_speed;
	out->flags = a.flags;
	return 0;
}

int hv_query_gid(hv_context *c, int port, int index, struct hv_gid *out)
{
	memset(out, 0, sizeof *out);
	out->type = -1;
	out->index = index;
	if (hv_verbs._ibv_query_gid_ex) {
		struct ibv_gid_entry e;
		memset(&e, 0, sizeof e);
		int error = hv_verbs._ibv_query_gid_ex(c->verbs, port, index, &e, 0, sizeof e);
		if (error == 0) {
			memcpy(out->raw, e.gid.raw, sizeof out->raw);
			out->type = e.gid_type;
			out->ifindex = e.ndev_ifindex;
			return 0;
		}
		/* An empty slot is answered in several ways; an old kernel without the query needs the call below. */
		if (error != EOPNOTSUPP && error != ENOSYS && error != EPROTONOSUPPORT)
			return error;
	}
	union ibv_gid gid;
	errno = 0;
	if (hv_verbs.ibv_query_gid(c->verbs, port, index, &gid))
		return hv_errno();
	memcpy(out->raw, gid.raw, sizeof out->raw);
	return 0;
}

int hv_query_gids(hv_context *c, int port, struct hv_gid *out, int capacity, int *count)
{
	struct ibv_gid_entry *e;
	*count = 0;
	if (!hv_verbs._ibv_query_gid_table)
		return ENOSYS;
	/* The table is the device's, over all of its ports. */
	size_t room = (size_t)capacity * 4;
	e = calloc(room, sizeof *e);
	if (!e)
		return ENOMEM;
	ssize_t n = hv_verbs._ibv_query_gid_table(c->verbs, e, room, 0, sizeof *e);
	for (ssize_t i = 0; i < n && *count < capacity; i++) {
		if ((int)e[i].port_num != port)
			continue;
		struct hv_gid *g = &out[(*count)++];
		memset(g, 0, sizeof *g);
		memcpy(g->raw, e[i].gid.raw, sizeof g->raw);
		g->type = e[i].gid_type;
		g->ifindex = e[i].ndev_ifindex;
		g->index = e[i].gid_index;
	}
	free(e);
	if (n < 0)
		return n == -EOPNOTSUPP ? ENOSYS : (int)-n;
	return 0;
}

int hv_query_pkey(hv_context *c, int port, int index, uint16_t *out)
{
	__be16 pkey = 0;
	errno = 0;
	if (hv_verbs.ibv_query_pkey(c->verbs, port, index, &pkey))
		return hv_errno();
	*out = be16toh(pkey);
	return 0;
}

/* Asks the descriptor first, which does not block: another may have read the event in between, and then there is none. */
int hv_async_event(hv_context *c, int *type, uint32_t *qpn)
{
	struct pollfd p = {.fd = c->verbs->async_fd, .events = POLLIN};
	struct ibv_async_event e;
	*qpn = 0;
	if (poll(&p, 1, 0) <= 0)
		return EAGAIN;
	errno = 0;
	if (hv_verbs.ibv_get_async_event(c->verbs, &e))
		return hv_errno();
	*type = e.event_type;
	switch (e.event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		if (e.element.qp)
			*qpn = e.element.qp->qp_num;
		break;
	default:
		break;
	}
	hv_verbs.ibv_ack_async_event(&e);
	return 0;
}

static unsigned access_flags(int access)
{
	unsigned flags = IBV_ACCESS_LOCAL_WRITE;
	if (access & HV_REMOTE_WRITE)
		flags |= IBV_ACCESS_REMOTE_WRITE;
	if (access & HV_REMOTE_READ)
		flags |= IBV_ACCESS_REMOTE_READ;
	return flags;
}

static int keep(struct ibv_mr *mr, hv_region **out, struct hv_keys *keys)
{
	if (!mr)
		return hv_errno();
	hv_region *r = malloc(sizeof *r);
	if (!r) {
		hv_verbs.ibv_dereg_mr(mr);
		return ENOMEM;
	}
	r->mr = mr;
	keys->local = mr->lkey;
	keys->remote = mr->rkey;
	*out = r;
	return 0;
}

int hv_register(hv_context *c, uint64_t address, uint64_t length, int access, hv_region **out, struct hv_keys *keys)
{
	unsigned flags = access_flags(access);
	void *start = (void *)(uintptr_t)address;
	memset(keys, 0, sizeof *keys);
	errno = 0;
	/* An optional flag is only understood by the newer call; without it the flag is left out, and the answer says so. */
	if ((access & HV_RELAXED) && hv_verbs.ibv_reg_mr_iova2) {
		int error = keep(hv_verbs.ibv_reg_mr_iova2(c->pd, start, length, address, flags | IBV_ACCESS_RELAXED_ORDERING), out, keys);
		keys->relaxed = error == 0;
		return error;
	}
	return keep(hv_verbs.ibv_reg_mr(c->pd, start, length, flags), out, keys);
}

int hv_register_dmabuf(hv_context *c, int fd, uint64_t offset, uint64_t length, uint64_t iova, int access, hv_region **out,
		       struct hv_keys *keys)
{
	unsigned flags = access_flags(access);
	memset(keys, 0, sizeof *keys);
	if (!hv_verbs.ibv_reg_dmabuf_mr)
		return ENOSYS;
	if (access & HV_RELAXED)
		flags |= IBV_ACCESS_RELAXED_ORDERING;
	errno = 0;
	int error = keep(hv_verbs.ibv_reg_dmabuf_mr(c->pd, offset, length, iova, fd, flags), out, keys);
	keys->relaxed = error == 0 && (access & HV_RELAXED);
	return error;
}

int hv_deregister(hv_region *r)
{
	int error = hv_verbs.ibv_dereg_mr(r->mr);
	if (error)
		return error < 0 ? hv_errno() : error;
	free(r);
	return 0;
}
#endif
