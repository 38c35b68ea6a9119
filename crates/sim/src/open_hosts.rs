//! The messages of a run at hosts that are not simulated: what each of them is to send and when,
//! and what becomes of that.
//!
//! Every host draws all flows for itself, as parts of a run do, so that none has to be told; what
//! waits for arrivals is told by the same code, too. What hosts have seen goes to one place as
//! bytes, where it becomes the rows of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_core::workload::Flow;
use tidegate_core::{HostContext, Message, MessageId, Path, PathOracle, Span, Time};

use crate::agenda::{Action, Agenda};
use crate::bytes::{Bytes, bytes};
use crate::dependents::Dependents;
use crate::engine::Ground;
use crate::feed::Feed;
use crate::flows::{Done, Flows, Rows, Submission};
use crate::outcome::FlowRecord;
use crate::partition::context;
use crate::routing::Routing;
use crate::setup::Setup;

/// What the bytes of a message begin with, so that its destination knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Name {
    /// As [`FlowRecord::id`].
    id: u64,
    /// When it was submitted.
    start: Time,
    bytes: u64,
}

/// Bytes of a name.
pub const NAME_BYTES: usize = 24;

/// Payload that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When.
    pub at: Time,
    /// Of which flow.
    pub flow: u64,
    /// How much.
    pub bytes: u32,
}

/// All that one host has seen.
#[derive(Default)]
struct Seen {
    done: Done,
    deliveries: Vec<Delivery>,
}

bytes! {
    Name { id, start, bytes }
    Delivery { at, flow, bytes }
    Seen { done, deliveries }
}

/// What a host does now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAction {
    /// It sends a message.
    Send(MessageStart),
    /// A message without end, that it calls by this number, stops.
    Stop(u32),
}

/// A message that a host sends now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageStart {
    /// To which host.
    pub to: u32,
    /// Payload, its name included; [`Message::UNLIMITED`] where it does not end by itself.
    pub bytes: u64,
    /// What its bytes have to begin with.
    pub name: [u8; NAME_BYTES],
    /// What it counts among others.
    pub weight: u8,
    /// It has a connection of its own.
    pub dedicated: bool,
    /// What it is called here until it is acknowledged.
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
    /// Messages submitted here.
    begun: u32,
    /// Those that do not end by themselves and go on.
    endless: BTreeSet<u32>,
    /// By sender and its number: messages that are arriving, and what of them has before their
    /// names.
    arriving: BTreeMap<(u32, u32), Arriving>,
    deliveries: Vec<Delivery>,
}

/// A message that is arriving.
#[derive(Clone, Default)]
struct Arriving {
    /// What has overtaken its name: when, and how many bytes.
    early: Vec<(Time, u32)>,
    name: Option<Name>,
}

impl OpenHost {
    /// # Errors
    /// What no host but a simulated one can do, and what [`Engine::new`](crate::Engine::new)
    /// refuses.
    pub fn new(setup: Setup, host: u32) -> Result<OpenHost, String> {
        let ground = ground(setup)?;
        let setup = ground.setup.clone();
        let hosts = setup.fabric.hosts.len();
        let partitions: Vec<u32> = (0..hosts as u32).collect();
        let mut dependents = Dependents::new(&setup, &partitions, host);
        let mut agenda = Agenda::default();
        for turn in
            dependents.iter_mut().flat_map(|dependents| dependents.first(|other| other == host))
        {
            agenda.start_dependent(turn);
        }
        Ok(OpenHost {
            host,
            routing: Routing::new(&setup, ground.routes),
            feed: Feed::new(&setup, partitions),
            agenda,
            dependents,
            flows: Flows::new(hosts, setup.measured(), setup.fabric.mtu),
            begun: 0,
            endless: BTreeSet::new(),
            arriving: BTreeMap::new(),
            deliveries: Vec::new(),
            setup,
        })
    }

    /// What a simulated host would be told.
    pub fn context(&self) -> HostContext {
        context(&self.setup, &self.routing, self.host)
    }

    /// What paths look like.
    pub fn paths(&self) -> &dyn PathOracle {
        &self.routing
    }

    /// When the next message is to begin, or to ask again.
    pub fn next_at(&self) -> Time {
        let unknown = self.feed.known();
        let look = if unknown == Time::NEVER { unknown } else { unknown.after(Span::ps(1)) };
        self.agenda.next_at().min(look)
    }

    /// What is to be done by `now`.
    pub fn next(&mut self, now: Time) -> Option<HostAction> {
        let (feed, agenda, host) = (&mut self.feed, &mut self.agenda, self.host);
        while feed.known() < now {
            feed.hand_out(now, |to, submission| {
                if to == host && submission.flow.src == host {
                    agenda.submit(submission);
                }
            });
        }
        let submission = match self.agenda.take(now)? {
            Action::Submit(submission) => submission,
            Action::Stop(number) => {
                self.endless.remove(&number);
                return Some(HostAction::Stop(number));
            }
        };
        let Submission { flow, id, .. } = submission;
        let unlimited = flow.bytes == Message::UNLIMITED;
        let ideal = match unlimited {
            true => Span::ZERO,
            false => self.routing.ideal(flow.src, flow.dst, flow.bytes),
        };
        let number = self.begun;
        self.begun = self.begun.wrapping_add(1);
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
            // As long as a name is.
            name: name.try_into().unwrap_or([0; NAME_BYTES]),
            weight: self.setup.weights.get(usize::from(flow.label)).copied().unwrap_or(1),
            dedicated: flow.dedicated,
            number,
        }))
    }

    /// A piece of a message has arrived, which its sender calls `number`; false where it cannot be
    /// of this run.
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
        // What is shorter than a name was sent longer.
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

    /// All of a message has arrived: others may begin.
    pub fn completed(&mut self, now: Time, from: u32, number: u32) {
        self.arriving.remove(&(from, number));
        self.flows.completed(now, MessageId { src: from, id: number });
        let Some(dependents) = &mut self.dependents else { return };
        for id in self.flows.awaited.drain(..) {
            let asked = &mut self.flows.done.asked;
            dependents.arrived(id, now, asked, |next| self.agenda.start_dependent(next));
        }
    }

    /// The destination has all of the message.
    pub fn acked(&mut self, now: Time, number: u32) {
        self.flows.acked(now, MessageId { src: self.host, id: number });
    }

    /// So much of a message was sent again.
    pub fn resent(&mut self, number: u32, bytes: u32) {
        self.flows.resent(MessageId { src: self.host, id: number }, bytes);
    }

    /// No more messages begin; those that do not end by themselves stop, by number.
    pub fn close(&mut self) -> impl Iterator<Item = u32> + use<> {
        self.feed.close();
        self.agenda.close();
        if let Some(dependents) = &mut self.dependents {
            dependents.close();
        }
        std::mem::take(&mut self.endless).into_iter()
    }

    /// Messages that end by themselves and are not acknowledged.
    pub fn open(&self) -> u64 {
        self.flows.open()
    }

    /// All that was seen here, for [`OpenRows::add`].
    pub fn leave(mut self) -> Vec<u8> {
        let (done, deliveries) = (self.flows.take_rest(), self.deliveries);
        let mut bytes = Vec::new();
        Seen { done, deliveries }.put(&mut bytes);
        bytes
    }
}

/// The rows of a run that nobody has simulated.
pub struct OpenRows {
    rows: Rows,
    routing: Routing,
    all: Done,
    deliveries: Vec<Delivery>,
}

/// What the hosts of a run have seen, all together.
pub struct OpenOutcome {
    /// Flows that have finished, by completion, then id.
    pub finished: Vec<FlowRecord>,
    /// Others, by id.
    pub unfinished: Vec<FlowRecord>,
    /// Payload as it has arrived, by time.
    pub deliveries: Vec<Delivery>,
    /// Of the rows.
    pub digest: u64,
}

impl OpenRows {
    /// # Errors
    /// As [`OpenHost::new`].
    pub fn new(setup: Setup) -> Result<OpenRows, String> {
        let ground = ground(setup)?;
        let setup = &ground.setup;
        Ok(OpenRows {
            rows: Rows::new(setup.fabric.hosts.len(), setup.measured()),
            routing: Routing::new(setup, ground.routes),
            all: Done::default(),
            deliveries: Vec::new(),
        })
    }

    /// What paths look like.
    pub fn paths(&self) -> &dyn PathOracle {
        &self.routing
    }

    /// Takes what a host has seen; false where that is not it.
    pub fn add(&mut self, mut seen: &[u8]) -> bool {
        let Some(mut of_host) = Seen::take(&mut seen).filter(|_| seen.is_empty()) else {
            return false;
        };
        self.all.join(of_host.done);
        self.deliveries.append(&mut of_host.deliveries);
        true
    }

    /// Makes rows of all, at the end of a run.
    pub fn finish(mut self, now: Time) -> OpenOutcome {
        let routing = &self.routing;
        self.all.expect_rest(|flow| packet_time(routing, flow.src, flow.dst));
        let (finished, unfinished, digest, _) = self.rows.take_rest(vec![self.all], now);
        self.deliveries.sort_by_key(|delivery| delivery.at);
        OpenOutcome { finished, unfinished, deliveries: self.deliveries, digest }
    }
}

/// What a full packet takes on the slowest link between two hosts.
fn packet_time(routing: &Routing, src: u32, dst: u32) -> Span {
    let Path { bottleneck_rate, full_wire_bytes, .. } = routing.path(src, dst);
    bottleneck_rate.serialise(full_wire_bytes.into())
}

/// # Errors
/// What only a simulated host can do.
fn ground(setup: Setup) -> Result<Ground, String> {
    if setup.stacks.len() > 1 {
        return Err("several protocols side by side; hosts that are real have one".to_owned());
    }
    Ground::of(setup)
}
