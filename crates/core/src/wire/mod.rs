//! Packets as bytes: typed headers. One table per header defines the struct, its parser, its
//! emitter, the documents and the dissector.
//!
//! The UDP header is followed by a sequence of headers, then the payload. The first is
//! [telemetry](telemetry), if the packet requests or echoes it, then the header of its transport.
//! All headers start with the same fields:
//!
//! | byte | |
//! | --- | --- |
//! | 0 | version |
//! | 1 | kind |
//! | 2 | flags, from the lowest bit; unused flags are zero |
//! | 3 | length of the header in 32-bit words, including these four bytes |
//!
//! The fields follow in the order of their table, big-endian, without gaps. The IP header contains
//! source, destination and ECN bits. The payload length follows from the length in the UDP header.

mod format;
pub mod forwarding;
pub mod tcp_option;
pub mod telemetry;

pub use format::{Field, Flag, Format, Kind, Shown, meaning};

use core::fmt;

use crate::{Body, Frame, HopTrace, PacketMut, Rate, Span, Time};

/// Bytes at the start of every header.
pub const START_BYTES: usize = 4;
/// Largest header that the length field can express.
pub const MAX_HEADER_BYTES: usize = 4 * u8::MAX as usize;

/// Error in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderError {
    /// There are fewer bytes than the header has, or less room than it takes.
    Short {
        /// Bytes of the header.
        needed: usize,
        /// Bytes available.
        found: usize,
    },
    /// The header has an unknown version.
    Version {
        /// Version in the header.
        found: u8,
        /// Known version.
        known: u8,
    },
    /// Unknown kind.
    Kind(u8),
    /// The length field does not match the kind.
    Length {
        /// Kind.
        kind: u8,
        /// Length in the header, in bytes.
        found: usize,
    },
    /// Undefined flags are set.
    Flags {
        /// Kind.
        kind: u8,
        /// Undefined flags.
        unknown: u8,
    },
    /// Telemetry of this kind, or of a later one, has already occurred.
    Order(u8),
}

impl fmt::Display for HeaderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeaderError::Short { needed, found } => {
                write!(f, "{found} bytes, but the header has {needed}")
            }
            HeaderError::Version { found, known } => {
                write!(f, "header version {found} is unknown; expected {known}")
            }
            HeaderError::Kind(kind) => write!(f, "unknown header kind {kind}"),
            HeaderError::Length { kind, found } => {
                write!(f, "header kind {kind} cannot have {found} bytes")
            }
            HeaderError::Flags { kind, unknown } => {
                write!(f, "undefined flags {unknown:#04x} in header kind {kind}")
            }
            HeaderError::Order(kind) => write!(f, "header kind {kind} is repeated or out of order"),
        }
    }
}

impl core::error::Error for HeaderError {}

/// Typed headers of a transport. [`headers!`](crate::headers) implements it.
pub trait Header: Copy + fmt::Debug + PartialEq {
    /// Description of all headers.
    const FORMAT: Format;

    /// Length on the wire.
    fn bytes(&self) -> usize;
    /// Writes the header to the start of `out` and returns its length.
    ///
    /// # Errors
    /// If `out` is too short.
    fn emit(&self, out: &mut [u8]) -> Result<usize, HeaderError>;
    /// Parses a header at the start of `bytes`. Returns the header and the bytes that follow it.
    ///
    /// # Errors
    /// If the bytes are not a valid header.
    fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), HeaderError>;
}

/// Mapping between typed headers and a [`Body`], written by hand in one file per transport. In
/// memory words have native byte order, so bytes are swapped only in packets that leave the
/// process.
pub trait Carried: Header {
    /// The header in `body`; `None` if the body holds no packet of this transport.
    fn read(body: &Body) -> Option<Self>;
    /// Writes the header into `body`, except for `transport`, `src` and `payload_bytes`. If the
    /// header has no time, `sent_at` is zero.
    fn write(&self, body: &mut Body);
    /// Offset in bytes of a data packet's payload in its message; `None` for other packets.
    fn offset(&self) -> Option<u64>;
}

/// Writes the headers of a packet to the start of `out`: telemetry, then the header of its
/// transport. Returns their length.
///
/// # Errors
/// If `out` is too short, or the body does not belong to this transport.
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

/// Parses a datagram into `packet`: telemetry, header, and length of the payload. The driver fills
/// in `src` and marks from the IP header. Returns the length of the headers.
///
/// # Errors
/// If the datagram does not start with headers of this transport.
pub fn parse<H: Carried>(datagram: &[u8], packet: PacketMut<'_>) -> Result<usize, HeaderError> {
    let rest = telemetry::parse(datagram, packet.frame, packet.hops)?;
    let (header, payload) = H::parse(rest)?;
    packet.body.payload_bytes = payload.len() as u32;
    header.write(packet.body);
    Ok(datagram.len() - payload.len())
}

/// The common start of a header.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    /// Kind of the header.
    pub kind: u8,
    flags: u8,
    /// Bytes after the start.
    fields: &'a [u8],
    /// Bytes after the header.
    pub rest: &'a [u8],
}

impl<'a> Start<'a> {
    /// Parses the start of a header.
    ///
    /// # Errors
    /// If it has another version, or is incomplete.
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

    /// Returns flags and fields of a header that has `flags` flags and `bytes` bytes.
    ///
    /// # Errors
    /// If the header has other flags or another length.
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

    /// Writes the start of a header of `bytes` bytes to the start of `out`. Returns the room for
    /// its fields.
    ///
    /// # Errors
    /// If `out` is too short.
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

/// Removes the lowest flag.
#[doc(hidden)]
pub fn take_flag(flags: &mut u8) -> bool {
    let flag = *flags & 1 == 1;
    *flags >>= 1;
    flag
}

/// A value of a field.
pub trait Value: Copy {
    /// Width in bytes.
    const BYTES: usize;
    /// Format for display.
    const SHOWN: Shown;
    /// Writes the value to the front of `out` and advances it.
    fn put(self, out: &mut &mut [u8]);
    /// Takes the value from the front of `bytes`; zero if there are too few.
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
