/* What the double of libibverbs lacks for choosing: two devices, a table of GIDs with holes, port flags and a limited partition key. It
 * stands before the double's own functions, which the test that builds it renames to double_*.
 *
 *   SEVERAL_DOWN=NAME       that device's port is DOWN
 *   SEVERAL_REFUSED=NAME    that device's node is refused: EACCES
 *   SEVERAL_GIDS=1          slot 0 to 3 unreadable, 4 and 6 empty, 5 an IPv4 address, 7 another
 *   SEVERAL_FLAGS=N         the port's flags
 *   SEVERAL_PKEY=N          its first partition key
 *   SEVERAL_PART=N          the devices' part; the vendor is Mellanox */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#undef ibv_query_port
#undef ibv_get_device_list

struct ibv_device **double_get_device_list(int *n);
struct ibv_context *double_open_device(struct ibv_device *d);
int double_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *x);
int double_query_device(struct ibv_context *c, struct ibv_device_attr *a);

static struct ibv_device second;

static int is(const char *variable, struct ibv_device *d)
{
	const char *name = getenv(variable);
	return name && !strcmp(name, d->name);
}

static long number(const char *name, long otherwise)
{
	const char *text = getenv(name);
	return text && *text ? strtol(text, NULL, 0) : otherwise;
}

struct ibv_device **ibv_get_device_list(int *n)
{
	struct ibv_device **one = double_get_device_list(n);
	if (!one || !*n)
		return one;
	struct ibv_device **l = calloc(3, sizeof *l);
	second = *one[0];
	strcpy(second.name, "fake1");
	strcpy(second.dev_name, "uverbs1");
	l[0] = one[0];
	l[1] = &second;
	*n = 2;
	free(one);
	return l;
}

struct ibv_context *ibv_open_device(struct ibv_device *d)
{
	if (is("SEVERAL_REFUSED", d)) {
		errno = EACCES;
		return NULL;
	}
	return double_open_device(d);
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a)
{
	int e = double_query_device(c, a);
	a->vendor_id = 0x02c9;
	a->vendor_part_id = (uint32_t)number("SEVERAL_PART", 4129);
	return e;
}

int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *x)
{
	struct ibv_port_attr *a = (void *)x;
	int e = double_query_port(c, port, x);
	if (is("SEVERAL_DOWN", c->device))
		a->state = IBV_PORT_DOWN;
	a->flags = (uint8_t)number("SEVERAL_FLAGS", 0);
	if (getenv("SEVERAL_GIDS"))
		a->gid_tbl_len = 16;
	return e;
}

int ibv_query_gid(struct ibv_context *c, uint8_t p, int i, union ibv_gid *g)
{
	(void)c;
	(void)p;
	memset(g, 0, sizeof *g);
	if (!getenv("SEVERAL_GIDS")) {
		g->raw[0] = 0xfe;
		g->raw[1] = 0x80;
		g->raw[15] = 1;
		return i ? -1 : 0;
	}
	if (i < 4 || i > 7) {
		errno = EINVAL;
		return -1;
	}
	if (i == 5 || i == 7) {
		g->raw[10] = g->raw[11] = 0xff;
		g->raw[12] = 10;
		g->raw[15] = (uint8_t)i;
	}
	return 0;
}

int ibv_query_pkey(struct ibv_context *c, uint8_t p, int i, __be16 *k)
{
	(void)c;
	(void)p;
	(void)i;
	*k = htons((uint16_t)number("SEVERAL_PKEY", 0xffff));
	return 0;
}
