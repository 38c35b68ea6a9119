//! Compares captures with a probe of the same run, by bytes and by tshark.

use std::collections::BTreeSet;
use std::fs;
use std::sync::mpsc::{Sender, channel};

use super::*;
use crate::headers::{Place, formats};
use crate::run::{RunOptions, run};
use crate::tshark::{self, Fields};
use tidegate_core::wire::{Format, Shown, telemetry};
use tidegate_core::{Body, Frame, HopTrace, PacketMut, frame_flag};
use tidegate_sim::Observer;
use tidegate_sim::simulation::observed;

/// Without loss, every protocol finishes; with loss, some show their recovery.
const LOSSES: [f64; 2] = [0.0, 0.1];

/// Kind of header that replies to a protocol violation, which no peer here commits: more channels
/// accepted than were granted.
const VIOLATION: &str = ".reject.";
/// Kind of header that replies to a request for packets which are not sent yet.
const BUSY: &str = ".busy.";

/// An incast, and a message between racks, with marking if the protocol needs it.
fn plan(protocol: Protocol, loss: f64) -> Plan {
    let protocol = protocol.info().name;
    let text = format!(
        r#"
seed = 5
duration = "8ms"
[fabric]
kind = "leaf-spine"
racks = 2
hosts_per_rack = 2
spines = 2
[transport]
protocol = "{protocol}"
[[flows]]
src = "h0"
dst = "h3"
size = "300KB"
[[flows]]
src = "h1"
dst = "h3"
size = "1501B"
[[flows]]
src = "h2"
dst = "h3"
size = "100KB"
count = 2
[faults]
loss = {loss}
"#
    );
    tidegate_scenario::load(&text, "capture.toml", &[]).unwrap()
}

/// Protocols that run on this fabric.
fn anywhere() -> impl Iterator<Item = Protocol> {
    crate::samples::anywhere().filter_map(|info| Protocol::named(info.name))
}

/// A departed packet: time, port, and content.
#[derive(Clone, Debug, PartialEq)]
struct Departed {
    at: Time,
    port: u32,
    frame: Frame,
    body: Body,
    hops: HopTrace,
}

struct Watch(Sender<Departed>);

impl Observer for Watch {
    fn departed(&mut self, departure: &Departure<'_>) {
        let Departure { at, port, frame, body, hops, .. } = *departure;
        let left = Departed { at, port, frame: *frame, body: *body, hops: *hops };
        self.0.send(left).unwrap();
    }
}

/// All departures of the run, by time, then port.
fn watched(plan: &Plan) -> Vec<Departed> {
    let (to, departures) = channel();
    let mut engine = observed(plan.setup.clone(), Box::new(Watch(to))).unwrap();
    assert!(engine.advance_some(plan.duration, u64::MAX).unwrap());
    drop(engine);
    let mut left: Vec<Departed> = departures.into_iter().collect();
    left.sort_by_key(|left| (left.at, left.port));
    left
}

/// A packet of a file.
struct Packet {
    interface: String,
    at_ns: u64,
    bytes: Vec<u8>,
    length: u32,
}

/// Parses a file by the format's specification, without the code that wrote it.
fn packets(file: &[u8]) -> Vec<Packet> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut at, mut names, mut packets) = (0, Vec::new(), Vec::new());
    while at < file.len() {
        let length = word(at + 4) as usize;
        match word(at) {
            0x0a0d_0d0a => assert_eq!((at, word(at + 8)), (0, 0x1a2b_3c4d)),
            1 => {
                let name = (word(at + 16) >> 16) as usize;
                assert_eq!(word(at + 16) & 0xffff, 2, "the first option is the name");
                names.push(String::from_utf8(file[at + 20..at + 20 + name].to_vec()).unwrap());
            }
            6 => packets.push(Packet {
                interface: names[word(at + 8) as usize].clone(),
                at_ns: (word(at + 12) as u64) << 32 | word(at + 16) as u64,
                bytes: file[at + 28..at + 28 + word(at + 20) as usize].to_vec(),
                length: word(at + 24),
            }),
            other => panic!("a block of type {other}"),
        }
        at += length;
    }
    packets
}

/// The capture of a run.
fn captured(plan: &Plan, of: &[&str]) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pcapng");
    let of: Vec<String> = of.iter().map(|name| name.to_string()).collect();
    let capture = Some(Capture { file: &file, of: &of });
    run(plan, &RunOptions { capture, ..RunOptions::default() }).unwrap();
    fs::read(file).unwrap()
}

fn port_name(plan: &Plan, port: u32) -> String {
    let (_, a, b) = directions(&plan.fabric).nth(port as usize).unwrap();
    format!("{}->{}", name(&plan.fabric, a), name(&plan.fabric, b))
}

#[test]
fn a_capture_holds_departures_in_order() {
    for (protocol, loss) in anywhere().flat_map(|all| LOSSES.map(|loss| (all, loss))) {
        let name = protocol.info().name;
        let plan = plan(protocol, loss);
        let all = watched(&plan);
        for (of, wanted) in [
            (&[][..], (|port: &str| port.contains('h')) as fn(&str) -> bool),
            (&["spine*"], |port| port.contains("spine")),
            (&["h3", "tor0->spine1"], |port| port.contains("h3") || port == "tor0->spine1"),
        ] {
            let left: Vec<_> =
                all.iter().filter(|left| wanted(&port_name(&plan, left.port))).collect();
            let packets = packets(&captured(&plan, of));
            assert_eq!(packets.len(), left.len(), "{name}, {of:?}");
            assert!(loss > 0.0 || packets.len() > 100, "{name}, {of:?}: {}", packets.len());
            for (packet, left) in packets.iter().zip(left) {
                same(&plan, protocol, packet, left);
            }
        }
    }
}

/// Asserts that a packet of a file equals a departure.
fn same(plan: &Plan, protocol: Protocol, packet: &Packet, left: &Departed) {
    let name = protocol.info().name;
    assert_eq!(packet.interface, port_name(plan, left.port));
    assert_eq!(packet.at_ns, left.at.as_ps() / 1_000);
    let (ip, udp) = (&packet.bytes[14..34], &packet.bytes[34..42]);
    let host = |address: &[u8]| u32::from_be_bytes([0, address[1], address[2], address[3]]);
    assert_eq!((host(&ip[12..16]), host(&ip[16..20])), (left.body.src, left.frame.dst));
    let sum: u32 = ip.chunks(2).map(|word| u16::from_be_bytes([word[0], word[1]]) as u32).sum();
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff, "the checksum of IP");
    let is = |flag| left.frame.flags & flag != 0;
    let ecn = match ip[1] & 3 {
        0 => !is(frame_flag::ECN_CAPABLE),
        2 => is(frame_flag::ECN_CAPABLE) && !is(frame_flag::CONGESTION_EXPERIENCED),
        3 => is(frame_flag::CONGESTION_EXPERIENCED),
        _ => false,
    };
    assert!(ecn && ip[1] >> 5 == 7 - left.frame.priority, "{:#x}: {:?}", ip[1], left.frame);
    let short = |bytes: &[u8]| u16::from_be_bytes([bytes[0], bytes[1]]) as u32;
    assert_eq!(short(&ip[2..4]) + 14, packet.length);
    assert_eq!(short(&udp[4..6]) + 34, packet.length);
    assert_eq!(short(&udp[2..4]), protocol.headers().port as u32);

    // The payload is not stored; it is compared as zeros.
    let mut datagram = packet.bytes[42..].to_vec();
    assert_eq!(datagram.len() as u32 + left.body.payload_bytes, packet.length - 42);
    datagram.resize(packet.length as usize - 42, 0);
    let mut read = Departed {
        at: left.at,
        port: left.port,
        frame: Frame { peak_hop_delay: Span::ZERO, ..left.frame },
        body: Body { src: left.body.src, transport: left.body.transport, ..Body::default() },
        hops: HopTrace::default(),
    };
    let Departed { frame, body, hops, .. } = &mut read;
    let headers = protocol.parse(&datagram, PacketMut { frame, body, hops }).unwrap();
    assert_eq!(headers, packet.bytes.len() - 42);
    assert_eq!(&read, left, "{name}");
}

#[test]
fn two_protocols_keep_their_ports() {
    let names: Vec<&str> = anywhere().map(|protocol| protocol.info().name).collect();
    // The order of the two protocols does not matter.
    for (first, second) in
        names.iter().zip(names.iter().skip(1)).flat_map(|(a, b)| [(a, b), (b, a)])
    {
        let text = format!(
            "duration = '300us'\nfabric = {{ kind = 'star', hosts = 3 }}\nflows = [\n{{ src = \
             'h0', dst = 'h2', size = '100KB' }},\n{{ src = 'h1', dst = 'h2', size = '100KB', \
             protocol = '{second}' }},\n]\n[transport]\nprotocol = '{first}'\n[switch]\nrouting = \
             'ecmp'\necn = {{ kmin = '100KB', kmax = '100KB', pmax = 1.0 }}\n"
        );
        let plan = match tidegate_scenario::load(&text, "two.toml", &[]) {
            Ok(plan) => plan,
            Err(why) => {
                // Two rules of trimming, or trimming and credit queues.
                let why = why.to_string();
                assert!(why.contains("trimming"), "{why}");
                continue;
            }
        };
        let summary = run(&plan, &RunOptions::default()).unwrap();
        let unfinished = summary.fct.values().map(|fct| fct.unfinished).sum::<u64>();
        assert_eq!(unfinished, 0, "{first}, {second}");
        let packets = packets(&captured(&plan, &["h0", "h1"]));
        for (host, name) in [("h0", first), ("h1", second)] {
            let port = Protocol::named(name).unwrap().headers().port;
            let of_host = packets.iter().filter(|packet| packet.interface.contains(host));
            let ports: Vec<u16> = of_host
                .map(|packet| u16::from_be_bytes([packet.bytes[36], packet.bytes[37]]))
                .collect();
            assert!(ports.len() > 20 && ports.iter().all(|&other| other == port), "{name}");
        }
    }
}

#[test]
fn files_are_complete_and_not_replaced_by_default() {
    let folder = tempfile::tempdir().unwrap();
    let plan = plan(Protocol::ALL[0], 0.0);
    let file = folder.path().join("run.pcapng");
    let names = || fs::read_dir(folder.path()).unwrap().count();
    let refused = |file: &Path, of: &[String], force| {
        let capture = Some(Capture { file, of });
        let options = RunOptions { capture, force, ..RunOptions::default() };
        let error = run(&plan, &options).unwrap_err();
        (error.exit_code(), error.to_string())
    };
    let (code, message) = refused(&file, &["spin*".to_owned(), "h9".to_owned()], false);
    assert!(code == 2 && message.starts_with("--pcap-of: `h9`"), "{message}");
    assert!(message.contains("`h0->tor0`"), "{message}");
    let (code, message) = refused(folder.path(), &[], true);
    assert!(
        code == 2 && message.starts_with("--pcap: ") && message.contains("folder"),
        "{message}"
    );
    let (code, message) = refused(&folder.path().join("none/run.pcapng"), &[], false);
    assert!(code == 2 && message.starts_with("--pcap: ") && message.contains("none"), "{message}");
    let stop = std::sync::atomic::AtomicBool::new(true);
    let capture = Some(Capture { file: &file, of: &[] });
    let options = RunOptions { capture, interrupted: Some(&stop), ..RunOptions::default() };
    assert!(matches!(run(&plan, &options), Err(Error::Interrupted)));
    assert_eq!(names(), 0, "nothing is left of what was refused or interrupted");

    fs::write(&file, "mine").unwrap();
    let (code, message) = refused(&file, &[], false);
    assert!(code == 2 && message.contains("--force"), "{message}");
    assert_eq!(fs::read(&file).unwrap(), b"mine");
    run(&plan, &RunOptions { capture, force: true, ..RunOptions::default() }).unwrap();
    assert!(packets(&fs::read(&file).unwrap()).len() > 100);
    assert_eq!(names(), 1);
}

/// The fields of the headers at the beginning of a datagram, and the length of its payload.
fn fields(protocol: Protocol, mut bytes: &[u8], payload: u32) -> Fields {
    let mut found = Fields::new();
    while bytes[1] >= telemetry::FIRST_KIND {
        bytes = tshark::header(&telemetry::FORMAT, bytes, &mut found);
    }
    let rest = tshark::header(protocol.headers(), bytes, &mut found);
    assert!(rest.is_empty());
    found.insert(payload_bytes(protocol.headers()), vec![payload.to_string()]);
    found
}

fn payload_bytes(format: &Format) -> String {
    format!("tidegate_{}.payload_bytes", format.name)
}

#[test]
fn tshark_decodes_departures() {
    if !tshark::has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.pcapng");
    // All captures are sections of one file, because tshark takes long to start.
    let (mut sections, mut packets_of) = (Vec::new(), Vec::new());
    for (protocol, loss) in anywhere().flat_map(|all| LOSSES.map(|loss| (all, loss))) {
        let bytes = captured(&plan(protocol, loss), &["*"]);
        packets_of.extend(packets(&bytes).into_iter().map(|packet| (protocol, packet)));
        sections.extend(bytes);
    }
    fs::write(&file, &sections).unwrap();
    let simulated = |place: &Place| matches!(place, Place::Telemetry | Place::Transport(_));
    let formats: Vec<&Format> =
        formats().into_iter().filter(|(_, place)| simulated(place)).map(|(of, _)| of).collect();
    let mut columns: Vec<_> = formats.iter().flat_map(|format| tshark::fields(format)).collect();
    columns.extend(formats.iter().map(|format| (payload_bytes(format), Shown::Number)));
    let shown = tshark::seen(&file, &columns);
    assert_eq!(shown.len(), packets_of.len());
    let mut seen = BTreeSet::new();
    for (shown, (protocol, packet)) in shown.into_iter().zip(packets_of) {
        let payload = packet.length - packet.bytes.len() as u32;
        let expected = fields(protocol, &packet.bytes[42..], payload);
        assert_eq!(shown, expected, "{}", protocol.info().name);
        seen.extend(shown.into_keys());
    }
    // All kinds of headers must occur.
    for format in formats {
        for kind in format.kinds {
            let own = format!("tidegate_{}.{}.", format.name, kind.name.to_lowercase());
            let is_seen = seen.iter().any(|name| name.starts_with(&own));
            // Only one protocol's senders need to be busy long enough to show this kind.
            let is_others = own.ends_with(BUSY) && seen.iter().any(|name| name.contains(BUSY));
            let is_violation = own.ends_with(VIOLATION);
            assert!(is_seen || is_others || is_violation, "{own} is in no capture");
        }
    }
}
