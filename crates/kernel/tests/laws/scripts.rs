//! Long random connections, and short scripts with a known outcome.

use tidegate_algos::cc::poseidon::Poseidon;
use tidegate_algos::cc::powertcp::PowerTcp;
use tidegate_algos::cc::swift::Swift;
use tidegate_algos::cc::theta_powertcp::ThetaPowerTcp;
use tidegate_core::{Hop, Rate, Span, Time};

use super::pair::{Law, OPTION, Pair};
use super::random::{Event, Events, Odds, SETTINGS, Setting, WRAP, count};

fn random_events<L: Law>() {
    random_events_of::<L>([WRAP - 1; 2], Odds::REAL);
}

/// With these largest values of the clock and the count of bytes in hop records.
fn random_events_of<L: Law>(records: [u64; 2], odds: Odds) {
    for (seed, setting) in SETTINGS.into_iter().enumerate() {
        let mut pair = Pair::<L>::with_records(setting, records);
        let events = Events::with(setting, seed as u64, odds);
        events.take(count()).for_each(|event| pair.apply(&event));
        let name = L::INFO.name;
        println!("{name}, {}: {:e} apart, {} skipped", seed, pair.worst, pair.skipped);
        assert!(pair.skipped <= count() / 500, "{name}: {} skipped", pair.skipped);
        assert!(pair.worst < 5e-4, "{name}: {:e} apart", pair.worst);
    }
}

#[test]
fn poseidon_random_events() {
    random_events::<Poseidon>();
}

#[test]
fn powertcp_random_events() {
    random_events::<PowerTcp>();
}

/// The clock and the count of bytes are as wide as those of the option.
#[test]
fn powertcp_random_events_at_the_widths_of_the_option() {
    random_events_of::<PowerTcp>(OPTION, Odds::BUSY);
}

/// The fields are rounded as in the option: single intervals of some 64 ns differ, the mean hardly.
#[test]
fn powertcp_random_events_with_rounded_records() {
    for (seed, setting) in SETTINGS.into_iter().enumerate() {
        let mut pair = Pair::<PowerTcp>::with_records(setting, OPTION);
        (pair.rounds, pair.tolerance) = (true, f64::INFINITY);
        let mut sums = [0.0; 2];
        for event in Events::with(setting, seed as u64, Odds::STEADY).take(count()) {
            pair.apply(&event);
            sums[0] += pair.window();
            sums[1] += pair.expected();
        }
        let ratio = sums[0] / sums[1];
        println!("{seed}: mean window {ratio:.4} of the exact one, {:.3} apart", pair.worst);
        assert!((ratio - 1.0).abs() < 0.02, "{seed}: {ratio}");
    }
}

#[test]
fn swift_random_events() {
    random_events::<Swift>();
}

#[test]
fn theta_random_events() {
    random_events::<ThetaPowerTcp>();
}

/// 200 scripts, each of one theme.
pub(super) fn scripts() -> impl Iterator<Item = (Setting, Vec<Event>)> {
    let themes = Odds::THEMES.into_iter().cycle().zip(SETTINGS.into_iter().cycle());
    (1_000..1_200).zip(themes).map(|(seed, (odds, setting))| {
        (setting, Events::with(setting, seed, odds).take(60).collect())
    })
}

#[test]
fn scripts_keep_laws_equal() {
    fn check<L: Law>() {
        for (setting, events) in scripts() {
            let mut pair = Pair::<L>::new(setting);
            events.iter().for_each(|event| pair.apply(event));
            assert!(pair.worst < 5e-4, "{}: {:e} apart", L::INFO.name, pair.worst);
        }
    }
    check::<Poseidon>();
    check::<Swift>();
    check::<PowerTcp>();
    check::<ThetaPowerTcp>();
}

#[test]
fn scripts_of_wraps_have_counters_that_wrap() {
    let wraps = |(at, (_, events)): (usize, (Setting, Vec<Event>))| {
        let is_theme = Odds::THEMES[at % Odds::THEMES.len()].wraps;
        let hops = events.iter().flat_map(|event| match event {
            Event::Ack { hops, .. } => &hops[..],
            _ => &[],
        });
        let (time, bytes) = (|hop: &Hop| hop.at.as_ps() / 1_000, |hop: &Hop| hop.tx_bytes);
        let crosses = |of: &dyn Fn(&Hop) -> u64| {
            hops.clone().any(|hop| of(hop) < WRAP) && hops.clone().any(|hop| of(hop) >= WRAP)
        };
        !is_theme || (crosses(&time) && crosses(&bytes))
    };
    assert!(scripts().enumerate().all(wraps));
}

const RACK: Setting = SETTINGS[0];

/// Acknowledgement of a packet.
fn ack(now: u64, rtt: u64, delay: u64, hops: Vec<Hop>) -> Event {
    Event::Ack { now, rtt, delay, acked: 1, limited: true, hops }
}

fn hop(at: u64, tx_bytes: u64, queue_bytes: u32) -> Hop {
    let at = Time::ZERO.after(Span::ns(at));
    Hop { at, tx_bytes, rate: Rate::gbps(100), queue_bytes, port: 7 }
}

fn loss(now: u64, timeout: bool) -> Event {
    Event::Loss { now, rtt: 10_000, timeout }
}

/// Applies events and returns the windows in C after each.
fn windows<L: Law>(events: &[Event]) -> Vec<f64> {
    let mut pair = Pair::<L>::new(RACK);
    let mut apply = |event: &Event| {
        pair.apply(event);
        pair.window()
    };
    events.iter().map(&mut apply).collect()
}

fn assert_near(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-4 * b.abs(), "{a} {b}");
}

#[test]
fn poseidon_decreases_once_a_round_trip() {
    let w = windows::<Poseidon>(&[
        ack(100_000, 10_000, 100_000, vec![]),
        ack(110_000, 10_000, 100_000, vec![]),
        ack(110_001, 10_000, 100_000, vec![]),
    ]);
    assert_near(w[1], w[0]);
    assert_near(w[2], w[1] * 0.5);
}

#[test]
fn poseidon_loss_and_timeouts_in_a_row() {
    let mut events = vec![loss(100_000, false), loss(100_001, false)];
    events.extend((1..=12).map(|n| loss(200_000 * n, true)));
    let w = windows::<Poseidon>(&events);
    assert_near(w[1], w[0]);
    assert_near(w[2], w[1] / 2.0);
    assert_near(w[13], 0.001);
}

#[test]
fn poseidon_target_at_rates_of_the_paper() {
    // Rate in Gbit/s and target in us; base RTT 10 us, packets of 4,200 B.
    for (rate, target) in [(200.0, 2.0), (100.0, 5.010), (10.0, 15.010), (0.02, 42.0)] {
        // A delay just below the target leaves the window nearly unchanged, one above shrinks it.
        for (delay, grows) in [(target - 0.1, true), (target + 0.1, false)] {
            let mut pair = Pair::<Poseidon>::new(RACK);
            // The state's window is set directly.
            pair.step.state[0] = (rate * 1e9 * 10e-6 / 8.0 / 4200.0 * 2f64.powi(30)) as u64;
            let before = pair.window();
            pair.step.op = <Poseidon as Law>::OP + 1;
            pair.step.ack[..6].copy_from_slice(&[100_000, 10_000, (delay * 1e3) as u64, 1, 1, 0]);
            pair.step.run();
            assert_eq!(pair.window() > before, grows, "{rate} Gbit/s, {delay} us");
        }
    }
}

#[test]
fn swift_grows_a_packet_a_round_trip() {
    let events: Vec<_> = (0..30).map(|n| ack(100_000 + n, 10_000, 0, vec![])).collect();
    let w = windows::<Swift>(&events);
    // The BDP is 29.76 packets.
    assert_near(w[29], 125_000.0 / 4200.0 + 1.0 - 1.0 / 60.0 + 0.0063);
}

#[test]
fn swift_zero_rtt_changes_nothing_by_division() {
    let w = windows::<Swift>(&[ack(1, 0, 0, vec![]), ack(1, 0, 0, vec![])]);
    assert!(w[1] > w[0]);
}

#[test]
fn powertcp_records_that_cannot_be_compared() {
    let base = 5_000;
    let w = windows::<PowerTcp>(&[
        ack(1, 10_000, 0, vec![hop(base, 0, 0)]),
        // No records: stored as such, so the next are only stored.
        ack(2, 10_000, 0, vec![]),
        ack(3, 10_000, 0, vec![hop(base + 1000, 90_000, 90_000)]),
        // No progress in time.
        ack(4, 10_000, 0, vec![hop(base + 1000, 90_000, 90_000)]),
        // Older.
        ack(5, 10_000, 0, vec![hop(base, 0, 0)]),
        // Another path.
        ack(6, 10_000, 0, vec![Hop { rate: Rate::gbps(40), port: 8, ..hop(base + 2000, 0, 0) }]),
        // More hops than before.
        ack(7, 10_000, 0, vec![hop(base + 3000, 0, 0), hop(base + 3000, 0, 0)]),
    ]);
    assert!(w.iter().all(|&window| window == w[0]), "{w:?}");
}

#[test]
fn powertcp_counters_wrap() {
    let end = WRAP;
    let w = windows::<PowerTcp>(&[
        ack(1, 10_000, 0, vec![hop(end - 5_000, end - 60_000, 0)]),
        // 10 us at line rate, 125,000 B, and a queue of a tenth of the BDP.
        ack(2, 10_000, 0, vec![hop(end + 5_000, end + 65_000, 12_500)]),
    ]);
    // Power is 1.1 times 1.1, with full weight.
    let bdp = 125_000.0 / 4200.0;
    assert_near(w[1], 0.9 * (bdp / 1.21 + 1.0) + 0.1 * bdp);
}

/// The clock of records wraps in 67 ms, the count of bytes in 168 ms at this rate: a busy port of
/// 200 Mbit/s with a queue, and pauses of all lengths.
#[test]
fn powertcp_pauses_beyond_the_wrap_of_records() {
    let setting = SETTINGS[2];
    for pause in (5..600).step_by(7) {
        let mut pair = Pair::<PowerTcp>::with_records(setting, OPTION);
        let mut window = 0.0;
        for n in 0..1_100 {
            let ms = 1_000 + n + if n < 1_000 { 0 } else { pause };
            let (at, tx) = (ms * 1_000_000, ms * 25_000);
            let hop = Hop { rate: Rate::mbps(200), ..hop(at, tx, 2_000) };
            pair.apply(&ack(at + 2_000_000, 5_080_000, 0, vec![hop]));
            if n == 999 {
                window = pair.window();
            }
            assert!(n < 1_000 || (pair.window() / window - 1.0).abs() < 0.01, "{pause} ms, {n}");
        }
    }
}

/// After a timeout, at the smallest window, packets are further apart than half the range of the
/// clock of records. The port is idle.
#[test]
fn powertcp_windows_grow_however_rare_the_records() {
    let setting = SETTINGS[2];
    for pause in [30, 34, 40, 67, 100, 500, 5_000] {
        let mut pair = Pair::<PowerTcp>::with_records(setting, OPTION);
        pair.apply(&loss(1_000, true));
        let before = pair.window();
        for n in 1..60 {
            let at = n * pause * 1_000_000;
            let hop = Hop { rate: Rate::mbps(200), ..hop(at, n * 1_542, 0) };
            // The protocol in Rust has counts that do not wrap.
            assert!(pair.write(&ack(at + 2_500_000, 5_000_000, 0, vec![hop])));
            pair.step.run();
        }
        // The largest window is twice the smallest.
        assert!(pair.window() > 1.5 * before, "{pause} ms: {before} to {}", pair.window());
    }
}

/// A round trip of 44 ms, with a delayed acknowledgement, and one of 5 ms: their records are 50 ms
/// apart and return within 11 ms.
#[test]
fn powertcp_round_trips_of_unequal_length() {
    let mut pair = Pair::<PowerTcp>::with_records(SETTINGS[2], OPTION);
    let records = [(1_000_000_000, 0), (1_050_000_000, 1_250_000), (1_051_000_000, 1_275_000)];
    let arrivals =
        [(1_042_000_000, 44_000_000), (1_053_000_000, 5_000_000), (1_054_000_000, 5_000_000)];
    for ((at, tx), (now, rtt)) in records.into_iter().zip(arrivals) {
        let hop = Hop { rate: Rate::mbps(200), ..hop(at, tx, 30_000) };
        pair.apply(&ack(now, rtt, 0, vec![hop]));
    }
    assert!(pair.window() < 0.99 * pair.setting.bdp() / 1_542.0, "{}", pair.window());
}

/// A receiver whose own data returns the same records several times: the next records are 25 ms
/// later than these, not later than their last return.
#[test]
fn powertcp_records_that_return_again_keep_their_time() {
    let mut pair = Pair::<PowerTcp>::with_records(SETTINGS[2], OPTION);
    let record = |ms: u64, queue| Hop {
        rate: Rate::mbps(200),
        ..hop(1_000_000_000 + ms * 1_000_000, ms * 25_000, queue)
    };
    for ms in 0..25 {
        pair.apply(&ack(1_002_500_000 + ms * 1_000_000, 5_000_000, 0, vec![record(0, 2_000)]));
    }
    let before = pair.window();
    pair.apply(&ack(1_027_500_000, 5_000_000, 0, vec![record(25, 60_000)]));
    assert!(pair.window() < 0.9 * before, "{before} to {}", pair.window());
}

/// A port of equal rate is another port if its clock disagrees by more than a round trip.
#[test]
fn powertcp_paths_of_equal_rate_differ_by_clocks() {
    let records = |shift: u64, tx| {
        let mut pair = Pair::<PowerTcp>::with_records(SETTINGS[2], OPTION);
        let before = pair.window();
        let hops = [hop(1_000_000_000, 0, 2_000), hop(1_001_000_000 + shift, tx, 90_000)];
        for (now, hop) in [1_002_500_000, 1_003_500_000].into_iter().zip(hops) {
            let hop = Hop { rate: Rate::mbps(200), ..hop };
            assert!(pair.write(&ack(now, 5_000_000, 0, vec![hop])));
            pair.step.run();
        }
        pair.window() / before
    };
    assert!(records(0, 25_000) < 1.0);
    for shift in [5_100_000, 20_000_000, 50_000_000, 62_000_000] {
        assert_eq!(records(shift, 3_000_000), 1.0, "{shift} ns");
    }
}

/// At 400 Gbit/s, two packets have the same time. The port is busy and has no queue, so that power
/// is 1.
#[test]
fn powertcp_packets_of_one_time_count_together() {
    let mut pair = Pair::<PowerTcp>::with_records(SETTINGS[1], OPTION);
    let write = |pair: &mut Pair<PowerTcp>, event: &Event| {
        assert!(pair.write(event));
        pair.step.run();
    };
    write(&mut pair, &loss(1_000, false));
    for n in 0..200 {
        let hop = Hop { rate: Rate::gbps(400), ..hop((n * 32) & !63, n * 1_600, 0) };
        write(&mut pair, &ack(10_000 + n * 32, 10_000, 0, vec![hop]));
    }
    let before = pair.window();
    for n in 200..1_000 {
        let hop = Hop { rate: Rate::gbps(400), ..hop((n * 32) & !63, n * 1_600, 0) };
        write(&mut pair, &ack(10_000 + n * 32, 10_000, 0, vec![hop]));
    }
    // It grows by beta in each of 2.6 round trips.
    assert!((0.9..1.2).contains(&(pair.window() / before)), "{before} to {}", pair.window());
}

/// A queue of 84 ms: the clock of records wraps in 67 ms.
#[test]
fn powertcp_reduces_windows_beyond_the_clock_range() {
    for rtt in [30, 50, 60, 66, 68, 70, 84, 140, 300] {
        let mut pair = Pair::<PowerTcp>::with_records(SETTINGS[2], OPTION);
        let before = pair.window();
        for n in 0..200 {
            let (at, queue) = (n * 3_000_000, 25_000 * (rtt as u32 - 4));
            let hop = Hop { rate: Rate::mbps(200), ..hop(at, n * 75_000, queue) };
            assert!(pair.write(&ack(at + rtt * 1_000_000, rtt * 1_000_000, 0, vec![hop])));
            pair.step.run();
        }
        assert!(pair.window() < 0.6 * before, "{rtt} ms: {before} to {}", pair.window());
    }
}

/// 10 Gbit/s send 4 MiB in 3.4 ms. Beyond that the count is ambiguous: the port counts as busy,
/// also if bursts and the rounding of its rate make it send more than the rate in the record.
#[test]
fn powertcp_ambiguous_counts_do_not_double_windows() {
    let setting = SETTINGS[1];
    let bdp = setting.bdp() / f64::from(setting.wire_bytes);
    for us in [3_300, 3_400, 3_499, 3_600, 6_800, 10_000] {
        for (mbps, burst) in [(10_000, 0), (10_000, 3_000), (9_961, 0)] {
            let mut pair = Pair::<PowerTcp>::with_records(setting, OPTION);
            pair.apply(&loss(1_000, false));
            for n in 0..5 {
                let (at, tx) = (n * us * 1_000, n * us * 1_250 + n % 2 * burst);
                let hop = Hop { rate: Rate::mbps(mbps), ..hop(at, tx, 0) };
                pair.apply(&ack(at + 50_000, 100_000, 0, vec![hop]));
            }
            assert!(pair.window() < 0.6 * bdp, "{us} us, {mbps}, {burst}: {}", pair.window());
        }
    }
}

#[test]
fn theta_zero_interval_has_no_derivative() {
    let w = windows::<ThetaPowerTcp>(&[
        ack(100_000, 10_000, 0, vec![]),
        ack(100_000, 12_000, 0, vec![]),
        ack(120_000, 12_000, 0, vec![]),
    ]);
    assert_eq!(w[1], w[0]);
    let bdp = 125_000.0 / 4200.0;
    assert_near(w[2], 0.9 * (bdp / 1.2 + 1.0) + 0.1 * bdp);
}

#[test]
fn losses_halve_and_timeouts_reset_windows() {
    fn check<L: Law>() {
        let w = windows::<L>(&[loss(100_000, false), loss(200_000, true), loss(300_000, false)]);
        assert_near(w[0], 125_000.0 / 4200.0 / 2.0);
        // 100 Mbit/s for 10 us.
        assert_near(w[1], 125.0 / 4200.0);
        assert_near(w[2], w[1]);
    }
    check::<PowerTcp>();
    check::<ThetaPowerTcp>();
}

#[test]
fn idle_times_of_seconds_keep_laws_equal() {
    fn check<L: Law>() {
        let later = |n: u64, delay| {
            let now = 1_000_000_000 * (n + 1);
            ack(now, 10_000 + delay, delay, vec![hop(now - 5_000, n * 900, 0)])
        };
        windows::<L>(&[later(0, 0), later(1, 90_000), later(2, 0), later(9, 500), later(60, 0)]);
    }
    check::<Poseidon>();
    check::<Swift>();
    check::<PowerTcp>();
    check::<ThetaPowerTcp>();
}
