//! Panics as errors.

use crate::error::Error;

/// Runs `job` and turns a panic in it into an error, so that no function of the facade panics.
pub fn guarded<T>(job: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    // The job's state is dropped with it, so no half-updated state is observed after the panic.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(job)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::Run(format!("internal error in the simulator: {text}; please report it")))
    })
}
