//! Robustness of frame handling against arbitrary frames, and limits of modifications.

use tidegate_core::wire::{forwarding, telemetry};
use tidegate_core::{Frame, Hop, HopTrace, MAX_HOPS, MIN_WIRE_BYTES, Rate, Span, frame_flag};

use crate::datagram::{Datagram, Reader, is_trimmed};
use crate::ethernet::{self, FRAME_OVERHEAD_BYTES, Ip, word};
use crate::tcp::{CHECKSUM, TcpTelemetry};

const READER: Reader =
    Reader { priorities: 8, stamps: true, sized: false, sprays: false, trimmed_bytes: Some(192) };
const ECN: u8 = 0b11;

/// Parses a frame that `script` describes (arbitrary bytes, or UDP or TCP over IPv4 or IPv6, with
/// tags, options, telemetry, the headers of a session, padding, complete, fragmented or damaged),
/// marks or trims it, adds requested telemetry, and writes it again.
///
/// # Panics If the switch panics, if anything but ECN, telemetry, lengths and checksums has
/// changed, if a correct checksum became wrong, or a wrong one correct; if a trimmed frame has
/// changed otherwise.
pub fn any_frame(script: &[u8]) {
    let Some((choice, rest)) = script.split_first_chunk() else { return };
    let before = frame(choice, rest);
    let (content, _) = ethernet::content(&before);
    assert_eq!([content.head, content.payload].concat(), before);
    assert!(content.readable <= content.payload.len());
    let (tos, readable) = (content.tos, content.readable);
    let mut datagram = Datagram::default();
    datagram.fill(content);
    let wire = (before.len() + FRAME_OVERHEAD_BYTES).max(MIN_WIRE_BYTES as usize);
    let Some(mut packet) = datagram.packet(READER, 0, 0, 0) else {
        return assert!(wire > u16::MAX.into());
    };
    assert_eq!(usize::from(packet.frame.wire_bytes), wire);
    let &[.., marks, wait, _] = choice;
    let is = |flag: u8| packet.frame.flags & flag != 0;
    let (can_be_marked, peak, hops) = (
        is(frame_flag::ECN_CAPABLE),
        is(frame_flag::STAMP_PEAK),
        is(frame_flag::STAMP_HOPS) && packet.hops.as_slice().len() < MAX_HOPS,
    );
    if can_be_marked && marks & 1 != 0 {
        packet.frame.flags |= frame_flag::CONGESTION_EXPERIENCED;
    }
    let waited = Span::ns(u64::from(wait) * 77);
    if peak {
        packet.frame.peak_hop_delay = packet.frame.peak_hop_delay.max(waited);
    }
    if hops {
        packet.hops.push(Hop { rate: Rate::mbps(100), port: wait.into(), ..Hop::default() });
    }
    let cuts = packet.payload_bytes > 0 && marks & 2 != 0;
    if cuts {
        packet.payload_bytes = 0;
    }
    datagram.stamp(&packet);
    let after = [&[datagram.head()], &datagram.payload()[..]].concat().concat();
    if cuts {
        return trimmed(&before, &after);
    }
    let marked = if can_be_marked && marks & 1 != 0 { tos | ECN } else { tos };
    assert_eq!(ethernet::content(&after).0.tos, marked);
    assert_eq!(
        without(&before, readable),
        without(&after, readable_now(&before, &after, readable))
    );
    assert_eq!(right(&before), right(&after));
}

/// Asserts that a frame has lost the end of its UDP payload, and has right lengths and checksums.
fn trimmed(before: &[u8], after: &[u8]) {
    let payload = |frame| {
        let (content, _) = ethernet::content(frame);
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let payload = &content.payload[..content.readable];
        let rest = telemetry::parse(payload, &mut frame, &mut hops).unwrap_or(payload);
        (content.tos, content.payload.len() == content.readable, rest)
    };
    let ((_, _, whole), (tos, ends, kept)) = (payload(before), payload(after));
    assert!(is_trimmed(tos) && ends && !kept.is_empty() && whole.starts_with(kept));
    assert!(after.len() + FRAME_OVERHEAD_BYTES <= 192 + telemetry::MOST_BYTES, "{}", after.len());
    assert_eq!(right(before), right(after));
}

/// The length of the UDP payload, which must have grown as much as its frame.
fn readable_now(before: &[u8], after: &[u8], readable: usize) -> usize {
    assert!(readable > 0 || before.len() == after.len(), "telemetry without a UDP payload");
    let now = readable + after.len() - before.len();
    assert_eq!(now, ethernet::content(after).0.readable, "the length fields");
    now
}

/// A frame without the fields that a switch may change.
fn without(frame: &[u8], readable: usize) -> Vec<u8> {
    let mut all = frame.to_vec();
    let Some(ip) = Ip::of(frame) else { return all };
    if ip.is_six {
        all[ip.at + 1] &= !(ECN << 4);
        all[ip.at + 4..ip.at + 6].fill(0);
    } else {
        all[ip.at + 1] &= !ECN;
        all[ip.at + 2..ip.at + 4].fill(0);
        all[ip.at + 10..ip.at + 12].fill(0);
    }
    let (content, _) = ethernet::content(frame);
    if content.is_segment
        && let Some(telemetry) = TcpTelemetry::find(content.payload)
    {
        let (TcpTelemetry::Delay(values) | TcpTelemetry::Records(values)) = telemetry;
        all[ip.end..][values].fill(0);
        all[ip.end + CHECKSUM..][..2].fill(0);
    }
    if readable > 0 {
        let payload = ip.end + 8;
        all[ip.end + 4..payload].fill(0);
        let (mut frame, mut hops) = (Frame::default(), HopTrace::default());
        let telemetry = telemetry::parse(&all[payload..payload + readable], &mut frame, &mut hops);
        let stamping = frame_flag::STAMP_PEAK | frame_flag::STAMP_HOPS;
        if let Ok(rest) = telemetry.map(<[u8]>::len)
            && frame.flags & stamping != 0
        {
            all.drain(payload..payload + readable - rest);
        }
    }
    all
}

/// Whether the checksums of IPv4, UDP and TCP are correct, if present; computed in full.
fn right(frame: &[u8]) -> [Option<bool>; 3] {
    let Some(ip) = Ip::of(frame) else { return [None; 3] };
    let Ip { at, end, is_six } = ip;
    let (content, _) = ethernet::content(frame);
    let is_right = |length: usize, protocol: u8| {
        let addresses = if is_six { &frame[at + 8..at + 40] } else { &frame[at + 12..at + 20] };
        let pseudo = [addresses, &(length as u16).to_be_bytes(), &[0, protocol]].concat();
        sum(&[&pseudo, &frame[end..end + length]]) == RIGHT
    };
    let has_udp = content.head.len() == end + 8;
    let udp =
        (has_udp && frame[end + 6..end + 8] != [0; 2]).then(|| is_right(content.readable + 8, 17));
    let whole = match is_six {
        true => end + usize::from(word(frame, at + 4)),
        false => at + usize::from(word(frame, at + 2)),
    };
    let is_whole = content.is_segment && (end + 20..=frame.len()).contains(&whole);
    let tcp = is_whole.then(|| is_right(whole - end, 6));
    [(!is_six).then(|| sum(&[&frame[at..end]]) == RIGHT), udp, tcp]
}

/// The sum of words that include a correct checksum.
const RIGHT: u16 = 0xffff;

/// Sum of words in ones' complement.
fn sum(parts: &[&[u8]]) -> u16 {
    let mut sum: u32 = 0;
    for part in parts {
        for pair in part.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
            sum = sum % 0x1_0000 + sum / 0x1_0000;
        }
    }
    sum as u16
}

/// Builds the described frame.
fn frame(choice: &[u8; 8], rest: &[u8]) -> Vec<u8> {
    let &[what, tos, shape, records, at, ..] = choice;
    let by = choice[7];
    let is = |bit: u8| what >> bit & 1 == 1;
    if what == 0 {
        return rest.to_vec();
    }
    let (is_six, is_udp, has_checksum) = (is(0), is(1), is(2));
    let mut payload = if is(3) { request(shape, records) } else { Vec::new() };
    if shape & 16 != 0 {
        payload.extend([1, 0, 0, 2, 0, 0, 0, 0, 1, forwarding::TRIMMABLE, 0, 10]);
        payload.extend([by; forwarding::TRIMMABLE_BYTES - 4]);
    }
    payload.extend_from_slice(rest);
    let mut transport = [[0x12, by], [0x14, 0x96]].concat();
    if is_udp {
        transport.extend((payload.len() as u16 + 8).to_be_bytes());
        transport.extend([0; 2]);
        transport.extend(payload);
    } else {
        let options = requests(shape, records, by);
        transport.extend([by; 8]);
        transport.extend([(5 + options.len() as u8 / 4) << 4, 0x10, 1, 0, 0, 0, 0, 0]);
        transport.extend(options);
        transport.extend_from_slice(rest);
    }
    let protocol = if is_udp { 17 } else { 6 };
    let addresses: Vec<u8> = (0..if is_six { 32 } else { 8 }).map(|i: u8| i ^ by).collect();
    if has_checksum {
        let length = (transport.len() as u16).to_be_bytes();
        let pseudo = [&addresses[..], &length, &[0, protocol]].concat();
        let check = !sum(&[&pseudo, &transport]);
        let check = if is_udp && check == 0 { u16::MAX } else { check };
        let place = if is_udp { 6 } else { CHECKSUM };
        transport[place..place + 2].copy_from_slice(&check.to_be_bytes());
    }
    let mut frame: Vec<u8> = (1..=12).collect();
    if is(4) {
        frame.extend([0x81, 0, 0, 7]);
    }
    if is_six {
        frame.extend([0x86, 0xdd, 0x60 | tos >> 4, tos << 4, shape, by]);
        frame.extend((transport.len() as u16).to_be_bytes());
        frame.extend([protocol, 64]);
        frame.extend(addresses);
    } else {
        let options = usize::from(shape % 4) * 4;
        let mut ip = vec![0x45 + shape % 4, tos];
        ip.extend(((20 + options + transport.len()) as u16).to_be_bytes());
        // Sometimes a fragment, or a packet with "don't fragment".
        ip.extend([0, by, if is(5) { 0x20 } else { 0x40 }, 0, 64, protocol, 0, 0]);
        ip.extend(addresses);
        ip.resize(20 + options, by);
        let check = !sum(&[&ip]);
        ip[10..12].copy_from_slice(&check.to_be_bytes());
        frame.extend([8, 0]);
        frame.extend(ip);
    }
    frame.extend(transport);
    frame.resize(frame.len().max(60), by);
    if is(6) {
        let at = usize::from(at) % frame.len();
        frame[at] ^= by;
    }
    if is(7) {
        frame.truncate(usize::from(at));
    }
    frame
}

/// Options of TCP with paddings, and with requests for telemetry by `shape`.
fn requests(shape: u8, records: u8, by: u8) -> Vec<u8> {
    let mut options = vec![1; usize::from(by % 4)];
    if shape & 4 != 0 {
        options.extend([253, 8, 0x74, 0x64, 0, by, 0, 0]);
    }
    if shape & 8 != 0 {
        let words = records % 4;
        options.extend([253, 4 + 8 * words, 0x74, 0x66]);
        // Some records are filled.
        options.extend((0..8 * words).map(|at| if at < records / 4 { by } else { 0 }));
    }
    options.resize(options.len().next_multiple_of(4).min(40), 0);
    options
}

/// Telemetry with requests by `shape`, and a number of hop records.
fn request(shape: u8, records: u8) -> Vec<u8> {
    let stamping = [frame_flag::STAMP_PEAK, frame_flag::STAMP_HOPS];
    let flags = stamping.into_iter().zip([4, 8]).filter(|(_, bit)| shape & bit != 0);
    let flags = flags.fold(0, |all, (flag, _)| all | flag);
    let frame = Frame { flags, peak_hop_delay: Span::us(3), ..Frame::default() };
    let mut hops = HopTrace::default();
    (0..usize::from(records) % (MAX_HOPS + 1))
        .for_each(|port| hops.push(Hop { port: port as u32, ..Hop::default() }));
    let mut bytes = vec![0; telemetry::MOST_BYTES];
    let length = telemetry::emit(&frame, &hops, &mut bytes).unwrap_or(0);
    bytes.truncate(length);
    bytes
}
