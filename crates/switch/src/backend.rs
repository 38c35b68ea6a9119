//! Where packets come from and go to: hosts by address, or behind network interfaces.

use std::io;
use std::time::Duration;

use crate::addresses::Addresses;
use crate::datagram::{Content, Datagram};
use crate::interfaces::Interfaces;
use crate::slots::Way;
use crate::{Counts, Path, Places};

pub(crate) enum Backend {
    Addresses(Addresses),
    Interfaces(Interfaces),
}

/// What has come in for somebody.
pub(crate) struct Received<'a> {
    /// Where it goes; a copy each.
    pub(crate) ways: &'a [Way],
    /// When the kernel had it, by the clock that people set.
    pub(crate) stamp: Duration,
    pub(crate) content: Content<'a>,
}

impl Backend {
    /// # Errors
    /// Where an address cannot be listened at, or an interface cannot be used; the message says
    /// which, and why.
    pub(crate) fn open(places: &Places) -> io::Result<Backend> {
        Ok(match places {
            Places::Addresses { hosts, listen } => {
                Backend::Addresses(Addresses::open(hosts, *listen)?)
            }
            Places::Interfaces(names) => Backend::Interfaces(Interfaces::open(names)?),
        })
    }

    /// Where hosts with addresses send to, by who sends and then for whom.
    pub(crate) fn paths(&self) -> Vec<Path> {
        match self {
            Backend::Addresses(addresses) => addresses.paths(),
            Backend::Interfaces(_) => Vec::new(),
        }
    }

    /// Waits for something to come in, for at most so long.
    pub(crate) fn wait(&self, most: Duration) -> io::Result<bool> {
        match self {
            Backend::Addresses(Addresses { sockets, .. })
            | Backend::Interfaces(Interfaces { sockets, .. }) => sockets.wait(most),
        }
    }

    /// Takes what has come in, and counts it; whether some may be left.
    pub(crate) fn receive(&mut self, each: impl FnMut(Received<'_>)) -> io::Result<bool> {
        match self {
            Backend::Addresses(addresses) => addresses.receive(each),
            Backend::Interfaces(interfaces) => interfaces.receive(each),
        }
    }

    /// Hands to the kernel what has come by this path.
    pub(crate) fn send(&self, path: u32, datagram: &Datagram) -> io::Result<()> {
        match self {
            Backend::Addresses(addresses) => addresses.send(path, datagram),
            Backend::Interfaces(interfaces) => interfaces.send(path, datagram),
        }
    }

    /// What came in, and what of it got no further.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Backend::Addresses(Addresses { sockets, counts, .. })
            | Backend::Interfaces(Interfaces { sockets, counts, .. }) => {
                Counts { overrun: sockets.overrun(), ..*counts }
            }
        }
    }

    /// Interfaces by which unfinished frames have come.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        match self {
            Backend::Addresses(_) => Vec::new(),
            Backend::Interfaces(interfaces) => interfaces.unfinished(),
        }
    }
}
