//! Messages between the processes of a run, over MPI.
//!
//! MPI receives each message at once and keeps its memory until the transmission is complete. A
//! receiver polls, and checks the interrupt flag between polls: a process that has died sends
//! nothing, and the launcher then interrupts the others. Only the main thread calls MPI.
//!
//! Without the feature `mpi` the crate is empty, so that the workspace builds without an MPI
//! library.

#![cfg(feature = "mpi")]
#![allow(
    clippy::disallowed_types,
    reason = "the wait of a failed process for the others does not affect simulations"
)]

use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mpi::Threading;
use mpi::datatype::Equivalence;
use mpi::environment::Universe;
use mpi::point_to_point::Message;
use mpi::request::{Request, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, Destination, Source};
use tidegate_sim::{Communicator, ProcessGroup, RankFailure};

/// Tag of an ordinary message.
const MESSAGE: i32 = 0;
/// Tag of a failure report: the rank, and the reason.
const GIVEN_UP: i32 = 1;

/// Polls before the thread yields.
const SPINS: u32 = 10_000;

/// Time that a failed rank waits for rank 0 to receive its report.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Setting of Open MPI's transfers within a machine. By default one process reads the memory of
/// another. Containers forbid this, and if the other process has died, the access ends both.
const OF_MEMORY: (&str, &str) = ("OMPI_MCA_btl_vader_single_copy_mechanism", "none");

/// Environment variables that show that a process was started together with others.
const STARTED: [&str; 5] =
    ["OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_SIZE", "PMI_RANK", "MV2_COMM_WORLD_SIZE"];

/// The processes of one MPI launch.
#[allow(missing_debug_implementations, reason = "a handle of a C library")]
pub struct Mpi {
    /// Ends MPI when it is dropped, which waits for all others.
    universe: Universe,
    on_this_machine: usize,
    interrupted: &'static AtomicBool,
}

/// Joins the processes that were launched together; `None` if this process runs alone or MPI
/// does not start. `interrupted` is called when there are others; the flag ends waiting for them.
pub fn join(interrupted: impl FnOnce() -> &'static AtomicBool) -> Option<Mpi> {
    // MPI is not started for a single process, because that takes longer than a short run.
    STARTED.iter().find(|name| std::env::var_os(name).is_some())?;
    if std::env::var_os(OF_MEMORY.0).is_none() {
        #[allow(unsafe_code, reason = "no other thread may read the environment meanwhile")]
        // SAFETY: the process has a single thread at this point.
        unsafe {
            std::env::set_var(OF_MEMORY.0, OF_MEMORY.1);
        }
    }
    let (universe, _) = mpi::initialize_with_threading(Threading::Funneled)?;
    let world = universe.world();
    if world.size() < 2 {
        return None;
    }
    let on_this_machine = world.split_shared(world.rank()).size() as usize;
    Some(Mpi { universe, on_this_machine, interrupted: interrupted() })
}

impl ProcessGroup for Mpi {
    fn communicator(&self) -> Box<dyn Communicator> {
        Box::new(self.line())
    }

    fn on_this_machine(&self) -> usize {
        self.on_this_machine
    }

    /// Reports to rank 0 before this process ends, because the launcher then ends all processes.
    fn abort(self: Box<Self>, lost: &RankFailure) {
        let mut line = self.line();
        let text = format!("{}\n{}", lost.rank, lost.why).into_bytes();
        let own = line.rank;
        let others = (0..line.count).filter(|&rank| rank != own);
        others.for_each(|rank| line.post(rank, GIVEN_UP, text.clone()));
        let started = Instant::now();
        let mut is_received = line.rank == 0;
        while started.elapsed() < TIMEOUT && !(is_received && line.pending.is_empty()) {
            line.reap();
            if !is_received && let Some(received) = line.look(0, &mut Vec::new()) {
                is_received = received.is_err();
            }
            thread::yield_now();
        }
        // Dropping it would wait for all other processes.
        mem::forget(self.universe);
    }

    fn leave(self: Box<Self>) {
        drop(self.universe);
    }
}

impl Mpi {
    fn line(&self) -> Line {
        let world = self.universe.world();
        Line {
            rank: world.rank() as usize,
            count: world.size() as usize,
            pending: Vec::new(),
            free: Vec::new(),
            interrupted: self.interrupted,
        }
    }
}

/// A send in progress, and the memory that MPI reads.
type Pending = (Request<'static, [u8]>, Vec<u8>);

/// The communicator to all others.
struct Line {
    rank: usize,
    count: usize,
    pending: Vec<Pending>,
    /// Memory that MPI has released.
    free: Vec<Vec<u8>>,
    interrupted: &'static AtomicBool,
}

#[allow(unsafe_code, reason = "any thread may hold requests if only one at a time uses them")]
// SAFETY: the engine that holds a line is built on its own thread before anything is sent, and used
// on the main thread.
unsafe impl Send for Line {}

impl Line {
    /// Passes a message to MPI.
    fn post(&mut self, to: usize, tag: i32, message: Vec<u8>) {
        #[allow(unsafe_code, reason = "MPI reads memory after the call that names it")]
        // SAFETY: `message` stays beside its request, unchanged, until MPI has released it. If this
        // is dropped earlier, the memory is leaked.
        let shared: &'static [u8] =
            unsafe { std::slice::from_raw_parts(message.as_ptr(), message.len()) };
        let world = SimpleCommunicator::world();
        let to = world.process_at_rank(to as i32);
        let request = to.immediate_send_with_tag(StaticScope, shared, tag);
        self.pending.push((request, message));
    }

    /// Recovers the memory that MPI has released.
    fn reap(&mut self) {
        for (request, mut message) in mem::take(&mut self.pending) {
            match request.test() {
                Ok(_) => {
                    message.clear();
                    self.free.push(message);
                }
                Err(request) => self.pending.push((request, message)),
            }
        }
    }

    /// Receives a message from `from`, if one has arrived.
    fn look(&self, from: usize, bytes: &mut Vec<u8>) -> Option<Result<(), RankFailure>> {
        let world = SimpleCommunicator::world();
        let (message, status) = world.process_at_rank(from as i32).immediate_matched_probe()?;
        bytes.resize(status.count(u8::equivalent_datatype()) as usize, 0);
        if let Err(lost) = self.read(message, bytes) {
            return Some(Err(lost));
        }
        if status.tag() == MESSAGE {
            return Some(Ok(()));
        }
        let text = String::from_utf8_lossy(bytes);
        let (rank, why) = text.split_once('\n').unwrap_or(("", &text));
        Some(Err(RankFailure { rank: rank.parse().unwrap_or(from), why: why.to_owned() }))
    }
}

impl Line {
    /// Receives the rest of a message whose beginning has arrived.
    fn read(&self, message: Message, bytes: &mut Vec<u8>) -> Result<(), RankFailure> {
        #[allow(unsafe_code, reason = "MPI writes to memory after the call that names it")]
        // SAFETY: nothing accesses `bytes` before the request completes. If it never completes,
        // they are leaked.
        let shared: &'static mut [u8] =
            unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr(), bytes.len()) };
        let mut request = message.immediate_matched_receive_into(StaticScope, shared);
        let mut rounds = 0;
        while let Err(again) = request.test() {
            request = again;
            if let Err(lost) = self.wait(&mut rounds) {
                mem::forget((request, mem::take(bytes)));
                return Err(lost);
            }
        }
        Ok(())
    }

    /// Pauses between two polls, of which there have been `rounds`.
    fn wait(&self, rounds: &mut u32) -> Result<(), RankFailure> {
        *rounds = rounds.saturating_add(1);
        if *rounds < SPINS {
            std::hint::spin_loop();
        } else if self.interrupted.load(Ordering::Relaxed) {
            return Err(RankFailure { rank: self.rank, why: "interrupted".to_owned() });
        } else {
            thread::yield_now();
        }
        Ok(())
    }
}

impl Communicator for Line {
    fn rank(&self) -> usize {
        self.rank
    }

    fn count(&self) -> usize {
        self.count
    }

    fn send(&mut self, to: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure> {
        if bytes.len() > i32::MAX as usize {
            let why = format!("a message of {} bytes is more than MPI carries", bytes.len());
            return Err(RankFailure { rank: self.rank, why });
        }
        self.reap();
        let message = mem::replace(bytes, self.free.pop().unwrap_or_default());
        self.post(to, MESSAGE, message);
        Ok(())
    }

    fn receive(&mut self, from: usize, bytes: &mut Vec<u8>) -> Result<(), RankFailure> {
        let mut rounds = 0;
        loop {
            if let Some(received) = self.look(from, bytes) {
                return received;
            }
            self.wait(&mut rounds)?;
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.pending.drain(..).for_each(mem::forget);
    }
}
