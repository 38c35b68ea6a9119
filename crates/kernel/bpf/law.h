/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Events that the laws receive. All fields are 64-bit words, so that programs in user space can
 * read and write them without knowledge of padding. Times are nanoseconds of a clock that does not
 * wrap.
 */
#ifndef TG_LAW_H
#define TG_LAW_H

#include "fixed.h"

/* Hop records of one acknowledgement. */
#define TG_HOPS 3

/* Record of one switch, taken when the packet left it. */
struct tg_hop {
	__u64 at;	/* its time in ns; wraps at the width of the field */
	__u64 tx;	/* bytes sent before this packet; wraps at the width of the field */
	__u64 queue;	/* bytes queued behind this packet */
	__u64 rate;	/* bit/s of the port; also stands for its identity */
};

struct tg_ack {
	__u64 now;	/* arrival */
	__u64 rtt;	/* the packet's round-trip time */
	__u64 delay;	/* largest queueing delay of a hop on the forward path */
	__u64 acked;	/* packets newly acknowledged */
	__u64 limited;	/* whether the window or the pace limited sending in the last round trip */
	__u64 hops;	/* number of records; 0 if there are none */
	struct tg_hop hop[TG_HOPS];
	__u64 lost;	/* packets newly counted as lost */
	__u64 state;	/* TG_CA_RECOVERY or TG_CA_LOSS while losses are repaired */
};

struct tg_loss {
	__u64 now;
	__u64 rtt;	/* the latest round-trip time */
	__u64 timeout;	/* nothing has arrived for a retransmission timeout */
};

/* States of the kernel's congestion avoidance. */
enum {
	TG_CA_DISORDER = 1,
	TG_CA_CWR = 2,
	TG_CA_RECOVERY = 3,
	TG_CA_LOSS = 4,
};

/*
 * Whether a change of the state is a loss for the law. A reduction (CWR) is one if marks do not
 * cause it. A loss counts once: the kernel enters recovery after a reduction for the same packets.
 * The kernel also enters the state of a timeout if packets are too long for the path: without a
 * loss before, it then has not noted what it could undo.
 */
TG_INLINE int tg_is_loss(__u32 before, __u32 state, int marks, int undoable)
{
	if (state == TG_CA_RECOVERY)
		return marks || before != TG_CA_CWR;
	if (state == TG_CA_LOSS)
		return undoable || before > TG_CA_DISORDER;
	return state == TG_CA_CWR && !marks;
}

/* a + (b - a) * weight, with a weight in Q30 of at most one. */
TG_INLINE __u64 tg_mix(__u64 a, __u64 b, __u64 weight)
{
	if (b >= a)
		return tg_add(a, tg_mul_shift(b - a, weight, 30));
	return a - tg_min(a, tg_mul_shift(a - b, weight, 30));
}

#endif
