/* Runs the timed loop over the double of libibverbs, for scripts/count-instructions.sh: valgrind does not run Go programs.
 *   count LIBRARY MESSAGES DEPTH BATCH SIGNAL_EVERY BYTES */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "../../shim.h"

static hv_group *group[2];
static struct hv_loop loop = {.op = HV_WRITE, .wait = HV_ADAPTIVE, .streams = 1, .sge = 1, .max_message = 1 << 30, .inline_bytes = 220, .stall = 100000000000, .spin = 50000};
static struct hv_piece piece;
static const uint32_t ends[] = {1};
static char memory[2][1 << 20];
static uint32_t stop;

static void check(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "count: %s fails\n", what);
		exit(1);
	}
}

static void *serve(void *unused)
{
	struct hv_stream s = {.pieces = &piece, .ends = ends, .ops = 1, .every = 1};
	struct hv_tally tally;
	struct hv_failure why;
	struct hv_loop l = loop;
	l.local = loop.remote;
	l.remote = loop.local;
	(void)unused;
	check(hv_serve(group[1], &l, &s, &stop, &tally, &why), "serve");
	return NULL;
}

int main(int argc, char **argv)
{
	check(argc != 7, "usage");
	struct hv_library library;
	hv_load(argv[1], &library);
	check(!library.loaded, library.error);
	uint64_t messages = strtoull(argv[2], NULL, 0);
	loop.depth = atoi(argv[3]);
	loop.batch = loop.post_list = atoi(argv[4]);
	loop.signal_every = atoi(argv[5]);
	loop.count = messages;
	piece.length = strtoull(argv[6], NULL, 0);
	hv_context *c;
	check(hv_open("fake0", &c), "open");
	uint32_t qpns[2][2];
	for (int i = 0; i < 2; i++) {
		struct hv_group_request want = {.queues = 1, .send_work = 256, .recv_work = 64, .sge = 1, .inline_bytes = 220, .post_list = 64, .events = 1};
		struct hv_group_grant got;
		struct hv_failure why;
		check(hv_group_create(c, &want, &got, qpns[i], &group[i], &why), "group");
		for (int q = 0; q < 2; q++)
			check(hv_queue_init(group[i], q, 1, 0), "init");
		check(hv_open_notes(group[i], &why), "notes");
	}
	for (int i = 0; i < 2; i++)
		for (int q = 0; q < 2; q++) {
			struct hv_path p = {.qpn = qpns[1 - i][q]};
			check(hv_queue_rtr(group[i], q, &p) || hv_queue_rts(group[i], q, &p), "connect");
		}
	loop.local = (uintptr_t)memory[0];
	loop.remote = (uintptr_t)memory[1];
	int64_t *at = calloc(messages, sizeof *at);
	struct hv_stream s = {.pieces = &piece, .ends = ends, .ops = 1, .every = 1, .at = at, .room = messages};
	struct hv_tally tally;
	struct hv_failure why;
	pthread_t thread;
	pthread_create(&thread, NULL, serve, NULL);
	check(hv_initiate(group[0], &loop, &s, &stop, &tally, &why), "initiate");
	pthread_join(thread, NULL);
	printf("%llu messages in %llu posts, %llu polls, %llu stamps\n", (unsigned long long)tally.messages, (unsigned long long)tally.posts,
	       (unsigned long long)tally.polls, (unsigned long long)s.stamps);
	return 0;
}
