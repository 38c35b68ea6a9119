//! Network namespaces: one per host, and one for the switch. They have no names: they end with this
//! process, however it ends.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsRawFd;
use std::process::{Command, Output, Stdio};
use std::thread;

use nix::sched::{CloneFlags, setns, unshare};
use tidegate_core::Rate;
use tidegate_scenario::Plan;
use tidegate_sim::OpenHost;

/// Headers of IP and TCP in a segment with timestamps.
const SEGMENT_HEADERS_BYTES: u32 = 20 + 20 + 12;
/// Bytes of an Ethernet frame beside the kernel's view of it: checksum, preamble and gap.
const FRAME_OVERHEAD_BYTES: u32 = 4 + 20;
/// Packets that a host's interface sends at once: the kernel's timers are late.
const BURST_PACKETS: u32 = 3;
/// Bytes that wait at a host's interface. The kernel's TCP limits itself to fewer.
const QUEUE_BYTES: u32 = 4 << 20;

/// A network namespace.
pub(super) struct Namespace(File);

/// Returns this thread to the namespace from which it came.
pub(super) struct Entered(File);

impl Namespace {
    fn new() -> io::Result<Namespace> {
        let made = thread::spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).map_err(|why| {
                let message = format!("cannot make a network namespace ({why}); run as root");
                io::Error::new(io::Error::from(why).kind(), message)
            })?;
            no_six()?;
            own().map(Namespace)
        });
        made.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Moves this thread into the namespace: sockets that it opens belong there.
    pub(super) fn enter(&self) -> io::Result<Entered> {
        let from = own()?;
        setns(&self.0, CloneFlags::CLONE_NEWNET)?;
        Ok(Entered(from))
    }

    /// Its path, for programs that this process starts.
    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // The namespace exists, because its file is open.
        let _ = setns(&self.0, CloneFlags::CLONE_NEWNET);
    }
}

/// The namespace of this thread.
fn own() -> io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// A host.
pub(super) struct Place {
    /// Number in the fabric.
    pub(super) host: u32,
    pub(super) address: Ipv4Addr,
    pub(super) namespace: Namespace,
}

/// The namespaces of a run, and links between them.
pub(super) struct Network {
    switch: Namespace,
    /// Hosts that take part.
    pub(super) places: Vec<Place>,
    /// Number of hosts in the fabric.
    hosts: usize,
}

impl Network {
    pub(super) fn build(plan: &Plan, there: &BTreeSet<u32>) -> io::Result<Network> {
        let place =
            |&host: &u32| Ok(Place { host, address: address(host), namespace: Namespace::new()? });
        let network = Network {
            switch: Namespace::new()?,
            places: there.iter().map(place).collect::<io::Result<_>>()?,
            hosts: plan.fabric.hosts.len(),
        };
        network.link_all(plan.fabric.mtu + SEGMENT_HEADERS_BYTES)?;
        let neighbours: String = network.places.iter().map(neighbour).collect();
        for place in &network.places {
            let rate = nic_rate(plan, place.host).map_err(io::Error::other)?;
            network.set_up(place, rate, plan.fabric.mtu, &neighbours)?;
        }
        Ok(network)
    }

    /// The interfaces of the switch, by host of the fabric.
    pub(super) fn interfaces(&self) -> Vec<String> {
        (0..self.hosts).map(|host| format!("h{host}")).collect()
    }

    /// Moves this thread to the switch.
    pub(super) fn enter_switch(&self) -> io::Result<Entered> {
        self.switch.enter()
    }

    /// Makes an interface of the switch for every host. Hosts that do not take part are absent.
    fn link_all(&self, mtu: u32) -> io::Result<()> {
        let _there = self.switch.enter()?;
        let mut batch = String::new();
        for name in self.interfaces() {
            let place = self.places.iter().find(|place| format!("h{}", place.host) == name);
            let peer = match place {
                Some(place) => format!("eth0 netns {}", place.namespace.path()),
                None => format!("absent-{name}"),
            };
            batch += &format!(
                "link add {name} type veth peer name {peer}\nlink set {name} mtu {mtu} up\n"
            );
        }
        ip(&batch)?;
        self.places.iter().try_for_each(|place| offloads_off(&format!("h{}", place.host)))
    }

    /// Configures a host's namespace.
    fn set_up(&self, place: &Place, rate: Rate, mtu: u32, neighbours: &str) -> io::Result<()> {
        let _there = place.namespace.enter()?;
        set("/proc/sys/net/ipv4/tcp_no_metrics_save")?;
        let (address, mac) = (place.address, mac(place.address));
        let bytes = mtu + SEGMENT_HEADERS_BYTES;
        // One packet at a time, because pacing otherwise sends the packets of a millisecond at
        // once; an acknowledgement for every packet, at once, because delay is the signal.
        ip(&format!(
            "link set lo up\nlink set eth0 address {mac} mtu {bytes} gso_max_segs 1 up\n\
             addr add {address}/16 dev eth0\n\
             route change 10.77.0.0/16 dev eth0 src {address} quickack 1\n{neighbours}"
        ))?;
        offloads_off("eth0")?;
        let (bps, frame) = (rate.as_bps(), bytes + 14 + FRAME_OVERHEAD_BYTES);
        let burst = BURST_PACKETS * frame;
        run(
            "tc",
            &format!(
                "qdisc add dev eth0 root tbf rate {bps}bit burst {burst} limit {QUEUE_BYTES} \
             overhead {FRAME_OVERHEAD_BYTES}"
            ),
        )
    }
}

/// Address of a host; the fabric has at most 250.
fn address(host: u32) -> Ipv4Addr {
    Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 77, 0, 1)) + host)
}

fn mac(address: Ipv4Addr) -> String {
    let [_, _, high, low] = address.octets();
    format!("02:00:00:00:{high:02x}:{low:02x}")
}

/// Known neighbours need no ARP, which would flood every port.
fn neighbour(place: &Place) -> String {
    let address = place.address;
    format!("neigh add {address} lladdr {} dev eth0 nud permanent\n", mac(address))
}

fn nic_rate(plan: &Plan, host: u32) -> Result<Rate, String> {
    OpenHost::new(plan.setup.clone(), host).map(|share| share.context().nic_rate)
}

/// Disables IPv6 for interfaces to come: its own packets would cross the fabric.
fn no_six() -> io::Result<()> {
    match set("/proc/sys/net/ipv6/conf/default/disable_ipv6") {
        // A kernel without IPv6.
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Sets a setting of this thread's namespace.
fn set(path: &str) -> io::Result<()> {
    std::fs::write(path, "1").map_err(|why| io::Error::new(why.kind(), format!("{path}: {why}")))
}

/// The switch forwards frames as they are on a wire.
fn offloads_off(interface: &str) -> io::Result<()> {
    run("ethtool", &format!("-K {interface} tso off gso off gro off tx off"))
}

/// Runs commands of `ip`, one a line.
fn ip(batch: &str) -> io::Result<()> {
    let mut command = Command::new("ip");
    command.args(["-batch", "-"]).stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|why| missing("ip", &why))?;
    if let Some(mut input) = child.stdin.take() {
        match input.write_all(batch.as_bytes()) {
            // It ended early; its message says why.
            Err(why) if why.kind() == io::ErrorKind::BrokenPipe => {}
            result => result?,
        }
    }
    check("ip", &child.wait_with_output()?)
}

fn run(program: &str, arguments: &str) -> io::Result<()> {
    let output = Command::new(program).args(arguments.split_whitespace()).output();
    check(&format!("{program} {arguments}"), &output.map_err(|why| missing(program, &why))?)
}

fn missing(program: &str, why: &io::Error) -> io::Error {
    let message = format!("cannot run {program}: {why}; install iproute2 and ethtool");
    io::Error::new(why.kind(), message)
}

fn check(command: &str, output: &Output) -> io::Result<()> {
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{command}: {}", message.trim())))
}
