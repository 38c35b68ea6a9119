//! Captures: what leaves onto chosen links, as a pcapng file.
//!
//! The engine tells of the packets of one port in order, but of one port later than of another: of
//! each, at the latest when the packet before it on the link has landed. So packets wait here until
//! none before them can come, and the file is in order of time whatever the chunks and threads.

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
use crate::observe::{End, Hears, Left, Measure};

pub(crate) use size::Size;

/// What to capture, and where to.
#[derive(Clone, Copy, Debug)]
pub struct Capture<'a> {
    /// The file.
    pub file: &'a Path,
    /// Names of hosts, switches or directions of links (`h0->s0`), with wildcards; none: the links
    /// of hosts.
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
    /// Begins a file beside its name.
    ///
    /// # Errors
    /// When nothing goes by a name that was asked for, the file is there and `force` is not set, or
    /// it cannot be created.
    pub(crate) fn open(plan: &Plan, capture: Capture<'_>, force: bool) -> Result<Capturing, Error> {
        let path = capture.file;
        let usage = |message| Error::Usage { option: "--pcap", message };
        let chosen = chosen(&plan.fabric, capture.of)?;
        if path.is_dir() {
            return Err(usage(format!("{} is a folder", path.display())));
        }
        if !force && path.exists() {
            return Err(usage(format!(
                "{} is there already; name another file, or replace it with --force",
                path.display()
            )));
        }
        let mut file = Partial::new(path.to_owned())
            .map_err(|error| usage(format!("{}: {error}", path.display())))?;
        let (head, interfaces) = head(&plan.fabric, &chosen);
        file.write_all(&head).map_err(failed(path))?;
        let writer = Writer {
            file: Some(file),
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

    /// What tells the capture of packets.
    pub(crate) fn tap(&self) -> Tap {
        Tap { path: self.path.clone(), writer: self.shared.clone() }
    }

    /// Writes what is left and gives the file its name.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn publish(self) -> Result<(), Error> {
        let mut writer = lock(&self.shared);
        writer.write_until(Time::NEVER);
        let Writer { file, error, .. } = &mut *writer;
        let result = error.take().map_or(Ok(()), Err);
        result
            .and_then(|()| file.take().map_or(Ok(()), Partial::publish))
            .map_err(failed(&self.path))
    }
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Capture { path, source }
}

/// Nobody panics with the lock in hand but for a fault of ours, which is told elsewhere.
fn lock(shared: &Mutex<Writer>) -> MutexGuard<'_, Writer> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn name(fabric: &Fabric, node: Node) -> &str {
    match node {
        Node::Host(host) => &fabric.hosts[host as usize],
        Node::Switch(switch) => &fabric.switches[switch as usize].name,
    }
}

/// The directions of every link, in the order of their ports.
fn directions(fabric: &Fabric) -> impl Iterator<Item = (&Link, Node, Node)> {
    fabric.links.iter().flat_map(|link| [(link, link.a, link.b), (link, link.b, link.a)])
}

/// Which ports are to be captured.
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
            let message =
                format!("`{pattern}` has a [ that begins no range; expected one such as h[0-15]");
            return Err(Error::Usage { option: "--pcap-of", message });
        }
        if !found {
            let message = format!(
                "`{pattern}` is the name of no host, switch or link of this fabric; expected one, \
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

/// What the file begins with, and the interface of each port.
fn head(fabric: &Fabric, chosen: &[bool]) -> (Vec<u8>, Vec<u32>) {
    let (mut out, mut count) = (Vec::new(), 0);
    blocks::section(&mut out, concat!("tidegate ", env!("CARGO_PKG_VERSION")));
    let interfaces = directions(fabric).zip(chosen).map(|((link, a, b), chosen)| {
        if !chosen {
            return NONE;
        }
        let name = format!("{}->{}", name(fabric, a), name(fabric, b));
        blocks::interface(&mut out, &name, link.rate.as_bps());
        count += 1;
        count - 1
    });
    let interfaces = interfaces.collect();
    (out, interfaces)
}

/// How much later than the latest packet so far one that left before it can come. A port is looked
/// at when its link runs empty, which is no later than the longest flight; and nodes of a fabric,
/// in one part of it or in several, are ahead of each other by no more than another.
fn patience(fabric: &Fabric) -> Span {
    let latency = fabric.switches.iter().map(|switch| switch.latency).max().unwrap_or(Span::ZERO);
    let flights = fabric
        .links
        .iter()
        .map(|link| link.delay.plus(latency).plus(link.rate.serialise(u16::MAX as u64)));
    flights.max().unwrap_or(Span::ZERO).times(2)
}

/// Tells a capture of the packets that leave.
pub(crate) struct Tap {
    path: PathBuf,
    writer: Arc<Mutex<Writer>>,
}

impl Measure for Tap {
    fn hears(&self) -> Hears {
        Hears { departed: true, ..Hears::default() }
    }
    fn departed(&mut self, departure: &Departure<'_>) {
        lock(&self.writer).take(departure);
    }
    fn flow(&mut self, _plan: &Plan, _record: &FlowRecord) -> Result<(), Error> {
        // On a disk that is full the capture ends.
        self.check()
    }
    fn finish(self: Box<Self>, _end: &End<'_>, _left: &mut Left) -> Result<(), Error> {
        self.check()
    }
}

impl Tap {
    /// Whether all is written so far.
    fn check(&self) -> Result<(), Error> {
        lock(&self.writer).error.take().map_or(Ok(()), |error| Err(failed(&self.path)(error)))
    }
}

/// A packet that waits for those before it: when it left, the port, bytes and full length. No two
/// leave a port at one time.
type Waiting = (Time, u32, Vec<u8>, u32);

struct Writer {
    /// Until it has its name.
    file: Option<Partial>,
    /// The first that was met.
    error: Option<io::Error>,
    /// By port.
    interfaces: Vec<u32>,
    /// By stack.
    protocols: Vec<Protocol>,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// When the latest packet so far left.
    latest: Time,
    patience: Span,
    /// Of one packet; kept for the next.
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
        }
    }
}
