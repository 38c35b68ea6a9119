/*
 * Headers of TCP over IPv4 with an option of telemetry. Format: crates/kernel/bpf/option.h.
 *
 * The TCP options must begin with NOP, NOP, timestamps, and the option of telemetry must follow at
 * once; PowerTCP's must have three records. Linux writes options of BPF programs last, behind SACK
 * blocks. These packets therefore pass without a stamp:
 *
 *   - data packets with SACK blocks
 *   - packets of connections without timestamps
 *   - packets with fewer than three of PowerTCP's records
 *   - IPv6, IPv4 with options, fragments, and frames with a VLAN tag
 */
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

/* Poseidon: 8 bytes. */
header delay_t { bit<8> kind; bit<8> length; bit<16> exid; bit<16> forward; bit<16> echo; }

/* PowerTCP: 28 bytes with three records. */
header option_t { bit<8> kind; bit<8> length; bit<16> exid; }
header record_t { bit<12> rate; bit<20> time; bit<16> sent; bit<1> more; bit<15> queue; }

/* The first 4 bytes of NOP, NOP, timestamps; of the two options. */
const bit<32> TIMESTAMPS = 0x0101080a;
const bit<32> DELAY = 0xfd087464;
const bit<32> RECORDS = 0xfd1c7466;

/* Words of the least TCP header that has the timestamps and this option. */
const bit<4> WITH_DELAY = 10;
const bit<4> WITH_RECORDS = 15;

struct base_t { ethernet_t ethernet; ipv4_t ipv4; tcp_t tcp; timestamps_t timestamps; }

/* Up to the timestamps. `words` is the length of a TCP header that begins with them, or 0. */
parser Base(packet_in packet, out base_t h, out bit<4> words) {
    state start {
        words = 0;
        packet.extract(h.ethernet);
        transition select(h.ethernet.kind) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 {
        packet.extract(h.ipv4);
        transition select(h.ipv4.ihl, h.ipv4.flags[0:0], h.ipv4.fragment, h.ipv4.protocol) {
            (5, 0, 0, 6): tcp;
            default: accept;
        }
    }
    state tcp {
        packet.extract(h.tcp);
        transition select(h.tcp.offset) { 8 .. 15: options; default: accept; }
    }
    state options {
        transition select(packet.lookahead<bit<32>>()) {
            TIMESTAMPS: timestamps;
            default: accept;
        }
    }
    state timestamps {
        packet.extract(h.timestamps);
        words = h.tcp.offset;
        transition accept;
    }
}
