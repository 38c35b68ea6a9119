/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TCP options of telemetry by sock_ops. A file that includes this defines tg_reserve, tg_write,
 * tg_parse, tg_keep and tg_forget. A connection under the control sends the option; its peer
 * answers if it has received one, whatever its own control is. An option that is missing, of
 * another length or without room is normal.
 */
#ifndef TG_TELEMETRY_H
#define TG_TELEMETRY_H

#define ENOMSG 42
#define TG_SENDS (BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG | BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG)
/* Two times no operation, then the kind and the length of the timestamps. */
#define TG_TIMESTAMPS 0x0101080a
/* TCP_BPF_SOCK_OPS_CB_FLAGS, since Linux 6.13. */
#define TG_CB_FLAGS 1008

TG_INLINE void tg_reserve(struct bpf_sock_ops *ops, struct tg_flow *flow);
TG_INLINE int tg_write(struct bpf_sock_ops *ops, struct tg_flow *flow);
/* Reads options of an arriving packet: TG_SEEN and perhaps TG_REQUESTED; 0 if it has none. */
TG_INLINE int tg_parse(struct bpf_sock_ops *ops, struct tg_telemetry *seen);
/* Keeps what was read. */
TG_INLINE void tg_keep(struct tg_telemetry *kept, const struct tg_telemetry *seen, int parsed);

/* Drops telemetry that this end would return to its peer. */
TG_INLINE void tg_forget(struct tg_telemetry *kept);

#define TG_SEEN 1
/* The peer sends options, so this end returns them. */
#define TG_REQUESTED 2

/*
 * The option at its usual place, which is behind the timestamps; 0 if the packet has other options
 * there. The search of bpf_load_hdr_opt costs several times as much.
 */
TG_INLINE const void *tg_usual(struct bpf_sock_ops *ops, __u32 bytes)
{
	const __be32 *word = ops->skb_data;

	if ((const void *)word + 32 + bytes > ops->skb_data_end ||
	    word[5] != bpf_htonl(TG_TIMESTAMPS))
		return 0;
	return word + 8;
}

/* A connection that chose the control after it was established sends options, too. */
TG_INLINE void tg_telemetry_init(struct sock *sk, struct tg_flow *flow)
{
	int flags = 0;

	/* Other programs may have set flags of their own. */
	bpf_getsockopt(sk, SOL_TCP, TG_CB_FLAGS, &flags, sizeof(flags));
	flags |= TG_SENDS;
	bpf_setsockopt(sk, SOL_TCP, TG_CB_FLAGS, &flags, sizeof(flags));
}

TG_INLINE int tg_is_own(struct bpf_sock_ops *ops)
{
	char name[TG_NAME_BYTES] = {};
	const char own[TG_NAME_BYTES] = TG_NAME;
	int i;

	if (bpf_getsockopt(ops, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
		return 0;
	for (i = 0; i < TG_NAME_BYTES; i++)
		if (name[i] != own[i])
			return 0;
	return 1;
}

/* Notes the sequence number behind the packet. Its length includes the header: 60 bytes at most. */
TG_INLINE void tg_note(struct bpf_sock_ops *ops, struct tg_telemetry *t)
{
	__be32 *word = ops->skb_data;
	__u32 end;

	if ((void *)(word + 2) > ops->skb_data_end)
		return;
	end = bpf_ntohl(word[1]) + ops->skb_len;
	if (!t->until || tg_is_later(end, t->until))
		t->until = end;
}

/*
 * Drops telemetry if later data came without the option: a sender must not act on the last delay of
 * a path that no longer stamps.
 */
TG_INLINE void tg_forget_old(struct bpf_sock_ops *ops, struct tg_telemetry *t)
{
	if (t->until && tg_is_later(ops->rcv_nxt, t->until)) {
		tg_forget(t);
		t->until = 0;
	}
}

SEC("sockops")
int telemetry(struct bpf_sock_ops *ops)
{
	struct bpf_sock *sk = ops->sk;
	struct tg_flow *flow;
	struct tg_telemetry seen = {};
	int flags = ops->bpf_sock_ops_cb_flags, parsed;

	if (!sk)
		return 1;
	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		flags |= BPF_SOCK_OPS_PARSE_UNKNOWN_HDR_OPT_CB_FLAG;
		/* A socket that was disconnected has another peer now. */
		flow = bpf_sk_storage_get(&flows, sk, 0, 0);
		if (flow) {
			tg_forget(&flow->telemetry);
			flow->telemetry.until = 0;
		}
		if (tg_is_own(ops) && bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE))
			flags |= TG_SENDS;
		bpf_sock_ops_cb_flags_set(ops, flags);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		flow = bpf_sk_storage_get(&flows, sk, 0, 0);
		if (!flow)
			break;
		tg_forget_old(ops, &flow->telemetry);
		tg_reserve(ops, flow);
		break;
	case BPF_SOCK_OPS_WRITE_HDR_OPT_CB:
		flow = bpf_sk_storage_get(&flows, sk, 0, 0);
		if (flow && !tg_write(ops, flow))
			TG_COUNT(sent_options);
		break;
	case BPF_SOCK_OPS_PARSE_HDR_OPT_CB:
		parsed = tg_parse(ops, &seen);
		if (!parsed)
			break;
		flow = bpf_sk_storage_get(&flows, sk, 0, BPF_SK_STORAGE_GET_F_CREATE);
		if (!flow)
			break;
		tg_keep(&flow->telemetry, &seen, parsed);
		/* Data of both directions may carry either option in turn. */
		tg_note(ops, &flow->telemetry);
		if ((parsed & TG_REQUESTED) && (flags & TG_SENDS) != TG_SENDS)
			bpf_sock_ops_cb_flags_set(ops, flags | TG_SENDS);
		break;
	}
	return 1;
}

#endif
