//! The messages of a run at hosts outside the simulator: what each host sends and when, and the
//! records of what arrives.
//!
//! Every host draws all flows for itself, as partitions do, so no host needs to be informed of
//! them. Dependent messages use the simulator's code, too. The records of all hosts are sent to one
//! place as bytes, and become the rows of a run there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_core::workload::Flow;
use tidegate_core::{HostContext, Message, MessageId, Path, PathOracle, Span, Time};

use crate::bytes::{Bytes, bytes};
use crate::fabric::routing::Routing;
use crate::measures::outcome::{FlowRecord, Window};
use crate::partition::host_context;
use crate::run_context::RunContext;
use crate::setup::Setup;
use crate::traffic::agenda::{Action, Agenda};
use crate::traffic::dependents::Dependents;
use crate::traffic::feed::Feed;
use crate::traffic::flows::{Done, Flows};
use crate::traffic::rows::Rows;
use crate::traffic::submission::Submission;

/// Header at the start of a message's payload, by which the destination identifies the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    /// As [`FlowRecord::id`].
    id: u64,
    /// Time of submission.
    start: Time,
    bytes: u64,
}

/// Size of this header in bytes.
pub const NAME_BYTES: usize = 24;

/// Payload that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Time of arrival.
    pub at: Time,
    /// Flow ID.
    pub flow: u64,
    /// Number of bytes.
    pub bytes: u32,
}

/// All records of one host.
#[derive(Default)]
struct HostRecords {
    done: Done,
    deliveries: Vec<Delivery>,
}

bytes! {
    Name { id, start, bytes }
    Delivery { at, flow, bytes }
    HostRecords { done, deliveries }
}

/// Action that a host must take now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// Send a message.
    Send(MessageStart),
    /// Stop the unlimited message with this number.
    Stop(u32),
}

/// A message that a host sends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageStart {
    /// Destination host.
    pub to: u32,
    /// Payload, including the header; [`Message::UNLIMITED`] if the message is unlimited.
    pub bytes: u64,
    /// Header that the payload must start with.
    pub name: [u8; NAME_BYTES],
    /// Weight among other messages.
    pub weight: u8,
    /// The message has a connection of its own.
    pub dedicated: bool,
    /// Number of the message at this host until it is acknowledged.
    pub number: u32,
}

/// One host's share of a run.
pub struct OpenHost {
    host: u32,
    setup: Arc<Setup>,
    routing: Routing,
    feed: Feed,
    agenda: Agenda,
    dependents: Option<Box<Dependents>>,
    flows: Flows,
    /// Number of messages submitted here.
    submitted: u32,
    /// Unlimited messages that have not stopped.
    endless: BTreeSet<u32>,
    /// Messages that are arriving, by sender and its number for the message.
    arriving: BTreeMap<(u32, u32), Arriving>,
    deliveries: Vec<Delivery>,
}

/// A message that is arriving.
#[derive(Clone, Default)]
struct Arriving {
    /// Pieces that arrived before the header: time and bytes.
    early: Vec<(Time, u32)>,
    name: Option<Name>,
}

impl OpenHost {
    /// # Errors
    /// If the run needs functions that only simulated hosts have, or if
    /// [`Engine::new`](crate::Engine::new) returns an error.
    pub fn new(setup: Setup, host: u32) -> Result<OpenHost, String> {
        let context = run_context(setup)?;
        let setup = context.setup.clone();
        let hosts = setup.fabric.hosts.len();
        let partitions: Vec<u32> = (0..hosts as u32).collect();
        let mut dependents = Dependents::new(&setup, &partitions, host);
        let mut agenda = Agenda::default();
        if let Some(dependents) = &mut dependents {
            let is_here = |other| other == host;
            dependents.first(is_here, |next| _ = agenda.add(next));
        }
        Ok(OpenHost {
            host,
            routing: Routing::new(&setup, context.routes),
            feed: Feed::new(&setup, partitions),
            agenda,
            dependents,
            flows: Flows::new(hosts, Window::of(&setup), setup.fabric.mtu),
            submitted: 0,
            endless: BTreeSet::new(),
            arriving: BTreeMap::new(),
            deliveries: Vec::new(),
            setup,
        })
    }

    /// The context that a simulated host would have.
    pub fn context(&self) -> HostContext {
        host_context(&self.setup, &self.routing, self.host)
    }

    /// Path properties.
    pub fn paths(&self) -> &dyn PathOracle {
        &self.routing
    }

    /// Time at which [`next`](Self::next) must be called again.
    pub fn next_at(&self) -> Time {
        let unknown = self.feed.known();
        let look = if unknown == Time::NEVER { unknown } else { unknown.after(Span::ps(1)) };
        self.agenda.next_at().min(look)
    }

    /// The next action that is due by `now`.
    pub fn next(&mut self, now: Time) -> Option<HostAction> {
        let (feed, agenda, host) = (&mut self.feed, &mut self.agenda, self.host);
        while feed.known() < now {
            feed.distribute(now, |to, submission| {
                if to == host && submission.flow.src == host {
                    agenda.submit(submission);
                }
            });
        }
        let submission = loop {
            match self.agenda.take(now)? {
                Action::Submit(submission) => break submission,
                Action::Stop(number) => {
                    self.endless.remove(&number);
                    return Some(HostAction::Stop(number));
                }
                Action::Wake(at, wake) => {
                    if let Some(dependents) = &mut self.dependents {
                        dependents.woken(wake, at, |next| _ = self.agenda.add(next));
                    }
                }
                // Testbeds have no links inside of servers.
                Action::Arrive(..) => {}
            }
        };
        let Submission { flow, id, .. } = submission;
        let unlimited = flow.bytes == Message::UNLIMITED;
        let ideal = match unlimited {
            true => Span::ZERO,
            false => self.routing.ideal(&self.setup, &flow),
        };
        let number = self.submitted;
        self.submitted = self.submitted.wrapping_add(1);
        if unlimited {
            self.endless.insert(number);
            if flow.stop < Time::NEVER {
                self.agenda.stop_at(flow.stop, number);
            }
        }
        self.flows.send(&Submission { number, ..submission }, flow.start, ideal);
        let mut name = Vec::with_capacity(NAME_BYTES);
        Name { id, start: flow.start, bytes: flow.bytes }.put(&mut name);
        Some(HostAction::Send(MessageStart {
            to: flow.dst,
            bytes: flow.bytes.max(NAME_BYTES as u64),
            // The length is exact.
            name: name.try_into().unwrap_or([0; NAME_BYTES]),
            weight: self.setup.weights.get(usize::from(flow.label)).copied().unwrap_or(1),
            dedicated: flow.dedicated,
            number,
        }))
    }

    /// Records a piece of the message with this `number` at its sender. Returns `false` if the
    /// message cannot belong to this run.
    pub fn delivered(
        &mut self,
        now: Time,
        from: u32,
        number: u32,
        offset: u64,
        piece: &[u8],
    ) -> bool {
        let arriving = self.arriving.entry((from, number)).or_default();
        let bytes = piece.len() as u32;
        if offset == 0 {
            let Some(name) = Name::take(&mut &piece[..]) else { return false };
            arriving.name = Some(name);
            let early = std::mem::take(&mut arriving.early);
            self.expect(from, number, name);
            for (at, bytes) in early {
                self.count(at, from, number, name, bytes);
            }
            self.count(now, from, number, name, bytes);
        } else if let Some(name) = arriving.name {
            self.count(now, from, number, name, bytes);
        } else {
            arriving.early.push((now, bytes));
        }
        true
    }

    fn count(&mut self, at: Time, from: u32, number: u32, name: Name, bytes: u32) {
        // Messages shorter than the header were padded.
        let bytes = bytes.min(u32::try_from(name.bytes).unwrap_or(u32::MAX));
        self.flows.delivered(at, at, MessageId { src: from, id: number }, bytes);
        self.deliveries.push(Delivery { at, flow: name.id, bytes });
    }

    fn expect(&mut self, from: u32, number: u32, name: Name) {
        let flow = Flow {
            src: from,
            dst: self.host,
            bytes: name.bytes,
            start: name.start,
            stop: Time::NEVER,
            stack: 0,
            label: 0,
            dedicated: false,
        };
        let submission = Submission { flow, id: name.id, number, listed: false };
        self.flows.receive(&submission, packet_time(&self.routing, from, self.host));
        if let Some(dependents) = &mut self.dependents {
            dependents.expect(&submission);
        }
    }

    /// Records that a message has arrived completely. Dependent messages may start.
    pub fn completed(&mut self, now: Time, from: u32, number: u32) {
        self.arriving.remove(&(from, number));
        self.flows.completed(now, MessageId { src: from, id: number });
        let Some(dependents) = &mut self.dependents else { return };
        for id in self.flows.awaited.drain(..) {
            let answered = &mut self.flows.done.answered;
            dependents.arrived(id, now, answered, |next| _ = self.agenda.add(next));
        }
    }

    /// Records that the destination has the whole message.
    pub fn acked(&mut self, now: Time, number: u32) {
        self.flows.acked(now, MessageId { src: self.host, id: number });
    }

    /// Records that `bytes` of a message were retransmitted.
    pub fn resent(&mut self, number: u32, bytes: u32) {
        self.flows.resent(MessageId { src: self.host, id: number }, bytes);
    }

    /// Ends submissions. Returns the numbers of the unlimited messages, which must stop.
    pub fn close(&mut self) -> impl Iterator<Item = u32> + use<> {
        self.feed.close();
        self.agenda.close();
        if let Some(dependents) = &mut self.dependents {
            dependents.close();
        }
        std::mem::take(&mut self.endless).into_iter()
    }

    /// Number of finite messages that are not acknowledged.
    pub fn open(&self) -> u64 {
        self.flows.open()
    }

    /// All records of this host, for [`OpenRows::add`].
    pub fn leave(mut self) -> Vec<u8> {
        let (done, deliveries) = (self.flows.take_rest(), self.deliveries);
        let mut bytes = Vec::new();
        HostRecords { done, deliveries }.put(&mut bytes);
        bytes
    }
}

/// Rows of a run on hosts outside the simulator.
pub struct OpenRows {
    rows: Rows,
    routing: Routing,
    all: Done,
    deliveries: Vec<Delivery>,
}

/// Combined records of all hosts of a run.
pub struct OpenOutcome {
    /// Completed flows, by completion time, then ID.
    pub finished: Vec<FlowRecord>,
    /// Other flows, by ID.
    pub unfinished: Vec<FlowRecord>,
    /// Payload arrivals, by time.
    pub deliveries: Vec<Delivery>,
    /// Digest of the rows.
    pub digest: u64,
}

impl OpenRows {
    /// # Errors
    /// As [`OpenHost::new`].
    pub fn new(setup: Setup) -> Result<OpenRows, String> {
        let context = run_context(setup)?;
        let setup = &context.setup;
        Ok(OpenRows {
            rows: Rows::new(setup.fabric.hosts.len(), Window::of(setup)),
            routing: Routing::new(setup, context.routes),
            all: Done::default(),
            deliveries: Vec::new(),
        })
    }

    /// Path properties.
    pub fn paths(&self) -> &dyn PathOracle {
        &self.routing
    }

    /// Adds the records of a host; `false` if `seen` does not contain such records.
    pub fn add(&mut self, mut records: &[u8]) -> bool {
        let Some(mut of_host) = HostRecords::take(&mut records).filter(|_| records.is_empty())
        else {
            return false;
        };
        self.all.join(of_host.done);
        self.deliveries.append(&mut of_host.deliveries);
        true
    }

    /// Builds the rows, at the end of a run.
    pub fn finish(mut self, now: Time) -> OpenOutcome {
        let routing = &self.routing;
        self.all.expect_rest(|flow| packet_time(routing, flow.src, flow.dst));
        let (finished, unfinished, digest, _) = self.rows.take_rest(vec![self.all], now);
        self.deliveries.sort_by_key(|delivery| delivery.at);
        OpenOutcome { finished, unfinished, deliveries: self.deliveries, digest }
    }
}

/// Serialisation time of a full packet on the slowest link between two hosts.
fn packet_time(routing: &Routing, src: u32, dst: u32) -> Span {
    let Path { bottleneck_rate, full_wire_bytes, .. } = routing.path(src, dst);
    bottleneck_rate.serialise(full_wire_bytes.into())
}

/// # Errors
/// If the run needs functions that only simulated hosts have.
fn run_context(setup: Setup) -> Result<RunContext, String> {
    if setup.stacks.len() > 1 {
        return Err(
            "hosts outside the simulator support one protocol per run: configure one stack"
                .to_owned(),
        );
    }
    RunContext::of(setup)
}
