#define _GNU_SOURCE
#include "shim.h"
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

_Static_assert(sizeof(hb_ptr) == 8, "CUdeviceptr is 64 bits wide on every platform with a driver");
_Static_assert(sizeof(void *) == 8, "the 32-bit driver API has other suffixes");

int hb_cuda_open(const char *path, struct hb_cuda **out, char *err, size_t n)
{
	struct hb_cuda *t;
	size_t used = 0;
	void *h;

	*out = NULL;
	err[0] = 0;
	h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!h) {
		snprintf(err, n, "%s", dlerror());
		return 1;
	}
	t = calloc(1, sizeof *t);
	if (!t) {
		snprintf(err, n, "out of memory");
		dlclose(h);
		return 1;
	}
	t->handle = h;
	t->double_name = dlsym(h, "hopbench_double");
#define X(name, required, params, args)                                                     \
	t->name = (hb_result(*) params)dlsym(h, #name);                                     \
	if (!t->name && required && used < n)                                               \
		used += (size_t)snprintf(err + used, n - used, used ? ", %s" : "%s", #name);
	HB_CUDA_SYMBOLS(X)
#undef X
	*out = t;
	return used ? 2 : 0;
}

void hb_cuda_close(struct hb_cuda *t)
{
	if (!t)
		return;
	dlclose(t->handle);
	free(t);
}

void hb_cuda_path(struct hb_cuda *t, char *path, size_t n)
{
	struct link_map *map = NULL;

	path[0] = 0;
	if (!dlinfo(t->handle, RTLD_DI_LINKMAP, &map) && map)
		snprintf(path, n, "%s", map->l_name);
}

#define X(name, required, params, args)                  \
	hb_result hb_##name HB_WITH_TABLE params         \
	{                                                \
		return t->name ? t->name args : HB_ABSENT; \
	}
HB_CUDA_SYMBOLS(X)
#undef X
