/*
 * PowerTCP's switch for v1model: each switch fills the first free hop record in the option of a TCP
 * packet. Format: crates/kernel/bpf/option.h. Not compiled by the project's tests.
 *
 * The option must be the first after the timestamps (NOP, NOP, timestamps) and have three records,
 * as Linux sends it. v1model counts queues in packets: here a packet has 1,514 bytes. Its clock has
 * microseconds, of which 125 / 8 are 64 ns.
 */
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> dst; bit<48> src; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> ihl; bit<8> tos; bit<16> length; bit<16> id; bit<3> flags;
    bit<13> fragment; bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> src; bit<32> dst;
}
header tcp_t {
    bit<16> src; bit<16> dst; bit<32> seq; bit<32> ack; bit<4> offset; bit<4> reserved;
    bit<8> flags; bit<16> window; bit<16> checksum; bit<16> urgent;
}
header timestamps_t { bit<32> kinds; bit<64> times; }
header option_t { bit<8> kind; bit<8> length; bit<16> exid; }
header record_t { bit<12> rate; bit<20> time; bit<16> sent; bit<1> more; bit<15> queue; }

/* Rate of all ports: 10 Gbit/s, 2^23 kbit/s times 153 / 128. */
const bit<12> RATE = 12w23 << 7 | 12w25;

struct headers_t {
    ethernet_t ethernet; ipv4_t ipv4; tcp_t tcp; timestamps_t timestamps; option_t option;
    record_t first; record_t second; record_t third;
}
struct metadata_t { }

parser Parse(packet_in packet, out headers_t h, inout metadata_t m,
             inout standard_metadata_t standard) {
    state start {
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(h.ipv4);
        transition select(h.ipv4.ihl, h.ipv4.fragment, h.ipv4.protocol) {
            (5, 0, 6): tcp;
            default: accept;
        }
    }
    state tcp {
        packet.extract(h.tcp);
        /* 20 bytes of header, 12 of timestamps and 28 of the option. */
        transition select(h.tcp.offset) { 15: timestamps; default: accept; }
    }
    state timestamps {
        transition select(packet.lookahead<bit<32>>()) {
            0x0101080a: timestamps_and_option;
            default: accept;
        }
    }
    state timestamps_and_option {
        packet.extract(h.timestamps);
        /* Kind 253, length 28, the experiment's identifier. */
        transition select(packet.lookahead<bit<32>>()) {
            0xfd1c7466: option;
            default: accept;
        }
    }
    state option {
        packet.extract(h.option);
        packet.extract(h.first);
        packet.extract(h.second);
        packet.extract(h.third);
        transition accept;
    }
}

control Verify(inout headers_t h, inout metadata_t m) { apply { } }

control Ingress(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    action forward(bit<9> port) { standard.egress_spec = port; }
    action drop() { mark_to_drop(standard); }
    table destinations {
        key = { h.ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }
    apply { destinations.apply(); }
}

control Egress(inout headers_t h, inout metadata_t m, inout standard_metadata_t standard) {
    /* Bytes sent, by port. */
    register<bit<48>>(512) sent;

    apply {
        bit<48> before;
        sent.read(before, (bit<32>)standard.egress_port);
        sent.write((bit<32>)standard.egress_port, before + (bit<48>)standard.packet_length);
        if (h.option.isValid()) {
            bit<48> time = (standard.egress_global_timestamp * 125) >> 3;
            bit<48> bytes = (bit<48>)standard.deq_qdepth * 1514;
            bit<15> queue = bytes >> 7 > 0x7fff ? (bit<15>)0x7fff : bytes[21:7];
            bit<64> word = RATE ++ time[19:0] ++ before[21:6] ++ 1w0 ++ queue;
            bit<64> change = word;

            if (h.first.rate == 0) {
                h.first = { RATE, time[19:0], before[21:6], 0, queue };
            } else if (h.second.rate == 0) {
                h.second = { RATE, time[19:0], before[21:6], 0, queue };
            } else if (h.third.rate == 0) {
                h.third = { RATE, time[19:0], before[21:6], 0, queue };
            } else {
                /* No free record. */
                change = h.third.more == 0 ? 64w0x8000 : 64w0;
                h.third.more = 1;
            }
            /* RFC 1624; the bits were 0 before, and all fields are at even offsets. */
            bit<32> sum = (bit<32>)(~h.tcp.checksum) + (bit<32>)change[63:48]
                + (bit<32>)change[47:32] + (bit<32>)change[31:16] + (bit<32>)change[15:0];
            sum = (sum & 0xffff) + (sum >> 16);
            sum = (sum & 0xffff) + (sum >> 16);
            h.tcp.checksum = ~sum[15:0];
        }
    }
}

control Compute(inout headers_t h, inout metadata_t m) { apply { } }

control Deparse(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.ethernet);
        packet.emit(h.ipv4);
        packet.emit(h.tcp);
        packet.emit(h.timestamps);
        packet.emit(h.option);
        packet.emit(h.first);
        packet.emit(h.second);
        packet.emit(h.third);
    }
}

V1Switch(Parse(), Verify(), Ingress(), Egress(), Compute(), Deparse()) main;
