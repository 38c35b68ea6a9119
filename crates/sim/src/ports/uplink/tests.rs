//! A lazily polled uplink sends the same packets at the same picoseconds as a model that polls at
//! every picosecond.

use std::collections::VecDeque;

use tidegate_core::{Domain, Frame, Rate, Rng, Span};

use super::*;

/// Length of a case, in picoseconds.
const LENGTH: u64 = 12_000;
/// Propagation of the link.
const DELAY: u64 = 150;
/// A timer that a transmission sets. Longer than the packet is on the link.
const RESEND: u64 = 600;
/// Priority of data.
const DATA: u8 = 3;
/// Packets that a transport makes when a timer fires, from this number on.
const RESENT: u32 = 2_048;
const PACKETS: u32 = 4_096;

/// Every packet has a size and, if it is a reply, a priority of its own. A byte takes 1 ps.
fn frame(packet: u32) -> Frame {
    let wire_bytes = 10 + (packet * 37 % 90) as u16;
    Frame { wire_bytes, priority: [0, 2, DATA][packet as usize % 3], ..Frame::default() }
}

/// A transport: control packets first, then data at a pace. Timers make further data.
#[derive(Default)]
struct Script {
    control: VecDeque<u32>,
    data: VecDeque<u32>,
    /// Data may leave from this time on.
    next_data: Time,
    /// The transport knows that this time has come: it is no deadline any more.
    is_ready: bool,
    timer: Option<Time>,
    resent: u32,
}

impl Script {
    fn transmit(&mut self, at: Time) -> Option<u32> {
        if let Some(packet) = self.control.pop_front() {
            return Some(packet);
        }
        let packet = self.data.pop_front_if(|_| self.next_data <= at)?;
        self.next_data = at + Span::ps(u64::from(packet) * 53 % 300);
        self.is_ready = false;
        self.timer.get_or_insert(at + Span::ps(RESEND));
        Some(packet)
    }

    fn transmit_above(&mut self, priority: u8) -> Option<u32> {
        self.control.pop_front_if(|_| priority > 0)
    }

    fn on_deadline(&mut self, now: Time, number: u32) {
        self.is_ready |= self.next_data <= now;
        if self.timer.take_if(|at| *at <= now).is_some() {
            self.data.push_back(RESENT + 1_024 * number + self.resent);
            self.resent += 1;
        }
    }

    fn timer(&self) -> Time {
        self.timer.unwrap_or(Time::NEVER)
    }

    fn deadline(&self) -> Time {
        let waits = !self.data.is_empty() && !self.is_ready;
        self.timer().min(if waits { self.next_data } else { Time::NEVER })
    }
}

/// Two transports of one host.
#[derive(Default)]
struct Scripts([Script; 2]);

impl Scripts {
    fn poll(&mut self, transmit: impl FnMut(&mut Script) -> Option<u32>) -> Option<u32> {
        self.0.iter_mut().find_map(transmit)
    }

    fn on_deadlines(&mut self, now: Time) {
        for (number, script) in (0..).zip(&mut self.0) {
            if script.deadline() <= now {
                script.on_deadline(now, number);
            }
        }
    }

    /// Something has happened at a host: a submission or a packet.
    fn change(&mut self, now: Time, change: Change) {
        self.0.iter_mut().for_each(|script| script.is_ready |= script.next_data <= now);
        match change {
            Change::Data(at, packet) => self.0[at].data.push_back(packet),
            Change::Control(at, packet) => self.0[at].control.push_back(packet),
            Change::Timer(at, time) => self.0[at].timer = time,
            Change::Pace(at, time) => {
                (self.0[at].next_data, self.0[at].is_ready) = (time, false);
            }
        }
    }
}

impl Deadlines for Scripts {
    fn deadline(&self) -> Time {
        self.0.iter().map(Script::deadline).min().unwrap()
    }
    fn timer(&self) -> Time {
        self.0.iter().map(Script::timer).min().unwrap()
    }
    fn deadline_after(&self, at: Time) -> Time {
        let deadlines = self.0.iter().map(Script::deadline);
        deadlines.filter(|&deadline| deadline > at).min().unwrap_or(Time::NEVER)
    }
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Data(usize, u32),
    Control(usize, u32),
    Timer(usize, Option<Time>),
    /// An acknowledgement moves the time of the next data.
    Pace(usize, Time),
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A submission, or a packet that needs no reply.
    Change(Change),
    /// A packet whose reply this is, and which changes something unless it is an echo.
    Reply(u32, Option<Change>),
    Pause(u8, bool),
    Link {
        up: bool,
    },
    Host {
        up: bool,
    },
}

/// The uplink as the engine drives it.
struct Lazy {
    uplink: Uplink,
    port: Port,
    frames: Vec<Frame>,
    scripts: Scripts,
    /// Events: the head of the link lands, the uplink's own, and the end of a paused transmission.
    landing: Time,
    event: Time,
    wake: Time,
    handled: u64,
    departed: Vec<(Time, u32)>,
}

impl Lazy {
    fn new() -> Lazy {
        Lazy {
            uplink: Uplink::new(0),
            port: Port::new(Rate::gbps(8_000), Span::ps(DELAY), 0, 0, 0),
            frames: (0..PACKETS).map(frame).collect(),
            scripts: Scripts::default(),
            landing: Time::NEVER,
            event: Time::NEVER,
            wake: Time::NEVER,
            handled: 0,
            departed: Vec::new(),
        }
    }

    fn launch(&mut self, packet: u32, start: Time, now: Time) {
        self.departed.push((start, packet));
        if let Some(landing) = self.port.launch(packet, start, &mut self.frames) {
            assert!(landing >= now, "polled too late: {packet} left at {start}");
            self.landing = landing;
        }
    }

    fn send_due(&mut self, now: Time) -> bool {
        if self.uplink.has_nothing_due(now, &self.port) {
            return false;
        }
        loop {
            match self.uplink.next_step(now, &self.port) {
                Step::Reply(start) => {
                    let packet = self.port.dequeue(&self.frames);
                    self.launch(packet, start, now);
                }
                Step::Poll(start) => match self.scripts.poll(|script| script.transmit(start)) {
                    Some(packet) => self.launch(packet, start, now),
                    None if self.uplink.poll_found_nothing(start, now, &self.scripts) => {}
                    None => break,
                },
                Step::Done => break,
            }
        }
        self.set_event(now);
        true
    }

    fn set_event(&mut self, now: Time) {
        if let Some(at) = self.uplink.set_event(now, &self.port, &self.scripts, true) {
            self.event = at;
        }
    }

    fn poll_after_change(&mut self, now: Time) {
        self.uplink.changed();
        if !self.send_due(now) {
            self.set_event(now);
        }
    }

    fn send_while_paused(&mut self, now: Time) {
        if !self.uplink.is_paused() {
            return;
        }
        while let Some(paused) = self.uplink.free_while_paused(now) {
            let highest = paused.trailing_zeros() as u8;
            let reply = self.port.dequeue_but(paused, &self.frames);
            let next = reply.or_else(|| self.scripts.poll(|script| script.transmit_above(highest)));
            let Some(packet) = next else { break };
            self.launch(packet, now, now);
            self.uplink.sent_while_paused(&mut self.port);
        }
        self.wake = self.uplink.frees_at(now);
    }

    fn on_host(&mut self, now: Time) {
        self.event = Time::NEVER;
        if !self.uplink.take_event(now) {
            return;
        }
        self.send_due(now);
        self.scripts.on_deadlines(now);
        self.poll_after_change(now);
        self.send_while_paused(now);
    }

    /// Handles all events up to `until`.
    fn run(&mut self, until: Time) {
        loop {
            let now = self.landing.min(self.event).min(self.wake);
            if now > until {
                return;
            }
            self.handled += 1;
            if now == self.wake {
                self.wake = Time::NEVER;
                self.send_while_paused(now);
            } else if now == self.event {
                self.on_host(now);
            } else {
                let (_, next) = self.port.land(&self.frames);
                self.landing = next.unwrap_or(Time::NEVER);
                if next.is_none() && !self.send_due(now) {
                    self.set_event(now);
                }
            }
        }
    }

    fn toggle(&mut self, now: Time, up: bool) {
        self.send_due(now);
        if self.uplink.clear_pauses(now, &mut self.port) {
            self.wake = Time::NEVER;
        }
        if up {
            self.port.bring_up(now);
            self.uplink.changed();
            self.send_due(now);
        } else {
            self.port.cut(&self.frames, |_| ());
            self.landing = Time::NEVER;
        }
    }

    fn on(&mut self, now: Time, event: Event) {
        match event {
            Event::Change(change) => {
                self.send_due(now);
                self.scripts.change(now, change);
                self.poll_after_change(now);
            }
            Event::Reply(packet, change) => {
                self.send_while_paused(now);
                self.send_due(now);
                if self.port.is_free(now) {
                    self.launch(packet, now, now);
                } else {
                    self.port.enqueue(packet, now, &mut self.frames);
                }
                if let Some(change) = change {
                    self.scripts.change(now, change);
                    self.poll_after_change(now);
                }
            }
            Event::Pause(class, on) => {
                self.send_due(now);
                self.send_while_paused(now);
                match self.uplink.pause(now, class, on, &mut self.port) {
                    Effect::Paused => self.set_event(now),
                    Effect::Resumed => {
                        self.wake = Time::NEVER;
                        self.poll_after_change(now);
                    }
                    Effect::None => {}
                }
            }
            Event::Link { up } => self.toggle(now, up),
            Event::Host { up } => {
                self.toggle(now, up);
                self.uplink.set_stopped(!up);
                if up {
                    self.on_host(now);
                }
            }
        }
        self.send_while_paused(now);
    }
}

/// The model: no event, no lazy state. It polls at every picosecond.
struct Eager {
    scripts: Scripts,
    replies: [VecDeque<u32>; 8],
    /// End of the transmission in progress; never, if the link is down.
    free_at: Time,
    paused: u8,
    is_stopped: bool,
    departed: Vec<(Time, u32)>,
}

impl Eager {
    fn new() -> Eager {
        Eager {
            scripts: Scripts::default(),
            replies: Default::default(),
            free_at: Time::ZERO,
            paused: 0,
            is_stopped: false,
            departed: Vec::new(),
        }
    }

    /// Sends what may leave at `now`.
    fn send(&mut self, now: Time) {
        while self.free_at <= now {
            let open = (0..8).filter(|class| self.paused & 1 << class == 0);
            let mut replies = open.filter_map(|class| self.replies[class].pop_front());
            let packet = replies.next().or_else(|| match self.paused {
                0 => self.scripts.poll(|script| script.transmit(now)),
                paused => {
                    let highest = paused.trailing_zeros() as u8;
                    self.scripts.poll(|script| script.transmit_above(highest))
                }
            });
            let Some(packet) = packet else { return };
            self.departed.push((now, packet));
            self.free_at = now + Span::ps(frame(packet).wire_bytes as u64);
        }
    }

    fn tick(&mut self, now: Time) {
        self.send(now);
        if !self.is_stopped {
            self.scripts.on_deadlines(now);
        }
        self.send(now);
    }

    fn on(&mut self, now: Time, event: Event) {
        match event {
            Event::Change(change) => self.scripts.change(now, change),
            Event::Reply(packet, change) => {
                let frame = frame(packet);
                // A reply that finds the uplink free leaves before anything that it permits.
                self.replies[frame.priority as usize].push_back(packet);
                self.send(now);
                change.into_iter().for_each(|change| self.scripts.change(now, change));
            }
            Event::Pause(class, true) => self.paused |= 1 << class,
            Event::Pause(class, false) => self.paused &= !(1 << class),
            Event::Link { up } => self.toggle(now, up),
            Event::Host { up } => {
                self.toggle(now, up);
                self.send(now);
                self.is_stopped = !up;
            }
        }
        self.tick(now);
    }

    fn toggle(&mut self, now: Time, up: bool) {
        self.paused = 0;
        if up {
            self.free_at = now;
        } else {
            self.free_at = Time::NEVER;
            self.replies.iter_mut().for_each(VecDeque::clear);
        }
    }
}

/// Random events, at most one per picosecond, that respect the order of outages.
struct Events {
    rng: Rng,
    packets: u32,
    link_down: bool,
    host_down: bool,
}

impl Events {
    fn change(&mut self, now: Time) -> Change {
        let (at, wait) = (self.rng.below(2) as usize, Span::ps(1 + self.rng.below(400)));
        self.packets += 1;
        match self.rng.below(8) {
            0..4 => Change::Data(at, self.packets),
            4 => Change::Control(at, self.packets),
            5 => Change::Timer(at, Some(now + wait)),
            6 => Change::Timer(at, None),
            _ => Change::Pace(at, now + wait),
        }
    }

    fn next(&mut self, now: Time, mix: u64) -> Event {
        let class = [0, 2, DATA][self.rng.below(3) as usize];
        let is_up = !self.link_down && !self.host_down;
        match self.rng.below(mix) {
            4..8 if is_up => {
                self.packets += 1;
                let packet = self.packets;
                let echoes = self.rng.below(2) == 0;
                Event::Reply(packet, (!echoes).then(|| self.change(now)))
            }
            8..12 if is_up => Event::Pause(class, self.rng.below(2) == 0),
            12 if !self.host_down => {
                self.link_down ^= true;
                Event::Link { up: !self.link_down }
            }
            13 if !self.link_down => {
                self.host_down ^= true;
                Event::Host { up: !self.host_down }
            }
            _ => Event::Change(self.change(now)),
        }
    }
}

#[test]
fn lazy_polls_equal_a_poll_at_every_instant() {
    // Without pauses and outages, with pauses, with both.
    let (mut departures, mut handled) = ([0; 3], [0; 3]);
    for seed in 0..1_500 {
        let kind = seed as usize % 3;
        let mix = [8, 12, 14][kind];
        let rng = Rng::stream(seed, Domain::Traffic, 0);
        let mut events = Events { rng, packets: 0, link_down: false, host_down: false };
        let gap = 20 + events.rng.below(300);
        let (mut lazy, mut eager) = (Lazy::new(), Eager::new());
        let mut next = 0;
        for now in (0..LENGTH).map(Time::ps) {
            eager.tick(now);
            if now.as_ps() == next {
                let event = events.next(now, mix);
                lazy.run(now);
                lazy.on(now, event);
                eager.on(now, event);
                next += 1 + events.rng.below(gap);
                lazy.run(now);
                let common = lazy.departed.iter().zip(&eager.departed);
                let same = common.take_while(|(lazy, eager)| lazy == eager).count();
                let (lazy, eager) = (&lazy.departed[same..], &eager.departed[same..]);
                assert!(
                    lazy.is_empty() && eager.is_empty(),
                    "seed {seed}, {event:?} at {now}: {lazy:?} in place of {eager:?}"
                );
            }
        }
        departures[kind] += eager.departed.len() as u64;
        handled[kind] += lazy.handled;
    }
    assert!(departures.iter().all(|&count| count > 20_000), "{departures:?}");
    // A packet costs its landing, and few events more.
    assert!(handled[0] < departures[0] * 4 / 3, "{handled:?} events for {departures:?}");
}
