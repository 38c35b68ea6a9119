//! Stamping of the delays of queues of a Linux box.

#![allow(unsafe_code, reason = "links of traffic control have no safe binding")]

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use nix::net::if_::{if_indextoname, if_nametoindex};
use nix::sched::{CloneFlags, setns};
use tidegate_core::Rate;

use crate::pins::{self, Draft};
use crate::{Error, log, preflight};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stamp.bpf.o"));
/// The only key of maps with one entry.
const KEY: [u8; 4] = [0; 4];
const PREFIX: &str = "stamp-";
/// Programs, and where they attach.
const PROGRAMS: [(&str, u32); 2] =
    [("leave", libbpf_sys::BPF_TCX_EGRESS), ("arrive", libbpf_sys::BPF_TCX_INGRESS)];

/// A queue whose delays are stamped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// The interface of the queue: one end of a veth pair.
    pub interface: String,
    /// The other end of the pair.
    pub peer: String,
    /// The network namespace of both, by the name in `/run/netns`; `None`: the caller's.
    pub netns: Option<String>,
}

/// Counters of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// The queue.
    pub port: Port,
    /// Counters, in the order of `struct tg_port_counters`: names and values.
    pub counters: Vec<(&'static str, u64)>,
}

const COUNTERS: [&str; 7] =
    ["marked", "packets", "bytes", "delay_ns", "max_delay_ns", "stamped", "full"];

impl Port {
    /// Name of its set of pins. The BPF file system forbids dots.
    fn set(&self) -> String {
        let netns = self.netns.as_deref().unwrap_or("");
        format!("{PREFIX}{netns}-{}", self.interface).replace('.', "%")
    }

    /// Numbers of the interfaces at which the programs attach.
    fn indexes(&self) -> Result<[u32; 2], Error> {
        let place = self.netns.as_ref().map(|netns| format!(" in {netns}")).unwrap_or_default();
        let index = |name: &str| {
            let missing = |_| Error::Usage(format!("there is no interface {name}{place}"));
            if_nametoindex(name).map_err(missing)
        };
        Ok([index(&self.interface)?, index(&self.peer)?])
    }

    /// Calls `f` in the network namespace of the interface.
    fn within<T: Send>(&self, f: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        let Some(name) = &self.netns else { return f() };
        let path = PathBuf::from("/run/netns").join(name);
        let netns = File::open(&path)
            .map_err(|error| Error::Usage(format!("network namespace {name}: {error}")))?;
        // A thread of its own: it does not return to the namespace.
        let enter = || {
            setns(&netns, CloneFlags::CLONE_NEWNET)
                .map_err(Error::kernel(format!("enter {}", path.display())))?;
            f()
        };
        thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| {
            std::panic::resume_unwind(panic);
        })
    }
}

/// `rate` as a record contains it: 5 bits of exponent, 7 of mantissa.
fn rate_word(rate: Rate) -> u64 {
    let kbps = (rate.as_bps() / 1000).clamp(2, (1 << 32) - 1);
    let mut exponent = kbps.ilog2() as u64;
    let mut mantissa = ((kbps as f64 / (1u64 << exponent) as f64 - 1.0) * 128.0).round() as u64;
    if mantissa == 128 {
        (exponent, mantissa) = (exponent + 1, 0);
    }
    exponent.min(31) << 7 | mantissa
}

/// The number that the kernel reports for the other end of a veth pair, in that end's namespace.
fn other_end(interface: &str) -> Option<u32> {
    let path = PathBuf::from("/sys/class/net").join(interface).join("iflink");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The other end of a veth pair in the caller's namespace. An interface that has the number of an
/// end in another namespace does not refer back.
///
/// # Errors
/// If the interface has none there.
pub fn peer(interface: &str) -> Result<String, Error> {
    let own = if_nametoindex(interface)
        .map_err(|_| Error::Usage(format!("there is no interface {interface}")))?;
    let name = other_end(interface)
        .filter(|index| *index != own)
        .and_then(|index| if_indextoname(index).ok()?.into_string().ok())
        .filter(|name| other_end(name) == Some(own));
    name.ok_or_else(|| {
        Error::Usage(format!(
            "{interface}: no other end of a veth pair is in this namespace: name it with --peer"
        ))
    })
}

/// Begins to stamp the delays of a queue: notes the time of packets that leave the interface, and
/// writes the delay at its peer. `rate` is that of the queue; without it there are no hop records.
/// Repeating it replaces the rate.
///
/// # Errors
/// If there is no such interface, the machine lacks something, or the kernel refuses.
pub fn stamp(port: &Port, rate: Option<Rate>, pins: &Path) -> Result<(), Error> {
    log::begin();
    preflight::require(pins)?;
    pins::remove_abandoned(pins)?;
    let name = port.set();
    let too_long = |name: &&String| name.is_empty() || name.len() > 15 || name.contains('/');
    if let Some(name) = [&port.interface, &port.peer].into_iter().find(too_long) {
        return Err(Error::Usage(format!("{name:?} is no name of an interface")));
    }
    let indexes = port.within(|| port.indexes())?;
    let set = pins.join(&name);
    if set.exists() {
        let mut links = PROGRAMS.iter().zip(indexes);
        if links.all(|((name, _), index)| {
            Link::open(set.join(name)).is_ok_and(|link| attached_to(&link, index))
        }) {
            return configure(&map(&set, "port")?, port, rate);
        }
        // Another peer, or another interface that has the name of one that is gone.
        pins::remove(&pins::take(pins, &name)?)?;
    }
    let what = "load the stamping programs";
    let object = ObjectBuilder::default().open_memory(OBJECT);
    let mut object = object.and_then(|object| object.load()).map_err(Error::kernel(what))?;
    let draft = Draft::new(pins, &name)?;
    for map in ["port", "counters"] {
        let mut found = object.maps_mut().find(|found| found.name() == map).expect("it has it");
        if map == "port" {
            let handle = MapHandle::try_from(&*found).map_err(Error::kernel("open a map"))?;
            configure(&handle, port, rate)?;
        }
        found.pin(draft.path(map)).map_err(Error::kernel("pin a map"))?;
    }
    port.within(|| attach(&object, indexes, &draft))?;
    draft.publish()
}

fn attached_to(link: &Link, index: u32) -> bool {
    use libbpf_rs::query::LinkTypeInfo;
    link.info()
        .is_ok_and(|info| matches!(info.info, LinkTypeInfo::Tcx(tcx) if tcx.ifindex == index))
}

fn attach(object: &Object, indexes: [u32; 2], draft: &Draft<'_>) -> Result<(), Error> {
    for ((name, place), index) in PROGRAMS.into_iter().zip(indexes) {
        let mut programs = object.progs_mut();
        let program = programs.find(|program| program.name() == name).expect("it has the program");
        let fd = std::os::fd::AsFd::as_fd(&*program).as_raw_fd();
        // SAFETY: both are plain calls of the kernel; without options the pointer may be null. The
        // descriptor is new and has no other owner.
        let link = unsafe {
            let link = libbpf_sys::bpf_link_create(fd, index as i32, place, std::ptr::null());
            (link >= 0).then(|| OwnedFd::from_raw_fd(link))
        };
        let last = std::io::Error::last_os_error();
        let link = link.ok_or_else(|| Error::kernel("attach to the interface")(last))?;
        let path = draft.path(name);
        let text = std::ffi::CString::new(path.as_os_str().as_encoded_bytes())
            .map_err(Error::kernel("pin a link"))?;
        // SAFETY: the text ends with zero.
        let pinned = unsafe { libbpf_sys::bpf_obj_pin(link.as_raw_fd(), text.as_ptr()) };
        if pinned != 0 {
            return Err(Error::kernel("pin a link")(std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

fn map(set: &Path, name: &str) -> Result<MapHandle, Error> {
    let path = set.join(name);
    MapHandle::from_pinned_path(&path).map_err(Error::kernel(format!("open {}", path.display())))
}

fn configure(map: &MapHandle, port: &Port, rate: Option<Rate>) -> Result<(), Error> {
    let mut value: Vec<u8> = [rate.map_or(0, Rate::as_bps), rate.map_or(0, rate_word)]
        .into_iter()
        .flat_map(u64::to_ne_bytes)
        .collect();
    let netns = port.netns.as_deref().unwrap_or("");
    for (text, bytes) in [(port.interface.as_str(), 16), (port.peer.as_str(), 16), (netns, 64)] {
        let mut text = text.as_bytes().to_vec();
        text.resize(bytes, 0);
        value.extend(text);
    }
    map.update(&KEY, &value, MapFlags::ANY).map_err(Error::kernel("write the port"))
}

/// Ends all stamping, and returns the queues. Removes what ended processes have left.
///
/// # Errors
/// If pins cannot be removed.
pub fn unstamp(pins: &Path) -> Result<Vec<Port>, Error> {
    pins::remove_abandoned(pins)?;
    let ports = ports(pins)?;
    for name in pins::sets(pins)?.iter().filter(|name| name.starts_with(PREFIX)) {
        pins::remove(&pins::take(pins, name)?)?;
    }
    Ok(ports.into_iter().map(|status| status.port).collect())
}

/// Queues that are stamped.
///
/// # Errors
/// If pins cannot be read.
pub fn ports(pins: &Path) -> Result<Vec<PortStatus>, Error> {
    log::begin();
    let sets = pins::sets(pins)?;
    let sets = sets.iter().filter(|name| name.starts_with(PREFIX));
    sets.map(|name| status(&pins.join(name))).collect()
}

fn status(set: &Path) -> Result<PortStatus, Error> {
    let read = |name: &str| {
        let value = map(set, name)?.lookup(&KEY, MapFlags::ANY);
        value
            .map_err(Error::kernel(format!("read {}", set.display())))
            .map(Option::unwrap_or_default)
    };
    let (config, counters) = (read("port")?, read("counters")?);
    let text = |from: usize, to: usize| {
        let bytes = config.get(from..to).unwrap_or_default();
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let netns = Some(text(48, 112)).filter(|netns| !netns.is_empty());
    let words = counters.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
    Ok(PortStatus {
        port: Port { interface: text(16, 32), peer: text(32, 48), netns },
        counters: COUNTERS.into_iter().zip(words).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_in_records_are_half_a_per_cent_off() {
        for kbps in [2u64, 100, 1_000, 200_000, 1_000_000, 100_000_000, 400_000_000, 1 << 31] {
            let word = rate_word(Rate::bps(kbps * 1000));
            let shown = ((128 + (word & 127)) << (word >> 7)) >> 7;
            let error = (shown as f64 / kbps as f64 - 1.0).abs();
            assert!(error < 0.005 && word < 1 << 12, "{kbps}: {shown}");
        }
    }

    #[test]
    fn names_of_sets_have_no_dots() {
        let port = Port { interface: "eth0.7".into(), peer: "x".into(), netns: Some("a".into()) };
        assert_eq!(port.set(), "stamp-a-eth0%7");
    }
}
