//! Values of command-line options, in the formats of scenarios. An error names the option, the
//! value found and the allowed values.

use std::path::PathBuf;
use std::time::Duration;

use tidegate_algos::{Protocol, Stack};
use tidegate_core::workload::Sizes;
use tidegate_core::{Rate, Span};

use crate::compile::{sizes as message_sizes, transport};
use crate::error::Error;
use crate::inputs::Reader;
use crate::read::check;
use crate::read::keys::{INTERVAL, Key, LINK_RATE, Required, Shape, key};
use crate::read::table::{FromDatum, Item, Word};
use crate::read::tree::{Entries, Node, Place, Raw, Source};

/// Longest time of an option: eleven days.
const LONGEST: Span = Span::s(1_000_000);

/// A rate of a link, such as `10Gbps`.
///
/// # Errors
/// If the text is something else.
pub fn rate(option: &str, text: &str) -> Result<Rate, Error> {
    value(&item(option, text, LINK_RATE)?)
}

/// A span of real time, such as `10s`, which may be 0.
///
/// # Errors
/// If the text is something else.
pub fn duration(option: &str, text: &str) -> Result<Duration, Error> {
    let span: Span = value(&item(option, text, Shape::Span { min: Span::ZERO, max: LONGEST })?)?;
    Ok(Duration::from_nanos(span.as_ps() / 1_000))
}

/// A span of network time of at least a nanosecond, such as `20us`.
///
/// # Errors
/// If the text is something else.
pub fn interval(option: &str, text: &str) -> Result<Span, Error> {
    value(&item(option, text, INTERVAL)?)
}

/// A span of network time in a range, such as `20us`.
///
/// # Errors
/// If the text is something else.
pub fn span(option: &str, text: &str, [min, max]: [Span; 2]) -> Result<Span, Error> {
    value(&item(option, text, Shape::Span { min, max })?)
}

/// A size, such as `1472B`.
///
/// # Errors
/// If the text is something else.
pub fn bytes(option: &str, text: &str) -> Result<u64, Error> {
    value(&item(option, text, Shape::Bytes { min: 1, max: 1 << 50 })?)
}

/// A size that may be 0, such as `0B`.
///
/// # Errors
/// If the text is something else.
pub fn bytes_or_none(option: &str, text: &str) -> Result<u64, Error> {
    value(&item(option, text, Shape::Bytes { min: 0, max: 1 << 50 })?)
}

/// A load as a share of a link, such as `0.6` or `60%`.
///
/// # Errors
/// If the text is something else.
pub fn load(option: &str, text: &str) -> Result<f64, Error> {
    value(&item(option, text, Shape::Number { min: 1e-6, max: 10.0 })?)
}

/// The name of a protocol.
///
/// # Errors
/// If no protocol has this name.
pub fn protocol(option: &str, name: &str) -> Result<Protocol, Error> {
    value(&item(option, name, Shape::Protocol)?)
}

/// One of `words`.
///
/// # Errors
/// If the text is none of them.
pub fn word(
    option: &str,
    text: &str,
    words: &'static [&'static str],
) -> Result<&'static str, Error> {
    value(&item(option, text, Shape::Word(words))?).map(|Word(word)| word)
}

/// Sizes of messages: a size such as `1MB`, the name of a distribution, or the path of a CSV file.
///
/// # Errors
/// If the text is something else, or the file is invalid.
pub fn sizes(option: &str, text: &str) -> Result<Sizes, Error> {
    const SIZES: Key = key("sizes", Shape::Text, Required, "");
    // A number without a unit is a text, as in `item`.
    let of = |text: &str| Raw::Text(text.to_owned());
    let table = entries(option, [(SIZES.name, text)], of);
    let table = check::table(table, const { &[&[SIZES]] }, "").map_err(whole)?;
    message_sizes::of(&table, SIZES.name, &Reader::new(PathBuf::new()), false).map_err(whole)
}

/// Sets parameters of a protocol, each by its name.
///
/// # Errors
/// If a name or a value is invalid, or the parameters are in conflict.
pub fn parameters<'a>(
    option: &str,
    stack: &mut Stack,
    params: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), Error> {
    let typed = |text: &str| Node::value(&Source::without_lines(option, text)).raw;
    if let Raw::Table(entries) = entries(option, params, typed).raw {
        transport::apply(stack, &entries, "")?;
    }
    match stack.conflict() {
        None => Ok(()),
        Some(conflict) => {
            let found = format!("conflicting parameters ({conflict})");
            Err(Error::whole(option, found, "parameters without this conflict"))
        }
    }
}

fn item(option: &str, text: &str, shape: Shape) -> Result<Item, Error> {
    let source = Source::without_lines(option, text);
    // A number without a unit is a text, as a quantity is.
    let node = match shape {
        Shape::Number { .. } => Node::value(&source),
        _ => Node { raw: Raw::Text(text.to_owned()), at: Place::new(&source, 0..text.len()) },
    };
    check::item(node, shape, "")
}

/// The value of an item that was checked against the shape of this type.
fn value<'a, T: FromDatum<'a>>(item: &'a Item) -> Result<T, Error> {
    let found = || item.at.error("", item.at.excerpt(), "a value of another type");
    T::from_datum(&item.datum).ok_or_else(found)
}

/// A table of values from an option.
fn entries<'a>(
    option: &str,
    values: impl IntoIterator<Item = (&'a str, &'a str)>,
    raw: impl Fn(&str) -> Raw,
) -> Node {
    let entry = |(name, text): (&str, &str)| {
        let at = || Place::new(&Source::without_lines(option, text), 0..text.len());
        (name.to_owned(), (at(), Node { raw: raw(text), at: at() }))
    };
    let entries: Entries = values.into_iter().map(entry).collect();
    Node { raw: Raw::Table(entries), at: Place::new(&Source::without_lines(option, ""), 0..0) }
}

/// An error about the whole value of an option.
fn whole(error: Error) -> Error {
    Error { key: "".into(), ..error }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_have_the_formats_of_scenarios() {
        assert_eq!(rate("--rate", "0.1 Tbps"), Ok(Rate::gbps(100)));
        assert_eq!(duration("--duration", "0.5s"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("--warmup", "0ms"), Ok(Duration::ZERO));
        assert_eq!(interval("--base-rtt", "20us"), Ok(Span::us(20)));
        assert_eq!(bytes("--datagram", "1.5KB"), Ok(1_500));
        assert_eq!(bytes_or_none("--reply", "0B"), Ok(0));
        assert_eq!(load("--load", "60%"), Ok(0.6));
        assert_eq!(protocol("--protocol", "swift"), Ok(Protocol::DEFAULT));
        assert_eq!(sizes("--size", "1MB"), Ok(Sizes::Fixed(1_000_000)));
        assert!(matches!(sizes("--size", "websearch"), Ok(Sizes::Drawn(_))));
        let mut stack = Protocol::DEFAULT.stack();
        assert_eq!(parameters("--param", &mut stack, [("min_rto", "9ms")]), Ok(()));
        assert!(stack != Protocol::DEFAULT.stack());
    }

    #[test]
    fn errors_name_the_option() {
        let mut stack = Protocol::DEFAULT.stack();
        let mut param = |name, value| parameters("--param", &mut stack, [(name, value)]).err();
        for (error, start) in [
            (rate("--rate", "fast").err(), "--rate: found fast, expected a rate such as"),
            (rate("--rate", "10gbps").err(), "--rate: found 10gbps, expected a rate such as"),
            (
                duration("--duration", "5").err(),
                "--duration: found 5, expected a duration with a unit",
            ),
            (interval("--base-rtt", "0us").err(), "--base-rtt: found 0us, expected a duration"),
            (bytes("--bdp", "4Gb").err(), "--bdp: found 4Gb, expected a size such as"),
            (load("--load", "11").err(), "--load: found 11, expected a number from"),
            (protocol("--protocol", "swft").err(), "--protocol: found swft, expected a protocol: "),
            (sizes("--size", "huge").err(), "--size: found huge, expected a size such as"),
            (
                sizes("--size", "5").err(),
                "--size: found 5, expected a size with a unit, such as \"4096B\", in B, KB, MB,",
            ),
            (
                bytes_or_none("--reply", "5").err(),
                "--reply: found 5, expected a size with a unit, such as \"4096B\", in B, KB, MB,",
            ),
            (sizes("--size", "0B").err(), "--size: found 0B, expected a size"),
            (param("min_rto", "soon"), "--param: min_rto: found soon, expected a duration"),
            (param("min_rt", "1ms"), "--param: min_rt: found an unknown parameter of swift"),
        ] {
            let message = error.expect(start).to_string();
            assert!(message.starts_with(start), "{message}");
        }
        let message = protocol("--protocol", "swft").unwrap_err().to_string();
        assert!(message.ends_with("(did you mean \"swift\"?)"), "{message}");
    }
}
