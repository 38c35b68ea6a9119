// SPDX-License-Identifier: GPL-2.0-only
/* The laws as a library for tests. */
#include "step.h"

void tg_native_step(struct tg_step *step)
{
	tg_step(step);
}

unsigned long tg_native_size(void)
{
	return sizeof(struct tg_step);
}

unsigned int tg_native_table(unsigned int which, unsigned int at)
{
	return which ? tg_exp2_table[at] : tg_log2_table[at];
}
