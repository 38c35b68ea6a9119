//! The configuration of a node: its host and its network.

use std::fmt;

use tidegate_algos::Stack;
use tidegate_core::workload::SizeMix;
use tidegate_core::{
    ConnectionPolicy, HEADER_BYTES, Hop, HostContext, MAX_HOPS, MIN_WIRE_BYTES, Need, PacketSizes,
    Rate, Span, wire::START_BYTES,
};

use super::{BELOW_BYTES, SELF};
use crate::session::{Key, PacketFormat};

/// Minimum length of a full datagram.
const LEAST_DATAGRAM: usize = 576;
/// Maximum length of a UDP payload over IPv4.
const MOST_DATAGRAM: usize = 65_507;
/// Upper bound of unread bytes, so that sums do not overflow.
const MOST_UNREAD: u64 = 1 << 60;
/// RTT that is assumed before a session has measured it.
const UNKNOWN_RTT: Span = Span::us(100);
/// Minimum bandwidth-delay product, in full packets. A thread in user space takes the time of
/// several packets to wake up, which is not part of the base RTT.
const LEAST_BDP_PACKETS: f64 = 8.0;

/// Configuration of a host and its network.
#[derive(Clone, Debug)]
pub struct Config {
    /// The protocol and its parameters: the same on all hosts.
    pub stack: Stack,
    /// The key that all hosts share.
    pub key: Key,
    /// Rate of the link. The node sends no faster; all bytes on Ethernet count.
    pub rate: Rate,
    /// Bytes of UDP payload of a full packet: the same on all hosts.
    pub datagram: usize,
    /// Base RTT of a full packet and its answer without queueing; `None`: the minimum of several
    /// round trips, measured when the first session opens.
    pub base_rtt: Option<Span>,
    /// The same for minimum packets; `None`: derived from the base RTT.
    pub control_rtt: Option<Span>,
    /// Whether the network sprays packets over all paths.
    pub spraying: bool,
    /// Bandwidth-delay product in bytes; `None`: rate times base RTT, but at least eight packets.
    pub bdp_bytes: Option<f64>,
    /// Maximum number of switches on a path.
    pub hops: u32,
    /// Functions of the switches.
    pub switches: Vec<Need>,
    /// Number of strict priorities of the network, selected by class selectors in the IP header.
    pub priorities: u8,
    /// How messages share connections.
    pub connections: ConnectionPolicy,
    /// Maximum burst, as time on the link. Larger bursts need fewer system calls.
    pub burst: Span,
    /// Part of a full burst, as time on the link, that must have left before more datagrams follow.
    /// They then follow together, with fewer system calls. Acknowledgements and credit wait with
    /// them, up to this time. At most `burst`.
    pub batch: Span,
    /// Usual maximum time that a datagram waits between the kernel and the node.
    pub most_held: Span,
    /// Limits for peers.
    pub limits: Limits,
    /// How messages are delivered to the application.
    pub delivery: Delivery,
    /// Which bytes of a datagram count on links.
    pub sizes: Sizes,
    /// Seed of the transport's random numbers, different for each node; `None`: drawn from the
    /// node's entropy.
    pub seed: Option<u64>,
}

/// How messages are delivered to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// As whole messages, when all bytes have arrived.
    Whole,
    /// As pieces, in the order of arrival. The node keeps no bytes.
    Pieces,
}

/// Which bytes of a datagram count on links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All bytes, and the overhead of Ethernet.
    Real,
    /// The bytes that the protocol counts for the packet, as on a simulated link. Each datagram
    /// ends with that size in two bytes and the path entropy in four bytes, for links and switches
    /// in software.
    Simulated,
}

/// Limits for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of peers.
    pub peers: u32,
    /// Maximum length of a message in bytes.
    pub message_bytes: u64,
    /// Maximum number of bytes of a peer that the application has not consumed, including bytes in
    /// flight; at least `message_bytes`.
    pub unread_bytes: u64,
    /// A session ends if nothing arrives from the peer for this time.
    pub silence: Span,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            peers: 1_024,
            message_bytes: 64 << 20,
            unread_bytes: 128 << 20,
            silence: Span::s(30),
        }
    }
}

/// Why a configuration is invalid.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigError {
    /// A value is outside its range.
    Range {
        /// The setting that has the value.
        what: Setting,
        /// The value.
        found: String,
        /// The allowed range.
        allowed: String,
    },
    /// The protocol requires functions that the network lacks.
    Needs {
        /// The name of the protocol.
        protocol: &'static str,
        /// The missing functions.
        needs: Vec<Need>,
    },
}

/// A setting with a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// [`Config::rate`].
    Rate,
    /// [`Config::datagram`].
    Datagram,
    /// [`Config::base_rtt`].
    BaseRtt,
    /// [`Config::hops`].
    Hops,
    /// [`Config::priorities`].
    Priorities,
    /// Parameters of [`Config::stack`] that declare sizes of packets.
    Sizes,
    /// [`Config::batch`].
    Batch,
    /// [`Limits::peers`].
    Peers,
    /// [`Limits::message_bytes`].
    MessageBytes,
    /// [`Limits::unread_bytes`].
    UnreadBytes,
    /// [`Limits::silence`].
    Silence,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Setting::Rate => "rate",
            Setting::Datagram => "datagram",
            Setting::BaseRtt => "base RTT",
            Setting::Hops => "hops",
            Setting::Priorities => "priorities",
            Setting::Sizes => "sizes of packets",
            Setting::Batch => "batch",
            Setting::Peers => "peers",
            Setting::MessageBytes => "message bytes",
            Setting::UnreadBytes => "unread bytes",
            Setting::Silence => "silence",
        })
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::Range { what, found, allowed } => {
                write!(f, "{what}: found {found}, expected {allowed}")
            }
            ConfigError::Needs { protocol, needs } => {
                let needs: Vec<_> = needs.iter().map(|need| need.name()).collect();
                write!(
                    f,
                    "{protocol} needs {} of the network, but the configuration does not list it \
                     in `switches`",
                    needs.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// A configuration with a link of this rate and an unknown network. Datagrams leave one by one
    /// and do not wait for threads: for sockets see [`real`](Self::real).
    pub fn new(stack: Stack, key: Key, rate: Rate) -> Config {
        Config {
            stack,
            key,
            rate,
            datagram: 1_472,
            base_rtt: None,
            control_rtt: None,
            spraying: false,
            bdp_bytes: None,
            hops: 1,
            switches: Vec::new(),
            priorities: 1,
            connections: ConnectionPolicy::PerMessage,
            burst: Span::ZERO,
            batch: Span::ZERO,
            most_held: Span::ZERO,
            limits: Limits::default(),
            delivery: Delivery::Whole,
            sizes: Sizes::Real,
            seed: None,
        }
    }

    /// Sets the payload of full packets to `mtu`, and counts bytes on links as the simulator does.
    pub fn as_simulated(mut self, mtu: u32) -> Config {
        self.sizes = Sizes::Simulated;
        self.datagram = mtu as usize + self.header_bytes();
        self
    }

    /// A configuration for sockets and threads: it allows bursts, for fewer system calls, and the
    /// time that a datagram waits for a thread to wake up.
    pub fn real(stack: Stack, key: Key, rate: Rate) -> Config {
        let (burst, batch, most_held) = (Span::us(200), Span::us(100), Span::ms(1));
        Config { burst, batch, most_held, ..Config::new(stack, key, rate) }
    }

    /// Adapts the protocol to the sizes of the messages that will be sent. Returns a warning if the
    /// protocol expects other sizes.
    ///
    /// # Errors
    /// As for a node with this configuration.
    pub fn fit(&mut self, sizes: &SizeMix) -> Result<Option<String>, ConfigError> {
        let properties = self.context(0)?.properties();
        Ok(self.stack.fit(&properties, sizes))
    }

    /// Creates the transport's context from the values that are known before the first session.
    pub(super) fn context(&self, seed: u64) -> Result<HostContext, ConfigError> {
        self.check()?;
        let mtu = (self.datagram - self.header_bytes()) as u32;
        let mut context = HostContext {
            host: SELF,
            hosts: self.limits.peers + 1,
            seed,
            mtu,
            nic_rate: self.nominal_rate(mtu),
            fabric_base_rtt: Span::ZERO,
            fabric_control_rtt: Span::ZERO,
            sizes: PacketSizes::STANDARD,
            bdp_bytes: 0.0,
            connections: self.connections,
            spraying: self.spraying,
            priorities: self.priorities,
            most_held: self.most_held,
        };
        self.set_rtt(&mut context, self.base_rtt.unwrap_or(UNKNOWN_RTT));
        let requirements = self.stack.requirements(&context.properties());
        // Routing does not involve the endpoints, so it is not checked.
        let has = |need: &Need| {
            matches!(need, Need::Spraying | Need::SymmetricPaths) || self.switches.contains(need)
        };
        let needs: Vec<_> = requirements.needs().filter(|need| !has(need)).collect();
        if requirements.same_clock && self.base_rtt.is_none() {
            return Err(ConfigError::Range {
                what: Setting::BaseRtt,
                found: "none".into(),
                allowed: "the same on all hosts, which synchronise by it".into(),
            });
        }
        match needs.is_empty() {
            true => Ok(context),
            false => {
                let protocol = self.stack.protocol().info().name;
                Err(ConfigError::Needs { protocol, needs })
            }
        }
    }

    /// Sets the values that depend on the base RTT.
    pub(super) fn set_rtt(&self, context: &mut HostContext, base_rtt: Span) {
        let packet = f64::from(context.mtu + HEADER_BYTES);
        let bytes = context.nic_rate.bytes_in(base_rtt) as f64;
        let serialised = |bytes: u32| context.nic_rate.serialise(u64::from(bytes));
        let full = serialised(context.mtu + HEADER_BYTES);
        // A minimum packet saves the difference in serialisation on the first link and on one link
        // behind each switch.
        let shorter = full.beyond(serialised(MIN_WIRE_BYTES)).times(u64::from(self.hops) + 1);
        context.fabric_base_rtt = base_rtt;
        let control_rtt = base_rtt.beyond(shorter).max(base_rtt.scale(0.5));
        context.fabric_control_rtt = self.control_rtt.unwrap_or(control_rtt);
        context.bdp_bytes = self.bdp_bytes.unwrap_or(bytes.max(LEAST_BDP_PACKETS * packet));
    }

    /// Header bytes of a full packet: telemetry of every switch, and the headers of transport and
    /// session.
    fn header_bytes(&self) -> usize {
        let mut context = HostContext {
            host: SELF,
            hosts: 2,
            seed: 0,
            mtu: self.datagram as u32,
            nic_rate: self.rate,
            fabric_base_rtt: UNKNOWN_RTT,
            fabric_control_rtt: UNKNOWN_RTT,
            sizes: PacketSizes::STANDARD,
            bdp_bytes: 0.0,
            connections: self.connections,
            spraying: false,
            priorities: self.priorities,
            most_held: Span::ZERO,
        };
        self.set_rtt(&mut context, UNKNOWN_RTT);
        let telemetry = self.stack.requirements(&context.properties()).telemetry;
        let peak = if telemetry.peak_on_data { START_BYTES + 8 } else { 0 };
        let records = START_BYTES + self.hops as usize * Hop::FIELD_BYTES;
        let records = if telemetry.hop_records { records } else { 0 };
        let mut kinds = self.stack.protocol().headers().kinds.iter();
        let data = kinds.find(|kind| kind.name == "Data").map_or(&[][..], |kind| kind.fields);
        let data = START_BYTES + data.iter().map(|field| field.bytes).sum::<usize>();
        peak + records + data + self.packet_format().overhead_bytes()
    }

    /// Session header of packets: that of a network that trims, or of a protocol whose packets
    /// select their paths.
    pub(super) fn packet_format(&self) -> PacketFormat {
        if self.switches.contains(&Need::Trimming) {
            PacketFormat::Trimmable
        } else if self.stack.takes_many_paths() {
            PacketFormat::Multipath
        } else {
            PacketFormat::Plain
        }
    }

    /// The link rate for the transport. The transport counts bytes as its paper does. The link
    /// carries more bytes per packet, so the rate is lower by that ratio.
    fn nominal_rate(&self, mtu: u32) -> Rate {
        if self.sizes == Sizes::Simulated {
            return self.rate;
        }
        let counted = u64::from(mtu + HEADER_BYTES);
        let carried = self.datagram as u64 + u64::from(BELOW_BYTES);
        Rate::bps(
            (u128::from(self.rate.as_bps()) * u128::from(counted) / u128::from(carried)) as u64,
        )
    }

    fn check(&self) -> Result<(), ConfigError> {
        let range = |what, found: &dyn fmt::Display, allowed: String| {
            Err(ConfigError::Range { what, found: found.to_string(), allowed })
        };
        if self.stack.sizes() != PacketSizes::STANDARD {
            let PacketSizes { header_bytes, control_bytes, .. } = self.stack.sizes();
            let found =
                format!("header_bytes = {header_bytes} and control_bytes = {control_bytes}");
            let allowed = "no header_bytes, control_bytes or smallest_credit below 84, because \
                           packets on a network have their real sizes";
            return range(Setting::Sizes, &found, allowed.into());
        }
        if self.rate < Rate::mbps(1) || self.rate > Rate::gbps(1_600) {
            return range(Setting::Rate, &self.rate, "1Mbps to 1600Gbps".into());
        }
        if !(LEAST_DATAGRAM..=MOST_DATAGRAM).contains(&self.datagram) {
            let allowed = format!("{LEAST_DATAGRAM} to {MOST_DATAGRAM} bytes");
            return range(Setting::Datagram, &self.datagram, allowed);
        }
        if !(1..=MAX_HOPS as u32).contains(&self.hops) {
            return range(Setting::Hops, &self.hops, format!("1 to {MAX_HOPS}"));
        }
        if !(1..=8).contains(&self.priorities) {
            return range(Setting::Priorities, &self.priorities, "1 to 8".into());
        }
        if self.batch > self.burst {
            let allowed = format!("at most {}, the burst", self.burst);
            return range(Setting::Batch, &self.batch, allowed);
        }
        let Limits { peers, message_bytes, unread_bytes, silence } = self.limits;
        if !(1..=1 << 16).contains(&peers) {
            return range(Setting::Peers, &peers, "1 to 65536".into());
        }
        if message_bytes == 0 || message_bytes > 1 << 40 {
            return range(Setting::MessageBytes, &message_bytes, "1B to 1TiB".into());
        }
        if unread_bytes < message_bytes {
            let allowed = format!("at least {message_bytes}, the maximum message");
            return range(Setting::UnreadBytes, &unread_bytes, allowed);
        }
        if unread_bytes > MOST_UNREAD {
            return range(Setting::UnreadBytes, &unread_bytes, format!("at most {MOST_UNREAD}"));
        }
        if silence < Span::ms(100) {
            return range(Setting::Silence, &silence, "at least 100ms".into());
        }
        Ok(())
    }
}
