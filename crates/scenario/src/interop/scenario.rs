//! Writer of scenario files from the content of other simulators' files.

use std::fmt::Write;

use serde_json::json;
use tidegate_algos::Protocol;
use tidegate_core::fabric::{Fabric, Node};
use tidegate_core::workload::Arrival;
use tidegate_core::{Message, Span, Time};

use super::{Format, Input, Network, decimal};
use crate::compile::csv;
use crate::compile::topology::Topology;
use crate::error::Error;
use crate::read::tree::{Entries, Node as Tree, Raw, Source};
use crate::{MOST_BYTES, load};

/// Line width of a file.
const WIDTH: usize = 100;
/// Name of the trace file.
const TRACE: &str = "flows.csv";
/// Example traffic for inputs without flows.
const TRAFFIC: &str = "\n[[traffic]]\nkind = \"poisson\"\nsizes = \"websearch\"\nload = 0.5\n";
/// Placeholder for the trace, which does not exist when the scenario is checked.
const PLACEHOLDER_TRAFFIC: &str = "\n[[traffic]]\nkind = \"permutation\"\n";
/// Keys of a scenario that the import replaces.
const OF_FLOWS: [&str; 6] = ["name", "duration", "warmup", "drain", "flows", "traffic"];
/// Drain of the scenario: longest time for messages to complete after the end of the run.
const DRAIN: &str = "1s";

/// A scenario without its flows, traffic and times.
pub(super) struct Setting {
    /// Names of the hosts.
    pub(super) hosts: Vec<String>,
    /// Nodes by their number in files of flows.
    pub(super) numbers: Vec<Node>,
    /// Link rate of each host, in bit/s.
    rates: Vec<f64>,
    comment: String,
    text: String,
}

impl Setting {
    /// Builds the setting from an imported fabric.
    pub(super) fn made(network: Network) -> Setting {
        let Network { topology, numbers, mtu, loss, comment } = network;
        let mut text = "\n[fabric]\nkind = \"graph\"\n".to_owned();
        if let Some(mtu) = mtu {
            let _ = writeln!(text, "mtu = \"{mtu}B\"");
        }
        list(&mut text, "hosts", topology.hosts.iter());
        list(&mut text, "switches", topology.switches.iter().map(|switch| &switch.name));
        text += "links = [\n";
        let name = |node| match node {
            Node::Host(host) => &topology.hosts[host as usize],
            Node::Switch(switch) => &topology.switches[switch as usize].name,
        };
        for link in &topology.links {
            let (a, b, rate, delay) = (name(link.a), name(link.b), link.rate, link.delay);
            let _ = writeln!(
                text,
                "  {{ a = \"{a}\", b = \"{b}\", rate = \"{rate}\", delay = \"{delay}\" }},"
            );
        }
        text += "]\n";
        latencies(&mut text, &topology);
        let protocol = Protocol::DEFAULT.info().name;
        let _ = writeln!(text, "\n[transport]\nprotocol = \"{protocol}\"");
        if loss > 0.0 {
            let _ = writeln!(text, "\n[faults]\nloss = {loss:?}");
        }
        let rates = rates(topology.hosts.len(), &topology.links);
        Setting { hosts: topology.hosts, numbers, rates, comment, text }
    }

    /// Builds the setting from an existing scenario.
    pub(super) fn of(base: &Input) -> Result<Setting, Error> {
        let Fabric { hosts, links, .. } = load(&base.text, &base.name, &[])?.setup.fabric;
        let document = Tree::document(&Source::file(&base.name, &base.text))?;
        let Raw::Table(entries) = document.raw else { unreachable!("a document is a table") };
        let kept = entries.into_iter().filter(|(key, _)| !OF_FLOWS.contains(&key.as_str()));
        let (sections, plain): (Entries, Entries) =
            kept.partition(|(_, (_, value))| matches!(value.raw, Raw::Table(_)));
        let mut text = String::new();
        lines(&mut text, &plain);
        for (name, (_, section)) in &sections {
            if let Raw::Table(entries) = &section.raw
                && !entries.is_empty()
            {
                let _ = writeln!(text, "\n[{name}]");
                lines(&mut text, entries);
            }
        }
        let numbers = (0..hosts.len() as u32).map(Node::Host).collect();
        let comment = format!(
            "Node 0 is {}, and so on. The scenario is {}'s, except for its flows and times.",
            hosts[0],
            base.short()
        );
        let rates = rates(hosts.len(), &links);
        Ok(Setting { hosts, numbers, rates, comment, text })
    }
}

/// Appends a list of names over several lines.
fn list<'a>(text: &mut String, key: &str, names: impl Iterator<Item = &'a String>) {
    let _ = write!(text, "{key} = [");
    let mut column = WIDTH;
    for name in names {
        let word = format!("\"{name}\",");
        if column + 1 + word.len() > WIDTH {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text.push_str(&word);
        column += 1 + word.len();
    }
    text.push_str("\n]\n");
}

/// Appends the latencies of switches: that of the first, then overrides for those that differ.
fn latencies(text: &mut String, topology: &Topology) {
    let Some(first) = topology.switches.first() else { return };
    let differ: Vec<_> =
        topology.switches.iter().filter(|switch| switch.latency != first.latency).collect();
    if first.latency > Span::ZERO {
        let _ = writeln!(text, "\n[switch]\nlatency = \"{}\"", first.latency);
    }
    for group in differ.chunk_by(|a, b| a.latency == b.latency) {
        let _ = writeln!(text, "\n[[switch.override]]");
        list(text, "match", group.iter().map(|switch| &switch.name));
        let _ = writeln!(text, "latency = \"{}\"", group[0].latency);
    }
}

fn rates(hosts: usize, links: &[tidegate_core::fabric::Link]) -> Vec<f64> {
    let mut rates = vec![f64::INFINITY; hosts];
    for link in links {
        for end in [link.a, link.b] {
            if let Node::Host(host) = end {
                rates[host as usize] = link.rate.as_bps() as f64;
            }
        }
    }
    rates
}

fn lines(text: &mut String, entries: &Entries) {
    for (key, (_, value)) in entries {
        let _ = writeln!(text, "{key} = {}", inline(value));
    }
}

/// Formats a value as TOML on one line.
fn inline(value: &Tree) -> String {
    match &value.raw {
        Raw::Text(text) => json!(text).to_string(),
        Raw::Integer(integer) => integer.to_string(),
        Raw::Number(number) => format!("{number:?}"),
        Raw::Flag(flag) => flag.to_string(),
        Raw::Date => value.at.text().to_owned(),
        Raw::List(items) => {
            format!("[{}]", items.iter().map(inline).collect::<Vec<_>>().join(", "))
        }
        Raw::Table(entries) => {
            let entries =
                entries.iter().map(|(key, (_, value))| format!("{key} = {}", inline(value)));
            format!("{{ {} }}", entries.collect::<Vec<_>>().join(", "))
        }
    }
}

/// Content of a scenario.
pub(super) struct Content<'a> {
    pub(super) format: Format,
    pub(super) inputs: &'a [Input],
    pub(super) base: Option<&'a Input>,
    pub(super) setting: &'a Setting,
    pub(super) arrivals: &'a [Arrival],
}

impl Content<'_> {
    /// Returns the scenario and its trace. The scenario is loaded first, so that only valid
    /// scenarios are written.
    pub(super) fn files(&self) -> Result<Vec<(String, String)>, Error> {
        let Content { setting, arrivals, .. } = self;
        let mut text = self.head();
        text += &setting.text;
        let ends = arrivals.iter().filter(|arrival| arrival.bytes != Message::UNLIMITED);
        let trace = self.trace(ends);
        let origin = self.base.unwrap_or(&self.inputs[0]);
        if text.len() as u64 > MOST_BYTES {
            let expected = format!("a fabric whose scenario has at most {MOST_BYTES} bytes");
            return Err(Error::whole(&origin.name, "a larger fabric", expected));
        }
        if arrivals.is_empty() {
            text += TRAFFIC;
            load(&text, &origin.name, &[])?;
            return Ok(vec![("scenario.toml".into(), text)]);
        }
        for Arrival { at, src, dst, .. } in
            arrivals.iter().filter(|a| a.bytes == Message::UNLIMITED)
        {
            let [src, dst] = [src, dst].map(|host| &setting.hosts[*host as usize]);
            let _ =
                writeln!(text, "\n[[flows]]\nsrc = \"{src}\"\ndst = \"{dst}\"\nstart = \"{at}\"");
        }
        load(&(text.clone() + PLACEHOLDER_TRAFFIC), &origin.name, &[])?;
        let Some(trace) = trace else { return Ok(vec![("scenario.toml".into(), text)]) };
        let _ = writeln!(text, "\n[[traffic]]\nkind = \"trace\"\nfile = \"{TRACE}\"");
        Ok(vec![(TRACE.into(), trace), ("scenario.toml".into(), text)])
    }

    /// Returns the comment at the top, and the name and times of the run.
    fn head(&self) -> String {
        let files: Vec<&str> = self.inputs.iter().map(Input::short).collect();
        let mut command =
            format!("tidegate import --as {} {}", self.format.name(), files.join(" "));
        if let Some(base) = self.base {
            let _ = write!(command, " --fabric {}", base.short());
        }
        let mut comment = format!("Made by `{command}`. {}", self.setting.comment);
        let (first, last) = self.measured_window();
        if !self.arrivals.is_empty() {
            comment += " The measured window begins at the first flow. It lasts as long as the \
                        busiest host needs to send or receive its bytes, and at least until the \
                        start of the last flow. Other flows complete during the drain.";
        } else {
            comment += " The input has no flows: the traffic is an example.";
        }
        let options = textwrap::Options::new(WIDTH).initial_indent("# ").subsequent_indent("# ");
        let mut text =
            textwrap::fill(&comment, options.word_splitter(textwrap::WordSplitter::NoHyphenation));
        let name = self.inputs.last().map_or("", Input::stem);
        let _ = write!(text, "\nname = {}\nduration = \"{last}\"\n", json!(name));
        if first > Time::ZERO {
            let _ = writeln!(text, "warmup = \"{first}\"");
        }
        if !self.arrivals.is_empty() {
            let _ = writeln!(text, "drain = \"{DRAIN}\"");
        }
        text
    }

    /// Returns start and end of the measured window.
    fn measured_window(&self) -> (Time, Time) {
        if self.arrivals.is_empty() {
            return (Time::ms(2), Time::ms(10));
        }
        let starts = || self.arrivals.iter().map(|arrival| arrival.at);
        let (first, last) =
            (starts().min().unwrap_or_default(), starts().max().unwrap_or_default());
        let mut seconds = vec![[0.0; 2]; self.setting.hosts.len()];
        let mut least = Span::us(100);
        for arrival in self.arrivals {
            if arrival.bytes == Message::UNLIMITED {
                least = Span::ms(10);
                continue;
            }
            for (end, host) in [arrival.src, arrival.dst].into_iter().enumerate() {
                let rate = self.setting.rates[host as usize];
                seconds[host as usize][end] += arrival.bytes as f64 * 8.0 / rate;
            }
        }
        let busiest = seconds.iter().flatten().copied().fold(0.0, f64::max);
        let busiest = Span::from_ps_f64((busiest * 1e12).min(Span::s(90).as_ps() as f64));
        let end = last.after(least).max(first.after(busiest));
        // Rounded up to a multiple of 100 us.
        let unit = Span::us(100).as_ps();
        (first, Time::ps((end.as_ps() / unit + 1) * unit))
    }

    /// Returns the content of the trace, if it has any flows.
    fn trace<'a>(&self, arrivals: impl Iterator<Item = &'a Arrival>) -> Option<String> {
        let mut trace = csv::TRACE.join(",") + "\n";
        let head = trace.len();
        for Arrival { at, src, dst, bytes } in arrivals {
            let [src, dst] = [src, dst].map(|host| &self.setting.hosts[*host as usize]);
            let _ = writeln!(trace, "{},{src},{dst},{bytes}", decimal(*at, Span::us(1)));
        }
        (trace.len() > head).then_some(trace)
    }
}
