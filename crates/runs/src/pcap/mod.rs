//! Captures of departures on selected links, as a pcapng file.
//!
//! The engine reports the packets of one port in order, but those of different ports with different
//! delays: at the latest when the previous packet has left the link. Therefore packets wait here
//! until no earlier packet can follow. The file is in order of time for any chunks and threads.

mod blocks;
mod frame;
mod size;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_algos::Protocol;
use tidegate_core::fabric::{Fabric, Link, Node};
use tidegate_core::{Span, Time};
use tidegate_results::Partial;
use tidegate_scenario::{Glob, Plan};
use tidegate_sim::{Departure, FlowRecord};

use crate::Error;
use crate::observe::{End, Measure, RunOutput, Subscriptions};

pub(crate) use size::Size;

/// Selection and file of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// The file.
    pub file: &'a Path,
    /// Names of hosts, switches or link directions (`h0->s0`), with wildcards; empty: the links of
    /// hosts.
    pub of: &'a [String],
}

/// No interface.
const NONE: u32 = u32::MAX;

/// A capture in progress.
pub(crate) struct Capturing {
    path: PathBuf,
    shared: Arc<Mutex<Writer>>,
}

impl Capturing {
    /// Starts a file under a temporary name.
    ///
    /// # Errors
    /// When no name matches a pattern, the file exists and `force` is not set, or it cannot be
    /// created.
    pub(crate) fn open(plan: &Plan, capture: Capture<'_>, force: bool) -> Result<Capturing, Error> {
        let path = capture.file;
        let usage = |message| Error::Usage { option: "--pcap", message };
        let chosen = chosen(&plan.fabric, capture.of)?;
        if path.is_dir() {
            return Err(usage(format!("{} is a folder", path.display())));
        }
        if !force && path.exists() {
            return Err(usage(format!(
                "{} already exists; choose another file, or replace it with --force",
                path.display()
            )));
        }
        let mut file = Partial::new(path.to_owned())
            .map_err(|error| usage(format!("{}: {error}", path.display())))?;
        let (head, interfaces) = head(&plan.fabric, &chosen);
        file.write_all(&head).map_err(failed(path))?;
        let writer = Writer {
            file: Some(file),
            bytes: head.len() as u64,
            packets: 0,
            error: None,
            interfaces,
            protocols: plan.stacks.iter().map(|stack| stack.protocol()).collect(),
            waiting: BinaryHeap::new(),
            latest: Time::ZERO,
            patience: patience(&plan.fabric),
            frame: Vec::new(),
        };
        Ok(Capturing { path: path.to_owned(), shared: Arc::new(Mutex::new(writer)) })
    }

    /// The measure that passes packets to the capture.
    pub(crate) fn tap(&self) -> Tap {
        Tap { path: self.path.clone(), writer: self.shared.clone() }
    }

    /// Size of the file so far.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.shared).bytes
    }

    /// Writes the remaining packets and renames the file to its final name. Returns the number of
    /// packets.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn publish(self) -> Result<u64, Error> {
        let mut writer = lock(&self.shared);
        writer.write_until(Time::NEVER);
        let Writer { file, error, packets, .. } = &mut *writer;
        let result = error.take().map_or(Ok(()), Err);
        result
            .and_then(|()| file.take().map_or(Ok(()), Partial::publish))
            .map(|()| *packets)
            .map_err(failed(&self.path))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Capture { path, source }
}

/// A lock is only poisoned by a bug, which is reported elsewhere.
fn lock(shared: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(fabric: &Fabric, node: Node) -> &str {
    match node {
        Node::Host(host) => &fabric.hosts[host as usize],
        Node::Switch(switch) => &fabric.switches[switch as usize].name,
    }
}

/// The directions of every link, in the order of ports.
fn directions(fabric: &Fabric) -> impl Iterator<Item = (&Link, Node, Node)> {
    fabric.links.iter().flat_map(|link| [(link, link.a, link.b), (link, link.b, link.a)])
}

/// The ports that are captured.
fn chosen(fabric: &Fabric, of: &[String]) -> Result<Vec<bool>, Error> {
    let is_host = |node| matches!(node, Node::Host(_));
    if of.is_empty() {
        return Ok(directions(fabric).map(|(_, a, b)| is_host(a) || is_host(b)).collect());
    }
    let mut chosen = vec![false; 2 * fabric.links.len()];
    for pattern in of {
        let (glob, mut found) = (Glob::new(pattern), false);
        for ((_, a, b), chosen) in directions(fabric).zip(&mut chosen) {
            let (a, b) = (name(fabric, a), name(fabric, b));
            let matches =
                [a, b].iter().any(|end| glob.matches(end)) || glob.matches(&format!("{a}->{b}"));
            *chosen |= matches;
            found |= matches;
        }
        if !found && glob.is_open() {
            let message = format!(
                "`{pattern}` contains a [ without a range; expected a range such as h[0-15]"
            );
            return Err(Error::Usage { option: "--pcap-of", message });
        }
        if !found {
            let message = format!(
                "`{pattern}` matches no host, switch or link of this fabric; expected a name, \
                 or a pattern with `*`, `?` or `[0-3]`; links are named like `{}`",
                directions(fabric).next().map_or_else(
                    || "h0->s0".to_owned(),
                    |(_, a, b)| format!("{}->{}", name(fabric, a), name(fabric, b))
                )
            );
            return Err(Error::Usage { option: "--pcap-of", message });
        }
    }
    Ok(chosen)
}

/// The start of the file, and the interface of each port.
fn head(fabric: &Fabric, chosen: &[bool]) -> (Vec<u8>, Vec<u32>) {
    let (mut out, mut count) = (Vec::new(), 0);
    blocks::section(&mut out, concat!("tidegate ", env!("CARGO_PKG_VERSION")));
    let interfaces =
        (0..).zip(directions(fabric).zip(chosen)).map(|(port, ((_, a, b), chosen))| {
            if !chosen {
                return NONE;
            }
            let name = format!("{}->{}", name(fabric, a), name(fabric, b));
            blocks::interface(&mut out, &name, fabric.rate(port).as_bps());
            count += 1;
            count - 1
        });
    let interfaces = interfaces.collect();
    (out, interfaces)
}

/// Bound on how much earlier a packet can have left than the latest packet so far. A port is
/// committed when its link runs empty, which is no later than the longest flight. Nodes, in one or
/// several partitions, run ahead of each other by no more than another flight.
fn patience(fabric: &Fabric) -> Span {
    let latency = fabric.switches.iter().map(|switch| switch.latency).max().unwrap_or(Span::ZERO);
    let flights = (0..2 * fabric.links.len() as u32).map(|port| {
        let delay = fabric.links[port as usize / 2].delay.plus(latency);
        delay.plus(fabric.slowest(port).serialise(u16::MAX as u64))
    });
    flights.max().unwrap_or(Span::ZERO).times(2)
}

/// Passes departures to a capture.
pub(crate) struct Tap {
    path: PathBuf,
    writer: Arc<Mutex<Writer>>,
}

impl Measure for Tap {
    fn subscriptions(&self) -> Subscriptions {
        Subscriptions { departed: true, ..Subscriptions::default() }
    }
    fn departed(&mut self, departure: &Departure<'_>) {
        lock(&self.writer).take(departure);
    }
    fn flow(&mut self, _plan: &Plan, _record: &FlowRecord) -> Result<(), Error> {
        // A full disk ends the capture.
        self.check()
    }
    fn finish(self: Box<Self>, _end: &End<'_>, _output: &mut RunOutput) -> Result<(), Error> {
        self.check()
    }
}

impl Tap {
    /// The first write error, if any.
    fn check(&self) -> Result<(), Error> {
        lock(&self.writer).error.take().map_or(Ok(()), |error| Err(failed(&self.path)(error)))
    }
}

/// A packet that waits for earlier ones: departure, port, bytes and full length. No two packets
/// leave a port at the same time.
type Waiting = (Time, u32, Vec<u8>, u32);

struct Writer {
    /// The file until it has its final name.
    file: Option<Partial>,
    bytes: u64,
    packets: u64,
    /// The first write error.
    error: Option<io::Error>,
    /// Interfaces by port.
    interfaces: Vec<u32>,
    /// Protocols by stack.
    protocols: Vec<Protocol>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// Departure of the latest packet so far.
    latest: Time,
    patience: Span,
    /// Buffer for one packet, which is reused.
    frame: Vec<u8>,
}

impl Writer {
    fn take(&mut self, departure: &Departure<'_>) {
        let Departure { at, port, frame, body, hops, .. } = *departure;
        let interface = self.interfaces[port as usize];
        if interface == NONE || self.error.is_some() {
            return;
        }
        let protocol = self.protocols[body.transport as usize];
        match frame::write(protocol, frame, body, hops, &mut self.frame) {
            Ok(length) => {
                self.frame.truncate(blocks::SNAP_BYTES as usize);
                let packet = (at, interface, self.frame.clone(), length);
                self.waiting.push(Reverse(packet));
            }
            Err(error) => self.error = Some(io::Error::other(error)),
        }
        if at > self.latest {
            self.latest = at;
            self.write_until(at.before(self.patience));
        }
    }

    /// Writes packets that left before `end`.
    fn write_until(&mut self, end: Time) {
        let Some(file) = &mut self.file else { return };
        let mut block = Vec::new();
        while self.error.is_none()
            && self.waiting.peek().is_some_and(|Reverse((at, ..))| *at < end)
            && let Some(Reverse((at, interface, captured, length))) = self.waiting.pop()
        {
            block.clear();
            blocks::packet(&mut block, interface, at.as_ps() / 1_000, &captured, length);
            self.error = file.write_all(&block).err();
            self.bytes += block.len() as u64;
            self.packets += 1;
        }
    }
}
