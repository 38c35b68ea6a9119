//! Stamping of a queue between two interfaces, in network namespaces, as root.

use std::fs::{self, File};
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::Command;

use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, recv, sendto,
    setsockopt, socket,
};
use nix::sys::time::TimeVal;
use tidegate_core::Rate;
use tidegate_core::wire::tcp_option::rate_code;
use tidegate_kernel::{Port, PortStatus, peer, ports, stamp, unstamp};

use crate::faults::net::within;
use crate::faults::wait;
use crate::loading::{has_ip, ip, place};

/// A network namespace, removed when dropped.
struct Netns(String);

impl Netns {
    fn new(name: &str) -> Netns {
        let name = format!("tgp-{}-{name}", std::process::id());
        ip(&["netns", "add", &name]);
        Netns(name)
    }

    fn ip(&self, arguments: &[&str]) {
        ip(&[&["-n", &self.0], arguments].concat());
    }

    /// Two ends of a link.
    fn pair(&self, near: &str, far: &str) {
        self.ip(&["link", "add", "name", near, "type", "veth", "peer", "name", far]);
    }

    /// Sets a queueing discipline; false if the machine lacks it.
    fn queue(&self, interface: &str, queue: &[&str]) -> bool {
        let mut tc = Command::new("tc");
        tc.args(["-n", &self.0, "qdisc", "replace", "dev", interface, "root"]).args(queue);
        let done = tc.output().is_ok_and(|output| output.status.success());
        if !done {
            eprintln!("SKIPPED: the machine lacks tc or the queueing discipline {}", queue[0]);
        }
        done
    }

    /// Sends packets of 1,042 bytes from `q0` to an address that `q1` does not have.
    fn send(&self, packets: usize) {
        self.ip(&["addr", "replace", "10.79.0.1/24", "dev", "q0"]);
        ["q0", "q1"].iter().for_each(|end| self.ip(&["link", "set", "dev", end, "up"]));
        let neighbour = ["neigh", "replace", "10.79.0.2", "lladdr", "02:00:00:00:00:01"];
        self.ip(&[&neighbour[..], &["dev", "q0"]].concat());
        within(&self.0, || {
            let socket = UdpSocket::bind("10.79.0.1:0").unwrap();
            for _ in 0..packets {
                socket.send_to(&[0; 1_000], "10.79.0.2:9").unwrap();
            }
        });
    }

    /// Sends a segment with an option from `q0`. [`Netns::send`] has set the addresses.
    fn send_option(&self, option: &[u8]) {
        within(&self.0, || {
            let (kind, flags) = (SockType::Raw, SockFlag::empty());
            let raw = socket(AddressFamily::Inet, kind, flags, SockProtocol::Tcp).unwrap();
            let words = (20 + option.len() as u8) / 4;
            let head =
                [0x12, 0x34, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2, words << 4, 0x10, 1, 0, 0, 0, 0, 0];
            let to = SockaddrIn::new(10, 79, 0, 2, 0);
            let segment = [&head, option].concat();
            sendto(raw.as_raw_fd(), &segment, &to, MsgFlags::empty()).unwrap();
        });
    }

    /// A bridge that joins a link `q0` to `q1` and one `x0` to `x1`.
    fn bridge(&self) {
        self.ip(&["link", "add", "name", "br0", "type", "bridge"]);
        for (near, far, port) in [("q0", "q1", "q1"), ("x0", "x1", "x0")] {
            self.pair(near, far);
            self.ip(&["link", "set", "dev", near, "addrgenmode", "none"]);
            self.ip(&["link", "set", "dev", port, "master", "br0"]);
        }
        ["br0", "x0", "x1"].iter().for_each(|name| self.ip(&["link", "set", "dev", name, "up"]));
    }

    /// Receives the frames of all interfaces: at `x1` with the stamps.
    fn frames(&self) -> OwnedFd {
        let (kind, flags) = (SockType::Raw, SockFlag::empty());
        let open = || socket(AddressFamily::Packet, kind, flags, SockProtocol::EthAll).unwrap();
        let frames = within(&self.0, open);
        setsockopt(&frames, ReceiveTimeout, &TimeVal::new(10, 0)).unwrap();
        frames
    }

    fn port(&self, interface: &str, peer: &str) -> Port {
        Port { interface: interface.into(), peer: peer.into(), netns: Some(self.0.clone()) }
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).output();
    }
}

const TBF: [&str; 7] = ["tbf", "rate", "8mbit", "burst", "1600", "limit", "1000000"];

fn count(status: &PortStatus, name: &str) -> u64 {
    status.counters.iter().find(|(is, _)| *is == name).unwrap().1
}

#[test]
fn delays_of_a_queue_are_counted() {
    const PACKETS: usize = 20;
    if !has_ip() {
        return;
    }
    let Some((_guard, pins)) = place("delays") else { return };
    let netns = Netns::new("delays");
    netns.pair("q0", "q1");
    netns.ip(&["link", "set", "dev", "q0", "addrgenmode", "none"]);
    if !netns.queue("q0", &TBF) {
        return;
    }
    assert_eq!(peer("q0", Some(&netns.0)).unwrap(), "q1");
    // Records have the queue's rate, also if the user's is rounded.
    for rate in [None, Some(Rate::bps(8_100_000))] {
        let used = stamp(&netns.port("q0", "q1"), rate, &pins).unwrap();
        assert_eq!(used, Some(Rate::mbps(8)));
    }
    netns.send(PACKETS);
    let status = || ports(&pins).unwrap().remove(0).unwrap();
    wait("packets are missing", || count(&status(), "packets") >= PACKETS as u64);
    let status = status();
    assert_eq!((status.is_attached, status.rate), (true, Some(Rate::mbps(8))));
    let [marked, packets, bytes] = ["marked", "packets", "bytes"].map(|name| count(&status, name));
    assert_eq!((marked, packets, bytes), (20, 20, 20 * 1_042), "{status:?}");
    // A packet takes 1.04 ms at this rate; the bucket holds one and a half.
    let (sum, longest) = (count(&status, "delay_ns"), count(&status, "max_delay_ns"));
    assert!(longest > 15_000_000 && sum > 150_000_000, "{status:?}");
    assert!(sum < longest * packets, "{status:?}");
    // The rate of the queue changes without stamping.
    let rate = [&["tbf", "rate", "4mbit"], &TBF[3..]].concat();
    assert_eq!(status.queue_rate, Some(Rate::mbps(8)));
    assert!(netns.queue("q0", &rate));
    let changed = ports(&pins).unwrap().remove(0).unwrap();
    assert_eq!((changed.rate, changed.queue_rate), (status.rate, Some(Rate::mbps(4))));
    // The programs are detached with the interface; the set remains until it is removed.
    netns.ip(&["link", "del", "q0"]);
    assert!(!ports(&pins).unwrap()[0].as_ref().unwrap().is_attached);
    // A folder of another program does not keep it.
    fs::create_dir(pins.join("stamp-x")).unwrap();
    let ended: Vec<_> = unstamp(&pins).unwrap().into_iter().filter_map(Result::ok).collect();
    assert_eq!(ended, [netns.port("q0", "q1")]);
    assert!(ports(&pins).unwrap().iter().all(Result::is_err));
    fs::remove_dir(pins.join("stamp-x")).unwrap();
    fs::remove_dir(pins).unwrap();
}

/// The first record that a switch has filled.
fn first_record(frames: &OwnedFd) -> u64 {
    let mut frame = [0; 2_000];
    loop {
        let length = recv(frames.as_raw_fd(), &mut frame, MsgFlags::empty()).unwrap();
        let option = frame[..length].get(54..).unwrap_or_default();
        if let Some(word) = option.strip_prefix(&[253, 12, 0x74, 0x66])
            && word[0] != 0
        {
            return u64::from_be_bytes(*word.first_chunk().unwrap());
        }
    }
}

#[test]
fn records_have_the_bytes_behind_their_packet() {
    if !has_ip() {
        return;
    }
    let Some((_guard, pins)) = place("behind") else { return };
    let netns = Netns::new("behind");
    netns.bridge();
    // The second packet waits for 0.4 s, in which all others join the queue.
    if !netns.queue("q0", &["tbf", "rate", "10kbit", "burst", "1600", "limit", "1000000"]) {
        return;
    }
    assert!(stamp(&netns.port("q0", "q1"), None, &pins).unwrap().is_some());
    let frames = netns.frames();
    // Together they exceed the burst.
    netns.send(2);
    netns.send_option(&[253, 12, 0x74, 0x66, 0, 0, 0, 0, 0, 0, 0, 0]);
    netns.send(5);
    let record = first_record(&frames);
    unstamp(&pins).unwrap();
    fs::remove_dir(pins).unwrap();
    assert_eq!(record & 0xffff, 5 * 1_042 / 128);
}

#[test]
fn options_that_pass_a_queue_are_stamped() {
    if !has_ip() {
        return;
    }
    let Some((_guard, pins)) = place("stamped") else { return };
    let netns = Netns::new("stamped");
    netns.bridge();
    // Beyond 2^32 bytes per second, the kernel reports the rate in another attribute.
    if !netns.queue("q0", &["tbf", "rate", "40gbit", "burst", "1mb", "limit", "10mb"]) {
        return;
    }
    // A folder of another program does not prevent it.
    fs::create_dir_all(pins.join("stamp-x")).unwrap();
    assert_eq!(stamp(&netns.port("q0", "q1"), None, &pins).unwrap(), Some(Rate::gbps(40)));
    let frames = netns.frames();
    netns.send(1);
    // A delay, a free record, and one that another switch has filled.
    netns.send_option(&[253, 8, 0x74, 0x64, 0, 0, 0, 0]);
    for word in [0, 1] {
        netns.send_option(&[253, 12, 0x74, 0x66, 0, 0, 0, 0, 0, 0, 0, word]);
    }
    let record = first_record(&frames);
    // The bytes before it: a datagram of 1,042 and a segment of 62. Nothing is behind it.
    assert_eq!(
        (record >> 52, record >> 16 & 0xffff, record & 0xffff),
        (rate_code(Rate::gbps(40)), 1_104 / 64, 0)
    );
    let status = || ports(&pins).unwrap().remove(0).unwrap();
    wait("packets are missing", || count(&status(), "packets") >= 4);
    let counts = ["stamped", "full"].map(|name| count(&status(), name));
    unstamp(&pins).unwrap();
    fs::remove_dir(pins.join("stamp-x")).unwrap();
    fs::remove_dir(pins).unwrap();
    assert_eq!(counts, [2, 1]);
}

#[test]
fn interfaces_without_a_queue_between_are_refused() {
    if !has_ip() {
        return;
    }
    let Some((_guard, pins)) = place("refused") else { return };
    let netns = Netns::new("refused");
    netns.pair("q0", "q1");
    netns.pair("x0", "x1");
    netns.ip(&["link", "add", "name", "br0", "type", "bridge"]);
    let far = Netns::new("far");
    netns.ip(&["link", "add", "name", "y0", "type", "veth", "peer", "name", "y1", "netns", &far.0]);
    let refused = |interface: &str, peer: &str, rate: Option<Rate>| {
        stamp(&netns.port(interface, peer), rate, &pins).unwrap_err().to_string()
    };
    for (interface, peer, expected) in [
        ("q0", "q1", "has no queueing discipline"),
        ("q0", "q0", "are not the ends of one veth pair"),
        ("q0", "x1", "are not the ends of one veth pair"),
        ("br0", "q0", "are not the ends of one veth pair"),
        ("q0", "nowhere", "there is no interface nowhere in"),
    ] {
        let error = refused(interface, peer, None);
        assert!(error.contains(expected), "{interface} {peer}: {error}");
    }
    let elsewhere = peer("y0", Some(&netns.0)).unwrap_err().to_string();
    assert!(elsewhere.contains("with both ends in one namespace"), "{elsewhere}");
    if netns.queue("q0", &["fq"]) {
        let error = refused("q0", "q1", None);
        assert!(error.contains("fq, which interprets the times"), "{error}");
    }
    if netns.queue("q0", &TBF) {
        let error = refused("q0", "q1", Some(Rate::mbps(9)));
        assert!(error.contains("found 9Mbps, but the queueing discipline tbf"), "{error}");
        assert!(refused("q1", "q0", None).contains("has no queueing discipline"));
    }
    assert!(ports(&pins).unwrap().is_empty());
}

#[test]
fn stamping_follows_a_renamed_interface() {
    if !has_ip() {
        return;
    }
    let Some((_guard, pins)) = place("renamed") else { return };
    let netns = Netns::new("renamed");
    netns.pair("q0", "q1");
    if !netns.queue("q0", &TBF) {
        return;
    }
    stamp(&netns.port("q0", "q1"), None, &pins).unwrap();
    netns.send(3);
    netns.ip(&["link", "set", "dev", "q0", "down"]);
    netns.ip(&["link", "set", "dev", "q0", "name", "x0"]);
    let port = netns.port("x0", "q1");
    stamp(&port, None, &pins).unwrap();
    let all = ports(&pins).unwrap();
    let [Ok(status)] = &all[..] else { panic!("{all:?}") };
    assert_eq!((&status.port, status.is_attached), (&port, true));
    assert!(count(status, "marked") >= 3, "{status:?}");
    assert_eq!(unstamp(&pins).unwrap().len(), 1);
    fs::remove_dir(pins).unwrap();
}

/// The interfaces of a namespace that was deleted and made again have the same numbers.
#[test]
fn stamping_follows_a_namespace_that_was_made_again() {
    if !has_ip() {
        return;
    }
    let Some((_guard, pins)) = place("again") else { return };
    let mut netns = Netns::new("again");
    // The first namespace lives on.
    let _held = File::open(format!("/run/netns/{}", netns.0)).unwrap();
    for again in [false, true] {
        if again {
            drop(netns);
            netns = Netns::new("again");
        }
        netns.pair("q0", "q1");
        if !netns.queue("q0", &TBF) {
            return;
        }
        for _ in 0..2 {
            stamp(&netns.port("q0", "q1"), None, &pins).unwrap();
        }
        let marked = || count(ports(&pins).unwrap()[0].as_ref().unwrap(), "marked");
        let before = marked();
        netns.send(3);
        assert!(marked() >= before + 3, "{again}: {before} to {}", marked());
    }
    unstamp(&pins).unwrap();
    fs::remove_dir(pins).unwrap();
}
