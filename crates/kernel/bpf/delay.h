/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Delays in 16 bits. Units are 256 ns; a code has 3 bits of a shift s and 13 of the lowest bits of
 * the delay shifted right by it:
 *
 *   delay = (code - s * 2^13) * 2^s,  s = max(code / 2^13 - 1, 0)
 *
 * Delays up to 4.19 ms are their number of units. Longer ones are rounded down by at most 2^-13,
 * and the largest code is 268 ms. A longer delay has a larger code or the same.
 */
#ifndef TG_DELAY_H
#define TG_DELAY_H

#include "fixed.h"

#define TG_DELAY_BITS 13
#define TG_DELAY_SHIFTS 6

TG_INLINE __u64 tg_delay_code(__u64 ns)
{
	__u64 units = ns >> 8, step = 1ULL << (TG_DELAY_BITS + 1);
	__u32 shift = 0;
	int i;

	for (i = 0; i < TG_DELAY_SHIFTS; i++)
		shift += units >> i >= step;
	return tg_min((units >> shift) + ((__u64)shift << TG_DELAY_BITS), 0xffff);
}

TG_INLINE __u64 tg_delay_ns(__u64 code)
{
	__u32 shift = tg_sub(code >> TG_DELAY_BITS, 1) & 7;

	return (code - ((__u64)shift << TG_DELAY_BITS)) << shift << 8;
}

#endif
