//! Building blocks of transports: tables, orders, arrived packets, retransmissions and timers.
//!
//! A building block is here because two transports use it, or because SIRD does and the papers of
//! other receiver-driven transports require the same; each states which. None contains a protocol,
//! a header or a policy. Everything is found by a small number, only [`by_host`] hashes, and
//! nothing allocates once its tables have grown.

pub(crate) mod backoff;
pub(crate) mod bits;
pub(crate) mod by_host;
pub(crate) mod departure;
pub(crate) mod departures;
pub(crate) mod heap;
pub(crate) mod horizon;
pub(crate) mod lanes;
pub(crate) mod name;
pub(crate) mod paths;
pub(crate) mod resends;
pub(crate) mod ring;
pub(crate) mod segments;
pub(crate) mod slab;
pub(crate) mod step;
pub(crate) mod timers;
pub(crate) mod window;
pub(crate) mod words;
