//! Hosts and a switch in network namespaces of their own, with veth between them. Needs root.
#![cfg(target_os = "linux")]
#![allow(missing_docs)]

mod common;

use std::fs::File;
use std::net::SocketAddrV4;
use std::process::Command;
use std::thread;
use std::time::Duration;

use common::{Host, around, asking, forwarding, payload, switch};
use nix::sched::{CloneFlags, setns};
use nix::unistd::geteuid;
use tidegate_core::wire::telemetry;
use tidegate_core::{Frame, HopTrace, Rate, frame_flag};
use tidegate_switch::SoftwareSwitch;

fn ip(words: &str) -> Result<(), String> {
    let output = Command::new("ip").args(words.split(' ')).output();
    let output = output.map_err(|why| format!("ip: {why}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("ip {words}: {}", String::from_utf8_lossy(&output.stderr).trim_end())),
    }
}

/// Namespaces `{name}-s` for a switch, and `{name}-a` and `{name}-b` for hosts, which go with it.
struct Namespaces(String);

impl Namespaces {
    fn new() -> Result<Namespaces, String> {
        if !geteuid().is_root() {
            return Err("only root makes network namespaces".to_owned());
        }
        let all = Namespaces(format!("tidegate{}", std::process::id()));
        ["s", "a", "b"].iter().try_for_each(|end| ip(&format!("netns add {}", all.name(end))))?;
        let switch = all.name("s");
        for (end, net) in [("a", 1), ("b", 2)] {
            let host = all.name(end);
            ip(&format!("-n {switch} link add to-{end} type veth peer name uplink netns {host}"))?;
            ip(&format!("-n {switch} addr add 10.0.{net}.1/24 dev to-{end}"))?;
            ip(&format!("-n {switch} link set to-{end} up"))?;
            ip(&format!("-n {host} addr add 10.0.{net}.2/24 dev uplink"))?;
            ip(&format!("-n {host} link set uplink up"))?;
        }
        Ok(all)
    }

    fn name(&self, end: &str) -> String {
        format!("{}-{end}", self.0)
    }

    /// What `make` makes there: sockets stay where they were made.
    fn within<T: Send>(&self, end: &str, make: impl FnOnce() -> T + Send) -> T {
        let namespace = File::open(format!("/run/netns/{}", self.name(end))).unwrap();
        let there = || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            make()
        };
        thread::scope(|scope| scope.spawn(there).join().unwrap())
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Those that were not made are not there.
        ["s", "a", "b"].iter().for_each(|end| drop(ip(&format!("netns del {}", self.name(end)))));
    }
}

#[test]
fn a_switch_forwards_between_namespaces() {
    let namespaces = match Namespaces::new() {
        Ok(namespaces) => namespaces,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let address = |text: &str| text.parse::<SocketAddrV4>().unwrap();
    let host = |end, at: &str| namespaces.within(end, || Host::at(address(at)));
    let hosts = vec![host("a", "10.0.1.2:9000"), host("b", "10.0.2.2:9000")];
    let mut network = around(switch(), hosts, Rate::mbps(5));
    network.config.listen = address("0.0.0.0:20000");
    let switch = namespaces.within("s", || SoftwareSwitch::open(&network.config).unwrap());
    let (arrived, report) = forwarding(switch, &network.hosts, |hosts, _| {
        let tos = 40 << 2 | 0b10;
        (0..20).for_each(|i| hosts[0].send(address("10.0.1.1:20001"), tos, &asking(i)));
        hosts[1].all(Duration::from_millis(300))
    });
    assert_eq!((arrived.len(), report.counts.sent), (20, 20));
    for (number, datagram) in (0..).zip(&arrived) {
        // B answers to where A seems to be.
        assert_eq!((datagram.from, datagram.tos), (address("10.0.2.1:20000"), 40 << 2 | 0b10));
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let rest = telemetry::parse(&datagram.bytes, &mut frame, &mut hops).unwrap();
        assert_eq!((rest, hops.as_slice().len()), (&payload(number)[..], 1));
        assert!(frame.flags & frame_flag::STAMP_PEAK != 0);
    }
    let last = arrived.last().unwrap().at - arrived[0].at;
    assert!(last > 0.02, "twenty packets of 1.6 ms in {last} s");
}
