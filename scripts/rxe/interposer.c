/* A double of what soft-RoCE lacks, over soft-RoCE: an InfiniBand port and a DMA-BUF registration, both with real data
 * through rxe below. It exports a few verbs with rdma-core's own symbol versions and depends on the real libibverbs.so.1, so
 * that dlvsym on its handle finds these first and the rest below. build-interposer.sh builds it.
 *
 *   INTERPOSER_LINK=infiniband   ports report that link layer and a LID: 7 for GID index 1 of the device's first IPv4
 *                                address, and so on for each device (7 + the address's third byte)
 *   INTERPOSER_GRH=1             ports report that every path needs a global route header
 *   INTERPOSER_PKEY=0x7fff       what the partition key table holds
 *
 * No figure that is measured through it is a device's: it says so by hopbench_double. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <infiniband/verbs.h>
#undef ibv_query_port
#undef ibv_reg_mr

const char *hopbench_double = "interposer over soft-RoCE";

#define BELOW(name, version) ((__typeof__(&name))dlvsym(RTLD_NEXT, #name, version))

static int set(const char *name)
{
	const char *text = getenv(name);
	return text && *text && strcmp(text, "0") != 0;
}

static int infiniband(void)
{
	const char *text = getenv("INTERPOSER_LINK");
	return text && strcmp(text, "infiniband") == 0;
}

enum { FIRST_LID = 7, GID_INDEX = 1 };

/* rxe's GID 1 is the IPv4 address 10.9.N.1: the LID stands for N. */
static int lid_of(struct ibv_context *context)
{
	union ibv_gid gid;
	if (BELOW(ibv_query_gid, "IBVERBS_1.1")(context, 1, GID_INDEX, &gid))
		return FIRST_LID;
	return FIRST_LID + gid.raw[14];
}

static int (*port_below)(struct ibv_context *, uint8_t, struct ibv_port_attr *, size_t);

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t size)
{
	int status = port_below(context, port, attr, size);
	if (status)
		return status;
	if (infiniband()) {
		attr->link_layer = IBV_LINK_LAYER_INFINIBAND;
		attr->lid = lid_of(context);
		attr->sm_lid = 1;
		attr->flags &= (uint8_t)~IBV_QPF_GRH_REQUIRED; /* every RoCE port has it */
	}
	if (set("INTERPOSER_GRH"))
		attr->flags |= IBV_QPF_GRH_REQUIRED;
	return 0;
}

/* ibv_query_port calls the provider through the context, so that is where it is replaced. */
struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct ibv_context *context = BELOW(ibv_open_device, "IBVERBS_1.1")(device);
	struct verbs_context *verbs = context ? verbs_get_ctx(context) : NULL;
	if (verbs && verbs->query_port != query_port) {
		port_below = verbs->query_port;
		verbs->query_port = query_port;
	}
	return context;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	const char *text = getenv("INTERPOSER_PKEY");
	if (text && *text) {
		*pkey = htobe16((uint16_t)strtoul(text, NULL, 0));
		return 0;
	}
	return BELOW(ibv_query_pkey, "IBVERBS_1.1")(context, port, index, pkey);
}

/* A path by LID has no route header; rxe needs one, so the LID is turned into the address that it stands for. A path with a
 * header must name a GID of the table, as on a real port. */
int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr routed = *attr;
	if ((mask & IBV_QP_AV) && infiniband()) {
		if (set("INTERPOSER_GRH") && !routed.ah_attr.is_global)
			return EINVAL;
		if (!routed.ah_attr.is_global) {
			if (routed.ah_attr.dlid < FIRST_LID)
				return EINVAL;
			const unsigned char gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 9, [14] = routed.ah_attr.dlid - FIRST_LID, [15] = 1};
			memcpy(routed.ah_attr.grh.dgid.raw, gid, sizeof gid);
			routed.ah_attr.is_global = 1;
			routed.ah_attr.grh.sgid_index = GID_INDEX;
			routed.ah_attr.grh.hop_limit = 64;
		}
	}
	return BELOW(ibv_modify_qp, "IBVERBS_1.1")(qp, &routed, mask);
}

/* The descriptor is a memfd, which a double of libcuda gives for its device memory: map it, and register the mapping at the
 * address asked for. The mapping stays for the life of the process. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access)
{
	void *mapping = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	if (mapping == MAP_FAILED)
		return NULL;
	return BELOW(ibv_reg_mr_iova2, "IBVERBS_1.8")(pd, mapping, length, iova, (unsigned)access);
}
