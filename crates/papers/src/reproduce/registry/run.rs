//! Runs of a figure.

use serde::Deserialize;
use tidegate_live::Medium;

use super::Model;

/// A variant of a figure's scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Run {
    pub(crate) name: String,
    /// Replaces the transport's protocol.
    pub(crate) protocol: Option<String>,
    /// Another file in the paper's folder of scenarios, without `.toml`; `paper/file` for another
    /// paper's folder.
    pub(super) scenario: Option<String>,
    #[serde(default)]
    pub(super) set: Vec<String>,
    /// A model that is solved instead of simulating packets.
    pub(crate) model: Option<Model>,
    /// Whether the run uses live UDP instead of simulation.
    #[serde(default)]
    pub(super) real: bool,
    /// Congestion control of the kernel's TCP, which the run uses instead of simulation.
    pub(super) tcp: Option<String>,
    /// Sampling interval, in place of the figure's.
    pub(super) trace_us: Option<f64>,
    /// Position on the x axis of a sweep.
    pub(crate) x: Option<f64>,
    /// Line of a sweep; by default its protocol.
    pub(crate) line: Option<String>,
    /// False: only controls use it, and only plots that name it show it.
    #[serde(default = "yes")]
    pub(crate) drawn: bool,
}

const fn yes() -> bool {
    true
}

impl Run {
    pub(crate) fn medium(&self) -> Medium {
        match &self.tcp {
            Some(control) => Medium::Tcp(control.clone()),
            None if self.real => Medium::Udp,
            None => Medium::Simulated,
        }
    }
}
