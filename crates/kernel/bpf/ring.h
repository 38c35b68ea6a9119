/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Bytes behind a packet that leaves a queue: those that joined the queue after it. A ring has the
 * time and the count of bytes of each packet that joined. Packets join on several processors, so
 * neighbours may stand in the ring in the other order than in the queue, or be written late. Times
 * only order packets: the first entry that is not earlier than a packet stands for it, which errs
 * by such neighbours.
 *
 * The queue must serve packets in the order of their arrival. It may segment a packet: the segments
 * have the packet's time, and those that have left are subtracted. It drops packets after they have
 * joined: these count as queued until the packets before them have left. A packet passes at most
 * TG_PASSED entries of dropped packets; if there are more, its result is an upper bound.
 */
#ifndef TG_RING_H
#define TG_RING_H

#include "fixed.h"

#define TG_RING 4096
/* Entries that one packet passes at most. */
#define TG_PASSED 256

struct tg_entry {
	__u64 time;
	__u64 joined;	/* bytes that joined the queue before */
};

struct tg_queue {
	__u64 joined;
	__u64 head;	/* next entry to write */
	__u64 tail;	/* no packet that is still in the queue has an earlier entry */
	__u64 leaving;	/* time of the packet that left last */
	__u64 left;	/* bytes of it that have left */
	struct tg_entry ring[TG_RING];
};

TG_INLINE void tg_join(struct tg_queue *queue, __u64 time, __u64 length)
{
	__u64 joined = __sync_fetch_and_add(&queue->joined, length);
	__u64 at = __sync_fetch_and_add(&queue->head, 1) & (TG_RING - 1);

	queue->ring[at].joined = joined;
	/* After the count, for readers on other processors. */
	__sync_lock_test_and_set(&queue->ring[at].time, time);
}

/* Bytes behind the packet, or the segment of it, that joined at `time` and leaves. */
TG_INLINE __u64 tg_behind(struct tg_queue *queue, __u64 time, __u64 length)
{
	__u64 head = queue->head, at = queue->tail;
	int i;

	queue->left = queue->leaving == time ? queue->left + length : length;
	queue->leaving = time;
	/* Older entries are overwritten. */
	if (head - at > TG_RING)
		at = head - TG_RING;
	for (i = 0; i < TG_PASSED && at < head; i++, at++) {
		struct tg_entry *entry = &queue->ring[at & (TG_RING - 1)];

		if (entry->time >= time) {
			queue->tail = at;
			return tg_sub(queue->joined - entry->joined,
				      entry->time == time ? queue->left : 0);
		}
	}
	queue->tail = at;
	return at < head ? tg_sub(queue->joined, queue->ring[at & (TG_RING - 1)].joined) : 0;
}

#endif
