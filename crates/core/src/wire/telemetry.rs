//! Telemetry headers, which switches write. They precede the header of the transport, so switches
//! find them at a fixed position.
//!
//! The values are those that the algorithms read, exact to the picosecond and the byte. The bytes
//! that a protocol's information declares, by which simulated packets are longer, are those of its
//! paper, whose switches round values: Poseidon uses two bytes in units of 256 ns, HPCC eight bytes
//! per hop.

use super::{Field, Flag, Format, HeaderError, Kind, START_BYTES, Shown, Start, Value};
use crate::{Frame, Hop, HopTrace, MAX_HOPS, Span, frame_flag};

const VERSION: u8 = 1;
/// First kind of telemetry. Kinds of transports are below.
pub const FIRST_KIND: u8 = 0x40;
const PEAK: u8 = FIRST_KIND;
const HOPS: u8 = FIRST_KIND + 1;
const PEAK_BYTES: usize = START_BYTES + <Span as Value>::BYTES;

/// Flag of [`HOPS`]: the records are echoed.
const ECHO: u8 = 1;

/// Format of telemetry; the same for all transports.
pub const FORMAT: Format = Format {
    name: "telemetry",
    doc: &["Telemetry that switches write; the same for all transports."],
    version: VERSION,
    port: 0,
    kinds: &[
        Kind {
            number: PEAK,
            name: "Peak",
            doc: &["The packet collects the largest queueing delay of any hop."],
            flags: &[],
            fields: &[Field {
                name: "peak_hop_delay",
                bytes: <Span as Value>::BYTES,
                shown: Shown::Picoseconds,
                doc: &["Largest queueing delay at any stamping switch so far."],
            }],
            list: &[],
        },
        Kind {
            number: HOPS,
            name: "Hops",
            doc: &["The packet collects a record of every hop, or echoes them."],
            flags: &[Flag {
                name: "echo",
                doc: &[
                    "The records belong to the packet that this one acknowledges: switches add \
                    none.",
                ],
            }],
            fields: &[],
            list: Hop::FIELDS,
        },
    ],
};

/// Maximum length of the telemetry of a packet.
pub const MOST_BYTES: usize = PEAK_BYTES + START_BYTES + MAX_HOPS * Hop::FIELD_BYTES;

/// Writes the telemetry that a packet requests or echoes, and returns its length.
///
/// # Errors
/// If `out` is too short.
pub fn emit(frame: &Frame, hops: &HopTrace, out: &mut [u8]) -> Result<usize, HeaderError> {
    let mut at = 0;
    if frame.flags & frame_flag::STAMP_PEAK != 0 {
        let mut fields = Start::emit(out, VERSION, PEAK, 0, PEAK_BYTES)?;
        frame.peak_hop_delay.put(&mut fields);
        at += PEAK_BYTES;
    }
    let stamps = frame.flags & frame_flag::STAMP_HOPS != 0;
    let hops = hops.as_slice();
    if stamps || !hops.is_empty() {
        let bytes = START_BYTES + hops.len() * Hop::FIELD_BYTES;
        let flags = if stamps { 0 } else { ECHO };
        let mut fields = Start::emit(&mut out[at..], VERSION, HOPS, flags, bytes)?;
        hops.iter().for_each(|hop| hop.put(&mut fields));
        at += bytes;
    }
    Ok(at)
}

/// Parses the telemetry at the start of a datagram, if there is any, and returns the bytes that
/// follow. Sets in `frame` the requests of the packet and its largest delay so far. The accepted
/// encoding is unique: each kind at most once, in order, and no empty echo.
///
/// # Errors
/// If the telemetry is invalid.
pub fn parse<'a>(
    mut bytes: &'a [u8],
    frame: &mut Frame,
    hops: &mut HopTrace,
) -> Result<&'a [u8], HeaderError> {
    frame.flags &= !(frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS);
    frame.peak_hop_delay = Span::ZERO;
    hops.clear();
    // Lowest kind that may follow.
    let mut next = FIRST_KIND;
    while bytes.get(1).is_some_and(|&kind| kind >= FIRST_KIND) {
        let start = Start::parse(bytes, VERSION)?;
        if start.kind > HOPS {
            return Err(HeaderError::Kind(start.kind));
        }
        if start.kind < next {
            return Err(HeaderError::Order(start.kind));
        }
        next = start.kind + 1;
        if start.kind == PEAK {
            let (_, mut fields) = start.checked(0, PEAK_BYTES)?;
            frame.flags |= frame_flag::STAMP_PEAK;
            frame.peak_hop_delay = Span::take(&mut fields);
        } else {
            let bytes = START_BYTES + start.fields.len();
            let (flags, mut fields) = start.checked(1, bytes)?;
            let whole = fields.len().is_multiple_of(Hop::FIELD_BYTES);
            let echoes_nothing = flags & ECHO != 0 && fields.is_empty();
            if !whole || echoes_nothing || fields.len() / Hop::FIELD_BYTES > MAX_HOPS {
                return Err(HeaderError::Length { kind: HOPS, found: bytes });
            }
            if flags & ECHO == 0 {
                frame.flags |= frame_flag::STAMP_HOPS;
            }
            while !fields.is_empty() {
                hops.push(Hop::take(&mut fields));
            }
        }
        bytes = start.rest;
    }
    Ok(bytes)
}
