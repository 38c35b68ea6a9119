//! Network namespaces for a switch and hosts, created with `ip` and removed when dropped.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Runs a command line and returns its output.
///
/// # Errors
/// The error output, if the command fails.
pub fn output(line: &str) -> Result<String, String> {
    let mut words = line.split(' ');
    let output = Command::new(words.next().unwrap_or_default()).args(words).output();
    let output = output.map_err(|why| format!("{line}: {why}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(format!("{line}: {}", String::from_utf8_lossy(&output.stderr).trim_end())),
    }
}

/// The namespace of a switch, `s`, and one per host. Host `a` has the veth `uplink`, whose other
/// end is `to-a` at the switch; all are up.
pub struct Namespaces {
    name: String,
    hosts: Vec<String>,
}

impl Namespaces {
    /// # Errors If namespaces cannot be created, which needs root.
    pub fn new(hosts: &[&str]) -> Result<Namespaces, String> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("tidegate{}-{number}", std::process::id());
        let hosts: Vec<_> = hosts.iter().map(|host| host.to_string()).collect();
        let all = Namespaces { name, hosts };
        let switch = all.name("s");
        output(&format!("ip netns add {switch}"))?;
        for host in &all.hosts {
            let there = all.name(host);
            output(&format!("ip netns add {there}"))?;
            all.ip("s", &format!("link add to-{host} type veth peer name uplink netns {there}"))?;
            all.ip("s", &format!("link set to-{host} up"))?;
            all.ip(host, "link set uplink up")?;
            all.ip(host, "link set lo up")?;
        }
        Ok(all)
    }

    /// The same for a switch of frames: hosts have the addresses 10.9.0.1 and fd00::1 and so on,
    /// without offloads.
    ///
    /// # Errors As for [`new`](Self::new), and if `ethtool` is missing.
    pub fn for_frames(hosts: &[&str]) -> Result<Namespaces, String> {
        let all = Namespaces::new(hosts)?;
        all.exec("s", "sysctl -qw net.ipv6.conf.all.disable_ipv6=1")?;
        for (number, host) in (1..).zip(hosts) {
            all.exec(host, "ethtool -K uplink tso off gso off tx off")?;
            all.ip(host, &format!("addr add 10.9.0.{number}/24 dev uplink"))?;
            all.ip(host, &format!("addr add fd00::{number}/64 dev uplink nodad"))?;
        }
        Ok(all)
    }

    pub fn name(&self, end: &str) -> String {
        format!("{}-{end}", self.name)
    }

    /// `ip` in the namespace of an end.
    ///
    /// # Errors
    /// The error output, if the command fails.
    pub fn ip(&self, end: &str, words: &str) -> Result<String, String> {
        output(&format!("ip -n {} {words}", self.name(end)))
    }

    /// Runs a command in the namespace of an end.
    ///
    /// # Errors
    /// The error output, if the command fails.
    pub fn exec(&self, end: &str, line: &str) -> Result<String, String> {
        output(&format!("ip netns exec {} {line}", self.name(end)))
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        // Some may not exist, so failures are ignored.
        for end in self.hosts.iter().map(String::as_str).chain(["s"]) {
            drop(output(&format!("ip netns del {}", self.name(end))));
        }
    }
}
