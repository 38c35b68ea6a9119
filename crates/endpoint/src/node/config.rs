//! What a node is told of its host and its network.

use std::fmt;

use tidegate_algos::Stack;
use tidegate_core::{
    ConnectionPolicy, HEADER_BYTES, Hop, HostContext, MAX_HOPS, MIN_WIRE_BYTES, Need, Rate, Span,
    wire::START_BYTES,
};

use super::{BELOW_BYTES, SELF};
use crate::session::{Key, OVERHEAD_BYTES};

/// Shortest datagrams that are of use.
const LEAST_DATAGRAM: usize = 576;
/// Longest that IP carries.
const MOST_DATAGRAM: usize = 65_507;
/// Sums of it never overflow.
const MOST_UNREAD: u64 = 1 << 60;
/// Before a session tells how long a round trip takes.
const UNKNOWN_RTT: Span = Span::us(100);
/// Bandwidth-delay products are no less than so many full packets: user space takes the time of
/// some to wake up, which is no part of a base RTT.
const LEAST_BDP_PACKETS: f64 = 8.0;

/// A host and its network.
#[derive(Clone, Debug)]
pub struct Config {
    /// The protocol and its parameters: the same on all hosts.
    pub stack: Stack,
    /// What all hosts share.
    pub key: Key,
    /// Rate of the link, which is filled up to it: all that Ethernet carries counts.
    pub rate: Rate,
    /// Bytes of UDP payload of a full packet: the same on all hosts.
    pub datagram: usize,
    /// Round trip of a full packet and its answer on an empty network; unless it is told, what the
    /// first handshake sees.
    pub base_rtt: Option<Span>,
    /// The same of smallest packets; unless it is told, what follows from that.
    pub control_rtt: Option<Span>,
    /// The network sends each packet by a path of its own.
    pub spraying: bool,
    /// Bandwidth-delay product in bytes; unless it is told, rate times base RTT, and no less than
    /// eight packets.
    pub bdp_bytes: Option<f64>,
    /// Switches on a path, at most.
    pub hops: u32,
    /// What switches do.
    pub switches: Vec<Need>,
    /// Strict priorities of the network; told by class selectors in the IP header.
    pub priorities: u8,
    /// How messages share connections.
    pub connections: ConnectionPolicy,
    /// So much of the link's time may be sent at once, for fewer calls of the kernel.
    pub burst: Span,
    /// The longest that a datagram waits between the kernel and the node, as a rule.
    pub most_held: Span,
    /// What it takes of others.
    pub limits: Limits,
    /// How messages come to the application.
    pub delivery: Delivery,
    /// What links are taken to carry of a datagram.
    pub sizes: Sizes,
    /// Of the transport's random numbers; unless it is told, drawn from the node's entropy.
    pub seed: Option<u64>,
}

/// How messages come to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// Whole, when all is there.
    Whole,
    /// In the pieces in which they arrive, in any order. Nothing is kept here.
    Pieces,
}

/// What links are taken to carry of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// All of it, and what Ethernet adds.
    Real,
    /// What a simulated link does: the bytes that the protocol counts for the packet. They stand at
    /// the end of each datagram in two bytes, and behind them in four what paths are chosen by, for
    /// links and switches that exist in software alone.
    Simulated,
}

/// How much a node takes of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Peers at a time.
    pub peers: u32,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Bytes of a peer that the application has not taken, those under way included; no less than
    /// those of a message.
    pub unread_bytes: u64,
    /// A peer that is not heard of for so long is gone.
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

/// Why a configuration makes no sense.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigError {
    /// A value is out of range.
    Range {
        /// What it is of.
        what: &'static str,
        /// What it is.
        found: String,
        /// What it may be.
        allowed: String,
    },
    /// The protocol needs what the network has not.
    Needs {
        /// The protocol.
        protocol: &'static str,
        /// What it needs.
        needs: Vec<Need>,
    },
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
                    "{protocol} needs {} of the network, which is not said to be there",
                    needs.join(", ")
                )
            }
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// A link of this rate, and nothing known of what is behind it. Datagrams leave one by one, and
    /// nothing waits for a thread: see [`real`](Self::real).
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
            most_held: Span::ZERO,
            limits: Limits::default(),
            delivery: Delivery::Whole,
            sizes: Sizes::Real,
            seed: None,
        }
    }

    /// Full packets have so many bytes of payload, and links carry what simulated ones do.
    pub fn as_simulated(mut self, mtu: u32) -> Config {
        self.sizes = Sizes::Simulated;
        self.datagram = mtu as usize + self.header_bytes();
        self
    }

    /// The same for sockets and threads: rows of datagrams for the kernel, and as long as these
    /// wait for a thread that has to be woken.
    pub fn real(stack: Stack, key: Key, rate: Rate) -> Config {
        let (burst, most_held) = (Span::us(200), Span::ms(1));
        Config { burst, most_held, ..Config::new(stack, key, rate) }
    }

    /// What the transport is told, as far as that is known before the first session.
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
            bdp_bytes: 0.0,
            connections: self.connections,
            spraying: self.spraying,
            priorities: self.priorities,
            most_held: self.most_held,
        };
        self.tell_rtt(&mut context, self.base_rtt.unwrap_or(UNKNOWN_RTT));
        let requirements = self.stack.requirements(&context.properties());
        // Whichever way packets go, one host's endpoint has no part in it.
        let has = |need: &Need| {
            matches!(need, Need::Spraying | Need::SymmetricPaths) || self.switches.contains(need)
        };
        let needs: Vec<_> = requirements.needs().filter(|need| !has(need)).collect();
        if requirements.same_clock && self.base_rtt.is_none() {
            return Err(ConfigError::Range {
                what: "base RTT",
                found: "none".into(),
                allowed: "the same on all hosts, which keep time by it".into(),
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

    /// Sets all that follows from the base RTT.
    pub(super) fn tell_rtt(&self, context: &mut HostContext, base_rtt: Span) {
        let packet = f64::from(context.mtu + HEADER_BYTES);
        let bytes = context.nic_rate.bytes_in(base_rtt) as f64;
        let serialised = |bytes: u32| context.nic_rate.serialise(u64::from(bytes));
        let full = serialised(context.mtu + HEADER_BYTES);
        // What of it a full packet takes, on its link and on one behind each switch, a smallest
        // does not.
        let shorter = full.beyond(serialised(MIN_WIRE_BYTES)).times(u64::from(self.hops) + 1);
        context.fabric_base_rtt = base_rtt;
        let control_rtt = base_rtt.beyond(shorter).max(base_rtt.scale(0.5));
        context.fabric_control_rtt = self.control_rtt.unwrap_or(control_rtt);
        context.bdp_bytes = self.bdp_bytes.unwrap_or(bytes.max(LEAST_BDP_PACKETS * packet));
    }

    /// Of a full packet, all that is not payload: telemetry of every switch, the header of the
    /// transport, the session's.
    fn header_bytes(&self) -> usize {
        let mut context = HostContext {
            host: SELF,
            hosts: 2,
            seed: 0,
            mtu: self.datagram as u32,
            nic_rate: self.rate,
            fabric_base_rtt: UNKNOWN_RTT,
            fabric_control_rtt: UNKNOWN_RTT,
            bdp_bytes: 0.0,
            connections: self.connections,
            spraying: false,
            priorities: self.priorities,
            most_held: Span::ZERO,
        };
        self.tell_rtt(&mut context, UNKNOWN_RTT);
        let telemetry = self.stack.requirements(&context.properties()).telemetry;
        let peak = if telemetry.peak_on_data { START_BYTES + 8 } else { 0 };
        let records = START_BYTES + self.hops as usize * Hop::FIELD_BYTES;
        let records = if telemetry.hop_records { records } else { 0 };
        let mut kinds = self.stack.protocol().headers().kinds.iter();
        let data = kinds.find(|kind| kind.name == "Data").map_or(&[][..], |kind| kind.fields);
        let data = START_BYTES + data.iter().map(|field| field.bytes).sum::<usize>();
        peak + records + data + OVERHEAD_BYTES
    }

    /// What a transport is told of the link's rate. It counts the bytes of its paper; the link
    /// carries more, and so is slower by that share.
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
        if self.rate < Rate::mbps(1) || self.rate > Rate::gbps(1_600) {
            return range("rate", &self.rate, "1Mbps to 1600Gbps".into());
        }
        if !(LEAST_DATAGRAM..=MOST_DATAGRAM).contains(&self.datagram) {
            let allowed = format!("{LEAST_DATAGRAM} to {MOST_DATAGRAM} bytes");
            return range("datagram", &self.datagram, allowed);
        }
        if !(1..=MAX_HOPS as u32).contains(&self.hops) {
            return range("hops", &self.hops, format!("1 to {MAX_HOPS}"));
        }
        if !(1..=8).contains(&self.priorities) {
            return range("priorities", &self.priorities, "1 to 8".into());
        }
        let Limits { peers, message_bytes, unread_bytes, silence } = self.limits;
        if !(1..=1 << 16).contains(&peers) {
            return range("peers", &peers, "1 to 65536".into());
        }
        if message_bytes == 0 || message_bytes > 1 << 40 {
            return range("bytes of a message", &message_bytes, "1B to 1TiB".into());
        }
        if unread_bytes < message_bytes {
            let allowed = format!("at least those of a message, {message_bytes}");
            return range("unread bytes", &unread_bytes, allowed);
        }
        if unread_bytes > MOST_UNREAD {
            return range("unread bytes", &unread_bytes, format!("no more than {MOST_UNREAD}"));
        }
        if silence < Span::ms(100) {
            return range("silence", &silence, "at least 100ms".into());
        }
        Ok(())
    }
}
