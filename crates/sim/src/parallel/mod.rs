//! Several partitions and processes: windows, boundary exchange, ranks.

pub(crate) mod barrier;
pub(crate) mod boundary_exchange;
pub(crate) mod communicator;
pub(crate) mod process_partitions;
pub(crate) mod ranks;
pub(crate) mod reports;
pub(crate) mod run_interval;
