//! Parameters of the protocols on this transport.

use alloc::format;
use alloc::string::String;

use tidegate_core::{Extent, FabricRequirements, Marking, OperatingPoint, PacketSizes, Path, Span};

use crate::kit::window::shorter_than_bdp;
use crate::multipath::PathRule;

/// Parameters of a protocol on this transport: `own` ones among those of the transport, with these
/// defaults. A `ramp` may follow, as in `params!`.
macro_rules! pull_params {
    (
        $(#[$doc:meta])* pub struct $name:ident {
            max_window = $window:expr, $window_source:literal;
            pull_packets = $packets:literal, $packets_source:literal;
            pull_rate = $rate:literal, $rate_source:literal;
            min_rto = $rto:expr, $rto_source:literal;
            multipath = $multipath:expr, $multipath_source:literal;
            queue = $queue:expr, $queue_source:literal;
            $($own:tt)*
        }
        $($ramp:tt)*
    ) => {
        tidegate_core::params! {
            $(#[$doc])*
            pub struct $name {
                /// Credit that a message begins with, and the most that a sender may hold.
                max_window: Extent = $window,
                    within Extent::Bdp(0.01) => Extent::Bdp(1000.0), $window_source;
                /// Full packets that a pull grants.
                pull_packets: u64 = $packets, in 1..=1000, $packets_source;
                /// Rate of the data that pulls grant, as a share of the receiver's link.
                pull_rate: f64 = $rate, in 0.1..=1.0, $rate_source;
                /// Time without a response after which a packet is lost.
                min_rto: Span = $rto, within Span::us(1) => Span::s(1), $rto_source;
                /// Choice of the path of a packet: the same for all of a message (`off`), all
                /// `paths` in turn (`oblivious`), one for each flowlet (`flowlet`), without
                /// congested ones (`bitmap`), recycled ones (`reps`), or both (`mixed`). `mrc` is
                /// not supported.
                multipath: MultipathRule = $multipath, $multipath_source;
                /// Time without a packet of a message that ends a flowlet, under `flowlet`.
                flowlet_gap: Span = Span::us(50), later = true,
                    within Span::ns(1) => Span::s(1), if multipath == MultipathRule::Flowlet,
                    "our choice: several base RTTs; 500 us in CONGA (SIGCOMM'14), at 10 Gbit/s";
                /// Number of entropies that the packets of a message have, under `multipath`: a
                /// power of two.
                paths: u64 = 64, in 1..=65536, if multipath != MultipathRule::Off,
                    "uet-htsim, main_uec.cpp: -paths";
                /// Capacity of the queue for data of a port, beyond which packets are trimmed.
                queue: Extent = $queue,
                    within Extent::Bdp(0.01) => Extent::Bdp(100.0), $queue_source;
                $($own)*
                /// Headers and gap of a data packet in bytes.
                header_bytes: u64 = 80, in 20..=1000, "our choice: as all protocols here; 64 in \
                    the simulators";
                /// Size of a packet without payload on the wire in bytes. If it is below 84, data
                /// packets are padded to this size only.
                control_bytes: u64 = 84, in 20..=1000, "Ethernet's smallest frame, with preamble \
                    and gap; 64 in the simulators";
            }
            $($ramp)*
            conflict = conflict_of_paths;
        }

        fn conflict_of_paths(params: &$name) -> Option<alloc::string::String> {
            let paths = params.paths;
            if params.multipath == MultipathRule::Mrc {
                return Some(
                    "multipath = \"mrc\" is not supported by protocols that pull data; use \
                     off, oblivious, flowlet, bitmap, reps or mixed"
                        .into(),
                );
            }
            (!paths.is_power_of_two())
                .then(|| alloc::format!("paths = {paths} must be a power of two, such as 64"))
        }

        impl $name {
            /// The parameters of the transport.
            pub(in crate::message) fn pulls(&self) -> $crate::message::eqds::params::PullParams {
                $crate::message::eqds::params::PullParams {
                    max_window: self.max_window,
                    pull_packets: self.pull_packets,
                    pull_rate: self.pull_rate,
                    min_rto: self.min_rto,
                    multipath: $crate::multipath::PathRule {
                        rule: self.multipath,
                        paths: self.paths as u32,
                        flowlet_gap: self.flowlet_gap,
                    },
                    queue: self.queue,
                    sizes: PacketSizes::new(self.header_bytes, self.control_bytes),
                }
            }
        }
    };
}
pub(in crate::message) use pull_params;

/// Parameters of the transport.
pub(in crate::message) struct PullParams {
    pub(in crate::message) max_window: Extent,
    pub(in crate::message) pull_packets: u64,
    pub(in crate::message) pull_rate: f64,
    pub(in crate::message) min_rto: Span,
    pub(in crate::message) multipath: PathRule,
    pub(in crate::message) queue: Extent,
    pub(in crate::message) sizes: PacketSizes,
}

impl PullParams {
    /// Trimming and its classes.
    pub(in crate::message) fn requirements(&self) -> FabricRequirements {
        FabricRequirements::trimmed(self.queue, self.sizes.control_bytes as u16)
    }

    /// Operating point on this path of a protocol whose senders have no window beside credit.
    pub(in crate::message) fn operating_point(&self, path: &Path) -> OperatingPoint {
        OperatingPoint { domain_warnings: self.warnings(path).collect(), ..OperatingPoint::DEFAULT }
    }

    /// Reasons why this path is outside the design range of the transport.
    pub(in crate::message) fn warnings(&self, path: &Path) -> impl Iterator<Item = String> {
        self.early_timeouts(path).into_iter().chain(shorter_than_bdp(path))
    }

    /// Warns of a link that is so slow that packets can wait in a full queue, beyond which switches
    /// trim, for longer than the timeout.
    fn early_timeouts(&self, path: &Path) -> Option<String> {
        let queue = self.queue.bytes(path.bdp_bytes).min(1e15) as u64;
        let wait = path.bottleneck_rate.serialise(queue);
        let timeout = self.min_rto.max(path.fabric_base_rtt.times(2));
        (wait > timeout).then(|| {
            let [wait, timeout] = [wait, timeout].map(Span::as_us_f64);
            format!(
                "a full queue (queue) takes {wait:.0} us on a link of {}, and packets time out \
                 after {timeout:.0} us, so that senders resend packets that arrive: set min_rto \
                 to at least {:.0} us",
                path.bottleneck_rate,
                2.0 * wait
            )
        })
    }

    /// The requirements with marks at ports between switches.
    pub(in crate::message) fn requirements_with_marks(
        &self,
        kmin: Extent,
        kmax: Extent,
    ) -> FabricRequirements {
        let marking = Marking { core_only: true, ..Marking::ramp(kmin, kmax) };
        FabricRequirements { ecn: Some(marking), ..self.requirements() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract;
    use crate::message::rccc::RcccParams;
    use tidegate_core::Rate;

    #[test]
    fn queues_longer_than_timeouts_warn() {
        let path = |gbps| Path { bottleneck_rate: Rate::gbps(gbps), ..contract::path() };
        let warns = |params: &RcccParams, gbps| {
            params.pulls().operating_point(&path(gbps)).domain_warning()
        };
        // A BDP of 100 kB, and a timeout of 100 us.
        let params = RcccParams::default();
        assert_eq!([100, 9].map(|gbps| warns(&params, gbps)), [None, None]);
        let text = warns(&params, 5).unwrap();
        assert!(text.contains("takes 160 us on a link of 5Gbps"), "{text}");
        assert!(text.ends_with("set min_rto to at least 320 us"), "{text}");
        let params = RcccParams { min_rto: Span::us(320), ..params };
        assert_eq!(warns(&params, 5), None);
        // Timeouts last two round trips at least.
        let slow = Path { fabric_base_rtt: Span::us(800), ..path(1) };
        assert_eq!(params.pulls().operating_point(&slow).domain_warning(), None);
        let long = Path { bdp_bytes: 1e10, ..contract::path() };
        assert!(params.pulls().operating_point(&long).domain_warning().is_some());
    }
}
