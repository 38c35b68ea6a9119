//! Building: what each section of a checked scenario means, and how the sections fit together.

pub(crate) mod closed_loop;
pub(crate) mod collective;
pub(crate) mod credit_queue;
pub(crate) mod csv;
pub(crate) mod fabric;
pub(crate) mod faults;
pub(crate) mod flows;
pub(crate) mod generators;
pub(crate) mod glob;
pub(crate) mod graph;
pub(crate) mod hosts;
mod mersenne;
pub(crate) mod paths;
pub(crate) mod pfc;
pub(crate) mod reconfigurable;
pub(crate) mod requests;
pub(crate) mod requirements;
pub(crate) mod scenario;
pub(crate) mod sizes;
pub(crate) mod software;
pub(crate) mod switch;
pub(crate) mod traffic;
pub(crate) mod transport;

use tidegate_core::{Message, Time};

use crate::error::Error;
use crate::read::keys::{Key, Optional, Shape, key};
use crate::read::table::Table;

/// The course of a run: when things can happen, and by which chance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    pub(crate) duration: Time,
    pub(crate) seed: u64,
}

impl Course {
    /// Refuses a start outside the run, and a stop before the start.
    fn within(self, table: &Table, start: Time, stop: Option<Time>) -> Result<(), Error> {
        if start >= self.duration {
            return Err(table
                .error("start", format!("a time before the end of the run at {}", self.duration)));
        }
        match stop {
            Some(stop) if stop <= start => {
                Err(table.error("stop", format!("a time after start, which is {start}")))
            }
            _ => Ok(()),
        }
    }
}

/// Labels of flows by number, with the weights of their messages where these are said; the first is
/// none.
#[derive(Debug)]
pub(crate) struct Labels(Vec<(String, Option<u64>)>);

/// What messages count.
pub(crate) const WEIGHT: Key = key(
    "weight",
    Shape::Count { min: 1, max: Message::MOST_WEIGHT as u64 },
    Optional,
    "What messages with this label count where a protocol tells tenants apart; 1 unless set.",
);

/// What results of all flows are counted under.
const ALL: &str = "all";

impl Labels {
    pub(crate) fn new() -> Labels {
        Labels(vec![(String::new(), None)])
    }

    /// The number of the label that a key names.
    fn number(&mut self, table: &Table, key: &str) -> Result<u16, Error> {
        self.number_or(table, key, "")
    }

    /// The same; where the key is not there, that of `default`.
    fn number_or(&mut self, table: &Table, key: &str, default: &str) -> Result<u16, Error> {
        let label = table.find::<&str>(key).unwrap_or(default);
        if label == ALL {
            return Err(
                table.error(key, "another text: results of all flows together are called so")
            );
        }
        let known = self.0.iter().position(|(known, _)| known == label);
        let number = known.unwrap_or_else(|| {
            self.0.push((label.to_string(), None));
            self.0.len() - 1
        });
        u16::try_from(number).map_err(|_| table.error(key, "at most 65536 different labels"))
    }

    /// The number of the row's label, whose messages have the row's weight.
    fn weighed(&mut self, table: &Table) -> Result<u16, Error> {
        let number = self.number(table, "label")?;
        let said = &mut self.0[number as usize].1;
        match (*said, table.find::<u64>("weight")) {
            (Some(other), Some(weight)) if weight != other => {
                let expected = format!("{other}, as in the row before with this label");
                return Err(table.error("weight", expected));
            }
            (_, weight) => *said = weight.or(*said),
        }
        Ok(number)
    }

    /// Names and weights; no weights where none was said.
    pub(crate) fn into_lists(self) -> (Vec<String>, Vec<u8>) {
        let is_said = self.0.iter().any(|(_, weight)| weight.is_some());
        let weights = self.0.iter().filter(|_| is_said);
        let weights = weights.map(|&(_, weight)| weight.unwrap_or(1) as u8).collect();
        (self.0.into_iter().map(|(label, _)| label).collect(), weights)
    }
}
