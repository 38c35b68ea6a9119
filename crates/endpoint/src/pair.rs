//! Two endpoints on a link in memory, with a fake clock.

use std::collections::VecDeque;

use tidegate_algos::Stack;
use tidegate_core::{Application, HostContext, Message, PathOracle, Rate, Span, Time};

use crate::endpoint::{Endpoint, Packet};

/// A full-duplex link between host 0 and host 1.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Rate of each direction.
    pub rate: Rate,
    /// One-way propagation delay.
    pub delay: Span,
}

/// A message with its submission time and host.
#[derive(Clone, Copy, Debug)]
pub struct Submission {
    /// Time of submission.
    pub at: Time,
    /// Host 0 or 1.
    pub host: usize,
    /// The message.
    pub message: Message,
}

/// A packet that left a host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Departure {
    /// Start of its transmission.
    pub at: Time,
    /// Host 0 or 1.
    pub host: usize,
    /// The packet as sent.
    pub packet: Packet,
}

/// One end of the link.
struct Side {
    endpoint: Endpoint,
    /// End of the uplink's busy period.
    free_at: Time,
    /// Packets in flight to this host, with their arrival times.
    incoming: VecDeque<(Time, Packet)>,
}

/// Runs until `end` and returns the departures in order of time. `submissions` must be in order of
/// time.
///
/// At equal times, packets leave first, then packets arrive, then messages are submitted, then
/// deadlines expire.
pub fn pair(
    stack: &Stack,
    contexts: [HostContext; 2],
    link: Link,
    paths: &dyn PathOracle,
    submissions: &[Submission],
    end: Time,
    app: &mut impl Application,
) -> Vec<Departure> {
    let mut sides = contexts.map(|c| Side {
        endpoint: Endpoint::new(stack, &c),
        free_at: Time::ZERO,
        incoming: VecDeque::new(),
    });
    let mut departures = Vec::new();
    let mut submissions = submissions.iter().peekable();
    let mut now = Time::ZERO;
    loop {
        send(&mut sides, now, link, &mut departures);
        for side in &mut sides {
            while let Some((_, packet)) = side.incoming.pop_front_if(|(at, _)| *at <= now) {
                side.endpoint.receive(now, packet, app);
            }
        }
        while let Some(submission) = submissions.next_if(|submission| submission.at <= now) {
            sides[submission.host].endpoint.submit(now, submission.message, paths);
        }
        for side in &mut sides {
            if side.endpoint.deadline() <= now {
                side.endpoint.on_deadline(now, app);
            }
        }
        send(&mut sides, now, link, &mut departures);
        let next = sides.iter().map(|side| side.next_after(now)).min().unwrap_or(Time::NEVER);
        now = next.min(submissions.peek().map_or(Time::NEVER, |submission| submission.at));
        if now > end {
            return departures;
        }
    }
}

/// Sends all packets that may leave.
fn send(sides: &mut [Side; 2], now: Time, link: Link, departures: &mut Vec<Departure>) {
    for host in 0..2 {
        while sides[host].free_at <= now
            && let Some(packet) = sides[host].endpoint.transmit(now)
        {
            departures.push(Departure { at: now, host, packet });
            let left = now + link.rate.serialise(packet.frame.wire_bytes as u64);
            sides[host].free_at = left;
            sides[1 - host].incoming.push_back((left + link.delay, packet));
        }
    }
}

impl Side {
    /// Time of the next event at this side.
    fn next_after(&self, now: Time) -> Time {
        let later = |at: Time| if at > now { at } else { Time::NEVER };
        let arrival = self.incoming.front().map_or(Time::NEVER, |(at, _)| *at);
        arrival.min(later(self.free_at)).min(later(self.endpoint.deadline()))
    }
}
