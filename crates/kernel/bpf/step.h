/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One call of one function, chosen by a number: tests run it natively and in the kernel and compare
 * the results.
 */
#ifndef TG_STEP_H
#define TG_STEP_H

#include "delay.h"
#include "poseidon.h"
#include "powertcp_flow.h"
#include "swift.h"

enum {
	TG_MUL_SHIFT,
	TG_DIV_SHIFT,
	TG_LOG2,
	TG_EXP2,
	TG_DELAY_CODE,
	TG_DELAY_NS,
	TG_RECORD,
	TG_IS_LATER,
	TG_IS_LOSS,	/* a, b: states before and after; by: marks, and 2 if undoable */
	/* start, ack, loss of each law */
	TG_POSEIDON = 16,
	TG_SWIFT = 32,
	TG_POWERTCP = 48,
	TG_THETA = 64,
	TG_POWERTCP_FLOW = 80,
	TG_START = 0,
	TG_ACK,
	TG_LOSS,
};

struct tg_step {
	__u64 op;
	__u64 a, b, by;		/* operands; a is the packet size of a start */
	__u64 out;
	union {
		__u64 params[16];
		struct tg_poseidon_params poseidon_params;
		struct tg_swift_params swift_params;
		struct tg_powertcp_params powertcp_params;
		struct tg_theta_params theta_params;
	};
	union {
		__u64 state[25];
		struct tg_poseidon poseidon;
		struct tg_swift swift;
		struct tg_powertcp powertcp;
		struct tg_theta theta;
		struct tg_powertcp_flow powertcp_flow;
	};
	struct tg_ack ack;
	struct tg_loss loss;
};

TG_INLINE void tg_step(struct tg_step *s)
{
	switch (s->op) {
	case TG_MUL_SHIFT:
		s->out = tg_mul_shift(s->a, s->b, s->by);
		break;
	case TG_DIV_SHIFT:
		s->out = tg_div_shift(s->a, s->b, s->by);
		break;
	case TG_LOG2:
		s->out = tg_log2(s->a);
		break;
	case TG_EXP2:
		s->out = tg_exp2((__s64)s->a);
		break;
	case TG_DELAY_CODE:
		s->out = tg_delay_code(s->a);
		break;
	case TG_DELAY_NS:
		s->out = tg_delay_ns(s->a);
		break;
	case TG_RECORD:
		tg_powertcp_record(s->a, &s->ack.hop[0]);
		break;
	case TG_IS_LATER:
		s->out = tg_is_later(s->a, s->b);
		break;
	case TG_IS_LOSS:
		s->out = tg_is_loss(s->a, s->b, s->by & 1, s->by & 2);
		break;
	case TG_POSEIDON + TG_START:
		tg_poseidon_start(&s->poseidon_params, &s->poseidon, s->a);
		break;
	case TG_POSEIDON + TG_ACK:
		tg_poseidon_ack(&s->poseidon_params, &s->poseidon, &s->ack);
		break;
	case TG_POSEIDON + TG_LOSS:
		tg_poseidon_loss(&s->poseidon_params, &s->poseidon, &s->loss);
		break;
	case TG_SWIFT + TG_START:
		tg_swift_start(&s->swift_params, &s->swift, s->a);
		break;
	case TG_SWIFT + TG_ACK:
		tg_swift_ack(&s->swift_params, &s->swift, &s->ack);
		break;
	case TG_SWIFT + TG_LOSS:
		tg_swift_loss(&s->swift_params, &s->swift, &s->loss);
		break;
	case TG_POWERTCP + TG_START:
		tg_powertcp_start(&s->powertcp_params, &s->powertcp);
		break;
	case TG_POWERTCP + TG_ACK:
		tg_powertcp_ack(&s->powertcp_params, &s->powertcp, &s->ack);
		break;
	case TG_POWERTCP + TG_LOSS:
		tg_powertcp_loss(&s->powertcp_params, &s->powertcp, &s->loss);
		break;
	case TG_THETA + TG_START:
		tg_theta_start(&s->theta_params, &s->theta);
		break;
	case TG_THETA + TG_ACK:
		tg_theta_ack(&s->theta_params, &s->theta, &s->ack, s->ack.limited);
		break;
	case TG_THETA + TG_LOSS:
		tg_theta_loss(&s->theta_params, &s->theta, &s->loss);
		break;
	case TG_POWERTCP_FLOW + TG_START:
		tg_powertcp_flow_start(&s->powertcp_params, &s->powertcp_flow);
		break;
	case TG_POWERTCP_FLOW + TG_ACK:
		tg_powertcp_flow_ack(&s->powertcp_params, &s->powertcp_flow, &s->ack);
		break;
	case TG_POWERTCP_FLOW + TG_LOSS:
		tg_powertcp_flow_loss(&s->powertcp_params, &s->powertcp_flow, &s->loss);
		break;
	}
}

#endif
