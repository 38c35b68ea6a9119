//! Messages and flows: generators, the feed, both ends of a flow, rows, dependent messages.

pub(crate) mod agenda;
pub(crate) mod dependents;
pub(crate) mod feed;
pub(crate) mod flows;
pub(crate) mod generate;
pub(crate) mod jobs;
pub(crate) mod loops;
mod numbers;
pub(crate) mod rows;
pub(crate) mod submission;
