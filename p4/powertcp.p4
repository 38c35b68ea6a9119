/*
 * PowerTCP's switch for v1model: each switch fills the first free hop record in the option of a TCP
 * packet. docs/kernel.md has a run of it.
 *
 * v1model counts queues in packets: here a packet has 1,514 bytes. Its clock has microseconds, of
 * which 125 / 8 are 64 ns.
 */
#include <core.p4>
#include <v1model.p4>
#include "headers.p4"
#include "v1model.p4"

struct headers_t { base_t base; option_t option; record_t first; record_t second; record_t third; }

parser Parse(packet_in packet, out headers_t h, inout metadata_t m,
             inout standard_metadata_t standard) {
    Base() base;
    bit<4> words;

    state start {
        base.apply(packet, h.base, words);
        transition select(words) { WITH_RECORDS: option; default: accept; }
    }
    state option {
        transition select(packet.lookahead<bit<32>>()) { RECORDS: records; default: accept; }
    }
    state records {
        packet.extract(h.option);
        packet.extract(h.first);
        packet.extract(h.second);
        packet.extract(h.third);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) { apply { } }

control IngressBlock(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    Forward() forward;
    apply { forward.apply(h.base.ethernet, standard); }
}

control EgressBlock(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    /* Bytes sent, by port. */
    register<bit<48>>(512) sent;
    Checksum() checksum;
    bit<12> rate = 0;

    /* A port's rate: 5 bits of exponent, 7 of mantissa. Ports without an entry do not stamp. */
    action has_rate(bit<12> code) { rate = code; }
    table rates {
        key = { standard.egress_port: exact; }
        actions = { has_rate; NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<48> before;
        sent.read(before, (bit<32>)standard.egress_port);
        sent.write((bit<32>)standard.egress_port, before + (bit<48>)standard.packet_length);
        rates.apply();
        /* If the frame ends inside the option, not all records are valid. */
        if (h.third.isValid() && rate != 0) {
            bit<48> time = (standard.egress_global_timestamp * 125) >> 3;
            bit<48> bytes = (bit<48>)standard.deq_qdepth * 1514;
            bit<15> queue = bytes >> 7 > 0x7fff ? 15w0x7fff : bytes[21:7];
            bit<64> change = rate ++ time[19:0] ++ before[21:6] ++ 1w0 ++ queue;

            if (h.first.rate == 0) {
                h.first = { rate, time[19:0], before[21:6], 0, queue };
            } else if (h.second.rate == 0) {
                h.second = { rate, time[19:0], before[21:6], 0, queue };
            } else if (h.third.rate == 0) {
                h.third = { rate, time[19:0], before[21:6], 0, queue };
            } else {
                /* No free record: `more` becomes 1. */
                change = h.third.more == 0 ? 64w0x8000 : 64w0;
                h.third.more = 1;
            }
            /* The changed bits were 0, so ~m + m' is their sum, modulo 0xffff. */
            checksum.apply(h.base.tcp.checksum,
                           (bit<32>)change[63:48] + (bit<32>)change[47:32]
                               + (bit<32>)change[31:16] + (bit<32>)change[15:0]);
        }
    }
}

control Compute(inout headers_t h, inout metadata_t m) { apply { } }

control Deparse(packet_out packet, in headers_t h) { apply { packet.emit(h); } }

V1Switch(Parse(), Verify(), IngressBlock(), EgressBlock(), Compute(), Deparse()) main;
