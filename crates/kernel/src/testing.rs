//! The laws as native functions, for tests.

#![allow(unsafe_code, reason = "calls of C functions")]

use crate::Params;

/// The program that runs a [`Step`] in the kernel. It has one map, `steps`, of one step.
pub static STEP_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/step.bpf.o"));

/// The stamping programs with a program `probe`, which stamps a packet with the delay in its mark
/// and the queue in its priority.
pub static PROBE_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probe.bpf.o"));

/// Programs `forward` and `backward` for the data packets and the acknowledgements of a connection:
/// faults of the path. Their maps are `fault` and `seen`.
pub static FAULT_PROGRAM: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/fault.bpf.o"));

/// Words of the state of a law.
const STATE: usize = 25;
/// Words of an acknowledgement, with three hop records, new losses and the kernel's state.
const ACK: usize = 6 + 3 * 4 + 2;

/// `struct tg_step` in `bpf/step.h`: one call of one function.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Step {
    pub op: u64,
    pub a: u64,
    pub b: u64,
    pub by: u64,
    pub out: u64,
    pub params: Params,
    pub state: [u64; STATE],
    pub ack: [u64; ACK],
    pub loss: [u64; 3],
}

unsafe extern "C" {
    fn tg_native_step(step: *mut Step);
    fn tg_native_size() -> std::ffi::c_ulong;
    fn tg_native_table(which: u32, at: u32) -> u32;
    fn tg_native_queue_size() -> std::ffi::c_ulong;
    fn tg_native_join(queue: *mut u64, time: u64, length: u64);
    fn tg_native_behind(queue: *mut u64, time: u64, length: u64) -> u64;
}

/// `struct tg_queue` in `bpf/ring.h`.
#[derive(Clone, Debug)]
pub struct Ring(Box<[u64]>);

impl Default for Ring {
    /// A queue that no packet has joined.
    fn default() -> Ring {
        // SAFETY: a plain function of C.
        let bytes = unsafe { tg_native_queue_size() } as usize;
        Ring(vec![0; bytes / size_of::<u64>()].into())
    }
}

impl Ring {
    /// A packet joins.
    pub fn join(&mut self, time: u64, length: u64) {
        // SAFETY: the memory has the size of the structure, which consists of words.
        unsafe { tg_native_join(self.0.as_mut_ptr(), time, length) }
    }

    /// Bytes behind the packet that joined at `time`.
    pub fn behind(&mut self, time: u64, length: u64) -> u64 {
        // SAFETY: the same.
        unsafe { tg_native_behind(self.0.as_mut_ptr(), time, length) }
    }
}

impl Step {
    /// Operations of `bpf/step.h`.
    pub const MUL_SHIFT: u64 = 0;
    /// Division of shifted numbers.
    pub const DIV_SHIFT: u64 = 1;
    /// Logarithm.
    pub const LOG2: u64 = 2;
    /// Exponential.
    pub const EXP2: u64 = 3;
    /// Code of a delay in the option.
    pub const DELAY_CODE: u64 = 4;
    /// Delay of a code.
    pub const DELAY_NS: u64 = 5;
    /// Fields of a hop record.
    pub const RECORD: u64 = 6;
    /// Whether a sequence number follows another one.
    pub const IS_LATER: u64 = 7;
    /// Whether a change of the kernel's state is a loss.
    pub const IS_LOSS: u64 = 8;
    /// First of a law's operations: start, acknowledgement, loss.
    pub const POSEIDON: u64 = 16;
    /// The same.
    pub const SWIFT: u64 = 32;
    /// The same.
    pub const POWERTCP: u64 = 48;
    /// The same.
    pub const THETA: u64 = 64;
    /// The same, of PowerTCP with acknowledgements that may lack records.
    pub const POWERTCP_FLOW: u64 = 80;

    /// Bytes of a step.
    pub const BYTES: usize = size_of::<Step>();

    /// Runs it natively.
    pub fn run(&mut self) {
        // SAFETY: the C function writes only inside the structure, whose size is compared.
        unsafe {
            assert_eq!(tg_native_size() as usize, Step::BYTES);
            tg_native_step(self);
        }
    }

    /// All words, in order.
    fn words(&self) -> impl Iterator<Item = u64> {
        let first = [self.op, self.a, self.b, self.by, self.out];
        first.into_iter().chain(self.params).chain(self.state).chain(self.ack).chain(self.loss)
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words().flat_map(u64::to_ne_bytes).collect()
    }
}

/// An entry of the table of logarithms (0) or exponentials (1), at most at 256.
pub fn native_table(which: u32, at: u32) -> u32 {
    assert!(at <= 256);
    // SAFETY: the tables have 257 entries.
    unsafe { tg_native_table(which, at) }
}
