//! NDP: switches trim packets, and receivers pull one packet for each that arrives.
//!
//! A message begins with a window that its sender sends without credit. Each arriving packet,
//! whole or trimmed, requests one more from the receiver, which sends pulls to all its senders
//! round-robin at the rate of its link. A trimmed packet is requested again and leaves on the next
//! pull. A packet without response for `min_rto` leaves at once: no pull comes for it. Packets take
//! all paths in turn.
//!
//! Headers of trimmed packets, acknowledgements, nacks and pulls have a queue of their own. It is
//! as large as that for data (section 3.2.4). While both hold packets, switches send ten of its
//! packets for each of data (section 3.1), so that headers cannot take the whole link. With packets
//! of 9 KB, headers then have 8 % of it, and with packets of 1,000 B 44 %.
//!
//! With `return_to_sender`, switches send the headers of a trimmed packet back if the queue for
//! headers is full. The packet leaves again on the next pull, because senders that resent at once
//! would repeat the incast; its window is smaller by this packet. It leaves at once if the sender
//! expects no pull, or if more than a quarter of the last twelve packets arrived: then only its
//! path is congested.
//!
//! M. Handley et al., "Re-architecting datacenter networks and stacks for low latency and high
//! performance", SIGCOMM 2017. Details follow the authors' simulator (Broadcom/csg-htsim,
//! `ndp.cpp`, commit 841d9e7). The transport is EQDS's (`eqds/mod.rs`).
//!
//! # Differences from the sources
//!
//! Those of EQDS, and:
//!
//! * Switches serve ten headers for a packet of data, from a queue as large as that for data, as in
//!   the paper and in the authors' first simulator (nets-cs-pub-ro/NDP, commit 3d452ce,
//!   `compositequeue.cpp`); csg-htsim has 100,000 and twice the size. Within the queue for headers,
//!   packets trimmed in the core, acknowledgements and pulls precede those trimmed at the port to
//!   the receiver. In the sources it is first in, first out.
//! * Return to sender is an option and off by default, as in csg-htsim, none of whose programs sets
//!   it. In the first simulator, every switch returns headers, and senders have no timeouts. In
//!   both, switches also return acknowledgements, nacks and pulls, whose senders discard them.
//! * A sender expects pulls also if any packet is in flight, or if it knows by a cumulative number
//!   that a packet arrived. The source counts acknowledgements, nacks and pulls, and packets of the
//!   first window without response, of which it permits one.
//! * A packet that returns while its sender still has credit of the first window leaves again on
//!   that credit; the source sends all of the first window before. A pull that a sender requested
//!   after a timeout is not expected, so that a packet which returns before it leaves at once. If
//!   all packets have been sent once, a return voids pulled credit that waits for the uplink.
//! * More than a quarter of arrivals among the last twelve packets mean a bad path, as in csg-htsim
//!   (`is_bad_path`); in the paper, most packets.
//! * Paths are entropies, which switches hash, and their order in a round is `position XOR order`
//!   with a random `order`. The paper permutes the actual paths at random.
//! * A packet that is sent again takes the next path, which may be the same; in the paper, another
//!   one.
//! * A sender does not exclude paths that lose more than others; `multipath = "bitmap"` does so by
//!   the feedback of trimmed packets. A returned packet counts three times as much, as in the
//!   source, unless it was trimmed at the port to the receiver.
//! * Each pull takes another path, as in the sources if senders know the paths. If switches hash
//!   (`ecmp_host` of csg-htsim), the pulls of a message there take one path.
//! * Receivers pull all messages in turn; in the paper, some can have strict priority.
//! * An acknowledgement is no pull. In the source it is one if no pull waits, so that control
//!   packets take half of the bytes in an uncongested network.
//! * A packet that arrives twice requests one pull; in the source, two.
//! * A sender without credit and packets in flight requests the sum of pulls again after a timeout,
//!   because the last ones may be lost. In the source it waits for ever.
//! * Receivers know the size of a message from its first packet, where the last one is flagged in
//!   the source. Pulls that are on their way at its end are unused in both.

use tidegate_core::{
    Dash, Endpoint, Extent, FabricProperties, FabricRequirements, HostContext, Marker,
    MultipathRule, OperatingPoint, PacketSizes, Path, ProtocolInfo, Span, TelemetryBytes,
    TrimmingRule,
};

use super::eqds::header::Header;
use super::eqds::params::pull_params;
use super::eqds::{Demand, PullTransport, Rules};

/// Packets of the queue for headers that a switch sends for each packet of data (section 3.1).
const HEADER_WEIGHT: u16 = 10;

pull_params! {
    /// Parameters of NDP.
    pub struct NdpParams {
        max_window = Extent::Bdp(1.0), "our choice; 15 packets in csg-htsim, main_ndp.cpp";
        pull_packets = 1, "paper";
        pull_rate = 0.99, "csg-htsim, main_ndp.cpp";
        min_rto = Span::ms(1), "paper, section 3.2.4; 50 ms in csg-htsim, main_ndp.cpp";
        multipath = MultipathRule::Oblivious, "paper";
        queue = Extent::Bytes(72_000.0), "paper: eight packets of 9 KB";
        /// Whether switches return a trimmed packet to its sender if the queue for headers is full.
        return_to_sender: bool = false, later = true, "csg-htsim, compositequeue.cpp; an option in \
            the paper";
    }
}

/// NDP.
#[derive(Debug)]
pub enum Arrivals {}

/// The NDP transport of one host.
pub type Ndp = PullTransport<Arrivals>;

impl Endpoint for Ndp {
    const INFO: ProtocolInfo = ProtocolInfo {
        name: "ndp",
        title: "NDP",
        revision: 2,
        citation: "Handley et al., SIGCOMM 2017",
        summary: "Switches trim packets, and receivers pull one packet for each that arrives.",
        color: "#b15928",
        marker: Marker::Square,
        dash: Dash::Dotted,
        telemetry_bytes: TelemetryBytes::NONE,
        echo_bytes: TelemetryBytes::NONE,
    };
    type Params = NdpParams;
    type Header = Header;

    fn new(params: &NdpParams, host: &HostContext) -> Ndp {
        PullTransport::with(&params.pulls(), Rules::credit(Demand::Arrivals), host)
    }

    fn sizes(params: &NdpParams) -> PacketSizes {
        params.pulls().sizes
    }

    fn takes_many_paths(params: &NdpParams) -> bool {
        params.multipath != MultipathRule::Off
    }

    fn requirements(params: &NdpParams, _fabric: &FabricProperties) -> FabricRequirements {
        let requirements = params.pulls().requirements();
        let return_to_sender = params.return_to_sender;
        let own = |rule| TrimmingRule {
            return_to_sender,
            header_queues: 1,
            header_weight: Some(HEADER_WEIGHT),
            ..rule
        };
        FabricRequirements { trimming: requirements.trimming.map(own), ..requirements }
    }

    fn operating_point(params: &NdpParams, path: &Path, _rate_bps: f64) -> OperatingPoint {
        params.pulls().operating_point(path)
    }
}
