//! `[hosts]`: behaviour of hosts; and lookup of hosts by name and wildcard.

use std::collections::BTreeMap;

use tidegate_core::Span;
use tidegate_core::fabric::StackTime;
use tidegate_core::params::Value;

use super::glob::Glob;
use super::transport::Stacks;
use crate::error::{Error, nearest};
use crate::read::keys::{Default, FLIGHT, Key, LINK_RATE, Optional, Required, SPAN, Shape, key};
use crate::read::table::Table;

/// Keys of the section.
pub(crate) static KEYS: &[Key] = &[
    key(
        "stack_delay",
        SPAN,
        Default("0ns"),
        "Processing time of each received packet between NIC and transport. The BDP, base RTTs and \
         timeouts do not include it: if it is long, increase `transport.bdp` and the protocol's \
         timeouts.",
    ),
    key(
        "stack_jitter",
        SPAN,
        Default("0ns"),
        "Longest additional processing time of a packet; the time is uniformly random. Packets of \
         a host keep their order. Base RTTs do not include it.",
    ),
    key(
        "server",
        Shape::Table(&[SERVER]),
        Optional,
        "Consecutive hosts form a server, such as GPUs with a NIC each. Links inside of it \
         (NVLink) carry messages between them, one at a time per sender, without packets or \
         protocol.",
    ),
];

/// Keys of `server`.
static SERVER: &[Key] = &[
    key(
        "hosts",
        Shape::Count { min: 2, max: 1_000 },
        Required,
        "Number of hosts in a server; must divide that of the fabric.",
    ),
    key("rate", LINK_RATE, Required, "Rate at which a host sends to others of its server."),
    key("delay", FLIGHT, Required, "Time from the last byte sent to its arrival."),
];

/// Reads the section.
pub(crate) fn stack_time(table: &Table) -> StackTime {
    StackTime { delay: table.get("stack_delay"), jitter: table.get("stack_jitter") }
}

/// Warns if the BDP or the smallest timeout of a stack does not cover the processing time of hosts.
pub(crate) fn uncovered(
    time: StackTime,
    base_rtt: Span,
    bdp_is_set: bool,
    stacks: &Stacks<'_>,
    warnings: &mut Vec<String>,
) {
    // A round trip includes the reception of the data packet and of its acknowledgement.
    let mean = time.delay.times(2).plus(time.jitter);
    if !bdp_is_set && mean > base_rtt.scale(0.1) {
        warnings.push(format!(
            "hosts.stack_delay and stack_jitter add {:.2} us to a round trip, with a base RTT of \
             {:.2} us on the longest path, but the BDP does not include them: windows of one BDP \
             cannot fill the links; increase transport.bdp",
            mean.as_us_f64(),
            base_rtt.as_us_f64()
        ));
    }
    let most = time.most().times(2);
    for stack in stacks.iter() {
        let smallest = stack.values().into_iter().find(|(name, _)| *name == "min_rto");
        if let Some((_, Value::Span(smallest))) = smallest
            && most >= smallest
        {
            warnings.push(format!(
                "{}: hosts.stack_delay and stack_jitter add up to {:.2} us to a round trip, but \
                 min_rto is {:.2} us: timeouts are spurious; increase min_rto above this time plus \
                 queueing",
                stack.protocol().info().name,
                most.as_us_f64(),
                smallest.as_us_f64()
            ));
        }
    }
}

/// The hosts of a fabric.
pub(crate) struct Hosts<'a> {
    names: &'a [String],
    numbers: BTreeMap<&'a str, u32>,
}

impl<'a> Hosts<'a> {
    pub(crate) fn new(names: &'a [String]) -> Hosts<'a> {
        let numbers =
            names.iter().enumerate().map(|(number, name)| (name.as_str(), number as u32)).collect();
        Hosts { names, numbers }
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &'a str> {
        self.names.iter().map(String::as_str)
    }

    pub(crate) fn number(&self, name: &str) -> Option<u32> {
        self.numbers.get(name).copied()
    }

    /// Returns the number of the host that a key names.
    pub(crate) fn one(&self, table: &Table, key: &str) -> Result<u32, Error> {
        let name: &str = table.get(key);
        self.number(name).ok_or_else(|| {
            let expected = format!("a host: {}", self.described());
            table.error(key, expected).suggest(nearest(name, self.names()))
        })
    }

    /// Returns the hosts that a key selects, in order of number; all hosts if the key is missing.
    /// Refuses fewer than `least`.
    pub(crate) fn selected(
        &self,
        table: &Table,
        key: &str,
        least: usize,
    ) -> Result<Vec<u32>, Error> {
        let mut numbers = self.listed(table, key, least)?;
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Returns the hosts that a key selects, in the order of the list, each at its first
    /// occurrence; hosts that one wildcard matches are in order of number.
    pub(crate) fn listed(&self, table: &Table, key: &str, least: usize) -> Result<Vec<u32>, Error> {
        let Some(patterns) = table.find::<&[String]>(key) else {
            return Ok((0..self.len() as u32).collect());
        };
        let (mut numbers, mut is_listed) = (Vec::new(), vec![false; self.len()]);
        for pattern in patterns {
            let glob = Glob::new(pattern);
            let mut matched = false;
            for (number, name) in self.names.iter().enumerate() {
                if glob.matches(name) {
                    matched = true;
                    if !std::mem::replace(&mut is_listed[number], true) {
                        numbers.push(number as u32);
                    }
                }
            }
            if !matched {
                let found = format!("{pattern:?}, which matches no host");
                let expected = glob.expected(format!("hosts: {}", self.described()));
                return Err(table
                    .error_found(key, found, expected)
                    .suggest(nearest(pattern, self.names())));
            }
            if let Some(host) = glob.beyond(self.names) {
                let found = format!("{pattern:?}, but there is no host {host:?}");
                let expected =
                    format!("ranges within the {} hosts: {}", self.len(), self.described());
                return Err(table.error_found(key, found, expected));
            }
        }
        if numbers.len() < least {
            let found = format!("{} host", numbers.len());
            return Err(table.error_found(key, found, format!("at least {least} hosts")));
        }
        Ok(numbers)
    }

    fn described(&self) -> String {
        match self.names {
            [only] => format!("{only:?}"),
            [first, .., last] => format!("{first:?} to {last:?}"),
            [] => "none".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::Span;

    #[test]
    fn stack_time_defaults_to_zero() {
        let load = |hosts: &str| {
            let text = format!(
                "duration = '1ms'\nfabric = {{ kind = 'star' }}\ntransport = {{ protocol = 'swift' \
                 }}\n\
                 flows = [{{ src = 'h0', dst = 'h1' }}]\n{hosts}"
            );
            crate::load(&text, "x.toml", &[])
        };
        assert_eq!(load("").unwrap().stack_time.most(), Span::ZERO);
        let set =
            load("hosts = { stack_delay = '3us', stack_jitter = '500ns' }").unwrap().stack_time;
        assert_eq!((set.delay, set.jitter), (Span::us(3), Span::ns(500)));
        let error = load("hosts = { stack_dely = '3us' }").unwrap_err().to_string();
        assert!(error.contains("hosts.stack_dely") && error.contains("stack_delay"), "{error}");
    }
}
