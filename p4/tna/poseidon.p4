/*
 * Poseidon's switch for TNA. The compiler's front end accepts it; it was not compiled for a Tofino,
 * and has not run.
 *
 * It differs from v1model: the delay is in ns, so that 256 ns are a shift; a maximum is one
 * operation; the parser and the deparser update the checksum. The delay has 18 bits: it wraps at
 * 262 us.
 */
#include <core.p4>
#include <tna.p4>
#include "../headers.p4"
#include "forwarding.p4"

struct headers_t { base_t base; delay_t delay; }

/* The checksum without itself and without the forward delay. */
struct metadata_t { bit<16> rest; }

parser Parse(packet_in packet, out headers_t h, out metadata_t m,
             out egress_intrinsic_metadata_t intrinsic) {
    Base() base;
    bit<4> words;
    Checksum() checksum;

    state start {
        m.rest = 0;
        packet.extract(intrinsic);
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
            /* 0 means that no switch has stamped. */
            bit<16> own = max((bit<16>)(intrinsic.deq_timedelta >> 8), 1);
            h.delay.forward = max(h.delay.forward, own);
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

Pipeline(IngressParse(), IngressBlock(), IngressDeparse(), Parse(), EgressBlock(), Deparse()) pipe;
Switch(pipe) main;
