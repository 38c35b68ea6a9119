// SPDX-License-Identifier: GPL-2.0-only
#include "swift.h"

#include "silent.h"

struct tg_law {
	struct tg_swift swift;
};

#define TG_NAME "tg_swift"
#define TG_OPTION_BYTES 0
#include "control.h"

#define TG_PARAMS(p) ((const struct tg_swift_params *)(p)->law)

TG_INLINE void tg_start(const struct tg_params *p, struct tg_law *law, __u64 packet)
{
	tg_swift_start(TG_PARAMS(p), &law->swift, packet);
}

TG_INLINE void tg_resize(struct tg_law *law, __u64 packet)
{
}

TG_INLINE void tg_on_ack(const struct tg_params *p, struct tg_flow *flow, struct tg_ack *ack)
{
	tg_swift_ack(TG_PARAMS(p), &flow->law.swift, ack);
}

TG_INLINE void tg_on_loss(const struct tg_params *p, struct tg_law *law,
			  const struct tg_loss *loss)
{
	tg_swift_loss(TG_PARAMS(p), &law->swift, loss);
}

TG_INLINE __u64 tg_window(const struct tg_params *p, const struct tg_law *law, __u64 packet)
{
	return law->swift.cwnd;
}

TG_INLINE __u64 tg_pace(const struct tg_params *p, const struct tg_law *law)
{
	return TG_MAX;
}

TG_CONTROL;
