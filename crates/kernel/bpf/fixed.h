/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Integer fixed point for the laws: no floats, no division by zero, no overflow (results saturate),
 * and no 128-bit integers, which BPF lacks. "Qn" is a number in units of 2^-n.
 *
 * Error bounds, which tests verify:
 *   tg_mul_shift  half a unit of the result
 *   tg_div_shift  2^-30 of the result, and one unit
 *   tg_log2       3e-6 (absolute)
 *   tg_exp2       2e-6 (relative), and one unit
 */
#ifndef TG_FIXED_H
#define TG_FIXED_H

#ifdef __bpf__
#include "kernel.h"
#else
#include <linux/types.h>
#endif

#include "tables.h"

#define TG_INLINE static inline __attribute__((always_inline))
/* The verifier checks a global function once, not once per call. */
#ifdef __bpf__
#define TG_GLOBAL __attribute__((noinline))
#else
#define TG_GLOBAL static inline
#endif
#define TG_MAX (~0ULL)
/* One, in Q30. */
#define TG_ONE (1ULL << 30)

TG_INLINE __u64 tg_min(__u64 a, __u64 b)
{
	return a < b ? a : b;
}

TG_INLINE __u64 tg_max(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

TG_INLINE __u64 tg_clamp(__u64 x, __u64 low, __u64 high)
{
	return tg_min(tg_max(x, low), tg_max(low, high));
}

TG_INLINE __u64 tg_add(__u64 a, __u64 b)
{
	return a > TG_MAX - b ? TG_MAX : a + b;
}

/* a - b, or 0. */
TG_INLINE __u64 tg_sub(__u64 a, __u64 b)
{
	return a > b ? a - b : 0;
}

/* Whether a sequence number follows another one; they wrap. */
TG_INLINE int tg_is_later(__u32 sequence, __u32 other)
{
	return (__s32)(sequence - other) > 0;
}

TG_GLOBAL __u64 tg_shift_left(__u64 x, __u32 by)
{
	if (!x)
		return 0;
	return by > 63 || x > TG_MAX >> by ? TG_MAX : x << by;
}

/* Number of leading zero bits; 63 for 0. */
TG_GLOBAL __u32 tg_leading_zeros(__u64 x)
{
	__u32 zeros = 0;

	if (!(x >> 32)) { zeros += 32; x <<= 32; }
	if (!(x >> 48)) { zeros += 16; x <<= 16; }
	if (!(x >> 56)) { zeros += 8; x <<= 8; }
	if (!(x >> 60)) { zeros += 4; x <<= 4; }
	if (!(x >> 62)) { zeros += 2; x <<= 2; }
	if (!(x >> 63))
		zeros += 1;
	return zeros & 63;
}

/* a * b / 2^by, to the nearest; by is 0 to 63. */
TG_GLOBAL __u64 tg_mul_shift(__u64 a, __u64 b, __u32 by)
{
	__u64 a0 = a & 0xffffffff, a1 = a >> 32, b0 = b & 0xffffffff, b1 = b >> 32;
	__u64 low = a0 * b0, middle = a1 * b0 + (low >> 32), high, half;

	/* middle is at most (2^32 - 1)^2 + 2^32 - 1: it cannot overflow. */
	high = a1 * b1 + (middle >> 32);
	middle = (middle & 0xffffffff) + a0 * b1;
	high += middle >> 32;
	low = (middle << 32) | (low & 0xffffffff);
	by &= 63;
	if (!by)
		return high ? TG_MAX : low;
	half = 1ULL << (by - 1);
	if (low > TG_MAX - half)
		high += 1;
	low += half;
	return high >> by ? TG_MAX : high << (64 - by) | low >> by;
}

/* a * 2^by / b; saturates if b is 0. by is at most 64. */
TG_GLOBAL __u64 tg_div_shift(__u64 a, __u64 b, __u32 by)
{
	__u32 up = tg_leading_zeros(a), zeros = tg_leading_zeros(b), down = 0, shift;
	__u64 quotient;

	if (!a)
		return 0;
	if (!b)
		return TG_MAX;
	/* A divisor of at most 32 bits leaves a quotient of at least 31. */
	if (zeros < 32)
		down = 32 - zeros;
	quotient = (a << up) / (b >> down);
	shift = up + down;
	if (by >= shift)
		return tg_shift_left(quotient, by - shift);
	shift -= by;
	return shift > 63 ? 0 : quotient >> shift;
}

/* Binary logarithm in Q31; 0 for 0. */
TG_GLOBAL __u64 tg_log2(__u64 x)
{
	__u32 zeros = tg_leading_zeros(x), at;
	__u64 low, high, rest;

	if (!x)
		return 0;
	x <<= zeros;
	at = (x >> 55) & 0xff;
	rest = (x >> 23) & 0xffffffff;
	low = tg_log2_table[at];
	high = tg_log2_table[at + 1];
	return ((__u64)(63 - zeros) << 31) + low + ((high - low) * rest >> 32);
}

/* 2^x in Q30, for x in Q31. */
TG_GLOBAL __u64 tg_exp2(__s64 x)
{
	/* Unsigned, because the sum of a large number overflows. */
	__u64 biased = (__u64)x + (64ULL << 31), low, high, value;
	__u32 at, up;

	if (x >= 33LL << 31)
		return TG_MAX;
	if (x < -(31LL << 31))
		return 0;
	at = (biased >> 23) & 0xff;
	low = tg_exp2_table[at];
	high = tg_exp2_table[at + 1];
	value = low + ((high - low) * (biased & 0x7fffff) >> 23);
	up = (biased >> 31) & 127;
	return up >= 64 ? value << ((up - 64) & 63) : value >> ((64 - up) & 63);
}

#endif
