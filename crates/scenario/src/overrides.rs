//! Options that change one value of a scenario.

use crate::error::{Error, shortened};

/// One value of a scenario, set from outside its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The option, as messages name it.
    pub option: String,
    /// Path of the key: `transport.params.m`, `flows.0.start` or `flows[0].start`; `flows[*].start`
    /// is all of a list, `flows.victim.start` what has that label.
    pub key: String,
    /// TOML, or else a bare text: `0.25`, `true`, `200Gbps`, `{ rate = "10Gbps" }`.
    pub value: String,
    /// The value is a protocol that takes the place of the transport's: what the scenario says of
    /// that one in `[transport]`, `[[flows]]` and `[[traffic]]` is forgotten.
    pub replaces_protocol: bool,
}

impl Override {
    /// From `key=value`, the argument of `--set`.
    ///
    /// # Errors
    /// When there is no `=` or no key.
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

    /// From an option of its own that stands for a key, such as `--seed 7`.
    pub fn option(option: &str, key: &str, value: &str) -> Override {
        Override {
            option: option.into(),
            key: key.into(),
            value: value.into(),
            replaces_protocol: false,
        }
    }

    /// Runs the scenario under another protocol, with what `[protocols.NAME]` says of it. Flows
    /// that name a third one keep it.
    pub fn protocol(option: &str, name: &str) -> Override {
        Override { replaces_protocol: true, ..Override::option(option, "transport.protocol", name) }
    }
}
