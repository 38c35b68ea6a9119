//! The blocks of a pcapng file (draft-ietf-opsawg-pcapng), as far as captures need them.

/// Bytes of a packet that are stored; all headers fit.
pub(super) const SNAP_BYTES: u32 = 2048;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Ethernet.
const LINK_TYPE: u32 = 1;

const END_OF_OPTIONS: u16 = 0;
const USER_APPLICATION: u16 = 4;
const INTERFACE_NAME: u16 = 2;
const INTERFACE_SPEED: u16 = 8;
const TIME_RESOLUTION: u16 = 9;

/// Resolution of timestamps: nanoseconds.
const NANOSECONDS: u8 = 9;

/// Appends a block of type `kind`, whose content `fill` appends.
fn block(out: &mut Vec<u8>, kind: u32, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    words(out, &[kind, 0]);
    fill(out);
    let length = (out.len() - start + 4) as u32;
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    words(out, &[length]);
}

fn words(out: &mut Vec<u8>, words: &[u32]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Appends `bytes`, padded with zeros to a whole word.
fn padded(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + bytes.len().wrapping_neg() % 4, 0);
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    padded(out, value);
}

/// Section header: the first block of a file.
pub(super) fn section(out: &mut Vec<u8>, application: &str) {
    block(out, SECTION_HEADER, |out| {
        // Byte order, version 1.0, and unknown length.
        words(out, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
        option(out, USER_APPLICATION, application.as_bytes());
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends an interface. Interfaces are numbered from zero in the order of their blocks.
pub(super) fn interface(out: &mut Vec<u8>, name: &str, bits_per_second: u64) {
    block(out, INTERFACE_DESCRIPTION, |out| {
        words(out, &[LINK_TYPE, SNAP_BYTES]);
        option(out, INTERFACE_NAME, name.as_bytes());
        option(out, INTERFACE_SPEED, &bits_per_second.to_le_bytes());
        option(out, TIME_RESOLUTION, &[NANOSECONDS]);
        option(out, END_OF_OPTIONS, &[]);
    });
}

/// Appends a packet of `length` bytes, of which `captured` are stored.
pub(super) fn packet(out: &mut Vec<u8>, interface: u32, at_ns: u64, captured: &[u8], length: u32) {
    block(out, ENHANCED_PACKET, |out| {
        let kept = captured.len() as u32;
        words(out, &[interface, (at_ns >> 32) as u32, at_ns as u32, kept, length]);
        padded(out, captured);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_whole_words_with_two_lengths() {
        let mut out = Vec::new();
        section(&mut out, "tidegate");
        interface(&mut out, "h0->s0", 100_000_000_000);
        packet(&mut out, 0, 0x1_0000_0002, &[1, 2, 3, 4, 5], 1500);
        let word = |at: usize| u32::from_le_bytes(out[at..at + 4].try_into().unwrap());
        let (mut at, mut kinds) = (0, Vec::new());
        while at < out.len() {
            let length = word(at + 4) as usize;
            assert_eq!((length % 4, word(at + length - 4) as usize), (0, length));
            kinds.push(word(at));
            at += length;
        }
        assert_eq!((at, &kinds[..]), (out.len(), &[SECTION_HEADER, 1, 6][..]));
        let last = out.len() - 40;
        let content: Vec<u32> = (2..7).map(|i| word(last + 4 * i)).collect();
        assert_eq!(content, [0, 1, 2, 5, 1500]);
        assert_eq!(out[last + 28..last + 36], [1, 2, 3, 4, 5, 0, 0, 0]);
    }
}
