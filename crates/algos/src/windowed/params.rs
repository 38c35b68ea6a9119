//! Parameters of a windowed transport: those of its congestion control, and those common to all
//! connections.

use alloc::format;
use alloc::string::String;
use core::fmt;

use tidegate_core::params::{Params, Table, Value};
use tidegate_core::{
    CongestionControl, ConnectionDefaults, MultipathRule, PacketSizes, Path, PendingRule,
    RecoveryRule, Span, WindowRule, choice, params,
};

choice! {
    /// When a connection changes its path (PLB).
    pub enum PlbRule {
        /// Never.
        Off = "off",
        /// After a random 5 to 7 round trips without a good sample.
        Htsim = "htsim",
        /// After a number of consecutive congested rounds, fewer if nothing is in flight.
        Rounds = "rounds",
    }
}

choice! {
    /// Bytes of a data packet that a window or a pace counts.
    pub enum CountRule {
        /// Payload, headers, telemetry and gap.
        Wire = "wire",
        /// Payload only.
        Payload = "payload",
    }
}

params! {
    /// Parameters of every connection, independent of its congestion control.
    pub struct ConnectionParams {
        /// Retransmission timeout before the first round-trip sample.
        initial_rto: Span = Span::ms(1), within Span::us(1) => Span::s(1000),
            "our choice, for every windowed protocol";
        /// Smallest retransmission timeout.
        min_rto: Span = Span::us(200), within Span::us(1) => Span::s(1000),
            "our choice, for every windowed protocol";
        /// Largest retransmission timeout that doubling reaches; larger `initial_rto` and `min_rto`
        /// still apply.
        max_rto: Span = Span::ms(120), within Span::us(1) => Span::s(1000),
            "Linux, include/net/tcp.h: TCP_RTO_MAX is 600 times TCP_RTO_MIN";
        /// Idle time after which a connection restarts from its initial window; 1000 s disables
        /// this.
        restart_after: Span = Span::s(1000), within Span::us(1) => Span::s(1000),
            "our choice; 1 ms where public code restarts after a timeout";
        /// Largest number of packets that one acknowledgement covers. A message's end, a change
        /// of marks and, unless packets take many paths (`trimmed`), a packet out of order are
        /// acknowledged immediately.
        ack_every: u64 = 1, in 1..=1000, "one a packet, as the simulators of these protocols; RFC \
            5681, section 4.2, has 2";
        /// Longest time that an acknowledgement waits for more packets. RTT samples exclude this
        /// time.
        ack_delay: Span = Span::us(20), within Span::ns(1) => Span::s(1), if ack_every != 1u64,
            "our choice: a few round trips";
        /// When a packet may start: if a full one `fits` into the window, or while less than the
        /// window is in flight (`below`).
        window_rule: WindowRule = WindowRule::Fits,
            "RFC 5681, section 2, for `fits`; rdma-queue-pair.cc of HPCC's and PowerTCP's \
             simulators for `below`";
        /// Bytes of a data packet that count in the window: all bytes on the wire (`wire`), or its
        /// payload.
        window_counts: CountRule = CountRule::Wire, later = true,
            "our choice for `wire`; rdma-queue-pair.cc of HPCC's simulator and ns-2's TCP for \
             `payload`";
        /// Bytes of a data packet that count in the pace: all bytes on the wire (`wire`), or its
        /// payload.
        pace_counts: CountRule = CountRule::Wire, later = true,
            "rdma-hw.cc of HPCC's simulator for `wire`";
        /// Headers and gap of a data packet in bytes, without telemetry.
        header_bytes: u64 = 80, later = true, in 20..=1000,
            "18 Ethernet, 20 IP, 8 UDP, 14 transport, 20 preamble and gap";
        /// Size of an acknowledgement on the wire in bytes, without echoed telemetry. If it is
        /// below 84, data packets are padded to this size only.
        control_bytes: u64 = 84, later = true, in 20..=1000,
            "Ethernet's smallest frame, with preamble and gap";
        /// Treatment of packets that arrive behind a missing one: kept (`selective`), or dropped,
        /// so that all from the missing one on are sent again (`go-back-n`), or kept in any order,
        /// so that only trimmed packets and timeouts are losses (`trimmed`).
        recovery: RecoveryRule = RecoveryRule::Selective,
            "RFC 9002, section 6.1.1, for `selective`; rdma-hw.cc of HPCC's and PowerTCP's \
             simulators for `go-back-n`; ultraethernet/uet-htsim, uec.cpp, for `trimmed`";
        /// Choice of the path of a packet: the same for all (`off`), all `paths` in turn
        /// (`oblivious`), one for each flowlet (`flowlet`), all without congested ones (`bitmap`),
        /// those of good acknowledgements again (`reps`), those first and otherwise as `bitmap`
        /// (`mixed`), or all without congested and failed ones (`mrc`, which needs
        /// `recovery = "trimmed"`). Sprayed packets ignore it.
        multipath: MultipathRule = MultipathRule::Off, later = true,
            "ultraethernet/uet-htsim, uec_mp.cpp; REPS (arXiv 2407.21625); MRC (Open Compute \
             Project, revision 1.0)";
        /// Time without a packet that ends a flowlet, under `flowlet`.
        flowlet_gap: Span = Span::us(50), later = true, within Span::ns(1) => Span::s(1),
            if multipath == MultipathRule::Flowlet,
            "our choice: several base RTTs; 500 us in CONGA (SIGCOMM'14), at 10 Gbit/s";
        /// Interval at which a connection with data probes each of its failed paths, under `mrc`.
        probe_interval: Span = Span::us(200), later = true, within Span::us(1) => Span::s(1),
            if multipath == MultipathRule::Mrc,
            "our choice: not published";
        /// Number of entropies that a connection's packets have, under `multipath`: a power of two.
        paths: u64 = 64, later = true, in 1..=65536, if multipath != MultipathRule::Off,
            "uet-htsim, main_uec.cpp: -paths";
        /// Effect of a new pace on the packet whose departure time is already set: none (`keep`),
        /// or the time moves by the difference of the gaps at the new and the old pace, even if
        /// that time has passed (`shift`).
        pending_packet: PendingRule = PendingRule::Keep,
            "rdma-hw.cc of HPCC's and PowerTCP's simulators: `shift` under HPCC, PowerTCP and \
             theta-PowerTCP (ChangeRate), `keep` under DCQCN, TIMELY and DCTCP; not specified in \
             their papers";
        /// Interval after which the receiver requests a missing packet again under `go-back-n`,
        /// when another packet arrives in its place; a different missing packet is requested
        /// immediately. If the window blocks all packets, none arrives, and only the timeout
        /// recovers.
        nack_interval: Span = Span::us(500), within Span::ZERO => Span::s(1),
            if recovery == RecoveryRule::GoBackN,
            "alibaba-edu/High-Precision-Congestion-Control, rdma-hw.cc";
        /// When a connection changes its path (PLB).
        plb: PlbRule = PlbRule::Off,
            "Poseidon (NSDI'23), section 5.4, gives its Swift PLB; `htsim`: Broadcom/csg-htsim, \
             swift.cpp; `rounds`: PLB (SIGCOMM'22)";
        /// Share of congested packets from which a round counts as congested, under `rounds`.
        plb_threshold: f64 = 0.5, in 0.0..=1.0, if plb == PlbRule::Rounds,
            "Linux, net/ipv4/tcp_ipv4.c: tcp_plb_cong_thresh";
        /// Consecutive congested rounds after which the path changes, under `rounds`.
        plb_rounds: u64 = 12, in 1..=1000, if plb == PlbRule::Rounds,
            "Linux, net/ipv4/tcp_ipv4.c: tcp_plb_rehash_rounds";
        /// The same if nothing is in flight.
        plb_idle_rounds: u64 = 3, in 1..=1000, if plb == PlbRule::Rounds,
            "Linux, net/ipv4/tcp_ipv4.c: \
            tcp_plb_idle_rehash_rounds";
        /// Time after a timeout, up to twice this value, in which `rounds` does not change the
        /// path.
        plb_suspend: Span = Span::s(60), within Span::ZERO => Span::s(1000),
            if plb == PlbRule::Rounds,
            "Linux, net/ipv4/tcp_ipv4.c: tcp_plb_suspend_rto_sec";
    }
}

/// Packets of a BDP for each that may wait for its acknowledgement if windows are at most a BDP:
/// about a twentieth of a link is idle then.
const IDLE: f64 = 20.0;

impl ConnectionParams {
    pub(super) fn sizes(&self) -> PacketSizes {
        PacketSizes::new(self.header_bytes, self.control_bytes)
    }

    /// With a window of less than `ack_every` packets, no acknowledgement returns before
    /// `ack_delay`. The windows of flows that share a BDP are fractions of it.
    /// If windows are at most `largest` and that is about a BDP, the packets that wait for their
    /// acknowledgement are missing in the pipe.
    pub(super) fn thin_acks(&self, path: &Path, largest: f64) -> Option<String> {
        let (every, bdp) = (self.ack_every, path.bdp_bytes / path.full_wire_bytes as f64);
        if every > 1 && every as f64 > bdp / 4.0 {
            return Some(format!(
                "ack_every = {every} is more than a quarter of the {bdp:.1} packets of a BDP: \
                 smaller windows wait for ack_delay; set a smaller ack_every"
            ));
        }
        let waiting = every as f64 - 1.0;
        // Twice a BDP leaves a BDP in the pipe even if half of the window waits.
        (waiting > bdp / IDLE && largest < 2.0 * path.bdp_bytes).then(|| {
            format!(
                "ack_every = {every} leaves up to {:.0} per cent of a link idle, because windows \
                 are at most about a BDP of {bdp:.1} packets and {waiting:.0} of them wait for \
                 their acknowledgement; set ack_every to at most {}",
                100.0 * waiting / bdp,
                1 + (bdp / IDLE) as u64
            )
        })
    }

    /// Longest time for which a receiver holds an acknowledgement.
    #[inline]
    pub(super) fn ack_hold(&self) -> Span {
        if self.ack_every > 1 { self.ack_delay } else { Span::ZERO }
    }

    pub(super) fn early_timeouts(&self, path: &Path) -> Option<String> {
        (path.base_rtt >= self.initial_rto).then(|| {
            format!(
                "the base RTT of {:.2} us reaches initial_rto = {:.2} us: every first window is \
                 sent twice; set initial_rto to a few base RTTs",
                path.base_rtt.as_us_f64(),
                self.initial_rto.as_us_f64()
            )
        })
    }
}

/// Parameters of a congestion control and of its connections, in one table.
pub struct WindowedParams<C: CongestionControl> {
    /// Parameters of the control.
    pub control: C::Params,
    /// Parameters of connections.
    pub connection: ConnectionParams,
}

impl<C: CongestionControl> WindowedParams<C> {
    /// Bound of the control on a window, in bytes; infinite if it has none.
    pub(super) fn largest_window(&self, bdp_bytes: f64) -> f64 {
        match self.control.get("max_window") {
            Some(Value::Extent(largest)) => largest.bytes(bdp_bytes),
            _ => f64::INFINITY,
        }
    }
}

impl<C: CongestionControl> Default for WindowedParams<C> {
    fn default() -> Self {
        let ConnectionDefaults {
            restart_after,
            window_rule,
            recovery,
            initial_rto,
            min_rto,
            pending_packet,
            multipath,
        } = C::CONNECTION_DEFAULTS;
        let connection = ConnectionParams {
            restart_after,
            window_rule,
            recovery,
            initial_rto,
            min_rto,
            pending_packet,
            multipath,
            ..ConnectionParams::default()
        };
        WindowedParams { control: C::Params::default(), connection }
    }
}

impl<C: CongestionControl> Clone for WindowedParams<C> {
    fn clone(&self) -> Self {
        WindowedParams { control: self.control.clone(), connection: self.connection.clone() }
    }
}

impl<C: CongestionControl> PartialEq for WindowedParams<C> {
    fn eq(&self, other: &Self) -> bool {
        self.control == other.control && self.connection == other.connection
    }
}

impl<C: CongestionControl> fmt::Debug for WindowedParams<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.control, self.connection)
    }
}

impl<C: CongestionControl> Params for WindowedParams<C> {
    fn table() -> Table {
        let mut table = C::Params::table();
        table.extend(ConnectionParams::table());
        let defaults = Self::default();
        for info in &mut table {
            info.default = defaults.get(info.name).unwrap_or(info.default);
        }
        table
    }
    fn get(&self, name: &str) -> Option<Value> {
        self.control.get(name).or_else(|| self.connection.get(name))
    }
    fn store(&mut self, name: &str, value: Value) -> bool {
        self.control.store(name, value) || self.connection.store(name, value)
    }
    fn conflict(&self) -> Option<String> {
        let ConnectionParams { ack_every, ack_delay, min_rto, paths, multipath, recovery, .. } =
            self.connection;
        if !paths.is_power_of_two() {
            return Some(format!("paths = {paths} must be a power of two, such as 64"));
        }
        if multipath == MultipathRule::Mrc && recovery != RecoveryRule::Trimmed {
            return Some(
                "multipath = \"mrc\" needs recovery = \"trimmed\": only then does each packet have \
                 a timeout, which shows that its path has failed"
                    .into(),
            );
        }
        if ack_every > 1 && ack_delay >= min_rto {
            return Some(format!(
                "ack_delay = {ack_delay} must be below min_rto = {min_rto}, the smallest timeout"
            ));
        }
        self.control.conflict()
    }
}
