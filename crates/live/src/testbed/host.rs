//! A host of a testbed: a process with a node on a socket. It runs the same traffic code as a
//! simulated host, by a clock that all hosts share.

use std::collections::BTreeMap;
use std::io::{self, BufReader, StdinLock, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use bytes::Bytes;
use hdrhistogram::Histogram;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tidegate_core::{Dilation, Message, Need, Span, Time, mix64};
use tidegate_endpoint::driver::{Clock, Driver};
use tidegate_endpoint::node::{
    Config, Delivery, Event, Limits, Node, PeerId, Piece, SendError, Terms, Ticket, entropy,
};
use tidegate_endpoint::session::Key;
use tidegate_endpoint::socket::{Socket, SocketOptions};
use tidegate_scenario::Plan;
use tidegate_sim::{HostAction, MessageStart, NAME_BYTES, OpenHost};

use super::lateness;
use super::messages::{FromHost, Role, ToHost, read_message, write_message};
use tidegate_runs::{Error, Source, load};

/// Time by which datagrams may be handed to the link early, by the system's clock: the time that it
/// takes to wake up.
const BURST: Duration = Duration::from_micros(300);
/// Longest wait for the next action, by the system's clock.
const MAX_SLEEP: Duration = Duration::from_millis(50);
/// Receive limit that no run reaches.
const MOST_BYTES: u64 = 1 << 40;
/// Longest message.
const MOST_ZEROS: u64 = 4 << 30;

/// Runs this process as a host. The testbed communicates with it over standard input and output.
///
/// # Errors
/// When the testbed is gone.
pub fn testbed_host() -> Result<(), Error> {
    let mut from = BufReader::new(io::stdin().lock());
    let mut to = io::stdout().lock();
    let Err(why) = run(&mut from, &mut to) else { return Ok(()) };
    write_message(&mut to, &FromHost::Failed(why)).map_err(gone)
}

fn gone(why: io::Error) -> Error {
    Error::Run(format!("the testbed is gone: {why}"))
}

fn run(from: &mut BufReader<StdinLock<'_>>, to: &mut impl Write) -> Result<(), String> {
    let Some(ToHost::Be(role)) = read_message(from).map_err(text)? else {
        return Err("protocol error: the first message must assign the host's role".to_owned());
    };
    let plan = load(Source::Made(role.scenario.clone()), &[]).map_err(text)?;
    let mut host = Host::new(&plan, &role)?;
    write_message(to, &FromHost::Bound(host.driver.address().map_err(text)?)).map_err(text)?;
    let Some(ToHost::Peers(addresses)) = read_message(from).map_err(text)? else { return Ok(()) };
    host.connect(addresses)?;
    while host.sessions.len() < host.addresses.len() {
        // The testbed sends nothing at this point; readable input means that it is gone.
        if is_readable(from)? {
            return Ok(());
        }
        host.poll(from, Time::NEVER)?;
    }
    write_message(to, &FromHost::Ready).map_err(text)?;
    while !is_readable(from)? {
        host.poll(from, Time::NEVER)?;
    }
    let Some(ToHost::Start { at_ps }) = read_message(from).map_err(text)? else { return Ok(()) };
    host.start = Time::ps(at_ps);
    let lost_before = host.driver.overrun();
    let end = host.start.after(plan.duration.since(Time::ZERO));
    let (mut closed, mut done) = (false, false);
    while !is_readable(from)? {
        host.run(plan.duration)?;
        if !closed && host.driver.now() >= end {
            closed = true;
            host.share.close().for_each(|number| host.stop(number));
        }
        if closed && !done && host.share.open() == 0 {
            done = true;
            write_message(to, &FromHost::Done).map_err(text)?;
        }
        let next = host.start.after(host.share.next_at().since(Time::ZERO));
        host.poll(from, next.min(if closed { Time::NEVER } else { end }))?;
    }
    let Some(ToHost::Finish) = read_message(from).map_err(text)? else { return Ok(()) };
    let lost = host.driver.overrun().wrapping_sub(lost_before);
    let late = host.late_ns.iter_recorded();
    let late = late.map(|value| (value.value_iterated_to(), value.count_at_value())).collect();
    let seen = host.share.leave();
    write_message(to, &FromHost::Seen { bytes: seen.len(), late, lost }).map_err(text)?;
    to.write_all(&seen).and_then(|()| to.flush()).map_err(text)
}

/// A host.
struct Host {
    driver: Driver,
    dilation: Dilation,
    share: OpenHost,
    /// Number of this host.
    own: u32,
    /// Numbers of the other hosts, by address.
    addresses: BTreeMap<SocketAddr, u32>,
    /// Sessions by host, and hosts by session.
    sessions: BTreeMap<u32, PeerId>,
    hosts: BTreeMap<PeerId, u32>,
    /// Messages in flight by ticket, with their numbers in `share`.
    tickets: BTreeMap<Ticket, u32>,
    /// Tickets of unlimited messages, by number.
    endless: BTreeMap<u32, Ticket>,
    /// Start of the run.
    start: Time,
    /// Content of messages, which is never read.
    zeros: Bytes,
    /// How long datagrams waited since the start, in nanoseconds of the common clock.
    late_ns: Histogram<u64>,
}

impl Host {
    fn new(plan: &Plan, role: &Role) -> Result<Host, String> {
        let share = OpenHost::new(plan.setup.clone(), role.host)?;
        let config = config(plan, role, &share);
        let dilation =
            Dilation { origin: Duration::from_nanos(role.origin_ns), factor: role.dilation };
        let burst = dilation.span(BURST);
        let node = Node::new(Config { burst, ..config }, entropy().map_err(text)?).map_err(text)?;
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Datagrams are sent one by one: a segmented burst would reach the switch at one time.
        let options = SocketOptions { segment: false, coalesce: false, ..SocketOptions::default() };
        let socket = Socket::bind(address, options).map_err(text)?;
        // As much as the link can carry in the run. Memory that is never written costs nothing.
        let nic = share.context().nic_rate;
        let whole = plan.duration.since(Time::ZERO).plus(plan.drain);
        let most = nic.bytes_in(whole).saturating_mul(2).clamp(1 << 20, MOST_ZEROS);
        Ok(Host {
            driver: Driver::by(Clock::from(dilation), node, socket),
            dilation,
            share,
            own: role.host,
            addresses: BTreeMap::new(),
            sessions: BTreeMap::new(),
            hosts: BTreeMap::new(),
            tickets: BTreeMap::new(),
            endless: BTreeMap::new(),
            start: Time::NEVER,
            zeros: Bytes::from(vec![0; most as usize]),
            late_ns: lateness().map_err(text)?,
        })
    }

    /// Opens sessions to hosts with higher numbers, one after the other, so that no switch has to
    /// buffer the handshakes of all. The other hosts connect to this one.
    fn connect(&mut self, addresses: Vec<Option<SocketAddr>>) -> Result<(), String> {
        let others = (0..).zip(addresses).filter(|(host, _)| *host != self.own);
        self.addresses = others.filter_map(|(host, address)| Some((address?, host))).collect();
        self.connect_next()
    }

    fn connect_next(&mut self) -> Result<(), String> {
        let higher = self.addresses.iter().filter(|(_, host)| **host > self.own);
        let next = higher.filter(|(_, host)| !self.sessions.contains_key(host));
        let Some((&address, _)) = next.min_by_key(|(_, host)| **host) else { return Ok(()) };
        let peer = self.driver.node.connect(self.driver.now(), address);
        peer.map(drop).map_err(|why| format!("cannot open a session with {address}: {why}"))
    }

    /// Does the work that is due, or sleeps until work is due or the testbed sends a message.
    fn poll(&mut self, from: &BufReader<StdinLock<'_>>, until: Time) -> Result<(), String> {
        let now = self.driver.now();
        let until = until.min(now.after(self.dilation.span(MAX_SLEEP)));
        let may_sleep = self.driver.work().map_err(text)?;
        if let Some(late) = self.driver.late().filter(|_| now >= self.start) {
            self.late_ns.saturating_record(late.as_ps() / 1_000);
        }
        if may_sleep {
            self.driver.sleep(until, Some(from.get_ref().as_fd())).map_err(text)?;
        }
        while let Some(event) = self.driver.node.event() {
            self.handle(event)?;
        }
        Ok(())
    }

    /// Time since the start of the run.
    fn now(&self) -> Time {
        Time::ZERO.after(self.driver.now().since(self.start))
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        let now = self.now();
        match event {
            Event::Opened(peer) => {
                let address = self.driver.node.address(peer);
                let host = address.and_then(|address| self.addresses.get(&address));
                let unknown = || format!("a session from the unknown address {address:?}");
                let &host = host.ok_or_else(unknown)?;
                self.driver.node.know_path(peer, self.share.paths().path(self.own, host));
                self.sessions.insert(host, peer);
                self.connect_next()?;
                self.hosts.insert(peer, host);
            }
            Event::Closed(_, why) => return Err(format!("a session ended early: {why:?}")),
            Event::Piece(peer, Piece { message, offset, bytes }) => {
                let Some(&from) = self.hosts.get(&peer) else { return Ok(()) };
                self.driver.node.consumed(self.driver.now(), peer, bytes.len() as u64);
                if !self.share.delivered(now, from, message, offset, &bytes) {
                    return Err("received a message of another run".to_owned());
                }
            }
            Event::Ended(peer, message) => {
                if let Some(&from) = self.hosts.get(&peer) {
                    self.share.completed(now, from, message);
                }
            }
            Event::Delivered(ticket) => {
                if let Some(number) = self.tickets.remove(&ticket) {
                    self.share.acked(now, number);
                }
            }
            Event::Resent(ticket, bytes) => {
                if let Some(&number) = self.tickets.get(&ticket) {
                    self.share.resent(number, bytes);
                }
            }
            // The end of a session has its own event; messages arrive in pieces, never whole.
            Event::Failed(..) | Event::Arrived(..) => {}
        }
        Ok(())
    }

    /// Starts and stops the messages that are due by now, and by `end`.
    fn run(&mut self, end: Time) -> Result<(), String> {
        if self.driver.now() < self.start {
            return Ok(());
        }
        while let Some(action) = self.share.next(self.now().min(end)) {
            match action {
                HostAction::Send(start) => self.send(start)?,
                HostAction::Stop(number) => self.stop(number),
            }
        }
        Ok(())
    }

    fn send(&mut self, start: MessageStart) -> Result<(), String> {
        let MessageStart { to, bytes, name, weight, dedicated, number } = start;
        let Some(&peer) = self.sessions.get(&to) else {
            return Err(format!("no session with host {to}"));
        };
        let endless = bytes == Message::UNLIMITED;
        // A message that would end after the run is cut to twice what the link can carry in the
        // run.
        let length = match endless {
            true => NAME_BYTES as u64,
            false => bytes.min(self.zeros.len() as u64),
        };
        if length == MOST_ZEROS {
            return Err(format!("a message may carry at most {length} bytes: shorten the run"));
        }
        let body = self.zeros.slice(..length as usize - NAME_BYTES);
        let terms = Terms { weight, dedicated, endless, ..Terms::default() };
        let now = self.driver.now();
        let ticket = self.driver.node.send(now, peer, &name, body, terms);
        let ticket = ticket.map_err(|why: SendError| format!("cannot send a message: {why:?}"))?;
        self.tickets.insert(ticket, number);
        if endless {
            self.endless.insert(number, ticket);
        }
        Ok(())
    }

    /// Stops an unlimited message.
    fn stop(&mut self, number: u32) {
        if let Some(ticket) = self.endless.remove(&number) {
            self.driver.node.stop(self.driver.now(), ticket);
        }
    }
}

/// Configuration of a host's node, equal to that of a simulated host.
fn config(plan: &Plan, role: &Role, share: &OpenHost) -> Config {
    let context = share.context();
    let hosts = (0..context.hosts).filter(|&host| host != role.host);
    let hops = hosts.map(|host| share.paths().path(role.host, host).hops);
    let limits = Limits {
        peers: context.hosts,
        message_bytes: MOST_BYTES,
        unread_bytes: MOST_BYTES,
        // A host that is gone ends the run in any case.
        silence: Span::s(1 << 20),
    };
    // The plan already ensures that the switches provide what the protocol needs. Trimming changes
    // the headers of sessions.
    let trims = plan.fabric.switches.iter().any(|switch| switch.trimming.is_some());
    let has = |need: &Need| trims || *need != Need::Trimming;
    Config {
        base_rtt: Some(context.fabric_base_rtt),
        control_rtt: Some(context.fabric_control_rtt),
        spraying: context.spraying,
        bdp_bytes: Some(context.bdp_bytes),
        hops: hops.max().unwrap_or(1),
        switches: Need::ALL.into_iter().filter(has).collect(),
        priorities: context.priorities,
        connections: context.connections,
        limits,
        delivery: Delivery::Pieces,
        seed: Some(mix64(context.seed ^ u64::from(role.host))),
        ..Config::new(plan.stacks[0].clone(), Key::new(&role.key), context.nic_rate)
    }
    .as_simulated(context.mtu)
}

/// Whether the testbed has sent something.
fn is_readable(from: &BufReader<StdinLock<'_>>) -> Result<bool, String> {
    if !from.buffer().is_empty() {
        return Ok(true);
    }
    let mut polled = [PollFd::new(from.get_ref().as_fd(), PollFlags::POLLIN)];
    poll(&mut polled, PollTimeout::ZERO).map(|ready| ready > 0).map_err(text)
}

fn text(why: impl std::fmt::Display) -> String {
    why.to_string()
}
