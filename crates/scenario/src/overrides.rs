//! Options that change one value of a scenario.

use crate::error::Error;

/// One value of a scenario, set from outside its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// The option, as messages name it.
    pub option: String,
    /// Path of the key: `transport.params.m`, `flows.0.start` or `flows[0].start`.
    pub key: String,
    /// TOML, or else a bare text: `0.25`, `true`, `200Gbps`, `{ rate = "10Gbps" }`.
    pub value: String,
}

impl Override {
    /// From `key=value`, the argument of `--set`.
    ///
    /// # Errors
    /// When there is no `=` or no key.
    pub fn set(argument: &str) -> Result<Override, Error> {
        let option = format!("--set {argument}");
        match argument.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                Ok(Override { option, key: key.trim().into(), value: value.trim().into() })
            }
            _ => Err(Error::whole(&option, format!("{argument:?}"), "key=value, such as transport.params.m=0.25")),
        }
    }

    /// From an option of its own that stands for a key, such as `--seed 7`.
    pub fn option(option: &str, key: &str, value: &str) -> Override {
        Override { option: option.into(), key: key.into(), value: value.into() }
    }
}
