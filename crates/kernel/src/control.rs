//! Loading, unloading and observing congestion controls.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;

use libbpf_rs::query::LinkTypeInfo;
use libbpf_rs::{ErrorKind, Link, MapCore, MapFlags, MapHandle, MapType, Object, ObjectBuilder};

use tidegate_algos::Protocol;

use crate::pins::{self, Draft};
use crate::stamp::PREFIX;
use crate::{Control, Error, Params, log, preflight};

macro_rules! object {
    ($name:literal) => {
        include_bytes!(concat!(env!("OUT_DIR"), "/", $name, ".bpf.o"))
    };
}

/// Bytes of a name of a congestion control.
const NAME_BYTES: usize = 16;
/// The only key of maps with one entry.
const KEY: [u8; 4] = [0; 4];
/// Pins of a set.
const LINK: &str = "control";
const TELEMETRY: &str = "telemetry";
const MAPS: [&str; 3] = ["params", "settings", "counters"];

/// Digest of the sources of the programs.
const VERSION: &str = env!("TG_SOURCES");

/// Counters of a control, in the order of `struct tg_counters`: names and values.
pub type Counters = Vec<(&'static str, u64)>;

const COUNTERS: [&str; 12] = [
    "connections",
    "drained",
    "acks",
    "losses",
    "timeouts",
    "restarts",
    "stamped",
    "unstamped",
    "foreign",
    "dropped_records",
    "sent_options",
    "lost_packets",
];

/// Result of [`load`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loaded {
    /// It was loaded.
    New,
    /// It was already loaded: its parameters were replaced, for all connections.
    Updated,
}

/// A loaded control.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlStatus {
    /// The control.
    pub control: Control,
    /// The law's parameters in fixed point.
    pub params: Params,
    /// Counters since it was loaded.
    pub counters: Counters,
}

impl Control {
    fn object(self) -> &'static [u8] {
        match self.protocol {
            Protocol::Poseidon => object!("poseidon"),
            Protocol::PowerTcp => object!("powertcp"),
            Protocol::ThetaPowerTcp => object!("theta_powertcp"),
            _ => object!("swift"),
        }
    }

    /// Whether it has a program for TCP options.
    fn has_telemetry(self) -> bool {
        matches!(self.protocol, Protocol::Poseidon | Protocol::PowerTcp)
    }

    /// Whether a control of this name is registered in the kernel.
    pub fn is_registered(self) -> bool {
        let available = "/proc/sys/net/ipv4/tcp_available_congestion_control";
        let list = fs::read_to_string(available).unwrap_or_default();
        list.split_whitespace().any(|name| name == self.name)
    }
}

/// Ends the process at a step if a test demands it, as a crash would, or waits there for a file.
fn crash_point(_step: &str) {
    #[cfg(feature = "testing")]
    if std::env::var("TIDEGATE_KERNEL_CRASH").is_ok_and(|step| step == _step) {
        let Ok(file) = std::env::var("TIDEGATE_KERNEL_GO") else { std::process::abort() };
        while !Path::new(&file).exists() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}

/// Loads a control and its telemetry, and pins both in the folder `pins`. Nothing remains of an
/// attempt that fails.
///
/// # Errors
/// If the machine lacks something, another program owns the name, or the kernel refuses.
pub fn load(control: Control, params: &Params, pins: &Path) -> Result<Loaded, Error> {
    log::begin();
    preflight::require(pins)?;
    pins::remove_abandoned(pins)?;
    let set = pins.join(control.name);
    if set.exists() {
        own(control, &set)?;
        require_current(control, &set)?;
        write_params(&map(&set, "params")?, params)?;
        // An `unload` may have died after this.
        let settings = map(&set, "settings")?;
        crash_point("undrain");
        drain(&settings, false)?;
        if !set.exists() {
            drain(&settings, true)?;
            return Err(Error::Usage(format!(
                "{} is being unloaded by another command: repeat this one",
                control.name
            )));
        }
        return Ok(Loaded::Updated);
    }
    if control.is_registered() {
        return Err(name_in_use(control));
    }
    let mut object = open(control)?;
    let draft = Draft::new(pins, control.name)?;
    for name in MAPS {
        let mut map = object.maps_mut().find(|map| map.name() == name).expect("it has the map");
        let handle = MapHandle::try_from(&*map).map_err(Error::kernel("open a map"))?;
        match name {
            "params" => write_params(&handle, params)?,
            "settings" => write_settings(&handle, false, &[version()])?,
            _ => {}
        }
        map.pin(draft.path(name)).map_err(Error::kernel("pin a map"))?;
    }
    crash_point("maps");
    let telemetry = attach_telemetry(&object)?;
    if let Some(mut link) = telemetry {
        link.pin(draft.path(TELEMETRY)).map_err(Error::kernel("pin the telemetry"))?;
    }
    crash_point("telemetry");
    let mut ops = object.maps_mut().find(|map| map.map_type() == MapType::StructOps);
    let link = ops.as_mut().expect("it has a control").attach_struct_ops();
    let mut link = link.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => name_in_use(control),
        _ => Error::kernel(format!("register {}", control.name))(error),
    })?;
    link.pin(draft.path(LINK)).map_err(Error::kernel("pin the control"))?;
    crash_point("control");
    draft.publish()?;
    Ok(Loaded::New)
}

fn name_in_use(control: Control) -> Error {
    Error::Foreign(format!(
        "{}: a congestion control of this name is registered by another program, in another mount \
         namespace, or is being loaded now; unload that one first",
        control.name
    ))
}

/// Fails unless the set is one that [`load`] has made.
fn own(control: Control, set: &Path) -> Result<(), Error> {
    // The folder behind a symbolic link is somebody else's.
    if !fs::symlink_metadata(set).is_ok_and(|set| set.is_dir()) {
        return Err(Error::Foreign(format!(
            "{}: not a folder of pins; remove it if nothing else uses it",
            set.display()
        )));
    }
    let opened = MAPS.map(|name| (name, MapHandle::from_pinned_path(set.join(name)).err()));
    let link = (LINK, check_link(control, &set.join(LINK)).err());
    let failed = opened.into_iter().chain([link]).find_map(|(name, error)| Some((name, error?)));
    match failed {
        None => Ok(()),
        Some((_, error)) if error.kind() == ErrorKind::PermissionDenied => {
            let set = set.display();
            Err(Error::Usage(format!("{set}: permission denied; run the command as root")))
        }
        Some((name, _)) if fs::symlink_metadata(set.join(name)).is_err() => {
            Err(Error::Foreign(format!(
                "{}: the pin {name} is missing; remove this folder, which unloads the control if \
                 nothing else holds it",
                set.display()
            )))
        }
        // The type of the object is not the reason.
        Some((name, error)) if error.kind() == ErrorKind::Other => {
            Err(Error::kernel(format!("open {}", set.join(name).display()))(error))
        }
        Some((name, _)) => Err(Error::Foreign(format!(
            "{}: {name} is not a pin of {}; remove this folder if nothing else uses it",
            set.display(),
            control.name
        ))),
    }
}

/// Fails unless the link registers this control. Its map has the kernel's table of the control,
/// which only CAP_SYS_ADMIN may open: without it, any control counts.
fn check_link(control: Control, path: &Path) -> Result<(), libbpf_rs::Error> {
    let link = Link::open(path)?.info()?;
    let LinkTypeInfo::StructOps(ops) = link.info else { return Err(invalid()) };
    let table = match MapHandle::from_map_id(ops.map_id) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(()),
        table => table?.lookup(&KEY, MapFlags::ANY)?,
    };
    let name = [&[0], control.name.as_bytes(), &[0]].concat();
    let has_name = table.unwrap_or_default().windows(name.len()).any(|bytes| bytes == name);
    if has_name { Ok(()) } else { Err(invalid()) }
}

fn invalid() -> libbpf_rs::Error {
    std::io::Error::from(std::io::ErrorKind::InvalidInput).into()
}

fn open(control: Control) -> Result<Object, Error> {
    let what = || format!("load {}", control.name);
    let object = ObjectBuilder::default().open_memory(control.object());
    object.and_then(|object| object.load()).map_err(Error::kernel(what()))
}

/// Attaches the program for TCP options to all sockets, if there is one.
fn attach_telemetry(object: &Object) -> Result<Option<Link>, Error> {
    let Some(program) = object.progs_mut().find(|program| program.name() == TELEMETRY) else {
        return Ok(None);
    };
    let folder = preflight::cgroup_folder().expect("the preflight has found it");
    let cgroup = fs::File::open(&folder).map_err(|error| Error::File(folder, error))?;
    let link = program.attach_cgroup(cgroup.as_raw_fd());
    link.map(Some).map_err(Error::kernel("attach the telemetry to cgroup2"))
}

fn map(set: &Path, name: &str) -> Result<MapHandle, Error> {
    let path = set.join(name);
    MapHandle::from_pinned_path(&path).map_err(Error::kernel(format!("open {}", path.display())))
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}

fn version() -> u64 {
    VERSION.parse().expect("the build script writes a number")
}

fn write_params(map: &MapHandle, params: &Params) -> Result<(), Error> {
    map.update(&KEY, &bytes(params), MapFlags::ANY).map_err(Error::kernel("write the parameters"))
}

/// Unregisters a control. Its connections continue and move to the kernel's default control with
/// their next acknowledgement. Returns whether it was loaded.
///
/// # Errors
/// If it was loaded elsewhere, or the kernel refuses.
pub fn unload(control: Control, pins: &Path) -> Result<bool, Error> {
    log::begin();
    preflight::require_pins(pins)?;
    pins::remove_abandoned(pins)?;
    let set = pins.join(control.name);
    if !set.exists() {
        return match control.is_registered() {
            true => Err(loaded_elsewhere(control, pins)),
            false => Ok(false),
        };
    }
    own(control, &set)?;
    let settings = map(&set, "settings")?;
    drain(&settings, true)?;
    crash_point("drain");
    // From here on no connection can choose it, and the pins are out of sight.
    let Some(taken) = pins::take(pins, control.name)? else { return Ok(false) };
    // A `load` may have undone it. One that does so later repeats this.
    drain(&settings, true)?;
    crash_point("unload");
    pins::remove(&taken)?;
    Ok(true)
}

/// The error for a control that is registered without pins in this folder.
fn loaded_elsewhere(control: Control, pins: &Path) -> Error {
    Error::Usage(format!(
        "{} is registered, but has no pins in {}: unload it where it was loaded, in the same \
         mount namespace, or end the process that holds it",
        control.name,
        pins.display()
    ))
}

/// Whether connections move to the kernel's default control.
fn drain(settings: &MapHandle, moves: bool) -> Result<(), Error> {
    write_settings(settings, moves, &read_version(settings)?)
}

/// The words of the settings behind the fallback's name; none of an early version.
fn read_version(settings: &MapHandle) -> Result<Vec<u64>, Error> {
    let value = settings.lookup(&KEY, MapFlags::ANY).map_err(Error::kernel("read the settings"))?;
    Ok(words(value.unwrap_or_default().get(8 + NAME_BYTES..).unwrap_or_default()))
}

fn write_settings(settings: &MapHandle, moves: bool, version: &[u64]) -> Result<(), Error> {
    let mut value = bytes(&[moves.into()]);
    let mut fallback = default_control().into_bytes();
    fallback.resize(NAME_BYTES, 0);
    value.extend(fallback);
    value.extend(bytes(version));
    let written = settings.update(&KEY, &value, MapFlags::ANY);
    written.map_err(Error::kernel("write the settings"))
}

/// Fails if another version has loaded the control, because its words may have other meanings, or
/// if its telemetry was removed.
fn require_current(control: Control, set: &Path) -> Result<(), Error> {
    let fault = if read_version(&map(set, "settings")?)? != [version()] {
        "loaded by another version of tidegate"
    } else if control.has_telemetry() && !is_attached(&set.join(TELEMETRY)) {
        "its program for TCP options is no longer attached"
    } else {
        return Ok(());
    };
    let name = control.name;
    Err(Error::Usage(format!("{name}: {fault}; unload the control and load it again")))
}

/// Whether this is a link of a cgroup; one that was detached has none.
fn is_attached(path: &Path) -> bool {
    let info = Link::open(path).and_then(|link| link.info());
    matches!(info.map(|info| info.info), Ok(LinkTypeInfo::Cgroup(of)) if of.cgroup_id != 0)
}

/// The control of new connections; one that is not of this crate.
fn default_control() -> String {
    let default = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control");
    fallback(default.unwrap_or_default().trim())
}

fn fallback(default: &str) -> String {
    let is_own = Control::ALL.iter().any(|control| control.name == default);
    if is_own || default.is_empty() { "reno".into() } else { default.to_owned() }
}

/// Loaded controls. The error of one set does not hide the others.
///
/// # Errors
/// If the folder of pins cannot be read.
pub fn controls(pins: &Path) -> Result<Vec<Result<ControlStatus, Error>>, Error> {
    log::begin();
    let sets = pins::sets(pins)?;
    let loaded =
        Control::ALL.into_iter().filter(|control| sets.iter().any(|set| set == control.name));
    Ok(loaded.map(|control| status(control, &pins.join(control.name))).collect())
}

/// Controls that are registered without pins in this folder, and folders of other programs in it.
///
/// # Errors
/// If the folder of pins cannot be read.
pub fn foreign(pins: &Path) -> Result<Vec<Error>, Error> {
    let mut sets = pins::sets(pins)?;
    let is_unpinned =
        |control: &Control| control.is_registered() && !sets.iter().any(|set| set == control.name);
    let controls = Control::ALL.into_iter().filter(is_unpinned);
    let mut errors: Vec<_> = controls.map(|control| loaded_elsewhere(control, pins)).collect();
    let is_name = |set: &str| Control::ALL.iter().any(|control| control.name == set);
    sets.retain(|set| !is_name(set) && !set.starts_with(PREFIX));
    errors.extend(sets.iter().map(|set| {
        Error::Foreign(format!(
            "{}: not of tidegate; remove it if nothing else uses it",
            pins.join(set).display()
        ))
    }));
    Ok(errors)
}

fn status(control: Control, set: &Path) -> Result<ControlStatus, Error> {
    own(control, set)?;
    require_current(control, set)?;
    let read = |error| Error::kernel(format!("read {}", set.display()))(error);
    let all = map(set, "counters")?.lookup_percpu(&KEY, MapFlags::ANY).map_err(read)?;
    let all: Vec<_> = all.unwrap_or_default().iter().map(|cpu| words(cpu)).collect();
    let sum = |at: usize| all.iter().map(|cpu| cpu.get(at).copied().unwrap_or(0)).sum();
    let found = map(set, "params")?.lookup(&KEY, MapFlags::ANY).map_err(read)?;
    let found = words(&found.unwrap_or_default());
    let mut params = Params::default();
    params.iter_mut().zip(found).for_each(|(to, from)| *to = from);
    let counters = COUNTERS.iter().enumerate().map(|(at, name)| (*name, sum(at))).collect();
    Ok(ControlStatus { control, params, counters })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_fall_back_to_controls_of_others() {
        for (default, expected) in
            [("cubic", "cubic"), ("tg_swift", "reno"), ("tg_other", "tg_other"), ("", "reno")]
        {
            assert_eq!(fallback(default), expected);
        }
    }
}
