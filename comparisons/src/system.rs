//! The compared systems: each has a server and a sender of messages.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use tidegate_algos::Protocol;
use tidegate_core::{Need, Rate};

use crate::endpoint::Endpoint;
use crate::quic::Quic;
use crate::tcp::Tcp;
use crate::udp::Udp;

/// The answer to every completely received message.
pub(crate) const ANSWER: &[u8; 8] = b"all here";
/// Time for which a thread polls its socket before it sleeps, with `+poll`.
pub(crate) const BUSY_POLL: Duration = Duration::from_micros(50);

/// The load of a sender.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Load {
    /// Size of a message in bytes.
    #[arg(long)]
    pub(crate) bytes: usize,
    /// Number of concurrent messages: the next is sent when one is answered.
    #[arg(long)]
    pub(crate) ahead: usize,
}

/// Called with the time of each message until its answer; returns whether to send another.
pub(crate) type Done<'a> = dyn Fn(Duration) -> bool + Sync + 'a;

/// Server and sender of a system, each in its own process.
pub(crate) trait System {
    /// Receives messages at an address and answers them until the process ends. Calls `ready` when
    /// senders may start, with the text that they need.
    fn serve(&self, at: SocketAddr, ready: &mut dyn FnMut(&str)) -> Result<()>;

    /// Sends messages to a server that called `ready` with `word`.
    fn send(&self, to: SocketAddr, word: &str, load: Load, done: &Done<'_>) -> Result<()>;
}

/// A system by name.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Choice {
    kind: Kind,
    busy: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Udp,
    Tcp(&'static str),
    Quinn,
    Endpoint(Protocol),
}

/// Congestion controls of the kernel, and those that `tidegate kernel load` adds to it.
const OF_KERNEL: [&str; 7] =
    ["cubic", "bbr", "reno", "tg_poseidon", "tg_powertcp", "tg_theta", "tg_swift"];
const POLLS: &str = "+poll";

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Choice, String> {
        let (name, busy) = match text.strip_suffix(POLLS) {
            Some(name) => (name, true),
            None => (text, false),
        };
        let of_kernel = |name: &str| OF_KERNEL.into_iter().find(|&known| known == name);
        let kind = match name {
            "udp" => Some(Kind::Udp),
            "quinn" => Some(Kind::Quinn),
            _ => name.strip_prefix("tcp-").and_then(of_kernel).map(Kind::Tcp),
        };
        let kind = kind.or_else(|| Protocol::named(name).map(Kind::Endpoint));
        match kind {
            Some(Kind::Tcp(_) | Kind::Quinn) if busy => {
                Err(format!("{name} does not support +poll"))
            }
            Some(kind) => Ok(Choice { kind, busy }),
            None => {
                let controls = OF_KERNEL.map(|control| format!("tcp-{control}")).join(", ");
                Err(format!("expected udp, {controls}, quinn or a protocol of the catalog"))
            }
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Kind::Udp => f.write_str("udp"),
            Kind::Tcp(control) => write!(f, "tcp-{control}"),
            Kind::Quinn => f.write_str("quinn"),
            Kind::Endpoint(protocol) => f.write_str(protocol.info().name),
        }?;
        f.write_str(if self.busy { POLLS } else { "" })
    }
}

impl Choice {
    /// Whether it has congestion control, so that it can send bulk data.
    pub(crate) fn carries_bulk(&self) -> bool {
        self.kind != Kind::Udp
    }

    /// Creates the system for links of an MTU.
    pub(crate) fn system(&self, mtu: u32) -> Result<Box<dyn System>> {
        // Without the headers of IP and UDP.
        let datagram = mtu as u16 - 28;
        Ok(match self.kind {
            Kind::Udp => Box::new(Udp { busy: self.busy }),
            Kind::Tcp(control) => Box::new(Tcp { control }),
            Kind::Quinn => Box::new(Quic { datagram }),
            Kind::Endpoint(protocol) => Box::new(Endpoint::new(protocol, datagram, self.busy)?),
        })
    }

    /// Creates the system for links of a rate, behind switches with these functions and priorities.
    pub(crate) fn behind(
        &self,
        mtu: u32,
        rate: Rate,
        switches: &[Need],
        priorities: u8,
    ) -> Result<Box<dyn System>> {
        match self.kind {
            Kind::Endpoint(protocol) => {
                let datagram = mtu as u16 - 28;
                let endpoint = Endpoint::behind(protocol, datagram, rate, switches, priorities)?;
                Ok(Box::new(endpoint))
            }
            _ => self.system(mtu),
        }
    }
}
