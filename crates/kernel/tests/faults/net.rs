//! Two network namespaces joined by one link, with faults of the link, and connections over it.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{SocketAddr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use libbpf_rs::{
    Link, MapCore, MapFlags, MapHandle, Object, ObjectBuilder, TC_INGRESS, TcHookBuilder,
};
use nix::net::if_::if_nametoindex;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::TcpCongestion;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, sendto, setsockopt,
    socket,
};
use tidegate_kernel::FAULT_PROGRAM;

use crate::loading::has_ip;

/// `struct tg_fault` of bpf/fault.bpf.c.
#[derive(Clone, Copy, Default)]
pub(crate) struct Fault {
    pub(crate) forward: u64,
    pub(crate) backward: u64,
    pub(crate) delay_ns: u64,
    pub(crate) loss: f64,
    pub(crate) pipe_bytes: u64,
    /// Hops that write records; 0 as 1.
    pub(crate) hops: u64,
}

pub(crate) const STAMP: u64 = 1;
pub(crate) const STRIP: u64 = 2;
pub(crate) const CORRUPT: u64 = 3;
pub(crate) const LIE: u64 = 4;

/// `struct tg_seen`, the words that tests use.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) bytes: u64,
    pub(crate) dropped: u64,
    pub(crate) changed: u64,
    pub(crate) largest: u64,
    /// Bytes of the shortest option that returned records; 0 without any.
    pub(crate) shortest: u64,
}

/// Reports why a test is skipped; where the programs must work it fails.
fn skip(reason: &str) {
    assert!(std::env::var_os("TIDEGATE_KERNEL").is_none(), "{reason}");
    eprintln!("SKIPPED: {reason}");
}

fn run(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {output:?}");
    output
}

/// Namespaces `a`, which sends, and `b`; removed when dropped.
pub(crate) struct Network {
    pub(crate) a: String,
    pub(crate) b: String,
    maps: Vec<MapHandle>,
}

impl Network {
    /// A link without offloads, whose segments the programs receive one by one. `None` if the
    /// machine lacks something.
    pub(crate) fn new(test: &str) -> Option<Network> {
        if !has_ip() {
            return None;
        }
        if Command::new("ethtool").arg("--version").output().is_err() {
            skip("ethtool is not installed");
            return None;
        }
        let name = |end| format!("tgf-{}-{test}-{end}", std::process::id());
        let mut network = Network { a: name("a"), b: name("b"), maps: Vec::new() };
        let (a, b) = (network.a.as_str(), network.b.as_str());
        run("ip", &["netns", "add", a]);
        run("ip", &["netns", "add", b]);
        let link = ["link", "add", "name", "v0", "type", "veth", "peer", "name", "v1", "netns", b];
        run("ip", &[&["-n", a][..], &link].concat());
        for (netns, interface, address) in [(a, "v0", "10.78.0.1/24"), (b, "v1", "10.78.0.2/24")] {
            run("ip", &["-n", netns, "addr", "add", address, "dev", interface]);
            let v6 = format!("fd00::{}", address.replace("10.78.0.", "").replace("/24", "/64"));
            run("ip", &["-n", netns, "addr", "add", &v6, "dev", interface, "nodad"]);
            run("ip", &["-n", netns, "link", "set", "dev", interface, "up"]);
        }
        network.offloads(false);
        match network.attach() {
            Ok(maps) => network.maps = maps,
            Err(error) => {
                skip(&format!("the kernel refuses BPF in traffic control: {error}"));
                return None;
            }
        }
        Some(network)
    }

    /// Segmentation, merging and checksums by the network card.
    pub(crate) fn offloads(&self, on: bool) {
        let value = if on { "on" } else { "off" };
        for (netns, interface) in [(&self.a, "v0"), (&self.b, "v1")] {
            let head = ["netns", "exec", netns, "ethtool", "-K", interface];
            let features = ["tx", "gso", "tso", "gro"].into_iter().flat_map(|name| [name, value]);
            run("ip", &head.into_iter().chain(features).collect::<Vec<_>>());
        }
    }

    /// Sets the MTU of both ends.
    pub(crate) fn mtu(&self, bytes: u32) {
        for (netns, interface) in [(&self.a, "v0"), (&self.b, "v1")] {
            run("ip", &["-n", netns, "link", "set", "dev", interface, "mtu", &bytes.to_string()]);
        }
    }

    /// Queues acknowledgements for this rate; false if the machine cannot.
    pub(crate) fn limit_acks(&self, rate: &str) -> bool {
        Network::limit(&self.b, "v1", rate)
    }

    /// Queues data at the sender's interface, packet by packet, for this rate; false if the machine
    /// cannot.
    pub(crate) fn limit_data(&self, rate: &str) -> bool {
        run("ip", &["-n", &self.a, "link", "set", "dev", "v0", "gso_max_segs", "1"]);
        Network::limit(&self.a, "v0", rate)
    }

    /// Sets the queueing discipline of the sender's interface; false if the machine lacks it.
    pub(crate) fn queue_data(&self, kind: &str) -> bool {
        let mut tc = Command::new("tc");
        tc.args(["-n", &self.a, "qdisc", "replace", "dev", "v0", "root", kind]);
        let done = tc.output().is_ok_and(|output| output.status.success());
        if !done {
            eprintln!("SKIPPED: the machine lacks tc or the queueing discipline {kind}");
        }
        done
    }

    /// Packets that wait at the sender's interface.
    pub(crate) fn waiting(&self) -> u64 {
        let output = run("tc", &["-n", &self.a, "-j", "-s", "qdisc", "show", "dev", "v0"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let (_, after) = text.split_once("\"qlen\":").unwrap();
        after[..after.find([',', '}']).unwrap()].trim().parse().unwrap()
    }

    fn limit(netns: &str, interface: &str, rate: &str) -> bool {
        let queue = ["qdisc", "add", "dev", interface, "root", "tbf", "rate", rate];
        let sizes = ["burst", "1600", "limit", "1000000"];
        let mut tc = Command::new("tc");
        tc.args(["-n", netns]).args(queue).args(sizes);
        let done = tc.output().is_ok_and(|output| output.status.success());
        if !done {
            skip("the machine lacks tc or the queueing discipline tbf");
        }
        done
    }

    fn attach(&self) -> Result<Vec<MapHandle>, libbpf_rs::Error> {
        let object = ObjectBuilder::default().open_memory(FAULT_PROGRAM)?.load()?;
        for (netns, interface, name) in [(&self.b, "v1", "forward"), (&self.a, "v0", "backward")] {
            let program = program(&object, name);
            within(netns, || {
                let index = if_nametoindex(interface).unwrap() as i32;
                let mut hook = TcHookBuilder::new(program.as_fd());
                hook.ifindex(index)
                    .handle(1)
                    .priority(1)
                    .hook(TC_INGRESS)
                    .create()?
                    .attach()
                    .map(drop)
            })?;
        }
        let map = |name| object.maps().find(|map| map.name() == name).expect("it has the map");
        ["fault", "seen"].into_iter().map(|name| MapHandle::try_from(&map(name))).collect()
    }

    /// Replaces the faults, and sets the counts to zero.
    pub(crate) fn fault(&self, fault: Fault) {
        let loss = (fault.loss * 2f64.powi(32)) as u64;
        let Fault { forward, backward, delay_ns, pipe_bytes, hops, .. } = fault;
        let words = [forward, backward, delay_ns, loss, pipe_bytes, hops];
        self.write(0, &words.map(u64::to_ne_bytes).concat());
        let mut seen = self.words();
        seen[..5].fill(0);
        seen[7] = 0;
        self.write(1, &seen.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>());
    }

    fn write(&self, map: usize, value: &[u8]) {
        self.maps[map].update(&[0; 4], value, MapFlags::ANY).unwrap();
    }

    fn words(&self) -> Vec<u64> {
        let value = self.maps[1].lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        value.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    pub(crate) fn seen(&self) -> Seen {
        let words = self.words();
        let [bytes, dropped, changed, largest, _, _, shortest] = words[1..] else { unreachable!() };
        Seen { bytes, dropped, changed, largest, shortest }
    }

    /// Sets the sizes of the buffers of sockets, each of which grows from the first to the second.
    pub(crate) fn buffers(&self, first: u32, most: u32) {
        for name in ["tcp_rmem", "tcp_wmem"] {
            self.sysctl(name, &format!("4096 {first} {most}"));
        }
    }

    /// Sets a sysctl of IPv4 in both namespaces.
    pub(crate) fn sysctl(&self, name: &str, value: &str) {
        for netns in [&self.a, &self.b] {
            within(netns, || fs::write(format!("/proc/sys/net/ipv4/{name}"), value).unwrap());
        }
    }

    /// Reports the largest MTU of the path (ICMP "fragmentation needed") for the oldest packet in
    /// flight of a connection of `a`.
    pub(crate) fn report_mtu(&self, client: &TcpStream, bytes: u16) {
        let (SocketAddr::V4(from), SocketAddr::V4(to)) =
            (client.local_addr().unwrap(), client.peer_addr().unwrap())
        else {
            unreachable!("the network has IPv4 only")
        };
        let acked = self.words()[6] as u32;
        let mut report = vec![3, 4, 0, 0, 0, 0];
        report.extend(bytes.to_be_bytes());
        // Header of the packet, without options: version, length, protocol, addresses.
        report.extend([0x45, 0, 5, 220, 0, 0, 0x40, 0, 64, 6, 0, 0]);
        report.extend(from.ip().octets());
        report.extend(to.ip().octets());
        // The first 8 bytes of TCP's.
        report.extend([from.port(), to.port()].map(u16::to_be_bytes).concat());
        report.extend(acked.to_be_bytes());
        let sum: u32 =
            report.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1])).sum();
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        report[2..4].copy_from_slice(&sum.to_be_bytes());
        within(&self.b, || {
            let icmp =
                socket(AddressFamily::Inet, SockType::Raw, SockFlag::empty(), SockProtocol::Icmp);
            let address = SockaddrIn::from(SocketAddrV4::new(*from.ip(), 0));
            sendto(icmp.unwrap().as_raw_fd(), &report, &address, MsgFlags::empty()).unwrap();
        });
    }

    /// Sockets of TCP except listeners and those in TIME_WAIT, which have no storage.
    pub(crate) fn sockets(&self) -> usize {
        let count = |netns| {
            // The same path without `thread-self` shows the namespace of the main thread.
            let table = within(netns, || fs::read_to_string("/proc/thread-self/net/tcp").unwrap());
            let states = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3));
            states.filter(|state| !["06", "0A"].contains(state)).count()
        };
        count(&self.a) + count(&self.b)
    }

    /// Removes the link and the names; sockets keep the namespaces.
    pub(crate) fn delete(&self) {
        run("ip", &["-n", &self.a, "link", "del", "v0"]);
        run("ip", &["netns", "del", &self.a]);
        run("ip", &["netns", "del", &self.b]);
    }

    pub(crate) fn listen(&self) -> TcpListener {
        self.listen_at("0.0.0.0")
    }

    /// Listens at an address of `b`.
    pub(crate) fn listen_at(&self, address: &str) -> TcpListener {
        within(&self.b, || TcpListener::bind((address, 0)).unwrap())
    }

    /// A connection from `a` to a listener in `b`.
    pub(crate) fn connect(&self, listener: &TcpListener) -> Connection {
        let at = listener.local_addr().unwrap();
        let to = if at.is_ipv6() { "fd00::2" } else { "10.78.0.2" };
        let client = within(&self.a, || TcpStream::connect((to, at.port())).unwrap());
        let server = listener.accept().unwrap().0;
        for end in [&client, &server] {
            end.set_read_timeout(Some(STALLED)).unwrap();
            end.set_write_timeout(Some(STALLED)).unwrap();
        }
        Connection { client, server, sent: 0 }
    }

    /// Connections one after the other, with a byte in both directions.
    pub(crate) fn open_and_close(&self, listener: &TcpListener, count: u64) {
        let address = ("10.78.0.2", listener.local_addr().unwrap().port());
        within(&self.a, || {
            for _ in 0..count {
                let mut client = TcpStream::connect(address).unwrap();
                let mut server = listener.accept().unwrap().0;
                client.write_all(&[0]).unwrap();
                server.read_exact(&mut [0]).unwrap();
                server.write_all(&[0]).unwrap();
                client.read_exact(&mut [0]).unwrap();
            }
        });
    }

    /// A connection whose sender is under a control.
    pub(crate) fn connection(&self, control: &str) -> Connection {
        let connection = self.connect(&self.listen());
        setsockopt(&connection.client, TcpCongestion, &control.into()).unwrap();
        connection
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in [&self.a, &self.b] {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn program(object: &Object, name: &str) -> std::os::fd::OwnedFd {
    let program = object.progs_mut().find(|program| program.name() == name);
    program.expect("it has the program").as_fd().try_clone_to_owned().unwrap()
}

/// Another program with callbacks from connections; detached when dropped.
pub(crate) struct Samples {
    count: MapHandle,
    pacing: MapHandle,
    _link: Link,
}

impl Samples {
    pub(crate) fn attach() -> Samples {
        let object = ObjectBuilder::default().open_memory(FAULT_PROGRAM).unwrap().load().unwrap();
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        let mut mounts = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let cgroup = mounts.find(|fields| fields[2] == "cgroup2").unwrap()[1];
        let program = object.progs_mut().find(|program| program.name() == "samples").unwrap();
        let link = program.attach_cgroup(File::open(cgroup).unwrap().as_raw_fd()).unwrap();
        let map = |name| {
            let map = object.maps().find(|map| map.name() == name).unwrap();
            MapHandle::try_from(&map).unwrap()
        };
        Samples { count: map("rtts"), pacing: map("pacing"), _link: link }
    }

    pub(crate) fn count(&self) -> u64 {
        Samples::word(&self.count)
    }

    /// State of pacing (`sk_pacing_status`) of the client that had the last sample.
    pub(crate) fn pacing(&self) -> u64 {
        Samples::word(&self.pacing)
    }

    fn word(map: &MapHandle) -> u64 {
        let value = map.lookup(&[0; 4], MapFlags::ANY).unwrap().unwrap();
        u64::from_ne_bytes(value.try_into().unwrap())
    }
}

/// Calls `f` in a namespace, in a thread of its own.
pub(crate) fn within<T: Send>(netns: &str, f: impl FnOnce() -> T + Send) -> T {
    let file = File::open(format!("/run/netns/{netns}")).unwrap();
    let enter = || {
        setns(&file, CloneFlags::CLONE_NEWNET).unwrap();
        f()
    };
    thread::scope(|scope| scope.spawn(enter).join()).unwrap()
}

/// A transfer without progress for this time has failed.
const STALLED: Duration = Duration::from_secs(30);

pub(crate) struct Connection {
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
    sent: usize,
}

/// Bytes of a stream from a position on.
fn stream(from: usize, bytes: usize) -> Vec<u8> {
    (from..from + bytes).map(|at| (at % 251) as u8).collect()
}

impl Connection {
    /// Sends bytes and compares them at the receiver. After `stop` of them the receiver stops
    /// reading and calls the function.
    pub(crate) fn send_and(&mut self, bytes: usize, stop: usize, f: impl FnOnce(&TcpStream)) {
        let data = stream(self.sent, bytes);
        self.sent += bytes;
        let (mut client, mut server) = (&self.client, &self.server);
        thread::scope(|scope| {
            let writer = scope.spawn(|| client.write_all(&data).unwrap());
            let mut arrived = vec![0; bytes];
            server.read_exact(&mut arrived[..stop]).unwrap();
            if stop < bytes {
                assert!(!writer.is_finished(), "the buffers hold the whole transfer");
                f(&self.client);
            }
            server.read_exact(&mut arrived[stop..]).unwrap();
            assert!(arrived == data, "other bytes arrived");
        });
        // The sender has processed all acknowledgements when it has this byte.
        server.write_all(&[0]).unwrap();
        client.read_exact(&mut [0]).unwrap();
    }

    /// The same connection, whose former receiver sends.
    pub(crate) fn reversed(self) -> Connection {
        Connection { client: self.server, server: self.client, sent: 0 }
    }

    /// Sends until the buffers are full.
    pub(crate) fn fill(&self) {
        self.client.set_nonblocking(true).unwrap();
        while (&self.client).write(&[0; 1 << 16]).is_ok() {}
    }

    pub(crate) fn send(&mut self, bytes: usize) {
        self.send_and(bytes, bytes, |_| ());
    }
}
