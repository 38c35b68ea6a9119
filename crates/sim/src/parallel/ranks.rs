//! A run in several processes.
//!
//! All processes have the same setup, and each simulates some of the partitions on threads. Every
//! process draws all flows for itself, so none has to be sent. Windows work as between threads:
//! every process computes the end of a window from the same combined state. Only rank 0 has a
//! caller. It sends the other ranks each operation in advance as an [`Order`], and they execute it,
//! until an order to finish. Ranks cannot diverge, because only rank 0 decides.
//!
//! In a window each rank sends one message to every other rank: its window state, and the packets
//! that cross between the two.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use tidegate_core::Time;

use crate::bytes::{Bytes, bytes};
use crate::parallel::boundary_exchange::WindowState;
use crate::parallel::communicator::{Communicator, RankFailure};
use crate::parallel::process_partitions::ProcessPartitions;
use crate::parallel::reports::Completions;
use crate::partition::Mailbox;
use crate::traffic::flows::Done;

/// Operation that rank 0 is about to execute, and that the other ranks execute with it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order {
    /// Advance to a time, or until this much work is done.
    Advance(Time, u64),
    /// Collect rows. The report is [`Completions`].
    Rows,
    /// Sample. The report is [`Snapshot`](crate::parallel::reports::Snapshot).
    Sample,
    /// Detect deadlocks. The report is [`Waits`](crate::ports::deadlock::Waits).
    DetectDeadlocks,
    /// Finish. The report is [`FinalState`](crate::parallel::reports::FinalState).
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
            Order::DetectDeadlocks => 3u8.put(to),
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
            3 => Order::DetectDeadlocks,
            4 => Order::Finish,
            _ => return None,
        })
    }
}

bytes! {
    WindowState { next, work, open, listed_done, known }
}

/// Buffers that the threads of a rank share for the exchange with other ranks. A barrier precedes
/// and follows each exchange, so no thread waits for these locks.
pub(crate) struct RankBoundary {
    process: ProcessPartitions,
    /// By rank and local partition: packets to each partition of that rank, each block preceded by
    /// its length.
    out: Vec<Mutex<Vec<u8>>>,
    /// By rank: its last message.
    into: Vec<RwLock<Vec<u8>>>,
    /// Combined state of all ranks.
    state: Mutex<Result<WindowState, RankFailure>>,
}

impl RankBoundary {
    pub(crate) fn new(process: ProcessPartitions) -> RankBoundary {
        RankBoundary {
            process,
            out: (0..process.ranks * process.partitions).map(|_| Mutex::default()).collect(),
            into: (0..process.ranks).map(|_| RwLock::default()).collect(),
            state: Mutex::new(Ok(WindowState::default())),
        }
    }

    fn out(&self, rank: usize, partition: usize) -> MutexGuard<'_, Vec<u8>> {
        let index = rank * self.process.partitions + partition;
        self.out[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Packs the packets that partition `from` of this rank has for the partitions of other ranks.
    pub(crate) fn pack<'a>(&self, from: usize, mail: impl Fn(usize) -> MutexGuard<'a, Mailbox>) {
        for rank in self.process.others() {
            let mut out = self.out(rank, from);
            for partition in self.process.partitions_of(rank) {
                let start = out.len();
                0u64.put(&mut out);
                mail(partition).write(&mut out);
                let length = (out.len() - start - size_of::<u64>()) as u64;
                out[start..][..size_of::<u64>()].copy_from_slice(&length.to_le_bytes());
            }
        }
    }

    /// Sends the packed packets and this rank's state to all other ranks, and waits for their
    /// messages.
    pub(crate) fn exchange(&self, communicator: &mut dyn Communicator, own: WindowState) {
        let state = self.try_exchange(communicator, own);
        *self.state.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    fn try_exchange(
        &self,
        communicator: &mut dyn Communicator,
        own: WindowState,
    ) -> Result<WindowState, RankFailure> {
        let mut message = Vec::new();
        for rank in self.process.others() {
            own.put(&mut message);
            for partition in 0..self.process.partitions {
                message.append(&mut self.out(rank, partition));
            }
            communicator.send(rank, &mut message)?;
        }
        let mut all = own;
        for rank in self.process.others() {
            let mut into = self.into[rank].write().unwrap_or_else(PoisonError::into_inner);
            communicator.receive(rank, &mut into)?;
            all = all.with(&WindowState::take(&mut &into[..]).ok_or(RankFailure::unread(rank))?);
        }
        Ok(all)
    }

    /// Combined state of all ranks.
    pub(crate) fn state(&self) -> Result<WindowState, RankFailure> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds to `mail` what other ranks have sent to the partition `to` of this rank.
    pub(crate) fn unpack(&self, to: usize, mail: &mut Mailbox) -> Result<(), RankFailure> {
        for rank in self.process.others() {
            let into = self.into[rank].read().unwrap_or_else(PoisonError::into_inner);
            self.unpack_from(&into, to, mail).ok_or(RankFailure::unread(rank))?;
        }
        Ok(())
    }

    fn unpack_from(&self, mut message: &[u8], to: usize, mail: &mut Mailbox) -> Option<()> {
        WindowState::take(&mut message)?;
        for section in 0..self.process.partitions * self.process.partitions {
            let length = u64::take(&mut message)? as usize;
            let (packets, rest) = message.split_at_checked(length)?;
            message = rest;
            if section % self.process.partitions == to {
                mail.read(packets)?;
            }
        }
        message.is_empty().then_some(())
    }
}

/// Connection of this process to the other processes of a run.
pub(crate) struct Ranks {
    pub(crate) communicator: Box<dyn Communicator>,
    pub(crate) boundary: RankBoundary,
    buffer: Vec<u8>,
    /// Packet-hops of the other ranks when rows were last collected.
    pub(crate) packet_hops: u64,
}

impl Ranks {
    pub(crate) fn new(communicator: Box<dyn Communicator>, process: ProcessPartitions) -> Ranks {
        Ranks {
            communicator,
            boundary: RankBoundary::new(process),
            buffer: Vec::new(),
            packet_hops: 0,
        }
    }

    /// Sends an order to all other ranks. Only rank 0 does this.
    pub(crate) fn order(&mut self, order: Order) -> Result<(), RankFailure> {
        for rank in self.boundary.process.others() {
            self.send(rank, &order)?;
        }
        Ok(())
    }

    /// Waits for the next order of rank 0.
    pub(crate) fn next_order(&mut self) -> Result<Order, RankFailure> {
        self.receive(0)
    }

    /// Sends a report to rank 0.
    pub(crate) fn report(&mut self, report: &impl Bytes) -> Result<(), RankFailure> {
        self.send(0, report)
    }

    /// Receives the reports of all other ranks, in order of rank.
    pub(crate) fn collect_reports<T: Bytes>(
        &mut self,
        mut each: impl FnMut(T),
    ) -> Result<(), RankFailure> {
        for rank in self.boundary.process.others() {
            each(self.receive(rank)?);
        }
        Ok(())
    }

    /// Flow ends that are done on the other ranks.
    pub(crate) fn ended(&mut self) -> Result<Vec<Done>, RankFailure> {
        let (mut done, mut packet_hops) = (Vec::new(), 0);
        self.collect_reports(|ended: Completions| {
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
