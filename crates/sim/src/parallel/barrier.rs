//! Barrier of the threads of one process.
//!
//! A window takes some ten microseconds, so a thread first waits busily. A thread that waits longer
//! sleeps: the thread that it waits for may need its core. With more threads than cores it does, so
//! threads sleep at once. Only sleeping threads cost a system call.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Condvar, LazyLock, Mutex, PoisonError};
use std::thread::available_parallelism;

/// Rounds of busy waiting before a thread sleeps: 40 to 300 us, more than most windows differ.
const SPINS: u32 = 4_000;

/// Cores of this process; unlimited if the system does not report them.
static CORES: LazyLock<usize> =
    LazyLock::new(|| available_parallelism().map_or(usize::MAX, usize::from));

#[derive(Default)]
pub(crate) struct Barrier {
    arrived: AtomicUsize,
    /// Times that all threads have arrived, wrapping.
    passed: AtomicUsize,
    /// A thread changes it while it holds `lock`.
    sleeping: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
    /// A thread has panicked: the others must not wait for it.
    broken: AtomicBool,
}

impl Barrier {
    /// Waits until all `threads` have arrived. Their earlier writes are visible afterwards.
    ///
    /// # Panics
    /// If another thread has panicked.
    pub(crate) fn wait(&self, threads: usize) {
        let passed = self.passed.load(Acquire);
        if self.arrived.fetch_add(1, AcqRel) + 1 == threads {
            self.arrived.store(0, Relaxed);
            // Either this thread finds the sleeping one, or that one finds the barrier passed:
            // each first writes and then reads, in one order of all such operations.
            self.passed.store(passed.wrapping_add(1), SeqCst);
            self.wake_all();
            return;
        }
        let is_over = || {
            assert!(!self.broken.load(SeqCst), "another thread of the run has panicked");
            self.passed.load(SeqCst) != passed
        };
        for _ in 0..if threads > *CORES { 0 } else { SPINS } {
            if self.passed.load(Acquire) != passed {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleeping.fetch_add(1, SeqCst);
        while !is_over() {
            guard = self.wake.wait(guard).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleeping.fetch_sub(1, SeqCst);
    }

    fn wake_all(&self) {
        if self.sleeping.load(SeqCst) > 0 {
            drop(self.lock.lock());
            self.wake.notify_all();
        }
    }
}

/// Ends the waits of other threads if this thread panics.
pub(crate) struct PanicGuard<'a>(pub(crate) &'a Barrier);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.broken.store(true, SeqCst);
            self.0.wake_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn threads_pass_together_even_if_one_is_late() {
        let (barrier, count) = (&Barrier::default(), &AtomicUsize::new(0));
        thread::scope(|scope| {
            for number in 0..3 {
                scope.spawn(move || {
                    for round in 1..=200 {
                        // Long enough that the others sleep, every now and then.
                        if round % 50 == 10 * number {
                            thread::sleep(std::time::Duration::from_millis(2));
                        }
                        count.fetch_add(1, Relaxed);
                        barrier.wait(3);
                        assert_eq!(count.load(Relaxed), 3 * round);
                        barrier.wait(3);
                    }
                });
            }
        });
    }

    #[test]
    fn a_panic_wakes_sleeping_threads() {
        let barrier = &Barrier::default();
        thread::scope(|scope| {
            let sleeper = scope.spawn(|| barrier.wait(2));
            while barrier.sleeping.load(SeqCst) == 0 {
                thread::yield_now();
            }
            let broken = scope.spawn(|| {
                let _guard = PanicGuard(barrier);
                panic!("on purpose");
            });
            assert!(broken.join().is_err() && sleeper.join().is_err());
        });
    }
}
