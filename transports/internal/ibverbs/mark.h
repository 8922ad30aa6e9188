/* Ping-pong by polled memory: the last byte of a message changes with each, and who waits looks at it. */
#ifndef HOPBENCH_VERBS_MARK_H
#define HOPBENCH_VERBS_MARK_H
#include "loop.h"
#ifdef HV_HEADERS

/* The last piece of the operation that a cursor starts next. */
static inline const struct hv_piece *hv_tail_of_next(const struct hv_cursor *c)
{
	uint32_t op = c->op == c->ops ? 0 : c->op;
	return &c->pieces[c->ends[op] - 1];
}

static inline void hv_clear_marks(const struct hv_run *r, uint64_t base, int remote)
{
	for (int s = 0; s < r->l->streams; s++) {
		const struct hv_cursor *c = &r->g->queue[s].out;
		for (uint32_t op = 0; op < c->ops; op++) {
			const struct hv_piece *p = &c->pieces[c->ends[op] - 1];
			*(volatile uint8_t *)(uintptr_t)(base + (remote ? p->remote : p->local) + p->length - 1) = 0;
		}
	}
}

/* Marks run from 1 to 255 and begin again: the byte that is waited for never holds the awaited value beforehand, as long
 * as a list has fewer than 255 operations. */
static inline uint8_t hv_mark_of(uint64_t round)
{
	return (uint8_t)(1 + round % 255);
}

static inline int hv_marked(const struct hv_queue *q)
{
	return q->mark && __atomic_load_n(q->mark, __ATOMIC_ACQUIRE) == q->mark_value;
}

/* Gives the operation that starts next its mark, and remembers where the answer will show. */
static inline void hv_lay_mark(const struct hv_run *r, struct hv_queue *q)
{
	const struct hv_piece *p = hv_tail_of_next(&q->out);
	uint64_t at = r->l->local + p->local + p->length - 1;
	q->mark_value = hv_mark_of(q->started);
	*(volatile uint8_t *)(uintptr_t)at = q->mark_value;
	q->mark = (volatile uint8_t *)(uintptr_t)(at + r->l->reply);
}
#endif
#endif
