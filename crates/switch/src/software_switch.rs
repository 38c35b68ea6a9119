//! Datagrams, the switches and the clock, brought together.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sys::prctl::set_timerslack;
use tidegate_core::fabric::Routing;
use tidegate_core::{Span, Time, mix64};
use tidegate_sim::{Leaving, OpenFabric, Spread};

use crate::clock::Clock;
use crate::datagram::Reader;
use crate::slots::Slots;
use crate::sockets::{Received, Sockets};
use crate::uplinks::Uplinks;
use crate::{Config, Counts, Path, Report};

/// Datagrams that are taken in before those that are due are seen to.
const MOST_AT_ONCE: usize = 1 << 10;
/// The longest that is slept where nothing is due.
const DOZE: Duration = Duration::from_millis(50);
/// Who is later than that is so late.
const MOST_LATE: Span = Span::s(100);
/// The kernel wakes a thread up so much late; it is awake so long before instead.
const SPIN: Duration = Duration::from_micros(50);

/// A switch at work, or several.
pub struct SoftwareSwitch {
    fabric: OpenFabric,
    reader: Reader,
    /// Each datagram takes a path for itself.
    sprays: bool,
    sockets: Sockets,
    clock: Clock,
    slots: Slots,
    /// What has come in since the last step: when, and its number.
    inbox: Vec<(Time, u32)>,
    uplinks: Uplinks,
    leaving: Vec<Leaving>,
    dropped: Vec<u32>,
    /// What is to be sent: when, in which order, and its number.
    due: BinaryHeap<Reverse<(Time, u64, u32)>>,
    order: u64,
    /// Datagrams that have been handed to the switches.
    taken: u64,
    counts: Counts,
    /// Since then.
    measured: Time,
    late_ns: Histogram<u64>,
}

impl SoftwareSwitch {
    /// Opens its sockets.
    ///
    /// # Errors
    /// Where there is no such switch, or an address cannot be listened at; the message says which.
    pub fn open(config: &Config) -> io::Result<SoftwareSwitch> {
        let Config { fabric, routing, seed, .. } = config;
        let priorities = fabric.switches.iter().map(|switch| switch.priorities).min();
        let stamps = fabric.switches.iter().any(|switch| switch.telemetry);
        let uplinks = Uplinks::new(fabric, config.uplinks);
        let fabric = OpenFabric::new(fabric.clone(), *routing, *seed)
            .map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
        let late_ns = Histogram::new_with_max(MOST_LATE.as_ps() / 1_000, 2);
        let late_ns = late_ns.map_err(io::Error::other)?;
        Ok(SoftwareSwitch {
            fabric,
            reader: Reader { priorities: priorities.unwrap_or(1), stamps, sized: config.sized },
            sprays: config.routing == Routing::Spray,
            sockets: Sockets::open(config)?,
            clock: Clock::new(config.clock),
            slots: Slots::default(),
            inbox: Vec::new(),
            uplinks,
            leaving: Vec::new(),
            dropped: Vec::new(),
            due: BinaryHeap::new(),
            order: 0,
            taken: 0,
            counts: Counts::default(),
            measured: Time::ZERO,
            late_ns,
        })
    }

    /// Where hosts send to, by who sends and then for whom.
    pub fn paths(&self) -> Vec<Path> {
        self.sockets.paths()
    }

    /// Forwards for as long as `goes_on`, which is asked again and again, at least twenty times a
    /// second.
    ///
    /// # Errors
    /// Where the kernel refuses to say what has come in.
    pub fn run(&mut self, mut goes_on: impl FnMut(&mut SoftwareSwitch) -> bool) -> io::Result<()> {
        // In nanoseconds, of this thread: else the kernel adds fifty microseconds to every sleep.
        set_timerslack(1)?;
        while goes_on(self) {
            self.wait()?;
            self.take_in()?;
            self.send();
        }
        Ok(())
    }

    /// How long ago it was opened.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// What it has done so far.
    pub fn report(&mut self) -> Report {
        let (ports, switches) = self.fabric.records();
        let counts = Counts { overrun: self.sockets.overrun(), ..self.counts };
        let us = |ns: u64| ns as f64 / 1e3;
        let late_us = Spread {
            mean: self.late_ns.mean() / 1e3,
            p99: Some(us(self.late_ns.value_at_quantile(0.99))),
            max: us(self.late_ns.max()),
        };
        Report {
            seconds: self.fabric.now().since(self.measured).as_s_f64(),
            ports,
            uplinks: self.uplinks.records(self.fabric.now()),
            switches,
            counts,
            late_us,
        }
    }

    /// Bytes queued now at the ports of switches, as
    /// [`OpenFabric::queues`](tidegate_sim::OpenFabric::queues) names them.
    pub fn queues(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.fabric.queues()
    }

    /// What has been measured so far is forgotten, but for what became of datagrams.
    pub fn measure_anew(&mut self) {
        self.measured = self.fabric.measure_anew();
        self.uplinks.measure_from(self.measured);
        self.late_ns.reset();
    }

    /// Waits until something comes in or is due. Shortly before it is due there is no sleep any
    /// more, but a look at the sockets again and again.
    fn wait(&self) -> io::Result<()> {
        let until = self.next().min(self.clock.now() + self.clock.span(DOZE));
        loop {
            let left = self.clock.real(until.since(self.clock.now()));
            if left == Duration::ZERO || self.sockets.wait(left.saturating_sub(SPIN))? {
                return Ok(());
            }
        }
    }

    /// When something is due.
    fn next(&self) -> Time {
        let due = self.due.peek().map_or(Time::NEVER, |Reverse((at, ..))| *at);
        due.min(self.fabric.next()).min(self.uplinks.next())
    }

    /// Takes in what has come, at the times at which the kernel had it, and starts what was due to
    /// leave by now.
    fn take_in(&mut self) -> io::Result<()> {
        let SoftwareSwitch { sockets, slots, counts, inbox, clock, .. } = self;
        let (now, start) = (clock.now(), clock.start());
        let mut more = true;
        while more && inbox.len() < MOST_AT_ONCE {
            more = sockets.receive(|of: Received<'_>| {
                counts.received += 1;
                let Some(path) = of.path else {
                    counts.strangers += 1;
                    return;
                };
                let number = slots.take();
                let slot = slots.get(number);
                slot.path = path;
                slot.datagram.fill(of.tos, of.payload);
                // Nothing comes from the future, whatever has been done to the kernel's clock.
                inbox.push((start.time(of.stamp).min(clock.now()), number));
            })?;
        }
        // Stable: those of one socket and one time stamp keep their order.
        inbox.sort_by_key(|&(at, _)| at);
        let mut inbox = std::mem::take(&mut self.inbox);
        inbox.drain(..).for_each(|(at, number)| self.enter(at, number));
        self.inbox = inbox;
        while let Some((at, number)) = self.uplinks.arrived(now) {
            let slot = self.slots.get(number);
            let [from, _] = self.sockets.places(slot.path);
            if !self.fabric.arrive(at, from, &slot.packet) {
                self.slots.free(number);
            }
        }
        self.fabric.advance(now, &mut self.leaving, &mut self.dropped);
        self.dropped.drain(..).for_each(|number| self.slots.free(number));
        for leaving in self.leaving.drain(..) {
            let number = leaving.packet.number;
            self.slots.get(number).datagram.stamp(&leaving.packet);
            self.order += 1;
            self.due.push(Reverse((leaving.landing, self.order, number)));
        }
        Ok(())
    }

    /// A datagram came in then: it becomes a packet on the link of its host.
    fn enter(&mut self, at: Time, number: u32) {
        let slot = self.slots.get(number);
        let [from, to] = self.sockets.places(slot.path);
        self.taken += 1;
        // Of both directions the same; sprayed, each datagram's own.
        let connection = u64::from(from.min(to)) << 32 | u64::from(from.max(to));
        let entropy = mix64(if self.sprays { self.taken } else { connection });
        let Some(packet) = slot.datagram.packet(self.reader, number, to, entropy as u32) else {
            self.counts.too_long += 1;
            return self.slots.free(number);
        };
        let wire_bytes = packet.frame.wire_bytes.into();
        slot.packet = packet;
        if !self.uplinks.enter(at, from, wire_bytes, number) {
            self.counts.too_fast += 1;
            self.slots.free(number);
        }
    }

    /// Sends what is due.
    fn send(&mut self) {
        while let Some(&Reverse((at, _, number))) = self.due.peek() {
            let now = self.clock.now();
            if at > now {
                return;
            }
            self.due.pop();
            self.late_ns.saturating_record((now - at).as_ps() / 1_000);
            let slot = self.slots.get(number);
            match self.sockets.send(slot.path, &slot.datagram) {
                Ok(()) => self.counts.sent += 1,
                Err(_) => self.counts.unsent += 1,
            }
            self.slots.free(number);
        }
    }
}
