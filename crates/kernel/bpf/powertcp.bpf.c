// SPDX-License-Identifier: GPL-2.0-only
/* PowerTCP with hop records. */
#include "powertcp_flow.h"

#include "option.h"

struct tg_law {
	struct tg_powertcp_flow flow;
};

struct tg_telemetry {
	__u64 arrived[TG_RECORDS];	/* records of the latest data packet */
	__u64 echo[TG_RECORDS];		/* records of this acknowledgement */
	__u32 arrivals;			/* how many of each */
	__u32 echoes;
	__u32 until;			/* sequence number behind that packet; 0: none */
	__u32 fits;			/* records that the next option has room for */
	__u8 forward;			/* the next option is for this end's packets */
	__u8 alternate;			/* data packets of both ends alternate between both kinds */
};

struct tg_flow;
TG_INLINE void tg_telemetry_init(struct sock *sk, struct tg_flow *flow);
TG_INLINE void tg_drop_echo(struct tg_telemetry *telemetry);

#define TG_NAME "tg_powertcp"
#define TG_OPTION_BYTES sizeof(struct tg_option_records)
#include "control.h"
#include "telemetry.h"

#define TG_PARAMS(p) ((const struct tg_powertcp_params *)(p)->law)

TG_INLINE void tg_start(const struct tg_params *p, struct tg_law *law, __u64 packet)
{
	tg_powertcp_flow_start(TG_PARAMS(p), &law->flow);
}

TG_INLINE void tg_resize(struct tg_law *law, __u64 packet)
{
}

TG_INLINE void tg_on_ack(const struct tg_params *p, struct tg_flow *flow, struct tg_ack *ack)
{
	__u64 words = 0;
	__u32 i;

	for (i = 0; i < TG_RECORDS; i++) {
		words |= flow->telemetry.echo[i];
		tg_powertcp_record(flow->telemetry.echo[i], &ack->hop[i]);
	}
	ack->hops = words & TG_MORE ? 0 : tg_min(flow->telemetry.echoes, TG_RECORDS);
	tg_drop_echo(&flow->telemetry);
	if (ack->hops)
		TG_COUNT(stamped);
	else
		TG_COUNT(unstamped);
	tg_powertcp_flow_ack(TG_PARAMS(p), &flow->law.flow, ack);
}

TG_INLINE void tg_on_loss(const struct tg_params *p, struct tg_law *law,
			  const struct tg_loss *loss)
{
	tg_powertcp_flow_loss(TG_PARAMS(p), &law->flow, loss);
}

TG_INLINE __u64 tg_window(const struct tg_params *p, const struct tg_law *law, __u64 packet)
{
	return tg_div_shift(tg_powertcp_flow_window(&law->flow), packet, 14);
}

TG_INLINE __u64 tg_pace(const struct tg_params *p, const struct tg_law *law)
{
	return tg_pace_of(tg_powertcp_flow_window(&law->flow), TG_PARAMS(p)->tau);
}

TG_INLINE void tg_reserve(struct bpf_sock_ops *ops, struct tg_flow *flow)
{
	struct tg_telemetry *t = &flow->telemetry;
	__u32 records = TG_RECORDS;
	int data = ops->skb_len > 0, echo = 0;

	/* Without a packet, the kernel computes the largest segment: the largest option counts. */
	if (ops->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS) {
		if (!flow->started && !t->arrivals)
			return;
	} else {
		/* A connection under another control only answers. */
		echo = t->arrivals && (!data || !flow->started || (t->alternate ^= 1));
		t->forward = !echo;
		t->fits = 0;
		if (!echo && (!data || !flow->started))
			return;
		if (echo)
			records = tg_min(t->arrivals, TG_RECORDS);
	}
	/* Some of a path's records would pass for a shorter path: an option has room for all or none. */
	if (bpf_reserve_hdr_opt(ops, TG_RECORDS_BYTES(records), 0)) {
		if (echo)
			TG_COUNT(dropped_records);
		records = 0;
	}
	t->fits = records;
}

TG_INLINE int tg_write(struct bpf_sock_ops *ops, struct tg_flow *flow)
{
	struct tg_telemetry *t = &flow->telemetry;
	struct tg_option_records option = {.kind = TG_KIND};
	__u32 records = t->fits, i;

	if (!records || records > TG_RECORDS)
		return -ENOMSG;
	option.length = TG_RECORDS_BYTES(records);
	option.exid = bpf_htons(t->forward ? TG_EXID_FORWARD : TG_EXID_ECHO);
	if (!t->forward)
		for (i = 0; i < TG_RECORDS; i++)
			option.record[i] = bpf_cpu_to_be64(t->arrived[i]);
	return bpf_store_hdr_opt(ops, &option, TG_RECORDS_BYTES(records), 0);
}

/* Reads the records of an option and returns how many are filled; -1 if it has another length. */
TG_INLINE int tg_read(const struct tg_option_records *option, long length, __u64 *record)
{
	int i, filled = 0;

	if (length < TG_RECORDS_BYTES(1) || length > (long)sizeof(*option) || (length & 7) != 4) {
		TG_COUNT(foreign);
		return -1;
	}
	for (i = 0; i < TG_RECORDS; i++) {
		record[i] = TG_RECORDS_BYTES(i + 1) <= length ?
			    bpf_be64_to_cpu(option->record[i]) : 0;
		if (record[i] && filled == i)
			filled++;
	}
	return filled;
}

/* Searches an option: its filled records, or -1. */
TG_INLINE int tg_search(struct bpf_sock_ops *ops, __u16 exid, __u64 *record)
{
	struct tg_option_records option = {
		.kind = TG_KIND,
		.length = 4,
		.exid = bpf_htons(exid),
	};
	long length = bpf_load_hdr_opt(ops, &option, sizeof(option), 0);

	return length == -ENOMSG ? -1 : tg_read(&option, length, record);
}

/* Copies the option behind the timestamps if it is the last: its length, or 0. */
TG_INLINE long tg_last(struct bpf_sock_ops *ops, struct tg_option_records *option)
{
	const struct tg_option_records *usual = tg_usual(ops, TG_RECORDS_BYTES(1));
	const void *end = ops->skb_data_end;
	int i;

	if (!usual || usual->kind != TG_KIND || (const void *)usual + usual->length > end ||
	    (const void *)usual + usual->length + 1 <= end)
		return 0;
	option->exid = usual->exid;
	for (i = 0; i < TG_RECORDS; i++)
		if ((const void *)usual + TG_RECORDS_BYTES(i + 1) <= end)
			option->record[i] = usual->record[i];
	return usual->length;
}

#define TG_ECHOED 4

TG_INLINE int tg_parse(struct bpf_sock_ops *ops, struct tg_telemetry *seen)
{
	struct tg_option_records option = {};
	long length = tg_last(ops, &option);
	int echoes = -1, arrivals = -1;

	if (length && option.exid == bpf_htons(TG_EXID_ECHO))
		echoes = tg_read(&option, length, seen->echo);
	else if (length && option.exid == bpf_htons(TG_EXID_FORWARD))
		arrivals = tg_read(&option, length, seen->arrived);
	else {
		echoes = tg_search(ops, TG_EXID_ECHO, seen->echo);
		arrivals = tg_search(ops, TG_EXID_FORWARD, seen->arrived);
	}
	seen->echoes = echoes < 0 ? 0 : echoes;
	seen->arrivals = arrivals < 0 ? 0 : arrivals;
	return (echoes < 0 ? 0 : TG_SEEN | TG_ECHOED) | (arrivals < 0 ? 0 : TG_SEEN | TG_REQUESTED);
}

TG_INLINE void tg_keep(struct tg_telemetry *kept, const struct tg_telemetry *seen, int parsed)
{
	int i;

	if (parsed & TG_ECHOED) {
		for (i = 0; i < TG_RECORDS; i++)
			kept->echo[i] = seen->echo[i];
		kept->echoes = seen->echoes;
	}
	if (parsed & TG_REQUESTED) {
		for (i = 0; i < TG_RECORDS; i++)
			kept->arrived[i] = seen->arrived[i];
		kept->arrivals = seen->arrivals;
	}
}

TG_INLINE void tg_drop_echo(struct tg_telemetry *telemetry)
{
	telemetry->echoes = 0;
}

TG_INLINE void tg_forget(struct tg_telemetry *kept)
{
	kept->arrivals = 0;
}

TG_CONTROL;
