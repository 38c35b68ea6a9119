// SPDX-License-Identifier: GPL-2.0-only
/* The laws as a program that `BPF_PROG_TEST_RUN` runs. */
#include "step.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct tg_step);
} steps SEC(".maps");

SEC("syscall")
int step(void *ctx)
{
	__u32 key = 0;
	struct tg_step *s = bpf_map_lookup_elem(&steps, &key);

	if (!s)
		return 1;
	tg_step(s);
	return 0;
}

char LICENSE[] SEC("license") = "GPL";
