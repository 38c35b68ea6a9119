//! What may stand in a scenario, as data. Checking a file, filling in defaults and writing the
//! schema all work from this description; the tables themselves stand where their section is built.

use tidegate_core::{Rate, Span};

/// One key of a table.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) shape: Shape,
    pub(crate) presence: Presence,
    /// What it means, for the schema.
    pub(crate) doc: &'static str,
}

/// Whether a key must be there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Presence {
    Required,
    Optional,
    /// Written as in a file; a table's is merged with what the file says.
    Default(&'static str),
}
pub(crate) use Presence::{Default, Optional, Required};

/// A row of a table of keys.
pub(crate) const fn key(
    name: &'static str,
    shape: Shape,
    presence: Presence,
    doc: &'static str,
) -> Key {
    Key { name, shape, presence, doc }
}

/// Keys of one table, in groups that several tables can share.
pub(crate) type Keys = &'static [&'static [Key]];

/// One form of a table whose keys depend on its `kind`.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) kind: &'static str,
    pub(crate) doc: &'static str,
    pub(crate) keys: &'static [Key],
}

/// What a value looks like. Bounds are inclusive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    /// Any text but the empty one.
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
    /// A size, perhaps relative.
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
    /// Where a real host receives, or a list of that; checked where it is read.
    Addresses,
    /// A protocol's parameters: checked where the protocol is known.
    Params,
    Table(Keys),
    /// A list of tables.
    Tables(Keys),
    /// A list of tables that say only what differs: nothing is required and nothing filled in but
    /// where the key says so.
    Changes(Keys),
    /// A table whose `kind` decides which further keys it has.
    Kinds(&'static [Key], &'static [Variant]),
    /// A list of those.
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
/// What a packet spends on a link or in a switch. With the serialisation of the largest packet on
/// the slowest link, which is half a second, it stays within what the engine can schedule.
pub(crate) const FLIGHT: Shape = Shape::Span { min: Span::ZERO, max: Span::s(1) };
/// A link's rate.
pub(crate) const LINK_RATE: Shape = Shape::Rate { min: Rate::mbps(1), max: Rate::gbps(10_000) };
/// A message's size.
pub(crate) const MESSAGE: Shape = Shape::Bytes { min: 1, max: 1_000_000_000_000_000 };
