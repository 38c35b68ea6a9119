//! What every transport with loss recovery has to pass: each trial is run by a test of that name
//! in each of them, which says what is special to it.

extern crate std;

use alloc::format;
use std::println;

use tidegate_core::wire::Header;
use tidegate_core::{Body, Domain, Frame, Message, Rng, Span, Time};

use super::{FORGED, Faults, NO_FAULTS, Net, RATE, Subject, kinds, receive};

/// A few dozen messages of many sizes among four hosts, some of them stopped.
pub(crate) struct Chaos {
    /// Size of the largest messages that have an end.
    pub(crate) most_bytes: u64,
    /// Those without are stopped at most so many nanoseconds after a pause that all have.
    pub(crate) most_ns: u64,
    /// By then all is done.
    pub(crate) until: Time,
}

/// What differs from seed to seed.
pub(crate) struct Variation<P> {
    pub(crate) params: P,
    pub(crate) jitter: Span,
    pub(crate) congestion: f64,
    /// Where nothing is lost, nothing is sent again.
    pub(crate) patient: bool,
}

impl Chaos {
    fn run<T: Subject>(&self, seed: u64, params: &T::Params, faults: Faults) -> Net<T> {
        let mut net = Net::<T>::new(4, params, faults, seed);
        let mut rng = Rng::stream(seed, Domain::Traffic, 0);
        for number in 0..24 {
            let src = rng.below(4) as u32;
            let dst = (src + 1 + rng.below(3) as u32) % 4;
            let size = match rng.below(8) {
                0 => 1,
                1 => T::context(src).mtu as u64 * (1 + rng.below(4)),
                2..5 => 1 + rng.below(10_000),
                5..7 => 1 + rng.below(self.most_bytes),
                _ => Message::UNLIMITED,
            };
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

    /// Every message arrives exactly once whatever the network does: with each of these shares of
    /// loss and duplication, so many seeds. `TIDEGATE_SEEDS=20000` runs so many of each. How many
    /// packets were lost.
    pub(crate) fn survive<T: Subject>(
        &self,
        faults: [(f64, f64, u64); 4],
        vary: impl Fn(u64) -> Variation<T::Params>,
    ) -> u64 {
        let more = std::env::var("TIDEGATE_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
        let mut lost = 0;
        for (loss, duplication, seeds) in faults {
            for seed in 0..more.unwrap_or(seeds) {
                let case = format!("loss {loss}, seed {seed}");
                println!("{case}"); // the last one shown is the one that failed
                let Variation { params, jitter, congestion, patient } = vary(seed);
                let faults = Faults { loss, duplication, jitter, congestion, ..NO_FAULTS };
                let net = self.run::<T>(seed, &params, faults);
                net.assert_all_delivered(&case);
                if patient && loss == 0.0 && duplication == 0.0 {
                    assert_eq!(net.resent_bytes, 0, "{case}: nothing was lost");
                }
                lost += net.lost;
            }
        }
        lost
    }
}

/// The first packet of any kinds may be lost: a message of each of several sizes is acknowledged
/// before `bound` of the number of packets lost. How many were lost in all.
pub(crate) fn the_first_packet_of_any_kinds_may_be_lost<T: Subject>(
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

/// A message without end, of which a thousandth is lost, delivers what a link carries in `least` of
/// 20 ms at least, in bounded memory, and ends when it is stopped.
pub(crate) fn a_message_without_end_survives_loss<T: Subject>(
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
    assert!(is_bounded(&net.hosts[1]), "its receiver keeps too much");
    net.stop(0, handle);
    net.run(Time::s(1));
    let heard = &net.app.messages[0];
    assert!(heard.completed.is_some() && heard.delivered - delivered < 1_000_000, "{heard:?}");
    net.assert_all_delivered("stopped");
}

/// What a sender may send stops where the window of a lost packet ends, which is `most` packets
/// long; `ahead` says how many of them a receiver has been sent.
pub(crate) fn the_window_of_a_lost_packet_ends<T: Subject>(
    params: &T::Params,
    most: u64,
    ahead: impl Fn(&T) -> u64,
) {
    let first_of = kinds::<T::Header>(&["Data"]);
    let mut net = Net::<T>::new(2, params, Faults { first_of, ..NO_FAULTS }, 1);
    let mtu = T::context(0).mtu as u64;
    net.submit(0, 1, (most + 5_000) * mtu);
    net.run(Time::ms(15));
    assert_eq!(ahead(&net.hosts[1]), most);
    net.run(Time::s(1));
    net.assert_all_delivered("the window moved on");
    assert_eq!(net.resent_bytes, mtu);
}

/// A handle is worth nothing once its message is acknowledged, which takes less than `acked_in`:
/// the message that has its place then delivers more than `least` in `going`, although it was to be
/// stopped by the handle of the one before.
pub(crate) fn a_handle_is_worth_nothing_once_acknowledged<T: Subject>(
    acked_in: Span,
    going: Span,
    least: Span,
) {
    let mut net = Net::<T>::new(2, &T::Params::default(), NO_FAULTS, 1);
    let (_, old) = net.submit(0, 1, 1_000);
    net.run(Time::ZERO + acked_in);
    assert!(net.app.messages[0].acked.is_some());
    // In the same place, and without end.
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
    net.assert_all_delivered("stopped by its own");
}

/// Packets that nobody sent harm only those in whose name they come: hosts from 3 on, of which the
/// last is not there. Messages of up to `most_bytes` among the other three arrive by `until`.
/// `fitting` is a number that would make sense in a packet just now.
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
                // Its reply is for nobody here.
                receive(host, net.now, &mut frame, &mut body, &mut net.app);
            }
            net.run(net.now + Span::us(2));
        }
        net.run(until);
        assert!(net.app.messages.iter().all(|heard| heard.acked.is_some()), "seed {seed}");
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
    // A number, or two.
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
    let frame = Frame { dst: any() as u32 % 3, flags: any() as u8, ..Frame::default() };
    (frame, body)
}
