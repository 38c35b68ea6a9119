/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The types of the kernel that the programs use, with the fields that they use. The loader finds
 * the fields in the running kernel by name (CO-RE).
 */
#ifndef TG_KERNEL_H
#define TG_KERNEL_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

typedef _Bool bool;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	volatile unsigned char skc_state;
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	__u32 sk_pacing_status;
};

struct inet_connection_sock_af_ops {
	__u16 net_header_len;
};

struct inet_connection_sock {
	const struct inet_connection_sock_af_ops *icsk_af_ops;
	__u8 icsk_ca_state : 5;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 snd_wnd;
	__u32 lost;
	__u32 undo_marker;
	__u64 tcp_wstamp_ns;
	__u32 mss_cache;
	__u32 srtt_us;
	__u32 rttvar_us;
	__u16 tcp_header_len;
	__u8 is_cwnd_limited : 1;
	__u8 chrono_type : 2;
	__u8 ecn_flags;
};

struct rate_sample {
	long rtt_us;
	__s32 delivered;
	__u32 acked_sacked;
	bool is_app_limited;
};

#pragma clang attribute pop

enum tcp_ca_event {
	CA_EVENT_TX_START = 0,
};

/* States of a connection. */
#define TG_SYN_SENT 2

/* Reason why sending waits (chrono_type): the receiver's window. */
#define TG_CHRONO_RWND_LIMITED 2

/* ECN is negotiated (bit 0), or accurate ECN (bit 4), which Linux 6.18 does not negotiate. */
#define TCP_ECN_OK (1 | 1 << 4)

/* A flag of cong_control: retransmitted packets are acknowledged. */
#define FLAG_RETRANS_DATA_ACKED 8

struct tcp_congestion_ops {
	__u32 (*ssthresh)(struct sock *sk);
	void (*set_state)(struct sock *sk, __u8 state);
	void (*cwnd_event)(struct sock *sk, enum tcp_ca_event event);
	void (*cong_control)(struct sock *sk, __u32 ack, int flag, const struct rate_sample *rs);
	__u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
	__u32 flags;
	void (*init)(struct sock *sk);
	void (*release)(struct sock *sk);
};

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#endif
