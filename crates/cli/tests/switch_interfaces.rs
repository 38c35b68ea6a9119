//! `tidegate switch` between network interfaces: endpoints across it, and errors.
#![cfg(target_os = "linux")]

#[path = "../../switch/tests/common/namespaces.rs"]
mod namespaces;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use crate::common::{answer, tidegate};
use namespaces::{Namespaces, output};
use serde_json::Value;
use tempfile::TempDir;

/// A file of a switch between a and b; `more` are further keys.
fn file(more: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pair.toml");
    let text = format!(
        "switch = {{ {more} }}\n[[port]]\nname = 'a'\nrate = '50Mbps'\ninterface = 'to-a'\n\
         [[port]]\nname = 'b'\nrate = '50Mbps'\ninterface = 'to-b'\n"
    );
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

/// A process in a namespace, which is killed when dropped.
struct At(Child);

impl At {
    /// Starts the program and waits for its first line, which contains `words`.
    fn start(namespaces: &Namespaces, end: &str, args: &[&str], words: &str) -> At {
        let mut command = at(namespaces, end, args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut process = At(child);
        let mut stderr = BufReader::new(process.0.stderr.take().unwrap());
        let mut line = String::new();
        stderr.read_line(&mut line).unwrap();
        assert!(line.contains(words), "{line}");
        // Keep reading, so that a full pipe does not block it.
        std::thread::spawn(move || stderr.lines().count());
        process
    }

    /// Interrupts it and returns its JSON output.
    fn end(mut self) -> Value {
        output(&format!("kill -INT {}", self.0.id())).unwrap();
        let report = serde_json::from_reader(self.0.stdout.take().unwrap()).unwrap();
        assert!(self.0.wait().unwrap().success());
        report
    }
}

impl Drop for At {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that runs the program in a namespace; `ip` executes it.
fn at(namespaces: &Namespaces, end: &str, args: &[&str]) -> Command {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &namespaces.name(end), env!("CARGO_BIN_EXE_tidegate")]);
    command.args(args);
    command
}

/// Sends from a to b under Poseidon, at up to twice the rate of the ports. Returns the reports of
/// switch and sender.
fn poseidon(namespaces: &Namespaces, telemetry: bool) -> (Value, Value) {
    let (_folder, file) = file(&format!("buffer = '1MB', telemetry = {telemetry}"));
    let switch = At::start(namespaces, "s", &["switch", &file, "--json"], "between to-a, to-b");
    let common = ["--protocol", "poseidon", "--switches", "peak", "--rate", "100Mbps"];
    let params = ["target=constant", "constant_target=4ms", "min_rto=100ms", "initial_rto=100ms"];
    let params = params.iter().flat_map(|param| ["--param", param]);
    let alike: Vec<_> = common.into_iter().chain(params).collect();
    let serve = [&["serve", "--listen", "10.9.0.2:5270"], &alike[..]].concat();
    let _server = At::start(namespaces, "b", &serve, "listening on 10.9.0.2:5270");
    let size = ["--size", "1MB", "--duration", "2s", "--warmup", "500ms", "--json", "-q"];
    let send = [&["send", "10.9.0.2:5270"], &alike[..], &size].concat();
    let Output { status, stdout, stderr } = at(namespaces, "a", &send).output().unwrap();
    assert!(status.success(), "{}", String::from_utf8_lossy(&stderr));
    (switch.end(), serde_json::from_slice(&stdout).unwrap())
}

#[test]
fn poseidon_over_telemetry_in_frames() {
    let namespaces = match Namespaces::for_frames(&["a", "b"]) {
        Ok(namespaces) => namespaces,
        Err(why) => return eprintln!("SKIPPED: {why}"),
    };
    let (with, sent) = poseidon(&namespaces, true);
    let (without, _) = poseidon(&namespaces, false);
    let goodput = sent["goodput_gbps"].as_f64().unwrap();
    // With other tests running, programs wait for a core: 0.014 were seen.
    assert!((0.01..0.05).contains(&goodput), "{goodput} of 0.05 Gbit/s");
    let delay = |report: &Value| report["links"][1]["queue_delay_us"]["mean"].as_f64().unwrap();
    let [with, without] = [&with, &without].map(delay);
    // The target is 4 ms; without telemetry, the sender fills the buffer, which is 160 ms.
    assert!((500.0..10_000.0).contains(&with), "{with} us");
    assert!(without > 3.0 * with, "{without} us without telemetry, {with} us with it");
}

#[test]
fn switch_interface_errors() {
    let (_folder, path) = file("buffer = '1MB'");
    let lo = ["switch", &path, "--set", "port.0.interface=lo", "--duration", "10ms"];
    let direct = answer(&lo);
    // With the privilege for packet sockets, the error names the interface, else the privilege.
    let unprivileged = if direct.stderr.contains("not an Ethernet interface") {
        direct.refused(1, &["switch pair: interface lo: not an Ethernet interface"]);
        answer(&["switch", &path, "--set", "port.1.interface=tide-none", "--duration", "10ms"])
            .refused(1, &["switch pair: interface "]);
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set", "-net_raw", env!("CARGO_BIN_EXE_tidegate")]).args(lo);
        match command.output() {
            Ok(output) => output,
            Err(why) => return eprintln!("SKIPPED: setpriv: {why}"),
        }
    } else {
        tidegate(&lo).output().unwrap()
    };
    let stderr = String::from_utf8(unprivileged.stderr).unwrap();
    assert_eq!((unprivileged.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
    assert!(
        stderr.contains("interface lo: frames need root or CAP_NET_RAW; hosts with addresses"),
        "{stderr}"
    );
}
