//! Addresses of hosts, and their numbers.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Longest name of a host.
const LONGEST_NAME: usize = 64;

/// Address of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Address {
    Ip(IpAddr),
    Name(String),
}

/// The allowed forms, in messages.
pub(super) const FORMS: &str =
    "an IPv4 or IPv6 address, or a name of up to 64 letters, digits, or characters out of _ - .";

impl Address {
    /// Parses an address. A text of digits and dots is an IPv4 address, and a text with a colon is
    /// an IPv6 address; everything else is a name.
    pub(super) fn parse(text: &str) -> Option<Address> {
        let is_number = |c: char| c.is_ascii_digit() || c == '.';
        if text.contains(':') {
            let (address, _) = text.split_once('%').unwrap_or((text, ""));
            return address.parse::<Ipv6Addr>().ok().map(|v6| Address::of(v6.into()));
        }
        if text.contains('.') && text.chars().all(is_number) {
            return text.parse::<Ipv4Addr>().ok().map(|v4| Address::Ip(v4.into()));
        }
        let is_valid = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        let fits = (1..=LONGEST_NAME).contains(&text.len()) && text.chars().all(is_valid);
        fits.then(|| Address::Name(text.to_owned()))
    }

    /// An IP address. An IPv4 address inside an IPv6 address becomes an IPv4 address.
    pub(super) fn of(ip: IpAddr) -> Address {
        Address::Ip(ip.to_canonical())
    }

    /// Whether it stands for several hosts, or for none.
    pub(super) fn is_group(&self) -> bool {
        match self {
            Address::Ip(ip) if ip.is_multicast() || ip.is_unspecified() => true,
            Address::Ip(IpAddr::V4(v4)) => v4.is_broadcast(),
            _ => false,
        }
    }

    /// Key of the order of hosts: IPv4, IPv6, then names with their numbers in numerical order.
    fn key(&self) -> (u8, u128, Vec<(usize, String)>) {
        match self {
            Address::Ip(IpAddr::V4(v4)) => (0, u32::from(*v4).into(), Vec::new()),
            Address::Ip(IpAddr::V6(v6)) => (1, u128::from(*v6), Vec::new()),
            Address::Name(name) => (2, 0, natural(name)),
        }
    }
}

/// The runs of digits and of other characters of a name. Runs of digits are ordered by their number
/// of digits first.
fn natural(name: &str) -> Vec<(usize, String)> {
    let bytes = name.as_bytes();
    let runs = bytes.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
    let part = |run: &[u8]| {
        let text = String::from_utf8_lossy(run).into_owned();
        match run[0].is_ascii_digit() {
            true => (text.trim_start_matches('0').len() + 1, text),
            false => (0, text),
        }
    };
    runs.map(part).collect()
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Ip(ip) => ip.fmt(f),
            Address::Name(name) => f.write_str(name),
        }
    }
}

/// Numbers of addresses, in the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Addresses {
    all: Vec<Address>,
    numbers: BTreeMap<Address, u32>,
}

impl Addresses {
    pub(super) fn number(&mut self, address: Address) -> u32 {
        if let Some(number) = self.numbers.get(&address) {
            return *number;
        }
        let number = self.all.len() as u32;
        self.all.push(address.clone());
        self.numbers.insert(address, number);
        number
    }

    /// Orders those addresses that are `used`: their texts, and the new number of each address.
    pub(super) fn ordered(&self, used: &[bool]) -> (Vec<String>, Vec<u32>) {
        let mut order: Vec<usize> = (0..self.all.len()).filter(|i| used[*i]).collect();
        order.sort_by_cached_key(|i| self.all[*i].key());
        let mut numbers = vec![u32::MAX; self.all.len()];
        for (new, old) in order.iter().enumerate() {
            numbers[*old] = new as u32;
        }
        (order.iter().map(|i| self.all[*i].to_string()).collect(), numbers)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_ordered_by_kind_and_number() {
        let mut addresses = Addresses::default();
        let texts = ["node10", "10.0.0.10", "node9", "10.0.0.9", "fe80::1", "node9"];
        let numbers = texts.map(|text| addresses.number(Address::parse(text).unwrap()));
        assert_eq!(numbers, [0, 1, 2, 3, 4, 2]);
        let (ordered, numbers) = addresses.ordered(&[true; 5]);
        assert_eq!(ordered, ["10.0.0.9", "10.0.0.10", "fe80::1", "node9", "node10"]);
        assert_eq!(numbers, [4, 1, 3, 0, 2]);
        let (some, _) = addresses.ordered(&[false, true, false, false, false]);
        assert_eq!(some, ["10.0.0.10"]);
    }

    #[test]
    fn invalid_addresses_are_refused() {
        for text in ["", "10.0.0.300", "1.2.3", "fe80::x", "a b", "höst", &"x".repeat(65)] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
        assert_eq!(Address::parse("::ffff:10.0.0.1"), Address::parse("10.0.0.1"));
        assert!(Address::parse("224.0.0.251").unwrap().is_group());
        assert!(!Address::parse("7").unwrap().is_group());
    }
}
