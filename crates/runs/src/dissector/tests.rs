//! Checks tshark's decoding of live UDP datagrams.

use std::collections::BTreeSet;
use std::fs;
use std::net::SocketAddr;
use std::path::Path;

use bytes::Bytes;
use tidegate_algos::Protocol;
use tidegate_core::wire::{Format, Header as _, Shown, forwarding, telemetry};
use tidegate_core::{Domain, Need, Rate, Rng, Span, Time};
use tidegate_endpoint::node::{Arrival, Config, Event, Node, Terms};
use tidegate_endpoint::session::header::{Data, Header, Refuse, Reset};
use tidegate_endpoint::session::{Key, OVERHEAD_BYTES};

use crate::headers::{Place, formats};
use crate::tshark::{self, Fields};

/// Ports by host: an unregistered one, and the default.
const PORTS: [u16; 2] = [40_000, Header::FORMAT.port];
const TAG_BYTES: usize = OVERHEAD_BYTES - Data::BYTES;
const SESSION: &Format = &Header::FORMAT;

/// A datagram, and the host that sent it.
type Sent = (usize, Vec<u8>);

fn address(host: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host as u8], PORTS[host]))
}

fn node(protocol: Protocol, seed: u64) -> Node {
    let mut rng = Rng::stream(seed, Domain::Stack, 0);
    let entropy = Box::new(move |bytes: &mut [u8]| {
        bytes.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
    });
    // All but one protocol declare trimming, so that all headers of packets occur.
    let has = |need: &Need| protocol != Protocol::DEFAULT || *need != Need::Trimming;
    let config = Config {
        base_rtt: Some(Span::us(20)),
        priorities: 8,
        switches: Need::ALL.into_iter().filter(has).collect(),
        ..Config::new(protocol.stack(), Key::new(b"of these two"), Rate::gbps(10))
    };
    Node::new(config, entropy).unwrap()
}

/// A session with one message, from the handshake to its end.
fn session(protocol: Protocol) -> Vec<Sent> {
    let mut nodes = [1, 2].map(|seed| node(protocol, seed));
    let (mut now, mut out) = (Time::ms(1), vec![0; 2_048]);
    let (mut sent, mut landed, mut ended) = (Vec::new(), 0, false);
    let peer = nodes[0].connect(now, address(1)).unwrap();
    let body = Bytes::from_static(&[7; 20_000]);
    nodes[0].send(now, peer, &[], body, Terms::default()).unwrap();
    while !ended {
        assert!(now < Time::s(2), "{}: no end", protocol.info().name);
        for (from, node) in nodes.iter_mut().enumerate() {
            while let Some(departure) = node.transmit(now, &mut out) {
                sent.push((from, out[..departure.bytes].to_vec()));
            }
        }
        now += Span::us(10);
        for (from, mut bytes) in sent[landed..].iter().cloned() {
            let bytes = &mut bytes[..];
            let arrival = Arrival { from: address(from), tos: 0, held: Span::ZERO, bytes };
            nodes[1 - from].receive(now, arrival);
        }
        landed = sent.len();
        for node in &mut nodes {
            if node.deadline() <= now {
                node.on_deadline(now);
            }
        }
        while let Some(event) = nodes[0].event() {
            match event {
                Event::Delivered(_) => nodes[0].close(now, peer),
                Event::Closed(..) => ended = true,
                _ => {}
            }
        }
    }
    sent
}

/// Writes datagrams to a file in the old pcap format, whose packets start with IP.
fn write(file: &Path, sent: &[Sent]) {
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut bytes: Vec<u8> = words(&[0xa1b2_c3d4, 4 << 16 | 2, 0, 0, 1 << 16, 228]);
    for (i, (from, payload)) in sent.iter().enumerate() {
        let length = (28 + payload.len()) as u16;
        bytes.extend::<Vec<u8>>(words(&[0, i as u32, length.into(), length.into()]));
        bytes.extend([0x45, 0].into_iter().chain(length.to_be_bytes()));
        bytes.extend([0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend([10, 0, 0, *from as u8, 10, 0, 0, 1 - *from as u8]);
        let [source, destination] = [PORTS[*from], PORTS[1 - from]];
        for short in [source, destination, length - 20, 0] {
            bytes.extend(short.to_be_bytes());
        }
        bytes.extend(payload);
    }
    fs::write(file, bytes).unwrap();
}

/// All fields that a dissector can show if it knows the transport.
fn expected(transport: Option<&Format>, datagram: &[u8]) -> Fields {
    let (mut found, mut rest) = (Fields::new(), datagram);
    while rest[1] >= telemetry::FIRST_KIND {
        rest = tshark::header(&telemetry::FORMAT, rest, &mut found);
    }
    let is_of_session = |number: u8| SESSION.kinds.iter().any(|kind| kind.number == number);
    if !is_of_session(rest[1]) {
        let (own, behind) = rest.split_at(4 * usize::from(rest[3]));
        match transport {
            Some(transport) => assert!(tshark::header(transport, own, &mut found).is_empty()),
            None => {
                let all = vec![tshark::hexadecimal(own)];
                found.insert("tidegate_session.transport".into(), all);
            }
        }
        rest = behind;
    }
    // Zeros follow a Hello; other kinds have no padding, except for two.
    let is_question = rest[1] == SESSION.kinds[0].number;
    rest = tshark::header(SESSION, rest, &mut found);
    if is_question {
        assert!(rest.iter().all(|&byte| byte == 0));
    } else if let Some((sealed, tag)) = rest.split_last_chunk::<TAG_BYTES>() {
        let both = [("sealed", sealed), ("tag", &tag[..])];
        for (name, bytes) in both.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
            found.insert(format!("tidegate_session.{name}"), vec![tshark::hexadecimal(bytes)]);
        }
    }
    found
}

/// Asserts that tshark shows exactly the expected fields of these sessions, which are in one file,
/// because tshark takes long to start.
fn assert_seen(sessions: &[(Protocol, Vec<Sent>)], is_known: bool) -> BTreeSet<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("endpoints.pcap");
    let sent: Vec<Sent> = sessions.iter().flat_map(|(_, sent)| sent).cloned().collect();
    write(&file, &sent);
    let readable = formats().into_iter().filter(|(_, place)| !matches!(place, Place::Sealed));
    let mut columns: Vec<_> = readable.flat_map(|(format, _)| tshark::fields(format)).collect();
    let whole = ["transport", "sealed", "tag"].map(|name| format!("tidegate_session.{name}"));
    columns.extend(whole.map(|name| (name, Shown::Bytes)));
    let seen = tshark::seen(&file, &columns);
    assert_eq!(seen.len(), sent.len());
    let protocols = sessions.iter().flat_map(|(protocol, sent)| sent.iter().map(move |_| protocol));
    for ((seen, (_, datagram)), protocol) in seen.iter().zip(&sent).zip(protocols) {
        let known = is_known.then(|| protocol.headers());
        assert_eq!(*seen, expected(known, datagram), "{}", protocol.info().name);
    }
    seen.into_iter().flat_map(Fields::into_keys).collect()
}

#[test]
fn tshark_decodes_sessions() {
    if !tshark::has_tshark() {
        return;
    }
    let (mut whole, mut without_handshake) = (Vec::new(), Vec::new());
    for &protocol in Protocol::ALL {
        let mut sent = session(protocol);
        // A kind that these peers do not send.
        let refuse = Refuse { to: 3, reason: 4, instead: 5, mac: [6; 16] };
        for header in [refuse.into(), Header::from(Reset { of: 7, token: [8; 16] })] {
            let mut bytes = vec![0; header.bytes()];
            header.emit(&mut bytes).unwrap();
            sent.push((1, bytes));
        }
        // A packet that a switch has trimmed.
        let cut = sent.iter().find_map(|(from, bytes)| {
            let kept = forwarding::read(bytes)?.kept_bytes?;
            Some((*from, bytes[..kept].to_vec()))
        });
        sent.extend(cut);
        let is_session = |(_, bytes): &&Sent| SESSION.kinds.iter().any(|k| k.number == bytes[1]);
        let handshake = sent.iter().take_while(is_session).count();
        assert!(handshake > 3 && sent.len() > handshake + 20);
        without_handshake.push((protocol, sent[handshake..].to_vec()));
        whole.push((protocol, sent));
    }
    let mut names = assert_seen(&whole, true);
    // Without the handshake, the dissector does not know the transport of the headers.
    names.extend(assert_seen(&without_handshake, false));
    for (name, _) in tshark::fields(SESSION) {
        assert!(names.contains(&name), "{name} is in no datagram");
    }
}

#[test]
fn lookalikes_are_left_to_other_dissectors() {
    if !tshark::has_tshark() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("others.pcap");
    let session_packets = session(Protocol::DEFAULT);
    let (hello, retry) = (&session_packets[0].1, &session_packets[1].1);
    let changed = |at: usize, to: u8| {
        let mut bytes = hello.clone();
        bytes[at] = to;
        bytes
    };
    let long = [&retry[..], &[0; 4]].concat();
    let all = [changed(0, 2), changed(2, 1), changed(3, 9), changed(1, 39), vec![1], long];
    let sent: Vec<Sent> = all.into_iter().map(|bytes| (0, bytes)).collect();
    write(&file, &sent);
    for seen in tshark::seen(&file, &tshark::fields(SESSION)) {
        assert_eq!(seen, Fields::new());
    }
}
