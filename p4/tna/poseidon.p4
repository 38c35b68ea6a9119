/*
 * Poseidon's switch for TNA. The compiler's front end accepts it; it was not compiled for a Tofino,
 * and has not run.
 *
 * It differs from v1model: the clock is in ns, so that codes are slices of bits; a maximum is one
 * operation; the parser and the deparser update the checksum.
 *
 * The delay is the time from the arrival at the ingress to that at the egress, because Tofino's
 * deq_timedelta has 18 bits and wraps at 262 us. It includes the constant time of the ingress
 * pipeline. Codes are exact up to 4.19 ms and saturate at 268 ms; the clocks have 48 bits, whose
 * difference wraps after 78 hours.
 */
#include <core.p4>
#include <tna.p4>
#include "../headers.p4"
#include "forwarding.p4"

struct headers_t { base_t base; delay_t delay; }

/* `rest`: the checksum without itself and without the forward delay. */
struct metadata_t { arrival_t arrival; bit<16> rest; }

control TimedIngressBlock(inout ingress_headers_t h, inout ingress_metadata_t m,
                          in ingress_intrinsic_metadata_t intrinsic,
                          in ingress_intrinsic_metadata_from_parser_t from_parser,
                          inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                          inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    IngressBlock() block;

    apply {
        h.arrival.setValid();
        h.arrival.time = from_parser.global_tstamp;
        block.apply(h, m, intrinsic, from_parser, for_deparser, for_tm);
    }
}

parser Parse(packet_in packet, out headers_t h, out metadata_t m,
             out egress_intrinsic_metadata_t intrinsic) {
    Base() base;
    bit<4> words;
    Checksum() checksum;

    state start {
        m.rest = 0;
        packet.extract(intrinsic);
        packet.extract(m.arrival);
        base.apply(packet, h.base, words);
        transition select(words) { WITH_DELAY .. 15: option; default: accept; }
    }
    state option {
        transition select(packet.lookahead<bit<32>>()) { DELAY: delay; default: accept; }
    }
    state delay {
        packet.extract(h.delay);
        checksum.subtract({ h.base.tcp.checksum });
        checksum.subtract({ h.delay.forward });
        checksum.subtract_all_and_deposit(m.rest);
        transition accept;
    }
}

control EgressBlock(inout headers_t h, inout metadata_t m, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser,
               inout egress_intrinsic_metadata_for_output_port_t for_port) {
    apply {
        if (h.delay.isValid()) {
            /* From 4.19 ms on: 3 bits of the shift plus 1, then the 13 bits behind the highest. */
            bit<48> ns = from_parser.global_tstamp - m.arrival.time;
            bit<16> own = 0xffff; /* from 268 ms on */
            if (ns[47:22] == 0) { own = 2w0 ++ ns[21:8]; }
            else if (ns[47:23] == 0) { own = 3w2 ++ ns[21:9]; }
            else if (ns[47:24] == 0) { own = 3w3 ++ ns[22:10]; }
            else if (ns[47:25] == 0) { own = 3w4 ++ ns[23:11]; }
            else if (ns[47:26] == 0) { own = 3w5 ++ ns[24:12]; }
            else if (ns[47:27] == 0) { own = 3w6 ++ ns[25:13]; }
            else if (ns[47:28] == 0) { own = 3w7 ++ ns[26:14]; }
            /* 0 means that no switch has stamped. */
            h.delay.forward = max(h.delay.forward, max(own, 1));
        }
    }
}

control Deparse(packet_out packet, inout headers_t h, in metadata_t m,
                in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() checksum;

    apply {
        if (h.delay.isValid()) {
            h.base.tcp.checksum = checksum.update({ h.delay.forward, m.rest });
        }
        packet.emit(h);
    }
}

Pipeline(IngressParse(), TimedIngressBlock(), IngressDeparse(), Parse(), EgressBlock(),
         Deparse()) pipe;
Switch(pipe) main;
