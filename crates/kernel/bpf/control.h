/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A congestion control of TCP around a law. A file that includes this defines before:
 *
 *   TG_NAME                           the control's name
 *   TG_OPTION_BYTES                   of telemetry in a data packet
 *   struct tg_law                     the state of the law in a connection
 *   tg_start(params, law, packet)     the law of a new connection; packet in wire bytes
 *   tg_resize(law, packet)            packets have another size, because the path's MTU changed
 *   tg_on_ack(params, flow, ack)
 *   tg_drop_echo(telemetry)           telemetry that has returned belongs to no acknowledgement
 *   tg_on_loss(params, law, loss)
 *   tg_window(params, law, packet)    packets, Q30
 *   tg_pace(params, law)              bytes/s, or TG_MAX without pacing
 *
 * The window is in whole packets and packets are not paced unless the law says so. Below one packet
 * the window is one packet, sent at the pace of the law, or without one every rtt / window.
 *
 * Losses are those that the kernel detects. It reports one that a tail loss probe repairs as a
 * reduction without loss (CWR), as it does marks and packets that the queue of the sender's own
 * interface drops: the law counts this unless the connection has negotiated ECN, whose marks are left to the
 * kernel.
 *
 * The kernel keeps about a millisecond of the pacing rate in the queue of the sender's interface,
 * also if a connection is not paced (TCP small queues); without a pace, that rate is twice the
 * window per RTT. Without a rate, the whole window would wait there, where no switch stamps.
 */
#ifndef TG_CONTROL_H
#define TG_CONTROL_H

#include "law.h"

#define SOL_TCP 6
#define TCP_CONGESTION 13
#ifndef SK_PACING_NEEDED
#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1
#define SK_PACING_FQ 2
#endif
#define TG_NAME_BYTES 16

char LICENSE[] SEC("license") = "GPL";

/* Parameters of the law, the network, which laws do not read, and parameters of connections. */
struct tg_params {
	__u64 law[12];
	__u64 rate;
	__u64 base_rtt;
	__u64 round_up;		/* a packet starts while any part of the window is left */
	__u64 restart_after;	/* idle time in ns after which a connection starts again, at least */
};

struct tg_settings {
	/* Connections move to the control `fallback` with their next acknowledgement. */
	__u64 draining;
	char fallback[TG_NAME_BYTES];
	__u64 version;	/* digest of the sources, written when it is loaded */
};

struct tg_counters {
	__u64 connections;	/* that began */
	__u64 drained;		/* that moved to the fallback */
	__u64 acks;
	__u64 losses;
	__u64 timeouts;
	__u64 restarts;		/* after idle times */
	__u64 stamped;		/* acknowledgements with telemetry of a switch */
	__u64 unstamped;	/* without */
	__u64 foreign;		/* options of another length */
	__u64 dropped_records;	/* acknowledgements without room for their records */
	__u64 sent_options;
	__u64 lost_packets;
};

struct tg_flow {
	struct tg_law law;
	__u64 started;		/* the control runs; otherwise only telemetry is returned */
	__u64 paced;		/* packets wait for a pace */
	__u64 app_limited;	/* the application limited the latest delivered packet */
	__u64 lost;		/* packets that the kernel has counted as lost */
	__u64 headers;		/* bytes of a packet on the wire beside its segment */
	__u64 packet;		/* wire bytes of a full packet */
	__u64 last_ack;		/* or the time at which the pace permits the next packet, if later */
	__u64 rtt;		/* ns; 0 before the first sample */
	__u64 min_rtt;
	struct tg_ack ack;	/* the latest; here because the stack is short */
	struct tg_telemetry telemetry;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_params);
} params SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_settings);
} settings SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct tg_flow);
} flows SEC(".maps");

static const __u32 tg_zero;

#define TG_COUNT_MORE(field, more)                                                              \
	do {                                                                                    \
		struct tg_counters *all = bpf_map_lookup_elem(&counters, &tg_zero);             \
		if (all)                                                                        \
			all->field += (more);                                                   \
	} while (0)
#define TG_COUNT(field) TG_COUNT_MORE(field, 1)

/* Defined by the including file. */
TG_INLINE void tg_start(const struct tg_params *p, struct tg_law *law, __u64 packet);
TG_INLINE void tg_resize(struct tg_law *law, __u64 packet);
TG_INLINE void tg_on_ack(const struct tg_params *p, struct tg_flow *flow, struct tg_ack *ack);
TG_INLINE void tg_on_loss(const struct tg_params *p, struct tg_law *law,
			  const struct tg_loss *loss);
TG_INLINE __u64 tg_window(const struct tg_params *p, const struct tg_law *law, __u64 packet);
TG_INLINE __u64 tg_pace(const struct tg_params *p, const struct tg_law *law);

/* A window in bytes, Q16, per tau. */
TG_INLINE __u64 tg_pace_of(__u64 window, __u64 tau)
{
	return tg_div_shift(tg_mul_shift(window, 1000000000, 16), tg_max(tau, 1), 0);
}

/* Sets the window and the pace of the socket. */
TG_INLINE void tg_apply(struct sock *sk, const struct tg_params *p, struct tg_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	__u64 window = tg_window(p, &flow->law, flow->packet), pace = tg_pace(p, &flow->law);
	__u64 packets = tg_min(window >> 30, 1 << 30), srtt = (__u64)(tp->srtt_us >> 3) * 1000;
	__u32 status;

	if (p->round_up && (window & (TG_ONE - 1)))
		packets++;
	if (window < TG_ONE && flow->rtt && pace == TG_MAX)
		pace = tg_div_shift(tg_mul_shift(flow->packet * 1000000000, window, 30),
				    flow->rtt, 0);
	tp->snd_cwnd = tg_min(tg_max(packets, 1), tp->snd_cwnd_clamp);
	flow->paced = pace != TG_MAX;
	status = flow->paced || sk->sk_max_pacing_rate != ~0UL ? SK_PACING_NEEDED : SK_PACING_NONE;
	/* fq paces by itself. */
	if (sk->sk_pacing_status != SK_PACING_FQ && sk->sk_pacing_status != status)
		sk->sk_pacing_status = status;
	/* Twice the window per RTT, as in the kernel's slow start. Except under fq, nothing is paced:
	 * this rate only sets the limit of TCP small queues.
	 */
	if (!flow->paced && srtt)
		pace = tg_div_shift(tg_mul_shift(flow->packet * 2000000000, window, 30), srtt, 0);
	/* The kernel counts payload only. */
	if (pace != TG_MAX)
		pace = tg_div_shift(tg_mul_shift(pace, tg_sub(tp->mss_cache, TG_OPTION_BYTES), 0),
				    tg_max(flow->packet, 1), 0);
	sk->sk_pacing_rate = tg_min(tg_max(pace, 1), sk->sk_max_pacing_rate);
}

/* Packets that the kernel has counted as lost since the last call. */
TG_INLINE __u32 tg_count_lost(const struct tcp_sock *tp, struct tg_flow *flow)
{
	__u32 lost = tp->lost, more = lost - flow->lost;

	if (more)
		TG_COUNT_MORE(lost_packets, more);
	flow->lost = lost;
	return more;
}

/* Starts the law, with the size of packets and the sample of the RTT of this time. */
TG_INLINE void tg_begin(struct sock *sk, const struct tg_params *p, struct tg_flow *flow)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;

	/* With IP, and Ethernet's header, preamble and gap. */
	flow->headers = tp->tcp_header_len + tp->inet_conn.icsk_af_ops->net_header_len + 38;
	flow->packet = tp->mss_cache + flow->headers;
	flow->rtt = (__u64)(tp->srtt_us >> 3) * 1000;
	tg_start(p, &flow->law, flow->packet);
	tg_apply(sk, p, flow);
}

SEC("struct_ops")
void BPF_PROG(tg_init, struct sock *sk)
{
	struct tg_params *p = bpf_map_lookup_elem(&params, &tg_zero);
	struct tg_flow *flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);

	/* Without memory the connection keeps the kernel's first window, without growth. */
	if (!p || !flow)
		return;
	flow->started = 1;
	flow->last_ack = 0;
	/* Until a packet is delivered. */
	flow->app_limited = 1;
	flow->min_rtt = TG_MAX;
	flow->lost = ((struct tcp_sock *)sk)->lost;
	tg_begin(sk, p, flow);
	tg_telemetry_init(sk, flow);
	TG_COUNT(connections);
}

/*
 * Moves the connection to the fallback, or, if that is gone, to the control that every kernel has.
 * If neither is possible, the law continues.
 */
TG_INLINE int tg_moves(struct sock *sk, struct tg_settings *set)
{
	char reno[TG_NAME_BYTES] = "reno";

	return !bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, set->fallback, TG_NAME_BYTES) ||
	       !bpf_setsockopt(sk, SOL_TCP, TCP_CONGESTION, reno, TG_NAME_BYTES);
}

/*
 * Whether a paced connection waits for its pace, and not for its receiver, which has limited it
 * until now or has no room for another packet.
 */
TG_INLINE int tg_receiver_permits(const struct tcp_sock *tp)
{
	return BPF_CORE_READ_BITFIELD(tp, chrono_type) != TG_CHRONO_RWND_LIMITED &&
	       tg_sub(tp->snd_wnd, tp->snd_nxt - tp->snd_una) >= tp->mss_cache;
}

SEC("struct_ops")
void BPF_PROG(tg_cong_control, struct sock *sk, __u32 number, int flag,
	      const struct rate_sample *rs)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct tg_params *p = bpf_map_lookup_elem(&params, &tg_zero);
	struct tg_settings *set = bpf_map_lookup_elem(&settings, &tg_zero);
	struct tg_flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tg_ack *ack;
	long rtt_us = rs->rtt_us;
	__u64 packet;

	if (!p || !set || !flow || !flow->started)
		return;
	ack = &flow->ack;
	ack->lost = tg_count_lost(tp, flow);
	if (set->draining && tg_moves(sk, set)) {
		TG_COUNT(drained);
		return;
	}
	packet = tp->mss_cache + flow->headers;
	if (packet != flow->packet) {
		flow->packet = packet;
		tg_resize(&flow->law, packet);
	}
	/* Data of the peer acknowledges nothing: the next acknowledgement has its telemetry. The answer
	 * to the connection request acknowledges no data, and the first window follows it.
	 */
	if ((!rs->acked_sacked && !ack->lost) || sk->__sk_common.skc_state == TG_SYN_SENT)
		return;
	ack->now = bpf_ktime_get_ns();
	/* With a window below one packet, nothing is in flight until the pace permits the next. */
	flow->last_ack = tg_max(ack->now, tp->tcp_wstamp_ns);
	if (rtt_us > 0 && flag & FLAG_RETRANS_DATA_ACKED) {
		/* These are timestamps in milliseconds, and perhaps those of the packet that was lost:
		 * they only show that the RTT is not longer.
		 */
		flow->rtt = tg_min(flow->rtt, (__u64)rtt_us * 1000 + 1000000);
	} else if (rtt_us > 0) {
		flow->rtt = (__u64)rtt_us * 1000;
		flow->min_rtt = tg_min(flow->min_rtt, flow->rtt);
	}
	if (!flow->rtt) {
		tg_drop_echo(&flow->telemetry);
		return;
	}
	ack->rtt = flow->rtt;
	ack->delay = 0;
	ack->hops = 0;
	ack->acked = rs->acked_sacked;
	/* An acknowledgement that delivers nothing has no sample. */
	if (rs->delivered > 0)
		flow->app_limited = rs->is_app_limited;
	ack->limited = BPF_CORE_READ_BITFIELD(tp, is_cwnd_limited) ||
		       (flow->paced && !flow->app_limited && tg_receiver_permits(tp));
	ack->state = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	tg_on_ack(p, flow, ack);
	tg_apply(sk, p, flow);
	TG_COUNT(acks);
}

SEC("struct_ops")
void BPF_PROG(tg_set_state, struct sock *sk, __u8 state)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct tg_params *p = bpf_map_lookup_elem(&params, &tg_zero);
	struct tg_flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	struct tg_loss loss = {};
	__u32 before;
	int counts;

	if (!p || !flow || !flow->started)
		return;
	before = BPF_CORE_READ_BITFIELD(&tp->inet_conn, icsk_ca_state);
	counts = tg_is_loss(before, state, tp->ecn_flags & TCP_ECN_OK, tp->undo_marker != 0);
	/* The reduction is for all packets that are lost now; packets that are too long need none. */
	if (counts || state == TG_CA_LOSS)
		tg_count_lost(tp, flow);
	if (!counts)
		return;
	loss.now = bpf_ktime_get_ns();
	loss.rtt = flow->rtt;
	loss.timeout = state == TG_CA_LOSS;
	tg_on_loss(p, &flow->law, &loss);
	tg_apply(sk, p, flow);
	if (loss.timeout)
		TG_COUNT(timeouts);
	else
		TG_COUNT(losses);
}

SEC("struct_ops")
void BPF_PROG(tg_cwnd_event, struct sock *sk, enum tcp_ca_event event)
{
	struct tcp_sock *tp = (struct tcp_sock *)sk;
	struct tg_params *p = bpf_map_lookup_elem(&params, &tg_zero);
	struct tg_flow *flow;
	__u64 rto;

	if (event != CA_EVENT_TX_START)
		return;
	flow = bpf_sk_storage_get(&flows, sk, 0, 0);
	if (!flow)
		return;
	/* It has returned with data while nothing was in flight. */
	tg_drop_echo(&flow->telemetry);
	/* Packets that wait for a retransmission are not in flight, but the connection is not idle. */
	if (!p || !flow->started || tp->snd_una != tp->snd_nxt)
		return;
	/* If the control was chosen while the socket connected, packets had another size, and the
	 * kernel has set its own first window since.
	 */
	if (!flow->last_ack) {
		tg_begin(sk, p, flow);
		return;
	}
	/* The retransmission timeout is what Swift allows; the kernel computes it like this. */
	rto = ((__u64)(tp->srtt_us >> 3) + tp->rttvar_us) * 1000;
	if (tg_sub(bpf_ktime_get_ns(), flow->last_ack) > tg_max(p->restart_after, rto)) {
		tg_start(p, &flow->law, flow->packet);
		flow->min_rtt = TG_MAX;
		tg_apply(sk, p, flow);
		TG_COUNT(restarts);
	}
}

/* The connection chose another control: it only answers its peer. */
SEC("struct_ops")
void BPF_PROG(tg_release, struct sock *sk)
{
	struct tg_flow *flow = bpf_sk_storage_get(&flows, sk, 0, 0);

	if (!flow)
		return;
	tg_count_lost((struct tcp_sock *)sk, flow);
	/* The next control paces if it wants to. */
	if (flow->paced && sk->sk_pacing_status == SK_PACING_NEEDED &&
	    sk->sk_max_pacing_rate == ~0UL)
		sk->sk_pacing_status = SK_PACING_NONE;
	flow->started = 0;
}

SEC("struct_ops")
__u32 BPF_PROG(tg_ssthresh, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_ssthresh;
}

/* The laws do not undo decreases. */
SEC("struct_ops")
__u32 BPF_PROG(tg_undo_cwnd, struct sock *sk)
{
	return ((struct tcp_sock *)sk)->snd_cwnd;
}

/* TCP_CONG_NON_RESTRICTED: any user may choose it. */
#define TG_CONTROL                                                                              \
	SEC(".struct_ops.link")                                                                 \
	struct tcp_congestion_ops control = {                                                   \
		.init = (void *)tg_init,                                                        \
		.release = (void *)tg_release,                                                  \
		.cong_control = (void *)tg_cong_control,                                        \
		.set_state = (void *)tg_set_state,                                              \
		.cwnd_event = (void *)tg_cwnd_event,                                            \
		.ssthresh = (void *)tg_ssthresh,                                                \
		.undo_cwnd = (void *)tg_undo_cwnd,                                              \
		.name = TG_NAME,                                                                \
		.flags = 1,                                                                     \
	}

#endif
