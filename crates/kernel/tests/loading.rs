//! Loading and unloading, as root on a kernel with BPF; elsewhere the tests report the reason and
//! pass, unless `TIDEGATE_KERNEL=required`.

#![allow(clippy::disallowed_types, reason = "a test measures how long a paced transfer takes")]

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use libbpf_rs::{Link, MapCore, MapFlags, MapHandle};
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{getsockopt, setsockopt};
use tidegate_core::params::Value;
use tidegate_core::{Rate, Span};
use tidegate_kernel::{
    Control, Error, Fabric, Loaded, Params, controls, foreign, load, preflight, remove_abandoned,
    unload,
};

use crate::faults::wait;

/// Names of controls are global: one test at a time.
static ONE: Mutex<()> = Mutex::new(());

/// A folder for pins, and the right to use names. `None` if the machine cannot load programs.
pub(super) fn place(name: &str) -> Option<(MutexGuard<'static, ()>, PathBuf)> {
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let pins = PathBuf::from(format!("/sys/fs/bpf/tidegate-dev-{}-{name}", std::process::id()));
    let unmet = preflight(&pins).into_iter().filter(|check| check.met == Some(false));
    let mut reasons: Vec<_> =
        unmet.map(|check| format!("{}: {}", check.name, check.found)).collect();
    if available().contains("tg_") {
        reasons.push("controls of this machine are loaded".into());
    }
    if reasons.is_empty() {
        return Some((guard, pins));
    }
    assert!(std::env::var_os("TIDEGATE_KERNEL").is_none(), "{reasons:?}");
    eprintln!("SKIPPED: programs cannot be loaded here: {reasons:?}");
    None
}

fn params(control: Control) -> Params {
    let fabric = Fabric { base_rtt: Span::us(50), rate: Rate::gbps(10), hops: 1 };
    Control::params(&control.protocol.stack(), &fabric).unwrap()
}

fn available() -> String {
    fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control").unwrap()
}

fn is_empty(pins: &Path) -> bool {
    fs::read_dir(pins).map_or(true, |mut entries| entries.next().is_none())
}

#[test]
fn controls_load_and_unload() {
    let Some((_guard, pins)) = place("all") else { return };
    for control in Control::ALL {
        let params = params(control);
        let rounds_up = ["tg_powertcp", "tg_theta"].contains(&control.name);
        assert_eq!(params[14], u64::from(rounds_up), "{}: whole packets", control.name);
        assert_eq!(load(control, &params, &pins).unwrap(), Loaded::New, "{}", control.name);
        assert!(available().contains(control.name));
        // A repetition replaces the parameters.
        let mut other = params;
        other[15] = 7;
        assert_eq!(load(control, &other, &pins).unwrap(), Loaded::Updated);
        let mut status = controls(&pins).unwrap();
        assert_eq!(status.len(), 1);
        assert_eq!(status.remove(0).unwrap().params, other);
        assert!(unload(control, &pins).unwrap());
        assert!(!available().contains(control.name) && is_empty(&pins));
        assert!(!unload(control, &pins).unwrap());
    }
    fs::remove_dir(pins).unwrap();
}

#[test]
fn names_of_others_are_errors_and_nothing_remains() {
    let Some((_guard, pins)) = place("foreign") else { return };
    let control = Control::ALL[0];
    // Another folder stands for another program.
    let others = pins.with_file_name("tidegate-dev-others");
    load(control, &params(control), &others).unwrap();
    let error = load(control, &params(control), &pins).unwrap_err();
    assert!(matches!(error, Error::Foreign(_)), "{error}");
    assert!(error.to_string().starts_with("tg_poseidon: a congestion control of this name"));
    assert!(is_empty(&pins));
    let reported = |pins| foreign(pins).unwrap().iter().map(Error::to_string).collect::<Vec<_>>();
    let error = unload(control, &pins).unwrap_err().to_string();
    assert!(error.starts_with("tg_poseidon is registered, but has no pins in"), "{error}");
    assert_eq!((reported(&pins), reported(&others)), (vec![error], vec![]));
    unload(control, &others).unwrap();
    fs::remove_dir(&others).unwrap();
    // A folder that is not a set of this program.
    fs::create_dir_all(pins.join(control.name)).unwrap();
    for error in
        [load(control, &params(control), &pins).unwrap_err(), unload(control, &pins).unwrap_err()]
    {
        assert!(
            error.to_string().contains("the pin params is missing; remove this folder"),
            "{error}"
        );
    }
    assert!(!available().contains(control.name));
    // It does not hide other controls.
    load(Control::ALL[2], &params(Control::ALL[2]), &pins).unwrap();
    let loaded: Vec<_> = controls(&pins).unwrap().iter().map(Result::is_ok).collect();
    assert_eq!(loaded, [false, true]);
    // Folders with other names are reported.
    fs::create_dir(pins.join("other")).unwrap();
    let expected = format!("{}/other: not of tidegate; remove it if", pins.display());
    assert!(matches!(&reported(&pins)[..], [error] if error.starts_with(&expected)));
    fs::remove_dir(pins.join("other")).unwrap();
    // The pins of one control under the name of another, and behind a link.
    let (own, link) = (Control::ALL[2], pins.join("tg_powertcp"));
    std::os::unix::fs::symlink(pins.join(own.name), &link).unwrap();
    let error = unload(Control::ALL[1], &pins).unwrap_err().to_string();
    assert!(error.contains("not a folder of pins"), "{error}");
    fs::remove_file(&link).unwrap();
    fs::rename(pins.join(own.name), &link).unwrap();
    let error = unload(Control::ALL[1], &pins).unwrap_err().to_string();
    assert!(error.contains("control is not a pin of tg_powertcp"), "{error}");
    fs::rename(&link, pins.join(own.name)).unwrap();
    unload(Control::ALL[2], &pins).unwrap();
    fs::remove_dir(pins.join(control.name)).unwrap();
    fs::remove_dir(pins).unwrap();
}

/// Of another version, only the settings are known.
#[test]
fn unusable_controls_can_only_be_unloaded() {
    let Some((_guard, pins)) = place("version") else { return };
    let control = Control::ALL[0];
    load(control, &params(control), &pins).unwrap();
    let settings = MapHandle::from_pinned_path(pins.join(control.name).join("settings")).unwrap();
    let mut value = settings.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
    *value.last_mut().unwrap() ^= 1;
    settings.update(&[0; 4], &value, MapFlags::ANY).unwrap();
    let errors = [
        load(control, &params(control), &pins).unwrap_err(),
        controls(&pins).unwrap().remove(0).unwrap_err(),
    ];
    for error in errors.map(|error| error.to_string()) {
        assert!(error.contains("loaded by another version of tidegate; unload"), "{error}");
    }
    assert!(unload(control, &pins).unwrap());
    assert_eq!(load(control, &params(control), &pins).unwrap(), Loaded::New);
    // The telemetry of a control whose other pins are there.
    Link::open(pins.join(control.name).join("telemetry")).unwrap().detach().unwrap();
    let error = load(control, &params(control), &pins).unwrap_err().to_string();
    assert!(error.contains("its program for TCP options is no longer attached"), "{error}");
    unload(control, &pins).unwrap();
    fs::remove_dir(pins).unwrap();
}

#[test]
fn two_loads_at_once_leave_one() {
    let Some((_guard, pins)) = place("race") else { return };
    let control = Control::ALL[2];
    let results = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..4).map(|_| scope.spawn(|| load_elsewhere(control, &pins, None))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    // The others find it loaded, or are refused.
    assert!(results.contains(&Some(0)), "{results:?}");
    assert!(results.iter().all(|status| matches!(status, Some(0 | 101))), "{results:?}");
    assert_eq!(fs::read_dir(&pins).unwrap().count(), 1);
    assert_eq!(controls(&pins).unwrap().len(), 1);
    unload(control, &pins).unwrap();
    assert!(is_empty(&pins));
    fs::remove_dir(pins).unwrap();
}

/// Loads in a process of its own, which ends at a step. Returns its exit status.
fn load_elsewhere(control: Control, pins: &Path, crash: Option<&str>) -> Option<i32> {
    let mut child = elsewhere(control, pins);
    if let Some(step) = crash {
        child.env("TIDEGATE_KERNEL_CRASH", step);
    }
    child.output().unwrap().status.code()
}

fn elsewhere(control: Control, pins: &Path) -> Command {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "loading::load_for_another_process", "--ignored", "--quiet"]);
    child.env("TIDEGATE_KERNEL_LOAD", format!("{} {}", control.name, pins.display()));
    child
}

#[test]
#[ignore = "a part of other tests"]
fn load_for_another_process() {
    let Ok(task) = std::env::var("TIDEGATE_KERNEL_LOAD") else { return };
    let (name, pins) = task.split_once(' ').unwrap();
    let control = Control::ALL.into_iter().find(|control| control.name == name).unwrap();
    match std::env::var("TIDEGATE_KERNEL_CRASH").as_deref() {
        Ok("drain" | "unload") => {
            unload(control, Path::new(pins)).unwrap();
        }
        _ => {
            load(control, &params(control), Path::new(pins)).unwrap();
        }
    }
}

#[test]
fn crashes_between_steps_leave_nothing_behind() {
    let Some((_guard, pins)) = place("crash") else { return };
    let control = Control::ALL[0];
    for step in ["maps", "telemetry", "control"] {
        assert_eq!(load_elsewhere(control, &pins, Some(step)), None, "{step}: it must crash");
        assert!(controls(&pins).unwrap().is_empty(), "{step}");
        assert_eq!(load(control, &params(control), &pins).unwrap(), Loaded::New, "{step}");
        assert_eq!(fs::read_dir(&pins).unwrap().count(), 1, "{step}");
        unload(control, &pins).unwrap();
    }
    load(control, &params(control), &pins).unwrap();
    let drains = || {
        let settings = MapHandle::from_pinned_path(pins.join(control.name).join("settings"));
        settings.unwrap().lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap()[0] == 1
    };
    assert_eq!(load_elsewhere(control, &pins, Some("drain")), None);
    assert!(drains());
    assert_eq!(load(control, &params(control), &pins).unwrap(), Loaded::Updated);
    assert!(!drains());
    assert_eq!(load_elsewhere(control, &pins, Some("unload")), None);
    assert!(controls(&pins).unwrap().is_empty());
    assert_eq!(load(control, &params(control), &pins).unwrap(), Loaded::New);
    unload(control, &pins).unwrap();
    fs::remove_dir(pins).unwrap();
}

/// Whether `ip` is installed, which tests with connections need.
pub(super) fn has_ip() -> bool {
    let has = Command::new("ip").arg("-V").output().is_ok();
    assert!(has || std::env::var_os("TIDEGATE_KERNEL").is_none(), "ip is not installed");
    if !has {
        eprintln!("SKIPPED: ip (iproute2) is not installed");
    }
    has
}

/// Calls `ip` and returns its output.
pub(super) fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Enters a network namespace of its own with a loopback interface.
fn isolate() {
    nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWNET).unwrap();
    ip(&["link", "set", "dev", "lo", "up"]);
}

#[test]
fn folders_of_dead_processes_are_removed() {
    let Some((_guard, pins)) = place("abandoned") else { return };
    // No process has this number.
    let namespace = fs::metadata("/proc/self/ns/pid").unwrap().ino();
    let left = pins.join(format!("tmp-{namespace}-4294967295-1-tg_swift"));
    fs::create_dir_all(&left).unwrap();
    assert_eq!([(); 2].map(|()| remove_abandoned(&pins).unwrap()), [true, false]);
    assert!(!left.exists());
    fs::remove_dir(pins).unwrap();
}

/// A connection to itself under a control, and the function to send a megabyte over it.
fn connection(control: &str) -> (TcpStream, impl FnMut()) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    setsockopt(&client, TcpCongestion, &control.into()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut writer = client.try_clone().unwrap();
    let send = move || {
        std::thread::scope(|scope| {
            scope.spawn(|| writer.write_all(&vec![0; 1_000_000]).unwrap());
            server.read_exact(&mut vec![0; 1_000_000]).unwrap();
        });
    };
    (client, send)
}

pub(super) fn counter(pins: &Path, name: &str) -> u64 {
    let status = controls(pins).unwrap().remove(0).unwrap();
    status.counters.iter().find(|(is, _)| *is == name).unwrap().1
}

#[test]
fn connections_survive_unloading() {
    if !has_ip() {
        return;
    }
    for control in Control::ALL {
        let Some((_guard, pins)) = place("survive") else { return };
        load(control, &params(control), &pins).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                isolate();
                let (client, mut send) = connection(control.name);
                send();
                assert_eq!(counter(&pins, "connections"), 1);
                assert!(counter(&pins, "acks") > 0, "{}", control.name);
                unload(control, &pins).unwrap();
                send();
                send();
                let now = getsockopt(&client, TcpCongestion).unwrap();
                assert!(!now.to_string_lossy().starts_with("tg_"), "{now:?}");
                // No new connection can choose it.
                let other = TcpListener::bind("127.0.0.1:0").unwrap();
                assert!(setsockopt(&other, TcpCongestion, &control.name.into()).is_err());
            });
        });
        fs::remove_dir(pins).unwrap();
    }
}

#[test]
fn options_are_returned_without_any_switch() {
    if !has_ip() {
        return;
    }
    for (protocol, stamped) in [("poseidon", 0), ("powertcp", 0)] {
        let Some((_guard, pins)) = place("options") else { return };
        let control = Control::named(protocol).unwrap();
        load(control, &params(control), &pins).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                isolate();
                // The control is chosen after the connection is established.
                let (_client, mut send) = connection(control.name);
                send();
                assert!(counter(&pins, "sent_options") > 0, "{protocol}");
                assert!(counter(&pins, "unstamped") > 0, "{protocol}");
                assert_eq!((counter(&pins, "stamped"), counter(&pins, "foreign")), (stamped, 0));
            });
        });
        unload(control, &pins).unwrap();
        fs::remove_dir(pins).unwrap();
    }
}

#[test]
fn windows_below_one_packet_are_paced() {
    if !has_ip() {
        return;
    }
    // No RTT is below the target, so windows fall to their minimum. Acknowledgements of single
    // packets may be delayed, in both cases.
    let time = |min_cwnd: f64| {
        let (_guard, pins) = place("pace")?;
        let control = Control::named("swift").unwrap();
        let mut stack = control.protocol.stack();
        for (name, value) in [
            ("base_target", Value::Span(Span::ns(100))),
            ("per_hop", Value::Span(Span::ZERO)),
            ("fs_range", Value::Span(Span::ZERO)),
            ("min_cwnd", Value::Number(min_cwnd)),
        ] {
            stack.set(name, value).unwrap();
        }
        let fabric = Fabric { base_rtt: Span::us(50), rate: Rate::gbps(10), hops: 1 };
        load(control, &Control::params(&stack, &fabric).unwrap(), &pins).unwrap();
        let transfer = || {
            isolate();
            let (_client, mut send) = connection(control.name);
            // The kernel does not pace the first ten segments.
            send();
            let begin = Instant::now();
            send();
            begin.elapsed()
        };
        let time = std::thread::scope(|scope| scope.spawn(transfer).join().unwrap());
        unload(control, &pins).unwrap();
        fs::remove_dir(pins).unwrap();
        Some(time)
    };
    let (Some(one), Some(less)) = (time(1.0), time(0.01)) else { return };
    println!("{one:?} with one packet, {less:?} with a hundredth");
    assert!(less > 3 * one, "{one:?} {less:?}");
}

/// `unload` waits before it moves the set, or `load` before it ends the draining.
#[test]
fn unloading_beside_loading_moves_connections() {
    let Some((_guard, pins)) = place("beside") else { return };
    let control = Control::ALL[2];
    for step in ["drain", "undrain"] {
        let mut first = params(control);
        first[0] += 1;
        load(control, &first, &pins).unwrap();
        let settings = pins.join(control.name).join("settings");
        let settings = MapHandle::from_pinned_path(settings).unwrap();
        let drains = || settings.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap()[0] == 1;
        let go = std::env::temp_dir().join(format!("tidegate-go-{}-{step}", std::process::id()));
        let mut child = elsewhere(control, &pins);
        child.env("TIDEGATE_KERNEL_CRASH", step).env("TIDEGATE_KERNEL_GO", &go);
        let mut child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        if step == "drain" {
            wait("unload does not begin", drains);
            assert_eq!(load(control, &params(control), &pins).unwrap(), Loaded::Updated);
        } else {
            let now = || controls(&pins).unwrap().remove(0).unwrap().params;
            wait("load does not begin", || now() != first);
            unload(control, &pins).unwrap();
        }
        fs::write(&go, "").unwrap();
        assert_eq!(child.wait().unwrap().success(), step == "drain");
        assert!(drains() && is_empty(&pins), "{step}");
        fs::remove_file(go).unwrap();
    }
    fs::remove_dir(pins).unwrap();
}
