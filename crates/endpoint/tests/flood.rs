//! Hosts flood a server with `Hello`s at the full rate of the loopback and never return a cookie.
//! The server keeps no state for them, replies with no more bytes than they send, and serves an
//! honest peer.
//!
//! `TIDEGATE_FLOOD=10` floods for ten seconds.
#![cfg(target_os = "linux")]

mod common;

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use tidegate_core::{Span, Time};
use tidegate_endpoint::driver::Driver;
use tidegate_endpoint::node::{Event, Node, Terms};
use tidegate_endpoint::socket::{Socket, SocketOptions};

/// Number of different `Hello`s, and of hosts that send them.
const HELLOS: u64 = 500;
const HOSTS: u8 = 20;
/// Permitted growth of memory: the allocator reserves some in advance.
const MOST_GROWTH: u64 = 4 << 20;
/// Time limit for the honest peer, whose `Hello`s may be lost.
const TIMEOUT: Span = Span::s(60);

fn node(seed: u64) -> Node {
    common::node(seed, b"known to all")
}

fn driver(seed: u64) -> Driver {
    let at = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    Driver::new(node(seed), Socket::bind(at, SocketOptions::default()).unwrap())
}

/// A first `Hello`.
fn hello(seed: u64, to: SocketAddr) -> Vec<u8> {
    let (mut node, mut out) = (node(seed), vec![0; 2_048]);
    node.connect(Time::us(1), to).unwrap();
    let departure = node.transmit(Time::us(1), &mut out).unwrap();
    out[..departure.bytes].to_vec()
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

#[test]
fn hello_flood() {
    let seconds = std::env::var("TIDEGATE_FLOOD").map_or(1, |text| text.parse().unwrap());
    let mut server = driver(1);
    let to = server.address().unwrap();
    let requests: Vec<Vec<u8>> = (100..100 + HELLOS).map(|seed| hello(seed, to)).collect();
    let socket = |host: u8| {
        let socket = UdpSocket::bind((Ipv4Addr::new(127, 0, 1, host), 0)).unwrap();
        socket.set_nonblocking(true).unwrap();
        socket
    };
    let sockets: Vec<UdpSocket> = (1..=HOSTS).map(socket).collect();
    let (over, is_in) = (AtomicBool::new(false), AtomicBool::new(false));
    let (sent_bytes, answered_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
    let (grown, opened, arrived) = thread::scope(|scope| {
        scope.spawn(|| {
            let mut room = [0; 2_048];
            for (hello, socket) in requests.iter().cycle().zip(sockets.iter().cycle()) {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                if let Ok(sent) = socket.send_to(hello, to) {
                    sent_bytes.fetch_add(sent as u64, Ordering::Relaxed);
                }
                while let Ok(bytes) = socket.recv(&mut room) {
                    answered_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                }
            }
        });
        scope.spawn(|| {
            let mut client = driver(2);
            let peer = client.node.connect(client.now(), to).unwrap();
            let body = Bytes::from_static(&[7; 10_000]);
            client.node.send(client.now(), peer, &[], body, Terms::default()).unwrap();
            while !over.load(Ordering::Relaxed) {
                let until = client.now() + Span::ms(10);
                client.poll(until).unwrap();
                while let Some(event) = client.node.event() {
                    if matches!(event, Event::Delivered(_)) {
                        is_in.store(true, Ordering::Relaxed);
                    }
                }
            }
        });
        let begun = server.now();
        let (mut opened, mut arrived, mut before) = (0, 0, None);
        while server.now() < begun + Span::s(seconds)
            || (!is_in.load(Ordering::Relaxed) && server.now() < begun + TIMEOUT)
        {
            let until = server.now() + Span::ms(10);
            server.poll(until).unwrap();
            while let Some(event) = server.node.event() {
                match event {
                    Event::Opened(_) => opened += 1,
                    Event::Arrived(_, bytes) => arrived += bytes.len(),
                    _ => {}
                }
            }
            // One-time allocations are complete now.
            if before.is_none() && server.now() > begun + Span::ms(300) {
                before = Some(resident());
            }
        }
        let grown = resident().saturating_sub(before.unwrap());
        over.store(true, Ordering::Relaxed);
        (grown, opened, arrived)
    });
    let (sent_bytes, answered_bytes) = (sent_bytes.into_inner(), answered_bytes.into_inner());
    let requests = sent_bytes / requests[0].len() as u64;
    println!("{requests} requests in {seconds} s, {sent_bytes} B, {answered_bytes} B of replies");
    println!("{grown} B more memory");
    assert!(requests > 2_000 * seconds, "only {requests} Hellos");
    assert!(
        answered_bytes > 0 && answered_bytes <= sent_bytes,
        "{answered_bytes} B for {sent_bytes} B"
    );
    assert!(grown < MOST_GROWTH, "{grown} B more memory");
    assert!(is_in.into_inner(), "the honest peer was not served");
    assert_eq!((opened, arrived), (1, 10_000));
}
