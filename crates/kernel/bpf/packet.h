/* SPDX-License-Identifier: GPL-2.0-only */
/* Options of telemetry in packets: finding and replacing them, with the checksum. */
#ifndef TG_PACKET_H
#define TG_PACKET_H

#include "option.h"

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

/* Bytes of options, and options (with padding) that are searched. */
#define TG_OPTIONS 40
#define TG_STEPS 16

/* Replaces 16 bits at `at`, in the TCP header that begins at `tcp`. */
TG_INLINE void tg_replace(struct __sk_buff *skb, __u32 tcp, __u32 at, __u16 from, __u16 to)
{
	__u32 check = tcp + __builtin_offsetof(struct tcphdr, check);

	/* A word at an odd offset counts in the checksum with its bytes swapped. */
	if ((at - tcp) & 1)
		bpf_l4_csum_replace(skb, check, __builtin_bswap16(from), __builtin_bswap16(to), 2);
	else
		bpf_l4_csum_replace(skb, check, from, to, 2);
	bpf_skb_store_bytes(skb, at, &to, sizeof(to), 0);
}

/* Offset of the header of a transport; 0 for other packets and for later fragments. */
TG_INLINE __u32 tg_header(struct __sk_buff *skb, __u8 transport)
{
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr ip;

		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
		    ip.protocol != transport || ip.ihl < 5 || (ip.frag_off & bpf_htons(0x1fff)))
			return 0;
		return ETH_HLEN + ip.ihl * 4;
	}
	if (skb->protocol == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr ip;

		if (bpf_skb_load_bytes(skb, ETH_HLEN, &ip, sizeof(ip)) ||
		    ip.nexthdr != transport)
			return 0;
		return ETH_HLEN + sizeof(ip);
	}
	return 0;
}

TG_INLINE __u32 tg_tcp(struct __sk_buff *skb)
{
	return tg_header(skb, IPPROTO_TCP);
}

/* Fields of an option that was found. */
struct tg_found {
	__u32 at;	/* its offset in the packet; 0 if there is none */
	__u32 length;
	__u16 exid;
};

/* Finds the option that switches write; with `echo`, also the one that returns records. */
TG_INLINE struct tg_found tg_find(struct __sk_buff *skb, __u32 tcp, int echo)
{
	__u8 options[64] = {}, words;
	struct tg_found found = {};
	__u32 bytes, i = 0, step;

	if (bpf_skb_load_bytes(skb, tcp + 12, &words, 1))
		return found;
	bytes = (words >> 4) * 4 - 20;
	if (bytes < 1 || bytes > TG_OPTIONS ||
	    bpf_skb_load_bytes(skb, tcp + 20, options, bytes))
		return found;
	for (step = 0; step < TG_STEPS && i < bytes; step++) {
		__u8 kind = options[i & 63], length;

		if (kind == 0)
			break;
		if (kind == 1) {
			i++;
			continue;
		}
		length = options[(i + 1) & 63];
		if (length < 2 || i + length > bytes)
			break;
		if (kind == TG_KIND && length >= 4) {
			__u16 exid = options[(i + 2) & 63] << 8 | options[(i + 3) & 63];

			if (exid == TG_EXID_DELAY || exid == TG_EXID_FORWARD ||
			    (echo && exid == TG_EXID_ECHO)) {
				found.at = tcp + 20 + i;
				found.length = length;
				found.exid = exid;
				break;
			}
		}
		i += length;
	}
	return found;
}

/* Raises the delay. */
TG_INLINE int tg_raise(struct __sk_buff *skb, __u32 tcp, const struct tg_found *option,
		       __u64 delay)
{
	__u32 at = option->at + __builtin_offsetof(struct tg_option_delay, forward);
	__u16 code = tg_max(tg_delay_code(delay), 1), before;

	if (option->length != sizeof(struct tg_option_delay) ||
	    bpf_skb_load_bytes(skb, at, &before, sizeof(before)))
		return 0;
	if (code > bpf_ntohs(before))
		tg_replace(skb, tcp, at, before, bpf_htons(code));
	return 1;
}

#endif
