//! The flag that signals set.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use crate::print_stderr;

/// A flag that the first SIGINT, SIGTERM or SIGHUP sets. The second signal ends the process
/// immediately.
pub(crate) fn interrupt_flag() -> &'static AtomicBool {
    static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(|| {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in signals() {
            // The order matters: handlers run in order of registration, and the conditional
            // shutdown must run before the flag is set by the same signal.
            let second = register_conditional_shutdown(signal, 130, flag.clone());
            if let Err(error) = second.and_then(|_| register(signal, flag.clone())) {
                print_stderr(&format!(
                    "warning: cannot handle signal {signal}, which will kill the run: {error}"
                ));
            }
        }
        flag
    });
    &INTERRUPTED
}

#[cfg(not(unix))]
fn signals() -> Vec<i32> {
    vec![SIGINT, SIGTERM]
}

/// The signals to handle. If the process was started with SIGHUP ignored (`nohup`), it must outlive
/// its terminal, so SIGHUP is left alone. Only Linux reports this (in `/proc`).
#[cfg(unix)]
fn signals() -> Vec<i32> {
    use signal_hook::consts::SIGHUP;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    if mask >> (SIGHUP - 1) & 1 == 1 {
        vec![SIGINT, SIGTERM]
    } else {
        vec![SIGINT, SIGTERM, SIGHUP]
    }
}
