//! Paths through the fabric, and faults on it.

pub(crate) mod faults;
pub(crate) mod routing;
pub(crate) mod symmetric;
