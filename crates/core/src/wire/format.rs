//! Header tables, and the macros that generate them.

/// Display format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// A number.
    Number,
    /// A set of bits.
    Bits,
    /// Opaque bytes.
    Bytes,
    /// A time.
    Picoseconds,
    /// A rate.
    BitsPerSecond,
}

/// A field of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in code.
    pub name: &'static str,
    /// Width in bytes.
    pub bytes: usize,
    /// Display format.
    pub shown: Shown,
    /// Meaning, line by line; see [`meaning`].
    pub doc: &'static [&'static str],
}

/// A flag of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Name in code.
    pub name: &'static str,
    /// Meaning if it is set.
    pub doc: &'static [&'static str],
}

/// A kind of header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// Value of byte 1 of the header.
    pub number: u8,
    /// Name in code.
    pub name: &'static str,
    /// Purpose.
    pub doc: &'static [&'static str],
    /// Flags, from the lowest bit.
    pub flags: &'static [Flag],
    /// Fields, in order.
    pub fields: &'static [Field],
    /// Fields of a record that is repeated to the end of the header; often none.
    pub list: &'static [Field],
}

/// The headers of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// Prefix of dissector filters, after `tidegate_`.
    pub name: &'static str,
    /// Description of the transport.
    pub doc: &'static [&'static str],
    /// Value of byte 0 of each header.
    pub version: u8,
    /// UDP port of the receiver.
    pub port: u16,
    /// All kinds.
    pub kinds: &'static [Kind],
}

/// Declares a record of fixed width: a struct, its table, and its conversion to bytes and back.
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

/// Declares the headers of a transport: a struct per kind, an enum of them, and the implementation
/// of [`Header`](crate::wire::Header).
///
/// ```
/// tidegate_core::headers! {
///     /// Headers of Example.
///     pub enum Example = "example", version 1, port 52799;
///     /// A request.
///     Ask = 0 {
///         flags {
///             /// The request is repeated.
///             again,
///         }
///         fields {
///             /// Topic of the request.
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

/// Joins the lines of a doc comment.
pub fn meaning(doc: &[&str]) -> alloc::string::String {
    crate::params::one_line(doc)
}
