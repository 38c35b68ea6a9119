//! Metrics of hosts, as means.

use serde::Deserialize;
use tidegate_results::LinkSummary;

use super::Metric;
use tidegate_runs::observe::{Measurement, Observations};

/// Payload that arrives, in Gbit/s per host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arrived {}

impl Metric for Arrived {
    const NAME: &'static str = "arrived";
    const NEEDS: &'static [Measurement] = &[Measurement::Delivered];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(seen.delivered?.arrived_gbps)
    }
}

/// Payload of submitted messages, in Gbit/s per host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Offered {}

impl Metric for Offered {
    const NAME: &'static str = "offered";
    const NEEDS: &'static [Measurement] = &[Measurement::Delivered];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(seen.delivered?.offered_gbps)
    }
}

/// Total rate of the downlinks to hosts on the wire, with headers, gaps and control packets, in
/// Gbit/s per host, for `hosts` hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Downlinks {
    hosts: f64,
}

impl Metric for Downlinks {
    const NAME: &'static str = "downlinks";
    const NEEDS: &'static [Measurement] = &[Measurement::Links];

    fn value(&self, seen: &Observations) -> Option<f64> {
        let is_host = |name: &str| {
            let number = name.strip_prefix('h');
            number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
        };
        let down = seen.links.iter().filter(|link| is_host(&link.to));
        let rate = |link: &LinkSummary| Some(link.utilization? * link.rate_gbps);
        Some(down.map(rate).sum::<Option<f64>>()? / self.hosts)
    }
}

/// Payload of completed messages, in Gbit/s per host: goodput as SIRD's authors count it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Completed {}

impl Metric for Completed {
    const NAME: &'static str = "completed";
    const NEEDS: &'static [Measurement] = &[Measurement::Delivered];

    fn value(&self, seen: &Observations) -> Option<f64> {
        Some(seen.delivered?.completed_gbps)
    }
}
