//! The plan: a validated scenario.

use core::fmt;
use core::ops::{Deref, DerefMut};

use tidegate_algos::Setup;
use tidegate_core::Span;

use crate::inputs::InputFiles;

/// A validated scenario: the setup of its run, and its names and results. The fields of the setup
/// are those of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name of the run.
    pub name: String,
    /// Inputs of the run.
    pub setup: Setup,
    /// Labels of flows; flows name them by number. The first is "" (unlabelled).
    pub labels: Vec<String>,
    /// Recorded results.
    pub output: Output,
    /// Warnings of settings that are allowed but probably unintended, such as a protocol outside
    /// its design range.
    pub warnings: Vec<String>,
    /// Parameters of `transport.protocol` that have no effect in this scenario, whether it sets
    /// them or not.
    pub ineffective: Vec<Ineffective>,
    /// The complete scenario in JSON. Loading it gives the same plan.
    pub resolved: serde_json::Value,
    /// The files that the scenario names.
    pub files: InputFiles,
}

/// A parameter that has no effect in a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct Ineffective {
    /// Its name.
    pub parameter: &'static str,
    /// The parameter of which another value gives it an effect, if there is one.
    pub depends_on: Option<&'static str>,
    /// The reason: it completes `PARAMETER has no effect …`.
    pub reason: String,
}

impl Deref for Plan {
    type Target = Setup;

    fn deref(&self) -> &Setup {
        &self.setup
    }
}

impl DerefMut for Plan {
    fn deref_mut(&mut self) -> &mut Setup {
        &mut self.setup
    }
}

impl Plan {
    /// Name of the protocol that carries the messages of a stack.
    pub fn protocol_name(&self, stack: u16) -> &str {
        let own = || self.stacks[usize::from(stack)].protocol().info().name;
        self.output.carried_by.as_deref().unwrap_or_else(own)
    }
}

/// Recorded results.
#[derive(Clone, PartialEq)]
pub struct Output {
    /// Whether to record histograms of the queue at every switch port; `None`: the number of ports
    /// decides.
    pub histograms: Option<bool>,
    /// Interval of the time series, if any.
    pub timeseries: Option<Span>,
    /// Recorded quantities: names of [`QUANTITIES`], in that order.
    pub quantities: Vec<&'static str>,
    /// Recorded directions of links; `None`: all. 2i and 2i + 1 are the directions of link i.
    pub ports: Option<Vec<u32>>,
    /// Messages whose completion times count.
    pub messages: Counted,
    /// Protocol that carries the messages in place of the scenario's; `None`: the scenario's.
    pub carried_by: Option<String>,
}

/// Messages that completion times include.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Those submitted from warm-up on, whether they finish or not.
    #[default]
    Submitted,
    /// Those that complete between warm-up and the end, whenever they were submitted.
    Completed,
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Output { histograms, timeseries, quantities, ports, messages, carried_by } = self;
        let mut shown = f.debug_struct("Output");
        shown.field("histograms", histograms).field("timeseries", timeseries);
        shown.field("quantities", quantities).field("ports", ports);
        // A later field is named only if it is not the default, so that hashes of plans stay.
        if *messages != Counted::default() {
            shown.field("messages", messages);
        }
        if let Some(protocol) = carried_by {
            shown.field("carried_by", protocol);
        }
        shown.finish()
    }
}

/// Quantities of time series, and whether each is recorded by default.
pub const QUANTITIES: [(&str, bool); 7] = [
    ("delivered_bytes", true),
    ("goodput_gbps", true),
    ("window_bytes", true),
    ("queue_bytes", true),
    ("mean_queue_bytes", false),
    ("sent_gbps", false),
    ("paused_us", true),
];
