//! A run's results as named numbers with units. Means over seeds and tables of many runs are built
//! from them.

use tidegate_results::{
    FctSummary, Fixed, GroupSummary, JobSummary, LinkSummary, Summary, SwitchSummary, is_maximum,
};

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name in results.
    pub name: &'static str,
    /// `Gbps`, `us` or `B`; empty for counts and ratios.
    pub unit: &'static str,
    /// Which of two values is the better one.
    pub better: Better,
}

/// Which of two values is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// The smaller.
    Less,
    /// The greater.
    More,
    /// Neither: it only describes a run.
    Neither,
}

use Better::{Less, More, Neither};

/// All metrics: name, unit, which value is better, and description.
pub const METRICS: [(&str, &str, Better, &str); 51] = [
    ("goodput_mean_gbps", "Gbps", More, "Mean of the flows' goodputs."),
    ("goodput_min_gbps", "Gbps", More, "Smallest of the flows' goodputs."),
    ("goodput_max_gbps", "Gbps", Neither, "Largest of the flows' goodputs."),
    ("goodput_total_gbps", "Gbps", More, "Payload of all flows over the measured time."),
    ("goodput_jain", "", More, "Jain's index of their goodputs."),
    ("fair_share_gbps", "Gbps", Neither, "Max-min fair share of a flow."),
    ("hop_delay_us", "us", Less, "Longest mean queueing delay at any hop, mean over flows."),
    ("retransmitted_bytes", "B", Less, "Payload sent again."),
    ("offered_gbps", "Gbps", Neither, "Payload of the messages over the measured time."),
    ("configured_gbps", "Gbps", Neither, "Mean of `offered_gbps` that the scenario configures."),
    ("messages", "", Neither, "Messages submitted after warm-up."),
    ("unfinished", "", Less, "Messages of these that did not finish."),
    ("fct_mean_us", "us", Less, "Completion time of finished messages: mean."),
    ("fct_p50_us", "us", Less, "Completion time of all messages: median."),
    ("fct_p99_us", "us", Less, "99th percentile."),
    ("fct_p999_us", "us", Less, "99.9th percentile."),
    ("slowdown_p50", "", Less, "Completion time over that in an empty network: median."),
    ("slowdown_p99", "", Less, "99th percentile."),
    ("slowdown_p999", "", Less, "99.9th percentile."),
    ("size_messages", "", Neither, "`messages` of a range of sizes."),
    ("size_unfinished", "", Less, "`unfinished` of a range of sizes."),
    ("size_slowdown_p50", "", Less, "`slowdown_p50` of a range of sizes."),
    ("size_slowdown_p99", "", Less, "`slowdown_p99` of a range of sizes."),
    ("exchanges", "", Neither, "Requests of closed loops, by their label."),
    ("exchange_mean_us", "us", Less, "From request to the end of the reply: mean."),
    ("exchange_p50_us", "us", Less, "Median."),
    ("exchange_p99_us", "us", Less, "99th percentile."),
    ("job_iterations", "", Neither, "Finished iterations of a collective or job."),
    ("job_completion_us", "us", Less, "Time from its start to its last byte."),
    ("job_iteration_mean_us", "us", Less, "Mean time of its iterations."),
    ("job_iteration_p99_us", "us", Less, "99th percentile."),
    ("job_communication", "", Neither, "Share of its ranks' time without computing."),
    ("job_algbw_gbps", "Gbps", More, "Its algorithm bandwidth."),
    ("job_busbw_gbps", "Gbps", More, "Its bus bandwidth."),
    ("tor_buffer_mean_bytes", "B", Less, "Bytes in switches with hosts: mean over them."),
    ("tor_buffer_p99_bytes", "B", Less, "99th percentile over time, of the fullest."),
    ("tor_buffer_max_bytes", "B", Less, "Maximum."),
    ("core_buffer_mean_bytes", "B", Less, "Bytes in switches without hosts: mean over them."),
    ("core_buffer_p99_bytes", "B", Less, "99th percentile over time, of the fullest."),
    ("core_buffer_max_bytes", "B", Less, "Maximum."),
    ("utilization_max", "", Neither, "Share of time that the busiest switch port transmits."),
    ("queue_delay_mean_us", "us", Less, "Largest mean queueing delay of any switch port."),
    ("drops", "", Less, "Packets that switches dropped."),
    ("trims", "", Neither, "Packets whose payload switches dropped, if switches trim."),
    ("returned", "", Neither, "Trimmed packets sent back to their senders, if switches do that."),
    ("ecn_marks", "", Neither, "Packets that switches marked."),
    ("pauses", "", Less, "PFC pauses of all links, if switches pause."),
    ("paused_links", "", Less, "Links that were ever paused."),
    ("paused_share_mean", "", Less, "Share of time that a link is paused: mean over links."),
    ("paused_share_max", "", Less, "Share of time that the most paused link is paused."),
    ("packet_hops", "", Neither, "Packets delivered, summed over links."),
];

/// Returns the metric of that name.
///
/// # Panics
/// When there is none: a bug in this crate.
fn metric(name: &str) -> Metric {
    let known = METRICS.iter().find(|(known, ..)| *known == name);
    let (name, unit, better, _) = *known.unwrap_or_else(|| panic!("unknown metric {name}"));
    Metric { name, unit, better }
}

/// The table that contains a metric. Metrics of one table are tested together.
pub fn table_of(metric: &str) -> &'static str {
    let begins = |prefixes: &[&str]| prefixes.iter().any(|prefix| metric.starts_with(prefix));
    if begins(&["goodput_", "fair_share", "hop_delay", "retransmitted"]) {
        "flows"
    } else if begins(&["offered", "configured", "messages", "unfinished", "fct_", "slowdown_"]) {
        "messages"
    } else if begins(&["size_"]) {
        "sizes"
    } else if begins(&["exchange"]) {
        "requests"
    } else if begins(&["job_"]) {
        "collectives"
    } else {
        "switches"
    }
}

/// One value of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// Label of the flows; empty for flows without a label, and for values of the whole run.
    pub label: String,
    /// Their protocol; for the whole run all protocols, joined by ` + `.
    pub protocol: String,
    /// The metric.
    pub metric: Metric,
    /// Message sizes: at least the first, and below the second if there is one; `None`: all sizes.
    pub sizes: Option<(u64, Option<u64>)>,
    /// The value.
    pub value: f64,
    /// The value would be greater, or equal, if all messages had finished.
    pub is_lower_bound: bool,
    /// The value is a percentile of so few values that it is their maximum.
    pub is_maximum: bool,
}

/// All values of a run, in the order of [`METRICS`], label by label. Undefined values are omitted.
pub fn readings(summary: &Summary) -> Vec<Reading> {
    let mut all = Vec::new();
    for group in &summary.groups {
        Reader::new(&mut all, &group.label, &group.protocol).group(group);
    }
    let protocols = summary.protocols.join(" + ");
    // Requests without a label appear only in "all", which covers every request.
    let only_all = summary.exchanges.len() == 1;
    for (label, exchange) in &summary.exchanges {
        match label.as_str() {
            "all" if only_all => Reader::new(&mut all, "", &protocols).exchange(exchange),
            "all" => {}
            label => Reader::new(&mut all, label, &protocols).exchange(exchange),
        }
    }
    for job in &summary.jobs {
        // Collectives that share a label cannot be distinguished.
        let same =
            |other: &&JobSummary| (&other.label, &other.protocol) == (&job.label, &job.protocol);
        if summary.jobs.iter().filter(same).count() == 1 {
            Reader::new(&mut all, &job.label, &job.protocol).job(job);
        }
    }
    Reader::new(&mut all, "", &protocols).whole(summary);
    all
}

/// Number of values, and how many in a thousand of them lie above a percentile.
type Tail = (u64, u64);

/// Appends values of the same flows.
struct Reader<'a> {
    all: &'a mut Vec<Reading>,
    label: &'a str,
    protocol: &'a str,
    sizes: Option<(u64, Option<u64>)>,
}

impl<'a> Reader<'a> {
    fn new(all: &'a mut Vec<Reading>, label: &'a str, protocol: &'a str) -> Reader<'a> {
        Reader { all, label, protocol, sizes: None }
    }

    fn note(&mut self, name: &str, value: Option<f64>) {
        self.bounded(name, value, false);
    }

    fn bounded(&mut self, name: &str, value: Option<f64>, is_lower_bound: bool) {
        self.ranked(name, value, is_lower_bound, false);
    }

    /// A percentile with `per_mille` of the `count` values above it.
    fn tail(&mut self, name: &str, value: Option<Fixed>, is_bound: bool, (count, per_mille): Tail) {
        self.ranked(name, float(value), is_bound, is_maximum(count, per_mille));
    }

    fn ranked(&mut self, name: &str, value: Option<f64>, is_lower_bound: bool, is_maximum: bool) {
        if let Some(value) = value.filter(|value| value.is_finite()) {
            self.all.push(Reading {
                label: self.label.to_owned(),
                protocol: self.protocol.to_owned(),
                metric: metric(name),
                sizes: self.sizes,
                value,
                is_lower_bound,
                is_maximum,
            });
        }
    }

    fn group(&mut self, group: &GroupSummary) {
        let goodput = &group.goodput_gbps;
        self.note("goodput_mean_gbps", goodput.mean);
        self.note("goodput_min_gbps", goodput.min);
        self.note("goodput_max_gbps", goodput.max);
        self.note("goodput_total_gbps", goodput.total);
        self.note("goodput_jain", goodput.jain);
        self.note("fair_share_gbps", group.fair_share_gbps);
        self.note("hop_delay_us", float(group.hop_delay_us));
        self.note("retransmitted_bytes", Some(group.retransmitted_bytes as f64));
        let fct = &group.fct;
        if fct.count == 0 {
            return;
        }
        self.note("offered_gbps", group.offered_gbps);
        self.note("configured_gbps", group.asked_gbps);
        let n = fct.count;
        self.note("messages", Some(fct.count as f64));
        self.note("unfinished", Some(fct.unfinished as f64));
        self.bounded("fct_mean_us", float(fct.mean_us), fct.unfinished > 0);
        self.bounded("fct_p50_us", float(fct.p50_us), fct.is_lower_bound(500));
        self.tail("fct_p99_us", fct.p99_us, fct.is_lower_bound(10), (n, 10));
        self.tail("fct_p999_us", fct.p999_us, fct.is_lower_bound(1), (n, 1));
        self.bounded("slowdown_p50", float(fct.slowdown.p50), fct.is_slowdown_lower_bound(500));
        self.tail("slowdown_p99", fct.slowdown.p99, fct.is_slowdown_lower_bound(10), (n, 10));
        self.tail("slowdown_p999", fct.slowdown.p999, fct.is_slowdown_lower_bound(1), (n, 1));
        for row in &fct.by_size {
            self.sizes = Some((row.min_bytes, row.below_bytes));
            let fct = &row.fct;
            self.note("size_messages", Some(fct.count as f64));
            self.note("size_unfinished", Some(fct.unfinished as f64));
            self.bounded(
                "size_slowdown_p50",
                float(fct.slowdown.p50),
                fct.is_slowdown_lower_bound(500),
            );
            let tail = (fct.count, 10);
            self.tail("size_slowdown_p99", fct.slowdown.p99, fct.is_slowdown_lower_bound(10), tail);
        }
    }

    fn exchange(&mut self, fct: &FctSummary) {
        self.note("exchanges", Some(fct.count as f64));
        self.bounded("exchange_mean_us", float(fct.mean_us), fct.unfinished > 0);
        self.bounded("exchange_p50_us", float(fct.p50_us), fct.is_lower_bound(500));
        self.tail("exchange_p99_us", fct.p99_us, fct.is_lower_bound(10), (fct.count, 10));
    }

    fn job(&mut self, job: &JobSummary) {
        let is_cut = job.finished < job.iterations;
        let times = &job.iteration_us;
        self.note("job_iterations", Some(job.finished as f64));
        self.note("job_completion_us", float(job.completion_us));
        self.bounded("job_iteration_mean_us", float(times.mean), is_cut);
        self.tail("job_iteration_p99_us", times.p99, is_cut, (u64::from(job.measured), 10));
        self.note("job_communication", job.communication);
        // Bandwidths of the finished iterations alone would be too high.
        if !is_cut {
            self.note("job_algbw_gbps", job.algbw_gbps);
            self.note("job_busbw_gbps", job.busbw_gbps);
        }
    }

    fn whole(&mut self, summary: &Summary) {
        let (tors, cores): (Vec<&SwitchSummary>, Vec<&SwitchSummary>) =
            summary.switches.iter().partition(|switch| switch.hosts > 0);
        for (names, switches) in [
            (["tor_buffer_mean_bytes", "tor_buffer_p99_bytes", "tor_buffer_max_bytes"], tors),
            (["core_buffer_mean_bytes", "core_buffer_p99_bytes", "core_buffer_max_bytes"], cores),
        ] {
            let held = switches.iter().filter_map(|switch| switch.buffer_bytes.mean);
            self.note(names[0], Some(held.sum::<f64>() / switches.len() as f64));
            self.note(names[1], most(&switches, |switch| switch.buffer_bytes.p99));
            self.note(names[2], most(&switches, |switch| switch.buffer_bytes.max));
        }
        let ports: Vec<&LinkSummary> =
            summary.links.iter().filter(|link| !link.from_host).collect();
        self.note("utilization_max", most(&ports, |link| link.utilization));
        self.note("queue_delay_mean_us", most(&ports, |link| float(link.queue_delay_us.mean)));
        let drops: u64 = summary.switches.iter().map(|switch| switch.drops).sum();
        self.note("drops", Some(drops as f64));
        let trims: Vec<u64> = ports.iter().filter_map(|link| link.trims).collect();
        if !trims.is_empty() && summary.links_omitted == 0 {
            self.note("trims", Some(trims.iter().sum::<u64>() as f64));
        }
        let returned: Vec<u64> = ports.iter().filter_map(|link| link.returned).collect();
        if !returned.is_empty() && summary.links_omitted == 0 {
            self.note("returned", Some(returned.iter().sum::<u64>() as f64));
        }
        // A summary may omit links. Marks on omitted links are unknown, so then no total is given.
        let marks: u64 = ports.iter().map(|link| link.ecn_marks).sum();
        self.note("ecn_marks", (summary.links_omitted == 0).then_some(marks as f64));
        if let Some(pauses) = &summary.pauses {
            self.note("pauses", Some(pauses.pauses as f64));
            self.note("paused_links", Some(pauses.paused_links as f64));
            self.note("paused_share_mean", pauses.share_mean);
            self.note("paused_share_max", pauses.share_max);
        }
        self.note("packet_hops", Some(summary.engine.packet_hops as f64));
    }
}

/// Lower limit of a metric, and its upper limit if there is one. Confidence intervals may exceed
/// both.
pub fn limits(metric: &str) -> (f64, Option<f64>) {
    let least = if metric.contains("slowdown") { 1.0 } else { 0.0 };
    (least, (is_share(metric) || metric.contains("jain")).then_some(1.0))
}

/// Whether a metric is a share, to be shown in per cent.
pub fn is_share(metric: &str) -> bool {
    ["utilization", "paused_share", "job_communication"].iter().any(|name| metric.starts_with(name))
}

/// Text for a metric, without its unit: `slowdown, 99th percentile`.
pub fn words(metric: &str) -> String {
    let units = ["_gbps", "_us", "_bytes"];
    let plain = units.iter().find_map(|unit| metric.strip_suffix(unit)).unwrap_or(metric);
    let ends = [
        ("_p50", "median"),
        ("_p99", "99th percentile"),
        ("_p999", "99.9th percentile"),
        ("_mean", "mean"),
        ("_min", "minimum"),
        ("_max", "maximum"),
        ("_total", "total"),
        ("_jain", "Jain's index"),
    ];
    let split = |(end, which): &(&str, _)| Some((plain.strip_suffix(end)?, Some(*which)));
    let (what, which) = ends.iter().find_map(split).unwrap_or((plain, None));
    let what = match what {
        "fct" => "completion time",
        "hop_delay" => "queueing delay at the slowest hop",
        "offered" => "offered load",
        "retransmitted" => "retransmitted payload",
        "unfinished" => "unfinished messages",
        "size_slowdown" => "slowdown by size",
        "size_messages" => "messages by size",
        "size_unfinished" => "unfinished messages by size",
        "exchanges" => "requests",
        "exchange" => "request to end of reply",
        "job_completion" => "completion of the collective",
        "job_communication" => "communication share",
        "job_algbw" => "algorithm bandwidth",
        "job_busbw" => "bus bandwidth",
        "job_iteration" => "iteration time",
        "job_iterations" => "iterations",
        "tor_buffer" => "buffer of switches with hosts",
        "core_buffer" => "buffer of switches without hosts",
        "utilization" => "utilization of switch ports",
        "queue_delay" => "queueing delay at the slowest port",
        "drops" => "dropped packets",
        "trims" => "trimmed packets",
        "returned" => "returned packets",
        "ecn_marks" => "ECN marks",
        "paused_share" => "share of the time paused",
        what => &what.replace('_', " "),
    };
    which.map_or_else(|| what.to_owned(), |which| format!("{what}, {which}"))
}

/// Text for a scenario key: `load of search` for `traffic.search.load`.
pub fn key_words(key: &str) -> String {
    let parts: Vec<&str> = key.split(['.', '[', ']']).filter(|part| !part.is_empty()).collect();
    let (last, rest) = parts.split_last().map_or((key, &[][..]), |(last, rest)| (*last, rest));
    let is_name = |part: &&&str| part.parse::<u64>().is_err() && !["*", "params"].contains(*part);
    let of: Vec<&str> = rest.iter().skip(1).filter(is_name).copied().collect();
    let last = last.replace('_', " ");
    if of.is_empty() { last } else { format!("{last} of {}", of.join(" ")) }
}

fn float(value: Option<Fixed>) -> Option<f64> {
    value.map(Fixed::as_f64)
}

/// The largest value among `all`.
fn most<T>(all: &[&T], value: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    all.iter().filter_map(|one| value(one)).reduce(f64::max)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::samples::summary;

    #[test]
    fn axes_are_labelled_in_words() {
        for (name, expected) in [
            ("slowdown_p99", "slowdown, 99th percentile"),
            ("fct_p999_us", "completion time, 99.9th percentile"),
            ("goodput_jain", "goodput, Jain's index"),
            ("goodput_total_gbps", "goodput, total"),
            ("retransmitted_bytes", "retransmitted payload"),
            ("packet_hops", "packet hops"),
        ] {
            assert_eq!(words(name), expected);
        }
        assert!(METRICS.iter().all(|(name, ..)| !words(name).contains('_')));
        for (key, expected) in [
            ("traffic.search.load", "load of search"),
            ("traffic.0.load", "load"),
            ("traffic[*].load", "load"),
            ("fabric.spines", "spines"),
            ("transport.protocol", "protocol"),
            ("protocols.sird.params.b_bdp", "b bdp of sird"),
            ("duration", "duration"),
        ] {
            assert_eq!(key_words(key), expected);
        }
    }

    #[test]
    fn readings_match_the_summary() {
        let summary = summary(1);
        let all = readings(&summary);
        let value = |label: &str, name: &str| {
            let its = |reading: &&Reading| {
                reading.label == label && reading.metric.name == name && reading.sizes.is_none()
            };
            let mut found = all.iter().filter(its);
            let value = found.next().map(|reading| reading.value);
            assert!(found.next().is_none(), "{label} {name} is listed twice");
            value
        };
        let group = |label: &str| summary.groups.iter().find(|group| group.label == label).unwrap();
        let (long, short) = (group("long"), group("short"));
        assert_eq!(value("long", "goodput_mean_gbps"), long.goodput_gbps.mean);
        assert_eq!(value("long", "messages"), None, "it is none");
        assert_eq!(value("short", "messages"), Some(short.fct.count as f64));
        assert_eq!(value("short", "fct_p99_us"), short.fct.p99_us.map(Fixed::as_f64));
        assert_eq!(value("", "packet_hops"), Some(summary.engine.packet_hops as f64));
        let held = &summary.switches.iter().find(|switch| switch.hosts == 0).unwrap().buffer_bytes;
        assert_eq!(value("", "core_buffer_max_bytes"), held.max);
        let sizes: Vec<_> = all.iter().filter(|reading| reading.sizes.is_some()).collect();
        assert!(!sizes.is_empty());
        assert!(sizes.iter().all(|reading| reading.metric.name.starts_with("size_")));
    }

    #[test]
    fn collectives_are_read_by_unique_label() {
        let read = |labels: [&str; 2]| {
            let job = |label: &str| {
                format!(
                    "[[traffic]]\nkind = 'collective'\nlabel = '{label}'\n\
                     op = 'ring-all-reduce'\nsize = '40KB'\niterations = 2\n"
                )
            };
            let text = format!(
                "duration = '200us'\nfabric = {{ kind = 'star', hosts = 4 }}\n\
                 transport = {{ protocol = 'swift' }}\n{}{}",
                job(labels[0]),
                job(labels[1])
            );
            let plan = tidegate_scenario::load(&text, "test.toml", &[]).unwrap();
            let summary = crate::run(&plan, &crate::RunOptions::default()).unwrap();
            let mut all = readings(&summary);
            all.retain(|reading| reading.metric.name.starts_with("job_"));
            (summary, all)
        };
        let (summary, all) = read(["a", "b"]);
        assert_eq!(all.len(), 12);
        let its =
            |reading: &&Reading| reading.label == "b" && reading.metric.name == "job_completion_us";
        let completion = summary.jobs[1].completion_us.map(Fixed::as_f64);
        assert!(completion > Some(0.0));
        assert_eq!(all.iter().find(its).map(|reading| reading.value), completion);
        assert_eq!(read(["a", "a"]).1, []);
    }

    /// Summary and readings of a run of four hosts around a switch.
    fn read(traffic: &str) -> (Summary, Vec<Reading>) {
        let text = format!(
            "duration = '200us'\nfabric = {{ kind = 'star', hosts = 4 }}\n\
             transport = {{ protocol = 'swift' }}\n{traffic}"
        );
        let plan = tidegate_scenario::load(&text, "test.toml", &[]).unwrap();
        let summary = crate::run(&plan, &crate::RunOptions::default()).unwrap();
        let all = readings(&summary);
        (summary, all)
    }

    #[test]
    fn an_unfinished_collective_has_bounds_only() {
        let (summary, all) = read(
            "[[traffic]]\nkind = 'collective'\nlabel = 'a'\nop = 'all-to-all'\nsize = '40KB'\n\
             iterations = 1000\n",
        );
        let done = summary.jobs[0].finished;
        assert!(done > 0 && done < 1_000, "{done}");
        let found: Vec<(&str, bool)> = all
            .iter()
            .filter(|reading| reading.metric.name.starts_with("job_"))
            .map(|reading| (reading.metric.name, reading.is_lower_bound))
            .collect();
        let expected = [
            ("job_iterations", false),
            ("job_iteration_mean_us", true),
            ("job_iteration_p99_us", true),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn requests_are_read_by_label_or_as_all() {
        let block = |label: &str| {
            format!("[[traffic]]\nkind = 'closed-loop'\nrequest = '200B'\nreply = '4KB'\n{label}")
        };
        let labels = |traffic: &str| {
            let (summary, all) = read(traffic);
            let its = |reading: &Reading| reading.metric.name == "exchanges";
            let found = all.into_iter().filter(its).map(|reading| (reading.label, reading.value));
            (summary, found.collect::<Vec<_>>())
        };
        let (summary, found) = labels(&block(""));
        assert_eq!(found, [(String::new(), summary.exchanges["all"].count as f64)]);
        assert!(found[0].1 > 0.0);
        let (summary, found) = labels(&(block("label = 'a'\n") + &block("label = 'b'\n")));
        let of = |label: &str| (label.to_owned(), summary.exchanges[label].count as f64);
        assert_eq!(found, [of("a"), of("b")]);
    }

    #[test]
    fn buffer_use_is_a_mean_over_switches() {
        let summary = summary(1);
        let tors: Vec<f64> = summary
            .switches
            .iter()
            .filter(|switch| switch.hosts > 0)
            .map(|switch| switch.buffer_bytes.mean.unwrap())
            .collect();
        assert_eq!(tors.len(), 2);
        let all = readings(&summary);
        let its = |reading: &&Reading| reading.metric.name == "tor_buffer_mean_bytes";
        assert_eq!(all.iter().find(its).unwrap().value, (tors[0] + tors[1]) / 2.0);
    }

    #[test]
    fn unfinished_messages_make_lower_bounds() {
        let mut summary = summary(1);
        let fct = &mut summary.groups.iter_mut().find(|group| group.fct.count > 0).unwrap().fct;
        (fct.unfinished, fct.reach, fct.slowdown.reach) = (fct.count / 10, Some(0.9), Some(0.9));
        // Unfinished messages outnumber the finished ones of this size, so the median is hidden,
        // too.
        let of_size = &mut fct.by_size[0].fct;
        (of_size.unfinished, of_size.slowdown.reach) = (of_size.count - 1, Some(0.1));
        let hidden: BTreeSet<&str> = readings(&summary)
            .iter()
            .filter(|reading| reading.is_lower_bound)
            .map(|reading| reading.metric.name)
            .collect();
        let expected = [
            "fct_mean_us",
            "fct_p99_us",
            "fct_p999_us",
            "slowdown_p99",
            "slowdown_p999",
            "size_slowdown_p50",
            "size_slowdown_p99",
        ];
        assert_eq!(hidden, expected.into_iter().collect());
    }

    #[test]
    fn percentiles_of_few_messages_are_maxima() {
        let maxima = |count| {
            let mut summary = summary(1);
            summary.groups.retain(|group| group.fct.count > 0);
            summary.groups.truncate(1);
            let fct = &mut summary.groups[0].fct;
            (fct.count, fct.unfinished) = (count, 0);
            fct.by_size.truncate(1);
            fct.by_size[0].fct.count = count;
            let all = readings(&summary).into_iter().filter(|one| one.is_maximum);
            all.map(|one| one.metric.name).collect::<Vec<_>>()
        };
        let (p99, p999) = (["fct_p99_us", "slowdown_p99"], ["fct_p999_us", "slowdown_p999"]);
        let few = maxima(99);
        assert!(p99.iter().chain(&p999).chain(&["size_slowdown_p99"]).all(|it| few.contains(it)));
        assert_eq!(few.len(), 5);
        assert_eq!(maxima(100), p999);
        assert!(maxima(1000).is_empty());
    }

    #[test]
    fn values_are_within_their_limits() {
        for reading in readings(&summary(1)) {
            let (least, most) = limits(reading.metric.name);
            assert!(reading.value >= least, "{reading:?}");
            assert!(most.is_none_or(|most| reading.value <= most + 1e-9), "{reading:?}");
        }
        assert_eq!(limits("size_slowdown_p99"), (1.0, None));
        assert_eq!(limits("goodput_jain"), (0.0, Some(1.0)));
    }

    #[test]
    fn marks_are_omitted_when_links_are() {
        let mut summary = summary(1);
        let marks = |summary: &Summary| {
            let all = readings(summary);
            all.iter().find(|one| one.metric.name == "ecn_marks").map(|one| one.value)
        };
        assert_eq!(marks(&summary), Some(0.0));
        summary.links_omitted = 1;
        assert_eq!(marks(&summary), None);
    }

    #[test]
    fn metric_names_are_unique_and_end_with_units() {
        let names: BTreeSet<&str> = METRICS.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names.len(), METRICS.len());
        for (name, unit, ..) in METRICS {
            let end = match unit {
                "Gbps" => "_gbps",
                "us" => "_us",
                "B" => "_bytes",
                _ => "",
            };
            assert!(name.ends_with(end), "{name}");
        }
    }
}
