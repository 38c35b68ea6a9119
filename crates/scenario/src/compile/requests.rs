//! `[[traffic]]` of the kind `requests`: incasts that the receiving host requests.

use tidegate_core::workload::Pattern;

use super::context::{Context, host_links};
use super::sizes;
use crate::error::Error;
use crate::read::keys::{Key, Optional, Required, Shape, key};
use crate::read::table::Table;

/// Keys of the kind.
pub(crate) const KEYS: &[Key] = &[
    key(
        "sizes",
        Shape::Text,
        Required,
        "Total size of the replies to a request, in the form of `sizes` for poisson. Each replying \
         host sends an equal part.",
    ),
    sizes::SAMPLING,
    sizes::MEAN,
    key(
        "fan_in",
        Shape::Count { min: 1, max: 100_000 },
        Required,
        "Number of replies to a request.",
    ),
    key(
        "per_second",
        Shape::Number { min: 1e-3, max: 1e9 },
        Required,
        "Mean number of requests per second of each requesting host. The times between them are \
         exponential.",
    ),
    key("askers", Shape::Globs, Optional, "Requesting hosts, by name or wildcard. Default: all."),
];

/// Builds the pattern of one block.
pub(crate) fn pattern(table: &Table, context: &Context<'_>) -> Result<Pattern, Error> {
    let mut racks = vec![Vec::new(); context.fabric.switches.len()];
    for (host, (rack, _)) in (0..).zip(host_links(context)) {
        racks[rack].push(host);
    }
    racks.retain(|rack| !rack.is_empty());
    if racks.len() < 2 {
        return Err(table.error(
            "kind",
            "another kind, or a fabric of at least two racks: requests go to another rack",
        ));
    }
    let fan_in: u64 = table.get("fan_in");
    let least = racks.iter().map(Vec::len).min().unwrap_or(0);
    if fan_in > least as u64 {
        let expected = format!("at most {least}, the number of hosts in the smallest rack");
        return Err(table.error("fan_in", expected));
    }
    Ok(Pattern::Requests {
        mean_gap_ps: 1e12 / table.get::<f64>("per_second"),
        askers: context.hosts.selected(table, "askers", 1)?,
        racks,
        fan_in: fan_in as u32,
    })
}

#[cfg(test)]
mod tests {
    use crate::load;

    #[test]
    fn single_rack_refuses_requests() {
        let text = "duration = '1ms'\nfabric = { kind = 'star' }\ntransport = { protocol = \
                    'swift' }\ntraffic = [{ kind = 'requests', sizes = '1MB', fan_in = 2, \
                    per_second = 9 }]";
        let error = load(text, "x.toml", &[]).unwrap_err().to_string();
        assert!(error.contains("traffic[0].kind") && error.contains("two racks"), "{error}");
    }
}
