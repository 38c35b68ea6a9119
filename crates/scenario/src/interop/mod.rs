//! Interoperability: import and export of files of other simulators.
//!
//! A format consists of a file of the fabric and a file of the flows. A reader returns a topology,
//! and arrivals between numbered hosts. One writer ([`scenario`]) turns them into a scenario with
//! the arrivals in a separate trace, so that a long list of flows is never parsed as TOML. Export
//! starts from a plan. A warning reports content that the target format cannot express or that is
//! dropped. Content whose loss would change the meaning of the rest is an error with file and line.

mod cm;
mod edges;
mod joins;
mod ns3;
mod scenario;
mod topo;
mod words;

use std::collections::BTreeSet;
use std::path::Path;

use tidegate_core::fabric::Node;
use tidegate_core::workload::{Arrival, Flow, Pattern};
use tidegate_core::{Message, Span, Time};

use crate::compile::csv;
use crate::compile::hosts::Hosts;
use crate::compile::topology::Topology;
use crate::error::{Error, nearest, one_of};
use crate::plan::Plan;
use crate::{files, template, templates};

/// Size limit of a file, in bytes.
const MOST_BYTES: u64 = 1 << 30;
/// Latest start time of a flow.
const LATEST: Span = Span::s(900);
/// Largest size of a flow, in bytes.
const MOST_FLOW: u64 = 1_000_000_000_000_000;

/// File formats of other simulators.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The ns-3 simulator of HPCC: `topology.txt` and `flow.txt`.
    Ns3,
    /// htsim: `.topo` and `.cm`.
    Htsim,
    /// A list of links, and a trace in the format of `kind = "trace"`.
    Edges,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 3] = [Format::Ns3, Format::Htsim, Format::Edges];

    /// Returns the name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Ns3 => "ns3",
            Format::Htsim => "htsim",
            Format::Edges => "edges",
        }
    }

    /// Returns the largest flow size that the simulator reads.
    const fn most_bytes(self) -> u64 {
        match self {
            Format::Ns3 => u32::MAX as u64,
            Format::Htsim => i32::MAX as u64,
            Format::Edges => MOST_FLOW,
        }
    }

    /// Returns the format with this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn find(name: &str) -> Result<Format, Error> {
        let names = || Format::ALL.into_iter().map(Format::name);
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            Error::whole("--as", format!("{name:?}"), one_of(names()))
                .suggest(nearest(name, names()))
        })
    }
}

/// An input file in memory.
#[derive(Clone, Debug)]
pub struct Input {
    name: String,
    text: String,
}

impl Input {
    /// Returns an input from a text and its name in messages.
    pub fn new(name: &str, text: &str) -> Input {
        Input { name: name.into(), text: files::without_mark(text).into() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If the file cannot be read, is larger than 1 GiB, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Input, Error> {
        let name = path.display().to_string();
        let wrong = |found: String, expected: &str| Error::whole(&name, found, expected);
        let bytes = files::read(path, MOST_BYTES)
            .map_err(|why| wrong(files::unreadable(&why), "a text file"))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            wrong(format!("a byte that is not UTF-8 at offset {at}"), "text in UTF-8")
        })?;
        Ok(Input::new(&name, &text))
    }

    /// Returns the scenario of a fabric for flows: the scenario file `named`, or one of
    /// [`templates`].
    ///
    /// # Errors
    /// If there is neither.
    pub fn fabric(named: &str) -> Result<Input, Error> {
        if templates().any(|name| name == named) {
            return Ok(Input::new(named, &template(named)?));
        }
        let path = Path::new(named);
        if !path.exists() {
            let expected = format!("a scenario file, or {}", one_of(templates()));
            let wrong = Error::whole("--fabric", format!("{named:?}"), expected);
            return Err(wrong.suggest(nearest(named, templates())));
        }
        Input::read(path)
    }

    /// Returns the file name without folders.
    fn short(&self) -> &str {
        Path::new(&self.name).file_name().and_then(|name| name.to_str()).unwrap_or(&self.name)
    }

    /// Returns the file name without its extension.
    fn stem(&self) -> &str {
        let short = self.short();
        short.rsplit_once('.').map_or(short, |(stem, _)| stem)
    }
}

/// Files to write, and warnings about content that they omit.
#[derive(Clone, Debug)]
pub struct Files {
    /// Names and contents.
    pub files: Vec<(String, String)>,
    /// Warnings about omitted content, one sentence each.
    pub warnings: Vec<String>,
}

/// A fabric that a reader returns.
struct Network {
    topology: Topology,
    /// Nodes by their number in files of flows.
    numbers: Vec<Node>,
    /// Payload of a full packet, if the simulator has a default.
    mtu: Option<u64>,
    /// Probability that a link loses a packet.
    loss: f64,
    /// Explanation for the comment of the scenario.
    comment: String,
}

/// Converts files of another simulator to a scenario, `scenario.toml`, and, if they contain flows,
/// a trace, `flows.csv`.
///
/// `inputs` are a fabric, or a fabric and flows, in this order. If `base` is a scenario, `inputs`
/// are flows only: they use its fabric, and replace its flows, traffic and times.
///
/// # Errors
/// If a file does not conform to its format, contains something that a scenario cannot express, or
/// the resulting scenario is invalid.
pub fn import(format: Format, inputs: &[Input], base: Option<&Input>) -> Result<Files, Error> {
    let mut warnings = Vec::new();
    let (fabric, flows) = match (inputs, base) {
        ([fabric], None) => (Some(fabric), None),
        ([fabric, flows], None) => (Some(fabric), Some(flows)),
        ([flows], Some(_)) => (None, Some(flows)),
        (others, base) => {
            let expected = match base {
                None => "a fabric file, or a fabric file and a flow file",
                Some(_) => "one flow file with --fabric",
            };
            return Err(Error::whole("FILES", format!("{} files", others.len()), expected));
        }
    };
    let setting = match (fabric, base) {
        (Some(input), _) => scenario::Setting::made(match format {
            Format::Ns3 => ns3::fabric(input, &mut warnings)?,
            Format::Htsim => topo::fabric(input, &mut warnings)?,
            Format::Edges => edges::fabric(input, &mut warnings)?,
        }),
        (None, base) => scenario::Setting::of(base.unwrap_or(&inputs[0]))?,
    };
    let arrivals = flows.map(|input| {
        let hosts = Hosts::new(&setting.hosts);
        match format {
            Format::Ns3 => ns3::flows(input, &setting.numbers, &mut warnings),
            Format::Htsim => cm::flows(input, hosts.len(), &mut warnings),
            Format::Edges => csv::arrivals(&input.name, &input.text, &hosts),
        }
    });
    let arrivals = arrivals.transpose()?.unwrap_or_default();
    let content =
        scenario::Content { inputs, base, format, setting: &setting, arrivals: &arrivals };
    let files = content.files()?;
    Ok(Files { files, warnings })
}

/// Writes the fabric of a plan and its `flows`, in order of time, in the format of another
/// simulator. `origin` is the name of the scenario in messages.
///
/// # Errors
/// If the format cannot express the plan: circuits, links with several rates, dependent messages,
/// or unlimited flows in a format that has none.
pub fn export(
    format: Format,
    plan: &Plan,
    origin: &str,
    flows: impl Iterator<Item = Flow>,
) -> Result<Files, Error> {
    let wrong = |found: String, expected: &str| Err(Error::whole(origin, found, expected));
    if plan.fabric.circuits.is_some() {
        return wrong(
            "a fabric with circuits".into(),
            "a fabric without circuits: export does not support them",
        );
    }
    if plan.fabric.first_nic.is_some() {
        return wrong(
            "hosts with several ports (fabric.planes)".into(),
            "one link per host: export does not support several",
        );
    }
    if plan.fabric.servers.is_some() {
        return wrong(
            "links inside of servers (hosts.server)".into(),
            "hosts without them: export does not support them",
        );
    }
    if !plan.fabric.port_rates.is_empty() || !plan.fabric.rate_changes.is_empty() {
        return wrong(
            "links whose rate depends on the direction or the time (faults.degraded)".into(),
            "links with one rate: export does not support others",
        );
    }
    for block in &plan.workload.traffic {
        if matches!(
            block.pattern,
            Pattern::Collective(_)
                | Pattern::Job(_)
                | Pattern::ClosedLoop { .. }
                | Pattern::Answered { .. }
        ) {
            let found = format!("dependent messages in the traffic {:?}", label(plan, block.label));
            return wrong(
                found,
                "flows with fixed start times: export does not support replies, closed loops, \
                 collectives and jobs",
            );
        }
    }
    let mut warnings = left_out(plan, format);
    let mut arrivals = Vec::new();
    let mut stopped = 0;
    for flow in flows {
        stopped += usize::from(flow.stop < plan.duration);
        let Flow { src, dst, bytes, start: at, .. } = flow;
        if bytes == Message::UNLIMITED && format != Format::Htsim {
            let [src, dst] = [src, dst].map(|host| &plan.fabric.hosts[host as usize]);
            let found = format!("an unlimited flow from {src} to {dst}");
            return wrong(
                found,
                "flows of limited size: this format does not support unlimited flows",
            );
        }
        arrivals.push(Arrival { at, src, dst, bytes });
    }
    if stopped > 0 {
        warnings.push(format!(
            "stop times of flows are omitted: {stopped} flows stop before the end of the run"
        ));
    }
    let sizes = arrivals.iter().map(|arrival| arrival.bytes);
    let most = format.most_bytes();
    let large = sizes.filter(|bytes| (most + 1..Message::UNLIMITED).contains(bytes)).count();
    if large > 0 {
        let more = "the limit of the simulator's own reader";
        warnings.push(format!("{large} flows are larger than {most} bytes, {more}"));
    }
    let files = match format {
        Format::Ns3 => ns3::write(plan, &arrivals),
        Format::Htsim => {
            warnings
                .push("the fabric is omitted: a .topo file describes only regular trees".into());
            cm::write(plan, &arrivals)
        }
        Format::Edges => edges::write(plan, &arrivals),
    };
    Ok(Files { files, warnings })
}

/// Returns warnings about content of a plan that this format cannot express.
fn left_out(plan: &Plan, format: Format) -> Vec<String> {
    let mut warnings = vec![
        "only hosts, links and flows are written: protocols, switch settings and times of the run \
         are omitted"
            .to_owned(),
    ];
    let labels: BTreeSet<u16> = (plan.workload.flows.iter().map(|flow| flow.label))
        .chain(plan.workload.traffic.iter().map(|block| block.label))
        .collect();
    if labels.len() > 1 {
        warnings.push("flows are written without their labels".to_owned());
    }
    let faults = &plan.faults;
    let others = [faults.corruption, faults.duplication, faults.reordering];
    let has_others = others.iter().any(|share| *share > 0.0)
        || faults.flaps.is_some()
        || !faults.outages.is_empty();
    // Only one of the formats has a loss rate of links.
    let has_loss = format == Format::Ns3;
    match (has_others, faults.loss > 0.0 && !has_loss) {
        (true, _) if has_loss => warnings.push("faults other than loss are omitted".to_owned()),
        (true, _) => warnings.push("faults are omitted".to_owned()),
        (false, true) => warnings.push("loss is omitted".to_owned()),
        (false, false) => {}
    }
    warnings
}

fn label(plan: &Plan, number: u16) -> &str {
    plan.labels.get(number as usize).map_or("", String::as_str)
}

/// Formats a time as a number of `unit`, exactly and without trailing zeros.
pub(crate) fn decimal(time: Time, unit: Span) -> String {
    let (whole, rest) = (time.as_ps() / unit.as_ps(), time.as_ps() % unit.as_ps());
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.as_ps().ilog10() as usize;
    format!("{whole}.{rest:0digits$}").trim_end_matches('0').to_owned()
}
