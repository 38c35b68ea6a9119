// SPDX-License-Identifier: GPL-2.0-only
#include "theta_powertcp.h"

#include "silent.h"

struct tg_law {
	struct tg_theta theta;
};

#define TG_NAME "tg_theta"
#define TG_OPTION_BYTES 0
#include "control.h"

#define TG_PARAMS(p) ((const struct tg_theta_params *)(p)->law)

TG_INLINE void tg_start(const struct tg_params *p, struct tg_law *law, __u64 packet)
{
	tg_theta_start(TG_PARAMS(p), &law->theta);
}

TG_INLINE void tg_resize(struct tg_law *law, __u64 packet)
{
}

TG_INLINE void tg_on_ack(const struct tg_params *p, struct tg_flow *flow, struct tg_ack *ack)
{
	tg_theta_ack(TG_PARAMS(p), &flow->law.theta, ack, ack->limited);
}

TG_INLINE void tg_on_loss(const struct tg_params *p, struct tg_law *law,
			  const struct tg_loss *loss)
{
	tg_theta_loss(TG_PARAMS(p), &law->theta, loss);
}

TG_INLINE __u64 tg_window(const struct tg_params *p, const struct tg_law *law, __u64 packet)
{
	return tg_div_shift(law->theta.cwnd, packet, 14);
}

TG_INLINE __u64 tg_pace(const struct tg_params *p, const struct tg_law *law)
{
	return tg_pace_of(law->theta.cwnd, TG_PARAMS(p)->tau);
}

TG_CONTROL;
