/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Poseidon (NSDI'23): fairness by a target delay that depends on the flow's own rate. The law is
 * that of crates/algos/src/cc/poseidon.rs, which has the equations and differences from the paper:
 *
 *   target  T = k + p * ln(max_rate / rate) / A,  A = ln(max_rate / min_rate)
 *   update  U = exp((T - delay) * A * m / p), clamped to [min_md, max_mi]
 *
 * Both are computed with binary logarithms: p / A becomes nanoseconds per octave. Windows are
 * packets in Q30. Error of T: 1e-5 octaves; of U: 2e-6, and m times that of T in octaves.
 */
#ifndef TG_POSEIDON_H
#define TG_POSEIDON_H

#include "law.h"

struct tg_poseidon_params {
	__u64 k;		/* target of the fastest flow, ns, Q8 */
	__u64 slope;		/* increase of the target when the rate halves, ns, Q8 */
	__u64 gain;		/* octaves of the window per ns of distance, Q56 */
	__u64 max_rate;		/* log2 of bit/s, Q31 */
	__u64 span;		/* log2 of max_rate / min_rate, Q31 */
	__u64 min_cwnd;		/* packets, Q30 */
	__u64 max_cwnd;
	__u64 min_md;		/* factors, Q30 */
	__u64 max_mi;
	__u64 reset_after;	/* timeouts in a row that reset the window */
	__u64 initial;		/* window of a new connection in bytes */
};

struct tg_poseidon {
	__u64 cwnd;		/* packets, Q30 */
	__u64 last_decrease;
	__u64 decreased;	/* whether there was a decrease */
	__u64 timeouts;		/* in a row */
	__u64 packet;		/* log2 of (bits of a packet times ns of a second), Q31 */
};

/* log2(8e9), Q31. */
#define TG_BITS_NS (70646527316ULL)

/* The window remains the same number of packets, of another size. */
TG_INLINE void tg_poseidon_resize(struct tg_poseidon *s, __u64 packet_bytes)
{
	s->packet = tg_log2(packet_bytes) + TG_BITS_NS;
}

TG_INLINE void tg_poseidon_start(const struct tg_poseidon_params *p, struct tg_poseidon *s,
				 __u64 packet_bytes)
{
	s->cwnd = tg_clamp(tg_div_shift(p->initial, packet_bytes, 30), p->min_cwnd, p->max_cwnd);
	s->last_decrease = 0;
	s->decreased = 0;
	s->timeouts = 0;
	tg_poseidon_resize(s, packet_bytes);
}

/* Target in ns, Q8 (eq. 3). */
TG_INLINE __u64 tg_poseidon_target(const struct tg_poseidon_params *p,
				   const struct tg_poseidon *s, __u64 rtt)
{
	/* The window is in Q30: 30 octaves too large. */
	__u64 rate = tg_sub(tg_log2(s->cwnd) + s->packet, tg_log2(tg_max(rtt, 1)) + (30ULL << 31));
	__u64 below = tg_min(tg_sub(p->max_rate, rate), p->span);

	return tg_add(p->k, tg_mul_shift(below, p->slope, 31));
}

/* The target of the slowest rate, in Q8. */
TG_INLINE __u64 tg_poseidon_longest(const struct tg_poseidon_params *p)
{
	return tg_add(p->k, tg_mul_shift(p->span, p->slope, 31));
}

/* U in Q30 (eq. 4), for a target and a delay in Q8. */
TG_INLINE __u64 tg_poseidon_ratio(const struct tg_poseidon_params *p, __u64 target, __u64 delay)
{
	__u64 distance = target > delay ? target - delay : delay - target;
	/* Bounds are within 7 octaves of 1; the clamp to 16 keeps the sign's range. */
	__s64 octaves = (__s64)tg_min(tg_mul_shift(distance, p->gain, 33), 16ULL << 31);

	return tg_clamp(tg_exp2(target > delay ? octaves : -octaves), p->min_md, p->max_mi);
}

TG_INLINE int tg_poseidon_may_decrease(const struct tg_poseidon *s, __u64 now, __u64 rtt)
{
	return !s->decreased || tg_sub(now, s->last_decrease) > rtt;
}

TG_INLINE void tg_poseidon_clamp_window(const struct tg_poseidon_params *p, struct tg_poseidon *s,
				  __u64 before, __u64 now)
{
	s->cwnd = tg_clamp(s->cwnd, p->min_cwnd, p->max_cwnd);
	if (s->cwnd < before) {
		s->last_decrease = now;
		s->decreased = 1;
	}
}

/* Algorithm 1. */
TG_INLINE void tg_poseidon_ack(const struct tg_poseidon_params *p, struct tg_poseidon *s,
			       const struct tg_ack *ack)
{
	__u64 before = s->cwnd, delay = tg_shift_left(ack->delay, 8);
	__u64 target = tg_poseidon_target(p, s, ack->rtt);
	__u64 ratio = tg_poseidon_ratio(p, target, delay);

	s->timeouts = 0;
	if (delay <= target) {
		/* One acknowledgement counts for one window at most. */
		__u64 acked = tg_min(tg_shift_left(ack->acked, 30), tg_max(s->cwnd, TG_ONE));

		if (ack->limited)
			s->cwnd = tg_add(s->cwnd, tg_mul_shift(tg_sub(ratio, TG_ONE), acked, 30));
	} else if (tg_poseidon_may_decrease(s, ack->now, ack->rtt)) {
		s->cwnd = tg_mul_shift(s->cwnd, ratio, 30);
	}
	tg_poseidon_clamp_window(p, s, before, ack->now);
}

/* Algorithm 2. */
TG_INLINE void tg_poseidon_loss(const struct tg_poseidon_params *p, struct tg_poseidon *s,
				const struct tg_loss *loss)
{
	__u64 before = s->cwnd;

	s->timeouts = loss->timeout ? s->timeouts + 1 : 0;
	if (s->timeouts >= p->reset_after)
		s->cwnd = p->min_cwnd;
	else if (tg_poseidon_may_decrease(s, loss->now, loss->rtt))
		s->cwnd = tg_mul_shift(s->cwnd, p->min_md, 30);
	tg_poseidon_clamp_window(p, s, before, loss->now);
}

#endif
