#include "fake.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct machine M = { .lock = PTHREAD_MUTEX_INITIALIZER };
__thread CUcontext current;

/* What marks every library of this kind: its realm is "double". */
const char hopbench_double[] = "hopbench double of libcuda";

static struct failure {
	char name[64];
	int code, after, times;
} failures[16];
static int failure_count;

static double number(const char *key, double unset)
{
	const char *s = getenv(key);

	return s && *s ? atof(s) : unset;
}

void read_failures(void)
{
	const char *s = getenv("FAKECUDA_FAIL");
	char *copy, *word, *save = NULL;

	failure_count = 0;
	if (s) {
		copy = strdup(s);
		for (word = strtok_r(copy, ",", &save); word && failure_count < 16; word = strtok_r(NULL, ",", &save)) {
			struct failure *f = &failures[failure_count];

			*f = (struct failure){ .times = 1 << 30 };
			if (sscanf(word, "%63[^:]:%d:%d:%d", f->name, &f->code, &f->after, &f->times) >= 2)
				failure_count++;
		}
		free(copy);
	}
	M.fail_copy = M.fail_copy_after = 0;
	s = getenv("FAKECUDA_FAIL_COPY");
	if (s)
		sscanf(s, "%d:%d", &M.fail_copy, &M.fail_copy_after);
	M.sticky = 0;
}

CUresult injected(const char *function)
{
	CUresult r = OK;
	int i;

	pthread_mutex_lock(&M.lock);
	for (i = 0; i < failure_count && !r; i++) {
		struct failure *f = &failures[i];

		if (strcmp(f->name, function))
			continue;
		if (f->after-- <= 0 && f->times-- > 0)
			r = f->code;
	}
	if (!r && !M.initialized)
		r = NOT_INITIALIZED;
	if (!r)
		r = M.sticky;
	pthread_mutex_unlock(&M.lock);
	return r;
}

static void read_peers(void)
{
	const char *s = getenv("FAKECUDA_PEERS");
	int i, j;

	memset(M.reach, 0, sizeof M.reach);
	memset(M.pair_rate, 0, sizeof M.pair_rate);
	if (!s || !*s || !strcmp(s, "all")) {
		for (i = 0; i < MAX_DEVICES; i++)
			for (j = 0; j < MAX_DEVICES; j++)
				M.reach[i][j] = i != j;
	} else if (strcmp(s, "none")) {
		char *copy = strdup(s), *word, *save = NULL;

		for (word = strtok_r(copy, ",", &save); word; word = strtok_r(NULL, ",", &save)) {
			double rate = 0;
			char way;

			if (sscanf(word, "%d%c%d:%lf", &i, &way, &j, &rate) < 3)
				continue;
			if (i < 0 || j < 0 || i >= MAX_DEVICES || j >= MAX_DEVICES || i == j)
				continue;
			M.reach[i][j] = 1;
			M.pair_rate[i][j] = rate;
			if (way == '-') {
				M.reach[j][i] = 1;
				M.pair_rate[j][i] = rate;
			}
		}
		free(copy);
	}
	if (M.mig)
		memset(M.reach, 0, sizeof M.reach);
}

static int device_of(const char *word)
{
	char prefix[64];
	char *end;
	long n;
	int i;

	if (!strncmp(word, "MIG-", 4))
		return M.mig ? 0 : -1;
	if (!strncmp(word, "GPU-", 4)) {
		for (i = 0; i < M.physical_count; i++) {
			snprintf(prefix, sizeof prefix, "GPU-686f7062-656e-6368-0000-%012x", i);
			if (!strncmp(prefix, word, strlen(word)))
				return i;
		}
		return -1;
	}
	n = strtol(word, &end, 10);
	return end == word || *end || n < 0 || n >= M.physical_count ? -1 : (int)n;
}

static void read_visible(void)
{
	const char *s = getenv("CUDA_VISIBLE_DEVICES");
	char *copy, *word, *save = NULL;
	int i;

	M.count = 0;
	if (!s) {
		for (i = 0; i < M.physical_count; i++)
			M.visible[M.count++] = i;
	} else {
		copy = strdup(s);
		for (word = strtok_r(copy, ",", &save); word && M.count < MAX_DEVICES; word = strtok_r(NULL, ",", &save)) {
			i = device_of(word);
			if (i < 0)
				break;
			M.visible[M.count++] = i;
		}
		free(copy);
	}
	/* One MIG instance a process, whatever was asked for. */
	if (M.mig && M.count > 1)
		M.count = 1;
}

static void read_buses(void)
{
	const char *s = getenv("FAKECUDA_BUS_IDS");
	char *copy, *word, *save = NULL;
	int i;

	for (i = 0; i < MAX_DEVICES; i++)
		snprintf(M.bus[i], sizeof M.bus[i], "0000:%02X:00.0", 0x18 + i * 0x0c);
	if (!s)
		return;
	copy = strdup(s);
	for (i = 0, word = strtok_r(copy, ",", &save); word && i < MAX_DEVICES; i++, word = strtok_r(NULL, ",", &save))
		snprintf(M.bus[i], sizeof M.bus[i], "%s", word);
	free(copy);
}

void configure(void)
{
	const char *name = getenv("FAKECUDA_NAME");
	int i;

	M.physical_count = (int)number("FAKECUDA_DEVICES", 2);
	if (M.physical_count > MAX_DEVICES)
		M.physical_count = MAX_DEVICES;
	M.mig = (int)number("FAKECUDA_MIG", 0);
	snprintf(M.name, sizeof M.name, "%s%s (hopbench double)", name && *name ? name : "Fake GPU",
		M.mig ? " MIG 1g.10gb" : "");
	M.driver = (int)number("FAKECUDA_DRIVER", 12080);
	M.dmabuf = (int)number("FAKECUDA_DMABUF", 1);
	M.segment = (long)number("FAKECUDA_DMABUF_BYTES", 0);
	M.gdr = (int)number("FAKECUDA_GDR", 1);
	M.corrupt = (int)number("FAKECUDA_CORRUPT_P2P", 0);
	M.memory = number("FAKECUDA_MEMORY_BYTES", 8e9);
	M.rate[H2D] = number("FAKECUDA_H2D_BYTES_PER_SECOND", 0);
	M.rate[D2H] = number("FAKECUDA_D2H_BYTES_PER_SECOND", 0);
	M.rate[D2D] = number("FAKECUDA_D2D_BYTES_PER_SECOND", 0);
	M.p2p = number("FAKECUDA_P2P_BYTES_PER_SECOND", 0);
	M.staged = number("FAKECUDA_STAGED_BYTES_PER_SECOND", 0);
	M.latency = (int64_t)number("FAKECUDA_COPY_LATENCY_NS", 0);
	read_buses();
	read_peers();
	read_visible();
	read_failures();
	for (i = 0; i < MAX_DEVICES; i++) {
		M.contexts[i].physical = i;
		M.contexts[i].peers = 0;
		if (!M.next_address[i])
			M.next_address[i] = 0x0a0000000000ull + (CUdeviceptr)i * 0x010000000000ull;
	}
}
