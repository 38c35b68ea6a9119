//! Receives messages and answers requests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::Span;
use tidegate_core::wire::Header as _;
use tidegate_endpoint::message::{self, Head, Reply, Request};
use tidegate_endpoint::node::{CloseReason, Event};

use super::report::{NetEngine, NetSummary, Network, gbps, rate_shown};
use super::{
    CLOSE_TIMEOUT, Endpoint, EndpointOptions, USUAL_SIZES, failed, usual_datagram, warned,
};
use tidegate_runs::Error;
use tidegate_runs::machine::Stopwatch;

/// Longest reply.
pub(super) const MOST_REPLY: usize = 16 << 20;
/// Options of a server.
pub struct ServeOptions<'a> {
    /// The endpoint.
    pub endpoint: EndpointOptions,
    /// Local address.
    pub listen: SocketAddr,
    /// How long to serve; `None`: until interrupted.
    pub duration: Option<Duration>,
    /// End when the first peer is gone.
    pub once: bool,
    /// A flag that ends the run when it is set.
    pub interrupted: &'a AtomicBool,
    /// Receives progress lines.
    pub notice: &'a dyn Fn(&str),
}

/// Serves and returns the measurements.
///
/// # Errors
/// When an option is invalid, or the socket fails.
pub fn serve(options: &ServeOptions<'_>) -> Result<NetSummary, Error> {
    let datagram = usual_datagram(options.listen);
    let Endpoint { mut driver, protocol, rate, settings, .. } =
        Endpoint::open(&options.endpoint, datagram, ("--listen", options.listen), &USUAL_SIZES)?;
    let notice = options.notice;
    let address = driver.address().map_err(failed)?;
    notice(&format!("listening on {address}, {protocol} at {rate}"));
    let stopwatch = Stopwatch::start();
    let mut received = 0;
    let mut reported = (Duration::ZERO, 0);
    let mut base_rtt = None;
    let mut over = false;
    let mut peers = BTreeMap::new();
    let mut silent = BTreeSet::new();
    let mut warnings = Vec::new();
    let zeros = Bytes::from(vec![0; MOST_REPLY]);
    while !over && !options.interrupted.load(Ordering::Relaxed) {
        let elapsed = stopwatch.wall();
        over |= options.duration.is_some_and(|most| elapsed >= most);
        if elapsed - reported.0 >= Duration::from_secs(1) {
            let seconds = (elapsed - reported.0).as_secs_f64();
            if received > reported.1 {
                let rate = rate_shown(gbps(received - reported.1, seconds));
                notice(&format!("{:.0} s: {rate}", elapsed.as_secs_f64()));
            }
            reported = (elapsed, received);
        }
        let until = driver.now() + Span::ms(100);
        driver.poll(until).map_err(failed)?;
        while let Some(event) = driver.node.event() {
            let now = driver.now();
            match event {
                Event::Opened(peer) => {
                    if let Some(from) = driver.node.address(peer) {
                        peers.insert(peer, from);
                        notice(&format!("{from} opened a session"));
                    }
                    silent.insert(peer);
                }
                Event::Closed(peer, why) => {
                    let ended = matches!(why, CloseReason::Closed | CloseReason::ClosedByPeer);
                    let how = if ended { "closed its session" } else { "is gone" };
                    silent.remove(&peer);
                    if let Some(from) = peers.remove(&peer) {
                        notice(&format!("{from} {how}"));
                    }
                    over |= options.once;
                }
                Event::Arrived(peer, message) => {
                    // The base RTT of its path has been measured.
                    if silent.remove(&peer) && warnings.is_empty() {
                        warnings.extend(warned(&driver.node, peer, protocol, notice));
                    }
                    let parsed = Head::parse(&message).ok();
                    received += parsed.as_ref().map_or(0, |(_, body)| body.len() as u64);
                    driver.node.consumed(now, peer, message.len() as u64);
                    let rtt = driver.node.base_rtt(peer).map(Span::as_us_f64);
                    base_rtt = [base_rtt, rtt].into_iter().flatten().reduce(f64::min);
                    if let Some((Head::Request(Request { number }), body)) = parsed {
                        let length = body.first_chunk().map_or(0, |n| u64::from_be_bytes(*n));
                        let length = length.min(MOST_REPLY as u64) as usize;
                        let reply = zeros.slice(..length);
                        // A peer that is gone meanwhile needs no reply.
                        let reply_head = Reply { number };
                        let _ = message::send(&mut driver.node, now, peer, reply_head, reply);
                    }
                    driver.node.reuse(message);
                }
                // Outcomes of its own replies are ignored; messages arrive whole.
                _ => {}
            }
        }
    }
    let seconds = stopwatch.wall().as_secs_f64();
    // Closes sessions, so that peers do not wait for a server that has ended.
    let now = driver.now();
    peers.keys().for_each(|&peer| driver.node.close(now, peer));
    let most = now + CLOSE_TIMEOUT;
    while !peers.is_empty() && driver.now() < most {
        driver.poll(most).map_err(failed)?;
        while let Some(event) = driver.node.event() {
            if let Event::Closed(peer, _) = event {
                peers.remove(&peer);
            }
        }
    }
    Ok(NetSummary {
        schema: 1,
        name: "serve",
        real: true,
        protocols: [protocol.to_owned()],
        settings: settings.with_base_rtt(&driver.node),
        warnings,
        seconds,
        engine: NetEngine::of(&stopwatch),
        received_gbps: gbps(received, seconds),
        goodput_gbps: 0.0,
        target_gbps: None,
        failure: None,
        fct: None,
        exchanges: None,
        intervals: Vec::new(),
        network: Network::of(driver.node.counters(), base_rtt),
    })
}
