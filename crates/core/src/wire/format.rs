//! Tables of headers, and the macros that make them.

/// How people read a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A number.
    Number,
    /// One bit for each thing.
    Bits,
    /// Bytes that mean nothing to people.
    Bytes,
    /// A time.
    Picoseconds,
    /// A rate.
    BitsPerSecond,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// As in code.
    pub name: &'static str,
    /// Width.
    pub bytes: usize,
    /// How people read it.
    pub shown: Shown,
    /// What it means, line by line; see [`meaning`].
    pub doc: &'static [&'static str],
}

/// A bit of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// As in code.
    pub name: &'static str,
    /// What it means when it is set.
    pub doc: &'static [&'static str],
}

/// A kind of header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// In byte 1 of the header.
    pub number: u8,
    /// As in code.
    pub name: &'static str,
    /// What it is for.
    pub doc: &'static [&'static str],
    /// From the lowest bit up.
    pub flags: &'static [Flag],
    /// In their order.
    pub fields: &'static [Field],
    /// What is repeated behind the fields to the end of the header; often nothing.
    pub list: &'static [Field],
}

/// The headers of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// As filters of a dissector begin, behind `tidegate_`.
    pub name: &'static str,
    /// Whose headers these are.
    pub doc: &'static [&'static str],
    /// In byte 0 of each.
    pub version: u8,
    /// UDP port of the receiver.
    pub port: u16,
    /// All there are.
    pub kinds: &'static [Kind],
}

/// Declares a record of fixed width: a struct, its table, and its way to bytes and back.
#[macro_export]
macro_rules! record {
    (
        $(#[$outer:meta])*
        pub struct $Name:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(as $shown:ident)?,)*
        }
    ) => {
        $(#[$outer])*
        pub struct $Name { $($(#[doc = $doc])+ pub $field: $type,)* }

        impl $Name {
            /// The table of its fields.
            pub const FIELDS: &'static [$crate::wire::Field] =
                &[$($crate::record!(@field $($doc)+, $field, $type $(, $shown)?)),*];
            /// Length of its fields on the wire.
            pub const FIELD_BYTES: usize =
                0 $(+ <$type as $crate::wire::Value>::BYTES)*;

            pub(crate) fn put(&self, out: &mut &mut [u8]) {
                $($crate::wire::Value::put(self.$field, out);)*
            }
            pub(crate) fn take(bytes: &mut &[u8]) -> $Name {
                $Name { $($field: $crate::wire::Value::take(bytes),)* }
            }
        }
    };
    (@field $($doc:literal)+, $field:ident, $type:ty) => {
        $crate::wire::Field {
            name: stringify!($field),
            bytes: <$type as $crate::wire::Value>::BYTES,
            shown: <$type as $crate::wire::Value>::SHOWN,
            doc: &[$($doc),+],
        }
    };
    (@field $($doc:literal)+, $field:ident, $type:ty, $shown:ident) => {
        $crate::wire::Field {
            shown: $crate::wire::Shown::$shown,
            ..$crate::record!(@field $($doc)+, $field, $type)
        }
    };
}

/// Declares the headers of a transport: a struct for each kind, an enum of them, and their
/// [`Header`](crate::wire::Header).
///
/// ```
/// tidegate_core::headers! {
///     /// Headers of Example.
///     pub enum Example = "example", version 1, port 52799;
///     /// A question.
///     Ask = 0 {
///         flags {
///             /// It was asked before.
///             again,
///         }
///         fields {
///             /// What it is about.
///             topic: u32,
///         }
///     }
/// }
/// use tidegate_core::wire::Header;
/// let ask = Example::Ask(Ask { again: true, topic: 7 });
/// let mut bytes = [0; 9];
/// assert_eq!(ask.emit(&mut bytes), Ok(8));
/// assert_eq!(bytes, [1, 0, 1, 2, 0, 0, 0, 7, 0]);
/// assert_eq!(Example::parse(&bytes), Ok((ask, &[0][..])));
/// ```
#[macro_export]
macro_rules! headers {
    (
        $(#[doc = $outer:literal])+
        pub enum $Header:ident = $name:literal, version $version:literal, port $port:literal;
        $(
            $(#[doc = $about:literal])+
            $Kind:ident = $number:literal {
                flags { $($(#[doc = $flag_doc:literal])+ $flag:ident,)* }
                fields { $($(#[doc = $doc:literal])+ $field:ident: $type:ty $(as $shown:ident)?,)* }
            }
        )+
    ) => {
        $(
            $(#[doc = $about])+
            #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
            pub struct $Kind {
                $($(#[doc = $flag_doc])+ pub $flag: bool,)*
                $($(#[doc = $doc])+ pub $field: $type,)*
            }

            impl $Kind {
                /// Length on the wire.
                pub const BYTES: usize = $crate::wire::START_BYTES
                    $(+ <$type as $crate::wire::Value>::BYTES)*;
            }
            const _: () = assert!(
                $Kind::BYTES.is_multiple_of(4) && $Kind::BYTES <= $crate::wire::MAX_HEADER_BYTES
            );

            impl From<$Kind> for $Header {
                fn from(header: $Kind) -> $Header {
                    $Header::$Kind(header)
                }
            }
        )+

        $(#[doc = $outer])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $Header { $($(#[doc = $about])+ $Kind($Kind),)+ }

        impl $crate::wire::Header for $Header {
            const FORMAT: $crate::wire::Format = $crate::wire::Format {
                name: $name,
                doc: &[$($outer),+],
                version: $version,
                port: $port,
                kinds: &[$($crate::wire::Kind {
                    number: $number,
                    name: stringify!($Kind),
                    doc: &[$($about),+],
                    flags: &[$($crate::wire::Flag {
                        name: stringify!($flag),
                        doc: &[$($flag_doc),+],
                    }),*],
                    fields: &[$($crate::record!(@field $($doc)+, $field, $type $(, $shown)?)),*],
                    list: &[],
                }),+],
            };

            fn bytes(&self) -> usize {
                match self { $($Header::$Kind(_) => $Kind::BYTES,)+ }
            }

            fn emit(&self, out: &mut [u8]) -> Result<usize, $crate::wire::HeaderError> {
                match self {
                    $($Header::$Kind(header) => {
                        let flags: &[bool] = &[$(header.$flag),*];
                        let flags = (0..).zip(flags).map(|(bit, &set)| (set as u8) << bit).sum();
                        let mut rest = $crate::wire::Start::emit(
                            out, $version, $number, flags, $Kind::BYTES,
                        )?;
                        $($crate::wire::Value::put(header.$field, &mut rest);)*
                        Ok($Kind::BYTES)
                    })+
                }
            }

            fn parse(bytes: &[u8]) -> Result<($Header, &[u8]), $crate::wire::HeaderError> {
                let start = $crate::wire::Start::parse(bytes, $version)?;
                let header = match start.kind {
                    $($number => {
                        const FLAGS: &[&str] = &[$(stringify!($flag)),*];
                        let (mut flags, mut rest) =
                            start.checked(FLAGS.len() as u32, $Kind::BYTES)?;
                        $Header::$Kind($Kind {
                            $($flag: $crate::wire::take_flag(&mut flags),)*
                            $($field: $crate::wire::Value::take(&mut rest),)*
                        })
                    })+
                    kind => return Err($crate::wire::HeaderError::Kind(kind)),
                };
                Ok((header, start.rest))
            }
        }
    };
}

/// The text of a comment, in one line.
pub fn meaning(doc: &[&str]) -> alloc::string::String {
    crate::params::one_line(doc)
}
