//! Hosts with plain sockets at a switch.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

pub mod namespaces;

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::sockopt::{IpRecvTos, RcvBuf, ReceiveTimestampns};
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrIn, recvmsg, sendmsg, setsockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use tidegate_core::fabric::{
    Buffer, Fabric, Link, Node, Routing, Stamping, Switch, TelemetryResolution,
};
use tidegate_core::wire::telemetry;
use tidegate_core::{Frame, HopTrace, Rate, Span, frame_flag};
use tidegate_switch::{Config, Places, Report, SoftwareSwitch};

/// Payload of most datagrams, and their size on the wire.
const PAYLOAD_BYTES: usize = 934;
pub const WIRE_BYTES: usize = PAYLOAD_BYTES + 66;

/// Arbitrary payload, with a number at its end.
pub fn payload(number: u32) -> Vec<u8> {
    let mut bytes = vec![0; PAYLOAD_BYTES];
    bytes[PAYLOAD_BYTES - 4..].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// A payload that requests both kinds of telemetry, with a number at its end.
pub fn request(number: u32) -> Vec<u8> {
    let flags = frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS;
    let frame = Frame { flags, ..Frame::default() };
    let mut bytes = vec![0; telemetry::MOST_BYTES];
    let length = telemetry::emit(&frame, &HopTrace::default(), &mut bytes).unwrap();
    bytes.truncate(length);
    bytes.extend(payload(number));
    bytes
}

/// A received datagram.
#[derive(Clone, Debug)]
pub struct Arrived {
    pub bytes: Vec<u8>,
    pub tos: u8,
    pub from: SocketAddrV4,
    /// Time of reception by the kernel, in seconds.
    pub at: f64,
}

impl Arrived {
    /// The number given to [`payload`].
    pub fn number(&self) -> u32 {
        u32::from_be_bytes(self.bytes[self.bytes.len() - 4..].try_into().unwrap())
    }
}

pub struct Host(UdpSocket);

impl Host {
    pub fn new() -> Host {
        Host::at(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))
    }

    pub fn at(address: SocketAddrV4) -> Host {
        let socket = UdpSocket::bind(address).unwrap();
        setsockopt(&socket, IpRecvTos, &true).unwrap();
        setsockopt(&socket, ReceiveTimestampns, &true).unwrap();
        setsockopt(&socket, RcvBuf, &(4 << 20)).unwrap();
        Host(socket)
    }

    fn address(&self) -> SocketAddrV4 {
        match self.0.local_addr().unwrap() {
            SocketAddr::V4(address) => address,
            SocketAddr::V6(_) => unreachable!(),
        }
    }

    /// The clock of [`Arrived::at`].
    pub fn clock(&self) -> Duration {
        clock_gettime(ClockId::CLOCK_REALTIME).unwrap().into()
    }

    pub fn send(&self, to: SocketAddrV4, tos: u8, bytes: &[u8]) {
        let control = [ControlMessage::Ipv4Tos(&tos)];
        let (slices, to) = ([IoSlice::new(bytes)], SockaddrIn::from(to));
        sendmsg(self.0.as_raw_fd(), &slices, &control, MsgFlags::empty(), Some(&to)).unwrap();
    }

    /// Receives datagrams until none arrives for `quiet`.
    pub fn all(&self, quiet: Duration) -> Vec<Arrived> {
        self.0.set_read_timeout(Some(quiet)).unwrap();
        let mut all = Vec::new();
        let (mut bytes, mut control) = (vec![0; 65_535], cmsg_space!(u8, TimeSpec));
        loop {
            let mut slices = [IoSliceMut::new(&mut bytes)];
            let fd = self.0.as_raw_fd();
            let none = MsgFlags::empty();
            let message = match recvmsg::<SockaddrIn>(fd, &mut slices, Some(&mut control), none) {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return all,
                Err(why) => panic!("{why}"),
            };
            let (mut tos, mut at) = (0, Duration::ZERO);
            for control in message.cmsgs().unwrap() {
                match control {
                    ControlMessageOwned::Ipv4Tos(of) => tos = of,
                    ControlMessageOwned::ScmTimestampns(of) => at = of.into(),
                    other => panic!("{other:?}"),
                }
            }
            let (length, from) = (message.bytes, message.address.unwrap().into());
            all.push(Arrived { bytes: bytes[..length].to_vec(), tos, from, at: at.as_secs_f64() });
        }
    }
}

/// Runs `make` in a namespace: sockets stay in the namespace of their creation.
pub fn within<T: Send>(
    namespaces: &namespaces::Namespaces,
    end: &str,
    make: impl FnOnce() -> T + Send,
) -> T {
    let namespace = File::open(format!("/run/netns/{}", namespaces.name(end))).unwrap();
    let there = || {
        setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
        make()
    };
    thread::scope(|scope| scope.spawn(there).join().unwrap())
}

/// A switch with telemetry and a large buffer.
pub fn switch() -> Switch {
    Switch {
        name: "s0".into(),
        latency: Span::ZERO,
        telemetry: Stamping::All,
        telemetry_resolution: TelemetryResolution::EXACT,
        buffer: Buffer::Shared { bytes: 10_000_000, alpha: 8.0 },
        ecn: None,
        priorities: 8,
        pausing: None,
        credit_queue: None,
        trimming: None,
    }
}

/// Hosts at a switch.
pub struct Network {
    pub config: Config,
    pub hosts: Vec<Host>,
}

/// A number of hosts, each at its own port.
pub fn config(switch: Switch, hosts: usize, rate: Rate) -> Network {
    around(switch, (0..hosts).map(|_| Host::new()).collect(), rate)
}

/// Given hosts, each at its own port.
pub fn around(switch: Switch, hosts: Vec<Host>, rate: Rate) -> Network {
    let link = |host| Link { a: Node::Host(host), b: Node::Switch(0), rate, delay: Span::ZERO };
    let links = (0..hosts.len() as u32).map(link).collect();
    over(fabric(vec![switch], links, hosts.len()), hosts)
}

pub fn fabric(switches: Vec<Switch>, links: Vec<Link>, hosts: usize) -> Fabric {
    let hosts = (0..hosts).map(|number| format!("h{number}")).collect();
    Fabric { hosts, switches, links, mtu: 1_000, ..Fabric::default() }
}

/// Given hosts, each as one host of a fabric.
pub fn over(fabric: Fabric, hosts: Vec<Host>) -> Network {
    let listen = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
    let places = hosts.iter().map(|host| vec![host.address()]).collect();
    let places = Places::Addresses { hosts: places, listen };
    let config = Config {
        fabric,
        routing: Routing::Ecmp,
        places,
        uplinks: false,
        sized: false,
        clock: None,
        seed: 1,
    };
    Network { config, hosts }
}

/// Runs `job` with the hosts and their paths while the switch forwards. Returns its result and the
/// report of the switch.
pub fn through<T>(
    network: Network,
    job: impl FnOnce(&[Host], &[SocketAddrV4]) -> T,
) -> (T, Report) {
    let switch = SoftwareSwitch::open(&network.config).unwrap();
    forwarding(switch, &network.hosts, job)
}

/// The same for an open switch.
pub fn forwarding<T>(
    mut switch: SoftwareSwitch,
    hosts: &[Host],
    job: impl FnOnce(&[Host], &[SocketAddrV4]) -> T,
) -> (T, Report) {
    let paths: Vec<SocketAddrV4> = switch.paths().iter().map(|path| path.at).collect();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let running = scope.spawn(|| {
            switch.run(|_| !over.load(Ordering::Relaxed)).unwrap();
            switch.report()
        });
        let result = job(hosts, &paths);
        over.store(true, Ordering::Relaxed);
        (result, running.join().unwrap())
    })
}
