//! Helpers that run the program, and scenarios for it.
#![allow(dead_code, reason = "no test uses all of it")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;
use tidegate_workbench::results::Engine;

/// Exit status and output of the program.
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    /// Asserts success and returns stdout.
    #[track_caller]
    pub(crate) fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        self.stdout
    }
    /// Asserts success and that stdout is JSON, and returns it.
    #[track_caller]
    pub(crate) fn json(self) -> Value {
        let text = self.ok();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
    }
    /// Asserts an exit status, an empty stdout, and these words on stderr.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}{}", self.stdout, self.stderr);
        assert_eq!(self.stdout, "");
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing in: {}", self.stderr);
        }
    }
}

/// A command for the program.
pub(crate) fn tidegate(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.args(args);
    command
}

/// Runs the program with `args`.
pub(crate) fn answer(args: &[&str]) -> Answer {
    let Output { status, stdout, stderr } = tidegate(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Answer { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

/// The screen of a terminal with `columns` columns after a shell command in which `tidegate` is the
/// program. `script` provides the terminal; `None` if it is not installed.
#[cfg(target_os = "linux")]
pub(crate) fn terminal(columns: &str, line: &str) -> Option<String> {
    let line = line.replace("tidegate ", &format!("{} ", env!("CARGO_BIN_EXE_tidegate")));
    let mut script = Command::new("script");
    script.args(["-qc", &line, "/dev/null"]).env("COLUMNS", columns).env("TERM", "xterm");
    script.env_remove("NO_COLOR").stdin(std::process::Stdio::null());
    let output = script.output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).replace('\r', ""))
}

/// Names of all protocols.
pub(crate) fn protocols() -> Vec<String> {
    let list = answer(&["protocols", "--json"]).json();
    list.as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap().to_owned()).collect()
}

/// Protocols without a given fabric requirement.
pub(crate) fn protocols_without(need: &str) -> Vec<String> {
    let list = answer(&["protocols", "--json"]).json();
    let others =
        list.as_array().unwrap().iter().filter(|protocol| {
            !protocol["needs"].as_array().unwrap().iter().any(|one| one == need)
        });
    others.map(|protocol| protocol["name"].as_str().unwrap().to_owned()).collect()
}

/// Protocols that run on racks with circuits, which have no credit queues and do not trim.
pub(crate) fn on_racks() -> Vec<String> {
    let credited = protocols_without("credit queues");
    let mut names = protocols_without("packet trimming");
    names.retain(|name| credited.contains(name));
    names
}

/// Protocols that run on any fabric: the others need circuits.
pub(crate) fn anywhere() -> Vec<String> {
    protocols_without("circuit announcements")
}

/// A temporary folder with a scenario.
pub(crate) struct Place {
    dir: TempDir,
}

impl Place {
    /// Two senders and a receiver at one switch; `flows` is the TOML of the traffic.
    pub(crate) fn new(flows: &str) -> Place {
        let place = Place { dir: tempfile::tempdir().unwrap() };
        let protocol = &protocols()[0];
        let text = format!(
            r#"
name = "three hosts"
seed = 1
duration = "300us"
warmup = "50us"
[fabric]
kind = "graph"
mtu = "4096B"
hosts = ["h0", "h1", "h2"]
switches = ["s0"]
links = [
  {{ a = "h0", b = "s0", rate = "100Gbps", delay = "1us" }},
  {{ a = "h1", b = "s0", rate = "100Gbps", delay = "1us" }},
  {{ a = "s0", b = "h2", rate = "100Gbps", delay = "1us" }},
]
[transport]
protocol = "{protocol}"
{flows}
"#
        );
        std::fs::write(place.path("scenario.toml"), text).unwrap();
        place
    }

    /// The same with two unbounded flows, and messages.
    pub(crate) fn usual() -> Place {
        Place::new(concat!(
            "[[flows]]\nsrc = \"h0\"\ndst = \"h2\"\nlabel = \"long\"\n",
            "[[flows]]\nsrc = \"h1\"\ndst = \"h2\"\nlabel = \"long\"\n",
            "[[flows]]\nsrc = \"h1\"\ndst = \"h2\"\nsize = \"20KB\"\nstart = \"60us\"\ncount = 5\n",
        ))
    }

    /// The same on racks with circuits, where almost every protocol runs.
    pub(crate) fn racks() -> Place {
        Place::usual().on("kind = \"reconfigurable\"\nracks = 2\nhosts_per_rack = 2\n")
    }

    /// The same on another fabric.
    pub(crate) fn on(self, fabric: &str) -> Place {
        let text = std::fs::read_to_string(self.path("scenario.toml")).unwrap();
        let (before, rest) = text.split_once("[fabric]").unwrap();
        let (_, after) = rest.split_once("[transport]").unwrap();
        let text = format!("{before}[fabric]\n{fabric}[transport]{after}");
        std::fs::write(self.path("scenario.toml"), text).unwrap();
        self
    }

    /// A path in the folder.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A path in the folder, as an argument.
    pub(crate) fn arg(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Runs `tidegate run` on the scenario with further arguments.
    pub(crate) fn run(&self, args: &[&str]) -> Answer {
        self.call("run", args)
    }

    /// Runs a subcommand on the scenario with further arguments.
    pub(crate) fn call(&self, subcommand: &str, args: &[&str]) -> Answer {
        answer(&[&[subcommand, &self.arg("scenario.toml")], args].concat())
    }
}

/// Sorted names of the files in a folder; empty if there is no folder.
pub(crate) fn files(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
    let mut names: Vec<_> =
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A summary without the keys that vary between runs.
pub(crate) fn steady(mut summary: Value) -> Value {
    let engine = summary["engine"].as_object_mut().unwrap();
    for key in Engine::VARIES {
        assert!(engine.remove(key).is_some(), "{key} is missing");
    }
    summary
}

/// A scenario without a protocol: flows over a ring of switches that pause each other. It
/// deadlocks, because the marking threshold is too high to keep queues short.
pub(crate) fn circle() -> String {
    let mut text = "duration = '20ms'\nflows = [\n".to_owned();
    for flow in 0..64 {
        let (src, dst) = (flow % 8, (flow % 8 + 4) % 8);
        text += &format!("  {{ src = 'h{src}', dst = 'h{dst}' }},\n");
    }
    text += "]\n[fabric]\nkind = 'graph'\nhosts = ['h0', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', \
             'h7']\nswitches = ['s0', 's1', 's2', 's3']\nlinks = [\n";
    let link = "rate = '100Gbps', delay = '1us'";
    for host in 0..8 {
        text += &format!("  {{ a = 'h{host}', b = 's{}', {link} }},\n", host / 2);
    }
    for switch in 0..4 {
        text += &format!("  {{ a = 's{switch}', b = 's{}', {link} }},\n", (switch + 1) % 4);
    }
    text += "]\n[switch]\nbuffer = '600KB'\necn = { kmin = '1GB' }\npfc = {}\n";
    text
}
