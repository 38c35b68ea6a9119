//! Telemetry in TCP options, which the congestion controls of the Linux kernel request
//! (docs/kernel.md): kind 253 (RFC 4727) with an experiment's identifier (RFC 6994), in network
//! byte order.
//!
//! | option | values after kind, length and identifier |
//! | --- | --- |
//! | delay, 8 bytes | two codes of 16 bits: largest queueing delay, returned delay |
//! | records, 4 + 8 n bytes | one of 64 bits per hop |
//!
//! A delay is a number of 256 ns, shifted right until it has at most 14 bits; each shift adds 2^13
//! to its code. Zero means not stamped, so a switch writes at least 1. A record has 12 bits of rate
//! ((128 + m) · 2^e / 128 kbit/s; 5 bits e, 7 bits m), 20 bits of time (64 ns), 16 bits of bytes
//! sent (64 B), one bit for a later hop without a free record, and 15 bits of queue (128 B). Values
//! are written in place, and the checksum is updated incrementally.

use std::ops::Range;

use tidegate_core::wire::tcp_option::rate_code;
use tidegate_core::{Frame, Hop, Span, frame_flag};

use crate::ethernet::{follow, put, sum, word};

const KIND: u8 = 253;
const DELAY: u16 = 0x7464;
const RECORDS: u16 = 0x7466;
/// Kind, length, identifier.
const START_BYTES: usize = 4;
const DELAY_BYTES: usize = START_BYTES + 4;
const RECORD_BYTES: usize = 8;
/// Bytes of a TCP header without options, and place of its checksum.
const HEADER_BYTES: usize = 20;
pub(crate) const CHECKSUM: usize = 16;
/// One unit of delay.
const DELAY_UNIT: Span = Span::ns(256);
/// Bits of a code below its shift, and the largest shift.
const DELAY_BITS: u32 = 13;
const MOST_SHIFT: u32 = 6;
/// A later hop found no free record.
const MORE: u64 = 1 << 15;

/// An option that requests telemetry, by the place of its values in the segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TcpTelemetry {
    /// The largest delay.
    Delay(Range<usize>),
    /// The records.
    Records(Range<usize>),
}

impl TcpTelemetry {
    /// Finds the option in a segment. Other, incomplete and invalid options are none.
    pub(crate) fn find(segment: &[u8]) -> Option<TcpTelemetry> {
        let end = 4 * usize::from(segment.get(12)? >> 4);
        let header = segment.get(..end)?;
        let mut at = HEADER_BYTES;
        loop {
            match *header.get(at)? {
                0 => return None,
                1 => at += 1,
                kind => {
                    let length = usize::from(*header.get(at + 1)?);
                    let option = header.get(at..at + length).filter(|_| length >= 2)?;
                    if kind == KIND && length >= START_BYTES {
                        let values = at + START_BYTES..at + length;
                        match word(option, 2) {
                            DELAY if length == DELAY_BYTES => {
                                return Some(TcpTelemetry::Delay(values.start..values.start + 2));
                            }
                            RECORDS => return Some(TcpTelemetry::Records(values)),
                            _ => {}
                        }
                    }
                    at += length;
                }
            }
        }
    }

    /// Requests the telemetry of switches, beginning with the delay so far.
    pub(crate) fn request(&self, segment: &[u8], frame: &mut Frame) {
        match self {
            TcpTelemetry::Delay(at) => {
                frame.flags |= frame_flag::STAMP_PEAK;
                frame.peak_hop_delay = delay_of(word(segment, at.start));
            }
            TcpTelemetry::Records(_) => frame.flags |= frame_flag::STAMP_HOPS,
        }
    }

    /// Writes the telemetry of switches into the segment.
    pub(crate) fn write(&self, segment: &mut [u8], delay: Span, hops: &[Hop]) {
        match self {
            TcpTelemetry::Delay(at) => {
                let code = delay_code(delay).max(1).max(word(segment, at.start));
                replace(segment, at.start, &code.to_be_bytes());
            }
            TcpTelemetry::Records(at) => {
                let mut hops = hops.iter();
                let words = at.clone().step_by(RECORD_BYTES);
                let words = words.filter(|word| word + RECORD_BYTES <= at.end);
                let mut last = None;
                for place in words {
                    last = Some(place);
                    if record(segment, place) == 0
                        && let Some(hop) = hops.next()
                    {
                        replace(segment, place, &record_of(hop).to_be_bytes());
                    }
                }
                if let Some(place) = last.filter(|_| hops.next().is_some()) {
                    replace(segment, place, &(record(segment, place) | MORE).to_be_bytes());
                }
            }
        }
    }
}

/// The code of a delay, rounded down; the largest one from 268 ms on.
fn delay_code(delay: Span) -> u16 {
    let units = delay.as_ps() / DELAY_UNIT.as_ps();
    let shift = units.checked_ilog2().unwrap_or(0).saturating_sub(DELAY_BITS).min(MOST_SHIFT);
    let code = (units >> shift) + (u64::from(shift) << DELAY_BITS);
    code.min(u16::MAX.into()) as u16
}

fn delay_of(code: u16) -> Span {
    let shift = (code >> DELAY_BITS).saturating_sub(1);
    DELAY_UNIT.times(u64::from(code - (shift << DELAY_BITS)) << shift)
}

fn record(segment: &[u8], at: usize) -> u64 {
    segment[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn record_of(hop: &Hop) -> u64 {
    let time = (hop.at.as_ps() / Span::ns(64).as_ps()) & 0xf_ffff;
    let sent = (hop.tx_bytes / 64) & 0xffff;
    let queue = u64::from(hop.queue_bytes / 128).min(0x7fff);
    rate_code(hop.rate) << 52 | time << 32 | sent << 16 | queue
}

/// Replaces bytes of a segment and updates its checksum. In ones' complement, a word at an odd
/// place counts with its bytes exchanged.
fn replace(segment: &mut [u8], at: usize, new: &[u8]) {
    let old = &segment[at..at + new.len()];
    let [before, after] = [old, new].map(|bytes| match at % 2 {
        0 => sum(bytes),
        _ => sum(&[&[0], bytes].concat()),
    });
    let checksum = follow(word(segment, CHECKSUM), before, after);
    segment[at..at + new.len()].copy_from_slice(new);
    put(segment, CHECKSUM, checksum);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ethernet::fold;
    use tidegate_core::{Rate, Time};

    /// A segment with these options, 3 bytes of data, and the checksum of a pseudo-header of zeros.
    fn segment(options: &[u8]) -> Vec<u8> {
        let mut segment = vec![7; HEADER_BYTES];
        segment.extend_from_slice(options);
        segment.resize(segment.len().next_multiple_of(4), 0);
        segment[12] = ((segment.len() / 4) << 4) as u8;
        segment.extend_from_slice(b"abc");
        put(&mut segment, CHECKSUM, 0);
        let checksum = !fold(sum(&segment));
        put(&mut segment, CHECKSUM, checksum);
        segment
    }

    fn option(identifier: u16, values: &[u8]) -> Vec<u8> {
        let [high, low] = identifier.to_be_bytes();
        [&[KIND, (START_BYTES + values.len()) as u8, high, low], values].concat()
    }

    fn is_valid(segment: &[u8]) -> bool {
        fold(sum(segment)) == u16::MAX
    }

    #[test]
    fn delay_is_raised_in_place() {
        // At even and odd places: behind timestamps, and behind one and two paddings.
        for before in [&[8, 10, 1, 2, 3, 4, 5, 6, 7, 8][..], &[1], &[1, 1], &[]] {
            let options = [before, &option(DELAY, &[0, 4, 0, 9])].concat();
            let whole = segment(&options);
            let telemetry = TcpTelemetry::find(&whole).unwrap();
            let mut frame = Frame::default();
            telemetry.request(&whole, &mut frame);
            assert_eq!(
                (frame.peak_hop_delay, frame.flags),
                (Span::ns(1024), frame_flag::STAMP_PEAK)
            );
            let at = HEADER_BYTES + before.len() + START_BYTES;
            for (delay, code) in [(0, 4), (1_100, 4), (1_280, 5), (20_000_000, 34_341)] {
                let mut segment = whole.clone();
                telemetry.write(&mut segment, Span::ns(delay), &[]);
                assert_eq!((word(&segment, at), word(&segment, at + 2)), (code, 9));
                assert!(is_valid(&segment), "{before:?}, {delay}");
            }
        }
        let mut unstamped = segment(&option(DELAY, &[0; 4]));
        TcpTelemetry::find(&unstamped).unwrap().write(&mut unstamped, Span::ZERO, &[]);
        assert_eq!(word(&unstamped, HEADER_BYTES + START_BYTES), 1, "stamped without a delay");
    }

    #[test]
    fn codes_of_delays_are_ordered_and_accurate() {
        for code in 0..=u16::MAX {
            let delay = delay_of(code);
            assert_eq!(delay_code(delay), code);
            let Some(next) = code.checked_add(1) else { break };
            let step = delay_of(next).beyond(delay);
            assert!(step == DELAY_UNIT || delay >= step.times(1 << DELAY_BITS), "{code}");
            assert_eq!(delay_code(delay_of(next).beyond(Span::ps(1))), code, "rounded down");
        }
        // The same values are in crates/kernel/tests/laws/fixed.rs.
        for (ns, code, read_ns) in DELAYS {
            assert_eq!(delay_code(Span::ns(ns)), code, "{ns}");
            assert_eq!(delay_of(code), Span::ns(read_ns), "{ns}");
        }
    }

    /// Delays in ns, their codes, and what these mean in ns.
    const DELAYS: [(u64, u16, u64); 6] = [
        (255, 0, 0),
        (4_194_303, 16_383, 4_194_048),
        (4_194_304, 16_384, 4_194_304),
        (25_200_000, 36_880, 25_198_592),
        (110_000_000, 54_387, 109_993_984),
        (u32::MAX as u64, u16::MAX, 268_419_072),
    ];

    fn hop(us: u64) -> Hop {
        let (at, rate) = (Time::us(us), Rate::gbps(100));
        Hop { at, rate, tx_bytes: 640, queue_bytes: 1_300, port: 3 }
    }

    #[test]
    fn records_fill_free_words_in_order() {
        let mut whole = segment(&option(RECORDS, &[0; 24]));
        let records = |segment: &[u8]| {
            [0, 8, 16].map(|place| record(segment, HEADER_BYTES + START_BYTES + place))
        };
        let telemetry = TcpTelemetry::find(&whole).unwrap();
        telemetry.write(&mut whole, Span::ZERO, &[hop(1)]);
        let words = records(&whole);
        // 100 Gbit/s: 10^8 kbit/s = (128 + 62) · 2^26 / 128, rounded down.
        assert_eq!(words, [(26 << 7 | 62) << 52 | 15 << 32 | 10 << 16 | 10, 0, 0]);
        telemetry.write(&mut whole, Span::ZERO, &[hop(2), hop(3), hop(4)]);
        let words = records(&whole);
        assert_eq!(words.map(|word| word >> 32 & 0xf_ffff), [15, 31, 46]);
        assert_eq!(words.map(|word| word & MORE != 0), [false, false, true]);
        assert!(is_valid(&whole));
        // No room at all.
        let mut none = segment(&option(RECORDS, &[]));
        let before = none.clone();
        TcpTelemetry::find(&none).unwrap().write(&mut none, Span::ZERO, &[hop(1)]);
        assert_eq!(none, before);
    }

    #[test]
    fn record_fields_wrap_and_saturate() {
        let far = Hop { tx_bytes: 64 * 0x1_0001, queue_bytes: u32::MAX, ..hop(1 << 20) };
        let word = record_of(&far);
        assert_eq!((word >> 16 & 0xffff, word & 0xffff), (1, 0x7fff));
        assert_eq!(word >> 32 & 0xf_ffff, ((1 << 20) * 1_000 / 64) & 0xf_ffff);
    }

    #[test]
    fn other_options_are_none() {
        let other = option(0x7465, &[0; 8]);
        let short = option(DELAY, &[0; 2]);
        let unterminated = [KIND, 40, 0x74, 0x64];
        for options in [&other[..], &short, &unterminated, &[KIND, 1], &[KIND, 0], &[0], &[], &[5]]
        {
            assert_eq!(TcpTelemetry::find(&segment(options)), None, "{options:?}");
        }
        let ended = [&[0], &option(DELAY, &[0; 4])[..]].concat();
        assert_eq!(TcpTelemetry::find(&segment(&ended)), None, "behind the end of options");
        for length in 0..HEADER_BYTES + DELAY_BYTES {
            let whole = segment(&option(DELAY, &[0; 4]));
            assert_eq!(TcpTelemetry::find(&whole[..length]), None, "{length} bytes");
        }
        let behind = [&other[..], &option(DELAY, &[0; 4])].concat();
        assert!(TcpTelemetry::find(&segment(&behind)).is_some(), "behind another option");
    }
}
