//! A node on a socket, in the thread of whoever calls.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use tidegate_core::{Dilation, Span, Time};

use crate::node::{Arrival, Departure, Node};
use crate::socket::{MOST_BYTES, MOST_SEGMENTS, Socket};

/// Rows of datagrams that are taken, and sent, before the other is looked at.
const ROWS: usize = 16;
/// How exactly the system wakes this thread: its slack is 50 us unless it is told.
const TIMER_SLACK_NS: u64 = 1;
thread_local! {
    /// Of the thread that sleeps.
    static SLACK_IS_SET: Cell<bool> = const { Cell::new(false) };
}
/// While the system has no room it is asked again after so long at the latest.
const STUCK: Duration = Duration::from_millis(1);
/// Time is told in picoseconds since the last multiple of this before: as long as they fit, and far
/// longer than sessions.
const ERA: Duration = Duration::from_secs(1 << 23);

/// A node, its socket and the system's clock.
pub struct Driver {
    /// The node.
    pub node: Node,
    socket: Socket,
    incoming: Box<[u8]>,
    outgoing: Box<[u8]>,
    /// A row that the system had no room for.
    stuck: Option<Row>,
    /// A datagram that was no part of the last row.
    spare: Option<(Departure, Vec<u8>)>,
    clock: Clock,
    busy_poll: Span,
    /// Before that the thread does not sleep.
    looks_until: Time,
    late: Option<Span>,
}

/// A clock that goes as evenly as the one of the system that nobody sets.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// By that clock.
    dilation: Dilation,
    /// What it showed at the origin.
    began: Span,
}

/// As long, or as long as spans are.
pub(crate) fn span(duration: Duration) -> Span {
    Span::ns(duration.as_nanos().min(u128::from(u64::MAX / 1_000)) as u64)
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

impl Clock {
    /// The time since the last turn of an era. Clocks of hosts that are synchronised agree when
    /// they begin, whoever sets the system's afterwards.
    pub fn new() -> Clock {
        let since = read(ClockId::CLOCK_REALTIME).as_nanos() % ERA.as_nanos();
        let dilation = Dilation::none(read(ClockId::CLOCK_MONOTONIC));
        Clock { dilation, began: Span::ns(since as u64) }
    }

    /// What it is.
    pub fn now(&self) -> Time {
        self.dilation.time(read(ClockId::CLOCK_MONOTONIC)).after(self.began)
    }
}

impl From<Dilation> for Clock {
    /// Slower than the system's, from zero at the origin.
    fn from(dilation: Dilation) -> Clock {
        Clock { dilation, began: Span::ZERO }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Datagrams to one address, in `outgoing`.
#[derive(Clone, Copy)]
struct Row {
    to: SocketAddr,
    tos: u8,
    segment: usize,
    bytes: usize,
}

impl Driver {
    /// Puts the node on the socket.
    pub fn new(node: Node, socket: Socket) -> Driver {
        Driver::by(Clock::new(), node, socket)
    }

    /// The same by that clock.
    pub fn by(clock: Clock, node: Node, socket: Socket) -> Driver {
        let busy_poll = span(socket.busy_poll());
        Driver {
            node,
            socket,
            incoming: vec![0; 1 << 16].into(),
            // A row, and one datagram more.
            outgoing: vec![0; 2 << 16].into(),
            stuck: None,
            spare: None,
            clock,
            busy_poll,
            looks_until: Time::ZERO,
            late: None,
        }
    }

    /// Where it is.
    ///
    /// # Errors
    /// Where the system does not say.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The time after so long by the system's clock.
    pub(crate) fn after(&self, real: Duration) -> Time {
        self.now().after(self.clock.dilation.span(real))
    }

    /// Works, and sleeps where there is nothing to do until something comes, or is due, or until
    /// that time.
    ///
    /// # Errors
    /// Where the system has any.
    pub fn poll(&mut self, until: Time) -> io::Result<()> {
        if self.work()? {
            self.sleep(until, None)?;
        }
        Ok(())
    }

    /// Takes what has come, does what is due, sends what may be sent. Whether the thread may sleep
    /// then: there was nothing, there is nothing to tell, and it has looked long enough.
    ///
    /// # Errors
    /// Where the system has any.
    pub fn work(&mut self) -> io::Result<bool> {
        let came = self.receive()?;
        let now = self.now();
        if self.node.deadline() <= now {
            self.node.on_deadline(now);
        }
        let went = self.transmit()?;
        if came || went || self.node.has_event() {
            self.looks_until = now.after(self.busy_poll);
            return Ok(false);
        }
        Ok(now >= self.looks_until)
    }

    /// How long what the last [`work`](Self::work) took had waited for that, at most; none where
    /// nothing had come.
    pub fn late(&self) -> Option<Span> {
        self.late
    }

    /// Datagrams that the system has lost because nobody took them in time.
    pub fn overrun(&self) -> u32 {
        self.socket.overrun()
    }

    /// Takes what has come; whether there was anything.
    fn receive(&mut self) -> io::Result<bool> {
        self.late = None;
        for row in 0..ROWS {
            let Some(got) = self.socket.receive(&mut self.incoming)? else { return Ok(row > 0) };
            let (now, held) = (self.now(), self.clock.dilation.span(got.held));
            self.late = self.late.max(Some(self.clock.dilation.span(got.waited)));
            for bytes in self.incoming[..got.bytes].chunks_mut(got.segment) {
                self.node.receive(now, Arrival { from: got.from, tos: got.tos, held, bytes });
            }
        }
        Ok(true)
    }

    /// Sends what may be sent; whether there was anything.
    fn transmit(&mut self) -> io::Result<bool> {
        let mut went = false;
        for _ in 0..ROWS {
            let Some(row) = self.stuck.take().or_else(|| self.row()) else { return Ok(went) };
            let bytes = &self.outgoing[..row.bytes];
            if !self.socket.send(row.to, row.tos, row.segment, bytes)? {
                self.stuck = Some(row);
                return Ok(went);
            }
            went = true;
        }
        Ok(went)
    }

    /// The next datagrams that may leave at once: alike but for the length of the last.
    fn row(&mut self) -> Option<Row> {
        let now = self.now();
        let first = match self.spare.take() {
            Some((first, bytes)) => {
                self.outgoing[..first.bytes].copy_from_slice(&bytes);
                first
            }
            None => self.node.transmit(now, &mut self.outgoing)?,
        };
        let Departure { to, tos, bytes: segment } = first;
        let mut row = Row { to, tos, segment, bytes: segment };
        let most = if self.socket.segments() { MOST_SEGMENTS } else { 1 };
        for _ in 1..most {
            if row.bytes + segment > MOST_BYTES {
                break;
            }
            let room = &mut self.outgoing[row.bytes..];
            let Some(next) = self.node.transmit(now, room) else { break };
            if (next.to, next.tos) != (to, tos) || next.bytes > segment {
                self.spare = Some((next, room[..next.bytes].to_vec()));
                break;
            }
            row.bytes += next.bytes;
            if next.bytes < segment {
                break;
            }
        }
        Some(row)
    }

    /// Sleeps until something comes, or is due, or `waker` can be read, or until that time; whether
    /// `waker` can be read.
    ///
    /// # Errors
    /// Where the system has any.
    pub fn sleep(&mut self, until: Time, waker: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        if !SLACK_IS_SET.replace(true) {
            let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
        }
        let wait = until.min(self.node.deadline()).since(self.now());
        let mut wait = self.clock.dilation.real(wait);
        let mut out = PollFlags::empty();
        if self.stuck.is_some() {
            // What wants to be sent now waits for the system, and only what is timed does not.
            wait = wait.max(STUCK);
            out = PollFlags::POLLOUT;
        }
        let wait = TimeSpec::from(wait);
        let socket = PollFd::new(self.socket.as_fd(), PollFlags::POLLIN | out);
        let second = PollFd::new(waker.unwrap_or(self.socket.as_fd()), PollFlags::POLLIN);
        let mut both = [socket, second];
        let watched = &mut both[..if waker.is_some() { 2 } else { 1 }];
        match ppoll(watched, Some(wait), None) {
            Ok(_) => Ok(watched.get(1).is_some_and(|waker| waker.any() == Some(true))),
            Err(nix::Error::EINTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Key;
    use crate::socket::SocketOptions;
    use tidegate_algos::Protocol;
    use tidegate_core::Rate;

    /// What the system had no room for is sent before anything else, as it was, and once.
    #[test]
    fn what_waits_for_the_system_is_sent_when_there_is_room() {
        let socket =
            || Socket::bind("127.0.0.1:0".parse().unwrap(), SocketOptions::default()).unwrap();
        let config =
            crate::node::Config::real(Protocol::USUAL.stack(), Key::new(b"key"), Rate::gbps(1));
        let node = Node::new(config, crate::node::entropy().unwrap()).unwrap();
        let (mut driver, mut other) = (Driver::new(node, socket()), socket());
        let to = other.address().unwrap();
        driver.outgoing[..5].copy_from_slice(b"stuck");
        driver.stuck = Some(Row { to, tos: 0, segment: 5, bytes: 5 });
        let now = driver.now();
        driver.node.connect(now, to).unwrap();
        // It would sleep for a minute if it did not watch for room.
        driver.sleep(now + Span::s(60), None).unwrap();
        assert!(driver.now().since(now) < Span::s(10));
        driver.work().unwrap();
        let mut room = vec![0; 1 << 16];
        let mut came = Vec::new();
        while let Some(got) = other.receive(&mut room).unwrap() {
            came.extend(room[..got.bytes].chunks(got.segment).map(<[u8]>::to_vec));
        }
        assert_eq!((came.len(), &came[0][..]), (2, &b"stuck"[..]), "that, and a question");
    }
}
