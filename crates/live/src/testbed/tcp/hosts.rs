//! The sockets of all hosts, on one thread: the same traffic code as a simulated host, over TCP.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use tidegate_core::{Dilation, Span, Time};
use tidegate_scenario::Plan;
use tidegate_sim::{HostAction, MessageStart, NAME_BYTES, OpenHost};

use hdrhistogram::Histogram;

use super::super::{lateness, monotonic};
use super::namespaces::{Network, Place};
use super::sockets::{self, UNSENT_BYTES};

/// Bytes before the payload, which begins with the name: number and length.
const PREAMBLE_BYTES: usize = 4 + 8;
const HEAD_BYTES: usize = PREAMBLE_BYTES + NAME_BYTES;
/// Shortest time between two passes over the sockets: with a pass for every packet, the hosts would
/// take the processor from the switch. The kernel acknowledges without them.
const PASS_EVERY: Span = Span::us(250);
/// Longest wait for the next action.
const MAX_SLEEP: Duration = Duration::from_millis(20);
/// Interval at which senders' sockets are examined for acknowledged messages.
const EXAMINE_EVERY: Span = Span::us(500);
/// Bytes that are read at once.
const READ_BYTES: usize = 1 << 16;

/// The beginning of a connection's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// Number of the message at its sender.
    number: u32,
    /// Payload, with the name.
    length: u64,
    name: [u8; NAME_BYTES],
}

impl Head {
    fn bytes(&self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        let (number, rest) = bytes.split_at_mut(4);
        let (length, name) = rest.split_at_mut(8);
        number.copy_from_slice(&self.number.to_be_bytes());
        length.copy_from_slice(&self.length.to_be_bytes());
        name.copy_from_slice(&self.name);
        bytes
    }

    fn of(bytes: &[u8; HEAD_BYTES]) -> Head {
        let (number, rest) = bytes.split_at(4);
        let (length, name) = rest.split_at(8);
        // The lengths are exact.
        Head {
            number: u32::from_be_bytes(number.try_into().unwrap_or_default()),
            length: u64::from_be_bytes(length.try_into().unwrap_or_default()),
            name: name.try_into().unwrap_or_default(),
        }
    }
}

/// Communication with the thread of the switch.
#[derive(Default)]
pub(super) struct Flags {
    /// The hosts have sent all messages, and all are acknowledged.
    pub(super) done: AtomicBool,
    /// The run is over.
    pub(super) finish: AtomicBool,
}

/// A host.
struct Host<'a> {
    share: OpenHost,
    place: &'a Place,
    listener: TcpListener,
    /// A connection waits.
    is_ready: bool,
}

/// A message on its way out.
struct Outgoing {
    /// Index of its host.
    host: usize,
    number: u32,
    stream: TcpStream,
    head: [u8; HEAD_BYTES],
    /// Bytes of head and payload that the socket has accepted.
    written: u64,
    /// Bytes of head and payload; unlimited messages have no end until they are stopped.
    length: u64,
    /// The socket takes data.
    is_ready: bool,
}

/// A connection that delivers a message.
struct Incoming {
    /// Index of its host.
    host: usize,
    /// Number of the sending host.
    from: u32,
    stream: TcpStream,
    head: [u8; HEAD_BYTES],
    /// Bytes of head and payload that arrived.
    received: u64,
    /// The socket has data.
    is_ready: bool,
    is_over: bool,
}

/// All hosts that take part.
pub(super) struct Hosts<'a> {
    hosts: Vec<Host<'a>>,
    congestion: &'a str,
    clock: Dilation,
    outgoing: Vec<Outgoing>,
    incoming: Vec<Incoming>,
    scratch: Vec<u8>,
    zeros: Vec<u8>,
    /// End of submissions, in the time of the run.
    duration: Time,
    /// How late this thread woke up, in nanoseconds.
    late_ns: Histogram<u64>,
}

/// Records of each host, and how late the hosts' thread woke up, in nanoseconds.
pub(super) type HostRecords = (Vec<Vec<u8>>, Histogram<u64>);

impl<'a> Hosts<'a> {
    /// Opens the sockets that accept connections, once the switch receives.
    pub(super) fn open(
        plan: &Plan,
        network: &'a Network,
        congestion: &'a str,
        clock: Dilation,
    ) -> io::Result<Hosts<'a>> {
        let host = |place: &'a Place| {
            let _there = place.namespace.enter()?;
            let share = OpenHost::new(plan.setup.clone(), place.host);
            Ok(Host {
                share: share.map_err(io::Error::other)?,
                place,
                listener: sockets::listen(place.address, congestion)?,
                is_ready: false,
            })
        };
        let hosts: Vec<Host<'a>> = network.places.iter().map(host).collect::<io::Result<_>>()?;
        for (host, next) in hosts.iter().zip(hosts.iter().cycle().skip(1)) {
            let _there = host.place.namespace.enter()?;
            sockets::announce(host.place.address, next.place.address)?;
        }
        Ok(Hosts {
            hosts,
            congestion,
            clock,
            outgoing: Vec::new(),
            incoming: Vec::new(),
            scratch: vec![0; READ_BYTES],
            zeros: vec![0; UNSENT_BYTES],
            duration: plan.duration,
            late_ns: lateness().map_err(io::Error::other)?,
        })
    }

    /// Sends and receives until the run is over. Returns the records of each host.
    pub(super) fn run(mut self, start: Time, flags: &Flags) -> io::Result<HostRecords> {
        // Timer slack of this thread in nanoseconds; the default of the kernel is 50 us.
        set_timerslack(1)?;
        let mut is_closed = false;
        let mut examined = Time::ZERO;
        while !flags.finish.load(Ordering::Relaxed) {
            let clock = self.clock.time(monotonic());
            if clock < start {
                std::thread::sleep(self.clock.real(start.since(clock)));
                continue;
            }
            let time = |clock: Dilation| Time::ZERO.after(clock.time(monotonic()).since(start));
            let now = time(self.clock);
            if !is_closed {
                self.run_actions(now.min(self.duration))?;
            }
            if !is_closed && now >= self.duration {
                is_closed = true;
                self.close()?;
            }
            self.accept()?;
            self.receive(time(self.clock))?;
            self.send()?;
            if now.since(examined) >= EXAMINE_EVERY {
                examined = now;
                self.examine(now)?;
            }
            if is_closed && self.hosts.iter().all(|host| host.share.open() == 0) {
                flags.done.store(true, Ordering::Relaxed);
            }
            self.wait(now, time(self.clock))?;
        }
        for outgoing in &self.outgoing {
            let share = &mut self.hosts[outgoing.host].share;
            let state = sockets::send_state(&outgoing.stream, self.congestion)?;
            share.resent(outgoing.number, state.resent_bytes());
        }
        let records = self.hosts.into_iter().map(|host| host.share.leave()).collect();
        Ok((records, self.late_ns))
    }

    /// Takes the actions that are due.
    fn run_actions(&mut self, now: Time) -> io::Result<()> {
        for host in 0..self.hosts.len() {
            while let Some(action) = self.hosts[host].share.next(now) {
                match action {
                    HostAction::Send(start) => self.start(host, start)?,
                    HostAction::Stop(number) => self.stop(host, number)?,
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, host: usize, start: MessageStart) -> io::Result<()> {
        let MessageStart { to, bytes, name, number, .. } = start;
        let known = |host: &&Host<'_>| host.place.host == to;
        let Some(to) = self.hosts.iter().find(known).map(|host| host.place.address) else {
            return Err(io::Error::other(format!("host {to} does not take part")));
        };
        let stream = {
            let _there = self.hosts[host].place.namespace.enter()?;
            sockets::open(to, self.congestion)?
        };
        let head = Head { number, length: bytes, name }.bytes();
        // Unlimited messages have the greatest length.
        let length = bytes.saturating_add(PREAMBLE_BYTES as u64);
        self.outgoing.push(Outgoing {
            host,
            number,
            stream,
            head,
            written: 0,
            length,
            is_ready: false,
        });
        Ok(())
    }

    /// Ends an unlimited message. Data that its socket holds is still sent.
    fn stop(&mut self, host: usize, number: u32) -> io::Result<()> {
        let is_meant = |one: &&mut Outgoing| (one.host, one.number) == (host, number);
        match self.outgoing.iter_mut().find(is_meant) {
            Some(outgoing) => outgoing.stop(),
            None => Ok(()),
        }
    }

    /// Ends submissions and unlimited messages.
    fn close(&mut self) -> io::Result<()> {
        for host in 0..self.hosts.len() {
            for number in self.hosts[host].share.close() {
                self.stop(host, number)?;
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        for (index, host) in self.hosts.iter().enumerate().filter(|(_, host)| host.is_ready) {
            while let Some((stream, from)) = if_ready(host.listener.accept())? {
                stream.set_nonblocking(true)?;
                let sender = |host: &&Host<'_>| IpAddr::V4(host.place.address) == from.ip();
                let Some(from) = self.hosts.iter().find(sender) else { continue };
                self.incoming.push(Incoming {
                    host: index,
                    from: from.place.host,
                    stream,
                    head: [0; HEAD_BYTES],
                    received: 0,
                    is_ready: false,
                    is_over: false,
                });
            }
        }
        Ok(())
    }

    fn receive(&mut self, now: Time) -> io::Result<()> {
        for incoming in self.incoming.iter_mut().filter(|incoming| incoming.is_ready) {
            while !incoming.is_over {
                let read = if_ready(incoming.stream.read(&mut self.scratch))?;
                let Some(bytes) = read else { break };
                incoming.is_over = bytes == 0;
                let share = &mut self.hosts[incoming.host].share;
                if !incoming.take(now, &self.scratch[..bytes], share) {
                    return Err(io::Error::other("received a message of another run"));
                }
                if bytes < READ_BYTES {
                    break;
                }
            }
        }
        self.incoming.retain(|incoming| !incoming.is_over);
        Ok(())
    }

    fn send(&mut self) -> io::Result<()> {
        let is_due = |outgoing: &&mut Outgoing| outgoing.is_ready && outgoing.is_writing();
        self.outgoing.iter_mut().filter(is_due).try_for_each(|outgoing| outgoing.send(&self.zeros))
    }

    /// Records messages that are acknowledged, and what was retransmitted.
    fn examine(&mut self, now: Time) -> io::Result<()> {
        let (hosts, congestion) = (&mut self.hosts, self.congestion);
        let mut result = Ok(());
        self.outgoing.retain(|outgoing| {
            if outgoing.is_writing() {
                return true;
            }
            match sockets::send_state(&outgoing.stream, congestion) {
                Ok(state) if !state.is_acked => true,
                Ok(state) => {
                    let share = &mut hosts[outgoing.host].share;
                    share.resent(outgoing.number, state.resent_bytes());
                    share.acked(now, outgoing.number);
                    false
                }
                Err(why) => {
                    result = Err(why);
                    true
                }
            }
        });
        result
    }

    /// Sleeps until a socket is ready or an action is due. The last pass over the sockets began at
    /// `passed`.
    fn wait(&mut self, passed: Time, now: Time) -> io::Result<()> {
        let next = self.hosts.iter().map(|host| host.share.next_at()).min();
        let next = next.unwrap_or(Time::NEVER);
        let pause = self.clock.real(passed.after(PASS_EVERY).min(next).since(now));
        let before = monotonic();
        std::thread::sleep(pause);
        let slept = monotonic().saturating_sub(before);
        if pause > Duration::ZERO {
            self.late_ns.saturating_record(slept.saturating_sub(pause).as_nanos() as u64);
        }
        let left = self.clock.real(next.since(now)).saturating_sub(slept).min(MAX_SLEEP);
        let unanswered = self.outgoing.iter().any(|outgoing| !outgoing.is_writing());
        let left = if unanswered { left.min(self.clock.real(EXAMINE_EVERY)) } else { left };
        let input = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut polled: Vec<PollFd<'_>> =
            self.hosts.iter().map(|host| input(host.listener.as_fd())).collect();
        polled.extend(self.incoming.iter().map(|incoming| input(incoming.stream.as_fd())));
        let writing = self.outgoing.iter().filter(|outgoing| outgoing.is_writing());
        let streams = writing.map(|outgoing| outgoing.stream.as_fd());
        polled.extend(streams.map(|fd| PollFd::new(fd, PollFlags::POLLOUT)));
        match ppoll(&mut polled, Some(TimeSpec::from(left)), None) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(why) => return Err(why.into()),
        }
        // Errors and ends count as ready, so that the next access reports them.
        let ready: Vec<bool> = polled.iter().map(|one| one.any().unwrap_or(false)).collect();
        let mut ready = ready.into_iter();
        for (host, is_ready) in self.hosts.iter_mut().zip(&mut ready) {
            host.is_ready = is_ready;
        }
        for (incoming, is_ready) in self.incoming.iter_mut().zip(&mut ready) {
            incoming.is_ready = is_ready;
        }
        let writing = self.outgoing.iter_mut().filter(|outgoing| outgoing.is_writing());
        for (outgoing, is_ready) in writing.zip(&mut ready) {
            outgoing.is_ready = is_ready;
        }
        Ok(())
    }
}

impl Outgoing {
    /// Whether the socket has not accepted all data.
    fn is_writing(&self) -> bool {
        self.written < self.length
    }

    /// Writes as much as the socket takes, at most once its limit of unsent data.
    fn send(&mut self, zeros: &[u8]) -> io::Result<()> {
        let data = match self.head.get(self.written as usize..) {
            Some(head) if !head.is_empty() => head,
            _ => zeros,
        };
        let most = (self.length - self.written).min(data.len() as u64);
        match self.stream.write(&data[..most as usize]) {
            Ok(bytes) => self.written += bytes as u64,
            // The connection is not open yet.
            Err(why) if why.kind() == ErrorKind::NotConnected => {}
            Err(why) if is_blocked(&why) => {}
            Err(why) => return Err(io::Error::new(why.kind(), format!("a connection: {why}"))),
        }
        Ok(())
    }

    fn stop(&mut self) -> io::Result<()> {
        self.length = self.written;
        sockets::stop(&self.stream)
    }
}

impl Incoming {
    /// Takes what arrived. Returns `false` if it cannot belong to this run.
    fn take(&mut self, now: Time, bytes: &[u8], share: &mut OpenHost) -> bool {
        let before = self.received;
        self.received += bytes.len() as u64;
        let (head, body) = match usize::try_from(before).ok().filter(|at| *at < HEAD_BYTES) {
            Some(at) => {
                let (head, body) = bytes.split_at(bytes.len().min(HEAD_BYTES - at));
                self.head[at..at + head.len()].copy_from_slice(head);
                (head, body)
            }
            None => (&[][..], bytes),
        };
        if self.received < HEAD_BYTES as u64 {
            return true;
        }
        let Head { number, length, name } = Head::of(&self.head);
        let is_known = head.is_empty() || share.delivered(now, self.from, number, 0, &name);
        if !body.is_empty() {
            share.delivered(now, self.from, number, NAME_BYTES as u64, body);
        }
        if self.received - PREAMBLE_BYTES as u64 == length && !bytes.is_empty() {
            share.completed(now, self.from, number);
        }
        is_known
    }
}

fn is_blocked(why: &io::Error) -> bool {
    matches!(why.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn if_ready<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(why) if is_blocked(&why) => Ok(None),
        Err(why) => Err(why),
    }
}
