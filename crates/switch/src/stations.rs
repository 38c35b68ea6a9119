//! MAC learning: the place of each Ethernet address, from the sources of frames.

use std::collections::BTreeMap;

use crate::ethernet::Address;

/// Maximum number of learnt addresses; frames to other addresses are flooded.
const MOST: usize = 1 << 14;
/// Group bit of an address (multicast or broadcast).
const GROUP: u8 = 1;
/// Prefix of link-local addresses, all but the last four bits (IEEE 802.1Q): PFC, LLDP.
const LINK_ALONE: Address = [0x01, 0x80, 0xc2, 0, 0, 0];

pub(crate) struct Stations {
    /// Place of each address.
    known: BTreeMap<Address, u32>,
    places: u32,
}

impl Stations {
    pub(crate) fn new(places: u32) -> Stations {
        Stations { known: BTreeMap::new(), places }
    }

    /// Learns the source of a frame, and returns the places to forward it to: one, all others, or
    /// none.
    pub(crate) fn destinations(
        &mut self,
        place: u32,
        [to, from]: [Address; 2],
    ) -> impl Iterator<Item = u32> {
        let is_group = |address: Address| address[0] & GROUP != 0;
        let has_room = self.known.len() < MOST || self.known.contains_key(&from);
        if !is_group(from) && has_room {
            self.known.insert(from, place);
        }
        let stays = to[..5] == LINK_ALONE[..5] && to[5] < 0x10;
        let all = match self.known.get(&to) {
            _ if stays => 0..0,
            Some(&only) if !is_group(to) => only..only + 1,
            _ => 0..self.places,
        };
        all.filter(move |&other| other != place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Address = [2, 0, 0, 0, 0, 0xa];
    const B: Address = [2, 0, 0, 0, 0, 0xb];
    const ALL: Address = [0xff; 6];

    fn destinations(stations: &mut Stations, place: u32, to: Address, from: Address) -> Vec<u32> {
        stations.destinations(place, [to, from]).collect()
    }

    #[test]
    fn destinations_after_learning() {
        let mut stations = Stations::new(3);
        assert_eq!(destinations(&mut stations, 0, B, A), [1, 2], "B is unknown: flood");
        assert_eq!(destinations(&mut stations, 1, A, B), [0]);
        assert_eq!(destinations(&mut stations, 0, B, A), [1]);
        assert_eq!(destinations(&mut stations, 1, ALL, B), [0, 2]);
        // B has moved.
        assert_eq!(destinations(&mut stations, 2, A, B), [0]);
        assert_eq!(destinations(&mut stations, 0, B, A), [2]);
        assert!(destinations(&mut stations, 2, B, A).is_empty(), "both are at the same place");
    }

    #[test]
    fn destinations_of_groups_and_link_local_frames() {
        let mut stations = Stations::new(3);
        destinations(&mut stations, 2, B, ALL);
        assert_eq!(destinations(&mut stations, 0, ALL, A), [1, 2]);
        assert!(destinations(&mut stations, 0, [0x01, 0x80, 0xc2, 0, 0, 0x0e], A).is_empty());
        assert_eq!(destinations(&mut stations, 0, [0x01, 0x80, 0xc2, 0, 0, 0x10], A), [1, 2]);
    }

    #[test]
    fn learnt_addresses_are_bounded() {
        let mut stations = Stations::new(2);
        destinations(&mut stations, 0, B, A);
        for number in 0..2 * MOST as u32 {
            let [a, b, c, d] = number.to_be_bytes();
            destinations(&mut stations, 1, A, [4, 0, a, b, c, d]);
        }
        assert_eq!(stations.known.len(), MOST);
        assert_eq!(destinations(&mut stations, 1, A, B), [0], "a known address stays");
    }
}
