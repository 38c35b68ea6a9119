//! The inputs of a run, as the engine reads them.

pub use tidegate_algos::Setup;

use crate::measures::outcome::Window;

impl Window {
    /// The measured window of a run.
    pub(crate) fn of(setup: &Setup) -> Window {
        Window { from: setup.warmup, until: setup.duration }
    }
}
