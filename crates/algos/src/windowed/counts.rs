//! Bytes of a data packet that count on the wire, in the window and in the pace.

use tidegate_core::Path;

use super::{ConnectionParams, CountRule};

/// Bytes that count of a data packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Count {
    header: u32,
    least: u32,
}

impl Count {
    const PAYLOAD: Count = Count { header: 0, least: 0 };

    #[inline]
    pub(super) fn of(self, payload: u32) -> u32 {
        (payload + self.header).max(self.least)
    }
}

/// The counts of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub(super) wire: Count,
    pub(super) window: Count,
    pub(super) pace: Count,
}

impl Counts {
    /// Counts on a path whose full packet is that of the wire.
    pub(super) fn new(params: &ConnectionParams, path: &Path) -> Counts {
        let wire =
            Count { header: path.full_wire_bytes - path.mtu, least: params.sizes().least_bytes };
        let by = |rule| match rule {
            CountRule::Wire => wire,
            CountRule::Payload => Count::PAYLOAD,
        };
        Counts { wire, window: by(params.window_counts), pace: by(params.pace_counts) }
    }
}

/// The path as the control sees it: its full packet is that of the window.
pub(super) fn counted(params: &ConnectionParams, path: &Path) -> Path {
    let full_wire_bytes = Counts::new(params, path).window.of(path.mtu);
    Path { full_wire_bytes, ..*path }
}
