//! Carriers of a run's packets.

use tidegate_runs::machine;

/// Hash of the sources that determine observations of live runs, besides those of simulated runs.
const BUILD: &str = env!("TIDEGATE_LIVE_SOURCES");

/// Carrier of a run's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    /// The simulator.
    #[default]
    Simulated,
    /// Live UDP.
    Udp,
    /// The kernel's TCP under the congestion control of this name.
    Tcp(String),
}

impl Medium {
    /// A name for keys of caches, which includes the build; empty for the simulator.
    pub fn key(&self) -> String {
        match self {
            Medium::Simulated => String::new(),
            Medium::Udp => format!("udp-{BUILD}-"),
            Medium::Tcp(control) => format!("tcp-{control}-{}-{BUILD}-", machine::kernel()),
        }
    }
}
