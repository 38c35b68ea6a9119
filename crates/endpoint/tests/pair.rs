//! On a link between two hosts, endpoints send the same packets at the same times as the simulator.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tidegate_algos::Protocol;
use tidegate_core::fabric::{Fabric, Link as FabricLink, Node};
use tidegate_core::workload::{Flow, Workload};
use tidegate_core::{
    Application, Body, ConnectionPolicy, Domain, Frame, HopTrace, HostContext, Message, MessageId,
    PacketSizes, Rate, Rng, Role, Span, Time,
};
use tidegate_endpoint::{Link, Packet, Submission, pair};
use tidegate_sim::simulation::observed;
use tidegate_sim::{Departure as SimDeparture, Observer, Setup};

/// The compared fields of a departure: time, host, and the packet except fields of the drivers.
type Record = (Time, usize, Packet);

fn record(at: Time, host: usize, frame: &Frame, body: &Body, hops: &HopTrace) -> Record {
    (
        at,
        host,
        Packet { frame: Frame { at: Time::ZERO, next: 0, ..*frame }, body: *body, hops: *hops },
    )
}

#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<Record>>>);

impl Observer for Recorder {
    fn departed(&mut self, d: &SimDeparture<'_>) {
        self.0.lock().unwrap().push(record(d.at, d.port as usize, d.frame, d.body, d.hops));
    }
}

#[derive(Default)]
struct Counts {
    /// Arrived pieces of each message: offset and end.
    pieces: BTreeMap<(u32, u32), BTreeMap<u64, u64>>,
    completed: u32,
}

impl Application for Counts {
    fn delivered(&mut self, _now: Time, message: MessageId, offset: u64, bytes: u32) {
        let pieces = self.pieces.entry((message.src, message.id)).or_default();
        assert_eq!(pieces.insert(offset, offset + bytes as u64), None, "twice: {message:?}");
    }
    fn completed(&mut self, _now: Time, _message: MessageId) {
        self.completed += 1;
    }
    fn acked(&mut self, _now: Time, _message: MessageId) {}
}

/// Messages both ways, some at the same time, of one byte to many packets.
fn submissions(seed: u64) -> Vec<Submission> {
    let mut rng = Rng::stream(seed, Domain::Traffic, 5);
    let mut all: Vec<_> = (0..100)
        .map(|_| {
            let host = rng.below(2) as usize;
            let most = [100, 5_000, 200_000][rng.below(3) as usize];
            let bytes = 1 + rng.below(most);
            let at = Time::ps(1 + rng.below(150_000_000));
            Submission {
                at,
                host,
                message: Message {
                    id: 0,
                    dst: 1 - host as u32,
                    bytes,
                    dedicated: rng.below(4) == 0,
                    weight: 1,
                    role: Role::Alone,
                },
            }
        })
        .collect();
    all.sort_by_key(|submission| submission.at);
    // Numbered as in the simulator: separately for each host.
    let mut submitted = [0; 2];
    for submission in &mut all {
        submission.message.id = submitted[submission.host];
        submitted[submission.host] += 1;
    }
    all
}

#[test]
fn endpoints_match_the_simulator() {
    let link = Link { rate: Rate::gbps(100), delay: Span::ns(1_300) };
    let end = Time::ms(3);
    for &protocol in Protocol::ALL {
        for seed in 1..=20 {
            let stack = protocol.stack();
            let submissions = submissions(seed);
            let flows = submissions.iter().map(|s| Flow {
                src: s.host as u32,
                dst: s.message.dst,
                bytes: s.message.bytes,
                start: s.at,
                stop: Time::NEVER,
                stack: 0,
                label: 0,
                dedicated: s.message.dedicated,
            });
            let fabric = Fabric {
                hosts: vec!["left".into(), "right".into()],
                links: vec![FabricLink {
                    a: Node::Host(0),
                    b: Node::Host(1),
                    rate: link.rate,
                    delay: link.delay,
                }],
                mtu: 1000,
                ..Fabric::default()
            };
            let setup = Setup {
                stacks: vec![stack.clone()],
                connections: ConnectionPolicy::Pool(2),
                workload: Workload { flows: flows.collect(), traffic: Vec::new() },
                duration: end,
                ..Setup::new(fabric, seed)
            };
            let recorder = Recorder::default();
            let mut engine = observed(setup, Box::new(recorder.clone())).unwrap();
            let path = engine.paths().path(0, 1);
            let context = |host| HostContext {
                host,
                hosts: 2,
                seed,
                mtu: 1000,
                nic_rate: link.rate,
                fabric_base_rtt: path.fabric_base_rtt,
                fabric_control_rtt: link.delay.times(2) + link.rate.serialise(84).times(2),
                sizes: PacketSizes::STANDARD,
                bdp_bytes: path.bdp_bytes,
                connections: ConnectionPolicy::Pool(2),
                spraying: false,
                priorities: 1,
                most_held: Span::ZERO,
            };
            let mut counts = Counts::default();
            let ours = pair(
                &stack,
                [context(0), context(1)],
                link,
                engine.paths(),
                &submissions,
                end,
                &mut counts,
            );
            let mut ours: Vec<_> = ours
                .iter()
                .map(|d| record(d.at, d.host, &d.packet.frame, &d.packet.body, &d.packet.hops))
                .collect();
            while !engine.advance_some(end, u64::MAX).unwrap() {}
            let mut theirs = recorder.0.lock().unwrap().clone();
            for trace in [&mut ours, &mut theirs] {
                trace.sort_by_key(|r| (r.0, r.1));
            }
            assert!(ours.len() > 1_000, "only {} packets", ours.len());
            let name = protocol.info().name;
            for (a, b) in ours.iter().zip(&theirs) {
                assert_eq!(a, b, "{name}, seed {seed}");
            }
            assert_eq!(ours.len(), theirs.len(), "{name}, seed {seed}");
            assert_eq!(counts.completed as usize, submissions.len(), "{name}, seed {seed}");
            for Submission { host, message, .. } in &submissions {
                let pieces = &counts.pieces[&(*host as u32, message.id)];
                // Each piece begins where the previous one ends.
                let end = pieces
                    .iter()
                    .try_fold(0, |end, (&offset, &next)| (offset == end).then_some(next));
                assert_eq!(end, Some(message.bytes), "{name}, seed {seed}: {message:?} {pieces:?}");
            }
        }
    }
}
