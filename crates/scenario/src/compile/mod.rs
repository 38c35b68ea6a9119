//! Compilation: builds the plan from the checked sections of a scenario and checks how the sections
//! fit together.

pub(crate) mod closed_loop;
pub(crate) mod collective;
pub(crate) mod context;
pub(crate) mod credit_queue;
pub(crate) mod csv;
pub(crate) mod degraded;
pub(crate) mod domain;
pub(crate) mod fabric;
pub(crate) mod failure;
pub(crate) mod faults;
pub(crate) mod flows;
pub(crate) mod generators;
pub(crate) mod glob;
pub(crate) mod graph;
pub(crate) mod hosts;
pub(crate) mod job;
mod mersenne;
pub(crate) mod no_effect;
pub(crate) mod paths;
pub(crate) mod pfc;
pub(crate) mod preset;
pub(crate) mod reconfigurable;
mod replies;
pub(crate) mod requests;
pub(crate) mod requirements;
pub(crate) mod scenario;
pub(crate) mod servers;
pub(crate) mod sizes;
pub(crate) mod software;
pub(crate) mod switch;
pub(crate) mod telemetry;
pub(crate) mod topology;
pub(crate) mod traces;
pub(crate) mod traffic;
pub(crate) mod transport;
pub(crate) mod trimming;

use tidegate_core::{Message, Time};

use crate::error::Error;
use crate::read::keys::{Key, Optional, Shape, key};
use crate::read::table::Table;

/// End and seed of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunSettings {
    pub(crate) duration: Time,
    /// The run ends when the finite traffic is done, at `duration` at the latest.
    pub(crate) until_done: bool,
    pub(crate) seed: u64,
}

impl RunSettings {
    /// Start and end from these keys of `table`; by default zero and never.
    ///
    /// # Errors
    /// When the start is not within the run, or the end is not after the start.
    fn interval(self, table: &Table, [from, until]: [&str; 2]) -> Result<(Time, Time), Error> {
        let start = table.find(from).unwrap_or(Time::ZERO);
        let end = table.find(until).unwrap_or(Time::NEVER);
        if start >= self.duration {
            return Err(table.error(
                from,
                format!("a time before the end of the run, which is {}", self.duration),
            ));
        }
        if end <= start {
            return Err(table.error(until, format!("a time after {from}, which is {start}")));
        }
        Ok((start, end))
    }
}

/// Maximum length of a label: it is a cell of every table.
const MOST_LABEL: usize = 200;

/// Labels of flows by number, each with the weight of its messages if the scenario sets one. The
/// first label is empty (unlabelled).
#[derive(Debug)]
pub(crate) struct Labels(Vec<(String, Option<u64>)>);

/// Key for the weight of messages.
pub(crate) const WEIGHT: Key = key(
    "weight",
    Shape::Count { min: 1, max: Message::MOST_WEIGHT as u64 },
    Optional,
    "Weight of the messages with this label under protocols that share links between tenants by \
     weight. Default: 1.",
);

/// Label that results use for all flows together.
const ALL: &str = "all";

impl Labels {
    pub(crate) fn new() -> Labels {
        Labels(vec![(String::new(), None)])
    }

    /// Returns the number of the label in `key`.
    fn number(&mut self, table: &Table, key: &str) -> Result<u16, Error> {
        self.number_or(table, key, "")
    }

    /// Returns the number of the label in `key`, or of `default` if the key is missing.
    fn number_or(&mut self, table: &Table, key: &str, default: &str) -> Result<u16, Error> {
        let label = table.find::<&str>(key).unwrap_or(default);
        if label == ALL {
            return Err(
                table.error(key, "another label: \"all\" is reserved for the results of all flows")
            );
        }
        let length = label.chars().count();
        if length > MOST_LABEL {
            let expected = format!("a label of at most {MOST_LABEL} characters, not {length}");
            return Err(table.error(key, expected));
        }
        let known = self.0.iter().position(|(known, _)| known == label);
        let number = known.unwrap_or_else(|| {
            self.0.push((label.to_string(), None));
            self.0.len() - 1
        });
        u16::try_from(number).map_err(|_| table.error(key, "at most 65536 labels"))
    }

    /// Returns the number of a label that a row has.
    fn known(&self, label: &str) -> Option<u16> {
        self.0.iter().position(|(known, _)| known == label).map(|number| number as u16)
    }

    /// Returns the number of the row's label and gives its messages the row's weight.
    fn weighed(&mut self, table: &Table) -> Result<u16, Error> {
        let number = self.number(table, "label")?;
        let known = &mut self.0[number as usize].1;
        match (*known, table.find::<u64>("weight")) {
            (Some(other), Some(weight)) if weight != other => {
                let expected =
                    format!("{other}, the weight that an earlier table sets for this label");
                return Err(table.error("weight", expected));
            }
            (_, weight) => *known = weight.or(*known),
        }
        Ok(number)
    }

    /// Splits the labels into names and weights. The weights are empty if the scenario sets none.
    pub(crate) fn into_lists(self) -> (Vec<String>, Vec<u8>) {
        let has_weights = self.0.iter().any(|(_, weight)| weight.is_some());
        let weights = self.0.iter().filter(|_| has_weights);
        let weights = weights.map(|&(_, weight)| weight.unwrap_or(1) as u8).collect();
        (self.0.into_iter().map(|(label, _)| label).collect(), weights)
    }
}
