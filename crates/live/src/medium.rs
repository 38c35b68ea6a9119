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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_carrier_and_name_the_build() {
        let tcp = |name: &str| Medium::Tcp(name.to_owned());
        let keys = [Medium::Udp, tcp("cubic"), tcp("powertcp")].map(|medium| medium.key());
        assert!(keys.iter().all(|key| key.contains(BUILD)));
        assert!(keys[0] != keys[1] && keys[1] != keys[2]);
        assert_eq!(Medium::Simulated.key(), "");
    }
}
