// SPDX-License-Identifier: GPL-2.0-only
/* The laws and the ring of a queue as a library for tests. */
#include "ring.h"
#include "step.h"

void tg_native_step(struct tg_step *step)
{
	tg_step(step);
}

unsigned long tg_native_size(void)
{
	return sizeof(struct tg_step);
}

unsigned long tg_native_queue_size(void)
{
	return sizeof(struct tg_queue);
}

void tg_native_join(struct tg_queue *queue, __u64 time, __u64 length)
{
	tg_join(queue, time, length);
}

__u64 tg_native_behind(struct tg_queue *queue, __u64 time, __u64 length)
{
	return tg_behind(queue, time, length);
}

unsigned int tg_native_table(unsigned int which, unsigned int at)
{
	return which ? tg_exp2_table[at] : tg_log2_table[at];
}
