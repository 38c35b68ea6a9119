//! Closed loops: clients that send a request, wait for the reply, think, and repeat. A message of
//! open traffic that is answered is modelled as the only request of a client of its own.
//!
//! Server, sizes, thinking time and message IDs are functions of the client and its round. Only the
//! time depends on the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidegate_core::workload::{Flow, Pattern, Traffic};
use tidegate_core::{Domain, Rng, Role, Span, Time, mix64};

use crate::ids::{FIRST_DEPENDENT, step};
use crate::setup::Setup;
use crate::traffic::generate::flows_of;
use crate::traffic::submission::{AnsweredRequest, Submission};

/// Message numbers of closed loops at their host have this bit.
const NUMBER: u32 = 1 << 31;

/// Clients of a run, for the hosts of one partition.
pub(crate) struct Loops {
    setup: Arc<Setup>,
    /// By client: its block of traffic, its index in the block, and its host.
    clients: Vec<(u32, u32, u32)>,
    /// By block: messages that are answered. Each is the only request of its client.
    open: Vec<Vec<Flow>>,
    /// Submission times of the requests in flight to servers of this partition, by ID.
    requested: BTreeMap<u64, Time>,
}

/// One round of a client.
struct RequestPlan {
    server: u32,
    request_bytes: u64,
    reply_bytes: u64,
    /// Time from the reply to the next request.
    think: Span,
}

impl Loops {
    /// Returns `None` if the run has no clients.
    pub(crate) fn new(setup: &Arc<Setup>) -> Option<Loops> {
        let mut all = Vec::new();
        let mut open = Vec::new();
        for (block, traffic) in (0..).zip(&setup.workload.traffic) {
            let mut messages = Vec::new();
            match &traffic.pattern {
                Pattern::ClosedLoop { clients, .. } => {
                    all.extend((0..).zip(clients).map(|(number, &host)| (block, number, host)));
                }
                Pattern::Answered { of, .. } => {
                    let of = Traffic { pattern: (**of).clone(), ..traffic.clone() };
                    let hosts = setup.fabric.hosts.len() as u32;
                    messages = flows_of(&of, block.into(), hosts, setup.seed, setup.duration);
                    all.extend((0..).zip(&messages).map(|(number, of)| (block, number, of.src)));
                }
                _ => {}
            }
            open.push(messages);
        }
        (!all.is_empty()).then(|| Loops {
            setup: setup.clone(),
            clients: all,
            open,
            requested: BTreeMap::new(),
        })
    }

    /// The first request of every client for which `is_here` returns true.
    pub(crate) fn first(&self, is_here: impl Fn(u32) -> bool) -> Vec<Submission> {
        let clients = (0..).zip(&self.clients).filter(|&(_, &(.., host))| is_here(host));
        let start = |client| self.message(client).map_or(self.block(client).start, |of| of.start);
        clients.map(|(client, _)| self.request(client, 0, start(client))).collect()
    }

    /// Registers a message that is about to arrive here.
    pub(crate) fn expect(&mut self, submission: &Submission) {
        if let Some((.., false)) = self.exchange(submission.id) {
            self.requested.insert(submission.id, submission.flow.start);
        }
    }

    /// Returns the message that follows the arrival of a message at `now`: the reply to a request,
    /// which is also added to `answered`, or the client's next request.
    pub(crate) fn arrived(
        &mut self,
        id: u64,
        now: Time,
        answered: &mut Vec<AnsweredRequest>,
    ) -> Option<Submission> {
        let (client, round, is_reply) = self.exchange(id)?;
        if is_reply {
            if self.message(client).is_some() {
                return None;
            }
            let next = now.after(self.plan(client, round).think);
            let continues = next < self.block(client).stop;
            return continues.then(|| self.request(client, round + 1, next));
        }
        let at = self.requested.remove(&id)?;
        let reply = self.reply(client, round, now);
        answered.push(AnsweredRequest { id: reply.id, at, label: self.block(client).label });
        Some(reply)
    }

    /// Role of the message with this ID for its sender and receiver.
    pub(crate) fn role(&self, id: u64) -> Role {
        match self.exchange(id) {
            None => Role::Alone,
            Some((.., false)) => Role::Request,
            Some((client, round, true)) => {
                Role::Reply { request: number(self.position(client, round)) }
            }
        }
    }

    fn request(&self, client: u64, round: u64, start: Time) -> Submission {
        let (block, host) = (self.block(client), self.clients[client as usize].2);
        let RequestPlan { server, request_bytes, .. } = self.plan(client, round);
        let flow = Flow { src: host, dst: server, bytes: request_bytes, ..template(block, start) };
        self.submission(client, round, false, flow)
    }

    fn reply(&self, client: u64, round: u64, start: Time) -> Submission {
        let (block, host) = (self.block(client), self.clients[client as usize].2);
        let RequestPlan { server, reply_bytes, .. } = self.plan(client, round);
        let flow = Flow { src: server, dst: host, bytes: reply_bytes, ..template(block, start) };
        let label = match block.pattern {
            Pattern::ClosedLoop { reply_label, .. } | Pattern::Answered { reply_label, .. } => {
                reply_label
            }
            _ => block.label,
        };
        self.submission(client, round, true, Flow { label, ..flow })
    }

    /// IDs rise with the rounds of a client. No two messages in flight have the same number.
    fn submission(&self, client: u64, round: u64, is_reply: bool, flow: Flow) -> Submission {
        let position = self.position(client, round) + u64::from(is_reply);
        let hosts = self.setup.fabric.hosts.len() as u32;
        let listed = self.block(client).messages(hosts).is_some();
        Submission { flow, id: FIRST_DEPENDENT + position, number: number(position), listed }
    }

    /// Position of a request among the messages of all loops. The reply has the next position.
    fn position(&self, client: u64, round: u64) -> u64 {
        2 * (round * self.clients.len() as u64 + client)
    }

    /// Client, round, and whether it is a reply, of the message with this ID; `None` if it belongs
    /// to no loop.
    fn exchange(&self, id: u64) -> Option<(u64, u64, bool)> {
        let position = id.checked_sub(FIRST_DEPENDENT).filter(|_| step(id).is_none())?;
        let clients = self.clients.len() as u64;
        Some((position / 2 % clients, position / 2 / clients, position % 2 == 1))
    }

    fn block(&self, client: u64) -> &Traffic {
        &self.setup.workload.traffic[self.clients[client as usize].0 as usize]
    }

    /// The only message of a client of open traffic.
    fn message(&self, client: u64) -> Option<&Flow> {
        let (block, number, _) = self.clients[client as usize];
        self.open[block as usize].get(number as usize)
    }

    /// Draws from a stream per client and round, so every partition gets the same plan.
    fn plan(&self, client: u64, round: u64) -> RequestPlan {
        let (block, number, host) = self.clients[client as usize];
        let entity = mix64(u64::from(block) << 32 | u64::from(number)).wrapping_add(round);
        let mut rng = Rng::stream(self.setup.seed, Domain::Loops, entity);
        let traffic = self.block(client);
        if let (Pattern::Answered { replies, .. }, Some(&Flow { dst, bytes, .. })) =
            (&traffic.pattern, self.message(client))
        {
            let (reply_bytes, think) = (replies.draw(&mut rng), Span::ZERO);
            return RequestPlan { server: dst, request_bytes: bytes, reply_bytes, think };
        }
        let Pattern::ClosedLoop { servers, replies, think, exponential, .. } = &traffic.pattern
        else {
            unreachable!("clients belong to closed loops or answered messages")
        };
        let server = loop {
            let server = servers[rng.below(servers.len() as u64) as usize];
            if server != host {
                break server;
            }
        };
        let request_bytes = traffic.sizes.draw(&mut rng);
        let reply_bytes = replies.draw(&mut rng);
        let think = if *exponential { think.scale(rng.exponential()) } else { *think };
        RequestPlan { server, request_bytes, reply_bytes, think }
    }
}

/// Number of the message with this position at its host.
fn number(position: u64) -> u32 {
    NUMBER | position as u32
}

fn template(block: &Traffic, start: Time) -> Flow {
    Flow {
        src: 0,
        dst: 0,
        bytes: 0,
        start,
        stop: Time::NEVER,
        stack: block.stack,
        label: block.label,
        dedicated: false,
    }
}
