/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * theta-PowerTCP (NSDI'22, appendix B): PowerTCP without support from switches. The law is that of
 * crates/algos/src/cc/theta_powertcp.rs:
 *
 *   power     max((rtt - previous rtt) / dt + 1, floor) * rtt / (tolerance * tau)
 *   smoothed  power += (sample - power) * dt / tau
 *   window    gamma * (cwnd / power + beta) + (1 - gamma) * cwnd, once a round trip
 *
 * Windows are bytes in Q16, powers Q30. Relative error of power: 2^-28.
 */
#ifndef TG_THETA_POWERTCP_H
#define TG_THETA_POWERTCP_H

#include "law.h"

struct tg_theta_params {
	__u64 gamma;		/* Q30, at most one */
	__u64 beta;		/* bytes, Q16 */
	__u64 floor;		/* smallest derivative of the RTT plus one, Q30 */
	__u64 tau;		/* ns */
	__u64 normal;		/* tolerance times tau, ns */
	__u64 min_window;	/* bytes, Q16 */
	__u64 max_window;
	__u64 initial;
};

struct tg_theta {
	__u64 cwnd;		/* bytes, Q16 */
	__u64 power;		/* smoothed, Q30 */
	__u64 last;		/* arrival of the last acknowledgement */
	__u64 last_rtt;
	__u64 began;		/* start of the round trip */
	__u64 first;		/* no acknowledgement yet */
};

TG_INLINE void tg_theta_start(const struct tg_theta_params *p, struct tg_theta *s)
{
	s->cwnd = tg_clamp(p->initial, p->min_window, p->max_window);
	s->power = TG_ONE;
	s->last = 0;
	s->last_rtt = 0;
	s->began = 0;
	s->first = 1;
}

/* normPower of algorithm 2. */
TG_INLINE void tg_theta_measure(const struct tg_theta_params *p, struct tg_theta *s, __u64 now,
				__u64 rtt)
{
	__u64 dt = tg_sub(now, s->last), power, gradient;

	if (dt) {
		/* The derivative plus one: (dt + rtt - previous rtt) / dt. */
		gradient = tg_div_shift(tg_sub(tg_add(dt, rtt), s->last_rtt), dt, 30);
		power = tg_mul_shift(tg_max(gradient, p->floor),
				     tg_div_shift(rtt, tg_max(p->normal, 1), 30), 30);
		s->power = tg_mix(s->power, tg_min(power, 1ULL << 50),
				  tg_div_shift(tg_min(dt, p->tau), tg_max(p->tau, 1), 30));
	}
}

/* updateWindow of algorithm 2. */
TG_INLINE void tg_theta_update(const struct tg_theta_params *p, struct tg_theta *s,
			       __u64 limited)
{
	__u64 target = tg_add(tg_div_shift(s->cwnd, tg_max(s->power, 1), 30), p->beta);
	__u64 cwnd = tg_add(tg_mul_shift(target, p->gamma, 30),
			    tg_mul_shift(s->cwnd, TG_ONE - tg_min(p->gamma, TG_ONE), 30));

	s->cwnd = tg_clamp(cwnd, p->min_window, limited ? p->max_window : s->cwnd);
}

/* newAck of algorithm 2. */
TG_INLINE void tg_theta_ack(const struct tg_theta_params *p, struct tg_theta *s,
			    const struct tg_ack *ack, __u64 limited)
{
	int ends = tg_sub(ack->now, ack->rtt) >= s->began;

	if (!s->first) {
		tg_theta_measure(p, s, ack->now, ack->rtt);
		if (ends)
			tg_theta_update(p, s, limited);
	}
	s->first = 0;
	s->last = ack->now;
	s->last_rtt = ack->rtt;
	if (ends)
		s->began = ack->now;
}

TG_INLINE void tg_theta_loss(const struct tg_theta_params *p, struct tg_theta *s,
			     const struct tg_loss *loss)
{
	s->cwnd = loss->timeout ? p->min_window : tg_max(s->cwnd / 2, p->min_window);
}

#endif
