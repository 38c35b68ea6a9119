/* Ingress of a TNA switch that forwards by the destination's address; both protocols share it. */

/* The time in ns, for the egress. The deparser sends it before the packet if it is valid. */
header arrival_t { bit<48> time; }

struct ingress_headers_t { arrival_t arrival; ethernet_t ethernet; }
struct ingress_metadata_t { }

parser IngressParse(packet_in packet, out ingress_headers_t h, out ingress_metadata_t m,
                    out ingress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        packet.extract(h.ethernet);
        transition accept;
    }
}

control IngressBlock(inout ingress_headers_t h, inout ingress_metadata_t m,
                in ingress_intrinsic_metadata_t intrinsic,
                in ingress_intrinsic_metadata_from_parser_t from_parser,
                inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    action forward(PortId_t port) { for_tm.ucast_egress_port = port; }
    action drop() { for_deparser.drop_ctl = 1; }
    table destinations {
        key = { h.ethernet.dst: exact; }
        actions = { forward; drop; }
        default_action = drop();
        size = 4096;
    }
    apply { destinations.apply(); }
}

control IngressDeparse(packet_out packet, inout ingress_headers_t h, in ingress_metadata_t m,
                       in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply { packet.emit(h); }
}
