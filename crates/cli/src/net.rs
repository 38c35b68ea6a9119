//! `tidegate serve` and `tidegate send`.

use std::fmt::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as Group;
use tidegate_workbench::net::{
    self, EndpointOptions, Mode, NetSummary, SendOptions, ServeOptions, Transport, rate_shown,
    time_shown,
};
use tidegate_workbench::options;

use crate::format::{bound, signs, tail};
use crate::interrupt::interrupt_flag;
use crate::options::{SEED_MAX, whole};
use crate::output::pretty;
use crate::{Error, Result, emit, print_stderr};

/// Options of the endpoint, common to `serve` and `send`.
#[derive(Debug, Group)]
struct Endpoint {
    /// The protocol; see `tidegate protocols`
    #[arg(long, value_name = "NAME", default_value = net::DEFAULT_PROTOCOL)]
    protocol: String,
    /// A parameter of the protocol, e.g. `min_rto=10ms`; repeatable
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Rate of the link; the endpoint sends no faster
    #[arg(long, value_name = "RATE", default_value = "1Gbps")]
    rate: String,
    /// UDP payload of a full packet (default: for `serve`, 8972B on loopback, else 1472B; for
    /// `send`, that of the peer)
    #[arg(long, value_name = "BYTES")]
    datagram: Option<String>,
    /// Base RTT, without queueing (default: the minimum of eight round trips before the first
    /// message)
    #[arg(long, value_name = "TIME")]
    base_rtt: Option<String>,
    /// Bandwidth-delay product (default: rate times base RTT, but at least eight packets)
    #[arg(long, value_name = "BYTES")]
    bdp: Option<String>,
    /// Maximum number of switches on the path
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = whole::<0, 4_294_967_295, u32>, allow_negative_numbers = true)]
    hops: u32,
    /// Functions of the switches that the protocol may use: ecn, core-ecn, peak, core-peak, hops,
    /// pfc, credit-queues, trimming, circuits, same-clock
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    switches: Vec<String>,
    /// Number of strict priorities of the network (IP class selectors)
    #[arg(long, value_name = "N", default_value_t = 1)]
    priorities: u8,
    /// File with the key that all endpoints share: at least 16 random bytes, raw or as hexadecimal
    /// digits. Without a key, any host can connect to this endpoint
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Send and receive datagrams one by one, without segmentation offloads
    #[arg(long)]
    no_offloads: bool,
    /// Poll the socket for this time before sleeping: shorter RTTs if a core is free
    #[arg(long, value_name = "TIME")]
    busy_poll: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Do not print the address, sessions, the line per second, or warnings
    #[arg(short, long)]
    quiet: bool,
}

impl Endpoint {
    fn options(&self) -> Result<EndpointOptions> {
        let datagram = parsed(options::bytes, "--datagram", self.datagram.as_deref())?;
        let busy_poll = parsed(options::duration, "--busy-poll", self.busy_poll.as_deref())?;
        Ok(EndpointOptions {
            datagram: datagram.map(|bytes| bytes as usize),
            base_rtt: parsed(options::interval, "--base-rtt", self.base_rtt.as_deref())?,
            bdp_bytes: parsed(options::bytes, "--bdp", self.bdp.as_deref())?,
            hops: self.hops,
            switches: net::switches(&self.switches)?,
            priorities: self.priorities,
            key: self.key.clone(),
            no_offloads: self.no_offloads,
            busy_poll: busy_poll.unwrap_or_default(),
            ..EndpointOptions::new(
                Transport::parse(&self.protocol, &self.params)?,
                options::rate("--rate", &self.rate)?,
            )
        })
    }

    fn notice(&self) -> impl Fn(&str) {
        let quiet = self.quiet;
        move |line| {
            if !quiet {
                print_stderr(line);
            }
        }
    }
}

/// Options of `tidegate serve`.
#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5270")]
    listen: SocketAddr,
    /// Stop after this time (default: at Ctrl-C)
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true)]
    duration: Option<Duration>,
    /// Stop when the first peer has disconnected
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    endpoint: Endpoint,
}

/// Options of `tidegate send`.
#[derive(Debug, Group)]
pub(crate) struct Send {
    /// Address of the `serve` endpoint
    #[arg(value_name = "ADDRESS")]
    to: String,
    /// Local address (default: any port)
    #[arg(long, value_name = "ADDRESS")]
    from: Option<SocketAddr>,
    /// Size of a message, or the name of a size distribution as in scenarios
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    size: String,
    /// Request replies of this size, and measure the time to their last byte
    #[arg(long, value_name = "SIZE")]
    reply: Option<String>,
    /// Number of concurrent messages; the next is sent when one completes
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "load")]
    #[arg(value_parser = whole::<1, 65_536, u32>, allow_negative_numbers = true)]
    streams: u32,
    /// Send at random times instead, so that payload uses this share of the link
    #[arg(long, value_name = "SHARE")]
    load: Option<String>,
    /// Send for this time, then wait up to ten seconds for unfinished messages
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    #[arg(allow_hyphen_values = true)]
    duration: Duration,
    /// Maximum number of messages, including those of the warm-up
    #[arg(long, value_name = "N")]
    #[arg(value_parser = whole::<1, SEED_MAX, u64>, allow_negative_numbers = true)]
    count: Option<u64>,
    /// Exclude messages that are sent before this time
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration)]
    #[arg(allow_hyphen_values = true)]
    warmup: Duration,
    #[command(flatten)]
    endpoint: Endpoint,
}

/// Parses the value of an option, if it is set.
fn parsed<T, E>(
    parse: fn(&str, &str) -> std::result::Result<T, E>,
    option: &str,
    text: Option<&str>,
) -> Result<Option<T>>
where
    Error: From<E>,
{
    Ok(text.map(|text| parse(option, text)).transpose()?)
}

/// Parses a duration. The parser of arguments names the option and the value in its message.
fn duration(text: &str) -> std::result::Result<Duration, String> {
    options::duration("", text).map_err(|error| match text.strip_prefix('-') {
        Some(_) => format!("a time is not negative: expected {}", error.expected),
        None => format!("expected {}", error.expected),
    })
}

pub(crate) fn serve(args: &Serve) -> Result<String> {
    let notice = args.endpoint.notice();
    let summary = net::serve(&ServeOptions {
        endpoint: args.endpoint.options()?,
        listen: args.listen,
        duration: args.duration,
        once: args.once,
        interrupted: interrupt_flag(),
        notice: &notice,
    })?;
    Ok(shown(&summary, args.endpoint.json))
}

pub(crate) fn send(args: &Send) -> Result<String> {
    let notice = args.endpoint.notice();
    let mode = match &args.load {
        Some(load) => Mode::Open(options::load("--load", load)?),
        None => Mode::Closed(args.streams),
    };
    let to = match args.to.to_socket_addrs().map(|mut all| all.next()) {
        Ok(Some(to)) => to,
        Err(why) if why.kind() != std::io::ErrorKind::InvalidInput => {
            return Err(net::unresolved(&args.to, &why));
        }
        _ => return Err(net::no_address(&args.to)),
    };
    let summary = net::send(&SendOptions {
        endpoint: args.endpoint.options()?,
        to,
        from: args.from,
        sizes: options::sizes("--size", &args.size)?,
        reply: parsed(options::bytes_or_none, "--reply", args.reply.as_deref())?,
        mode,
        duration: args.duration,
        count: args.count,
        warmup: args.warmup,
        interrupted: interrupt_flag(),
        notice: &notice,
    })?;
    let text = shown(&summary, args.endpoint.json);
    match summary.failure {
        // Print the measurements until the failure.
        Some(why) => {
            emit(&text);
            Err(Error::Run(why))
        }
        None => Ok(text),
    }
}

fn shown(summary: &NetSummary, json: bool) -> String {
    if json {
        return pretty(&serde_json::to_value(summary).expect("numbers and names"));
    }
    let mut text = String::new();
    let mut line = |name: &str, value: String| {
        writeln!(text, "{name:<22}{value}").expect("memory");
    };
    let us = |time: Option<f64>| time.map_or("-".into(), time_shown);
    line("protocol", summary.protocols[0].clone());
    let settings = &summary.settings;
    let (rate, bytes) = (settings.rate_gbps, settings.datagram_bytes);
    line("link", format!("{}, datagrams of up to {bytes} B", rate_shown(rate)));
    if !settings.params.is_empty() {
        line("parameters", settings.params.join(", "));
    }
    if let Some(base_rtt) = settings.base_rtt_us {
        let origin = if settings.base_rtt_measured { ", measured; --base-rtt sets it" } else { "" };
        line("base RTT", format!("{}{origin}", time_shown(base_rtt)));
    }
    line("measured", format!("{:.2} s", summary.seconds));
    if summary.received_gbps > 0.0 {
        line("received", rate_shown(summary.received_gbps));
    }
    let goodput = rate_shown(summary.goodput_gbps);
    line(
        "goodput",
        match summary.target_gbps {
            Some(target) if target > 0.0 => {
                let share = 100.0 * summary.goodput_gbps / target;
                format!("{goodput}, {share:.0} % of the target {}", rate_shown(target))
            }
            _ => goodput,
        },
    );
    let done = |what: &str, times: &net::Completed| {
        let done = times.count - times.unfinished;
        // Messages that did not complete count as the slowest.
        let at = |per_mille: u64, time| {
            let hidden = times.unfinished * 1000 > times.count * per_mille;
            tail((times.count, per_mille), hidden, us(time))
        };
        let (p50, p99) =
            (bound(2 * times.unfinished > times.count, us(times.p50_us)), at(10, times.p99_us));
        (
            what.to_owned(),
            format!(
                "{done} of {}, p50 {p50}, p99 {p99}, p99.9 {}",
                times.count,
                at(1, times.p999_us)
            ),
        )
    };
    let mut rows = Vec::new();
    rows.extend(summary.fct.as_ref().map(|messages| done("messages", messages)));
    rows.extend(summary.exchanges.as_ref().map(|exchanges| done("requests", exchanges)));
    rows.into_iter().for_each(|(name, value)| line(&name, value));
    line("processor time", format!("{:.2} s", summary.engine.cpu_seconds));
    let network = &summary.network;
    line("minimum RTT", us(network.base_rtt_us));
    line("datagrams received", format!("{}, {} marked", network.datagrams, network.ecn_marks));
    let lost = [
        ("duplicates", network.repeated),
        ("forged", network.forged),
        ("unknown session", network.unknown_session),
        ("malformed", network.malformed),
    ];
    for (name, count) in lost.into_iter().filter(|&(_, count)| count > 0) {
        line(name, count.to_string());
    }
    let signs = signs(&text, "too many messages did not complete");
    text + &signs
}
