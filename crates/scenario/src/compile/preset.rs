//! The presets of a protocol with their values.

use tidegate_algos::Protocol;
use tidegate_core::params::Value;

use super::transport::apply;
use crate::presets as shipped;

/// A preset of a protocol.
#[derive(Clone, Debug)]
pub struct Preset {
    /// Its name.
    pub name: String,
    /// Its source: the comment above it in its file. The defaults have none.
    pub source: String,
    /// The parameters that it sets. Others have their defaults.
    pub parameters: Vec<(&'static str, Value)>,
}

/// Returns the presets of a protocol.
pub fn presets(protocol: Protocol) -> Vec<Preset> {
    let mut sources = shipped::sources(protocol);
    let preset = |name: String| {
        let mut stack = protocol.stack();
        let entries = shipped::parameters(protocol, &name).unwrap_or_default();
        apply(&mut stack, &entries, &name).expect("tests load every preset");
        let mut parameters = stack.values();
        parameters.retain(|(parameter, _)| entries.contains_key(*parameter));
        Preset { source: sources.remove(&name).unwrap_or_default(), name, parameters }
    };
    shipped::of_protocol(protocol).into_iter().map(preset).collect()
}
