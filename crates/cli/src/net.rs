//! `tidegate serve` and `tidegate send`.

use std::fmt::Write as _;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as Group;
use tidegate_workbench::net::{self, EndpointOptions, Mode, NetSummary, SendOptions, ServeOptions};
use tidegate_workbench::net::{rate_shown, time_shown};

use crate::args::Voice;
use crate::commands::{interrupt_flag, pretty};
use crate::{Error, Result, complain, emit};

/// The endpoint: alike on both sides.
#[derive(Debug, Group)]
struct Endpoint {
    /// The protocol; see `tidegate protocols`
    #[arg(long, value_name = "NAME", default_value = net::USUAL)]
    protocol: String,
    /// A parameter of the protocol, `min_rto=10ms` say; may stand several times
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,
    /// Rate of the link, which is filled up to it
    #[arg(long, value_name = "RATE", default_value = "1Gbps")]
    rate: String,
    /// UDP payload of a full packet (default: of `serve` 8972B on loopback and 1472B elsewhere; of
    /// `send` that of the peer)
    #[arg(long, value_name = "BYTES")]
    datagram: Option<String>,
    /// Round trip on an empty network (default: the first that is seen)
    #[arg(long, value_name = "TIME")]
    base_rtt: Option<String>,
    /// Bandwidth-delay product (default: rate times round trip, and no less than eight packets)
    #[arg(long, value_name = "BYTES")]
    bdp: Option<String>,
    /// Switches on the path, at most
    #[arg(long, value_name = "N", default_value_t = 1)]
    hops: u32,
    /// What switches do, as far as the protocol needs it: ecn, core-ecn, peak, hops, pfc,
    /// credit-queues, circuits, same-clock
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    switches: Vec<String>,
    /// Strict priorities of the network: class selectors of IP
    #[arg(long, value_name = "N", default_value_t = 1)]
    priorities: u8,
    /// File with the key that all endpoints share: 16 random bytes at least, as they are or as
    /// hexadecimal digits. Without it anybody can speak with this endpoint
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Send and take each datagram by itself
    #[arg(long)]
    no_offloads: bool,
    /// Look at the socket for so long before sleeping: shorter round trips where a core is free
    #[arg(long, value_name = "TIME")]
    busy_poll: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    voice: Voice,
}

impl Endpoint {
    fn options(&self) -> EndpointOptions {
        EndpointOptions {
            protocol: self.protocol.clone(),
            params: self.params.clone(),
            rate: self.rate.clone(),
            datagram: self.datagram.clone(),
            base_rtt: self.base_rtt.clone(),
            bdp: self.bdp.clone(),
            hops: self.hops,
            switches: self.switches.clone(),
            priorities: self.priorities,
            key: self.key.clone(),
            no_offloads: self.no_offloads,
            busy_poll: self.busy_poll.clone(),
        }
    }

    fn notice(&self) -> impl Fn(&str) {
        let quiet = self.voice.quiet;
        move |line| {
            if !quiet {
                complain(line);
            }
        }
    }
}

/// What `tidegate serve` takes.
#[derive(Debug, Group)]
pub(crate) struct Serve {
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5270")]
    listen: SocketAddr,
    /// For so long (default: until Ctrl-C)
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// End when the first peer has gone
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    endpoint: Endpoint,
}

/// What `tidegate send` takes.
#[derive(Debug, Group)]
pub(crate) struct Send {
    /// Who serves
    #[arg(value_name = "ADDRESS")]
    to: String,
    /// Where to send from (default: any port)
    #[arg(long, value_name = "ADDRESS")]
    from: Option<SocketAddr>,
    /// Bytes of a message, or a distribution as scenarios name it
    #[arg(long, value_name = "SIZE", default_value = "1MB")]
    size: String,
    /// Ask for replies of so many bytes, and take the time to their last byte
    #[arg(long, value_name = "BYTES")]
    reply: Option<u64>,
    /// Messages at a time: the next is sent when one is done
    #[arg(long, value_name = "N", default_value_t = 4, conflicts_with = "load")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=65_536))]
    streams: u32,
    /// Send at random times instead, so that payload is this share of the link
    #[arg(long, value_name = "SHARE")]
    load: Option<String>,
    /// For so long, and up to ten seconds more for what is not done then
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// At most so many messages, those before warm-up ends among them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Do not measure what is sent before
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration)]
    warmup: Duration,
    #[command(flatten)]
    endpoint: Endpoint,
}

/// Reads a duration.
fn duration(text: &str) -> std::result::Result<Duration, String> {
    net::duration(text).ok_or_else(|| "expected a time such as 10s".to_owned())
}

pub(crate) fn serve(args: &Serve) -> Result<String> {
    let notice = args.endpoint.notice();
    let summary = net::serve(&ServeOptions {
        endpoint: args.endpoint.options(),
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
        Some(load) => Mode::Open(load.clone()),
        None => Mode::Closed(args.streams),
    };
    let found = args.to.to_socket_addrs().ok().and_then(|mut all| all.next());
    let to = found.ok_or_else(|| net::no_address(&args.to))?;
    let summary = net::send(&SendOptions {
        endpoint: args.endpoint.options(),
        to,
        from: args.from,
        size: args.size.clone(),
        reply: args.reply,
        mode,
        duration: args.duration,
        count: args.count,
        warmup: args.warmup,
        interrupted: interrupt_flag(),
        notice: &notice,
    })?;
    let text = shown(&summary, args.endpoint.json);
    match summary.failure {
        // What was measured until then is kept.
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
    line("link", format!("filled up to {}, datagrams of up to {bytes} B", rate_shown(rate)));
    if !settings.params.is_empty() {
        line("parameters", settings.params.join(", "));
    }
    line("measured", format!("{:.2} s", summary.seconds));
    line("received", rate_shown(summary.received_gbps));
    let goodput = rate_shown(summary.goodput_gbps);
    line(
        "goodput",
        match summary.target_gbps {
            Some(target) if target > 0.0 => {
                let share = 100.0 * summary.goodput_gbps / target;
                format!("{goodput}, {share:.0} % of {} to be reached", rate_shown(target))
            }
            _ => goodput,
        },
    );
    let done = |what: &str, times: &net::Completed| {
        let done = times.count - times.unfinished;
        let spread = format!("p50 {}, p99 {}", us(times.p50_us), us(times.p99_us));
        (
            what.to_owned(),
            format!("{done} of {}, {spread}, p99.9 {}", times.count, us(times.p999_us)),
        )
    };
    let mut rows = Vec::new();
    rows.extend(summary.fct.as_ref().map(|messages| done("messages", messages)));
    rows.extend(summary.exchanges.as_ref().map(|exchanges| done("requests", exchanges)));
    rows.into_iter().for_each(|(name, value)| line(&name, value));
    line("processor time", format!("{:.2} s", summary.engine.cpu_seconds));
    let network = &summary.network;
    line("shortest round trip", us(network.base_rtt_us));
    line("datagrams taken", format!("{}, {} marked", network.datagrams, network.ecn_marks));
    let lost = [
        ("repeated", network.repeated),
        ("forged", network.forged),
        ("strangers'", network.strangers),
        ("malformed", network.malformed),
    ];
    for (name, count) in lost.into_iter().filter(|&(_, count)| count > 0) {
        line(name, count.to_string());
    }
    text
}
