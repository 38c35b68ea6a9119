//! Sends messages or requests, and measures their completion times.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::wire::Header as _;
use tidegate_core::workload::Sizes;
use tidegate_core::{Domain, Rng, Span, Time};
use tidegate_endpoint::message::{self, Head, Plain, Reply, Request, Unanswered};
use tidegate_endpoint::node::{CloseReason, Event, PeerId, SendError, Ticket};

use super::intervals::Intervals;
use super::report::{
    Completed, NetEngine, NetSummary, Network, Settings, Times, gbps, rate_shown, time_shown,
};
use super::serve::MOST_REPLY;
use super::{
    CLOSE_TIMEOUT, Endpoint, EndpointOptions, LOOPBACK_DATAGRAM, failed, no_address, session_error,
    usage, usual_datagram, warned,
};
use tidegate_runs::Error;
use tidegate_runs::machine::Stopwatch;

/// Longest message, with room for a header.
const MOST_BYTES: u64 = (64 << 20) - 64;
/// After the last message, how long messages in flight may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// First pause before a full server is contacted again. The pause doubles each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);
/// Longest single pause, and longest sum of pauses.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
const MOST_PAUSES: Duration = Duration::from_secs(10);
/// Shortest measurement that gives a meaningful rate.
const LEAST_MEASURED: f64 = 0.5;
/// Header bytes of IP, UDP and Ethernet, with gap and preamble.
const HEADER_BYTES: u64 = 66;
/// Share of the target at which it counts as reached.
const REACHED: f64 = 0.95;
/// Ratio of the measured base RTT to the median completion time from which it is too long.
const LONG_BASE_RTT: f64 = 1.5;
/// Smallest number of messages, of a full datagram on average, that are compared with it.
const LEAST_DONE: u64 = 100;
/// Share of a processor core from which the sending thread is the limit.
const BUSY: f64 = 0.9;
/// Messages that are submitted before the driver is polled again.
const BATCH: usize = 1_024;
/// Limit of messages in flight: an open loop above the path's capacity would exhaust the memory.
const MOST_IN_FLIGHT: usize = 1 << 18;

/// When messages are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// A fixed number in flight: the next message starts when one completes.
    Closed(u32),
    /// Random times, so that payload is that share of the link rate, independently of completions.
    Open(f64),
}

/// Options of a sender.
pub struct SendOptions<'a> {
    /// The endpoint.
    pub endpoint: EndpointOptions,
    /// Address of the peer.
    pub to: SocketAddr,
    /// Local address; `None`: any port.
    pub from: Option<SocketAddr>,
    /// Sizes of the messages.
    pub sizes: Sizes,
    /// Requests replies of this many bytes.
    pub reply: Option<u64>,
    /// When messages start.
    pub mode: Mode,
    /// Length of the measured window.
    pub duration: Duration,
    /// Maximum number of messages.
    pub count: Option<u64>,
    /// Time before the measured window.
    pub warmup: Duration,
    /// A flag that ends the run when it is set.
    pub interrupted: &'a AtomicBool,
    /// Receives progress lines.
    pub notice: &'a dyn Fn(&str),
}

/// A message in flight.
struct InFlight {
    since: Time,
    bytes: u64,
    measured: bool,
}

/// Sends messages and returns the measurements.
///
/// # Errors
/// When an option is invalid, the peer does not answer or refuses, or the socket fails.
pub fn send(options: &SendOptions<'_>) -> Result<NetSummary, Error> {
    let from = options.from.unwrap_or(match options.to {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    });
    if options.reply.is_some_and(|bytes| bytes > MOST_REPLY as u64) {
        return Err(usage("--reply", format!("expected at most {MOST_REPLY} bytes")));
    }
    if options.to.port() == 0 {
        return Err(no_address(&options.to.to_string()));
    }
    if from.is_ipv4() != options.to.is_ipv4() {
        let expected = format!("expected a local address that can reach {}", options.to);
        return Err(usage("--from", format!("found {from}, {expected}")));
    }
    check_sizes(&options.sizes)?;
    let mut warnings = Vec::new();
    let (mut endpoint, peer) = establish(options, from, &mut warnings)?;
    let opened = endpoint.driver.now();
    let stopwatch = Stopwatch::start();
    let mut sender = Sender {
        rng: Rng::stream(1, Domain::Traffic, opened.as_ps()),
        zeros: Bytes::from(vec![0; MOST_BYTES as usize]),
        options,
        peer,
        tickets: BTreeMap::new(),
        requests: BTreeMap::new(),
        fct: Times::new(),
        exchanges: Times::new(),
        next_at: opened,
        sent: 0,
        offered: 0,
        delivered: 0,
        received: 0,
        opened,
        done_at: opened,
        intervals: Intervals::new(opened + Span::ns(options.warmup.as_nanos() as u64)),
        closed: None,
        failure: None,
        warnings,
        stopwatch: Stopwatch::start(),
        processor: None,
    };
    let ended = sender.run(&mut endpoint)?;
    let seconds = ended.as_secs_f64();
    let target = sender.target(&endpoint, seconds);
    let goodput = gbps(sender.delivered, seconds);
    let fct = sender.fct.summary();
    let limits = sender.limits(&endpoint);
    let missed = target.and_then(|target| missed(goodput, target, &limits));
    let base = match options.endpoint.base_rtt {
        None => endpoint.driver.node.used_base_rtt(),
        Some(_) => None,
    };
    let mtu = u64::from(endpoint.driver.node.context().mtu);
    let done = fct.count - fct.unfinished;
    let is_measured = done >= LEAST_DONE && sender.delivered >= done * mtu;
    let long = base.filter(|_| is_measured);
    let long = long.and_then(|base| long_base_rtt(&fct, base.as_us_f64()));
    for warning in incomplete(&fct).into_iter().chain(missed).chain(long) {
        (options.notice)(&format!("warning: {warning}"));
        sender.warnings.push(warning);
    }
    let now = endpoint.driver.now();
    let intervals = sender.intervals.all(now);
    // Closes the session, but waits only briefly for the peer.
    let base_rtt = endpoint.driver.node.base_rtt(peer).map(Span::as_us_f64);
    endpoint.driver.node.close(now, peer);
    let most = now + CLOSE_TIMEOUT;
    while sender.closed.is_none() && endpoint.driver.now() < most {
        endpoint.driver.poll(most).map_err(failed)?;
        sender.handle_events(&mut endpoint);
    }
    Ok(NetSummary {
        schema: 1,
        name: "send",
        real: true,
        protocols: [endpoint.protocol.to_owned()],
        settings: endpoint.settings.with_base_rtt(&endpoint.driver.node),
        warnings: sender.warnings,
        seconds,
        engine: NetEngine::of(&stopwatch),
        received_gbps: gbps(sender.received, seconds),
        goodput_gbps: goodput,
        target_gbps: target,
        failure: sender.failure,
        fct: Some(fct),
        exchanges: options.reply.map(|_| sender.exchanges.summary()),
        intervals,
        network: Network::of(endpoint.driver.node.counters(), base_rtt),
    })
}

/// Opens a session with the peer. If the options leave the datagram size open, the peer's size is
/// used. If the peer is full, retries for a while with increasing pauses.
fn establish(
    options: &SendOptions<'_>,
    from: SocketAddr,
    warnings: &mut Vec<String>,
) -> Result<(Endpoint, PeerId), Error> {
    let (begun, mut pause) = (Stopwatch::start(), FIRST_PAUSE);
    let (mut datagram, mut is_theirs) = (usual_datagram(options.to), false);
    loop {
        let mut endpoint =
            Endpoint::open(&options.endpoint, datagram, ("--from", from), &options.sizes)?;
        let now = endpoint.driver.now();
        let peer = endpoint.driver.node.connect(now, options.to);
        let peer = peer.map_err(|_| Error::Run("the endpoint cannot open a session".into()))?;
        let Err(why) = opened(&mut endpoint, peer, options)? else {
            let Endpoint { driver, protocol, .. } = &endpoint;
            warnings.extend(warned(&driver.node, peer, protocol, options.notice));
            return Ok((endpoint, peer));
        };
        match why {
            CloseReason::OtherPayload { theirs }
                if options.endpoint.datagram.is_none() && !is_theirs =>
            {
                let headers = datagram - endpoint.driver.node.context().mtu as usize;
                (datagram, is_theirs) = (headers.saturating_add(theirs as usize), true);
            }
            CloseReason::Full if begun.wall() + pause < MOST_PAUSES => {
                let wait = pause.as_secs_f64();
                (options.notice)(&format!("{}: {why}; retrying in {wait:.1} s", options.to));
                rest(pause, options)?;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            _ => return Err(Error::Run(session_error(why, options.to, endpoint.protocol))),
        }
    }
}

/// Waits until the session is open and has measured the base RTT, or returns the reason for its
/// failure.
fn opened(
    endpoint: &mut Endpoint,
    peer: PeerId,
    options: &SendOptions<'_>,
) -> Result<Result<(), CloseReason>, Error> {
    loop {
        if options.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        let until = endpoint.driver.now() + Span::ms(100);
        endpoint.driver.poll(until).map_err(failed)?;
        while let Some(event) = endpoint.driver.node.event() {
            match event {
                Event::Closed(closed, why) if closed == peer => return Ok(Err(why)),
                _ => {}
            }
        }
        if endpoint.driver.node.has_measured(peer) {
            return Ok(Ok(()));
        }
    }
}

/// Sleeps for `pause`, unless the run is interrupted.
fn rest(pause: Duration, options: &SendOptions<'_>) -> Result<(), Error> {
    let begun = Stopwatch::start();
    while begun.wall() < pause {
        if options.interrupted.load(Ordering::Relaxed) {
            return Err(Error::Interrupted);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Checks that no message is longer than a session accepts.
fn check_sizes(sizes: &Sizes) -> Result<(), Error> {
    let longest = sizes.largest_bytes();
    if longest > MOST_BYTES as f64 {
        let found = format!("found messages of up to {longest} bytes");
        return Err(usage("--size", format!("{found}, expected at most {MOST_BYTES}")));
    }
    Ok(())
}

/// Failure text for messages that did not complete.
fn incomplete(messages: &Completed) -> Option<String> {
    let Completed { count, unfinished, .. } = *messages;
    (unfinished > 0).then(|| format!("{unfinished} of {count} messages were incomplete at the end"))
}

/// Warning for a measured base RTT that is much longer than the time in which half of the messages
/// completed: the processes waited for a core when the first session measured it.
fn long_base_rtt(messages: &Completed, base_us: f64) -> Option<String> {
    let half_us = messages.p50_us.filter(|half_us| base_us > LONG_BASE_RTT * half_us)?;
    let [half, base] = [half_us, base_us].map(time_shown);
    Some(format!(
        "half of the messages completed within {half}, but the base RTT, which the first session \
         measured, is {base}: set --base-rtt to at most {half} at both ends"
    ))
}

/// Warning for a rate that misses the target by more than a few percent, with the cause.
fn missed(goodput_gbps: f64, target_gbps: f64, limits: &Measured) -> Option<String> {
    (goodput_gbps < REACHED * target_gbps).then(|| {
        let [goodput, target] = [goodput_gbps, target_gbps].map(rate_shown);
        let share = 100.0 * goodput_gbps / target_gbps;
        let cause = limits.cause();
        format!("goodput was {goodput}, {share:.0} % of the target {target}: {cause}")
    })
}

/// Measurements of this side about the limits of its rate.
struct Measured {
    /// Processor time of the sending thread per time while messages were submitted; `None` if the
    /// thread polls the socket, which uses the processor in any case.
    processor: Option<f64>,
    datagram_bytes: u64,
    has_offloads: bool,
    /// Payload of the concurrent messages and the bandwidth-delay product, in bytes; `None` for an
    /// open loop.
    in_flight: Option<(f64, f64)>,
}

impl Measured {
    /// The limit of the rate and its remedy; if none was measured, the remaining possibilities.
    fn cause(&self) -> String {
        if let Some(share) = self.processor.filter(|&share| share >= BUSY) {
            let datagram = match self.datagram_bytes < LOOPBACK_DATAGRAM as u64 {
                true => format!(
                    "increase --datagram above {}B if the network allows it, ",
                    self.datagram_bytes
                ),
                false => String::new(),
            };
            let offloads = if self.has_offloads { "" } else { "omit --no-offloads, " };
            return format!(
                "the sender used {:.0} % of a processor core: {datagram}{offloads}reduce --rate or \
                 --load",
                100.0 * share
            );
        }
        if let Some((bytes, bdp)) = self.in_flight.filter(|(bytes, bdp)| bytes < bdp) {
            return format!(
                "the concurrent messages have {bytes:.0} B, less than the bandwidth-delay product \
                 of {bdp:.0} B: increase --streams or --size"
            );
        }
        let used = self.processor.map_or(String::new(), |share| {
            format!("the sender used {:.0} % of a processor core; ", 100.0 * share)
        });
        format!(
            "{used}the protocol's parameters, the path, the receiver or other processes on this \
             machine limit it, or --rate exceeds the link rate"
        )
    }
}

struct Sender<'a> {
    options: &'a SendOptions<'a>,
    rng: Rng,
    zeros: Bytes,
    peer: PeerId,
    tickets: BTreeMap<Ticket, InFlight>,
    requests: BTreeMap<u64, (Time, bool)>,
    fct: Times,
    exchanges: Times,
    /// Start of the next message in an open loop.
    next_at: Time,
    sent: u64,
    delivered: u64,
    received: u64,
    /// Payload of messages that were submitted in the measured window.
    offered: u64,
    opened: Time,
    /// Time of the last completion.
    done_at: Time,
    /// Measurements per second.
    intervals: Intervals,
    closed: Option<CloseReason>,
    /// Reason for an early end.
    failure: Option<String>,
    warnings: Vec<String>,
    /// Running since the session opened.
    stopwatch: Stopwatch,
    /// Share of a processor core that the thread used until the last submission.
    processor: Option<f64>,
}

impl Sender<'_> {
    /// Sends until the end of the run and waits for messages in flight. Returns the length of the
    /// measured window.
    fn run(&mut self, endpoint: &mut Endpoint) -> Result<Duration, Error> {
        let span = |duration: Duration| Span::ns(duration.as_nanos() as u64);
        let options = self.options;
        let mut ended = None;
        loop {
            let now = endpoint.driver.now();
            let interrupted = options.interrupted.load(Ordering::Relaxed);
            let measured_from = self.opened + span(options.warmup);
            if let Some(why) = self.closed {
                self.failure = Some(session_error(why, options.to, endpoint.protocol));
                // Excludes the silence before the session ended.
                let measured = self.done_at.since(measured_from.min(self.done_at));
                return Ok(Duration::from_nanos(measured.as_ps() / 1_000));
            }
            let stop = measured_from + span(options.duration);
            if let Some(second) = self.intervals.next(now) {
                (options.notice)(&second.shown());
            }
            let is_last = options.count.is_some_and(|count| self.sent >= count);
            if now >= stop || is_last || interrupted {
                let (at, by_then) = *ended.get_or_insert((now, (self.delivered, self.received)));
                self.processor.get_or_insert_with(|| {
                    let wall = self.stopwatch.wall().as_secs_f64();
                    self.stopwatch.cpu(1).as_secs_f64() / wall
                });
                let pending = self.tickets.len() + self.requests.len();
                if pending == 0 || now.since(at) > span(DRAIN_TIMEOUT) || interrupted {
                    // Completions after the last submission do not count in a rate, except for a
                    // closed loop in which all messages completed.
                    let whole = pending == 0 && !options.mode_is_open();
                    let end = if whole { now } else { at };
                    if !whole {
                        (self.delivered, self.received) = by_then;
                    }
                    return Ok(Duration::from_nanos(end.since(measured_from).as_ps() / 1_000));
                }
            } else {
                self.submit(endpoint, now, now >= measured_from)?;
            }
            let until = (now + Span::ms(100)).min(if ended.is_some() || !options.mode_is_open() {
                Time::NEVER
            } else {
                self.next_at.min(stop)
            });
            self.poll(endpoint, until)?;
        }
    }

    fn poll(&mut self, endpoint: &mut Endpoint, until: Time) -> Result<(), Error> {
        endpoint.driver.poll(until).map_err(failed)?;
        self.handle_events(endpoint);
        Ok(())
    }

    /// The target rate, if there is one: the offered load, or the link's capacity.
    fn target(&self, endpoint: &Endpoint, seconds: f64) -> Option<f64> {
        let Settings { rate_gbps, datagram_bytes, .. } = endpoint.settings;
        let payload = f64::from(endpoint.driver.node.context().mtu);
        let of_link = rate_gbps * payload / (datagram_bytes + HEADER_BYTES) as f64;
        let is_short = seconds < LEAST_MEASURED || self.failure.is_some();
        match self.options.mode {
            _ if is_short || self.options.count.is_some() => None,
            Mode::Open(_) => Some(gbps(self.offered, seconds)),
            Mode::Closed(_) => {
                self.options.reply.is_none().then_some((of_link * 1e6).round() / 1e6)
            }
        }
    }

    /// The measurements about the limits of the rate.
    fn limits(&self, endpoint: &Endpoint) -> Measured {
        let options = self.options;
        let context = endpoint.driver.node.context();
        let in_flight = match options.mode {
            Mode::Open(_) => None,
            Mode::Closed(streams) => {
                let bdp = endpoint.rate.as_bps() as f64 / 8.0;
                let bdp = bdp * context.fabric_base_rtt.as_us_f64() * 1e-6;
                Some((f64::from(streams) * options.sizes.mean_bytes(), bdp))
            }
        };
        Measured {
            processor: self.processor.filter(|_| options.endpoint.busy_poll.is_zero()),
            datagram_bytes: endpoint.settings.datagram_bytes,
            has_offloads: !options.endpoint.no_offloads,
            in_flight,
        }
    }

    /// Submits the messages that are due.
    fn submit(&mut self, endpoint: &mut Endpoint, now: Time, measured: bool) -> Result<(), Error> {
        for _ in 0..BATCH {
            let (is_due, since) = match self.options.mode {
                Mode::Closed(most) => {
                    let pending = match self.options.reply {
                        Some(_) => self.requests.len(),
                        None => self.tickets.len(),
                    };
                    (pending < most as usize, now)
                }
                Mode::Open(_) => (self.next_at <= now, self.next_at),
            };
            if !is_due || self.options.count.is_some_and(|count| self.sent >= count) {
                return Ok(());
            }
            if self.tickets.len().max(self.requests.len()) >= MOST_IN_FLIGHT {
                return Err(Error::Run(format!(
                    "{MOST_IN_FLIGHT} messages are in flight, and more are due: reduce --load"
                )));
            }
            if let Mode::Open(load) = self.options.mode {
                let bits = 8.0 * self.options.sizes.mean_bytes();
                let a_second = load * endpoint.rate.as_bps() as f64 / bits;
                let mean = 1e12 / a_second.max(1e-3);
                self.next_at += Span::from_ps_f64(mean * self.rng.exponential());
            }
            self.one(endpoint, now, since, measured)?;
        }
        Ok(())
    }

    /// Submits a message whose scheduled start was `since`.
    fn one(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        since: Time,
        measured: bool,
    ) -> Result<(), Error> {
        let bytes = self.options.sizes.draw(&mut self.rng).clamp(1, MOST_BYTES);
        let (head, body) = match self.options.reply {
            Some(reply) => {
                let mut body = vec![0; bytes.max(8) as usize];
                body[..8].copy_from_slice(&reply.to_be_bytes());
                self.requests.insert(self.sent, (since, measured));
                self.exchanges.submitted += u64::from(measured);
                (Head::from(Request { number: self.sent }), Bytes::from(body))
            }
            None => (Head::from(Plain {}), self.zeros.slice(..bytes as usize)),
        };
        self.sent += 1;
        let node = &mut endpoint.driver.node;
        let ticket = message::send(node, now, self.peer, head, body).map_err(|why| {
            Error::Run(match why {
                SendError::Closed => {
                    session_error(CloseReason::Closed, self.options.to, endpoint.protocol)
                }
                SendError::Empty => "a message is empty".into(),
                SendError::TooLong { most } => format!("a message has more than {most} bytes"),
            })
        })?;
        self.fct.submitted += u64::from(measured);
        self.offered += if measured { bytes } else { 0 };
        self.tickets.insert(ticket, InFlight { since, bytes, measured });
        Ok(())
    }

    /// Records the completion times of finished messages and requests.
    fn handle_events(&mut self, endpoint: &mut Endpoint) {
        while let Some(event) = endpoint.driver.node.event() {
            let now = endpoint.driver.now();
            let elapsed = |since: Time| Duration::from_nanos(now.since(since).as_ps() / 1_000);
            match event {
                Event::Closed(peer, why) if peer == self.peer => self.closed = Some(why),
                Event::Delivered(ticket) => {
                    self.done_at = now;
                    if let Some(message) = self.tickets.remove(&ticket)
                        && message.measured
                    {
                        self.fct.add(elapsed(message.since));
                        self.delivered += message.bytes;
                        self.intervals.delivered(message.bytes);
                        if self.options.reply.is_none() {
                            self.intervals.completed(elapsed(message.since));
                        }
                    }
                }
                Event::Arrived(peer, message) => {
                    endpoint.driver.node.consumed(now, peer, message.len() as u64);
                    let from_server = peer == self.peer;
                    self.done_at = if from_server { now } else { self.done_at };
                    match Head::parse(&message).ok().filter(|_| from_server) {
                        Some((Head::Reply(Reply { number }), bytes)) => {
                            if let Some((since, true)) = self.requests.remove(&number) {
                                self.exchanges.add(elapsed(since));
                                self.received += bytes.len() as u64;
                                self.intervals.received(bytes.len() as u64);
                                self.intervals.completed(elapsed(since));
                            }
                        }
                        // The request remains unfinished, and the next one may start.
                        Some((Head::Unanswered(Unanswered { number }), _)) => {
                            self.requests.remove(&number);
                        }
                        _ => {}
                    }
                    endpoint.driver.node.reuse(message);
                }
                // Events of other sessions and failures of this one; messages arrive whole.
                _ => {}
            }
        }
    }
}

impl SendOptions<'_> {
    fn mode_is_open(&self) -> bool {
        matches!(self.mode, Mode::Open(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missed_target_names_the_measured_cause() {
        let idle = || Measured {
            processor: Some(0.5),
            datagram_bytes: 1_472,
            has_offloads: true,
            in_flight: Some((4e6, 12_500.0)),
        };
        let cause = |limits: Measured| missed(0.5, 1.0, &limits).unwrap();
        for (limits, expected) in [
            (
                Measured { processor: Some(0.97), ..idle() },
                "the sender used 97 % of a processor core: increase --datagram above 1472B",
            ),
            (
                Measured { processor: Some(1.0), has_offloads: false, ..idle() },
                "if the network allows it, omit --no-offloads, reduce --rate",
            ),
            (
                Measured { processor: Some(1.0), datagram_bytes: 8_972, ..idle() },
                "the sender used 100 % of a processor core: reduce --rate or --load",
            ),
            (
                Measured { in_flight: Some((4_000.0, 12_500.0)), ..idle() },
                "the concurrent messages have 4000 B, less than the bandwidth-delay product of \
                 12500 B: increase --streams or --size",
            ),
            (idle(), "the sender used 50 % of a processor core; the protocol's parameters, the"),
            (Measured { processor: None, ..idle() }, "1.00 Gbps: the protocol's parameters, the"),
        ] {
            let text = cause(limits);
            assert!(text.starts_with("goodput was 500 Mbps, 50 % of the target"), "{text}");
            assert!(text.contains(expected), "{text}");
        }
        assert_eq!(missed(0.96, 1.0, &idle()), None);
    }

    #[test]
    fn a_base_rtt_above_the_median_is_warned_of() {
        let half = |p50_us| Completed { count: 9, p50_us, ..Completed::default() };
        let text = long_base_rtt(&half(Some(77.0)), 120.0).unwrap();
        assert!(text.contains("within 77.0 us") && text.contains("is 120 us: set"), "{text}");
        assert_eq!(long_base_rtt(&half(Some(81.0)), 120.0), None);
        assert_eq!(long_base_rtt(&half(None), 120.0), None);
    }
}
