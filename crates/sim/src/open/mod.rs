//! Fabrics without simulated hosts, and hosts without a simulated fabric.

pub(crate) mod open_fabric;
pub(crate) mod open_hosts;
