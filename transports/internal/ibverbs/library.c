/* Opening libibverbs at run time, and the table of its functions. */
#define _GNU_SOURCE
#include "verbs.h"
#include <string.h>
#include <time.h>

uint64_t hv_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#ifdef HV_HEADERS
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>

/* What our own enum and array sizes assume of the header. */
_Static_assert(IBV_WC_WR_FLUSH_ERR == 5 && IBV_WC_RETRY_EXC_ERR == 12 && IBV_WC_RNR_RETRY_EXC_ERR == 13, "wc status");
_Static_assert(IBV_LINK_LAYER_INFINIBAND == 1 && IBV_LINK_LAYER_ETHERNET == 2, "link layer");
_Static_assert(IBV_MTU_256 == 1 && IBV_MTU_4096 == 5, "mtu");
_Static_assert(IBV_PORT_ACTIVE == 4, "port state");
_Static_assert(IBV_QPS_RTS == 3 && IBV_QPS_ERR == 6, "qp state");
_Static_assert(sizeof(union ibv_gid) == 16, "gid");
_Static_assert(IBV_SYSFS_NAME_MAX <= 64, "device name");

struct hv_table hv_verbs;

int hv_errno(void)
{
	return errno ? errno : EIO;
}

static void append(char *list, size_t size, const char *item)
{
	size_t used = strlen(list);
	snprintf(list + used, size - used, "%s%s", used ? " " : "", item);
}

void hv_load(const char *soname, struct hv_library *out)
{
	static void *handle; /* opened once and never closed: providers register with the library for life */
	memset(out, 0, sizeof *out);
	out->headers = 1;
	if (!handle)
		handle = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		const char *text = dlerror();
		snprintf(out->error, sizeof out->error, "%s", text ? text : "dlopen failed");
		return;
	}
	struct link_map *map = NULL;
	if (dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map)
		snprintf(out->path, sizeof out->path, "%s", map->l_name);
	/* A double says what it is, so that nobody takes its figures for a device's. */
	const char *const *marker = dlsym(handle, "hopbench_double");
	if (marker)
		snprintf(out->marker, sizeof out->marker, "%s", *marker);
	out->loaded = 1;
#define X(name, version, required) \
	hv_verbs.name = (__typeof__(&name))dlvsym(handle, #name, version); \
	if (!hv_verbs.name) { \
		if (required) { \
			out->loaded = 0; \
			append(out->missing, sizeof out->missing, #name "@" version); \
		} else { \
			append(out->optional, sizeof out->optional, #name "@" version); \
		} \
	}
	HV_SYMBOLS(X)
#undef X
}

const char *hv_status_text(int status)
{
	return hv_verbs.ibv_wc_status_str ? hv_verbs.ibv_wc_status_str(status) : "";
}
#endif
