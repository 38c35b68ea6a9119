//! Description of the keys of a scenario, as data. The checker, the defaults and the schema use it.
//! The tables themselves are in the files that compile their sections.

use tidegate_core::{Rate, Span};

/// One key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
    /// Description, for the schema and the documents.
    pub(crate) doc: &'static str,
}

/// Whether a key is required.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// Default in TOML. The default of a table is merged with the table in the file.
    Default(&'static str),
}
pub(crate) use Presence::{Default, Optional, Required};

/// Returns a row of a table of keys.
pub(crate) const fn key(
    name: &'static str,
    shape: Shape,
    presence: Presence,
    doc: &'static str,
) -> Key {
    Key { name, shape, presence, doc }
}

/// Keys of one table, in groups that tables can share.
pub(crate) type Keys = &'static [&'static [Key]];

/// One form of a table whose keys depend on its `kind`.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) kind: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [Key],
}

/// Type and bounds of a value. Bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// A non-empty text.
    Text,
    Flag,
    Number {
        min: f64,
        max: f64,
    },
    Count {
        min: u64,
        max: u64,
    },
    Span {
        min: Span,
        max: Span,
    },
    Rate {
        min: Rate,
        max: Rate,
    },
    Bytes {
        min: u64,
        max: u64,
    },
    /// A size in bytes or relative to the BDP.
    Extent,
    /// One of these.
    Word(&'static [&'static str]),
    /// One of these, or the shape.
    Or(&'static [&'static str], &'static Shape),
    /// The name of a protocol of the catalog.
    Protocol,
    /// A list of names.
    Names,
    /// A list of lists of whole numbers.
    Rows,
    /// A list of sizes, perhaps empty.
    Sizes,
    /// A name with wildcards, or a list of them.
    Globs,
    /// The address of a live host, or a list of addresses; the reader checks them.
    Addresses,
    /// Parameters of a protocol; checked when the protocol is known.
    Params,
    Table(Keys),
    /// A list of tables.
    Tables(Keys),
    /// A list of tables that override others: no key is required, and no defaults are added.
    Changes(Keys),
    /// A table whose `kind` decides which further keys it has.
    Kinds(&'static [Key], &'static [Variant]),
    /// A list of such tables.
    ManyKinds(&'static [Key], &'static [Variant]),
    /// A table with the names of protocols as keys.
    ByProtocol(Keys),
}

/// Longest simulated time.
pub(crate) const LONGEST: Span = Span::s(1_000);
/// A span of time that may be empty.
pub(crate) const SPAN: Shape = Shape::Span { min: Span::ZERO, max: LONGEST };
/// A span of time that is not empty.
pub(crate) const INTERVAL: Shape = Shape::Span { min: Span::ns(1), max: LONGEST };
/// Time of a packet on a link or in a switch. The sum with the serialisation of the largest packet
/// on the slowest link, which is half a second, stays within the range that the engine can
/// schedule.
pub(crate) const FLIGHT: Shape = Shape::Span { min: Span::ZERO, max: Span::s(1) };
/// A link's rate.
pub(crate) const LINK_RATE: Shape = Shape::Rate { min: Rate::mbps(1), max: Rate::gbps(10_000) };
/// The largest seed: the largest whole number of TOML, and of tables of results.
pub(crate) const MOST_SEED: u64 = i64::MAX as u64;
/// A seed of random numbers.
pub(crate) const SEED: Shape = Shape::Count { min: 0, max: MOST_SEED };
/// A message's size.
pub(crate) const MESSAGE: Shape = Shape::Bytes { min: 1, max: 1_000_000_000_000_000 };
