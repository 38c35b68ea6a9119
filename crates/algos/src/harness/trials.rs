//! Trials that every transport with loss recovery must pass: each transport runs each trial in a
//! test of that name, with its own parameters.

extern crate std;

use alloc::format;
use alloc::vec::Vec;
use std::println;

use tidegate_core::wire::Header;
use tidegate_core::{Body, Domain, Frame, Handle, Message, Rng, Span, Time};

use crate::kit::lanes::MAX_LANES;

use super::{FORGED, Faults, NO_FAULTS, Net, RATE, Subject, kinds, receive, transmit};

/// A few dozen messages of many sizes among four hosts, some of them stopped.
pub(crate) struct RandomTrial {
    /// Size of the largest messages of known size.
    pub(crate) most_bytes: u64,
    /// Longest time in nanoseconds until messages of unknown size are stopped, after a pause of all
    /// hosts.
    pub(crate) most_ns: u64,
    /// Time by which everything is done.
    pub(crate) until: Time,
}

/// Properties that differ from seed to seed.
pub(crate) struct Variation<P> {
    pub(crate) params: P,
    pub(crate) jitter: Span,
    pub(crate) congestion: f64,
    /// Nothing is retransmitted if nothing is lost.
    pub(crate) patient: bool,
}

impl RandomTrial {
    fn run<T: Subject>(&self, seed: u64, params: &T::Params, faults: Faults) -> Net<T> {
        let mut net = Net::<T>::new(4, params, faults, seed);
        let mut rng = Rng::stream(seed, Domain::Traffic, 0);
        for number in 0..24 {
            let (src, dst, size) = self.draw::<T>(&mut rng);
            let (_, handle) = net.submit_weighed(src, dst, size, 1 + number % 5);
            let until = net.now + Span::ns(rng.below(20_000));
            net.run(until);
            if size == Message::UNLIMITED {
                net.run(until + Span::ns(rng.below(self.most_ns)));
                net.stop(src, handle);
            }
        }
        net.run(self.until);
        net
    }

    /// Sender, receiver and size of a message.
    fn draw<T: Subject>(&self, rng: &mut Rng) -> (u32, u32, u64) {
        let src = rng.below(4) as u32;
        let dst = (src + 1 + rng.below(3) as u32) % 4;
        let size = match rng.below(8) {
            0 => 1,
            1 => T::context(src).mtu as u64 * (1 + rng.below(4)),
            2..5 => 1 + rng.below(10_000),
            7 if T::COMPLETES_STOPPED => Message::UNLIMITED,
            _ => 1 + rng.below(self.most_bytes),
        };
        (src, dst, size)
    }

    /// Every message arrives exactly once under any network behaviour: runs this number of seeds
    /// for each of these shares of loss and duplication. `TIDEGATE_SEEDS=20000` overrides the
    /// number. Returns the number of lost packets.
    pub(crate) fn survive<T: Subject>(
        &self,
        faults: [(f64, f64, u64); 4],
        vary: impl Fn(u64) -> Variation<T::Params>,
    ) -> u64 {
        let mut lost = 0;
        for_each_seed(&faults, vary, |case, seed, faults, variation| {
            let net = self.run::<T>(seed, &variation.params, faults);
            net.assert_all_delivered(case);
            if variation.patient && faults.loss == 0.0 && faults.duplication == 0.0 {
                assert_eq!(net.resent_bytes, 0, "{case}: nothing was lost");
            }
            lost += net.lost;
        });
        lost
    }

    /// Hosts forget each other in the middle of messages and restart: runs this number of seeds for
    /// each of these shares of loss and duplication. Messages between other hosts arrive exactly
    /// once, and later messages between the two do, too.
    pub(crate) fn survive_session_restarts<T: Subject>(
        &self,
        faults: &[(f64, f64, u64)],
        vary: impl Fn(u64) -> Variation<T::Params>,
    ) {
        for_each_seed(faults, vary, |case, seed, faults, Variation { params, .. }| {
            self.restart_sessions::<T>(case, seed, params, faults);
        });
    }

    fn restart_sessions<T: Subject>(
        &self,
        case: &str,
        seed: u64,
        params: &T::Params,
        faults: Faults,
    ) {
        let mut net = Net::<T>::new(4, params, faults, seed);
        // A host that forgets its peer may receive packets of an acknowledged message.
        net.app.all_new = true;
        let mut rng = Rng::stream(seed, Domain::Traffic, 1);
        let long = self.until - Time::ZERO;
        for _ in 0..6 {
            let mut endless = self.submit_some(&mut net, &mut rng, &[]);
            let (a, b, _) = self.draw::<T>(&mut rng);
            match rng.below(3) {
                // Both ends end the session at the same time.
                0 => {}
                // One end ends it first, and its driver discards packets of the old session.
                1 => net.forget_and_discard(a, b),
                // The driver does not.
                _ => net.forget(a, b),
            }
            if rng.below(2) == 0 {
                endless.extend(self.submit_some(&mut net, &mut rng, &[(a, b)]));
            }
            if rng.below(2) == 0 {
                stop_all(&mut net, &mut endless);
                net.run(net.now + Span::us(rng.below(4_000)));
            }
            net.end_session([a, b]);
            endless.extend(self.submit_some(&mut net, &mut rng, &[(a, b), (b, a)]));
            net.start_session([a, b]);
            stop_all(&mut net, &mut endless);
        }
        net.run(net.now + long);
        net.assert_all_delivered(case);
        // All hosts forget all others in the middle of messages, one of them possibly much earlier,
        // and have no state left.
        let mut endless = self.submit_some(&mut net, &mut rng, &[]);
        if rng.below(2) == 0 {
            let (a, b, _) = self.draw::<T>(&mut rng);
            net.forget_and_discard(a, b);
            stop_all(&mut net, &mut endless);
            net.run(net.now + Span::us(rng.below(10_000)));
        }
        let pairs = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];
        pairs.iter().for_each(|&pair| net.end_session(pair));
        for host in &mut net.hosts {
            assert!(transmit(host, net.now).is_none(), "{case}");
        }
        net.assert_quiet(case);
        stop_all(&mut net, &mut endless);
        net.run(net.now + long);
        pairs.iter().for_each(|&pair| net.start_session(pair));
        let mut endless = self.submit_some(&mut net, &mut rng, &[]);
        stop_all(&mut net, &mut endless);
        net.run(net.now + long);
        net.assert_all_delivered(case);
    }

    /// Submits a few messages, but none from and to these hosts. Returns the senders and handles of
    /// those of unknown size.
    fn submit_some<T: Subject>(
        &self,
        net: &mut Net<T>,
        rng: &mut Rng,
        but: &[(u32, u32)],
    ) -> Vec<(u32, Handle)> {
        let mut endless = Vec::new();
        for number in 0..8 {
            let (src, dst, size) = self.draw::<T>(rng);
            if but.contains(&(src, dst)) {
                continue;
            }
            let (_, handle) = net.submit_weighed(src, dst, size, 1 + number % 5);
            if size == Message::UNLIMITED {
                endless.push((src, handle));
            }
            net.run(net.now + Span::ns(rng.below(20_000)));
        }
        endless
    }
}

/// The handle of a forgotten message stops nothing.
fn stop_all<T: Subject>(net: &mut Net<T>, endless: &mut Vec<(u32, Handle)>) {
    endless.drain(..).for_each(|(src, handle)| net.stop(src, handle));
}

/// Runs this number of seeds for each of these shares of loss and duplication.
fn for_each_seed<P>(
    faults: &[(f64, f64, u64)],
    vary: impl Fn(u64) -> Variation<P>,
    mut each: impl FnMut(&str, u64, Faults, &Variation<P>),
) {
    let more = std::env::var("TIDEGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    for &(loss, duplication, seeds) in faults {
        for seed in 0..more.unwrap_or(seeds) {
            let case = format!("loss {loss}, seed {seed}");
            println!("{case}"); // the last line is that of the failure
            let variation = vary(seed);
            let (jitter, congestion) = (variation.jitter, variation.congestion);
            let returned = if seed % 4 == 3 { 0.5 } else { 0.0 };
            let faults = Faults { loss, returned, duplication, jitter, congestion, ..NO_FAULTS };
            each(&case, seed, faults, &variation);
        }
    }
}

/// Two hosts that repeatedly forget each other in the middle of messages have no state left, and
/// the handle of an endless message stops nothing afterwards. Returns the hosts.
pub(crate) fn forgetting_leaves_nothing<T: Subject>(params: &T::Params) -> Vec<T> {
    let mut net = Net::<T>::new(4, params, NO_FAULTS, 1);
    for round in 0..40 {
        let (a, b) = (round % 4, (round + 1) % 4);
        let mut endless = Vec::new();
        for (src, dst) in [(a, b), (b, a)] {
            for number in 0..9 {
                let size = if number % 4 == 2 { Message::UNLIMITED } else { 20_000 };
                endless.push((src, net.submit(src, dst, size).1));
            }
        }
        net.run(net.now + Span::us(round as u64 % 10));
        net.end_session([a, b]);
        net.assert_quiet("parted");
        stop_all(&mut net, &mut endless);
        net.assert_quiet("forgotten and stopped");
        net.start_session([a, b]);
    }
    net.hosts
}

/// More messages than there are lanes are forgotten, including those that wait for a lane; all
/// lanes are free afterwards.
pub(crate) fn messages_waiting_for_a_lane_are_forgotten_too<T: Subject>() {
    let mut net = Net::<T>::new(2, &T::Params::default(), NO_FAULTS, 1);
    let submit_all = |net: &mut Net<T>| (0..2 * MAX_LANES).for_each(|_| _ = net.submit(0, 1, 1));
    for _ in 0..2 {
        submit_all(&mut net);
        net.run(net.now + Span::us(20));
        net.end_session([0, 1]);
        net.assert_quiet("parted");
        net.start_session([0, 1]);
    }
    submit_all(&mut net);
    net.run(Time::s(1));
    net.assert_all_delivered("after the restart");
}

/// Absent senders hold everything that a receiver can issue. Once it has forgotten them, the
/// remaining sender's message of `bytes` arrives within `soon`, and not before.
pub(crate) fn forgotten_senders_hold_nothing<T: Subject>(
    params: &T::Params,
    bytes: u64,
    soon: Span,
) {
    let mut net = Net::<T>::new(5, params, NO_FAULTS, 1);
    (1..4).for_each(|src| _ = net.submit(src, 0, 5_000_000));
    net.run(Time::us(200));
    (1..4).for_each(|src| net.forget_and_discard(src, 0));
    net.run(Time::us(250));
    let (id, _) = net.submit(4, 0, bytes);
    net.run(net.now + soon);
    assert_eq!(net.app.messages[id as usize].completed, None);
    (1..4).for_each(|src| net.end_session([src, 0]));
    net.run(net.now + soon);
    assert!(net.app.messages[id as usize].completed.is_some(), "not after {soon}");
}

/// The first packets of any combination of kinds may be lost: a message of each of several sizes is
/// acknowledged before `bound` of the number of lost packets. Returns the total number of losses.
pub(crate) fn first_packets_of_any_kind_may_be_lost<T: Subject>(
    jitter: Span,
    bound: impl Fn(u64) -> Time,
) -> u64 {
    let (mut lost, all) = (0, 1 << T::Header::FORMAT.kinds.len());
    for first_of in 0..all {
        for size in [1, 20_000, 99_000, 400_000, Message::UNLIMITED] {
            let faults = Faults { first_of, jitter, ..NO_FAULTS };
            let mut net = Net::<T>::new(2, &T::Params::default(), faults, 1);
            let (id, handle) = net.submit(0, 1, size);
            net.run(Time::us(100));
            net.stop(0, handle);
            net.run(Time::s(1));
            let case = format!("kinds {first_of:b}, {size} B");
            net.assert_all_delivered(&case);
            let acked = net.app.messages[id as usize].acked.unwrap();
            assert!(acked < bound(net.lost), "{case}: {} lost, done at {acked}", net.lost);
            lost += net.lost;
        }
    }
    lost
}

/// A message of unknown size with a loss of a thousandth delivers at least what a link carries in
/// `least` out of 20 ms, in bounded memory, and ends when it is stopped.
pub(crate) fn endless_message_survives_loss<T: Subject>(
    params: &T::Params,
    jitter: Span,
    least: Span,
    is_bounded: impl Fn(&T) -> bool,
) {
    let faults = Faults { loss: 0.001, jitter, ..NO_FAULTS };
    let mut net = Net::<T>::new(2, params, faults, 1);
    let (_, handle) = net.submit(0, 1, Message::UNLIMITED);
    net.run(Time::ms(20));
    let delivered = net.app.messages[0].delivered;
    assert!(delivered > RATE.bytes_in(least), "{delivered} B");
    assert!(is_bounded(&net.hosts[1]), "its receiver keeps too much state");
    net.stop(0, handle);
    net.run(Time::s(1));
    let record = &net.app.messages[0];
    assert!(record.completed.is_some() && record.delivered - delivered < 1_000_000, "{record:?}");
    net.assert_all_delivered("stopped");
}

/// The permission of a sender ends at the window of a lost packet, which is `most` packets long;
/// `ahead` returns the number of packets that a receiver has been sent.
pub(crate) fn window_of_a_lost_packet_ends<T: Subject>(
    params: &T::Params,
    most: u64,
    ahead: impl Fn(&T) -> u64,
) {
    let first_of = kinds::<T::Header>(&["Data"]);
    let mut net = Net::<T>::new(2, params, Faults { first_of, ..NO_FAULTS }, 1);
    let mtu = T::context(0).mtu as u64;
    net.submit(0, 1, (most + 5_000) * mtu);
    net.run(Time::ZERO + RATE.serialise(most * mtu).scale(1.25));
    assert_eq!(ahead(&net.hosts[1]), most);
    net.run(Time::s(2));
    net.assert_all_delivered("the window has advanced");
    assert_eq!(net.resent_bytes, mtu);
}

/// A message whose first packet is lost delivers more than a link carries in 13 ms out of 15,
/// although the loss is noticed later.
pub(crate) fn lost_packet_stops_no_message<T: Subject>(params: &T::Params) {
    let first_of = kinds::<T::Header>(&["Data"]);
    let mut net = Net::<T>::new(2, params, Faults { first_of, ..NO_FAULTS }, 1);
    net.submit(0, 1, 1 << 30);
    net.run(Time::ms(15));
    let delivered = net.app.messages[0].delivered;
    assert!(net.lost == 1 && net.resent_bytes == 0, "{} B again", net.resent_bytes);
    assert!(delivered > RATE.bytes_in(Span::ms(13)), "{delivered} B");
}

/// A handle is invalid once its message is acknowledged, which takes less than `acked_in`: the
/// message that reuses its slot then delivers more than `least` in `going`, although the old handle
/// was used to stop it.
pub(crate) fn handle_is_invalid_once_acknowledged<T: Subject>(
    acked_in: Span,
    going: Span,
    least: Span,
) {
    let mut net = Net::<T>::new(2, &T::Params::default(), NO_FAULTS, 1);
    let (_, old) = net.submit(0, 1, 1_000);
    net.run(Time::ZERO + acked_in);
    assert!(net.app.messages[0].acked.is_some());
    // In the same slot, and of unknown size.
    let (id, new) = net.submit(0, 1, Message::UNLIMITED);
    assert_ne!(old, new);
    net.stop(0, old);
    assert_eq!(net.hosts[0].limits(old), None);
    net.run(net.now + going);
    assert!(net.hosts[0].limits(new).is_some());
    let delivered = net.app.messages[id as usize].delivered;
    assert!(delivered > RATE.bytes_in(least), "{delivered} B");
    net.stop(0, new);
    net.run(Time::s(1));
    net.assert_all_delivered("stopped by its own handle");
}

/// Forged packets harm only the hosts that they claim to come from: hosts from 3 on, the last of
/// which does not exist. Messages of up to `most_bytes` among the other three arrive by `until`.
/// `fitting` is a number that is currently valid in a packet.
pub(crate) fn forged_packets_harm_only_their_senders<T: Subject>(
    params: impl Fn(u64) -> T::Params,
    most_bytes: u64,
    until: Time,
    fitting: impl Fn(&Net<T>) -> Option<u64>,
) {
    for seed in 0..40 {
        println!("seed {seed}");
        let mut net = Net::<T>::new(3, &params(seed), NO_FAULTS, seed);
        let mut rng = Rng::stream(seed, Domain::Faults, 7);
        for _ in 0..30 {
            let src = rng.below(3) as u32;
            net.submit(src, (src + 1) % 3, 1 + rng.below(most_bytes));
            for _ in 0..200 {
                let (mut frame, mut body) = forged(fitting(&net), &mut rng);
                let host = &mut net.hosts[frame.dst as usize];
                // Its reply has no destination here.
                receive(host, net.now, &mut frame, &mut body, &mut net.app);
            }
            net.run(net.now + Span::us(2));
        }
        net.run(until);
        assert!(net.app.messages.iter().all(|record| record.acked.is_some()), "seed {seed}");
    }
}

fn forged(fitting: Option<u64>, rng: &mut Rng) -> (Frame, Body) {
    let mut any = || match (rng.below(4 + fitting.is_some() as u64), fitting) {
        (0, _) => rng.below(4),
        (1, _) => rng.below(200_000),
        (2, _) => u64::MAX - rng.below(4),
        (3, Some(fitting)) => fitting,
        _ => rng.bits(),
    };
    // One number, or two.
    let mut word = || if any() % 2 == 0 { any() } else { any() << 32 | any() >> 32 };
    let words = core::array::from_fn(|_| word());
    let body = Body {
        src: 3 + any() as u32 % 6,
        message: any() as u32 | FORGED,
        payload_bytes: any() as u32,
        transport: 0,
        is_retransmission: any() % 2 == 0,
        tag: any() as u8,
        sent_at: Time::ps(any()),
        words,
    };
    let (dst, flags) = (any() as u32 % 3, any() as u8);
    let frame = Frame { dst, flags, peak_hop_delay: Span::ps(any()), ..Frame::default() };
    (frame, body)
}
