//! Files of other simulators: read into a scenario, and written from one.
//!
//! A format is a file of a fabric and a file of flows. Reading gives what scenarios are made of:
//! a topology, and arrivals between numbered hosts. One writer makes a scenario of them
//! ([`scenario`]), with the arrivals in a trace beside it, so that a long list of flows is never
//! parsed as TOML. Writing starts from a plan. What a format cannot say, or we do not keep, is a
//! warning; what would change the meaning of the rest is an error, with file and line.

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
use crate::compile::fabric::Topology;
use crate::compile::hosts::Hosts;
use crate::error::{Error, nearest, one_of};
use crate::plan::Plan;
use crate::{files, template, templates};

/// Largest file.
const MOST_BYTES: u64 = 1 << 30;
/// Latest start of a flow.
const LATEST: Span = Span::s(900);
/// Largest flow.
const MOST_FLOW: u64 = 1_000_000_000_000_000;

/// Whose files are read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The ns-3 simulator of HPCC: `topology.txt` and `flow.txt`.
    Ns3,
    /// htsim: `.topo` and `.cm`.
    Htsim,
    /// A list of links, and a trace as scenarios name it.
    Edges,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 3] = [Format::Ns3, Format::Htsim, Format::Edges];

    /// Its name, in lower case.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Ns3 => "ns3",
            Format::Htsim => "htsim",
            Format::Edges => "edges",
        }
    }

    /// The largest flow that its simulator reads.
    const fn most_bytes(self) -> u64 {
        match self {
            Format::Ns3 => u32::MAX as u64,
            Format::Htsim => i32::MAX as u64,
            Format::Edges => MOST_FLOW,
        }
    }

    /// The format of a name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(name: &str) -> Result<Format, Error> {
        let names = || Format::ALL.into_iter().map(Format::name);
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or_else(|| {
            Error::whole("--as", format!("{name:?}"), one_of(names())).meant(nearest(name, names()))
        })
    }
}

/// A file that was read.
#[derive(Clone, Debug)]
pub struct Input {
    name: String,
    text: String,
}

impl Input {
    /// A text, and the name that messages call it by.
    pub fn new(name: &str, text: &str) -> Input {
        Input { name: name.into(), text: files::without_mark(text).into() }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, is larger than 1 GiB, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Input, Error> {
        let name = path.display().to_string();
        let wrong = |found: String, expected: &str| Error::whole(&name, found, expected);
        let bytes = files::read(path, MOST_BYTES)
            .map_err(|why| wrong(format!("a file that cannot be read ({why})"), "a text file"))?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            wrong(format!("no UTF-8 at byte {at}"), "a text in UTF-8")
        })?;
        Ok(Input::new(&name, &text))
    }

    /// A fabric to send flows over: a scenario's, whose file `named` is, or one of
    /// [`templates`].
    ///
    /// # Errors
    /// When there is neither.
    pub fn fabric(named: &str) -> Result<Input, Error> {
        if templates().any(|name| name == named) {
            return Ok(Input::new(named, &template(named)?));
        }
        let path = Path::new(named);
        if !path.exists() {
            let expected = format!("a scenario file, or {}", one_of(templates()));
            let wrong = Error::whole("--fabric", format!("{named:?}"), expected);
            return Err(wrong.meant(nearest(named, templates())));
        }
        Input::read(path)
    }

    /// The last part of its name.
    fn short(&self) -> &str {
        Path::new(&self.name).file_name().and_then(|name| name.to_str()).unwrap_or(&self.name)
    }

    /// That without what is behind its last dot.
    fn stem(&self) -> &str {
        let short = self.short();
        short.rsplit_once('.').map_or(short, |(stem, _)| stem)
    }
}

/// Files to be written, each with its name, and what is left out of them.
#[derive(Clone, Debug)]
pub struct Files {
    /// Names and contents.
    pub files: Vec<(String, String)>,
    /// What was not kept, a sentence each.
    pub warnings: Vec<String>,
}

/// A fabric that was read.
struct Network {
    topology: Topology,
    /// What the numbers of nodes in files of flows stand for.
    numbers: Vec<Node>,
    /// Payload of a full packet, where its simulator has a usual one.
    mtu: Option<u64>,
    /// Probability that a link loses a packet.
    loss: f64,
    /// What a reader of the scenario should know of it.
    says: String,
}

/// Makes a scenario, `scenario.toml`, of files of another simulator, and where they hold flows a
/// trace, `flows.csv`, beside it.
///
/// `inputs` are a fabric, or a fabric and flows, in this order; or flows alone where `base` is a
/// scenario with the fabric that they are for, of which all is kept but what it sends and when.
///
/// # Errors
/// When a file is not what its format asks for, says what a scenario cannot, or the scenario that
/// comes of it is none.
pub fn import(format: Format, inputs: &[Input], base: Option<&Input>) -> Result<Files, Error> {
    let mut warnings = Vec::new();
    let (fabric, flows) = match (inputs, base) {
        ([fabric], None) => (Some(fabric), None),
        ([fabric, flows], None) => (Some(fabric), Some(flows)),
        ([flows], Some(_)) => (None, Some(flows)),
        (others, base) => {
            let expected = match base {
                None => "a fabric, or a fabric and a file of flows",
                Some(_) => "one file, of flows, beside --fabric",
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
    let made = scenario::Made { inputs, base, format, setting: &setting, arrivals: &arrivals };
    let files = made.files()?;
    Ok(Files { files, warnings })
}

/// Writes a plan's fabric and `flows`, which are its own in order of time, as another simulator
/// reads them. `origin` is what messages call the scenario.
///
/// # Errors
/// When the format cannot say what the plan does: circuits, flows that wait for each other, or
/// flows without end where there are none.
pub fn export(
    format: Format,
    plan: &Plan,
    origin: &str,
    flows: impl Iterator<Item = Flow>,
) -> Result<Files, Error> {
    let wrong = |found: String, expected: &str| Err(Error::whole(origin, found, expected));
    if plan.fabric.circuits.is_some() {
        return wrong("a fabric with circuits".into(), "one of packets alone, for an export");
    }
    for block in &plan.workload.traffic {
        if matches!(
            block.pattern,
            Pattern::Collective(_) | Pattern::ClosedLoop { .. } | Pattern::Answered { .. }
        ) {
            let found = format!(
                "{:?} traffic, which begins when other has arrived",
                label(plan, block.label)
            );
            return wrong(found, "flows that begin at times known beforehand, for an export");
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
            let found = format!("a flow without end, {src} to {dst}");
            return wrong(found, "flows of some size, for an export to this format");
        }
        arrivals.push(Arrival { at, src, dst, bytes });
    }
    if stopped > 0 {
        warnings.push(format!("when flows stop is left out: {stopped} do before the run ends"));
    }
    let sizes = arrivals.iter().map(|arrival| arrival.bytes);
    let most = format.most_bytes();
    let large = sizes.filter(|bytes| (most + 1..Message::UNLIMITED).contains(bytes)).count();
    if large > 0 {
        let more = "the most that the simulator's own reader takes";
        warnings.push(format!("{large} flows are larger than {most} bytes, {more}"));
    }
    let files = match format {
        Format::Ns3 => ns3::write(plan, &arrivals),
        Format::Htsim => {
            warnings.push("the fabric is left out: a .topo describes regular trees alone".into());
            cm::write(plan, &arrivals)
        }
        Format::Edges => edges::write(plan, &arrivals),
    };
    Ok(Files { files, warnings })
}

/// What of a plan this format has not.
fn left_out(plan: &Plan, format: Format) -> Vec<String> {
    let mut warnings = vec![
        "only hosts, links and flows are written: protocols, switches and times of the run are not"
            .to_owned(),
    ];
    let labels: BTreeSet<u16> = (plan.workload.flows.iter().map(|flow| flow.label))
        .chain(plan.workload.traffic.iter().map(|block| block.label))
        .collect();
    if labels.len() > 1 {
        warnings.push(format!("{} labels of flows are left out", labels.len()));
    }
    let faults = &plan.faults;
    let others = [faults.corruption, faults.duplication, faults.reordering];
    let has_others = others.iter().any(|share| *share > 0.0)
        || faults.flaps.is_some()
        || !faults.outages.is_empty();
    // Of the formats one alone says how much links lose.
    let says_loss = format == Format::Ns3;
    match (has_others, faults.loss > 0.0 && !says_loss) {
        (true, _) if says_loss => warnings.push("faults other than loss are left out".to_owned()),
        (true, _) => warnings.push("faults are left out".to_owned()),
        (false, true) => warnings.push("loss is left out".to_owned()),
        (false, false) => {}
    }
    warnings
}

fn label(plan: &Plan, number: u16) -> &str {
    plan.labels.get(number as usize).map_or("", String::as_str)
}

/// A time as a number of `unit`, with all its digits and no more.
fn decimal(time: Time, unit: Span) -> String {
    let (whole, rest) = (time.as_ps() / unit.as_ps(), time.as_ps() % unit.as_ps());
    if rest == 0 {
        return whole.to_string();
    }
    let digits = unit.as_ps().ilog10() as usize;
    format!("{whole}.{rest:0digits$}").trim_end_matches('0').to_owned()
}
