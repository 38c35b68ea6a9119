//! Messages of libbpf, kept for errors instead of printed.

use std::collections::VecDeque;
use std::sync::{Mutex, Once, PoisonError};

use libbpf_rs::{PrintLevel, set_print};

/// Lines kept.
const LINES: usize = 12;

static LOG: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());
static HOOK: Once = Once::new();

fn keep(_level: PrintLevel, text: String) {
    let mut log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    for line in text.lines() {
        if log.len() == LINES {
            log.pop_front();
        }
        log.push_back(line.to_owned());
    }
}

/// Begins to keep messages, and forgets earlier ones.
pub(crate) fn begin() {
    HOOK.call_once(|| {
        set_print(Some((PrintLevel::Warn, keep)));
    });
    LOG.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

/// The last messages.
pub(crate) fn last() -> String {
    let log = LOG.lock().unwrap_or_else(PoisonError::into_inner);
    log.iter().map(|line| line.trim()).collect::<Vec<_>>().join("; ")
}
