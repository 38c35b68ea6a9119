//! Two nodes of different versions of the session headers, and forged datagrams between them.

use std::collections::VecDeque;

use tidegate_algos::Protocol;
use tidegate_core::{Span, Time};

use super::hostile::{address, node, shaped};
use super::{Arrival, CloseReason, Event, Node, OF_SESSIONS};
use crate::script::Script;

/// Maximum number of datagrams that one datagram causes at the same time: a `Hello` and its
/// refusal, for each node.
const MOST_FOLLOWING: usize = 4;
/// Datagrams that a script may repeat.
const REMEMBERED: usize = 16;
/// Longer than a node waits for an answer.
const SILENCE: Span = Span::ms(500);

/// Runs two nodes of different versions under a script: one requests sessions of the other, and a
/// third host sends datagrams with spoofed addresses.
///
/// # Panics If a node panics, if the nodes answer each other's answers, if a session opens, or if a
/// node that requested a session does not report the other's version.
pub fn versions(protocol: Protocol, script: &[u8]) {
    let mut script = Script::new(script);
    let mut scene = Scene {
        now: Time::ms(1),
        nodes: [node(protocol, 1), node(protocol, 2)],
        wires: [VecDeque::new(), VecDeque::new()],
        captured: VecDeque::new(),
        out: vec![0; 2_048],
    };
    while !script.is_over() {
        scene.step(&mut script);
    }
    scene.wait(SILENCE);
}

struct Scene {
    now: Time,
    nodes: [Node; 2],
    /// Datagrams in flight to each node.
    wires: [VecDeque<Vec<u8>>; 2],
    captured: VecDeque<Vec<u8>>,
    out: Vec<u8>,
}

impl Scene {
    fn step(&mut self, script: &mut Script<'_>) {
        let what = script.u8();
        let to = usize::from(what & 1);
        match what >> 1 & 7 {
            0 => {
                // The node may have no room for another peer.
                let _ = self.nodes[to].connect(self.now, address(1 - to as u8));
                self.deliver_all();
                // The refusal arrives before the node gives up.
                self.wait(SILENCE);
            }
            1 => self.send_as_other(to, script.bytes(usize::from(what)).to_vec()),
            2 => {
                let which = usize::from(script.u8()) % self.captured.len().max(1);
                if let Some(bytes) = self.captured.get(which) {
                    self.send_as_other(to, bytes.clone());
                }
            }
            3 => self.wait(Span::ps(script.number() % SILENCE.as_ps())),
            _ => {
                let mut bytes = shaped(script);
                bytes[0] = script.u8() % 4;
                self.send_as_other(to, bytes);
            }
        }
    }

    /// Delivers a datagram of a third host with the address of the other node.
    fn send_as_other(&mut self, to: usize, bytes: Vec<u8>) {
        self.wires[to].push_back(bytes);
        self.deliver_all();
    }

    /// Advances the time and handles the deadlines of both nodes.
    fn wait(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            let due = self.nodes.iter().map(Node::deadline).fold(end, Time::min);
            self.now = due.max(self.now + Span::us(1)).min(end);
            let now = self.now;
            self.nodes.iter_mut().for_each(|node| node.on_deadline(now));
            self.deliver_all();
        }
    }

    /// Delivers all datagrams, and those that they cause, at the same time.
    fn deliver_all(&mut self) {
        let begun = self.transmit() + self.wires.iter().map(VecDeque::len).sum::<usize>();
        let mut followed = 0;
        while let Some(to) = (0..2).find(|&to| !self.wires[to].is_empty()) {
            let Some(mut bytes) = self.wires[to].pop_front() else { return };
            let bytes = &mut bytes[..];
            let from = address(1 - to as u8);
            let arrival = Arrival { from, tos: 0, held: Span::ZERO, bytes };
            self.nodes[to].receive(self.now, arrival);
            followed += self.transmit();
            assert!(followed <= MOST_FOLLOWING * begun, "the nodes answer each other's answers");
        }
        for node in &mut self.nodes {
            while let Some(event) = node.event() {
                let is_known = matches!(event, Event::Closed(_, CloseReason::OtherVersion { .. }));
                assert!(is_known, "{event:?} between different versions");
            }
        }
    }

    /// Moves datagrams of the nodes to the wires, and returns their number.
    fn transmit(&mut self) -> usize {
        let mut sent = 0;
        for from in 0..2 {
            while let Some(departure) = self.nodes[from].transmit(self.now, &mut self.out) {
                let mut bytes = self.out[..departure.bytes].to_vec();
                // Each node sees the other with the next version.
                if bytes.get(1).is_some_and(|kind| OF_SESSIONS.contains(kind)) {
                    bytes[0] += 1;
                }
                if self.captured.len() == REMEMBERED {
                    self.captured.pop_front();
                }
                self.captured.push_back(bytes.clone());
                self.wires[1 - from].push_back(bytes);
                sent += 1;
            }
        }
        sent
    }
}
