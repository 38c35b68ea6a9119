// SPDX-License-Identifier: GPL-2.0-only
/*
 * Telemetry of a queue of a Linux box: that of one end of a veth pair inside the box. At this end
 * `leave` notes the time in the packet's metadata before it joins the queue. At the other end
 * `arrive` computes the delay, which includes serialisation, and writes it into the TCP option of
 * telemetry, with the checksum.
 */
#include "packet.h"
#include "ring.h"

char LICENSE[] SEC("license") = "GPL";

struct tg_port {
	__u64 rate;		/* bit/s of the queue; 0: no records */
	__u64 rate_word;	/* its 12 bits in a record */
	__u64 netns_inode;	/* the programs do not read the identity of the interfaces */
	char interface[16];
	char peer[16];
	char netns[64];
};

struct tg_port_counters {
	__u64 marked;		/* packets that left */
	__u64 packets;		/* that arrived with a time */
	__u64 bytes;
	__u64 delay;		/* sum, ns */
	__u64 max_delay;
	__u64 stamped;		/* options */
	__u64 full;		/* packets without a free record */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_port);
} port SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_port_counters);
} counters SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_queue);
} queue SEC(".maps");

static const __u32 tg_zero;

/* Fills the first free record. */
TG_INLINE int tg_record(struct __sk_buff *skb, __u32 tcp, const struct tg_found *option,
			const struct tg_port *config, struct tg_port_counters *count,
			__u64 tx, __u64 behind)
{
	__u64 word = config->rate_word << 52 | (bpf_ktime_get_ns() >> 6 & 0xfffff) << 32 |
		     (tx >> 6 & 0xffff) << 16 | tg_min(behind >> 7, 0x7fff);
	__u16 old[4], new[4];
	int i, k;

	for (i = 0; i < TG_RECORDS; i++) {
		__u32 at = option->at + TG_RECORDS_BYTES(i);

		if (TG_RECORDS_BYTES(i + 1) > option->length ||
		    bpf_skb_load_bytes(skb, at, old, sizeof(old)))
			break;
		if (old[0] | old[1] | old[2] | old[3])
			continue;
		for (k = 0; k < 4; k++) {
			new[k] = bpf_htons(word >> (48 - 16 * k) & 0xffff);
			tg_replace(skb, tcp, at + 2 * k, 0, new[k]);
		}
		return 1;
	}
	__sync_fetch_and_add(&count->full, 1);
	if (i) {
		__u32 at = option->at + TG_RECORDS_BYTES(i) - 2;

		if (!bpf_skb_load_bytes(skb, at, old, 2))
			tg_replace(skb, tcp, at, old[0], old[0] | bpf_htons(TG_MORE));
	}
	return 0;
}

/* Returns whether the packet has an option and was stamped. */
TG_INLINE int tg_stamp(struct __sk_buff *skb, const struct tg_port *config,
		       struct tg_port_counters *count, __u64 tx, __u64 delay, __u64 behind)
{
	__u32 tcp = tg_tcp(skb);
	struct tg_found option = {};
	int done;

	if (tcp)
		option = tg_find(skb, tcp, 0);
	if (!option.at)
		return 0;
	if (option.exid == TG_EXID_DELAY)
		done = tg_raise(skb, tcp, &option, delay);
	else
		done = config->rate && tg_record(skb, tcp, &option, config, count, tx, behind);
	if (done)
		__sync_fetch_and_add(&count->stamped, 1);
	return done;
}

/* Bytes of the packet on the wire: with offloads, each segment of TCP or UDP has the headers. */
TG_INLINE __u32 tg_wire_bytes(struct __sk_buff *skb)
{
	__u32 segments = skb->gso_segs, headers;
	__u8 words;

	if (segments < 2)
		return skb->len;
	headers = tg_header(skb, IPPROTO_TCP);
	if (headers) {
		if (bpf_skb_load_bytes(skb, headers + 12, &words, 1))
			return skb->len;
		headers += (words >> 4) * 4;
	} else {
		headers = tg_header(skb, IPPROTO_UDP);
		if (!headers)
			return skb->len;
		headers += sizeof(struct udphdr);
	}
	return skb->len + (segments - 1) * headers;
}

SEC("tc")
int leave(struct __sk_buff *skb)
{
	struct tg_port_counters *count = bpf_map_lookup_elem(&counters, &tg_zero);
	struct tg_queue *to = bpf_map_lookup_elem(&queue, &tg_zero);
	__u64 now = bpf_ktime_get_ns();

	if (!count || !to || bpf_skb_set_tstamp(skb, now, BPF_SKB_TSTAMP_DELIVERY_MONO))
		return TC_ACT_UNSPEC;
	__sync_fetch_and_add(&count->marked, 1);
	tg_join(to, now, tg_wire_bytes(skb));
	return TC_ACT_UNSPEC;
}

SEC("tc")
int arrive(struct __sk_buff *skb)
{
	struct tg_port_counters *count = bpf_map_lookup_elem(&counters, &tg_zero);
	struct tg_port *config = bpf_map_lookup_elem(&port, &tg_zero);
	struct tg_queue *from = bpf_map_lookup_elem(&queue, &tg_zero);
	__u64 delay, tx, behind, bytes;

	if (!count || !config || !from || skb->tstamp_type != BPF_SKB_TSTAMP_DELIVERY_MONO)
		return TC_ACT_UNSPEC;
	delay = tg_sub(bpf_ktime_get_ns(), skb->tstamp);
	bytes = tg_wire_bytes(skb);
	behind = tg_behind(from, skb->tstamp, bytes);
	tx = __sync_fetch_and_add(&count->bytes, bytes);
	__sync_fetch_and_add(&count->packets, 1);
	__sync_fetch_and_add(&count->delay, delay);
	if (delay > count->max_delay)
		count->max_delay = delay;
	tg_stamp(skb, config, count, tx, delay, behind);
	return TC_ACT_UNSPEC;
}

#ifdef TG_TESTING
/*
 * For tests, which cannot set a packet's time: its mark is the delay, its priority the queue, and
 * the bytes sent are its own.
 */
SEC("tc")
int probe(struct __sk_buff *skb)
{
	struct tg_port_counters *count = bpf_map_lookup_elem(&counters, &tg_zero);
	struct tg_port *config = bpf_map_lookup_elem(&port, &tg_zero);
	__u64 bytes = tg_wire_bytes(skb);

	if (!count || !config)
		return TC_ACT_SHOT;
	count->bytes += bytes;
	return tg_stamp(skb, config, count, bytes, skb->mark, skb->priority);
}
#endif
