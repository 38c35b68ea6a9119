/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Swift (SIGCOMM 2020): control of end-to-end delay to a target. The law is that of
 * crates/algos/src/cc/swift.rs:
 *
 *   target       base + hops * h + clamp(alpha / sqrt(cwnd) + beta, 0, fs_range)
 *   below it     cwnd += ai * min(acked / max(cwnd, 1), 1)
 *   otherwise    cwnd *= max(1 - gain * (delay - target) / delay, 1 - max_mdf), once a round trip
 *
 * The root is computed with binary logarithms. Windows are packets in Q30. Error of flow scaling:
 * 5e-6 of alpha / sqrt(cwnd).
 */
#ifndef TG_SWIFT_H
#define TG_SWIFT_H

#include "law.h"

struct tg_swift_params {
	__u64 base;		/* target without flow scaling, ns, Q8 */
	__u64 alpha;		/* ns, Q8 */
	__u64 minus_beta;	/* ns, Q8 */
	__u64 fs_range;		/* ns, Q8 */
	__u64 ai;		/* packets a round trip, Q30 */
	__u64 gain;		/* of the decrease, Q30 */
	__u64 min_factor;	/* smallest factor of a decrease, Q30 */
	__u64 min_cwnd;		/* packets, Q30 */
	__u64 max_cwnd;
	__u64 reset_after;	/* timeouts in a row that reset the window */
	__u64 initial;		/* window of a new connection in bytes */
};

struct tg_swift {
	__u64 cwnd;		/* packets, Q30 */
	__u64 last_decrease;
	__u64 decreased;	/* whether there was a decrease */
	__u64 timeouts;		/* in a row */
};

TG_INLINE void tg_swift_start(const struct tg_swift_params *p, struct tg_swift *s,
			      __u64 packet_bytes)
{
	s->cwnd = tg_clamp(tg_div_shift(p->initial, packet_bytes, 30), p->min_cwnd, p->max_cwnd);
	s->last_decrease = 0;
	s->decreased = 0;
	s->timeouts = 0;
}

/* Target in ns, Q8 (section 3.5). */
TG_INLINE __u64 tg_swift_target(const struct tg_swift_params *p, const struct tg_swift *s)
{
	/* log2 of 1 / sqrt(cwnd); the window is in Q30. */
	__s64 octaves = ((30LL << 31) - (__s64)tg_log2(s->cwnd)) >> 1;
	__u64 scaled = tg_mul_shift(p->alpha, tg_exp2(octaves), 30);

	return tg_add(p->base, tg_min(tg_sub(scaled, p->minus_beta), p->fs_range));
}

TG_INLINE int tg_swift_may_decrease(const struct tg_swift *s, __u64 now, __u64 rtt)
{
	return !s->decreased || tg_sub(now, s->last_decrease) >= rtt;
}

TG_INLINE void tg_swift_clamp_window(const struct tg_swift_params *p, struct tg_swift *s,
				     __u64 before, __u64 now)
{
	s->cwnd = tg_clamp(s->cwnd, p->min_cwnd, p->max_cwnd);
	if (s->cwnd < before) {
		s->last_decrease = now;
		s->decreased = 1;
	}
}

/* Algorithm 1. */
TG_INLINE void tg_swift_ack(const struct tg_swift_params *p, struct tg_swift *s,
			    const struct tg_ack *ack)
{
	__u64 before = s->cwnd, delay = tg_shift_left(ack->rtt, 8);
	__u64 target = tg_swift_target(p, s);

	s->timeouts = 0;
	if (delay < target) {
		__u64 share = tg_div_shift(tg_shift_left(ack->acked, 30), tg_max(s->cwnd, TG_ONE), 30);

		if (ack->limited)
			s->cwnd = tg_add(s->cwnd, tg_mul_shift(p->ai, tg_min(share, TG_ONE), 30));
	} else if (tg_swift_may_decrease(s, ack->now, ack->rtt)) {
		__u64 excess = tg_div_shift(delay - target, delay, 30);
		__u64 factor = tg_sub(TG_ONE, tg_mul_shift(p->gain, excess, 30));

		s->cwnd = tg_mul_shift(s->cwnd, tg_max(factor, p->min_factor), 30);
	}
	tg_swift_clamp_window(p, s, before, ack->now);
}

TG_INLINE void tg_swift_loss(const struct tg_swift_params *p, struct tg_swift *s,
			     const struct tg_loss *loss)
{
	__u64 before = s->cwnd;

	s->timeouts = loss->timeout ? s->timeouts + 1 : 0;
	if (s->timeouts >= p->reset_after)
		s->cwnd = p->min_cwnd;
	else if (tg_swift_may_decrease(s, loss->now, loss->rtt))
		s->cwnd = tg_mul_shift(s->cwnd, p->min_factor, 30);
	tg_swift_clamp_window(p, s, before, loss->now);
}

#endif
