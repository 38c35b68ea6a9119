//! Packet captures: pcap and pcapng (draft-ietf-opsawg-pcapng). The file is read packet by packet.

use std::io::{ErrorKind, Read};

use super::connections::Connections;
use super::packet::{Content, LINKS, content};
use super::trace::{Gathered, MOST_FLOWS, Noted};
use crate::error::{Error, either};
use tidegate_core::Span;

/// Largest block or packet, in bytes.
const MOST_BYTES: u32 = 1 << 24;
/// Shift of times: a packet must be within 100 days of the first.
const MOST_PS: i128 = 100 * 86_400 * PS_PER_S;
const PS_PER_S: i128 = 1_000_000_000_000;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const TIME_RESOLUTION: u16 = 9;
const TIME_OFFSET: u16 = 14;

/// Captures that are read, for messages.
pub(super) const FORMS: &str = "a pcap capture (first bytes a1b2c3d4 or a1b23c4d, or these in \
                                reverse), a pcapng capture (0a0d0d0a),";

/// First bytes of a capture: pcap in both byte orders, with microseconds and nanoseconds, and
/// pcapng.
pub(super) fn is_capture(start: [u8; 4]) -> bool {
    let number = u32::from_be_bytes(start);
    number == SECTION_HEADER
        || [number, number.swap_bytes()].iter().any(|one| resolution(*one).is_some())
}

/// Picoseconds of a time unit of a pcap file with this first number.
fn resolution(magic: u32) -> Option<i128> {
    match magic {
        0xa1b2_c3d4 => Some(1_000_000),
        0xa1b2_3c4d => Some(1_000),
        _ => None,
    }
}

/// A captured packet.
struct Packet<'a> {
    at_ps: i128,
    interface: u32,
    link: u32,
    /// Length on the link.
    length: u32,
    stored: &'a [u8],
}

/// Unit and origin of an interface's times.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    /// Units per second.
    per_second: i128,
    offset_ps: i128,
}

/// Reads a capture, and divides the packets into flows that end after the gap `idle`.
///
/// # Errors
/// If the file cannot be read, is damaged, or has an unknown link type.
pub(super) fn read(from: impl Read, file: &str, idle: Span) -> Result<Gathered, Error> {
    let mut reader = Reader { from, file, at: 0, big: false, interfaces: Vec::new(), first: 0 };
    let mut counts = Counts::default();
    let mut connections = Connections::new(file, idle);
    let mut first = None;
    let mut take = |packet: Packet<'_>| {
        counts.packets += 1;
        let base = *first.get_or_insert(packet.at_ps);
        let at = packet.at_ps - base;
        if at.abs() > MOST_PS {
            return Err("a time within 100 days of the first packet's");
        }
        match content(packet.link, packet.stored, packet.length) {
            Content::Segment(segment) => connections.add(at as i64, packet.interface, &segment),
            Content::NotIp => counts.not_ip += 1,
            Content::OtherTransport => counts.other_transport += 1,
            Content::Fragment => counts.fragments += 1,
            Content::Truncated => counts.truncated += 1,
        }
        match connections.gathered.flows.len() < MOST_FLOWS {
            true => Ok(()),
            false => Err("at most 20000000 flows: divide the file"),
        }
    };
    let magic = reader.word()?.unwrap_or_default();
    let cut = if magic == SECTION_HEADER {
        reader.blocks(&mut take)?
    } else {
        reader.records(magic, &mut take)?
    };
    let mut gathered = connections.finish();
    counts.note(&mut gathered, cut);
    Ok(gathered)
}

#[derive(Default)]
struct Counts {
    packets: u64,
    not_ip: u64,
    other_transport: u64,
    fragments: u64,
    truncated: u64,
}

impl Counts {
    fn note(&self, gathered: &mut Gathered, cut: bool) {
        let noted = |name, text, count| Noted { name, text, count };
        gathered.noted.splice(
            0..0,
            [
                noted("packets", "packets", self.packets),
                noted("not_ip_packets", "packets that are not IP", self.not_ip),
                noted(
                    "other_transport_packets",
                    "packets that are neither TCP nor UDP",
                    self.other_transport,
                ),
                noted("fragments", "IP fragments without ports", self.fragments),
                noted(
                    "truncated_packets",
                    "packets whose stored part ends within the headers",
                    self.truncated,
                ),
                noted("cut_packets", "packet cut off by the end of the file", u64::from(cut)),
            ],
        );
    }
}

struct Reader<'a, R> {
    from: R,
    file: &'a str,
    /// Bytes read.
    at: u64,
    /// Numbers are big-endian.
    big: bool,
    /// Interfaces of the present section.
    interfaces: Vec<Interface>,
    /// Number of interfaces in earlier sections.
    first: u32,
}

impl<R: Read> Reader<'_, R> {
    fn wrong(&self, found: impl std::fmt::Display, expected: impl Into<Box<str>>) -> Error {
        Error::whole(self.file, format!("{found} before byte {}", self.at), expected)
    }

    /// Fills `to`; `false` if the file ends before.
    fn fill(&mut self, to: &mut [u8]) -> Result<bool, Error> {
        match self.from.read_exact(to) {
            Ok(()) => {
                self.at += to.len() as u64;
                Ok(true)
            }
            Err(why) if why.kind() == ErrorKind::UnexpectedEof => Ok(false),
            Err(why) => Err(self.wrong(format!("a read error ({why})"), "a readable capture")),
        }
    }

    /// The next big-endian number; `None` at the end of the file.
    fn word(&mut self) -> Result<Option<u32>, Error> {
        let mut bytes = [0; 4];
        Ok(self.fill(&mut bytes)?.then(|| u32::from_be_bytes(bytes)))
    }

    fn u32(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) })
    }

    fn u16(&self, bytes: &[u8], at: usize) -> Option<u16> {
        let bytes = *bytes.get(at..)?.first_chunk()?;
        Some(if self.big { u16::from_be_bytes(bytes) } else { u16::from_le_bytes(bytes) })
    }

    /// Refuses a link type that is not read.
    fn check_link(&self, link: u32) -> Result<(), Error> {
        if LINKS.iter().any(|(known, _)| *known == link) {
            return Ok(());
        }
        let names = LINKS.iter().map(|(number, name)| format!("{number} ({name})")).collect();
        Err(self
            .wrong(format!("link type {link}"), format!("a link type out of {}", either(names))))
    }

    /// Reads the records of a pcap file. Returns whether the file ends within one.
    fn records(
        &mut self,
        magic: u32,
        take: &mut impl FnMut(Packet<'_>) -> Result<(), &'static str>,
    ) -> Result<bool, Error> {
        self.big = resolution(magic).is_some();
        let Some(unit) = resolution(magic).or_else(|| resolution(magic.swap_bytes())) else {
            return Err(self.wrong("other bytes", "the start of a pcap or pcapng file"));
        };
        let mut head = [0; 20];
        if !self.fill(&mut head)? {
            return Err(self.wrong("the end of the file", "a header of 24 bytes"));
        }
        // The upper bits state the length of a checksum.
        let link = self.u32(&head, 16).unwrap_or(0) & 0xffff;
        self.check_link(link)?;
        let mut stored = Vec::new();
        loop {
            let mut head = [0; 16];
            if !self.fill(&mut head[..1])? {
                return Ok(false);
            }
            if !self.fill(&mut head[1..])? {
                return Ok(true);
            }
            let [seconds, parts, captured, length] =
                [0, 4, 8, 12].map(|at| self.u32(&head, at).unwrap_or(0));
            if captured > MOST_BYTES {
                let expected = format!("a packet of at most {MOST_BYTES} stored bytes");
                return Err(self.wrong(format!("a packet of {captured} stored bytes"), expected));
            }
            stored.resize(captured as usize, 0);
            if !self.fill(&mut stored)? {
                return Ok(true);
            }
            let at_ps = i128::from(seconds) * PS_PER_S + i128::from(parts) * unit;
            let packet = Packet { at_ps, interface: 0, link, length, stored: &stored };
            take(packet).map_err(|expected| self.wrong("a packet", expected))?;
        }
    }

    /// Reads the blocks of a pcapng file, after the type of the first. Returns whether the file
    /// ends within one.
    fn blocks(
        &mut self,
        take: &mut impl FnMut(Packet<'_>) -> Result<(), &'static str>,
    ) -> Result<bool, Error> {
        let mut head = [0; 8];
        head[..4].copy_from_slice(&SECTION_HEADER.to_be_bytes());
        let mut body = Vec::new();
        if !self.fill(&mut head[4..])? {
            return Ok(true);
        }
        loop {
            let is_section = head[..4] == SECTION_HEADER.to_be_bytes();
            let mut order = [0; 4];
            if is_section {
                if !self.fill(&mut order)? {
                    return Ok(true);
                }
                self.big = order == BYTE_ORDER.to_be_bytes();
                if !self.big && order != BYTE_ORDER.to_le_bytes() {
                    return Err(self.wrong("a section without byte order", "a pcapng section"));
                }
                self.first += self.interfaces.len() as u32;
                self.interfaces.clear();
            }
            let [kind, length] = [0, 4].map(|at| self.u32(&head, at).unwrap_or(0));
            let least = if is_section { 16 } else { 12 };
            if !(least..=MOST_BYTES).contains(&length) || !length.is_multiple_of(4) {
                let expected = format!("a multiple of 4 from {least} to {MOST_BYTES}");
                return Err(self.wrong(format!("a block of length {length}"), expected));
            }
            body.resize((length - least) as usize, 0);
            let mut end = [0; 4];
            if !self.fill(&mut body)? || !self.fill(&mut end)? {
                return Ok(true);
            }
            if self.u32(&end, 0) != Some(length) {
                let expected = format!("its length {length} at its end, too");
                return Err(self.wrong("a damaged block", expected));
            }
            if !is_section {
                self.block(kind, &body, take)?;
            }
            if !self.fill(&mut head[..1])? {
                return Ok(false);
            }
            if !self.fill(&mut head[1..])? {
                return Ok(true);
            }
        }
    }

    fn block(
        &mut self,
        kind: u32,
        body: &[u8],
        take: &mut impl FnMut(Packet<'_>) -> Result<(), &'static str>,
    ) -> Result<(), Error> {
        let short = || self.wrong(format!("a short block of type {kind}"), "a complete block");
        match kind {
            INTERFACE => {
                let interface = self.interface(body).ok_or_else(short)?;
                self.check_link(interface.link)?;
                self.interfaces.push(interface);
            }
            SIMPLE_PACKET => {
                let expected = "packets with times: write enhanced packet blocks";
                return Err(self.wrong("a packet without a time", expected));
            }
            ENHANCED_PACKET | OLD_PACKET => {
                let number = |at| self.u32(body, at).ok_or_else(short);
                let number_of = match kind {
                    OLD_PACKET => u32::from(self.u16(body, 0).ok_or_else(short)?),
                    _ => number(0)?,
                };
                let interface = self.interfaces.get(number_of as usize).ok_or_else(|| {
                    let count = self.interfaces.len();
                    let found = format!("a packet of interface {number_of}");
                    self.wrong(found, format!("one of the {count} interfaces before it"))
                })?;
                let ticks = i128::from(number(4)?) << 32 | i128::from(number(8)?);
                let at_ps = (ticks * PS_PER_S).div_euclid(interface.per_second);
                let (captured, length) = (number(12)? as usize, number(16)?);
                let stored = body.get(20..).and_then(|rest| rest.get(..captured));
                let packet = Packet {
                    at_ps: at_ps + interface.offset_ps,
                    interface: self.first + number_of,
                    link: interface.link,
                    length,
                    stored: stored.ok_or_else(short)?,
                };
                take(packet).map_err(|expected| self.wrong("a packet", expected))?;
            }
            _ => {}
        }
        Ok(())
    }

    /// Reads the description of an interface; `None` if it is damaged.
    fn interface(&self, body: &[u8]) -> Option<Interface> {
        let link = u32::from(self.u16(body, 0)?);
        let mut interface = Interface { link, per_second: 1_000_000, offset_ps: 0 };
        let mut options = body.get(8..)?;
        while let (Some(code), Some(length)) = (self.u16(options, 0), self.u16(options, 2)) {
            let value = options.get(4..4 + usize::from(length))?;
            match (code, value) {
                (0, _) => break,
                (TIME_RESOLUTION, [exponent]) => {
                    let (exponent, base) = (u32::from(exponent & 127), exponent & 128);
                    let fits = exponent <= if base == 0 { 18 } else { 60 };
                    let base: i128 = if base == 0 { 10 } else { 2 };
                    interface.per_second = fits.then(|| base.pow(exponent))?;
                }
                (TIME_OFFSET, value) => {
                    let bytes: [u8; 8] = value.try_into().ok()?;
                    let seconds = if self.big {
                        i64::from_be_bytes(bytes)
                    } else {
                        i64::from_le_bytes(bytes)
                    };
                    interface.offset_ps = i128::from(seconds) * PS_PER_S;
                }
                _ => {}
            }
            options = options.get(4 + usize::from(length).next_multiple_of(4)..).unwrap_or(&[]);
        }
        Some(interface)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::packet::UDP;
    use crate::workload::packet::tests::frame;

    /// A pcap file with packets of 100 payload bytes at these microseconds.
    fn pcap(times: &[u32], big: bool) -> Vec<u8> {
        let word = |number: u32| if big { number.to_be_bytes() } else { number.to_le_bytes() };
        let mut file = Vec::new();
        for number in [0xa1b2_c3d4, 0x0004_0002, 0, 0, 65_535, 1] {
            file.extend_from_slice(&word(number));
        }
        let packet = frame(UDP, [1, 2], 0, 100);
        for time in times {
            for number in [time / 1_000_000, time % 1_000_000, packet.len() as u32, 142] {
                file.extend_from_slice(&word(number));
            }
            file.extend_from_slice(&packet);
        }
        file
    }

    fn pcapng(resolution: u8, ticks: u32) -> Vec<u8> {
        let packet = frame(UDP, [1, 2], 0, 100);
        let mut file = Vec::new();
        let mut block = |kind: u32, body: &[u8]| {
            let length = (12 + body.len().next_multiple_of(4)) as u32;
            let start = file.len();
            file.extend_from_slice(&kind.to_le_bytes());
            file.extend_from_slice(&length.to_le_bytes());
            file.extend_from_slice(body);
            file.resize(start + length as usize - 4, 0);
            file.extend_from_slice(&length.to_le_bytes());
        };
        let words =
            |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>();
        block(SECTION_HEADER, &words(&[BYTE_ORDER, 1, u32::MAX, u32::MAX]));
        block(INTERFACE, &words(&[1, 0, 0x0001_0009, u32::from(resolution), 0]));
        for ticks in [0, ticks] {
            let mut body = words(&[0, 0, ticks, packet.len() as u32, 142]);
            body.extend_from_slice(&packet);
            block(ENHANCED_PACKET, &body);
        }
        file
    }

    fn flows(file: &[u8]) -> Result<Vec<(i64, u64)>, String> {
        let found = read(file, "x.pcap", Span::ms(10)).map_err(|error| error.to_string())?;
        Ok(found.flows.iter().map(|flow| (flow.at, flow.bytes)).collect())
    }

    #[test]
    fn both_byte_orders_and_formats_are_read() {
        let expected = [(0, 200), (20_000_000_000, 100)];
        for big in [false, true] {
            let file = pcap(&[5_000_000, 5_000_001, 5_020_000], big);
            assert!(is_capture(*file.first_chunk().unwrap()));
            assert_eq!(flows(&file).unwrap(), expected);
        }
        for (resolution, ticks) in [(6, 20_000), (9, 20_000_000), (0x80 | 10, 1024)] {
            let file = pcapng(resolution, ticks);
            assert!(is_capture(*file.first_chunk().unwrap()));
            assert_eq!(flows(&file).unwrap().len(), 2, "{resolution}");
        }
        assert_eq!(flows(&pcapng(9, 20_000_000)).unwrap()[1].0, 20_000_000_000);
    }

    #[test]
    fn a_cut_file_is_noted() {
        let file = pcap(&[0, 1], false);
        let found = read(&file[..file.len() - 3], "x", Span::ms(1)).unwrap();
        let cut = found.noted.iter().find(|noted| noted.name == "cut_packets").unwrap();
        assert_eq!((cut.count, found.flows[0].bytes), (1, 100));
    }

    #[test]
    fn damaged_files_give_errors() {
        let mut link = pcap(&[0], false);
        link[20] = 77;
        assert!(flows(&link).unwrap_err().contains("link type 77"));
        let mut long = pcap(&[0], false);
        long[35] = 0xff;
        assert!(flows(&long).unwrap_err().contains("stored bytes"));
        let mut block = pcapng(6, 1);
        block[32] = 3;
        assert!(flows(&block).unwrap_err().contains("a block of length"));
        // Every damaged byte gives flows, nothing, or an error.
        for file in [pcap(&[0, 1, 30_000], true), pcapng(9, 5)] {
            for at in 0..file.len() {
                for byte in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut damaged = file.clone();
                    damaged[at] = byte;
                    let _ = flows(&damaged);
                    let _ = flows(&damaged[..at]);
                }
            }
        }
    }
}
