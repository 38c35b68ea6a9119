//! `send` to a server that has as many peers as it takes.
#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_types, reason = "the test measures how long retries take")]

use std::cell::RefCell;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tidegate_algos::Protocol;
use tidegate_core::params::Value;
use tidegate_core::workload::Sizes;
use tidegate_core::{Rate, Span};
use tidegate_endpoint::host::{Host, Peer};
use tidegate_endpoint::node::Config;
use tidegate_endpoint::session::Key;
use tidegate_live::net::{
    DEFAULT_PROTOCOL, EndpointOptions, Mode, NetSummary, SendOptions, Transport, send,
};
use tidegate_runs::Error;

/// Notice of `send` before each pause.
const AGAIN: &str = "the peer has reached its maximum number of peers; retrying in ";

/// A host with room for one peer, and otherwise set up as `tidegate serve` on loopback.
fn host() -> Host {
    let mut stack = Protocol::DEFAULT.stack();
    for (name, value) in [
        ("base_target", Value::Span(Span::us(500))),
        ("fs_range", Value::Span(Span::us(500))),
        ("ack_every", Value::Integer(2)),
        ("ack_delay", Value::Span(Span::us(100))),
        ("min_rto", Value::Span(Span::ms(10))),
        ("initial_rto", Value::Span(Span::ms(10))),
    ] {
        stack.set(name, value).unwrap();
    }
    let mut config = Config::real(stack, Key::new(b"no key"), Rate::gbps(1));
    config.datagram = 8_972;
    config.limits.peers = 1;
    Host::bind("127.0.0.1:0".parse().unwrap(), config).unwrap()
}

/// A server whose only place is taken, and who takes it.
fn full() -> (Host, Host, Peer) {
    let (server, first) = (host(), host());
    let peer = first.connect(server.address()).wait().unwrap();
    // A session that has carried nothing makes room for others.
    peer.send("here").wait().unwrap();
    (server, first, peer)
}

/// Sends one message; the outcome, and the reports before it. `reported` sees each of them, and the
/// flag that ends the command.
fn sent(
    to: SocketAddr,
    reported: impl Fn(&str, &AtomicBool),
) -> (Result<NetSummary, Error>, Vec<String>) {
    let (lines, interrupted) = (RefCell::new(Vec::new()), AtomicBool::new(false));
    let outcome = send(&SendOptions {
        endpoint: EndpointOptions::new(
            Transport::parse(DEFAULT_PROTOCOL, &[]).unwrap(),
            Rate::gbps(1),
        ),
        to,
        from: None,
        sizes: Sizes::Fixed(1_000),
        reply: None,
        mode: Mode::Closed(1),
        duration: Duration::from_secs(5),
        count: Some(1),
        warmup: Duration::ZERO,
        interrupted: &interrupted,
        notice: &|line| {
            reported(line, &interrupted);
            lines.borrow_mut().push(line.to_owned());
        },
    });
    (outcome, lines.into_inner())
}

fn pauses(lines: &[String]) -> usize {
    lines.iter().filter(|line| line.contains(AGAIN)).count()
}

#[test]
fn a_full_server_is_tried_until_a_peer_leaves() {
    let (server, first, peer) = full();
    let leaves = thread::spawn(move || {
        thread::sleep(Duration::from_millis(600));
        peer.close().wait().unwrap();
        first
    });
    let (outcome, lines) = sent(server.address(), |_, _| {});
    let summary = outcome.unwrap_or_else(|why| panic!("{why}: {lines:?}"));
    let fct = summary.fct.unwrap();
    assert_eq!((fct.count, fct.unfinished), (1, 0));
    // At 0 and 0.25 s the place was taken.
    assert!(pauses(&lines) >= 2, "{lines:?}");
    drop(leaves.join().unwrap());
}

#[test]
fn full_server_is_an_error_after_ten_seconds() {
    let (server, _first, _peer) = full();
    let begun = Instant::now();
    let (outcome, lines) = sent(server.address(), |_, _| {});
    let took = begun.elapsed().as_secs_f64();
    let why = outcome.unwrap_err().to_string();
    assert!(why.ends_with("the peer has reached its maximum number of peers"), "{why}");
    // Pauses of 0.25, 0.5, 1, 2, 2, 2 and 2 s, fewer where attempts themselves take long.
    assert!((4..=7).contains(&pauses(&lines)) && took < 15.0, "{took} s: {lines:?}");
}

#[test]
fn interrupt_ends_the_pause_before_an_attempt() {
    let (server, _first, _peer) = full();
    let (outcome, lines) = sent(server.address(), |line, interrupted| {
        interrupted.fetch_or(line.contains(AGAIN), Ordering::Relaxed);
    });
    assert!(matches!(outcome, Err(Error::Interrupted)), "{lines:?}");
    assert_eq!(pauses(&lines), 1, "{lines:?}");
}
