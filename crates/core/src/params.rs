//! Parameters of protocols: a plain struct, and a table with kind, default, range, meaning and
//! source of each parameter.
//!
//! Parsing, schemas and documentation are built from the table elsewhere, so protocols stay free of
//! serialisation.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::{Extent, Rate, Span};

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value {
    /// A number without unit.
    Number(f64),
    /// A whole number.
    Integer(u64),
    /// A span of time.
    Span(Span),
    /// A rate.
    Rate(Rate),
    /// A size in bytes or in BDPs.
    Extent(Extent),
    /// A boolean.
    Flag(bool),
    /// One of a few names.
    Choice(&'static str),
    /// A list of sizes in bytes.
    Sizes(Sizes),
}

/// A short list of sizes in bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Sizes {
    count: u8,
    bytes: [u32; Sizes::MOST],
}

impl Sizes {
    /// Longest list.
    pub const MOST: usize = 7;
    /// No sizes.
    pub const NONE: Sizes = Sizes { count: 0, bytes: [0; Sizes::MOST] };

    /// Stores the sizes; `None` if there are too many, or one exceeds 4 GiB.
    pub fn of(sizes: &[u64]) -> Option<Sizes> {
        let mut bytes = [0; Sizes::MOST];
        for (to, &size) in bytes.get_mut(..sizes.len())?.iter_mut().zip(sizes) {
            *to = u32::try_from(size).ok()?;
        }
        Some(Sizes { count: sizes.len() as u8, bytes })
    }

    /// The sizes in order.
    pub fn as_slice(&self) -> &[u32] {
        &self.bytes[..self.count as usize]
    }
}

impl core::fmt::Debug for Sizes {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.as_slice().fmt(f)
    }
}

impl core::fmt::Display for Value {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Value::Number(x) => write!(f, "{x}"),
            Value::Integer(x) => write!(f, "{x}"),
            Value::Span(x) => write!(f, "{x}"),
            Value::Rate(x) => write!(f, "{x}"),
            Value::Extent(x) => write!(f, "{x}"),
            Value::Flag(x) => write!(f, "{x}"),
            Value::Choice(x) => f.write_str(x),
            Value::Sizes(x) => {
                let sizes = x.as_slice().iter().map(|bytes| alloc::format!("{bytes}B"));
                write!(f, "[{}]", sizes.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Value {
    /// The value as a scenario sets it: numbers and flags without quotes.
    pub fn quoted(&self) -> String {
        match self {
            Value::Number(_) | Value::Integer(_) | Value::Flag(_) | Value::Sizes(_) => {
                self.to_string()
            }
            Value::Span(_) | Value::Rate(_) | Value::Extent(_) | Value::Choice(_) => {
                alloc::format!("\"{self}\"")
            }
        }
    }
}

/// Syntax of a parameter in text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A bare number.
    Number,
    /// A bare whole number.
    Integer,
    /// `"40us"`.
    Span,
    /// `"200Gbps"`.
    Rate,
    /// `"1.5BDP"` or `"64KB"`.
    Extent,
    /// `true` or `false`.
    Flag,
    /// One of these names.
    Choice(&'static [&'static str]),
    /// `["200B", "4KB"]`.
    Sizes,
}

/// Type that a parameter can have.
pub trait Parameter: Copy {
    /// Syntax in text.
    const KIND: Kind;
    /// Converts it to a [`Value`].
    fn to_value(self) -> Value;
    /// Converts a [`Value`] of this kind.
    fn from_value(value: Value) -> Option<Self>;
}

macro_rules! parameter {
    ($type:ty, $kind:ident) => {
        impl Parameter for $type {
            const KIND: Kind = Kind::$kind;
            fn to_value(self) -> Value {
                Value::$kind(self)
            }
            fn from_value(value: Value) -> Option<Self> {
                if let Value::$kind(x) = value { Some(x) } else { None }
            }
        }
    };
}
parameter!(f64, Number);
parameter!(u64, Integer);
parameter!(Span, Span);
parameter!(Rate, Rate);
parameter!(Extent, Extent);
parameter!(bool, Flag);
parameter!(Sizes, Sizes);

/// Range of a parameter, inclusive.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Smallest value.
    pub min: Value,
    /// Largest value.
    pub max: Value,
}

/// Condition without which a parameter has no effect: values of another parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// The other parameter, of the same protocol.
    pub parameter: &'static str,
    /// Values of it.
    pub values: Vec<Value>,
    /// Whether the condition holds under these values; otherwise, under all others.
    pub is_one_of: bool,
}

impl Needs {
    /// Whether the condition holds under this value of the other parameter.
    pub fn holds(&self, value: Value) -> bool {
        self.values.contains(&value) == self.is_one_of
    }
}

impl core::fmt::Display for Needs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let values: Vec<String> = self.values.iter().map(Value::quoted).collect();
        let relation = if self.is_one_of { "=" } else { "other than" };
        write!(f, "{} {relation} {}", self.parameter, values.join(" or "))
    }
}

/// One value, or a list of values of one type.
#[doc(hidden)]
pub trait Values {
    /// The values.
    fn values(self) -> Vec<Value>;
}

impl<T: Parameter> Values for T {
    fn values(self) -> Vec<Value> {
        vec![self.to_value()]
    }
}

impl<T: Parameter, const N: usize> Values for [T; N] {
    fn values(self) -> Vec<Value> {
        self.into_iter().map(Parameter::to_value).collect()
    }
}

/// One row of a parameter table.
#[derive(Clone, Debug)]
pub struct Info {
    /// Key in scenarios.
    pub name: &'static str,
    /// Syntax in text.
    pub kind: Kind,
    /// Default value.
    pub default: Value,
    /// Allowed range, if the kind has an order.
    pub range: Option<Bounds>,
    /// Lines of the doc comment. [`meaning`](Self::meaning) joins them; each scenario makes several
    /// tables and does not need it.
    pub doc: &'static [&'static str],
    /// Addition to the doc comment.
    pub note: &'static str,
    /// Source of the default.
    pub source: &'static str,
    /// Whether it came after others, so that it is left out where it holds its default: what was
    /// written, and hashed, before it was there stays as it was.
    pub later: bool,
    /// Conditions. If one does not hold, it has no effect.
    pub needs: Vec<Needs>,
}

impl Info {
    /// Meaning of the parameter, in one line.
    pub fn meaning(&self) -> String {
        one_line(&[self.doc, &[self.note]].concat())
    }
}

/// Reason for which a value was refused.
#[derive(Clone, Debug, PartialEq)]
pub enum SetError {
    /// There is no parameter with this name.
    Unknown,
    /// The value is not of this kind.
    Kind(Kind),
    /// The value is outside this range.
    Range(Bounds),
}

/// Returns whether `value` is within `bounds`, all of one kind. A relative and an absolute size
/// always count as within bounds, because their order depends on the fabric.
fn within(value: Value, bounds: Bounds) -> bool {
    match (value, bounds.min, bounds.max) {
        (Value::Number(x), Value::Number(a), Value::Number(b)) => a <= x && x <= b,
        (Value::Integer(x), Value::Integer(a), Value::Integer(b)) => a <= x && x <= b,
        (Value::Span(x), Value::Span(a), Value::Span(b)) => a <= x && x <= b,
        (Value::Rate(x), Value::Rate(a), Value::Rate(b)) => a <= x && x <= b,
        (
            Value::Extent(Extent::Bdp(x)),
            Value::Extent(Extent::Bdp(a)),
            Value::Extent(Extent::Bdp(b)),
        ) => a <= x && x <= b,
        (Value::Extent(Extent::Bytes(x)), ..) => x.is_finite() && x >= 0.0,
        _ => false,
    }
}

/// The rows of a parameter table.
pub type Table = Vec<Info>;

/// A protocol's parameters.
pub trait Params: Clone + Default + core::fmt::Debug + PartialEq + Send + Sync {
    /// The table, in the order of the struct.
    fn table() -> Table;
    /// The value of the parameter `name`.
    fn get(&self, name: &str) -> Option<Value>;
    /// Stores a value without checking its range. Returns `false` if name or kind is wrong.
    fn store(&mut self, name: &str, value: Value) -> bool;
    /// Returns the reason if these values contradict each other.
    fn conflict(&self) -> Option<String> {
        None
    }
    /// The parameters that have no effect beside these values, each with a condition that does not
    /// hold.
    fn without_effect(&self) -> Vec<(&'static str, Needs)> {
        let fails = |needs: &Needs| self.get(needs.parameter).is_some_and(|x| !needs.holds(x));
        let row = |info: Info| Some((info.name, info.needs.into_iter().find(fails)?));
        Self::table().into_iter().filter_map(row).collect()
    }

    /// Sets the parameter `name` to `value`.
    ///
    /// # Errors
    /// If the name is unknown, or the value is of another kind or out of range.
    fn set(&mut self, name: &str, value: Value) -> Result<(), SetError> {
        let Some(info) = Self::table().into_iter().find(|info| info.name == name) else {
            return Err(SetError::Unknown);
        };
        match info.range {
            Some(bounds) if !within(value, bounds) => Err(SetError::Range(bounds)),
            _ if self.store(name, value) => Ok(()),
            _ => Err(SetError::Kind(info.kind)),
        }
    }

    /// All names and values, in the order of the table, without later ones at their defaults.
    fn values(&self) -> Vec<(&'static str, Value)> {
        Self::table()
            .into_iter()
            .filter_map(|info| {
                let value = self.get(info.name)?;
                (!info.later || value != info.default).then_some((info.name, value))
            })
            .collect()
    }
}

/// Joins the lines of a doc comment.
#[doc(hidden)]
pub fn one_line(parts: &[&str]) -> String {
    parts.iter().map(|part| part.trim()).collect::<Vec<_>>().join(" ").trim().to_string()
}

/// Declares a protocol's parameters: a struct with public fields, its default, and its table. A
/// parameter that is added to a published protocol is `later`: scenarios that do not set it keep
/// their hash. `ramp = kmin, kmax;` after the struct names two parameters between which marking
/// rises ([`Marking::conflict`](crate::Marking::conflict)), and `conflict = function;` a function
/// that returns why values contradict each other. A parameter that has an effect only under some
/// values of another names these: `if strict == true`, `if shape != Shape::Flat`, or a list.
///
/// ```
/// tidegate_core::params! {
///     /// Parameters of Example.
///     pub struct ExampleParams {
///         /// Gain of the controller.
///         gain: f64 = 0.5, in 0.0..=1.0, "paper, section 3";
///         /// Count every packet.
///         strict: bool = true, "our choice";
///         /// Packets between two counts.
///         interval: u64 = 8, in 1..=100, if strict == false, "our choice";
///     }
/// }
/// use tidegate_core::params::{Params, Value};
/// let example = ExampleParams::default();
/// assert_eq!(example.get("gain"), Some(Value::Number(0.5)));
/// assert_eq!(example.without_effect()[0].1.to_string(), "strict = false");
/// ```
#[macro_export]
macro_rules! params {
    ($(#[$outer:meta])* pub struct $name:ident {
        $(
            $(#[doc = $doc:expr])+
            $field:ident : $type:ty = $default:expr, $(later = $later:literal,)?
            $(in $min:literal ..= $max:literal,)? $(within $lo:expr => $hi:expr,)?
            $(if $on:ident $relation:tt $values:expr,)* $source:literal;
        )*
    } $(ramp = $kmin:ident, $kmax:ident;)? $(conflict = $conflict:path;)?) => {
        $(#[$outer])*
        #[derive(Clone, PartialEq)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $type,)* }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                $(
                    let is_later = false $(|| $later)?;
                    if !is_later || self.$field != { let default: $type = $default; default } {
                        let key = const { $crate::params::key(stringify!($field)) };
                        shown.field(key, &self.$field);
                    }
                )*
                shown.finish()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }

        impl $crate::params::Params for $name {
            fn table() -> $crate::params::Table {
                #[allow(unused_imports)]
                use $crate::params::Parameter as _;
                $crate::params::vec![$($crate::params::Info {
                    name: const { $crate::params::key(stringify!($field)) },
                    kind: <$type as $crate::params::Parameter>::KIND,
                    default: ({ let default: $type = $default; default }).to_value(),
                    range: $crate::params!(@range $type $(, $min, $max)? $(, $lo, $hi)?),
                    doc: &[$($doc),+],
                    note: "",
                    source: $source,
                    later: false $(|| $later)?,
                    needs: $crate::params::vec![$($crate::params::Needs {
                        parameter: const { $crate::params::key(stringify!($on)) },
                        values: $crate::params::Values::values($values),
                        is_one_of: $crate::params!(@relation $relation),
                    },)*],
                },)*]
            }
            fn get(&self, name: &str) -> Option<$crate::params::Value> {
                $(if name == const { $crate::params::key(stringify!($field)) } {
                    return Some($crate::params::Parameter::to_value(self.$field));
                })*
                let _ = name;
                None
            }
            fn store(&mut self, name: &str, value: $crate::params::Value) -> bool {
                $(if name == const { $crate::params::key(stringify!($field)) } {
                    let value = <$type as $crate::params::Parameter>::from_value(value);
                    return value.map(|x| self.$field = x).is_some();
                })*
                let _ = (name, value);
                false
            }
            fn conflict(&self) -> Option<$crate::params::Text> {
                let found: Option<$crate::params::Text> = None;
                $(let found = found.or_else(|| {
                    $crate::Marking::conflict(stringify!($kmin), self.$kmin, self.$kmax)
                });)?
                $(let found = found.or_else(|| $conflict(self));)?
                found
            }
        }
    };
    (@relation ==) => { true };
    (@relation !=) => { false };
    (@range $type:ty) => { None };
    (@range $type:ty, $min:expr, $max:expr) => {
        Some($crate::params::Bounds {
            min: { let x: $type = $min; x }.to_value(),
            max: { let x: $type = $max; x }.to_value(),
        })
    };
}
#[doc(hidden)]
pub use alloc::{string::String as Text, vec};

/// The key of a field: its name, without the prefix of raw identifiers.
#[doc(hidden)]
pub const fn key(field: &'static str) -> &'static str {
    match field.as_bytes() {
        [b'r', b'#', ..] => field.split_at(2).1,
        _ => field,
    }
}

/// Declares a parameter type with a few named values.
///
/// ```
/// tidegate_core::choice! {
///     /// Rounding direction.
///     pub enum Rounding { Down = "down", Up = "up" }
/// }
/// ```
#[macro_export]
macro_rules! choice {
    ($(#[$outer:meta])* pub enum $name:ident {
        $($(#[$inner:meta])* $variant:ident = $text:literal),* $(,)?
    }) => {
        $(#[$outer])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$inner])* #[doc = concat!("`", $text, "`")] $variant,)* }

        impl $crate::params::Parameter for $name {
            const KIND: $crate::params::Kind = $crate::params::Kind::Choice(&[$($text),*]);
            fn to_value(self) -> $crate::params::Value {
                $crate::params::Value::Choice(match self { $(Self::$variant => $text,)* })
            }
            fn from_value(value: $crate::params::Value) -> Option<Self> {
                match value {
                    $($crate::params::Value::Choice($text) => Some(Self::$variant),)*
                    _ => None,
                }
            }
        }
    };
}

#[cfg(test)]
#[allow(unreachable_pub, reason = "the macros make what they declare public")]
mod tests {
    use alloc::format;

    use super::*;

    choice! {
        /// A choice.
        pub enum Shape { Round = "round", Flat = "flat" }
    }
    params! {
        /// Test parameters.
        pub struct Example {
            /// Gain.
            gain: f64 = 0.5, in 0.0..=1.0, "test";
            /// How long,
            /// in all.
            wait: Span = Span::us(40), within Span::us(1) => Span::ms(1), "test";
            /// Which.
            shape: Shape = Shape::Round, "test";
            /// How flat.
            depth: f64 = 1.0, in 0.0..=2.0, if shape == Shape::Flat, if gain != [0.0, 1.0], "test";
            /// From where to where.
            steps: Sizes = Sizes::NONE, later = true, "test";
        }
        conflict = flat_and_long;
    }

    fn flat_and_long(example: &Example) -> Option<String> {
        let both = example.shape == Shape::Flat && example.wait > Span::us(40);
        both.then(|| "wait must be at most 40us if shape is flat".to_string())
    }

    #[test]
    fn conflicting_values_are_reported() {
        let mut p = Example::default();
        assert_eq!(p.conflict(), None);
        p.set("shape", Value::Choice("flat")).unwrap();
        p.set("wait", Value::Span(Span::us(50))).unwrap();
        assert!(p.conflict().unwrap().contains("40us"));
    }

    #[test]
    fn violated_conditions_make_parameters_ineffective() {
        let mut p = Example::default();
        let violated = |p: &Example| -> Vec<String> {
            p.without_effect().iter().map(|(name, needs)| format!("{name}: {needs}")).collect()
        };
        assert_eq!(violated(&p), ["depth: shape = \"flat\""]);
        p.shape = Shape::Flat;
        assert_eq!(violated(&p), [""; 0]);
        p.gain = 1.0;
        assert_eq!(violated(&p), ["depth: gain other than 0 or 1"]);
    }

    #[test]
    fn a_later_parameter_is_omitted_at_its_default() {
        let mut p = Example::default();
        assert_eq!(p.values().len(), 4);
        let before = "Example { gain: 0.5, wait: 40us, shape: Round, depth: 1.0 }";
        let span = format!("{:?}", Span::us(40));
        assert_eq!(format!("{p:?}"), before.replace("40us", &span));
        p.set("steps", Value::Sizes(Sizes::of(&[1, 20]).unwrap())).unwrap();
        assert_eq!(p.values()[4].1.to_string(), "[1B, 20B]");
        assert!(format!("{p:?}").ends_with(", steps: [1, 20] }"), "{p:?}");
        assert_eq!(Sizes::of(&[1; 8]), None);
    }

    #[test]
    fn table_is_complete() {
        let table = Example::table();
        assert_eq!(table[1].meaning(), "How long, in all.");
        assert_eq!(table[1].default, Value::Span(Span::us(40)));
        assert_eq!(table[2].kind, Kind::Choice(&["round", "flat"]));
        assert_eq!(table[2].range, None);
    }

    #[test]
    fn set_checks_name_kind_and_range() {
        let mut p = Example::default();
        assert_eq!(p.set("gain", Value::Number(0.7)), Ok(()));
        assert_eq!(p.gain, 0.7);
        assert_eq!(p.set("shape", Value::Choice("flat")), Ok(()));
        assert_eq!(p.shape, Shape::Flat);
        assert_eq!(p.set("gian", Value::Number(0.7)), Err(SetError::Unknown));
        assert!(matches!(p.set("gain", Value::Number(1.7)), Err(SetError::Range(..))));
        assert!(matches!(p.set("gain", Value::Number(f64::NAN)), Err(SetError::Range(..))));
        assert!(matches!(p.set("shape", Value::Choice("square")), Err(SetError::Kind(_))));
    }
}
