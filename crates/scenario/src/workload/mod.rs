//! Scenarios from a user's own traffic: a list of flows in CSV, or a packet capture.
//!
//! A reader ([`list`], [`capture`]) returns the flows between addresses. They are ordered and their
//! hosts numbered ([`Trace`]), incasts are found ([`incast`]), and everything is measured
//! ([`Profile`]). [`Workload::files`] returns a scenario with synthetic traffic of the same sizes,
//! load and incasts, and a scenario that replays the flows. The caller draws the synthetic traffic,
//! measures it in the same way, and compares the two ([`distances`]).

mod address;
mod capture;
mod columns;
mod connections;
mod distribution;
mod incast;
mod list;
mod packet;
mod profile;
mod rate;
mod synthetic;
mod time;
mod trace;
mod write;

use std::io::{BufReader, Read};
use std::path::Path;

use tidegate_core::{Rate, Span};

use crate::error::Error;
use crate::read::quantity::rounded_up;
use crate::{files, options};

pub use distribution::{largest_difference, percentile};
pub use incast::{FoundIncast, IncastRule};
pub use profile::{Distance, DistanceKind, Profile, distances};
pub use rate::{HostLink, LinkReason};
pub use time::TimeUnit;
pub use trace::{Noted, Trace, TracedFlow, Window};
pub use write::COMPLETIONS;

/// Gap that ends a flow of a capture, unless set: longer than round trips of a datacenter, and
/// shorter than the 200 ms that Linux waits at least before it repeats a packet without other
/// signs of loss.
pub const IDLE: Span = Span::ms(10);

/// Number of flows from which distributions are compared without a warning.
const FEW: usize = 100;
/// Number of bytes that determine the kind of a file.
const START: u64 = 64;
/// First bytes of a file that gzip compressed.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Settings of an analysis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadOptions {
    /// Unit of times in a list whose columns do not name one.
    pub time_unit: Option<TimeUnit>,
    /// Gap that ends a flow of a capture.
    pub idle: Span,
    /// The part of the trace that is analysed.
    pub window: Option<Window>,
    /// Rate of the hosts' links; `None`: the smallest standard rate that carries the busiest host.
    pub host_link: Option<Rate>,
    /// The rule by which incasts are found.
    pub incast: IncastRule,
}

impl Default for WorkloadOptions {
    fn default() -> WorkloadOptions {
        WorkloadOptions {
            time_unit: None,
            idle: IDLE,
            window: None,
            host_link: None,
            incast: IncastRule::default(),
        }
    }
}

/// The analysis of a trace.
#[derive(Clone, Debug)]
pub struct Workload {
    /// The flows.
    pub trace: Trace,
    /// Rate of the hosts' links in the scenarios.
    pub host_link: HostLink,
    /// Incasts.
    pub incast: Option<FoundIncast>,
    /// The rule by which they were found.
    pub rule: IncastRule,
    /// Whether each flow belongs to an incast.
    pub is_incast: Vec<bool>,
    /// Measures of the trace.
    pub profile: Profile,
    /// Properties of the trace that limit the conclusions, one sentence each.
    pub warnings: Vec<String>,
}

impl Workload {
    /// Reads and analyses a list of flows or a packet capture. The first bytes of the file
    /// determine which of the two it is.
    ///
    /// # Errors
    /// If the file cannot be read or is invalid; the error names its place.
    pub fn read(path: &Path, options: &WorkloadOptions) -> Result<Workload, Error> {
        let file = path.display().to_string();
        let unreadable = |why: std::io::Error| {
            let found = files::unreadable(&why);
            Error::whole(&file, found, "a list of flows in CSV, or a packet capture")
        };
        let mut open = files::open(path, u64::MAX).map_err(unreadable)?;
        let mut start = Vec::new();
        open.by_ref().take(START).read_to_end(&mut start).map_err(unreadable)?;
        if start.starts_with(&GZIP) {
            let expected = "an uncompressed file: decompress it first (gunzip)";
            return Err(Error::whole(&file, "a file that gzip compressed", expected));
        }
        let is_capture = start.first_chunk().is_some_and(|start| capture::is_capture(*start));
        if !is_capture && is_binary(&start) {
            let found = start.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<String>();
            let expected = format!(
                "{} or a list of flows in CSV, which is text in UTF-8: convert the file to one of \
                 these",
                capture::FORMS
            );
            return Err(Error::whole(&file, format!("the first bytes {found}"), expected));
        }
        let from = BufReader::with_capacity(1 << 16, std::io::Cursor::new(start).chain(open));
        let gathered = match is_capture {
            true => capture::read(from, &file, options.idle)?,
            false => list::read(from, &file, options.time_unit)?,
        };
        let mut trace = gathered.finish(options.window)?;
        trace.file = path.file_name().map_or(file, |name| name.to_string_lossy().into_owned());
        Workload::of(trace, options)
    }

    fn of(mut trace: Trace, options: &WorkloadOptions) -> Result<Workload, Error> {
        let hosts = trace.hosts.len();
        let host_link = match options.host_link {
            Some(rate) => HostLink { rate, reason: LinkReason::Set },
            None => HostLink::of(&trace),
        };
        let mut warnings = std::mem::take(&mut trace.warnings);
        let needed = rate::needed(&trace, host_link.rate);
        if needed > trace::LONGEST {
            let found = format!("{}, at which the busiest host needs {needed}", host_link.rate);
            let expected = format!("a rate at which it needs at most {}", trace::LONGEST);
            return Err(Error::whole("--host-link", found, expected));
        }
        if needed > trace.duration {
            warnings.push(format!(
                "all flows start within {}, but the busiest host needs {} for its bytes at {}: \
                 loads refer to that time",
                rounded_up(trace.duration),
                rounded_up(needed),
                host_link.rate
            ));
            trace.duration = time::rounded(needed);
        }
        let rule = options.incast;
        let (incast, is_incast) = incast::find(&trace.flows, hosts, trace.duration, rule);
        let profile = Profile::of(&trace.flows, hosts, trace.duration, rule.window);
        if trace.resolution > rule.window && trace.flows.len() > 1 {
            warnings.push(format!(
                "all start times are multiples of {}: shorter times between starts, and incasts \
                 within {}, cannot be measured",
                trace.resolution, rule.window
            ));
        }
        if trace.flows.len() < FEW {
            warnings.push(format!(
                "{} flows are too few for distributions: distances are mostly chance",
                trace.flows.len()
            ));
        }
        Ok(Workload { trace, host_link, incast, rule, is_incast, profile, warnings })
    }

    /// Returns names and contents of the files: distributions, trace, hosts, and two scenarios. The
    /// last one is `scenario.toml`.
    pub fn files(&self) -> Vec<(String, String)> {
        write::files(self)
    }
}

/// Whether a file that starts with these bytes is no text.
fn is_binary(start: &[u8]) -> bool {
    let is_control = |byte: &u8| byte.is_ascii_control() && !byte.is_ascii_whitespace();
    // The fourth byte may begin a longer character.
    let first = std::str::from_utf8(&start[..start.len().min(4)]);
    start.iter().any(is_control) || first.is_err_and(|why| why.error_len().is_some())
}

/// Parses a window of time, `FROM..TO`; either end may be missing.
///
/// # Errors
/// If the text is something else.
pub fn window(option: &str, text: &str) -> Result<Window, Error> {
    let wrong = || {
        let expected = "two times with units, such as 0s..60s, the second of them later";
        Error::whole(option, format!("{text:?}"), expected)
    };
    let (from, to) = text.split_once("..").ok_or_else(wrong)?;
    let time = |text: &str| {
        options::duration(option, text).map(|time| {
            Span::ps(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX).saturating_mul(1_000))
        })
    };
    let from = if from.trim().is_empty() { Span::ZERO } else { time(from.trim())? };
    let to = if to.trim().is_empty() { None } else { Some(time(to.trim())?) };
    if to.is_some_and(|to| to <= from) { Err(wrong()) } else { Ok((from, to)) }
}
