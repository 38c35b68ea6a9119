//! Failed links under routing that converges late, and MRC's path states.

use tidegate_core::fabric::{Node, TrimVictim, Trimming};
use tidegate_core::faults::{Failing, Faults, Outage};
use tidegate_core::params::Value;
use tidegate_core::{Body, Domain, Feedback, Rate, Rng, Span, Time};
use tidegate_sim::{Departure, Engine, Outcome, Setup};

use crate::common::observers::{Observer, ObserverAccess, TestProbe};
use crate::common::*;

const SPINES: u32 = 4;

/// One flow of 30 MB, which takes 2.5 ms, between two racks with four spines.
fn one_flow(rule: &'static str) -> Setup {
    let fabric = leaf_spine(2, 1, SPINES, Rate::gbps(100), Rate::gbps(100), Span::us(1), 4_000);
    let flows = vec![flow(0, 1, 30_000_000, Time::ZERO)];
    let mut setup = setup(fabric, stack("nscc"), flows, Time::ms(20));
    for switch in &mut setup.fabric.switches {
        switch.trimming = Some(Trimming {
            data_bytes: 40 * 4_080,
            header_queue_bytes: 80 * 4_080,
            trimmed_bytes: 84,
            victim: TrimVictim::Random,
            per: None,
            return_to_sender: false,
            header_weight: None,
        });
    }
    setup.stacks[0].set("multipath", Value::Choice(rule)).unwrap();
    setup.until_done = true;
    setup
}

/// The link from the first rack to the first spine.
fn first_uplink(setup: &Setup) -> u32 {
    let is_it = |ends: &tidegate_core::fabric::Link| {
        let name = |end| match end {
            Node::Switch(switch) => &*setup.fabric.switches[switch as usize].name,
            Node::Host(_) => "",
        };
        [name(ends.a), name(ends.b)] == ["tor0", "spine0"]
    };
    setup.fabric.links.iter().position(is_it).unwrap() as u32
}

fn failing(mut setup: Setup, down: Time, up: Time, convergence: Span) -> Setup {
    let of = Failing::Link(first_uplink(&setup));
    setup.faults.outages = vec![Outage { of, down, up }];
    setup.convergence = convergence;
    setup
}

fn lost(outcome: &Outcome) -> u64 {
    outcome.faults.lost
}

#[test]
fn routing_follows_after_its_convergence() {
    let lost_within = |convergence| {
        let mut setup = one_flow("oblivious");
        setup.stacks[0] = open_loop(50);
        setup.stacks[0].set("multipath", Value::Choice("oblivious")).unwrap();
        setup.workload.flows = vec![unlimited(0, 1, Time::ZERO)];
        (setup.duration, setup.until_done) = (Time::ms(1), false);
        let setup = failing(setup, Time::us(500), Time::NEVER, convergence);
        lost(&run(setup).1)
    };
    let [at_once, early, late] = [Span::ZERO, Span::us(100), Span::us(300)].map(lost_within);
    // Those on the link; then about every fourth packet of 153 in 100 us, and about every fourth
    // acknowledgement of the others.
    assert!(at_once < 5, "{at_once}");
    assert!((40..120).contains(&early), "{early}");
    let ratio = (late - at_once) as f64 / (early - at_once) as f64;
    assert!((2.8..3.2).contains(&ratio), "{late} {early} {at_once}");
}

#[test]
fn repaired_link_is_used_after_convergence() {
    struct Uses {
        port: u32,
        at: Vec<Time>,
    }
    impl Observer for Uses {
        fn departed(&mut self, departure: &Departure<'_>) {
            if departure.port == self.port {
                self.at.push(departure.at);
            }
        }
    }
    let convergence = Span::us(200);
    let (down, up) = (Time::us(500), Time::us(1_000));
    let setup = failing(one_flow("oblivious"), down, up, convergence);
    let port = 2 * first_uplink(&setup);
    let mut engine = Engine::new(setup, TestProbe::of(Uses { port, at: Vec::new() })).unwrap();
    engine.advance(Time::ms(2));
    let at = &engine.probe().inner::<Uses>().at;
    let within =
        |from: Time, until: Time| at.iter().filter(|&&at| at >= from && at < until).count();
    assert!(within(Time::ZERO, down) > 300);
    // Routing avoids the link from 700 us until 1,200 us.
    assert_eq!(within(down, up + convergence), 0, "{:?}", at.iter().find(|&&at| at > down));
    assert!(within(up + convergence, Time::ms(2)) > 500);
}

/// Routing does not notice a failure that ends earlier than it converges.
#[test]
fn short_failure_is_not_noticed() {
    let end = |convergence| {
        let mut setup = one_flow("oblivious");
        setup.fabric = leaf_spine(2, 1, 1, Rate::gbps(100), Rate::gbps(100), Span::us(1), 4_000);
        let setup = failing(setup, Time::us(500), Time::us(510), convergence);
        let (finished, outcome) = run(setup);
        (lost(&outcome), finished[0].completed.unwrap())
    };
    let known = end(Span::ZERO);
    for convergence in [Span::us(11), Span::us(200), Span::ms(5)] {
        assert_eq!(end(convergence), known, "{convergence}");
    }
}

/// All packets of a window are lost within a round trip. Each has a timeout of its own, and those
/// of the others do not double when the first expires.
#[test]
fn lost_window_is_resent_after_one_timeout() {
    let mut setup = one_flow("oblivious");
    setup.fabric = leaf_spine(2, 1, 1, Rate::gbps(100), Rate::gbps(100), Span::us(1), 4_000);
    setup.faults.outages = vec![Outage {
        of: Failing::Link(first_uplink(&setup)),
        down: Time::us(500),
        up: Time::us(550),
    }];
    let (finished, _) = run(setup);
    let end = finished[0].completed.unwrap();
    // 2.45 ms without the outage.
    assert!(end < Time::us(2_900), "{end}");
}

/// Routing never follows. Without path states, the window soon consists of lost packets only.
#[test]
fn failed_path_is_replaced_until_it_is_repaired() {
    #[derive(Default)]
    struct Uses {
        port: u32,
        up: Time,
        probes: u64,
        packets: u64,
    }
    impl Observer for Uses {
        fn departed(&mut self, departure: &Departure<'_>) {
            let Body { tag, payload_bytes, .. } = *departure.body;
            if departure.port == self.port && departure.at >= self.up && tag & 1 == 0 {
                *if payload_bytes == 0 { &mut self.probes } else { &mut self.packets } += 1;
            }
        }
    }
    let (down, up) = (Time::us(200), Time::us(1_500));
    let result = |rule| {
        let setup = failing(one_flow(rule), down, up, Span::s(1));
        let port = 2 * first_uplink(&setup);
        let uses = TestProbe::of(Uses { port, up, ..Uses::default() });
        let mut engine = Engine::new(setup, uses).unwrap();
        engine.advance(Time::ms(20));
        let &Uses { probes, packets, .. } = engine.probe().inner();
        let outcome = engine.finish().unwrap();
        (probes, packets, outcome.finished[0].completed.unwrap())
    };
    // 2.45 ms without the failure.
    let (probes, packets, end) = result("mrc");
    assert!(end < Time::us(2_800), "{end}");
    let (others_probes, _, others_end) = result("oblivious");
    assert!(others_probes == 0 && others_end > Time::us(3_500), "{others_probes} {others_end}");
    // About sixteen of 64 entropies, and some backups, are restored by one answer each.
    assert!((10..60).contains(&probes) && packets > 300, "{probes} {packets}");
}

/// Paths of many entropies fail, and each is probed at a short interval: data still has most of the
/// link, and no response to a probe counts as a round trip.
#[test]
fn probes_leave_the_link_to_data() {
    let mut setup = one_flow("mrc");
    setup.stacks[0].set("paths", Value::Integer(256)).unwrap();
    setup.stacks[0].set("probe_interval", Value::Span(Span::us(1))).unwrap();
    let setup = failing(setup, Time::us(200), Time::us(600), Span::s(1));
    #[derive(Default)]
    struct Sent {
        probes: u64,
        packets: u64,
    }
    impl Observer for Sent {
        fn departed(&mut self, departure: &Departure<'_>) {
            let Body { tag, payload_bytes, .. } = *departure.body;
            // The host's own link.
            if departure.port == 0 && tag & 1 == 0 {
                *if payload_bytes == 0 { &mut self.probes } else { &mut self.packets } += 1;
            }
        }
        fn feedback(&mut self, _: Time, _: u64, feedback: &Feedback) {
            // A full packet takes 326 ns on each of four links, and its acknowledgement 7.
            let least = Span::ns(8_000 + 4 * 326 + 4 * 6);
            assert!(feedback.rtt.is_none_or(|rtt| rtt >= least), "{:?}", feedback.rtt);
        }
    }
    let mut engine = Engine::new(setup, TestProbe::of(Sent::default())).unwrap();
    engine.advance(Time::ms(20));
    let &Sent { probes, packets } = engine.probe().inner();
    assert!(probes > 20 && probes <= packets, "{probes} {packets}");
    assert!(engine.finish().unwrap().unfinished.is_empty());
}

#[test]
fn messages_arrive_once_under_path_states() {
    for seed in 0..40 {
        let mut rng = Rng::stream(seed, Domain::Faults, 1 << 60);
        let mut setup = one_flow("mrc");
        setup.seed = seed;
        setup.workload.flows = (0..20)
            .map(|nth| flow(nth % 2, 1 - nth % 2, 1 + rng.below(400_000), Time::us(rng.below(300))))
            .collect();
        let down = Time::us(20 + rng.below(200));
        let up = if seed % 3 == 0 { Time::NEVER } else { down + Span::us(rng.below(400) + 1) };
        setup = failing(setup, down, up, Span::us([0, 50, 1_000][seed as usize % 3]));
        setup.faults = Faults {
            loss: [0.0, 1e-3, 1e-2][seed as usize / 3 % 3],
            reordering: 0.05,
            reorder_delay: Span::us(20),
            duplication: 0.01,
            ..setup.faults
        };
        let (finished, outcome) = run(setup);
        assert_eq!((finished.len(), outcome.unfinished.len()), (20, 0), "seed {seed}");
    }
}
