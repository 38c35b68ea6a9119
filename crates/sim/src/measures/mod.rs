//! Recorded results of a run: outcomes, histograms, probes.

pub(crate) mod digest;
pub(crate) mod histogram;
pub(crate) mod iterations;
pub(crate) mod outcome;
pub(crate) mod probe;
