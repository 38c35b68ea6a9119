/*
 * Poseidon's switch for v1model: each switch raises the delay option of a TCP packet to its own
 * queueing delay. docs/kernel.md has a run of it.
 *
 * Units of 256 ns: the queueing time is in microseconds, and 1 us is 3.90625 units, here 125 / 32.
 */
#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "v1model.p4"

struct headers_t { base_t base; delay_t delay; }

parser Parse(packet_in packet, out headers_t h, inout metadata_t m,
             inout standard_metadata_t standard) {
    Base() base;
    bit<4> words;

    state start {
        base.apply(packet, h.base, words);
        transition select(words) { WITH_DELAY .. 15: option; default: accept; }
    }
    state option {
        transition select(packet.lookahead<bit<32>>()) { DELAY: delay; default: accept; }
    }
    state delay { packet.extract(h.delay); transition accept; }
}

control Verify(inout headers_t h, inout metadata_t m) { apply { } }

control IngressBlock(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    Forward() forward;
    apply { forward.apply(h.base.ethernet, standard); }
}

control EgressBlock(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    Checksum() checksum;

    apply {
        if (h.delay.isValid()) {
            bit<48> units = ((bit<48>)standard.deq_timedelta * 125) >> 5;
            bit<16> own = units > 0xffff ? 16w0xffff : units[15:0];
            /* 0 means that no switch has stamped. */
            if (own == 0) { own = 1; }
            if (own > h.delay.forward) {
                checksum.apply(h.base.tcp.checksum,
                               (bit<32>)(~h.delay.forward) + (bit<32>)own);
                h.delay.forward = own;
            }
        }
    }
}

control Compute(inout headers_t h, inout metadata_t m) { apply { } }

control Deparse(packet_out packet, in headers_t h) { apply { packet.emit(h); } }

V1Switch(Parse(), Verify(), IngressBlock(), EgressBlock(), Compute(), Deparse()) main;
