/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * PowerTCP in a connection whose acknowledgements may lack records. The window is PowerTCP's while
 * records can be compared with earlier ones, and theta-PowerTCP's until the first two, also after
 * an idle restart, and if the last comparison is older than a round trip.
 *
 * SACK blocks take the room of records as long as losses go on: a window that nothing reduces would
 * cause further losses. In a recovery, the window without records does not grow. Further losses
 * halve it, also after a timeout, and it does not grow until the effect of the latest reduction can
 * be seen. That takes a round trip and the quarter of one for which the kernel waits before it
 * counts a packet as lost (RACK): until then, the lost packets are of the window before.
 * theta-PowerTCP alone would let the window grow in a full buffer if the path is shorter than tau.
 *
 * Records of some of the hops count as none (the caller sets `hops` to 0): they would pass for
 * those of a shorter path, without the bottleneck.
 */
#ifndef TG_POWERTCP_FLOW_H
#define TG_POWERTCP_FLOW_H

#include "powertcp.h"
#include "theta_powertcp.h"

struct tg_powertcp_flow {
	__u64 records;	/* the window is PowerTCP's, otherwise theta-PowerTCP's */
	struct tg_powertcp powertcp;
	struct tg_theta theta;
	__u64 reduced;	/* time of the latest loss that counted */
};

TG_INLINE struct tg_theta_params tg_powertcp_theta(const struct tg_powertcp_params *p)
{
	return (struct tg_theta_params){
		.gamma = p->gamma,
		.beta = p->beta,
		.floor = p->floor,
		.tau = p->tau,
		.normal = p->tau,
		.min_window = p->min_window,
		.max_window = p->max_window,
		.initial = p->initial,
	};
}

TG_INLINE void tg_powertcp_flow_start(const struct tg_powertcp_params *p,
				      struct tg_powertcp_flow *s)
{
	struct tg_theta_params theta = tg_powertcp_theta(p);

	s->records = 0;
	s->reduced = 0;
	tg_powertcp_start(p, &s->powertcp);
	tg_theta_start(&theta, &s->theta);
}

TG_INLINE __u64 tg_powertcp_flow_window(const struct tg_powertcp_flow *s)
{
	return s->records ? s->powertcp.cwnd : s->theta.cwnd;
}

TG_INLINE void tg_powertcp_flow_loss(const struct tg_powertcp_params *p,
				     struct tg_powertcp_flow *s, const struct tg_loss *loss)
{
	struct tg_theta_params theta = tg_powertcp_theta(p);

	s->reduced = loss->now;
	if (s->records)
		tg_powertcp_loss(p, &s->powertcp, loss);
	else
		tg_theta_loss(&theta, &s->theta, loss);
}

/* An acknowledgement without records that can be compared. */
TG_INLINE void tg_powertcp_flow_theta(const struct tg_powertcp_params *p,
				      struct tg_powertcp_flow *s, const struct tg_ack *ack)
{
	struct tg_theta_params theta = tg_powertcp_theta(p);
	int repairs = ack->state >= TG_CA_RECOVERY;
	int apart = tg_sub(ack->now, s->reduced) >= tg_add(ack->rtt, ack->rtt / 4);

	if (repairs && apart && ack->lost) {
		struct tg_loss loss = {.now = ack->now, .rtt = ack->rtt};

		tg_powertcp_flow_loss(p, s, &loss);
		apart = 0;
	}
	tg_theta_ack(&theta, &s->theta, ack, ack->limited && ack->state != TG_CA_RECOVERY &&
						      (!repairs || apart));
}

TG_INLINE void tg_powertcp_flow_ack(const struct tg_powertcp_params *p,
				    struct tg_powertcp_flow *s, const struct tg_ack *ack)
{
	struct tg_theta_params theta = tg_powertcp_theta(p);

	if (!s->records)
		tg_powertcp_resume(&s->powertcp, s->theta.cwnd, ack->now);
	if (ack->hops && tg_powertcp_ack(p, &s->powertcp, ack)) {
		s->records = 1;
		return;
	}
	if (s->records && tg_sub(ack->now, s->powertcp.compared) > ack->rtt) {
		s->records = 0;
		tg_theta_start(&theta, &s->theta);
		s->theta.cwnd = s->powertcp.cwnd;
	}
	if (!s->records)
		tg_powertcp_flow_theta(p, s, ack);
}

#endif
