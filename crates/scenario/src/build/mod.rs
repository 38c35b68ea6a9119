//! Building: what each section of a checked scenario means, and how the sections fit together.

pub(crate) mod closed_loop;
pub(crate) mod credit_queue;
pub(crate) mod csv;
pub(crate) mod fabric;
pub(crate) mod faults;
pub(crate) mod flows;
pub(crate) mod glob;
pub(crate) mod graph;
pub(crate) mod hosts;
pub(crate) mod paths;
pub(crate) mod pfc;
pub(crate) mod reconfigurable;
pub(crate) mod requests;
pub(crate) mod scenario;
pub(crate) mod sizes;
pub(crate) mod switch;
pub(crate) mod traffic;
pub(crate) mod transport;
pub(crate) mod wishes;

use tidegate_core::Time;

use crate::error::Error;
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

/// Labels of flows by number; the first is none.
#[derive(Debug)]
pub(crate) struct Labels(Vec<String>);

/// What results of all flows are counted under.
const ALL: &str = "all";

impl Labels {
    pub(crate) fn new() -> Labels {
        Labels(vec![String::new()])
    }

    /// The number of the label that a key names.
    fn number(&mut self, table: &Table, key: &str) -> Result<u16, Error> {
        let label = table.find::<&str>(key).unwrap_or("");
        if label == ALL {
            return Err(
                table.error(key, "another text: results of all flows together are called so")
            );
        }
        let known = self.0.iter().position(|known| known == label);
        let number = known.unwrap_or_else(|| {
            self.0.push(label.to_string());
            self.0.len() - 1
        });
        u16::try_from(number).map_err(|_| table.error(key, "at most 65536 different labels"))
    }

    pub(crate) fn into_list(self) -> Vec<String> {
        self.0
    }
}
