// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults of the path of one connection, for tests: `forward` receives its data packets, `backward`
 * their acknowledgements. Faults depend on counts and not on time. `samples` is a program beside
 * the telemetry: it counts the RTT samples of all connections that were established after it.
 */
#include "packet.h"

char LICENSE[] SEC("license") = "GPL";

enum {
	TG_PASS,
	TG_STAMP,	/* a switch writes into the option */
	TG_STRIP,	/* the option becomes padding */
	TG_CORRUPT,	/* each option in one of four ways */
	TG_LIE,		/* the receiver reports a path without queues */
};

struct tg_fault {
	__u64 forward;	/* what happens to options */
	__u64 backward;
	__u64 delay;	/* of stamps, ns */
	__u64 loss;	/* share of data packets that are dropped, Q32 */
	__u64 pipe;	/* bytes that the path holds: later data is dropped; 0: no limit */
	__u64 hops;	/* number of those that write records; 0 as 1 */
};

struct tg_seen {
	__u64 packets;	/* data packets, of several segments with offloads */
	__u64 bytes;	/* payload */
	__u64 dropped;	/* data packets */
	__u64 changed;	/* options */
	__u64 largest;	/* bytes of a packet */
	__u64 sent;	/* sequence number behind the data */
	__u64 acked;
	__u64 shortest;	/* bytes of the shortest option that returns records; 0: none has passed */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_fault);
} fault SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_seen);
} seen SEC(".maps");

static const __u32 tg_zero;

#define TG_RANDOM 0x10000

/* Replaces the words up to `end` by `word`. Global functions are verified once, not per call. */
__noinline int tg_overwrite(struct __sk_buff *skb, __u32 tcp, __u32 at, __u32 end, __u32 word)
{
	int i;

	for (i = 0; i < TG_OPTIONS / 2 && at < end; i++, at += 2) {
		__u32 random = bpf_get_prandom_u32();
		__u16 before, after = word;

		/* Half of the words cannot report omitted records, which would not be read. */
		if (word == TG_RANDOM)
			after = random & (random >> 16 & 1 ? ~bpf_htons(TG_MORE) : ~0);
		if (bpf_skb_load_bytes(skb, at, &before, sizeof(before)))
			break;
		tg_replace(skb, tcp, at, before, after);
	}
	return 0;
}

/* The option: offset, length and identifier, 16 bits each from the lowest; 0 without one. */
__noinline __u64 tg_locate(struct __sk_buff *skb, __u32 tcp)
{
	struct tg_found option = tg_find(skb, tcp, 1);

	return option.at | (__u64)option.length << 16 | (__u64)option.exid << 32;
}

/* SplitMix64: a random number from a count. */
TG_INLINE __u64 tg_random(__u64 count)
{
	__u64 z = count * 0x9e3779b97f4a7c15ULL;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

/* The record of a port of 200 Mbit/s without a queue. */
TG_INLINE __u64 tg_empty(__u64 tx)
{
	return (17ULL << 7 | 67) << 52 | (bpf_ktime_get_ns() >> 6 & 0xfffff) << 32 |
	       (tx >> 6 & 0xffff) << 16;
}

/* Replaces the records that return by one of a port that sends nothing. */
TG_INLINE void tg_lie(struct __sk_buff *skb, __u32 tcp, const struct tg_found *option)
{
	__u64 word = tg_empty(0);
	__u32 i;

	if (option->exid == TG_EXID_DELAY)
		tg_overwrite(skb, tcp, option->at + 6, option->at + 8, bpf_htons(1));
	else if (option->exid == TG_EXID_ECHO)
		for (i = 0; i < 4; i++)
			tg_overwrite(skb, tcp, option->at + TG_RECORDS_BYTES(0) + 2 * i,
				     option->at + TG_RECORDS_BYTES(0) + 2 * i + 2,
				     bpf_htons(word >> (48 - 16 * i) & 0xffff));
}

/* Fills free records. The last reports hops without a record. */
TG_INLINE void tg_fill(struct __sk_buff *skb, __u32 tcp, const struct tg_found *option, __u64 hops,
		       __u64 tx)
{
	__u64 word = tg_empty(tx);
	__u32 records = tg_min(option->length / 8, TG_RECORDS), i;
	__u64 before;
	int k;

	if (bpf_skb_load_bytes(skb, option->at + TG_RECORDS_BYTES(0), &before, 8) || before)
		return;
	for (i = 0; i < TG_RECORDS && i < records && i < tg_max(hops, 1); i++) {
		if (i + 1 == records && hops > records)
			word |= TG_MORE;
		for (k = 0; k < 4; k++)
			tg_replace(skb, tcp, option->at + TG_RECORDS_BYTES(i) + 2 * k, 0,
				   bpf_htons(word >> (48 - 16 * k) & 0xffff));
	}
}

TG_INLINE void tg_change(struct __sk_buff *skb, __u32 tcp, __u64 how, const struct tg_fault *set,
			 struct tg_seen *count)
{
	__u64 place = how == TG_PASS ? 0 : tg_locate(skb, tcp);
	struct tg_found option = {place & 0xffff, place >> 16 & 0xffff, place >> 32};
	__u32 end = option.at + option.length;

	if (!option.at)
		return;
	count->changed++;
	if (how == TG_STRIP) {
		tg_overwrite(skb, tcp, option.at, end, 0x0101);
		return;
	}
	if (how == TG_LIE) {
		tg_lie(skb, tcp, &option);
		return;
	}
	if (how == TG_STAMP) {
		if (option.exid == TG_EXID_DELAY)
			tg_raise(skb, tcp, &option, set->delay);
		else if (option.exid == TG_EXID_FORWARD)
			tg_fill(skb, tcp, &option, set->hops, count->bytes);
		return;
	}
	switch (tg_random(count->changed) & 3) {
	case 0:
		/* Another length, and padding behind it. */
		tg_overwrite(skb, tcp, option.at + 4, end, 0x0101);
		tg_overwrite(skb, tcp, option.at, option.at + 2, bpf_htons(TG_KIND << 8 | 6));
		break;
	case 1:
		/* A length beyond the header. */
		tg_overwrite(skb, tcp, option.at, option.at + 2, bpf_htons(TG_KIND << 8 | 60));
		break;
	case 2:
		/* Another experiment's identifier. */
		tg_overwrite(skb, tcp, option.at + 2, option.at + 4, 0);
		break;
	default:
		/* Values that no switch and no receiver has written. */
		tg_overwrite(skb, tcp, option.at + 4, end, TG_RANDOM);
	}
}

SEC("tc")
int forward(struct __sk_buff *skb)
{
	struct tg_fault *set = bpf_map_lookup_elem(&fault, &tg_zero);
	struct tg_seen *count = bpf_map_lookup_elem(&seen, &tg_zero);
	__u32 tcp = tg_tcp(skb), end, bytes;
	struct tcphdr header;

	if (!set || !count || !tcp || bpf_skb_load_bytes(skb, tcp, &header, sizeof(header)))
		return TC_ACT_UNSPEC;
	end = bpf_ntohl(header.seq);
	if (header.syn)
		count->sent = count->acked = end + 1;
	bytes = skb->len - tcp - header.doff * 4;
	if (bytes) {
		end += bytes;
		count->packets++;
		count->bytes += bytes;
		count->largest = tg_max(count->largest, skb->len);
		if ((__s32)(end - (__u32)count->sent) > 0)
			count->sent = end;
		if (tg_random(count->packets) >> 32 < set->loss ||
		    (set->pipe && (__s32)(end - (__u32)count->acked) > (__s64)set->pipe)) {
			count->dropped++;
			return TC_ACT_SHOT;
		}
	}
	tg_change(skb, tcp, set->forward, set, count);
	return TC_ACT_UNSPEC;
}

SEC("tc")
int backward(struct __sk_buff *skb)
{
	struct tg_fault *set = bpf_map_lookup_elem(&fault, &tg_zero);
	struct tg_seen *count = bpf_map_lookup_elem(&seen, &tg_zero);
	struct tcphdr header;
	__u32 tcp = tg_tcp(skb), ack, length;
	__u64 place;

	if (!set || !count || !tcp || bpf_skb_load_bytes(skb, tcp, &header, sizeof(header)))
		return TC_ACT_UNSPEC;
	ack = bpf_ntohl(header.ack_seq);
	if (header.ack && (__s32)(ack - (__u32)count->acked) > 0)
		count->acked = ack;
	place = tg_locate(skb, tcp);
	length = place >> 16 & 0xffff;
	if (place >> 32 == TG_EXID_ECHO && (!count->shortest || length < count->shortest))
		count->shortest = length;
	tg_change(skb, tcp, set->backward, set, count);
	return TC_ACT_UNSPEC;
}

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} rtts SEC(".maps");

/* The state of pacing of the client that had the last sample. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} pacing SEC(".maps");

SEC("sockops")
int samples(struct bpf_sock_ops *ops)
{
	__u64 *count = bpf_map_lookup_elem(&rtts, &tg_zero);
	__u64 *status = bpf_map_lookup_elem(&pacing, &tg_zero);
	struct bpf_sock *sk = ops->sk;
	struct sock *full;

	switch (ops->op) {
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags |
					       BPF_SOCK_OPS_RTT_CB_FLAG);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		if (count)
			__sync_fetch_and_add(count, 1);
		/* Of the client, 10.78.0.1. */
		if (!sk || !status || bpf_ntohl(ops->local_ip4) != 0x0a4e0001)
			break;
		full = (struct sock *)bpf_skc_to_tcp_sock(sk);
		if (full)
			*status = full->sk_pacing_status;
		break;
	}
	return 1;
}
