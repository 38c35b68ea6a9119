//! Packets as bytes: typed headers with one table each, from which come the struct, its parser, its
//! emitter, the documents and the dissector.
//!
//! What follows the UDP header is a row of headers, then the payload. First [telemetry](telemetry),
//! where the packet asks for it or echoes it, then the header of its transport. All begin alike:
//!
//! | byte | |
//! | --- | --- |
//! | 0 | version |
//! | 1 | kind |
//! | 2 | flags, from the lowest bit; those without a meaning are zero |
//! | 3 | length of the header in words of 32 bits, these four bytes included |
//!
//! The fields follow in the order of their table, big-endian, without gaps. Who sent a packet and
//! to whom, and whether it may be marked or is, stands in the IP header; how much payload there is
//! follows from the length in the UDP header.

mod format;
pub mod telemetry;

pub use format::{Field, Flag, Format, Kind, Shown, meaning};

use core::fmt;

use crate::{Body, Frame, HopTrace, PacketMut, Rate, Span, Time};

/// Bytes that every header begins with.
pub const START_BYTES: usize = 4;
/// Length of the largest header, by what its length is counted in.
pub const MAX_HEADER_BYTES: usize = 4 * u8::MAX as usize;

/// Why bytes are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// There are fewer bytes than the header has, or less room than it takes.
    Short {
        /// Bytes that it takes.
        needed: usize,
        /// Bytes that there are.
        found: usize,
    },
    /// The header is of another version.
    Version {
        /// Of the header.
        found: u8,
        /// The one that is known.
        known: u8,
    },
    /// There is no such kind.
    Kind(u8),
    /// The header says that it is so long, which one of its kind is not.
    Length {
        /// The kind.
        kind: u8,
        /// Bytes that it says it has.
        found: usize,
    },
    /// Flags are set that have no meaning.
    Flags {
        /// The kind.
        kind: u8,
        /// The flags.
        unknown: u8,
    },
    /// Telemetry of this kind, or of one that stands behind it, was there before.
    Order(u8),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Short { needed, found } => write!(f, "{found} bytes of {needed}"),
            HeaderError::Version { found, known } => {
                write!(f, "version {found}, where {known} is known")
            }
            HeaderError::Kind(kind) => write!(f, "no kind of header is {kind}"),
            HeaderError::Length { kind, found } => {
                write!(f, "{found} bytes are not the length of kind {kind}")
            }
            HeaderError::Flags { kind, unknown } => {
                write!(f, "flags {unknown:#04x} mean nothing in kind {kind}")
            }
            HeaderError::Order(kind) => write!(f, "kind {kind} is there twice, or too late"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// The headers of a transport, typed: what [`headers!`](crate::headers) makes.
pub trait Header: Copy + fmt::Debug + PartialEq {
    /// All about them.
    const FORMAT: Format;

    /// Length on the wire.
    fn bytes(&self) -> usize;
    /// Writes the header to the beginning of `out`; its length.
    ///
    /// # Errors
    /// Where there is no room.
    fn emit(&self, out: &mut [u8]) -> Result<usize, HeaderError>;
    /// Reads a header from the beginning of `bytes`; the header, and what follows it.
    ///
    /// # Errors
    /// Where there is none.
    fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), HeaderError>;
}

/// How typed headers lie in a [`Body`]: written by hand, in one file for each transport. In memory
/// words are the machine's own, so that nobody swaps bytes where nothing leaves the process.
pub trait Carried: Header {
    /// The header in `body`; none where that holds no packet of this transport.
    fn read(body: &Body) -> Option<Self>;
    /// Writes the header into `body`: all but `transport`, `src` and `payload_bytes`. Without a
    /// time in the header `sent_at` is zero.
    fn write(&self, body: &mut Body);
    /// Where in its message the payload of a packet begins, in bytes; none in all but data.
    fn offset(&self) -> Option<u64>;
}

/// Writes the headers of a packet to the beginning of `out`: its telemetry, then those of its
/// transport; their length.
///
/// # Errors
/// Where there is no room, or the body is none of this transport.
pub fn emit<H: Carried>(
    frame: &Frame,
    body: &Body,
    hops: &HopTrace,
    out: &mut [u8],
) -> Result<usize, HeaderError> {
    let header = H::read(body).ok_or(HeaderError::Kind(body.tag))?;
    let start = telemetry::emit(frame, hops, out)?;
    Ok(start + header.emit(&mut out[start..])?)
}

/// Reads a datagram into `packet`: telemetry, header, and how much payload follows them. What
/// stands in the IP header is the driver's to fill in: `src` and marks. The length of the headers.
///
/// # Errors
/// Where the datagram does not begin with headers of this transport.
pub fn parse<H: Carried>(datagram: &[u8], packet: PacketMut<'_>) -> Result<usize, HeaderError> {
    let rest = telemetry::parse(datagram, packet.frame, packet.hops)?;
    let (header, payload) = H::parse(rest)?;
    packet.body.payload_bytes = payload.len() as u32;
    header.write(packet.body);
    Ok(datagram.len() - payload.len())
}

/// What a header begins with.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Which kind of header.
    pub kind: u8,
    flags: u8,
    /// Behind the start.
    fields: &'a [u8],
    /// Behind the header.
    pub rest: &'a [u8],
}

impl<'a> Start<'a> {
    /// Reads the start of a header.
    ///
    /// # Errors
    /// Where it is of another version, or not whole.
    pub fn parse(bytes: &'a [u8], version: u8) -> Result<Start<'a>, HeaderError> {
        let short = |needed| HeaderError::Short { needed, found: bytes.len() };
        let (&[found, kind, flags, words], _) =
            bytes.split_first_chunk().ok_or(short(START_BYTES))?;
        if found != version {
            return Err(HeaderError::Version { found, known: version });
        }
        let length = 4 * words as usize;
        let (header, rest) = bytes.split_at_checked(length).ok_or(short(length))?;
        let fields =
            header.get(START_BYTES..).ok_or(HeaderError::Length { kind, found: length })?;
        Ok(Start { kind, flags, fields, rest })
    }

    /// The fields of a header with so many flags and so many bytes; and its flags.
    ///
    /// # Errors
    /// Where it has others.
    pub fn checked(&self, flags: u32, bytes: usize) -> Result<(u8, &'a [u8]), HeaderError> {
        let found = START_BYTES + self.fields.len();
        if found != bytes {
            return Err(HeaderError::Length { kind: self.kind, found });
        }
        let unknown = (self.flags as u32 >> flags << flags) as u8;
        if unknown != 0 {
            return Err(HeaderError::Flags { kind: self.kind, unknown });
        }
        Ok((self.flags, self.fields))
    }

    /// Writes the start of a header of so many bytes to the beginning of `out`; where its fields
    /// go.
    ///
    /// # Errors
    /// Where the header has no room.
    pub fn emit(
        out: &mut [u8],
        version: u8,
        kind: u8,
        flags: u8,
        bytes: usize,
    ) -> Result<&mut [u8], HeaderError> {
        let short = HeaderError::Short { needed: bytes, found: out.len() };
        let header = out.get_mut(..bytes).ok_or(short)?;
        let (start, fields) = header.split_first_chunk_mut().ok_or(short)?;
        *start = [version, kind, flags, (bytes / 4) as u8];
        Ok(fields)
    }
}

/// Takes the lowest flag.
#[doc(hidden)]
pub fn take_flag(flags: &mut u8) -> bool {
    let flag = *flags & 1 == 1;
    *flags >>= 1;
    flag
}

/// A value of a field.
pub trait Value: Copy {
    /// Width.
    const BYTES: usize;
    /// How people read it.
    const SHOWN: Shown;
    /// Writes it to the beginning of `out`, which begins behind it then.
    fn put(self, out: &mut &mut [u8]);
    /// Takes it from the beginning of `bytes`; zero where there are too few.
    fn take(bytes: &mut &[u8]) -> Self;
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl Value for $type {
            const BYTES: usize = size_of::<$type>();
            const SHOWN: Shown = Shown::Number;
            fn put(self, out: &mut &mut [u8]) {
                if let Some((first, rest)) = core::mem::take(out).split_first_chunk_mut() {
                    *first = self.to_be_bytes();
                    *out = rest;
                }
            }
            fn take(bytes: &mut &[u8]) -> $type {
                let Some((&first, rest)) = bytes.split_first_chunk() else { return 0 };
                *bytes = rest;
                <$type>::from_be_bytes(first)
            }
        }
    )*};
}
integers!(u32, u64);

impl<const N: usize> Value for [u8; N] {
    const BYTES: usize = N;
    const SHOWN: Shown = Shown::Bytes;
    fn put(self, out: &mut &mut [u8]) {
        if let Some((first, rest)) = core::mem::take(out).split_first_chunk_mut() {
            *first = self;
            *out = rest;
        }
    }
    fn take(bytes: &mut &[u8]) -> [u8; N] {
        let Some((&first, rest)) = bytes.split_first_chunk() else { return [0; N] };
        *bytes = rest;
        first
    }
}

macro_rules! picoseconds {
    ($($type:ty),*) => {$(
        impl Value for $type {
            const BYTES: usize = 8;
            const SHOWN: Shown = Shown::Picoseconds;
            fn put(self, out: &mut &mut [u8]) {
                self.as_ps().put(out);
            }
            fn take(bytes: &mut &[u8]) -> $type {
                <$type>::ps(u64::take(bytes))
            }
        }
    )*};
}
picoseconds!(Time, Span);

impl Value for Rate {
    const BYTES: usize = 8;
    const SHOWN: Shown = Shown::BitsPerSecond;
    fn put(self, out: &mut &mut [u8]) {
        self.as_bps().put(out);
    }
    fn take(bytes: &mut &[u8]) -> Rate {
        Rate::bps(u64::take(bytes))
    }
}
