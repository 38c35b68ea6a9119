//! A run in several processes.
//!
//! All have the same setup, and each has some of the partitions: builds them, runs them on threads,
//! and draws all flows for itself, so that none has to be sent. Windows are as between threads:
//! where one ends follows from figures that all have heard. Rank 0 alone is asked for anything. It
//! tells the others what it is about to do, in an [`Order`], and they do the same until they have
//! finished: nobody can get out of step, for nobody else decides.
//!
//! In a window each rank sends one message to each other: its figures, and the packets that cross
//! between the two.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tidegate_core::Time;

use crate::boundary_exchange::WindowState;
use crate::bytes::{Bytes, bytes};
use crate::communicator::{Communicator, RankFailure};
use crate::flows::Done;
use crate::partition::Mailbox;
use crate::reports::Completions;

/// What rank 0 is about to do, and the others are to do with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Advance: until then, and for so much work.
    Advance(Time, u64),
    /// Collect rows: an answer is [`Completions`].
    Rows,
    /// Sample: an answer is [`Snapshot`](crate::told::Snapshot).
    Sample,
    /// Look for ports that wait for each other: an answer is [`Waits`](crate::deadlock::Waits).
    Look,
    /// Finish: an answer is [`FinalState`](crate::told::FinalState).
    Finish,
}

impl Bytes for Order {
    fn put(&self, to: &mut Vec<u8>) {
        match *self {
            Order::Advance(until, work) => {
                0u8.put(to);
                (until, work).put(to);
            }
            Order::Rows => 1u8.put(to),
            Order::Sample => 2u8.put(to),
            Order::Look => 3u8.put(to),
            Order::Finish => 4u8.put(to),
        }
    }
    fn take(from: &mut &[u8]) -> Option<Order> {
        Some(match u8::take(from)? {
            0 => {
                let (until, work) = Bytes::take(from)?;
                Order::Advance(until, work)
            }
            1 => Order::Rows,
            2 => Order::Sample,
            3 => Order::Look,
            4 => Order::Finish,
            _ => return None,
        })
    }
}

bytes! {
    WindowState { next, work, open, listed_done, known }
}

/// Where the partitions of this process are among all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) rank: usize,
    pub(crate) ranks: usize,
    /// How many every rank has.
    pub(crate) partitions: usize,
}

impl Place {
    /// All parts are here.
    pub(crate) fn alone(partitions: usize) -> Place {
        Place { rank: 0, ranks: 1, partitions }
    }

    /// The first of them.
    pub(crate) fn first(&self) -> u32 {
        (self.rank * self.partitions) as u32
    }

    /// What this process calls a partition; beyond its parts where that is elsewhere.
    pub(crate) fn here(&self, partition: u32) -> usize {
        (partition as usize).wrapping_sub(self.first() as usize)
    }

    /// What all call the partitions of `rank`.
    pub(crate) fn partitions_of(&self, rank: usize) -> std::ops::Range<usize> {
        rank * self.partitions..(rank + 1) * self.partitions
    }

    /// All other ranks.
    fn others(&self) -> impl Iterator<Item = usize> + use<> {
        let own = self.rank;
        (0..self.ranks).filter(move |&rank| rank != own)
    }
}

/// What the threads of a rank share of its trade with others. They meet before and after that, so
/// that nobody waits for these locks.
pub(crate) struct RankBoundary {
    place: Place,
    /// By rank and part: packets to each of that rank's parts, each behind their length.
    out: Vec<Mutex<Vec<u8>>>,
    /// By rank: what it has sent.
    into: Vec<RwLock<Vec<u8>>>,
    /// What all ranks have told.
    state: Mutex<Result<WindowState, RankFailure>>,
}

impl RankBoundary {
    pub(crate) fn new(place: Place) -> RankBoundary {
        RankBoundary {
            place,
            out: (0..place.ranks * place.partitions).map(|_| Mutex::default()).collect(),
            into: (0..place.ranks).map(|_| RwLock::default()).collect(),
            state: Mutex::new(Ok(WindowState::default())),
        }
    }

    fn out(&self, rank: usize, partition: usize) -> MutexGuard<'_, Vec<u8>> {
        let place = rank * self.place.partitions + partition;
        self.out[place].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packs what the partition `from` of this rank has for the partitions of others.
    pub(crate) fn pack<'a>(&self, from: usize, mail: impl Fn(usize) -> MutexGuard<'a, Mailbox>) {
        for rank in self.place.others() {
            let mut out = self.out(rank, from);
            for partition in self.place.partitions_of(rank) {
                let start = out.len();
                0u64.put(&mut out);
                mail(partition).write(&mut out);
                let length = (out.len() - start - size_of::<u64>()) as u64;
                out[start..][..size_of::<u64>()].copy_from_slice(&length.to_le_bytes());
            }
        }
    }

    /// Sends what is packed and what this rank has to tell, and waits for the same of all others.
    pub(crate) fn trade(&self, communicator: &mut dyn Communicator, own: WindowState) {
        let state = self.try_trade(communicator, own);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn try_trade(
        &self,
        communicator: &mut dyn Communicator,
        own: WindowState,
    ) -> Result<WindowState, RankFailure> {
        let mut message = Vec::new();
        for rank in self.place.others() {
            own.put(&mut message);
            for partition in 0..self.place.partitions {
                message.append(&mut self.out(rank, partition));
            }
            communicator.send(rank, &mut message)?;
        }
        let mut all = own;
        for rank in self.place.others() {
            let mut into = self.into[rank].write().unwrap_or_else(PoisonError::into_inner);
            communicator.receive(rank, &mut into)?;
            all = all.with(&WindowState::take(&mut &into[..]).ok_or(RankFailure::unread(rank))?);
        }
        Ok(all)
    }

    /// What all ranks have told.
    pub(crate) fn state(&self) -> Result<WindowState, RankFailure> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds to `mail` what other ranks have sent to the partition `to` of this one.
    pub(crate) fn unpack(&self, to: usize, mail: &mut Mailbox) -> Result<(), RankFailure> {
        for rank in self.place.others() {
            let into = self.into[rank].read().unwrap_or_else(PoisonError::into_inner);
            self.unpack_from(&into, to, mail).ok_or(RankFailure::unread(rank))?;
        }
        Ok(())
    }

    fn unpack_from(&self, mut message: &[u8], to: usize, mail: &mut Mailbox) -> Option<()> {
        WindowState::take(&mut message)?;
        for section in 0..self.place.partitions * self.place.partitions {
            let length = u64::take(&mut message)? as usize;
            let (packets, rest) = message.split_at_checked(length)?;
            message = rest;
            if section % self.place.partitions == to {
                mail.read(packets)?;
            }
        }
        message.is_empty().then_some(())
    }
}

/// The other processes of a run, as this one deals with them.
pub(crate) struct Ranks {
    pub(crate) communicator: Box<dyn Communicator>,
    pub(crate) boundary: RankBoundary,
    buffer: Vec<u8>,
    /// Packet-hops of the others, as of the last rows.
    pub(crate) packet_hops: u64,
}

impl Ranks {
    pub(crate) fn new(communicator: Box<dyn Communicator>, place: Place) -> Ranks {
        Ranks {
            communicator,
            boundary: RankBoundary::new(place),
            buffer: Vec::new(),
            packet_hops: 0,
        }
    }

    /// Tells the others what this rank, which is 0, is about to do.
    pub(crate) fn order(&mut self, order: Order) -> Result<(), RankFailure> {
        for rank in self.boundary.place.others() {
            self.send(rank, &order)?;
        }
        Ok(())
    }

    /// Waits for what rank 0 is about to do.
    pub(crate) fn next_order(&mut self) -> Result<Order, RankFailure> {
        self.receive(0)
    }

    /// Answers rank 0.
    pub(crate) fn answer(&mut self, answer: &impl Bytes) -> Result<(), RankFailure> {
        self.send(0, answer)
    }

    /// Takes the answers of all others, in their order.
    pub(crate) fn answers<T: Bytes>(&mut self, mut each: impl FnMut(T)) -> Result<(), RankFailure> {
        for rank in self.boundary.place.others() {
            each(self.receive(rank)?);
        }
        Ok(())
    }

    /// The ends that are done on the other ranks.
    pub(crate) fn ended(&mut self) -> Result<Vec<Done>, RankFailure> {
        let (mut done, mut packet_hops) = (Vec::new(), 0);
        self.answers(|ended: Completions| {
            done.extend(ended.done);
            packet_hops += ended.packet_hops;
        })?;
        self.packet_hops = packet_hops;
        Ok(done)
    }

    fn send(&mut self, to: usize, what: &impl Bytes) -> Result<(), RankFailure> {
        what.put(&mut self.buffer);
        self.communicator.send(to, &mut self.buffer)
    }

    fn receive<T: Bytes>(&mut self, from: usize) -> Result<T, RankFailure> {
        let mut bytes = Vec::new();
        self.communicator.receive(from, &mut bytes)?;
        let mut rest = &bytes[..];
        T::take(&mut rest).filter(|_| rest.is_empty()).ok_or(RankFailure::unread(from))
    }
}
