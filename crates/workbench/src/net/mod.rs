//! Real endpoints: who serves, who sends, and what both measure.
//!
//! Both turn a [`Driver`] in their own thread, with nothing between what they measure and the
//! socket.

mod intervals;
mod report;
mod send;
mod serve;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use tidegate_algos::Protocol;
use tidegate_core::workload::{Sizes, Traffic};
use tidegate_core::{Need, Rate, Span};
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::node::{self, Config, ConfigError, Gone, Node, PeerId};
use tidegate_endpoint::session::Key;
use tidegate_endpoint::socket::{Socket, SocketOptions};
use tidegate_scenario::{Override, load, magnitude};

use crate::Error;

pub use intervals::Interval;
pub use report::{Completed, NetEngine, NetSummary, Network, Settings, rate_shown, time_shown};
pub use send::{Mode, SendOptions, send};
pub use serve::{ServeOptions, serve};

/// Smallest key that keeps anybody out.
const LEAST_KEY_BYTES: usize = 16;
/// Who does not answer for so long is not there.
const SILENCE: Span = Span::s(5);
/// At the end peers have so long to say that they have heard of it.
const GOODBYE: Span = Span::ms(500);
/// Parameters that differ from a simulated fabric's, of protocols that have them. A process waits
/// for its core for some 50 us at rest and for milliseconds beside others. A target below that
/// keeps a link idle, a timeout below it sends packets twice, and an acknowledgement for every
/// packet costs as much processor time as the packet.
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
/// What an endpoint without a key has: whoever has none, too, may speak with it.
const NO_KEY: &[u8] = b"no key";
/// The fabric behind an endpoint, as far as it is known. Options change it as `--set` changes a
/// scenario, so that there is one way to read quantities and parameters.
const BEHIND: &str = r#"
duration = "1ms"
warmup = "0ms"
[fabric]
kind = "star"
hosts = 2
mtu = "1024B"
host_link = { rate = "1Gbps", delay = "1us" }
[[traffic]]
kind = "poisson"
label = "messages"
sizes = "1MB"
load = 0.5
"#;

/// The protocol of who names none.
pub const USUAL: &str = Protocol::USUAL.info().name;

/// What an endpoint is told, as people write it.
#[derive(Clone, Debug, Default)]
pub struct EndpointOptions {
    /// The protocol.
    pub protocol: String,
    /// Parameters of it that differ, `name=value`.
    pub params: Vec<String>,
    /// Rate of the link.
    pub rate: String,
    /// UDP payload of a full packet; none: what the network carries at that address, and of who
    /// sends, what the peer has.
    pub datagram: Option<String>,
    /// Round trip on an empty network.
    pub base_rtt: Option<String>,
    /// Bandwidth-delay product.
    pub bdp: Option<String>,
    /// Switches on the path.
    pub hops: u32,
    /// What switches do.
    pub switches: Vec<String>,
    /// Strict priorities of the network.
    pub priorities: u8,
    /// File with the key.
    pub key: Option<PathBuf>,
    /// Neither segments nor coalesces.
    pub no_offloads: bool,
    /// For so long it is looked at the socket before sleeping.
    pub busy_poll: Option<String>,
}

/// What switches may be said to do, by the name on the command line.
pub const SWITCHES: [(&str, Need); 8] = [
    ("ecn", Need::Ecn),
    ("core-ecn", Need::CoreEcn),
    ("peak", Need::PeakHopDelay),
    ("hops", Need::HopRecords),
    ("pfc", Need::Lossless),
    ("credit-queues", Need::CreditQueues),
    ("circuits", Need::Circuits),
    ("same-clock", Need::SameClock),
];

/// An endpoint that was set up.
struct Endpoint {
    driver: Driver,
    protocol: &'static str,
    rate: Rate,
    settings: Settings,
    sizes: Sizes,
    /// Messages in the mean a second that load it so far.
    load: f64,
}

fn usage(option: &'static str, message: impl Into<String>) -> Error {
    Error::Usage { option, message: message.into() }
}

/// A quantity of an option.
fn quantity(option: &'static str, text: &str, unit: &str, example: &str) -> Result<f64, Error> {
    let known = magnitude(text).filter(|&(value, of)| of == unit && value > 0.0);
    known.map(|(value, _)| value).ok_or_else(|| {
        usage(option, format!("found {text:?}, expected a quantity such as {example}"))
    })
}

fn span(option: &'static str, text: &str) -> Result<Span, Error> {
    quantity(option, text, "us", "20us").map(Span::from_us_f64)
}

/// A duration of the clock, as scenarios write it.
pub fn duration(text: &str) -> Option<Duration> {
    let (us, _) =
        magnitude(text).filter(|&(us, unit)| unit == "us" && (0.0..1e12).contains(&us))?;
    Some(Duration::from_nanos((us * 1e3) as u64))
}

/// A host that has no address.
pub fn no_address(host: &str) -> Error {
    usage("ADDRESS", format!("found {host:?}, expected an address and a port, 127.0.0.1:5270 say"))
}

fn key(options: &EndpointOptions) -> Result<Key, Error> {
    let Some(path) = &options.key else { return Ok(Key::new(NO_KEY)) };
    let bytes = tidegate_scenario::files::read(path, 1 << 20)
        .map_err(|why| usage("--key", format!("{}: {why}", path.display())))?;
    let secret = unhex(&bytes).unwrap_or(bytes);
    if secret.len() < LEAST_KEY_BYTES {
        let found = format!("{}: found a key of {} bytes", path.display(), secret.len());
        return Err(usage("--key", format!("{found}, expected {LEAST_KEY_BYTES} at least")));
    }
    Ok(Key::new(&secret))
}

/// The bytes that a text of hexadecimal digits stands for, two digits a byte and perhaps the end of
/// a line; none of any other file, whose bytes are the key as they are.
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

/// Parameters of that protocol that are not as in a simulated fabric, unless they are set.
fn live_params(protocol: &str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let values = Protocol::named(protocol).map(|protocol| protocol.stack().values());
    let names: Vec<_> = values.into_iter().flatten().map(|(name, _)| name).collect();
    LIVE_PARAMS.into_iter().filter(move |(name, _)| names.contains(name))
}

/// What of the options is wrong where no node can be made by them, and how it would be right.
fn misconfigured(why: &ConfigError) -> Error {
    match why {
        ConfigError::Needs { needs, .. } => {
            let named = SWITCHES.iter().filter(|(_, need)| needs.contains(need));
            let names: Vec<_> = named.map(|(name, _)| *name).collect();
            let switches = match names.is_empty() {
                true => String::new(),
                false => format!(" --switches {}", names.join(",")),
            };
            let priorities = match needs.contains(&Need::Priorities) {
                true => " --priorities 2",
                false => "",
            };
            usage("--protocol", format!("{why}:{switches}{priorities} says that it is"))
        }
        ConfigError::Range { what, found, allowed } => {
            let known = ["--rate", "--datagram", "--hops", "--priorities", "--base-rtt"];
            let name = format!("--{}", what.to_lowercase().replace(' ', "-"));
            match known.into_iter().find(|option| *option == name) {
                Some(option) => usage(option, format!("found {found}, expected {allowed}")),
                None => Error::Run(why.to_string()),
            }
        }
    }
}

impl Endpoint {
    /// Sets up an endpoint at the address of that option, with datagrams of so many bytes unless
    /// the options say another. Sizes and load are those of what it will send.
    fn open(
        options: &EndpointOptions,
        datagram: usize,
        (option, address): (&'static str, SocketAddr),
        sizes: Option<&str>,
        load_of: Option<&str>,
    ) -> Result<Endpoint, Error> {
        let mut changes = vec![
            Override::protocol("--protocol", &options.protocol),
            Override::option("--rate", "fabric.host_link.rate", &options.rate),
        ];
        let mut params = BTreeMap::from_iter(live_params(&options.protocol));
        for param in &options.params {
            let (name, value) = param
                .split_once('=')
                .ok_or_else(|| usage("--param", format!("found {param:?}, expected name=value")))?;
            params.insert(name.trim(), value.trim());
        }
        for (name, value) in &params {
            let key = format!("transport.params.{name}");
            changes.push(Override::option("--param", &key, value));
        }
        let of_traffic = [("--size", "sizes", sizes), ("--load", "load", load_of)];
        for (option, key, value) in of_traffic {
            if let Some(value) = value {
                let key = format!("traffic.messages.{key}");
                changes.push(Override::option(option, &key, value));
            }
        }
        let plan = load(BEHIND, "the fabric behind it", &changes)
            .map_err(|why| Error::Scenario(why.to_string()))?;
        let (Some(stack), Some(traffic)) = (plan.stacks.first(), plan.workload.traffic.first())
        else {
            return Err(Error::Run("the fabric behind an endpoint has no traffic".into()));
        };
        let rate = plan.fabric.links.first().map_or(Rate::gbps(1), |link| link.rate);
        let datagram = match &options.datagram {
            Some(text) => quantity("--datagram", text, "B", "1472B")? as usize,
            None => datagram,
        };
        let mut config = Config {
            datagram,
            hops: options.hops,
            priorities: options.priorities,
            connections: plan.connections,
            ..Config::real(stack.clone(), key(options)?, rate)
        };
        config.base_rtt = options.base_rtt.as_deref().map(|t| span("--base-rtt", t)).transpose()?;
        let bdp = options.bdp.as_deref().map(|text| quantity("--bdp", text, "B", "100KB"));
        config.bdp_bytes = bdp.transpose()?;
        config.limits.silence = SILENCE;
        for name in &options.switches {
            let known = SWITCHES.iter().find(|(known, _)| known == name);
            let names = || SWITCHES.map(|(name, _)| name).join(", ");
            let &(_, need) = known.ok_or_else(|| {
                usage("--switches", format!("found {name:?}, expected some of {}", names()))
            })?;
            config.switches.push(need);
        }
        if options.priorities > 1 {
            config.switches.push(Need::Priorities);
        }
        let entropy = node::entropy().map_err(|why| Error::Run(why.to_string()))?;
        let node = Node::new(config, entropy).map_err(|why| misconfigured(&why))?;
        let socket_options = SocketOptions {
            segment: !options.no_offloads,
            coalesce: !options.no_offloads,
            busy_poll: options.busy_poll.as_deref().map_or(Ok(Duration::ZERO), |text| {
                duration(text).ok_or_else(|| {
                    usage("--busy-poll", format!("found {text:?}, expected a time such as 50us"))
                })
            })?,
            ..SocketOptions::default()
        };
        let socket = Socket::bind(address, socket_options)
            .map_err(|why| usage(option, format!("{address}: {why}")))?;
        let mean = match &traffic.sizes {
            Sizes::Fixed(bytes) => *bytes as f64,
            Sizes::Drawn(distribution) => distribution.mean_bytes,
        };
        let load = load_of.map_or(0.0, |_| plan_load(&plan.workload.traffic) / 8.0 / mean);
        Ok(Endpoint {
            driver: Driver::new(node, socket),
            protocol: stack.protocol().info().name,
            rate,
            settings: Settings {
                rate_gbps: rate.as_bps() as f64 / 1e9,
                datagram_bytes: datagram as u64,
                params: params.iter().map(|(name, value)| format!("{name}={value}")).collect(),
            },
            sizes: traffic.sizes.clone(),
            load,
        })
    }
}

/// Datagrams that the network carries at an address, unless something else is known.
fn usual_datagram(address: SocketAddr) -> usize {
    if address.ip().to_canonical().is_loopback() { LOOPBACK_DATAGRAM } else { ETHERNET_DATAGRAM }
}

/// Tells whoever listens that the protocol is not at home on the path to a peer, where that is so.
fn warned(node: &Node, peer: PeerId, protocol: &str, says: &dyn Fn(&str)) -> Option<String> {
    let warning = format!("{protocol}: {}", node.domain_warning(peer)?);
    says(&format!("warning: {warning}"));
    Some(warning)
}

/// Payload that generators offer one host, in bit/s: both that there are send.
fn plan_load(traffic: &[Traffic]) -> f64 {
    traffic.first().and_then(tidegate_scenario::asked_bps).unwrap_or(0.0) / 2.0
}

/// What a node on its socket says.
fn failed(why: io::Error) -> Error {
    Error::Run(format!("the socket failed: {why}"))
}

/// Why a session is over, as people read it.
fn because(why: Gone, to: SocketAddr, protocol: &str) -> String {
    match why {
        Gone::TooLong { .. } => format!("{to}: {why}: --datagram"),
        Gone::OtherProtocol => format!("{to} runs another protocol than {protocol}: --protocol"),
        Gone::OtherParameters => format!("{to} runs {protocol} with other parameters: --param"),
        Gone::OtherPayload { .. } => format!("{to}: {why}: --datagram, --hops"),
        _ => format!("{to}: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `--key` makes of a file of these bytes.
    fn key_of(bytes: &[u8]) -> Result<Vec<u8>, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        std::fs::write(&path, bytes).unwrap();
        let options = EndpointOptions { key: Some(path), ..EndpointOptions::default() };
        key(&options).map(|_| unhex(bytes).unwrap_or(bytes.to_vec()))
    }

    #[test]
    fn a_binary_key_is_read_as_it_is() {
        // White space at the ends, or all of it, is as good as any other bytes.
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
    fn a_key_of_hexadecimal_digits_is_the_bytes_that_they_stand_for() {
        let bytes = b"\x00\x0a\xff\x20456789abcdef\x7f\x80".to_vec();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        for text in [hex.clone(), format!("{hex}\n"), format!("{}\r\n", hex.to_uppercase())] {
            assert_eq!(key_of(text.as_bytes()).unwrap(), bytes);
        }
        // An odd number of digits is text, and so its own bytes; sixteen digits are eight bytes.
        assert_eq!(key_of(&hex.as_bytes()[1..]).unwrap(), hex.as_bytes()[1..]);
        assert!(key_of(b"0123456789abcdef\n").unwrap_err().to_string().contains("8 bytes"));
    }

    #[test]
    fn parameters_of_the_table_are_set_where_a_protocol_has_them() {
        let names = |protocol| live_params(protocol).map(|(name, _)| name).collect::<Vec<_>>();
        assert_eq!(names(USUAL), LIVE_PARAMS.map(|(name, _)| name));
        assert!(names("nothing").is_empty());
    }

    #[test]
    fn datagrams_are_long_over_loopback_alone() {
        let usual = |text: &str| usual_datagram(text.parse().unwrap());
        assert_eq!((usual("127.0.0.9:1"), usual("[::1]:1")), (8_972, 8_972));
        assert_eq!((usual("10.0.0.1:1"), usual("0.0.0.0:1")), (1_472, 1_472));
    }
}
