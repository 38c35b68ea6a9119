//! What is compared: something that serves, and something that sends messages of a size.

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

/// What every message is answered with once all of it is there.
pub(crate) const ANSWER: &[u8; 8] = b"all here";
/// For so long is looked at a socket before its thread sleeps, where that is asked for.
pub(crate) const BUSY_POLL: Duration = Duration::from_micros(50);

/// What is sent.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Load {
    /// Bytes of a message.
    #[arg(long)]
    pub(crate) bytes: usize,
    /// Messages at a time: the next is sent when one is answered.
    #[arg(long)]
    pub(crate) ahead: usize,
}

/// Hears how long a message took, to its answer; whether another is to be sent.
pub(crate) type Done<'a> = dyn Fn(Duration) -> bool + Sync + 'a;

/// Both ends of one way to carry messages, each in a process of its own.
pub(crate) trait System {
    /// Takes messages at that address, and answers each, until the process ends. Says when there
    /// may be senders, with what they have to be told.
    fn serve(&self, at: SocketAddr, ready: &mut dyn FnMut(&str)) -> Result<()>;

    /// Sends messages to that address, of which `word` was told.
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

/// Congestion controls of the kernel that are compared.
const OF_KERNEL: [&str; 2] = ["cubic", "bbr"];
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
                Err(format!("{name} has no busy polling of its own here"))
            }
            Some(kind) => Ok(Choice { kind, busy }),
            None => {
                Err("expected udp, tcp-cubic, tcp-bbr, quinn or a protocol of the catalog".into())
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
    /// Whether it can be told to send as much as there is room for.
    pub(crate) fn carries_bulk(&self) -> bool {
        self.kind != Kind::Udp
    }

    /// It, over links of that MTU.
    pub(crate) fn system(&self, mtu: u32) -> Result<Box<dyn System>> {
        // Behind the headers of IP and UDP.
        let datagram = mtu as u16 - 28;
        Ok(match self.kind {
            Kind::Udp => Box::new(Udp { busy: self.busy }),
            Kind::Tcp(control) => Box::new(Tcp { control }),
            Kind::Quinn => Box::new(Quic { datagram }),
            Kind::Endpoint(protocol) => Box::new(Endpoint::new(protocol, datagram, self.busy)?),
        })
    }

    /// It, over links of that rate behind switches that have these and so many priorities.
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
