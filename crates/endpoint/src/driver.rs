//! Runs a node on a socket, in the thread of the caller.

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

/// Maximum number of batches that are received before sending, and sent before receiving.
const ROWS: usize = 16;
/// Timer slack of this thread; the default of Linux is 50 us.
const TIMER_SLACK_NS: u64 = 1;
thread_local! {
    /// Whether the slack of this thread is set.
    static SLACK_IS_SET: Cell<bool> = const { Cell::new(false) };
}
/// Maximum time before a send is repeated for which the system had no room.
const STUCK: Duration = Duration::from_millis(1);
/// Times are picoseconds since the last multiple of this span. They fit into 64 bits, and an era is
/// far longer than sessions.
const ERA: Duration = Duration::from_secs(1 << 23);

/// A node, its socket and the system's clock.
pub struct Driver {
    /// The node.
    pub node: Node,
    socket: Socket,
    incoming: Box<[u8]>,
    outgoing: Box<[u8]>,
    /// A batch for which the system had no room.
    stuck: Option<Row>,
    /// A datagram that did not fit into the last batch.
    spare: Option<(Departure, Vec<u8>)>,
    clock: Clock,
    busy_poll: Span,
    /// The thread polls and does not sleep until this time.
    looks_until: Time,
    late: Option<Span>,
}

/// A clock as steady as the monotonic clock of the system.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Relation to the monotonic clock.
    dilation: Dilation,
    /// Its reading at the origin.
    began: Span,
}

/// Converts a duration, saturating.
pub(crate) fn span(duration: Duration) -> Span {
    Span::ns(duration.as_nanos().min(u128::from(u64::MAX / 1_000)) as u64)
}

fn read(clock: ClockId) -> Duration {
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

impl Clock {
    /// Starts a clock at the time since the begin of the current era. The clocks of synchronised
    /// hosts agree at their start; later changes of the system clock have no effect.
    pub fn new() -> Clock {
        let since = read(ClockId::CLOCK_REALTIME).as_nanos() % ERA.as_nanos();
        let dilation = Dilation::none(read(ClockId::CLOCK_MONOTONIC));
        Clock { dilation, began: Span::ns(since as u64) }
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.dilation.time(read(ClockId::CLOCK_MONOTONIC)).after(self.began)
    }
}

impl From<Dilation> for Clock {
    /// A dilated clock that starts at zero at the origin.
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
    /// Creates a driver for a node and a socket.
    pub fn new(node: Node, socket: Socket) -> Driver {
        Driver::by(Clock::new(), node, socket)
    }

    /// The same with a given clock.
    pub fn by(clock: Clock, node: Node, socket: Socket) -> Driver {
        let busy_poll = span(socket.busy_poll());
        Driver {
            node,
            socket,
            incoming: vec![0; 1 << 16].into(),
            // A batch, and one more datagram.
            outgoing: vec![0; 2 << 16].into(),
            stuck: None,
            spare: None,
            clock,
            busy_poll,
            looks_until: Time::ZERO,
            late: None,
        }
    }

    /// The local address.
    ///
    /// # Errors If the system does not report it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// The current time plus a real duration.
    pub(crate) fn after(&self, real: Duration) -> Time {
        self.now().after(self.clock.dilation.span(real))
    }

    /// Runs one iteration. If there was nothing to do, sleeps until a datagram arrives, a deadline
    /// expires or `until`.
    ///
    /// # Errors
    /// If the system reports an error.
    pub fn poll(&mut self, until: Time) -> io::Result<()> {
        if self.work()? {
            self.sleep(until, None)?;
        }
        Ok(())
    }

    /// Receives datagrams, handles deadlines and sends datagrams. Returns whether the thread may
    /// sleep: there was nothing to do, there is no event, and it has polled long enough.
    ///
    /// # Errors
    /// If the system reports an error.
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

    /// Maximum time that a datagram had waited for the last [`work`](Self::work); `None` if it
    /// received none.
    pub fn late(&self) -> Option<Span> {
        self.late
    }

    /// Number of datagrams that the system dropped because the socket buffer was full.
    pub fn overrun(&self) -> u32 {
        self.socket.overrun()
    }

    /// Receives datagrams; returns whether there were any.
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

    /// Sends datagrams; returns whether there were any.
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

    /// Collects the next batch: datagrams of equal length to one address; the last may be shorter.
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

    /// Sleeps until a datagram arrives, a deadline expires, `waker` is readable, or `until`.
    /// Returns whether `waker` is readable.
    ///
    /// # Errors
    /// If the system reports an error.
    pub fn sleep(&mut self, until: Time, waker: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        if !SLACK_IS_SET.replace(true) {
            let _ = nix::sys::prctl::set_timerslack(TIMER_SLACK_NS);
        }
        let wait = until.min(self.node.deadline()).since(self.now());
        let mut wait = self.clock.dilation.real(wait);
        let mut out = PollFlags::empty();
        if self.stuck.is_some() {
            // Datagrams wait for the system now, so wait for room; timers still count.
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

    /// A batch for which the system had no room is sent first, unchanged and once.
    #[test]
    fn stuck_batch_is_sent_first() {
        let socket =
            || Socket::bind("127.0.0.1:0".parse().unwrap(), SocketOptions::default()).unwrap();
        let config =
            crate::node::Config::real(Protocol::DEFAULT.stack(), Key::new(b"key"), Rate::gbps(1));
        let node = Node::new(config, crate::node::entropy().unwrap()).unwrap();
        let (mut driver, mut other) = (Driver::new(node, socket()), socket());
        let to = other.address().unwrap();
        driver.outgoing[..5].copy_from_slice(b"stuck");
        driver.stuck = Some(Row { to, tos: 0, segment: 5, bytes: 5 });
        let now = driver.now();
        driver.node.connect(now, to).unwrap();
        // Without watching for room, this would sleep for a minute.
        driver.sleep(now + Span::s(60), None).unwrap();
        assert!(driver.now().since(now) < Span::s(10));
        driver.work().unwrap();
        let mut room = vec![0; 1 << 16];
        let mut came = Vec::new();
        while let Some(got) = other.receive(&mut room).unwrap() {
            came.extend(room[..got.bytes].chunks(got.segment).map(<[u8]>::to_vec));
        }
        assert_eq!(
            (came.len(), &came[0][..]),
            (2, &b"stuck"[..]),
            "the stuck datagram, and a Hello"
        );
    }
}
