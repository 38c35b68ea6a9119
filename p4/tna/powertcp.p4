/*
 * PowerTCP's switch for TNA. The compiler's front end accepts it; it was not compiled for a Tofino,
 * and has not run.
 *
 * It differs from v1model: the clock is in ns, so that 64 ns are a shift; queues are in cells of
 * 80 bytes, of which 5 / 8 are 128 bytes; one register action reads and counts; the parser and the
 * deparser update the checksum.
 */
#include <core.p4>
#include <tna.p4>
#include "../headers.p4"
#include "forwarding.p4"

struct headers_t { base_t base; option_t option; record_t first; record_t second; record_t third; }

/* The checksum without itself and without the records. */
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
        checksum.subtract({ h.base.tcp.checksum });
        checksum.subtract({ h.first, h.second, h.third });
        checksum.subtract_all_and_deposit(m.rest);
        transition accept;
    }
}

control EgressBlock(inout headers_t h, inout metadata_t m, in egress_intrinsic_metadata_t intrinsic,
               in egress_intrinsic_metadata_from_parser_t from_parser,
               inout egress_intrinsic_metadata_for_deparser_t for_deparser,
               inout egress_intrinsic_metadata_for_output_port_t for_port) {
    /* Bytes sent, by port. */
    Register<bit<32>, PortId_t>(512, 0) sent;
    RegisterAction<bit<32>, PortId_t, bit<32>>(sent) count = {
        void apply(inout bit<32> value, out bit<32> before) {
            before = value;
            value = value + (bit<32>)intrinsic.pkt_length;
        }
    };
    bit<12> rate = 0;

    /* A port's rate: 5 bits of exponent, 7 of mantissa. Ports without an entry do not stamp. */
    action has_rate(bit<12> code) { rate = code; }
    table rates {
        key = { intrinsic.egress_port: exact; }
        actions = { has_rate; NoAction; }
        default_action = NoAction();
        size = 512;
    }

    apply {
        bit<32> before = count.execute(intrinsic.egress_port);
        rates.apply();
        /* If the frame ends inside the option, not all records are valid. */
        if (h.third.isValid() && rate != 0) {
            bit<20> time = from_parser.global_tstamp[25:6];
            bit<19> units = (intrinsic.deq_qdepth >> 1) + (intrinsic.deq_qdepth >> 3);
            bit<15> queue = min(units, 0x7fff)[14:0];

            if (h.first.rate == 0) {
                h.first = { rate, time, before[21:6], 0, queue };
            } else if (h.second.rate == 0) {
                h.second = { rate, time, before[21:6], 0, queue };
            } else if (h.third.rate == 0) {
                h.third = { rate, time, before[21:6], 0, queue };
            } else {
                /* No free record. */
                h.third.more = 1;
            }
        }
    }
}

control Deparse(packet_out packet, inout headers_t h, in metadata_t m,
                in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() checksum;

    apply {
        if (h.third.isValid()) {
            h.base.tcp.checksum = checksum.update({ h.first, h.second, h.third, m.rest });
        }
        packet.emit(h);
    }
}

Pipeline(IngressParse(), IngressBlock(), IngressDeparse(), Parse(), EgressBlock(), Deparse()) pipe;
Switch(pipe) main;
