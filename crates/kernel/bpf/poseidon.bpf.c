// SPDX-License-Identifier: GPL-2.0-only
/*
 * Poseidon with the delay option. While no switch on the path stamps, an acknowledgement counts
 * with its RTT minus the connection's smallest: all queues of both directions. If this delay stays
 * above the largest target while the window is below one packet, it does not react to the law: the
 * path has become longer, or others fill the queue. The smallest RTT is then measured again.
 */
#include "poseidon.h"

#include "option.h"

struct tg_law {
	struct tg_poseidon poseidon;
	__u64 beyond;	/* acknowledgements in a row with such a delay and window */
};

/* Of these, one follows a round trip or more after the other. */
#define TG_BEYOND 4

struct tg_telemetry {
	__u16 arrived;	/* forward field of the latest data packet, host byte order */
	__u16 echo;	/* echo field of this acknowledgement */
	__u32 until;	/* sequence number behind it; 0: none has arrived */
};

struct tg_flow;
TG_INLINE void tg_telemetry_init(struct sock *sk, struct tg_flow *flow);
TG_INLINE void tg_drop_echo(struct tg_telemetry *telemetry);

#define TG_NAME "tg_poseidon"
#define TG_OPTION_BYTES sizeof(struct tg_option_delay)
#include "control.h"
#include "telemetry.h"

#define TG_PARAMS(p) ((const struct tg_poseidon_params *)(p)->law)

TG_INLINE void tg_start(const struct tg_params *p, struct tg_law *law, __u64 packet)
{
	tg_poseidon_start(TG_PARAMS(p), &law->poseidon, packet);
	law->beyond = 0;
}

TG_INLINE void tg_resize(struct tg_law *law, __u64 packet)
{
	tg_poseidon_resize(&law->poseidon, packet);
}

TG_INLINE void tg_on_ack(const struct tg_params *p, struct tg_flow *flow, struct tg_ack *ack)
{
	__u16 echo = flow->telemetry.echo;

	if (echo) {
		ack->delay = tg_delay_ns(echo);
		TG_COUNT(stamped);
	} else {
		TG_COUNT(unstamped);
		/* Without a sample since the start, there is no signal, and no growth. */
		if (flow->min_rtt == TG_MAX)
			ack->acked = 0;
		ack->delay = tg_sub(ack->rtt, flow->min_rtt);
		if (flow->law.poseidon.cwnd >= TG_ONE ||
		    tg_shift_left(ack->delay, 8) <= tg_poseidon_longest(TG_PARAMS(p)))
			flow->law.beyond = 0;
		else if (++flow->law.beyond >= TG_BEYOND)
			flow->min_rtt = TG_MAX;
	}
	tg_drop_echo(&flow->telemetry);
	tg_poseidon_ack(TG_PARAMS(p), &flow->law.poseidon, ack);
}

TG_INLINE void tg_on_loss(const struct tg_params *p, struct tg_law *law,
			  const struct tg_loss *loss)
{
	tg_poseidon_loss(TG_PARAMS(p), &law->poseidon, loss);
}

TG_INLINE __u64 tg_window(const struct tg_params *p, const struct tg_law *law, __u64 packet)
{
	return law->poseidon.cwnd;
}

TG_INLINE __u64 tg_pace(const struct tg_params *p, const struct tg_law *law)
{
	return TG_MAX;
}

TG_INLINE void tg_reserve(struct bpf_sock_ops *ops, struct tg_flow *flow)
{
	bpf_reserve_hdr_opt(ops, sizeof(struct tg_option_delay), 0);
}

TG_INLINE int tg_write(struct bpf_sock_ops *ops, struct tg_flow *flow)
{
	struct tg_option_delay option = {
		.kind = TG_KIND,
		.length = sizeof(option),
		.exid = bpf_htons(TG_EXID_DELAY),
		.echo = bpf_htons(flow->telemetry.arrived),
	};

	return bpf_store_hdr_opt(ops, &option, sizeof(option), 0);
}

TG_INLINE int tg_parse(struct bpf_sock_ops *ops, struct tg_telemetry *seen)
{
	struct tg_option_delay option = {
		.kind = TG_KIND,
		.length = 4,
		.exid = bpf_htons(TG_EXID_DELAY),
	};
	const struct tg_option_delay *usual = tg_usual(ops, sizeof(*usual));
	long length = sizeof(option);

	if (usual && usual->kind == TG_KIND && usual->length == sizeof(*usual) &&
	    usual->exid == option.exid)
		option = *usual;
	else
		length = bpf_load_hdr_opt(ops, &option, sizeof(option), 0);
	if (length == -ENOMSG)
		return 0;
	if (length != sizeof(option)) {
		TG_COUNT(foreign);
		return 0;
	}
	seen->echo = bpf_ntohs(option.echo);
	seen->arrived = bpf_ntohs(option.forward);
	return TG_SEEN | TG_REQUESTED;
}

TG_INLINE void tg_keep(struct tg_telemetry *kept, const struct tg_telemetry *seen, int parsed)
{
	kept->arrived = seen->arrived;
	kept->echo = seen->echo;
}

TG_INLINE void tg_drop_echo(struct tg_telemetry *telemetry)
{
	telemetry->echo = 0;
}

TG_INLINE void tg_forget(struct tg_telemetry *kept)
{
	kept->arrived = 0;
}

TG_CONTROL;
