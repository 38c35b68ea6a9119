//! Sends messages, or requests, and takes the time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tidegate_core::wire::Header as _;
use tidegate_core::workload::Sizes;
use tidegate_core::{Domain, Rng, Span, Time};
use tidegate_endpoint::message::{self, Head, Plain, Reply, Request, Unanswered};
use tidegate_endpoint::node::{Event, Gone, PeerId, SendError, Ticket};

use super::intervals::Intervals;
use super::report::{Completed, NetEngine, NetSummary, Network, Times, gbps};
use super::serve::MOST_REPLY;
use super::{Endpoint, EndpointOptions, GOODBYE, because, failed, no_address, usage, warned};
use crate::Error;
use crate::machine::Stopwatch;

/// Longest message, so that there is room for a head.
const MOST_BYTES: u64 = (64 << 20) - 64;
/// After the last message, so long may those under way take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Messages that are submitted before the network has its turn.
const TURN: usize = 1_024;
/// Messages under way, at most: an open loop that nobody keeps up with would fill the memory.
const MOST_UNDER_WAY: usize = 1 << 18;

/// When messages are sent.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// So many at a time: the next when one is done.
    Closed(u32),
    /// At random times, so that payload is that share of the link, whatever becomes of others.
    Open(String),
}

/// What to send.
pub struct SendOptions<'a> {
    /// The endpoint.
    pub endpoint: EndpointOptions,
    /// To whom.
    pub to: SocketAddr,
    /// Where from; none: any port.
    pub from: Option<SocketAddr>,
    /// Bytes of a message, as scenarios write sizes: a size, or the name of a distribution.
    pub size: String,
    /// Asks for replies of so many bytes.
    pub reply: Option<u64>,
    /// When.
    pub mode: Mode,
    /// For so long.
    pub duration: Duration,
    /// At most so many.
    pub count: Option<u64>,
    /// What is done before that is not measured.
    pub warmup: Duration,
    /// Set when it is to end.
    pub interrupted: &'a AtomicBool,
    /// Hears what happens.
    pub says: &'a dyn Fn(&str),
}

/// A message under way.
struct UnderWay {
    since: Time,
    bytes: u64,
    measured: bool,
}

/// Sends; what was measured.
///
/// # Errors
/// Where an option is wrong, the peer does not answer or will not, or the socket fails.
pub fn send(options: &SendOptions<'_>) -> Result<NetSummary, Error> {
    let from = options.from.unwrap_or(match options.to {
        SocketAddr::V4(_) => SocketAddr::from(([0; 4], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], 0)),
    });
    let load = match &options.mode {
        Mode::Open(load) => Some(load.as_str()),
        Mode::Closed(_) => None,
    };
    if options.reply.is_some_and(|bytes| bytes > MOST_REPLY as u64) {
        return Err(usage("--reply", format!("expected at most {MOST_REPLY} bytes")));
    }
    if options.to.port() == 0 {
        return Err(no_address(&options.to.to_string()));
    }
    if from.is_ipv4() != options.to.is_ipv4() {
        let expected = format!("expected one from which {} can be reached", options.to);
        return Err(usage("--from", format!("found {from}, {expected}")));
    }
    let mut endpoint =
        Endpoint::open(&options.endpoint, ("--from", from), Some(&options.size), load)?;
    let longest = match &endpoint.sizes {
        Sizes::Fixed(bytes) => *bytes as f64,
        Sizes::Drawn(drawn) => drawn.points.last().map_or(0.0, |&(bytes, _)| bytes),
    };
    if longest > MOST_BYTES as f64 {
        let found = format!("found messages of up to {longest} bytes");
        return Err(usage("--size", format!("{found}, expected at most {MOST_BYTES}")));
    }
    let now = endpoint.driver.now();
    let peer = endpoint.driver.node.connect(now, options.to);
    let peer = peer.map_err(|_| Error::Run("no peer may be asked".into()))?;
    let stopwatch = Stopwatch::start();
    let mut sender = Sender {
        rng: Rng::stream(1, Domain::Traffic, now.as_ps()),
        zeros: Bytes::from(vec![0; MOST_BYTES as usize]),
        options,
        peer,
        tickets: BTreeMap::new(),
        requests: BTreeMap::new(),
        fct: Times::new(),
        exchanges: Times::new(),
        next_at: now,
        sent: 0,
        delivered: 0,
        received: 0,
        opened: None,
        intervals: Intervals::new(Time::NEVER),
        gone: None,
        warnings: Vec::new(),
    };
    let ended = sender.run(&mut endpoint)?;
    if let Some(warning) = undone(&sender.fct.summary()) {
        (options.says)(&format!("warning: {warning}"));
        sender.warnings.push(warning);
    }
    let now = endpoint.driver.now();
    let intervals = sender.intervals.all(now);
    // Politely, but not for long.
    let base_rtt = endpoint.driver.node.base_rtt(peer).map(Span::as_us_f64);
    endpoint.driver.node.close(now, peer);
    let most = now + GOODBYE;
    while sender.gone.is_none() && endpoint.driver.now() < most {
        endpoint.driver.turn(most).map_err(failed)?;
        sender.hear(&mut endpoint);
    }
    let seconds = ended.as_secs_f64();
    Ok(NetSummary {
        schema: 1,
        name: "send",
        real: true,
        protocols: [endpoint.protocol.to_owned()],
        settings: endpoint.settings,
        warnings: sender.warnings,
        seconds,
        engine: NetEngine::of(&stopwatch),
        received_gbps: gbps(sender.received, seconds),
        goodput_gbps: gbps(sender.delivered, seconds),
        fct: Some(sender.fct.summary()),
        exchanges: options.reply.map(|_| sender.exchanges.summary()),
        intervals,
        network: Network::of(endpoint.driver.node.counters(), base_rtt),
    })
}

/// What to say of messages that were not done in time.
fn undone(messages: &Completed) -> Option<String> {
    let Completed { count, unfinished, .. } = *messages;
    (unfinished > 0).then(|| format!("{unfinished} of {count} messages were not done at the end"))
}

struct Sender<'a> {
    options: &'a SendOptions<'a>,
    rng: Rng,
    zeros: Bytes,
    peer: PeerId,
    tickets: BTreeMap<Ticket, UnderWay>,
    requests: BTreeMap<u64, (Time, bool)>,
    fct: Times,
    exchanges: Times,
    /// In an open loop, when the next is due.
    next_at: Time,
    sent: u64,
    delivered: u64,
    received: u64,
    opened: Option<Time>,
    /// From when on it is measured.
    intervals: Intervals,
    gone: Option<Gone>,
    warnings: Vec<String>,
}

impl Sender<'_> {
    /// Sends until it is time to end, and waits for what is under way; how long was measured.
    fn run(&mut self, endpoint: &mut Endpoint) -> Result<Duration, Error> {
        let span = |duration: Duration| Span::ns(duration.as_nanos() as u64);
        let options = self.options;
        let mut ended = None;
        loop {
            let now = endpoint.driver.now();
            let interrupted = options.interrupted.load(Ordering::Relaxed);
            if let Some(why) = self.gone {
                return Err(Error::Run(because(why, options.to, endpoint.protocol)));
            }
            let Some(opened) = self.opened else {
                if interrupted {
                    return Err(Error::Interrupted);
                }
                self.turn(endpoint, now + Span::ms(100))?;
                continue;
            };
            let measured_from = opened + span(options.warmup);
            let stop = measured_from + span(options.duration);
            if let Some(second) = self.intervals.next(now) {
                (options.says)(&second.shown());
            }
            let is_last = options.count.is_some_and(|count| self.sent >= count);
            if now >= stop || is_last || interrupted {
                let (at, by_then) = *ended.get_or_insert((now, (self.delivered, self.received)));
                let pending = self.tickets.len() + self.requests.len();
                if pending == 0 || now.since(at) > span(PATIENCE) || interrupted {
                    // What comes while nothing is sent any more is no rate, but of a closed loop
                    // that ends with all of it.
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
            self.turn(endpoint, until)?;
        }
    }

    fn turn(&mut self, endpoint: &mut Endpoint, until: Time) -> Result<(), Error> {
        endpoint.driver.turn(until).map_err(failed)?;
        self.hear(endpoint);
        Ok(())
    }

    /// Submits what is due.
    fn submit(&mut self, endpoint: &mut Endpoint, now: Time, measured: bool) -> Result<(), Error> {
        for _ in 0..TURN {
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
            if self.tickets.len().max(self.requests.len()) >= MOST_UNDER_WAY {
                return Err(Error::Run(format!(
                    "{MOST_UNDER_WAY} messages are under way, and more are due: nobody keeps up"
                )));
            }
            if self.options.mode_is_open() {
                let mean = 1e12 / endpoint.load.max(1e-3);
                self.next_at += Span::from_ps_f64(mean * self.rng.exponential());
            }
            self.one(endpoint, now, since, measured)?;
        }
        Ok(())
    }

    /// Submits a message that was due at `since`.
    fn one(
        &mut self,
        endpoint: &mut Endpoint,
        now: Time,
        since: Time,
        measured: bool,
    ) -> Result<(), Error> {
        let bytes = endpoint.sizes.draw(&mut self.rng).clamp(1, MOST_BYTES);
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
                SendError::Gone => because(Gone::Closed, self.options.to, endpoint.protocol),
                SendError::Empty => "a message is empty".into(),
                SendError::TooLong { most } => format!("a message has more than {most} bytes"),
            })
        })?;
        self.fct.submitted += u64::from(measured);
        self.tickets.insert(ticket, UnderWay { since, bytes, measured });
        Ok(())
    }

    /// Takes the times of what is done.
    fn hear(&mut self, endpoint: &mut Endpoint) {
        while let Some(event) = endpoint.driver.node.event() {
            let now = endpoint.driver.now();
            let took = |since: Time| Duration::from_nanos(now.since(since).as_ps() / 1_000);
            match event {
                Event::Opened(peer) => {
                    let Endpoint { driver, protocol, .. } = &*endpoint;
                    self.warnings.extend(warned(&driver.node, peer, protocol, self.options.says));
                    if peer == self.peer {
                        (self.opened, self.next_at) = (Some(now), now);
                        let warmup = Span::ns(self.options.warmup.as_nanos() as u64);
                        self.intervals = Intervals::new(now + warmup);
                    }
                }
                Event::Gone(peer, why) if peer == self.peer => self.gone = Some(why),
                Event::Delivered(ticket) => {
                    if let Some(message) = self.tickets.remove(&ticket)
                        && message.measured
                    {
                        self.fct.add(took(message.since));
                        self.delivered += message.bytes;
                        self.intervals.delivered(message.bytes);
                        if self.options.reply.is_none() {
                            self.intervals.took(took(message.since));
                        }
                    }
                }
                Event::Arrived(peer, message) => {
                    endpoint.driver.node.taken(now, peer, message.len() as u64);
                    let asked = peer == self.peer;
                    match Head::parse(&message).ok().filter(|_| asked) {
                        Some((Head::Reply(Reply { number }), bytes)) => {
                            if let Some((since, true)) = self.requests.remove(&number) {
                                self.exchanges.add(took(since));
                                self.received += bytes.len() as u64;
                                self.intervals.received(bytes.len() as u64);
                                self.intervals.took(took(since));
                            }
                        }
                        // It stays unfinished, and the next may be asked.
                        Some((Head::Unanswered(Unanswered { number }), _)) => {
                            self.requests.remove(&number);
                        }
                        _ => {}
                    }
                    endpoint.driver.node.reuse(message);
                }
                // Sessions of others, what failed with this one; and messages come whole.
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
