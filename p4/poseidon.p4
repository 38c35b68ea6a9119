/*
 * Poseidon's switch for v1model: each switch raises the delay option of a TCP packet to its own
 * queueing delay. docs/kernel.md has a run of it.
 *
 * Units of 256 ns: the queueing time is in microseconds, and 1 us is 3.90625 units, here 125 / 32.
 * A code is the units, shifted right until they have at most 14 bits; each shift adds 2^13.
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
            bit<16> own = 0xffff; /* from 268 ms on */
            if (units < 0x4000) { own = units[15:0]; }
            else if (units < 0x8000) { own = 0x2000 + units[16:1]; }
            else if (units < 0x10000) { own = 0x4000 + units[17:2]; }
            else if (units < 0x20000) { own = 0x6000 + units[18:3]; }
            else if (units < 0x40000) { own = 0x8000 + units[19:4]; }
            else if (units < 0x80000) { own = 0xa000 + units[20:5]; }
            else if (units < 0x100000) { own = 0xc000 + units[21:6]; }
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
