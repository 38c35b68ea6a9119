/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * PowerTCP (NSDI'22): window control by power, the product of voltage and current. The law is that
 * of crates/algos/src/cc/powertcp.rs:
 *
 *   power     max over hops of (dqueue + dsent) / (b * dt) * (queue + b * tau) / (b * tau)
 *   smoothed  power += (sample - power) * dt / tau
 *   window    gamma * (old / power + beta) + (1 - gamma) * cwnd, paced at cwnd / tau
 *
 * Windows are bytes in Q16, powers Q30. Relative error of power: 2^-18 for b * dt above 1 byte.
 *
 * The fields of records wrap. The time between two records follows from that between their
 * acknowledgements and from the round trips. If the count of bytes may have wrapped between two
 * records, the port has sent the most that its rate permits, with a margin for bursts and for a
 * rate that is rounded down: the window then grows too little rather than too much.
 *
 * Records have no identity of the port. A path is another one if the number of ports or a rate
 * differs, or if these times are impossible: between ports of equal rate, the rest, a share of two
 * round trips in the range of the clock, is compared as one port. If two round trips together
 * exceed that range (67 ms), two times are possible, and the one nearer to that between the
 * acknowledgements counts; beyond that range, ports of equal rate are always compared as one.
 *
 * Records of one time, whose clock is too coarse for the rate, count as the first of them: the
 * bytes of all packets count in the interval that follows.
 */
#ifndef TG_POWERTCP_H
#define TG_POWERTCP_H

#include "law.h"

struct tg_powertcp_params {
	__u64 gamma;		/* Q30, at most one */
	__u64 beta;		/* bytes, Q16 */
	__u64 eta;		/* Q30 */
	__u64 floor;		/* smallest current as a share of the rate, Q30 */
	__u64 tau;		/* ns */
	__u64 min_window;	/* bytes, Q16 */
	__u64 max_window;
	__u64 initial;
	__u64 time_mask;	/* largest values of the fields of records, which wrap */
	__u64 tx_mask;
};

/* The previous record; the rate in kbit/s. */
struct tg_powertcp_hop {
	__u64 at;
	__u64 tx;
	__u32 queue;
	__u32 rate;
};

struct tg_powertcp {
	__u64 cwnd;		/* bytes, Q16 */
	__u64 old;		/* the window of a round trip ago */
	__u64 power;		/* smoothed, Q30 */
	__u64 began;		/* start of the round trip */
	__u64 stored;		/* arrival of the stored records */
	__u64 rtt;		/* with them */
	__u64 hops;		/* how many */
	__u64 compared;		/* latest acknowledgement whose records were compared with these */
	struct tg_powertcp_hop hop[TG_HOPS];
};

/* The record of a word of the option (option.h). */
TG_INLINE void tg_powertcp_record(__u64 word, struct tg_hop *hop)
{
	__u64 rate = 128 + (word >> 52 & 127);

	hop->rate = (rate << (word >> 59) >> 7) * 1000;
	hop->at = (word >> 32 & 0xfffff) << 6;
	hop->tx = (word >> 16 & 0xffff) << 6;
	hop->queue = (word & 0x7fff) << 7;
}

/* Powers beyond 2^20 are equal. */
#define TG_MAX_POWER (1ULL << 50)

TG_INLINE void tg_powertcp_start(const struct tg_powertcp_params *p, struct tg_powertcp *s)
{
	__u32 i;

	s->cwnd = tg_clamp(p->initial, p->min_window, p->max_window);
	s->old = s->cwnd;
	s->power = TG_ONE;
	s->began = 0;
	s->stored = 0;
	s->rtt = 0;
	s->hops = 0;
	s->compared = 0;
	for (i = 0; i < TG_HOPS; i++) {
		s->hop[i].at = 0;
		s->hop[i].tx = 0;
		s->hop[i].queue = 0;
		s->hop[i].rate = 0;
	}
}

/* Continues with a window that another law has reached. */
TG_INLINE void tg_powertcp_resume(struct tg_powertcp *s, __u64 cwnd, __u64 now)
{
	s->cwnd = cwnd;
	s->old = cwnd;
	s->power = TG_ONE;
	s->began = now;
}

/*
 * Time between two records of a hop. A record returns between nothing and a round trip after it was
 * taken, so this time exceeds that between the acknowledgements by at most the earlier round trip,
 * and falls short of it by at most the later one. Returns 0 if that holds for no value.
 */
TG_INLINE int tg_powertcp_dt(const struct tg_powertcp_params *p, const struct tg_powertcp *s,
			     const struct tg_ack *ack, __u32 hop, __s64 *dt)
{
	__u64 elapsed = tg_sub(ack->now, s->stored);
	__u64 more = (ack->hop[hop].at - s->hop[hop].at - elapsed) & p->time_mask;
	__u64 less = p->time_mask - more + 1;
	int exceeds = more <= s->rtt, falls_short = less <= ack->rtt;

	*dt = (__s64)(elapsed + (exceeds && !(falls_short && less < more) ? more : -less));
	return exceeds || falls_short;
}

/* Power of a hop (normPower of algorithm 1). */
TG_INLINE __u64 tg_powertcp_power(const struct tg_powertcp_params *p,
				  const struct tg_powertcp_hop *before, const struct tg_hop *now,
				  __u64 dt)
{
	/* Bytes per ns, Q32: bit/s times 2^32 / 8e9. */
	__u64 rate = tg_mul_shift(now->rate, 9223372037ULL, 34);
	__u64 sent = (now->tx - before->tx) & p->tx_mask;
	__u64 could = tg_mul_shift(rate, dt, 12);
	__u64 most = (could >> 20) + (could >> 26) + 4096;
	__u64 wrapped = tg_sub(most, sent) & ~p->tx_mask;
	__u64 arrived = tg_sub(tg_add(sent + wrapped, now->queue), before->queue);
	__u64 current = tg_max(tg_div_shift(arrived, could, 50), p->floor);
	__u64 queue = tg_div_shift(now->queue, tg_mul_shift(rate, p->tau, 12), 50);
	__u64 voltage = tg_add(TG_ONE, queue);

	return tg_min(tg_mul_shift(tg_min(current, TG_MAX_POWER), voltage, 30), TG_MAX_POWER);
}

/* updateWindow of algorithm 1 (eq. 7). */
TG_INLINE void tg_powertcp_update(const struct tg_powertcp_params *p, struct tg_powertcp *s,
				  __u64 limited)
{
	__u64 base = tg_div_shift(tg_mul_shift(s->old, p->eta, 30), tg_max(s->power, 1), 30);
	__u64 target = tg_add(base, p->beta);
	__u64 cwnd = tg_add(tg_mul_shift(target, p->gamma, 30),
			    tg_mul_shift(s->cwnd, TG_ONE - tg_min(p->gamma, TG_ONE), 30));

	s->cwnd = tg_clamp(cwnd, p->min_window, limited ? p->max_window : s->cwnd);
}

/*
 * newAck of algorithm 1. Returns whether records were compared. The verifier examines a global
 * function once, and not with each state of its callers.
 */
TG_GLOBAL int tg_powertcp_ack(const struct tg_powertcp_params *p, struct tg_powertcp *s,
			      const struct tg_ack *ack)
{
	__u64 count, other, older = 0, worst = 0, worst_dt = 0, same = 0;
	int ends;
	__u32 i;

	/* The verifier requires it. */
	if (!p || !s || !ack)
		return 0;
	count = tg_min(ack->hops, TG_HOPS);
	other = s->hops != count;
	ends = tg_sub(ack->now, ack->rtt) >= s->began;
	for (i = 0; i < TG_HOPS && i < count; i++) {
		__u64 power;
		__s64 dt;

		other |= s->hop[i].rate != (__u32)(ack->hop[i].rate / 1000);
		if (ack->hop[i].at == s->hop[i].at && ack->hop[i].tx == s->hop[i].tx) {
			same |= 1ULL << i;
			continue;
		}
		other |= !tg_powertcp_dt(p, s, ack, i, &dt);
		older |= dt < 0;
		same |= (__u64)!dt << i;
		if (dt <= 0)
			continue;
		power = tg_powertcp_power(p, &s->hop[i], &ack->hop[i], dt);
		/* The first of equal powers counts. */
		if (!worst_dt || power > worst) {
			worst = power;
			worst_dt = dt;
		}
	}
	if (!other && older)
		return 0;
	if (!other && worst_dt) {
		s->power = tg_mix(s->power, worst,
				  tg_div_shift(tg_min(worst_dt, p->tau), tg_max(p->tau, 1), 30));
		tg_powertcp_update(p, s, ack->limited);
		s->compared = ack->now;
	}
	/* Records that return again leave the time of their first return. */
	if (other || worst_dt) {
		s->stored = ack->now;
		s->rtt = ack->rtt;
	}
	s->hops = count;
	for (i = 0; i < TG_HOPS && i < count; i++) {
		if (!other && (same >> i & 1))
			continue;
		s->hop[i].at = ack->hop[i].at;
		s->hop[i].tx = ack->hop[i].tx;
		s->hop[i].queue = ack->hop[i].queue;
		s->hop[i].rate = ack->hop[i].rate / 1000;
	}
	if (ends) {
		s->began = ack->now;
		s->old = s->cwnd;
	}
	return !other && worst_dt;
}

TG_INLINE void tg_powertcp_loss(const struct tg_powertcp_params *p, struct tg_powertcp *s,
				const struct tg_loss *loss)
{
	s->cwnd = loss->timeout ? p->min_window : tg_max(s->cwnd / 2, p->min_window);
	s->old = s->cwnd;
}

#endif
