//! Stamping of the delays of queues of a Linux box.

#![allow(unsafe_code, reason = "links of traffic control have no safe binding")]

use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::thread;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use tidegate_core::Rate;
use tidegate_core::wire::tcp_option::rate_code;

use crate::interface::{Interface, interfaces};
use crate::pins::{self, Draft};
use crate::{Error, log, preflight};

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/stamp.bpf.o"));
/// The only key of maps with one entry.
const KEY: [u8; 4] = [0; 4];
/// Prefix of the sets of stamped queues.
pub(crate) const PREFIX: &str = "stamp-";
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

/// State of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortStatus {
    /// The queue.
    pub port: Port,
    /// Rate in hop records; `None`: there are none.
    pub rate: Option<Rate>,
    /// Rate of the queue now, if it is tbf.
    pub queue_rate: Option<Rate>,
    /// Whether the programs are attached: they are detached when an interface is deleted.
    pub is_attached: bool,
    /// Counters, in the order of `struct tg_port_counters`: names and values.
    pub counters: Vec<(&'static str, u64)>,
}

const COUNTERS: [&str; 7] =
    ["marked", "packets", "bytes", "delay_ns", "max_delay_ns", "stamped", "full"];

/// Bytes of the names of interfaces and of namespaces in `struct tg_port`, with a zero.
const INTERFACE_BYTES: usize = 16;
const NETNS_BYTES: usize = 64;

impl Port {
    /// Name of its set of pins. The BPF file system forbids dots; the hyphen divides both names.
    fn set(&self) -> String {
        let escaped = |name: &str| {
            let escape = |c| match c {
                '%' | '-' | '.' => format!("%{:02x}", u32::from(c)),
                c => c.to_string(),
            };
            name.chars().map(escape).collect::<String>()
        };
        let netns = self.netns.as_deref().unwrap_or("");
        format!("{PREFIX}{}-{}", escaped(netns), escaped(&self.interface))
    }

    /// Fails unless the names are possible ones.
    fn check_names(&self) -> Result<(), Error> {
        let is_name = |name: &str, bytes: usize| {
            !["", ".", ".."].contains(&name) && name.len() < bytes && !name.contains('/')
        };
        let interfaces = [&self.interface, &self.peer];
        if let Some(name) = interfaces.into_iter().find(|name| !is_name(name, INTERFACE_BYTES)) {
            return Err(Error::Usage(format!(
                "{name:?} is no name of an interface: expected 1 to {} bytes without a slash",
                INTERFACE_BYTES - 1
            )));
        }
        match self.netns.as_ref().filter(|name| !is_name(name, NETNS_BYTES)) {
            None => Ok(()),
            Some(name) => Err(Error::Usage(format!(
                "{name:?} is no name of a network namespace: expected one in /run/netns of at most \
                 {} bytes",
                NETNS_BYTES - 1
            ))),
        }
    }

    /// Calls `f` in the network namespace of the interface.
    fn within<T: Send>(&self, f: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        within(self.netns.as_deref(), f)
    }
}

/// Calls `f` in a network namespace, by its name in `/run/netns`; `None`: the caller's.
fn within<T: Send>(
    netns: Option<&str>,
    f: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let Some(name) = netns else { return f() };
    let path = PathBuf::from("/run/netns").join(name);
    let netns = File::open(&path).map_err(|error| {
        let error = match error.kind() {
            std::io::ErrorKind::NotFound => "there is none of this name (`ip netns list`)".into(),
            _ => error.to_string(),
        };
        Error::Usage(format!("--netns {name}: {error}"))
    })?;
    // A thread of its own: it does not return to the namespace.
    let enter = || {
        setns(&netns, CloneFlags::CLONE_NEWNET).map_err(|error| match error {
            Errno::EPERM => Error::Usage(format!(
                "this user may not enter the network namespace {name}: run the command as root"
            )),
            error => Error::kernel(format!("enter {}", path.display()))(error),
        })?;
        f()
    };
    thread::scope(|scope| scope.spawn(enter).join()).unwrap_or_else(|panic| {
        std::panic::resume_unwind(panic);
    })
}

/// Number of this thread's network namespace.
fn netns_inode() -> Result<u64, Error> {
    let path = Path::new("/proc/thread-self/ns/net");
    let inode = fs::metadata(path).map(|metadata| metadata.ino());
    inode.map_err(|error| Error::File(path.to_owned(), error))
}

fn find<'a>(all: &'a [Interface], name: &str, place: &str) -> Result<&'a Interface, Error> {
    let interface = all.iter().find(|interface| interface.name == name);
    let elsewhere = if place.is_empty() { "; --netns names another network namespace" } else { "" };
    interface.ok_or_else(|| Error::Usage(format!("there is no interface {name}{place}{elsewhere}")))
}

/// The other end of a veth pair, by the name of the network namespace of both in `/run/netns`.
///
/// # Errors
/// If there is no such interface, or its other end is not there.
pub fn peer(interface: &str, netns: Option<&str>) -> Result<String, Error> {
    let names = Port {
        interface: interface.into(),
        peer: interface.into(),
        netns: netns.map(ToOwned::to_owned),
    };
    names.check_names()?;
    let all = within(netns, || interfaces().map_err(Error::kernel("list interfaces")))?;
    let place = netns.map(|netns| format!(" in {netns}")).unwrap_or_default();
    let near = find(&all, interface, &place)?;
    let far = near.other_end.and_then(|index| all.iter().find(|other| other.index == index));
    far.map(|far| far.name.clone()).ok_or_else(|| {
        Error::Usage(format!(
            "{interface}{place} is not an end of a veth pair with both ends in one namespace: put \
             the queue on such a pair"
        ))
    })
}

/// Properties of the interfaces of a [`Port`].
struct Place {
    indexes: [u32; 2],
    netns_inode: u64,
    /// Rate of the queue.
    rate: Option<Rate>,
}

impl Place {
    /// Examines the interfaces of this thread's namespace.
    fn find(port: &Port, rate: Option<Rate>) -> Result<Place, Error> {
        let all = interfaces().map_err(Error::kernel("list interfaces"))?;
        let place = port.netns.as_ref().map(|netns| format!(" in {netns}")).unwrap_or_default();
        let near = find(&all, &port.interface, &place)?;
        let far = find(&all, &port.peer, &place)?;
        if !far.is_veth || near.other_end != Some(far.index) {
            return Err(Error::Usage(format!(
                "{} and {}{place} are not the ends of one veth pair",
                near.name, far.name
            )));
        }
        check_queue(near, &place)?;
        Ok(Place {
            indexes: [near.index, far.index],
            netns_inode: netns_inode()?,
            rate: rate_of_queue(near, rate)?,
        })
    }
}

/// Fails if packets do not wait at the interface, or their times are interpreted. The order in
/// which they leave is not checked.
fn check_queue(near: &Interface, place: &str) -> Result<(), Error> {
    let name = &near.name;
    if near.queues.iter().all(|kind| kind == "noqueue" || kind == "ingress" || kind == "clsact") {
        return Err(Error::Usage(format!(
            "{name}{place} has no queueing discipline, so packets do not wait there: add one, e.g. \
             `tc qdisc add dev {name} root tbf rate 200mbit burst 3100 limit 600000`; if it is at \
             the other end, exchange both"
        )));
    }
    match near.queues.iter().find(|kind| ["fq", "etf", "taprio"].contains(&kind.as_str())) {
        None => Ok(()),
        Some(kind) => Err(Error::Usage(format!(
            "{name}{place} has the queueing discipline {kind}, which interprets the times that \
             stamping writes into packets: use one that serves packets in the order of their \
             arrival (tbf, htb with one class)"
        ))),
    }
}

/// The rate that the user gives, or that of tbf.
fn rate_of_queue(near: &Interface, rate: Option<Rate>) -> Result<Option<Rate>, Error> {
    let (Some(rate), Some(tbf)) = (rate, near.tbf_rate) else { return Ok(rate.or(near.tbf_rate)) };
    // tc rounds to bytes per second, users to their units. Records have the queue's own rate.
    match (rate.as_bps() as f64 / tbf.as_bps() as f64 - 1.0).abs() < 0.02 {
        true => Ok(Some(tbf)),
        false => Err(Error::Usage(format!(
            "--rate: found {rate}, but the queueing discipline tbf of {} has {tbf}: leave out \
             --rate, or give that rate",
            near.name
        ))),
    }
}

/// Begins to stamp the delays of a queue: notes the time of packets that leave the interface, and
/// writes the delay at its peer. `rate` is that of the queue, by default that of tbf; without one,
/// there are no hop records. Returns the rate. Repeating it replaces the rate.
///
/// # Errors
/// If the interfaces are not a pair with a queue of this rate, the machine lacks something, or the
/// kernel refuses.
pub fn stamp(port: &Port, rate: Option<Rate>, pins: &Path) -> Result<Option<Rate>, Error> {
    log::begin();
    port.check_names()?;
    preflight::require_stamping(pins)?;
    pins::remove_abandoned(pins)?;
    let place = port.within(|| Place::find(port, rate))?;
    let name = port.set();
    let set = pins.join(&name);
    if set.exists() && !is_stamped(&set, &place)? {
        // Another peer, or another interface that has the name of one that is gone.
        pins::remove_named(pins, &name)?;
    }
    let sets = stamp_sets(pins)?.into_iter().map(|name| pins.join(name));
    // The interface may have had another name. A foreign set is not one of this interface.
    if let Some(same) = sets.into_iter().find(|set| is_stamped(set, &place).unwrap_or(false)) {
        configure(&map(&same, "port")?, port, &place)?;
        if same != set {
            fs::rename(&same, &set).map_err(|error| Error::File(same, error))?;
        }
        return Ok(place.rate);
    }
    let what = "load the stamping programs";
    let object = ObjectBuilder::default().open_memory(OBJECT);
    let mut object = object.and_then(|object| object.load()).map_err(Error::kernel(what))?;
    let draft = Draft::new(pins, &name)?;
    for map in ["port", "counters"] {
        let mut found = object.maps_mut().find(|found| found.name() == map).expect("it has it");
        if map == "port" {
            let handle = MapHandle::try_from(&*found).map_err(Error::kernel("open a map"))?;
            configure(&handle, port, &place)?;
        }
        found.pin(draft.path(map)).map_err(Error::kernel("pin a map"))?;
    }
    port.within(|| attach(&object, place.indexes, &draft))?;
    draft.publish()?;
    Ok(place.rate)
}

/// Whether the programs of a set are attached to these interfaces. Namespaces have the same numbers
/// of interfaces, so the namespace counts, too.
fn is_stamped(set: &Path, place: &Place) -> Result<bool, Error> {
    let config = map(set, "port")?.lookup(&KEY, MapFlags::ANY);
    let config = config.map_err(Error::kernel(format!("read {}", set.display())))?;
    let inode = config.unwrap_or_default().get(NETNS_INODE).map(<[u8]>::to_vec);
    let attached = PROGRAMS
        .iter()
        .zip(place.indexes)
        .all(|((name, _), index)| attached_to(set, name) == index);
    Ok(attached && inode == Some(place.netns_inode.to_ne_bytes().into()))
}

/// Number of the interface to which a program is attached; 0 if to none.
fn attached_to(set: &Path, program: &str) -> u32 {
    use libbpf_rs::query::LinkTypeInfo;
    let info = Link::open(set.join(program)).and_then(|link| link.info());
    match info.map(|info| info.info) {
        Ok(LinkTypeInfo::Tcx(tcx)) => tcx.ifindex,
        _ => 0,
    }
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

/// Place of `netns_inode` in `struct tg_port`.
const NETNS_INODE: std::ops::Range<usize> = 16..24;

fn configure(map: &MapHandle, port: &Port, place: &Place) -> Result<(), Error> {
    let words =
        [place.rate.map_or(0, Rate::as_bps), place.rate.map_or(0, rate_code), place.netns_inode];
    let mut value: Vec<u8> = words.into_iter().flat_map(u64::to_ne_bytes).collect();
    let netns = port.netns.as_deref().unwrap_or("");
    for (text, bytes) in [
        (port.interface.as_str(), INTERFACE_BYTES),
        (port.peer.as_str(), INTERFACE_BYTES),
        (netns, NETNS_BYTES),
    ] {
        let mut text = text.as_bytes().to_vec();
        text.resize(bytes, 0);
        value.extend(text);
    }
    map.update(&KEY, &value, MapFlags::ANY).map_err(Error::kernel("write the port"))
}

/// Ends all stamping, and returns the queues. The error of one set does not keep the others.
///
/// # Errors
/// If the folder of pins cannot be read.
pub fn unstamp(pins: &Path) -> Result<Vec<Result<Port, Error>>, Error> {
    preflight::require_pins(pins)?;
    let remove = |name: &String| {
        let status = status(&pins.join(name))?;
        pins::remove_named(pins, name)?;
        Ok(status.port)
    };
    Ok(stamp_sets(pins)?.iter().map(remove).collect())
}

/// Queues that are stamped. The error of one set does not hide the others.
///
/// # Errors
/// If the folder of pins cannot be read.
pub fn ports(pins: &Path) -> Result<Vec<Result<PortStatus, Error>>, Error> {
    log::begin();
    Ok(stamp_sets(pins)?.iter().map(|name| status(&pins.join(name))).collect())
}

/// Names of the sets of queues.
fn stamp_sets(pins: &Path) -> Result<Vec<String>, Error> {
    let mut sets = pins::sets(pins)?;
    sets.retain(|name| name.starts_with(PREFIX));
    Ok(sets)
}

fn status(set: &Path) -> Result<PortStatus, Error> {
    let read = |name: &str| {
        let value = map(set, name)?.lookup(&KEY, MapFlags::ANY);
        value
            .map_err(Error::kernel(format!("read {}", set.display())))
            .map(Option::unwrap_or_default)
    };
    let (config, counters) = (read("port")?, read("counters")?);
    let mut texts = config.get(NETNS_INODE.end..).unwrap_or_default();
    let mut text = |bytes: usize| {
        let (head, tail) = texts.split_at_checked(bytes).unwrap_or_default();
        texts = tail;
        let text = head.split(|byte| *byte == 0).next().unwrap_or_default();
        String::from_utf8_lossy(text).into_owned()
    };
    let (interface, peer) = (text(INTERFACE_BYTES), text(INTERFACE_BYTES));
    let netns = Some(text(NETNS_BYTES)).filter(|netns| !netns.is_empty());
    let rate = config.first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let words = counters.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word));
    let index = attached_to(set, PROGRAMS[0].0);
    let inode = config.get(NETNS_INODE).unwrap_or_default().to_vec();
    // Another namespace of this name has other interfaces.
    let queue = within(netns.as_deref(), || {
        let is_same = inode == netns_inode()?.to_ne_bytes();
        let all = interfaces().map_err(Error::kernel("list interfaces"))?;
        Ok(all.into_iter().find(|other| is_same && other.index == index))
    });
    Ok(PortStatus {
        port: Port { interface, peer, netns },
        rate: (rate > 0).then(|| Rate::bps(rate)),
        queue_rate: queue.ok().flatten().and_then(|interface| interface.tbf_rate),
        is_attached: PROGRAMS.iter().all(|(name, _)| attached_to(set, name) > 0),
        counters: COUNTERS.into_iter().zip(words).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sets_have_no_dots_and_differ() {
        let set = |netns: &str, interface: &str| {
            let netns = Some(netns.to_owned());
            Port { interface: interface.into(), peer: "x".into(), netns }.set()
        };
        assert_eq!(set("a", "eth0.7"), "stamp-a-eth0%2e7");
        assert_ne!(set("rk3-x", "q"), set("rk3", "x-q"));
    }

    #[test]
    fn queues_that_read_times_are_refused() {
        for kind in ["fq", "etf", "taprio"] {
            let near = Interface { queues: vec![kind.into()], ..Interface::default() };
            let error = check_queue(&near, "").unwrap_err().to_string();
            assert!(error.contains(&format!("{kind}, which interprets the times")), "{error}");
        }
    }

    #[test]
    fn rates_are_those_of_tbf_within_two_per_cent() {
        let near = Interface { tbf_rate: Some(Rate::mbps(100)), ..Interface::default() };
        for (mbps, is_ok) in [(97, false), (99, true), (101, true), (103, false)] {
            let rate = rate_of_queue(&near, Some(Rate::mbps(mbps)));
            assert_eq!(rate.ok(), is_ok.then_some(near.tbf_rate), "{mbps}");
        }
    }

    #[test]
    fn impossible_names_are_refused() {
        let check = |interface: &str, netns: &str| {
            let netns = Some(netns.to_owned());
            Port { interface: interface.into(), peer: "x".into(), netns }.check_names()
        };
        assert!(check("q0", "a-b").is_ok());
        let long = "n".repeat(64);
        for (interface, netns) in
            [("", "a"), ("q/0", "a"), ("interface-of-16b", "a"), ("q0", "../a"), ("q0", &long)]
        {
            let error = check(interface, netns).unwrap_err().to_string();
            assert!(error.contains("is no name of"), "{error}");
        }
    }
}
