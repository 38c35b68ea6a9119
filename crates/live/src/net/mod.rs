//! Endpoints in live UDP mode: server, sender, and the measurements of both.
//!
//! Both run a [`Driver`] in their own thread, with no layer between the measurements and the
//! socket.

mod intervals;
mod report;
mod send;
mod serve;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidegate_algos::{Protocol, Stack};
use tidegate_core::workload::{SizeMix, Sizes};
use tidegate_core::{Need, Rate, Span};
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::node::{self, CloseReason, Config, ConfigError, Node, PeerId, Setting};
use tidegate_endpoint::session::Key;
use tidegate_endpoint::socket::{Socket, SocketOptions};
use tidegate_scenario::options;

use tidegate_runs::Error;

pub use report::{
    Completed, Interval, NetEngine, NetSummary, Network, Settings, rate_shown, time_shown,
};
pub use send::{Mode, SendOptions, send};
pub use serve::{ServeOptions, serve};

/// Shortest key that is considered secure.
const MIN_KEY_BYTES: usize = 16;
/// A session ends if the peer does not answer for this long.
const SILENCE: Span = Span::s(5);
/// At the end, time for peers to confirm the close.
const CLOSE_TIMEOUT: Span = Span::ms(500);
/// Parameters that differ from those in a simulated fabric, for protocols that have them. A process
/// waits about 50 us for its core on an idle machine, and milliseconds on a busy one. A target
/// below that keeps a link idle, a timeout below it causes spurious retransmissions, and one
/// acknowledgement per packet costs as much processor time as the packet.
const LIVE_PARAMS: [(&str, &str); 6] = [
    ("base_target", "500us"),
    ("fs_range", "500us"),
    ("ack_every", "2"),
    ("ack_delay", "100us"),
    ("min_rto", "10ms"),
    ("initial_rto", "10ms"),
];
/// UDP payload of a full packet over Ethernet, and over loopback, whose MTU is 64 KiB.
const ETHERNET_DATAGRAM: usize = 1_472;
const LOOPBACK_DATAGRAM: usize = 8_972;
/// Key of endpoints that have none: any other endpoint without a key can communicate with them.
const NO_KEY: &[u8] = b"no key";
/// Messages that a server is prepared for: those of a sender without `--size`.
const USUAL_SIZES: Sizes = Sizes::Fixed(1_000_000);

/// The default protocol.
pub const DEFAULT_PROTOCOL: &str = Protocol::DEFAULT.info().name;

/// A protocol with its parameters.
#[derive(Clone, Debug)]
pub struct Transport {
    stack: Stack,
    /// Parameters that differ from those in a simulated fabric, `name=value`.
    set: Vec<String>,
}

impl Transport {
    /// A protocol and parameters to change, `name=value`, as the options `--protocol` and `--param`
    /// name them.
    ///
    /// # Errors
    /// If the protocol or a parameter is unknown, or a value is invalid.
    pub fn parse(protocol: &str, params: &[String]) -> Result<Transport, Error> {
        let protocol = options::protocol("--protocol", protocol)?;
        let mut stack = protocol.stack();
        let mut set = BTreeMap::from_iter(live_params(&stack));
        for param in params {
            let (name, value) = param
                .split_once('=')
                .ok_or_else(|| usage("--param", format!("found {param:?}, expected name=value")))?;
            set.insert(name.trim(), value.trim());
        }
        let values = set.iter().map(|(name, value)| (*name, *value));
        options::parameters("--param", &mut stack, values)?;
        let set = set.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Transport { stack, set })
    }
}

/// Options of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// The protocol.
    pub transport: Transport,
    /// Rate of the link.
    pub rate: Rate,
    /// UDP payload of a full packet; `None`: the usual value for the network at that address, and
    /// for a sender, the value of the peer.
    pub datagram: Option<usize>,
    /// Round-trip time on an empty network.
    pub base_rtt: Option<Span>,
    /// Bandwidth-delay product.
    pub bdp_bytes: Option<u64>,
    /// Switches on the path.
    pub hops: u32,
    /// Functions of the switches.
    pub switches: Vec<Need>,
    /// Number of strict priorities of the network.
    pub priorities: u8,
    /// File with the key.
    pub key: Option<PathBuf>,
    /// Disables segmentation and coalescing of datagrams.
    pub no_offloads: bool,
    /// How long the socket is polled before the thread sleeps.
    pub busy_poll: Duration,
}

impl EndpointOptions {
    /// Options of a link with this rate behind one switch without functions.
    pub fn new(transport: Transport, rate: Rate) -> EndpointOptions {
        EndpointOptions {
            transport,
            rate,
            datagram: None,
            base_rtt: None,
            bdp_bytes: None,
            hops: 1,
            switches: Vec::new(),
            priorities: 1,
            key: None,
            no_offloads: false,
            busy_poll: Duration::ZERO,
        }
    }
}

/// Functions of switches, by the name on the command line.
pub const SWITCHES: [(&str, Need); 10] = [
    ("ecn", Need::Ecn),
    ("core-ecn", Need::CoreEcn),
    ("peak", Need::PeakHopDelay),
    ("core-peak", Need::CorePeakHopDelay),
    ("hops", Need::HopRecords),
    ("pfc", Need::Lossless),
    ("credit-queues", Need::CreditQueues),
    ("trimming", Need::Trimming),
    ("circuits", Need::Circuits),
    ("same-clock", Need::SameClock),
];

/// An endpoint that is set up.
struct Endpoint {
    driver: Driver,
    protocol: &'static str,
    rate: Rate,
    settings: Settings,
}

/// Functions of switches, by the names that `--switches` lists.
///
/// # Errors
/// If a name is unknown.
pub fn switches(names: &[String]) -> Result<Vec<Need>, Error> {
    let need = |name: &String| {
        let known = SWITCHES.iter().find(|(known, _)| known == name);
        let names = || SWITCHES.map(|(name, _)| name).join(", ");
        known.map(|&(_, need)| need).ok_or_else(|| {
            usage("--switches", format!("found {name:?}, expected some of {}", names()))
        })
    };
    names.iter().map(need).collect()
}

fn usage(option: &'static str, message: impl Into<String>) -> Error {
    Error::Usage { option, message: message.into() }
}

/// Error for a host without an address.
pub fn no_address(host: &str) -> Error {
    usage(
        "ADDRESS",
        format!("found {host:?}, expected an address and a port, such as 127.0.0.1:5270"),
    )
}

/// Error for a host whose name has no address.
pub fn unresolved(host: &str, why: &io::Error) -> Error {
    let message = format!(
        "found {host:?}, but this name does not resolve ({why}): correct it, or use an IP \
         address, such as 127.0.0.1:5270"
    );
    usage("ADDRESS", message)
}

/// The key in a file; without one, [`NO_KEY`].
fn key(path: Option<&Path>) -> Result<Key, Error> {
    let Some(path) = path else { return Ok(Key::new(NO_KEY)) };
    let bytes = tidegate_scenario::files::read(path, 1 << 20).map_err(|why| {
        let file = path.display();
        let remedy = match why.kind() {
            io::ErrorKind::NotFound => {
                format!(": make one with `head -c 32 /dev/urandom > {file}`, for all endpoints")
            }
            _ => String::new(),
        };
        usage("--key", format!("{file}: {why}{remedy}"))
    })?;
    let decoded = unhex(&bytes);
    let digits = if decoded.is_some() { ", two hexadecimal digits for each" } else { "" };
    let secret = decoded.unwrap_or(bytes);
    if secret.len() < MIN_KEY_BYTES {
        let found = format!("{}: found a key of {} bytes{digits}", path.display(), secret.len());
        return Err(usage("--key", format!("{found}, expected {MIN_KEY_BYTES} at least")));
    }
    Ok(Key::new(&secret))
}

/// Decodes a text of hexadecimal digits, two per byte, with an optional newline at the end; `None`
/// for any other file, whose bytes are the key.
fn unhex(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_suffix(b"\n").unwrap_or(text);
    let digits = digits.strip_suffix(b"\r").unwrap_or(digits);
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|value| value as u8);
    let (pairs, rest) = digits.as_chunks::<2>();
    if pairs.is_empty() || !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}

/// Parameters of a protocol that have other defaults than in a simulated fabric.
fn live_params(stack: &Stack) -> impl Iterator<Item = (&'static str, &'static str)> {
    let names: Vec<_> = stack.values().into_iter().map(|(name, _)| name).collect();
    LIVE_PARAMS.into_iter().filter(move |(name, _)| names.contains(name))
}

/// Number of strict priorities that protocols with a class of their own need: data has the lowest,
/// and switches that trim have one each for headers and for control packets above it.
fn least_priorities(trims: bool) -> u8 {
    if trims { 3 } else { 2 }
}

/// Error for options that no node can be built from, with a correction.
fn misconfigured(why: &ConfigError, named: &[Need]) -> Error {
    match why {
        ConfigError::Needs { needs, .. } => {
            let missing = SWITCHES.iter().filter(|(_, need)| needs.contains(need));
            let names: Vec<_> = missing.map(|(name, _)| *name).collect();
            let trims = [needs, named].iter().any(|all| all.contains(&Need::Trimming));
            let switches = match names.is_empty() {
                true => String::new(),
                false => format!(" --switches {}", names.join(",")),
            };
            let priorities = match needs.contains(&Need::Priorities) {
                true => format!(" --priorities {}", least_priorities(trims)),
                false => String::new(),
            };
            let options = format!("if the network provides it, add{switches}{priorities}");
            usage("--protocol", format!("{why}: {options}"))
        }
        ConfigError::Range { what, found, allowed } => {
            let option = match what {
                Setting::Rate => "--rate",
                Setting::Datagram => "--datagram",
                Setting::BaseRtt => "--base-rtt",
                Setting::Hops => "--hops",
                Setting::Priorities => "--priorities",
                Setting::Sizes => "--param",
                Setting::Batch
                | Setting::Peers
                | Setting::MessageBytes
                | Setting::UnreadBytes
                | Setting::Silence => return Error::Run(why.to_string()),
            };
            usage(option, format!("found {found}, expected {allowed}"))
        }
    }
}

impl Endpoint {
    /// Opens an endpoint at the address of `option` for messages of these sizes, with datagrams of
    /// `datagram` bytes unless the options set another size.
    fn open(
        options: &EndpointOptions,
        datagram: usize,
        (option, address): (&'static str, SocketAddr),
        sizes: &Sizes,
    ) -> Result<Endpoint, Error> {
        let EndpointOptions { transport: Transport { stack, set }, rate, .. } = options;
        let mut config = Config {
            datagram: options.datagram.unwrap_or(datagram),
            base_rtt: options.base_rtt,
            bdp_bytes: options.bdp_bytes.map(|bytes| bytes as f64),
            hops: options.hops,
            switches: options.switches.clone(),
            priorities: options.priorities,
            ..Config::real(stack.clone(), key(options.key.as_deref())?, *rate)
        };
        config.limits.silence = SILENCE;
        let trims = options.switches.contains(&Need::Trimming);
        if options.priorities >= least_priorities(trims) {
            config.switches.push(Need::Priorities);
        }
        let misconfigured = |why| misconfigured(&why, &options.switches);
        config.fit(&SizeMix::of(sizes)).map_err(misconfigured)?;
        let settings = Settings {
            rate_gbps: rate.as_bps() as f64 / 1e9,
            datagram_bytes: config.datagram as u64,
            params: set.clone(),
            base_rtt_us: None,
            base_rtt_measured: options.base_rtt.is_none(),
        };
        let entropy = node::entropy().map_err(|why| Error::Run(why.to_string()))?;
        let node = Node::new(config, entropy).map_err(misconfigured)?;
        let socket_options = SocketOptions {
            segment: !options.no_offloads,
            coalesce: !options.no_offloads,
            busy_poll: options.busy_poll,
            ..SocketOptions::default()
        };
        let socket = Socket::bind(address, socket_options).map_err(|why| {
            let remedy = match why.kind() {
                io::ErrorKind::AddrInUse => ": stop the other process, or choose another port",
                _ => "",
            };
            usage(option, format!("{address}: {why}{remedy}"))
        })?;
        let protocol = stack.protocol().info().name;
        Ok(Endpoint { driver: Driver::new(node, socket), protocol, rate: *rate, settings })
    }
}

/// Default datagram size for the network at an address.
fn usual_datagram(address: SocketAddr) -> usize {
    if address.ip().to_canonical().is_loopback() { LOOPBACK_DATAGRAM } else { ETHERNET_DATAGRAM }
}

/// Reports a warning if the path to a peer is outside the protocol's design range.
fn warned(node: &Node, peer: PeerId, protocol: &str, notice: &dyn Fn(&str)) -> Option<String> {
    let warning = format!("{protocol}: {}", node.domain_warning(peer)?);
    notice(&format!("warning: {warning}"));
    Some(warning)
}

/// Error of a node's socket.
fn failed(why: io::Error) -> Error {
    Error::Run(format!("the socket failed: {why}"))
}

/// Message for the end of a session, with the options to change.
fn session_error(why: CloseReason, to: SocketAddr, protocol: &str) -> String {
    match why {
        CloseReason::TooLong { .. } => format!("{to}: {why}: set --datagram"),
        CloseReason::OtherProtocol => {
            format!("{to} runs another protocol than {protocol}: set --protocol")
        }
        CloseReason::OtherParameters => format!(
            "{to} runs {protocol} with other parameters: set --param, or --switches trimming on \
             both sides or neither"
        ),
        CloseReason::OtherPayload { .. } => format!("{to}: {why}: set --datagram or --hops"),
        _ => format!("{to}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key that `--key` reads from a file of these bytes.
    fn key_of(bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, bytes).unwrap();
        key(Some(&path)).map(|_| unhex(bytes).unwrap_or(bytes.to_vec()))
    }

    #[test]
    fn a_binary_key_is_read_as_it_is() {
        // White space, at the ends or everywhere, is part of a binary key.
        for edge in [b' ', b'\n', b'\t', b'\r', 0, 255] {
            for bytes in [[edge; 16], {
                let mut b = [200; 16];
                b[0] = edge;
                b[15] = edge;
                b
            }] {
                assert_eq!(key_of(&bytes).unwrap(), bytes);
            }
        }
        assert_eq!(key_of(b"sixteen bytes at least\n").unwrap(), b"sixteen bytes at least\n");
        assert!(key_of(&[7; 15]).unwrap_err().to_string().contains("a key of 15 bytes"));
    }

    #[test]
    fn a_hexadecimal_key_is_decoded() {
        let bytes = b"\x00\x0a\xff\x20456789abcdef\x7f\x80".to_vec();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for text in [hex.clone(), format!("{hex}\n"), format!("{}\r\n", hex.to_uppercase())] {
            assert_eq!(key_of(text.as_bytes()).unwrap(), bytes);
        }
        // An odd number of digits is a text key; sixteen digits are eight bytes.
        assert_eq!(key_of(&hex.as_bytes()[1..]).unwrap(), hex.as_bytes()[1..]);
        let short = key_of(b"0123456789abcdef\n").unwrap_err().to_string();
        assert!(short.contains("a key of 8 bytes, two hexadecimal digits for each"), "{short}");
    }

    #[test]
    fn live_parameters_apply_where_they_exist() {
        let names = |stack| live_params(stack).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(&Protocol::DEFAULT.stack()), LIVE_PARAMS.map(|(name, _)| name));
        let set =
            |param: &str| Transport::parse(DEFAULT_PROTOCOL, &[param.to_owned()]).unwrap().set;
        assert!(set("min_rto = 9ms").contains(&"min_rto=9ms".to_owned()));
    }

    #[test]
    fn only_loopback_has_long_datagrams() {
        let usual = |text: &str| usual_datagram(text.parse().unwrap());
        assert_eq!((usual("127.0.0.9:1"), usual("[::1]:1")), (8_972, 8_972));
        assert_eq!((usual("10.0.0.1:1"), usual("0.0.0.0:1")), (1_472, 1_472));
    }
}
