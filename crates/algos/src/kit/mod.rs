//! What transports are built from, each part once: tables, orders, what has arrived, what is sent
//! again, and when.
//!
//! A part is here because two transports use it, or because SIRD does and the papers of other
//! receiver-driven ones ask for the very same; each says which. None knows a protocol, a header or
//! a policy. Everything is found by a small number, nothing hashes but [`by_host`], and nothing
//! allocates once its tables have grown.

pub(crate) mod backoff;
pub(crate) mod bits;
pub(crate) mod by_host;
pub(crate) mod departure;
pub(crate) mod heap;
pub(crate) mod horizon;
pub(crate) mod lanes;
pub(crate) mod paths;
pub(crate) mod resends;
pub(crate) mod ring;
pub(crate) mod segments;
pub(crate) mod slab;
pub(crate) mod step;
pub(crate) mod timers;
pub(crate) mod window;
