//! Two network namespaces that a link connects.

use std::net::{IpAddr, Ipv4Addr};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

/// The link's name at both ends.
const LINK: &str = "veth0";
/// Offloads of the link: segmentation and coalescing.
const OFFLOADS: [&str; 4] = ["tso", "gso", "gro", "tx-udp-segmentation"];

/// Two hosts and the link between them, for as long as this lives.
pub(crate) struct Pair {
    /// The namespaces that were created.
    pub(crate) ends: Vec<Namespace>,
}

/// A host.
pub(crate) struct Namespace {
    name: String,
    /// From zero.
    pub(crate) number: u8,
    /// Its address on the link.
    pub(crate) address: IpAddr,
}

impl Pair {
    /// Creates both namespaces and a link with an MTU, with or without offloads.
    ///
    /// # Errors If the user is not root, or tools are missing. Partial results are removed.
    pub(crate) fn new(mtu: u32, offloads: bool) -> Result<Pair> {
        ensure!(nix::unistd::geteuid().is_root(), "network namespaces need root");
        let mut pair = Pair { ends: Vec::new() };
        for number in 0..2 {
            let name = format!("tidegate-{}-{number}", std::process::id());
            run("ip", &["netns", "add", &name])?;
            let address = IpAddr::from(Ipv4Addr::new(10, 99, 0, number + 1));
            pair.ends.push(Namespace { name, number, address });
        }
        let [a, b] = [&pair.ends[0].name, &pair.ends[1].name].map(String::as_str);
        let link = ["link", "add", LINK, "netns", a, "type", "veth"];
        run("ip", &[&link[..], &["peer", "name", LINK, "netns", b]].concat())?;
        for Namespace { name, address, .. } in &pair.ends {
            let (address, mtu) = (format!("{address}/24"), mtu.to_string());
            run("ip", &["-n", name, "address", "add", &address, "dev", LINK])?;
            run("ip", &["-n", name, "link", "set", LINK, "mtu", &mtu, "up"])?;
            for offload in OFFLOADS.into_iter().filter(|_| !offloads) {
                run("ip", &["netns", "exec", name, "ethtool", "-K", LINK, offload, "off"])?;
            }
        }
        Ok(pair)
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for Namespace { name, .. } in &self.ends {
            // The link is removed with them. A failure is only reported: a retry would fail, too.
            if let Err(why) = run("ip", &["netns", "delete", name]) {
                eprintln!("warning: {why:#}");
            }
        }
    }
}

impl Namespace {
    /// A command that runs this program in the namespace; the caller adds arguments.
    pub(crate) fn command(&self) -> Result<Command> {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(std::env::current_exe()?);
        Ok(command)
    }
}

/// Runs a system tool.
pub(crate) fn run(tool: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(tool);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output = output.with_context(|| format!("{tool} is needed (iproute2, ethtool)"))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        bail!("{tool} {}: {}", arguments.join(" "), why.trim());
    }
    Ok(())
}
