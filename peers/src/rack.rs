//! Hosts in network namespaces, each behind an interface of a software switch.

use std::fs::File;
use std::net::{IpAddr, Ipv4Addr};
use std::thread;

use anyhow::{Result, anyhow, ensure};
use nix::sched::{CloneFlags, setns};
use tidegate_core::fabric::{Buffer, Ecn, Fabric, Link, MarkAt, Node, Routing, Switch};
use tidegate_core::{Rate, Span};
use tidegate_switch::{Config, Places};

use crate::namespaces::run;

/// Of each link, both ways.
pub(crate) const RATE: Rate = Rate::mbps(100);
pub(crate) const MTU: u32 = 1_500;
pub(crate) const PRIORITIES: u8 = 8;
/// What all ports of the switch share.
pub(crate) const BUFFER_BYTES: u64 = 200_000;
/// A queue that is so long is marked, for who asks for marks.
pub(crate) const MARKED_FROM_BYTES: f64 = 30_000.0;
/// What a host's kernel may hand to its link at once, and what waits for it there.
const BURST_BYTES: u32 = 2 * 1_514;
const BACKLOG_BYTES: u32 = 1_000_000;

/// Namespaces, and links from a switch's to those of hosts; `rack` begins their names.
pub(crate) struct Rack {
    pub(crate) name: String,
    hosts: u8,
}

impl Rack {
    /// # Errors
    /// Where one may not, or the tools for it are not there. Nothing is left then.
    pub(crate) fn new(hosts: u8) -> Result<Rack> {
        ensure!(nix::unistd::geteuid().is_root(), "network namespaces are made by root alone");
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
        // What one connection has learnt of a path is not for the next.
        run("ip", &[&exec[..], &["sysctl", "-qw", "net.ipv4.tcp_no_metrics_save=1"]].concat())?;
        let [rate, burst, backlog] =
            [RATE.as_bps(), BURST_BYTES.into(), BACKLOG_BYTES.into()].map(|n| n.to_string());
        let qdisc = ["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &rate];
        run("ip", &[&exec[..], &qdisc, &["burst", &burst, "limit", &backlog]].concat())
    }

    /// How TCP is to see the way between hosts: with marks, with a smaller retransmission timeout.
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
        // Those that were not made are not there.
        for end in (0..self.hosts).map(Some).chain([None]) {
            let _ = run("ip", &["netns", "delete", &namespace(&self.name, end)]);
        }
    }
}

/// That of a host, or the switch's.
pub(crate) fn namespace(rack: &str, host: Option<u8>) -> String {
    host.map_or(format!("{rack}-switch"), |host| format!("{rack}-{host}"))
}

/// Of a host.
pub(crate) fn address(host: u8) -> IpAddr {
    Ipv4Addr::new(10, 98, 0, host + 1).into()
}

fn interface(host: u8) -> String {
    format!("veth{host}")
}

/// Makes this thread, and those that it starts, one of a namespace.
pub(crate) fn enter(namespace: &str) -> Result<()> {
    let file = File::open(format!("/run/netns/{namespace}"))?;
    Ok(setns(file, CloneFlags::CLONE_NEWNET)?)
}

/// What comes of `work` in a namespace.
pub(crate) fn within<T: Send>(
    namespace: &str,
    work: impl FnOnce() -> Result<T> + Send,
) -> Result<T> {
    let there = || enter(namespace).and_then(|()| work());
    let panicked = |_| anyhow!("a thread has panicked");
    thread::scope(|scope| scope.spawn(there).join().map_err(panicked)?)
}

/// A switch before so many hosts.
pub(crate) fn switch(hosts: u8, marks: bool, seed: u64) -> Config {
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
        telemetry: true,
        buffer: Buffer::Shared { bytes: BUFFER_BYTES, alpha: 1.0 },
        ecn: marks.then_some(ecn),
        priorities: PRIORITIES,
        discipline: None,
        pausing: None,
        credit_queue: None,
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
            rate_changes: Vec::new(),
            circuits: None,
            mtu: MTU,
        },
        routing: Routing::Ecmp,
        places: Places::Interfaces((0..hosts).map(interface).collect()),
        uplinks: false,
        sized: false,
        clock: None,
        seed,
    }
}
