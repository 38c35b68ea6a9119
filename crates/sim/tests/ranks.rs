//! A run gives the same bytes in any number of processes. Here the processes are threads that
//! communicate only by channels.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use crate::common::busy::{Recorder, busy};
use crate::common::cuts::{self, Cuts};
use crate::common::left::{self, Departures, Left};
use crate::common::observers::{ObserverAccess, TestProbe};
use crate::common::{ring, stack};
use tidegate_core::Time;
use tidegate_sim::{Communicator, Engine, Failure, RankFailure, Setup};

/// Number of processes, and of partitions in each, as many as three racks allow.
const RANKS: [(usize, usize); 4] = [(1, 1), (1, 2), (2, 1), (3, 1)];

/// One of several processes: channels to and from each.
struct Channels {
    rank: usize,
    to: Vec<Sender<Vec<u8>>>,
    from: Vec<Receiver<Vec<u8>>>,
    /// From this message on, corrupts what it sends.
    lies_after: usize,
}

impl Channels {
    /// Communicators of `count` ranks.
    fn new(count: usize) -> Vec<Channels> {
        let mut all: Vec<Channels> = (0..count)
            .map(|rank| Channels { rank, to: vec![], from: vec![], lies_after: usize::MAX })
            .collect();
        for a in 0..count {
            for b in 0..count {
                let (to, from) = channel();
                all[a].to.push(to);
                all[b].from.push(from);
            }
        }
        all
    }

    fn lost(rank: usize) -> RankFailure {
        RankFailure { rank, why: "gone".into() }
    }
}

impl Communicator for Channels {
    fn rank(&self) -> usize {
        self.rank
    }
    fn count(&self) -> usize {
        self.to.len()
    }
    fn send(&mut self, to: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure> {
        self.lies_after = self.lies_after.saturating_sub(1);
        if self.lies_after == 0 {
            bytes.push(7);
        }
        self.to[to].send(std::mem::take(bytes)).map_err(|_| Channels::lost(to))
    }
    fn receive(&mut self, from: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure> {
        *bytes = self.from[from].recv().map_err(|_| Channels::lost(from))?;
        Ok(())
    }
}

fn engine(setup: Setup, partitions: usize, communicator: Channels) -> Engine<TestProbe> {
    let probes = (0..partitions).map(|_| TestProbe::of(Recorder::default())).collect();
    Engine::among(setup, probes, Box::new(communicator)).unwrap()
}

/// Runs in `ranks` processes of `partitions` partitions.
fn left(setup: &Setup, ranks: usize, partitions: usize) -> Left {
    let mut communicator = Channels::new(ranks).into_iter();
    let leader = engine(setup.clone(), partitions, communicator.next().unwrap());
    assert_eq!((leader.ranks(), leader.partitions()), (ranks, partitions));
    thread::scope(|scope| {
        let serve = |communicator| {
            let mut engine = engine(setup.clone(), partitions, communicator);
            engine.serve().unwrap();
            left::departures(&engine)
        };
        let others: Vec<_> =
            communicator.map(|communicator| scope.spawn(move || serve(communicator))).collect();
        let mut left = Left::of(leader, setup.duration, (10 * ranks + partitions) as u64);
        for other in others {
            let packets: Departures = other.join().unwrap();
            assert!(packets.iter().any(|port| !port.is_empty()), "a rank has sent no packet");
            left::add(&mut left.packets, packets);
        }
        left
    })
}

/// Asserts that numbers of processes give the same results as one: two and, in turn, one of the
/// others. Few setups run in all of them.
fn same(cuts: Cuts) {
    if cuts.len() < 3 * RANKS.len() {
        return same_in(&RANKS, cuts);
    }
    let others = RANKS.iter().filter(|&&of| of != (2, 1)).cycle();
    for (cut, other) in cuts.into_iter().zip(others) {
        same_in(&[(2, 1), *other], vec![cut]);
    }
}

fn same_in(all: &[(usize, usize)], cuts: Cuts) {
    for (what, setup) in cuts {
        let engine = Engine::new(setup.clone(), TestProbe::of(Recorder::default())).unwrap();
        let whole = Left::of(engine, setup.duration, 1);
        for &(ranks, partitions) in all {
            let cut = left(&setup, ranks, partitions);
            whole.assert_is(&cut, &format!("{what}, {ranks} ranks of {partitions} partitions"));
        }
    }
}

#[test]
fn of_every_protocol() {
    same(cuts::every_protocol());
}

#[test]
fn of_every_protocol_sprayed_and_marked_at_random() {
    same(cuts::every_protocol_sprayed_and_marked_at_random());
}

#[test]
fn of_two_protocols_beside_each_other_with_a_drain() {
    same(cuts::two_protocols_beside_each_other_with_a_drain());
}

#[test]
fn of_small_shared_buffers() {
    same(cuts::small_shared_buffers());
}

#[test]
fn of_coarse_telemetry() {
    same(cuts::coarse_telemetry());
}

#[test]
fn of_faults() {
    same(cuts::faults());
}

#[test]
fn of_hosts_that_take_time() {
    same(cuts::hosts_that_take_time());
}

#[test]
fn of_three_tiers_with_latency() {
    same(cuts::three_tiers_with_latency());
}

#[test]
fn of_lossless_fabrics() {
    same(cuts::lossless_fabrics());
}

#[test]
fn of_closed_loops() {
    same(cuts::closed_loops());
}

#[test]
fn of_collectives() {
    same(cuts::collectives());
}

#[test]
fn of_rare_messages() {
    same(cuts::rare_messages());
}

#[test]
fn of_two_partitions_in_each_of_two() {
    for cuts in [cuts::faults(), cuts::collectives()] {
        same_in(&[(2, 2)], cuts::on_four_racks(cuts));
    }
}

#[test]
fn more_processes_than_racks_are_refused() {
    let setup = || busy(stack("swift"), 1);
    let mut communicator = Channels::new(4);
    let refused = Engine::among(setup(), vec![(); 1], Box::new(communicator.remove(2)));
    let message = refused.err().unwrap();
    assert!(message.contains("4 processes") && message.contains("start at most 3"), "{message}");
}

/// Ports of several processes that wait for each other.
#[test]
fn deadlock_is_detected_over_all_ranks() {
    let found = |engine: &mut Engine<TestProbe>| loop {
        match engine.advance_some(Time::NEVER, 1_000_000) {
            Ok(all) => assert!(!all, "no deadlock"),
            Err(Failure::Deadlock(deadlock)) => return deadlock,
            Err(failure) => panic!("{failure}"),
        }
    };
    let whole = found(&mut Engine::new(ring(4), TestProbe::of(Recorder::default())).unwrap());
    let mut communicator = Channels::new(2);
    let second = communicator.pop().unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| engine(ring(4), 1, second).serve().unwrap_err());
        let mut leader = engine(ring(4), 1, communicator.pop().unwrap());
        assert_eq!(found(&mut leader), whole);
        drop(leader);
        assert_eq!(second.join().unwrap().why, "gone");
    });
}

/// No partition waits for a lost process or accepts an invalid message.
#[test]
fn failed_rank_ends_the_run_on_all() {
    for lies_after in [1, 2, 5, 50, usize::MAX] {
        let setup = busy(stack("swift"), 1);
        let mut communicator = Channels::new(3);
        let (mut third, second) = (communicator.pop().unwrap(), communicator.pop().unwrap());
        third.lies_after = lies_after;
        let mut leader = engine(setup.clone(), 1, communicator.pop().unwrap());
        let lost = thread::scope(|scope| {
            let second = scope.spawn(|| engine(setup.clone(), 1, second).serve().unwrap_err());
            let third = scope.spawn(|| {
                let mut engine = engine(setup.clone(), 1, third);
                if lies_after < usize::MAX { engine.serve().map(|()| false) } else { Ok(true) }
            });
            let failure = leader.advance_some(Time::NEVER, u64::MAX).unwrap_err();
            let Failure::RankFailure(lost) = failure else { panic!("{failure}") };
            drop(leader);
            second.join().unwrap();
            assert_eq!(third.join().unwrap().is_ok(), lies_after == usize::MAX);
            lost
        });
        let why = if lies_after == usize::MAX { "gone" } else { "it sent malformed data" };
        println!("{lies_after}: {lost}");
        assert!(lost.rank > 0 && (lost.why == why || lost.why == "gone"), "{lost}");
    }
}
