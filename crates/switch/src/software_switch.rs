//! The border, the switches within it and the clock, brought together.

use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sys::prctl::set_timerslack;
use tidegate_core::{Span, Time};
use tidegate_sim::Spread;

use crate::backend::{Backend, Received};
use crate::clock::Clock;
use crate::crossing::Crossing;
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
    crossing: Crossing,
    backend: Backend,
    clock: Clock,
    /// Since then.
    measured: Time,
    late_ns: Histogram<u64>,
}

impl SoftwareSwitch {
    /// Opens its sockets.
    ///
    /// # Errors
    /// Where there is no such switch, an address cannot be listened at, or an interface cannot be
    /// used; the message says which.
    pub fn open(config: &Config) -> io::Result<SoftwareSwitch> {
        let late_ns = Histogram::new_with_max(MOST_LATE.as_ps() / 1_000, 2);
        let late_ns = late_ns.map_err(io::Error::other)?;
        Ok(SoftwareSwitch {
            crossing: Crossing::new(config)?,
            backend: Backend::open(&config.places)?,
            clock: Clock::new(config.clock),
            measured: Time::ZERO,
            late_ns,
        })
    }

    /// Where hosts with addresses send to, by who sends and then for whom.
    pub fn paths(&self) -> Vec<Path> {
        self.backend.paths()
    }

    /// Forwards for as long as `goes_on`, which is asked again and again, at least twenty times a
    /// second.
    ///
    /// # Errors
    /// Where the kernel refuses to say what has come in: an interface is gone, say.
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
        let Crossing { fabric, uplinks, counts, .. } = &mut self.crossing;
        let (ports, switches) = fabric.records();
        let Counts { too_long, too_fast, sent, unsent, .. } = *counts;
        let counts = Counts { too_long, too_fast, sent, unsent, ..self.backend.counts() };
        let us = |ns: u64| ns as f64 / 1e3;
        let late_us = Spread {
            mean: self.late_ns.mean() / 1e3,
            p99: Some(us(self.late_ns.value_at_quantile(0.99))),
            max: us(self.late_ns.max()),
        };
        Report {
            seconds: fabric.now().since(self.measured).as_s_f64(),
            ports,
            uplinks: uplinks.records(fabric.now()),
            switches,
            counts,
            unfinished: self.backend.unfinished(),
            late_us,
        }
    }

    /// Bytes queued now at the ports of switches, as
    /// [`OpenFabric::queues`](tidegate_sim::OpenFabric::queues) names them.
    pub fn queues(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.crossing.fabric.queues()
    }

    /// What has been measured so far is forgotten, but for what became of datagrams.
    pub fn measure_anew(&mut self) {
        self.measured = self.crossing.fabric.measure_anew();
        self.crossing.uplinks.measure_from(self.measured);
        self.late_ns.reset();
    }

    /// Waits until something comes in or is due. Shortly before it is due there is no sleep any
    /// more, but a look at the sockets again and again.
    fn wait(&self) -> io::Result<()> {
        let until = self.crossing.next().min(self.clock.now() + self.clock.span(DOZE));
        loop {
            let left = self.clock.real(until.since(self.clock.now()));
            if left == Duration::ZERO || self.backend.wait(left.saturating_sub(SPIN))? {
                return Ok(());
            }
        }
    }

    /// Takes in what has come, at the times at which the kernel had it, and starts what was due to
    /// leave by now.
    fn take_in(&mut self) -> io::Result<()> {
        let SoftwareSwitch { backend, crossing, clock, .. } = self;
        let (now, start) = (clock.now(), clock.start());
        let mut more = true;
        while more && crossing.waiting() < MOST_AT_ONCE {
            more = backend.receive(|of: Received<'_>| {
                // Nothing comes from the future, whatever has been done to the kernel's clock.
                let at = start.time(of.stamp).min(clock.now());
                of.ways.iter().for_each(|&way| crossing.take(at, way, of.content));
            })?;
        }
        crossing.advance(now);
        Ok(())
    }

    /// Sends what is due.
    fn send(&mut self) {
        let SoftwareSwitch { backend, crossing, clock, late_ns, .. } = self;
        loop {
            let now = clock.now();
            let Some((at, number)) = crossing.due(now) else { return };
            late_ns.saturating_record((now - at).as_ps() / 1_000);
            let slot = crossing.slot(number);
            match backend.send(slot.way.path, &slot.datagram) {
                Ok(()) => crossing.counts.sent += 1,
                Err(_) => crossing.counts.unsent += 1,
            }
            crossing.free(number);
        }
    }
}
