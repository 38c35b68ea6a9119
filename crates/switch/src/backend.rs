//! I/O of the switch: hosts with addresses, or hosts behind network interfaces.

use std::io;
use std::time::Duration;

use crate::addresses::Addresses;
use crate::datagram::Datagram;
use crate::interfaces::Interfaces;
use crate::received::Received;
use crate::{Counts, Path, Places};

pub(crate) enum Backend {
    Addresses(Addresses),
    Interfaces(Interfaces),
}

impl Backend {
    /// # Errors If a socket cannot be bound, or an interface cannot be used; the message names it
    /// and the reason.
    pub(crate) fn open(places: &Places) -> io::Result<Backend> {
        Ok(match places {
            Places::Addresses { hosts, listen } => {
                Backend::Addresses(Addresses::open(hosts, *listen)?)
            }
            Places::Interfaces(names) => Backend::Interfaces(Interfaces::open(names)?),
        })
    }

    /// The addresses to which hosts with addresses send, ordered by sender, then by destination.
    pub(crate) fn paths(&self) -> Vec<Path> {
        match self {
            Backend::Addresses(addresses) => addresses.paths(),
            Backend::Interfaces(_) => Vec::new(),
        }
    }

    /// Waits for input, at most for `most`.
    pub(crate) fn wait(&self, most: Duration) -> io::Result<bool> {
        match self {
            Backend::Addresses(Addresses { sockets, .. })
            | Backend::Interfaces(Interfaces { sockets, .. }) => sockets.wait(most),
        }
    }

    /// Receives and counts input; returns whether more may be pending.
    pub(crate) fn receive(&mut self, each: impl FnMut(Received<'_>)) -> io::Result<bool> {
        match self {
            Backend::Addresses(addresses) => addresses.receive(each),
            Backend::Interfaces(interfaces) => interfaces.receive(each),
        }
    }

    /// Sends a datagram along a path.
    pub(crate) fn send(&self, path: u32, datagram: &Datagram) -> io::Result<()> {
        match self {
            Backend::Addresses(addresses) => addresses.send(path, datagram),
            Backend::Interfaces(interfaces) => interfaces.send(path, datagram),
        }
    }

    /// Counters of received and dropped input.
    pub(crate) fn counts(&self) -> Counts {
        match self {
            Backend::Addresses(Addresses { sockets, counts, .. })
            | Backend::Interfaces(Interfaces { sockets, counts, .. }) => {
                Counts { overrun: sockets.overrun(), ..*counts }
            }
        }
    }

    /// Interfaces that delivered unfinished frames.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        match self {
            Backend::Addresses(_) => Vec::new(),
            Backend::Interfaces(interfaces) => interfaces.unfinished(),
        }
    }
}
