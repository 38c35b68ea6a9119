//! Datagrams that a backend has received.

use std::time::Duration;

use crate::content::Content;
use crate::slots::Route;

/// A received datagram or frame.
pub(crate) struct Received<'a> {
    /// Its routes; each gets a copy.
    pub(crate) routes: &'a [Route],
    /// Time of reception by the kernel, by the real-time clock.
    pub(crate) stamp: Duration,
    pub(crate) content: Content<'a>,
}
