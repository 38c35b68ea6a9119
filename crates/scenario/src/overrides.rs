//! Options that change one value of a scenario.

use crate::error::{Error, shortened};

/// Sets one value of a scenario from outside its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Name of the option in messages.
    pub option: String,
    /// Path of the key: `transport.params.m`, `flows.0.start` or `flows[0].start`. `flows[*].start`
    /// selects all items of a list, `flows.victim.start` the items with that label.
    pub key: String,
    /// Value as TOML, or else as a bare text: `0.25`, `true`, `200Gbps`, `{ rate = "10Gbps" }`.
    pub value: String,
    /// Whether the value is a protocol that replaces the transport's. The presets and parameters of
    /// the old protocol in `[transport]`, `[[flows]]` and `[[traffic]]` are removed.
    pub replaces_protocol: bool,
}

impl Override {
    /// Parses `key=value`, the argument of `--set`.
    ///
    /// # Errors
    /// If there is no `=` or no key.
    pub fn set(argument: &str) -> Result<Override, Error> {
        let option = format!("--set {}", shortened(argument));
        match argument.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok(Override {
                option,
                key: key.trim().into(),
                value: value.trim().into(),
                replaces_protocol: false,
            }),
            _ => Err(Error::whole(
                &option,
                format!("{argument:?}"),
                "key=value, such as transport.params.m=0.25",
            )),
        }
    }

    /// Returns the override of an option for one key, such as `--seed 7`.
    pub fn option(option: &str, key: &str, value: &str) -> Override {
        Override {
            option: option.into(),
            key: key.into(),
            value: value.into(),
            replaces_protocol: false,
        }
    }

    /// Returns the override that runs the scenario under another protocol, with the parameters of
    /// `[protocols.NAME]`. Flows that name a third protocol keep it.
    pub fn protocol(option: &str, name: &str) -> Override {
        Override { replaces_protocol: true, ..Override::option(option, "transport.protocol", name) }
    }
}
