//! Combines the I/O backend, the switches and the clock.

use std::io;
use std::time::Duration;

use hdrhistogram::Histogram;
use nix::sys::prctl::set_timerslack;
use tidegate_core::{Span, Time};
use tidegate_sim::Spread;

use crate::backend::Backend;
use crate::clock::Clock;
use crate::pipeline::Pipeline;
use crate::received::Received;
use crate::{Config, Counts, Path, Report};

/// Maximum number of datagrams that are received before due ones are sent.
const MOST_AT_ONCE: usize = 1 << 10;
/// Maximum sleep.
const MAX_WAIT: Duration = Duration::from_millis(50);
/// Maximum recorded lateness.
const MOST_LATE: Span = Span::s(100);
/// The kernel wakes a thread up to this late, so it polls for this time before a deadline instead.
const SPIN: Duration = Duration::from_micros(50);

/// One or more running switches.
pub struct SoftwareSwitch {
    pipeline: Pipeline,
    backend: Backend,
    clock: Clock,
    /// Start of the measurement.
    measured: Time,
    late_ns: Histogram<u64>,
}

impl SoftwareSwitch {
    /// Opens the switch and its sockets.
    ///
    /// # Errors If the configuration is not supported, a socket cannot be bound, or an interface
    /// cannot be used; the message names it.
    pub fn open(config: &Config) -> io::Result<SoftwareSwitch> {
        let late_ns = Histogram::new_with_max(MOST_LATE.as_ps() / 1_000, 2);
        let late_ns = late_ns.map_err(io::Error::other)?;
        Ok(SoftwareSwitch {
            pipeline: Pipeline::new(config)?,
            backend: Backend::open(&config.places)?,
            clock: Clock::new(config.clock),
            measured: Time::ZERO,
            late_ns,
        })
    }

    /// The addresses to which hosts with addresses send, ordered by sender, then by destination.
    pub fn paths(&self) -> Vec<Path> {
        self.backend.paths()
    }

    /// Forwards while `goes_on` returns true; it is called at least twenty times per second.
    ///
    /// # Errors If receiving fails, for example because an interface was removed.
    pub fn run(&mut self, mut goes_on: impl FnMut(&mut SoftwareSwitch) -> bool) -> io::Result<()> {
        // Timer slack of this thread in nanoseconds; the default of the kernel is 50 us.
        set_timerslack(1)?;
        while goes_on(self) {
            self.wait()?;
            self.receive()?;
            self.send();
        }
        Ok(())
    }

    /// The current time of the switch's clock.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Returns the measurements.
    pub fn report(&mut self) -> Report {
        let Pipeline { fabric, uplinks, counts, .. } = &mut self.pipeline;
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

    /// The current queues in bytes at the ports of switches, identified as by
    /// [`OpenFabric::queues`](tidegate_sim::OpenFabric::queues).
    pub fn queues(&mut self) -> impl Iterator<Item = (u64, u32)> {
        self.pipeline.fabric.queues()
    }

    /// Resets the measurements, except the counters of datagrams.
    pub fn measure_anew(&mut self) {
        self.measured = self.pipeline.fabric.measure_anew();
        self.pipeline.uplinks.measure_from(self.measured);
        self.late_ns.reset();
    }

    /// Waits until input arrives or an event is due. Shortly before the event it polls the sockets
    /// and does not sleep.
    fn wait(&self) -> io::Result<()> {
        let until = self.pipeline.next().min(self.clock.now() + self.clock.span(MAX_WAIT));
        loop {
            let left = self.clock.real(until.since(self.clock.now()));
            if left == Duration::ZERO || self.backend.wait(left.saturating_sub(SPIN))? {
                return Ok(());
            }
        }
    }

    /// Receives input with the kernel's time stamps, and runs the switches until now.
    fn receive(&mut self) -> io::Result<()> {
        let SoftwareSwitch { backend, pipeline, clock, .. } = self;
        let (now, start) = (clock.now(), clock.start());
        let mut more = true;
        while more && pipeline.waiting() < MOST_AT_ONCE {
            more = backend.receive(|of: Received<'_>| {
                // Limit time stamps to now, in case the system clock was set.
                let at = start.time(of.stamp).min(clock.now());
                of.routes.iter().for_each(|&route| pipeline.take(at, route, of.content));
            })?;
        }
        pipeline.advance(now);
        Ok(())
    }

    /// Sends the datagrams that are due.
    fn send(&mut self) {
        let SoftwareSwitch { backend, pipeline, clock, late_ns, .. } = self;
        loop {
            let now = clock.now();
            let Some((at, number)) = pipeline.due(now) else { return };
            late_ns.saturating_record((now - at).as_ps() / 1_000);
            let slot = pipeline.slot(number);
            match backend.send(slot.route.path, &slot.datagram) {
                Ok(()) => pipeline.counts.sent += 1,
                Err(_) => pipeline.counts.unsent += 1,
            }
            pipeline.free(number);
        }
    }
}
