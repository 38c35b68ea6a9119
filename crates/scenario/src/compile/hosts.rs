//! `[hosts]`: what hosts do; and finding them by name and by wildcard.

use std::collections::BTreeMap;

use tidegate_core::Span;
use tidegate_core::fabric::StackTime;
use tidegate_core::params::Value;

use super::glob::Glob;
use super::transport::Stacks;
use crate::error::{Error, nearest};
use crate::read::keys::{Default, Key, SPAN, key};
use crate::read::table::Table;

/// Keys of the section.
pub(crate) static KEYS: &[Key] = &[
    key(
        "stack_delay",
        SPAN,
        Default("0ns"),
        "How long software takes with each packet received, from NIC to transport. Not part of \
         RTTs: the BDP, base RTTs and timeouts leave it out, so where it is long `transport.bdp` \
         and a protocol's timeouts must cover it.",
    ),
    key(
        "stack_jitter",
        SPAN,
        Default("0ns"),
        "Longest time that a packet waits on top of it; uniform. Packets of a host keep their \
         order. Not part of RTTs either.",
    ),
];

/// Reads the section.
pub(crate) fn stack_time(table: &Table) -> StackTime {
    StackTime { delay: table.get("stack_delay"), jitter: table.get("stack_jitter") }
}

/// What of a scenario does not cover the time that software takes: a BDP that leaves it out, and a
/// stack's smallest timeout.
pub(crate) fn uncovered(
    time: StackTime,
    base_rtt: Span,
    bdp_is_set: bool,
    stacks: &Stacks<'_>,
    warnings: &mut Vec<String>,
) {
    // Data and its acknowledgement are each received once.
    let usual = time.delay.times(2).plus(time.jitter);
    if !bdp_is_set && usual > base_rtt.scale(0.1) {
        warnings.push(format!(
            "software takes {:.2} us of a round trip, beside a base RTT of {:.2} us: the BDP, base \
             RTTs and timeouts leave it out, so that windows of a BDP do not fill links; \
             transport.bdp sets one that does",
            usual.as_us_f64(),
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
                "{}: software takes up to {:.2} us of a round trip, and min_rto is {:.2} us: \
                 packets are sent again for nothing; a min_rto above both and the queues waits for \
                 them",
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

    /// The host that a key names.
    pub(crate) fn one(&self, table: &Table, key: &str) -> Result<u32, Error> {
        let name: &str = table.get(key);
        self.number(name).ok_or_else(|| {
            let expected = format!("a host: {}", self.described());
            table.error(key, expected).meant(nearest(name, self.names()))
        })
    }

    /// The hosts that a key selects, in order of number; all where it is missing. At least `least`
    /// of them.
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

    /// The same in the order in which the key lists them, each where it is first named; those of a
    /// wildcard in order of number.
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
                let found = format!("{pattern:?}, which no host matches");
                let expected = glob.expected(format!("hosts: {}", self.described()));
                return Err(table
                    .error_found(key, found, expected)
                    .meant(nearest(pattern, self.names())));
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
    fn software_takes_no_time_unless_told() {
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
