//! Switch ports: queues, scheduling, marking, shared buffers, PFC, credits, circuits.

pub(crate) mod checks;
pub(crate) mod credits;
pub(crate) mod deadlock;
pub(crate) mod fifo;
pub(crate) mod ingress;
pub(crate) mod marking;
pub(crate) mod packets;
pub(crate) mod pause_state;
pub(crate) mod port;
pub(crate) mod scheduler;
pub(crate) mod uplink;
pub(crate) mod voqs;
