//! Hosts in network namespaces behind the interfaces of a software switch.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use anyhow::{Result, anyhow, ensure};
use nix::sched::{CloneFlags, setns};
use tidegate_core::fabric::{
    Buffer, Ecn, Fabric, Link, MarkAt, Node, Routing, Stamping, Switch, TelemetryResolution,
    TrimVictim, Trimming,
};
use tidegate_core::{Rate, Span};
use tidegate_switch::{Config, Places};

use crate::namespaces::run;

/// Rate of each link, in both directions.
pub(crate) const RATE: Rate = Rate::mbps(100);
pub(crate) const MTU: u32 = 1_500;
pub(crate) const PRIORITIES: u8 = 8;
/// Shared buffer of the switch.
pub(crate) const BUFFER_BYTES: u64 = 200_000;
/// ECN marking threshold, for runs with ECN.
pub(crate) const MARKED_FROM_BYTES: f64 = 30_000.0;
/// Packet trimming, for runs with it: the queue for data is longer than the marking threshold.
const TRIMMING: Trimming = Trimming {
    data_bytes: 40_000,
    header_queue_bytes: 40_000,
    trimmed_bytes: 192,
    victim: TrimVictim::Random,
    per: None,
    return_to_sender: false,
    header_weight: None,
};
/// Burst size and queue limit of a host's link (tbf).
const BURST_BYTES: u32 = 2 * 1_514;
const BACKLOG_BYTES: u32 = 1_000_000;

/// Namespaces of a switch and its hosts, with links; their names begin with that of the rack.
pub(crate) struct Rack {
    pub(crate) name: String,
    hosts: u8,
}

impl Rack {
    /// # Errors If the user is not root, or tools are missing. Partial results are removed.
    pub(crate) fn new(hosts: u8) -> Result<Rack> {
        ensure!(nix::unistd::geteuid().is_root(), "network namespaces need root");
        let rack = Rack { name: format!("tidegate-{}", std::process::id()), hosts };
        let switch = namespace(&rack.name, None);
        run("ip", &["netns", "add", &switch])?;
        let exec = ["netns", "exec", &switch, "sysctl", "-qw"];
        run("ip", &[&exec[..], &["net.ipv6.conf.all.disable_ipv6=1"]].concat())?;
        for host in 0..hosts {
            rack.link(&switch, host)?;
        }
        Ok(rack)
    }

    fn link(&self, switch: &str, host: u8) -> Result<()> {
        let (there, here) = (namespace(&self.name, Some(host)), interface(host));
        run("ip", &["netns", "add", &there])?;
        let link = ["-n", switch, "link", "add", &here, "type", "veth"];
        run("ip", &[&link[..], &["peer", "name", "eth0", "netns", &there]].concat())?;
        run("ip", &["-n", switch, "link", "set", &here, "up"])?;
        let address = format!("{}/24", address(host));
        run("ip", &["-n", &there, "address", "add", &address, "dev", "eth0"])?;
        run("ip", &["-n", &there, "link", "set", "eth0", "up"])?;
        let exec = ["netns", "exec", &there];
        let offloads = ["ethtool", "-K", "eth0", "tso", "off", "gso", "off", "tx", "off"];
        run("ip", &[&exec[..], &offloads].concat())?;
        // Connections must not inherit cached metrics of the path.
        run("ip", &[&exec[..], &["sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"]].concat())?;
        let [rate, burst, backlog] =
            [RATE.as_bps(), BURST_BYTES.into(), BACKLOG_BYTES.into()].map(|n| n.to_string());
        let qdisc = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &rate];
        run("ip", &[&exec[..], &qdisc, &["burst", &burst, "limit", &backlog]].concat())
    }

    /// Sets the TCP options of routes between hosts: ECN, and a smaller retransmission timeout.
    pub(crate) fn route(&self, ecn: bool, least_timeout: Option<&str>) -> Result<()> {
        for host in 0..self.hosts {
            let (there, own) = (namespace(&self.name, Some(host)), address(host).to_string());
            let mut line = vec!["-n", &there, "route", "replace", "10.98.0.0/24", "dev", "eth0"];
            line.extend(["proto", "kernel", "scope", "link", "src", &own]);
            line.extend(ecn.then_some(["features", "ecn"]).into_iter().flatten());
            line.extend(least_timeout.map(|time| ["rto_min", time]).into_iter().flatten());
            run("ip", &line)?;
        }
        Ok(())
    }
}

impl Drop for Rack {
    fn drop(&mut self) {
        // Some may not exist, so failures are ignored.
        for end in (0..self.hosts).map(Some).chain([None]) {
            let _ = run("ip", &["netns", "delete", &namespace(&self.name, end)]);
        }
    }
}

/// The namespace of a host, or of the switch.
pub(crate) fn namespace(rack: &str, host: Option<u8>) -> String {
    host.map_or(format!("{rack}-switch"), |host| format!("{rack}-{host}"))
}

/// The address of a host.
pub(crate) fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 98, 0, host + 1).into()
}

fn interface(host: u8) -> String {
    format!("veth{host}")
}

/// Moves this thread, and threads that it starts, into a namespace.
pub(crate) fn enter(namespace: &str) -> Result<()> {
    let file = File::open(format!("/run/netns/{namespace}"))?;
    Ok(setns(file, CloneFlags::CLONE_NEWNET)?)
}

/// Runs `work` in a namespace and returns its result.
pub(crate) fn within<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let there = || enter(namespace).and_then(|()| work());
    let panicked = |_| anyhow!("a thread has panicked");
    thread::scope(|scope| scope.spawn(there).join().map_err(panicked)?)
}

/// The configuration of a switch with `hosts` hosts.
pub(crate) fn switch(hosts: u8, marks: bool, trims: bool, seed: u64) -> Config {
    let ecn = Ecn {
        min_bytes: MARKED_FROM_BYTES,
        max_bytes: MARKED_FROM_BYTES,
        max_probability: 1.0,
        at: MarkAt::Enqueue,
        core_only: false,
        per: None,
    };
    let switch = Switch {
        name: "tor".to_owned(),
        latency: Span::ZERO,
        telemetry: Stamping::All,
        telemetry_resolution: TelemetryResolution::EXACT,
        buffer: Buffer::Shared { bytes: BUFFER_BYTES, alpha: 1.0 },
        ecn: marks.then_some(ecn),
        priorities: PRIORITIES,
        pausing: None,
        credit_queue: None,
        trimming: trims.then_some(TRIMMING),
    };
    let link = |host: u8| Link {
        a: Node::Host(host.into()),
        b: Node::Switch(0),
        rate: RATE,
        delay: Span::ZERO,
    };
    Config {
        fabric: Fabric {
            hosts: (0..hosts).map(|host| format!("h{host}")).collect(),
            switches: vec![switch],
            links: (0..hosts).map(link).collect(),
            mtu: MTU,
            ..Fabric::default()
        },
        routing: Routing::Ecmp,
        places: Places::Interfaces((0..hosts).map(interface).collect()),
        uplinks: false,
        sized: false,
        clock: None,
        seed,
    }
}
