/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * TCP options of telemetry, in network byte order. Kind 253 (RFC 4727) with an experiment's
 * identifier (RFC 6994). A receiver without them ignores them.
 *
 * Delay, 8 bytes: the largest queueing delay of a hop as a code of delay.h, written by switches on
 * the forward path, and the one that the receiver returns. 0: no switch has stamped; a switch
 * writes at least 1.
 *
 * Records, 4 + 8 n bytes: one word per hop, 0 if it is free, with the fields below. Data packets
 * carry free words, which switches fill in order; acknowledgements return those that were filled.
 *
 *   12 bits  rate: 5 bits of exponent e, 7 of mantissa m: (128 + m) * 2^e / 128 kbit/s
 *   20 bits  time in units of 64 ns
 *   16 bits  bytes sent in units of 64 B
 *    1 bit   a later hop found no free word
 *   15 bits  queue in units of 128 B, saturating
 */
#ifndef TG_OPTION_H
#define TG_OPTION_H

#include "delay.h"
#include <bpf/bpf_endian.h>

#define TG_KIND 253
#define TG_EXID_DELAY 0x7464
#define TG_EXID_FORWARD 0x7466
#define TG_EXID_ECHO 0x7465
#define TG_RECORDS 3
#define TG_MORE 0x8000

struct tg_option_delay {
	__u8 kind, length;
	__u16 exid;
	__u16 forward;
	__u16 echo;
} __attribute__((packed));

struct tg_option_records {
	__u8 kind, length;
	__u16 exid;
	__u64 record[TG_RECORDS];
} __attribute__((packed));

#define TG_RECORDS_BYTES(n) (4 + 8 * (n))

#endif
