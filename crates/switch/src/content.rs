//! The parts of a received datagram.

/// A received datagram or frame.
#[derive(Clone, Copy, Debug)]
pub struct Content<'a> {
    /// Headers before the payload; empty if the kernel handles them.
    pub head: &'a [u8],
    /// DSCP and ECN.
    pub tos: u8,
    /// The bytes after the headers.
    pub payload: &'a [u8],
    /// Length of the UDP payload in it, which may begin with telemetry.
    pub readable: usize,
    /// Whether the bytes after the headers are a TCP segment.
    pub is_segment: bool,
    /// Further bytes on the wire.
    pub beside: usize,
}
