/*
 * Poseidon's switch for v1model: each switch raises the delay option of a TCP packet to its own
 * queueing delay. Format: crates/kernel/bpf/option.h. Not compiled by the project's tests.
 *
 * The option must be the first after the timestamps (NOP, NOP, timestamps), as Linux sends it.
 * Units of 256 ns: the queueing time is in microseconds, and 1 us is 3.90625 units, here 125 / 32.
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
header delay_t { bit<8> kind; bit<8> length; bit<16> exid; bit<16> forward; bit<16> echo; }

struct headers_t {
    ethernet_t ethernet; ipv4_t ipv4; tcp_t tcp; timestamps_t timestamps; delay_t delay;
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
        /* 20 bytes, timestamps and the option are at least 40. */
        transition select(h.tcp.offset) { 10 .. 15: timestamps; default: accept; }
    }
    state timestamps {
        transition select(packet.lookahead<bit<32>>()) {
            0x0101080a: timestamps_and_delay;
            default: accept;
        }
    }
    state timestamps_and_delay {
        packet.extract(h.timestamps);
        /* Kind 253, length 8, the experiment's identifier. */
        transition select(packet.lookahead<bit<32>>()) {
            0xfd087464: delay;
            default: accept;
        }
    }
    state delay { packet.extract(h.delay); transition accept; }
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
    apply {
        if (h.delay.isValid()) {
            bit<48> units = ((bit<48>)standard.deq_timedelta * 125) >> 5;
            bit<16> own = units > 0xffff ? (bit<16>)0xffff : units[15:0];
            /* 0 means that no switch has stamped. */
            if (own == 0) { own = 1; }
            if (own > h.delay.forward) {
                /* RFC 1624: HC' = ~(~HC + ~m + m'). The field is at an even offset. */
                bit<32> sum = (bit<32>)(~h.tcp.checksum) + (bit<32>)(~h.delay.forward)
                    + (bit<32>)own;
                sum = (sum & 0xffff) + (sum >> 16);
                sum = (sum & 0xffff) + (sum >> 16);
                h.tcp.checksum = ~sum[15:0];
                h.delay.forward = own;
            }
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
        packet.emit(h.delay);
    }
}

V1Switch(Parse(), Verify(), Ingress(), Egress(), Compute(), Deparse()) main;
