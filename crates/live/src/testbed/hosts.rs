//! The host processes, as the testbed sees them.

use std::io::{BufReader, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use super::messages::{FromHost, Role, ToHost, read_message, write_message};
use tidegate_runs::Error;

/// Maximum bytes of a host's recording: about 10^8 packets.
const MOST_SEEN: usize = 4 << 30;

/// A message from a host.
pub(super) enum HostReport {
    Message(FromHost),
    /// The complete recording.
    Seen {
        bytes: Vec<u8>,
        /// As in `FromHost::Seen`.
        late: Vec<(u64, u64)>,
        lost: u32,
    },
}

/// The host processes of a run. They end when this is dropped.
pub(super) struct Hosts {
    all: Vec<Host>,
    reports: Receiver<(usize, Result<HostReport, String>)>,
}

/// A host.
struct Host {
    /// Name in the scenario.
    name: String,
    process: Child,
    to: ChildStdin,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for Host { process, .. } in &mut self.all {
            // The process may have ended already.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

impl Hosts {
    /// Starts the processes: `program` with the single argument that makes it a host.
    pub(super) fn start(
        program: &Path,
        roles: impl Iterator<Item = (String, Role)>,
    ) -> Result<Hosts, Error> {
        let (sender, reports) = mpsc::channel();
        let mut hosts = Hosts { all: Vec::new(), reports };
        for (number, (name, role)) in roles.enumerate() {
            let failed = |why| Error::Run(format!("host {name}: {}: {why}", program.display()));
            let command = Command::new(program)
                .arg(super::HOST_COMMAND)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // A terminal's interrupt reaches only the testbed, which ends its hosts.
                .process_group(0)
                .spawn();
            let mut process = command.map_err(failed)?;
            let (Some(to), Some(from)) = (process.stdin.take(), process.stdout.take()) else {
                return Err(Error::Run(format!("host {name}: cannot open pipes")));
            };
            let reports = sender.clone();
            thread::spawn(move || listen(number, from, &reports));
            hosts.all.push(Host { name, process, to });
            hosts.send(number, &ToHost::Be(role))?;
        }
        Ok(hosts)
    }

    pub(super) fn count(&self) -> usize {
        self.all.len()
    }

    /// Sends a message to one host.
    pub(super) fn send(&mut self, host: usize, message: &ToHost) -> Result<(), Error> {
        let Host { name, to, .. } = &mut self.all[host];
        write_message(to, message).map_err(|why| Error::Run(format!("host {name} is gone: {why}")))
    }

    /// Sends a message to all hosts.
    pub(super) fn send_all(&mut self, message: &ToHost) -> Result<(), Error> {
        (0..self.all.len()).try_for_each(|host| self.send(host, message))
    }

    /// Receives a message from any host, with the host's number; `None` after `patience`.
    pub(super) fn receive(
        &mut self,
        patience: Duration,
    ) -> Result<Option<(usize, HostReport)>, Error> {
        let Ok((host, report)) = self.reports.recv_timeout(patience) else { return Ok(None) };
        let name = &self.all[host].name;
        match report {
            Ok(HostReport::Message(FromHost::Failed(why))) | Err(why) => {
                Err(Error::Run(format!("host {name}: {why}")))
            }
            Ok(report) => Ok(Some((host, report))),
        }
    }
}

/// Reads a host's messages until it ends.
fn listen(number: usize, from: ChildStdout, to: &Sender<(usize, Result<HostReport, String>)>) {
    let mut from = BufReader::new(from);
    loop {
        let report = match read_message(&mut from) {
            Ok(Some(FromHost::Seen { bytes: length, late, lost })) if length <= MOST_SEEN => {
                let mut bytes = Vec::new();
                let read = (&mut from).take(length as u64).read_to_end(&mut bytes);
                read.map(|_| HostReport::Seen { bytes, late, lost }).map_err(|why| why.to_string())
            }
            Ok(Some(message)) => Ok(HostReport::Message(message)),
            Ok(None) => Err("the process has ended".to_owned()),
            Err(why) => Err(why.to_string()),
        };
        let ends = !matches!(report, Ok(HostReport::Message(_)));
        // The receiver may have been dropped.
        if to.send((number, report)).is_err() || ends {
            return;
        }
    }
}
