/* The parts of a v1model switch that both protocols share. */
struct metadata_t { }

/* Forwards by the destination's address. */
control Forward(in ethernet_t ethernet, inout standard_metadata_t standard) {
    action forward(bit<9> port) { standard.egress_spec = port; }
    action drop() { mark_to_drop(standard); }
    table destinations {
        key = { ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
    }
    apply { destinations.apply(); }
}

/* RFC 1624: HC' = ~(~HC + sum), where `sum` is that of ~m + m' over the changed 16-bit words. */
control Checksum(inout bit<16> checksum, in bit<32> sum) {
    apply {
        bit<32> all = (bit<32>)(~checksum) + sum;
        all = (all & 0xffff) + (all >> 16);
        all = (all & 0xffff) + (all >> 16);
        checksum = ~all[15:0];
    }
}
