//! Where addresses of Ethernet are, as learnt from who sends.

use std::collections::BTreeMap;

use crate::ethernet::Address;

/// Addresses that are kept; frames to others go everywhere.
const MOST: usize = 1 << 14;
/// Of an address: several receive it.
const GROUP: u8 = 1;
/// What begins so, up to the last four bits, stays on its link (IEEE 802.1Q): pauses, LLDP.
const LINK_ALONE: Address = [0x01, 0x80, 0xc2, 0, 0, 0];

pub(crate) struct Stations {
    /// By address, the place.
    known: BTreeMap<Address, u32>,
    places: u32,
}

impl Stations {
    pub(crate) fn new(places: u32) -> Stations {
        Stations { known: BTreeMap::new(), places }
    }

    /// Learns where a frame comes from; where it goes: to one place, to all others, or nowhere.
    pub(crate) fn ways(
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

    fn ways(stations: &mut Stations, place: u32, to: Address, from: Address) -> Vec<u32> {
        stations.ways(place, [to, from]).collect()
    }

    #[test]
    fn who_has_sent_is_known() {
        let mut stations = Stations::new(3);
        assert_eq!(ways(&mut stations, 0, B, A), [1, 2], "nobody knows where B is");
        assert_eq!(ways(&mut stations, 1, A, B), [0]);
        assert_eq!(ways(&mut stations, 0, B, A), [1]);
        assert_eq!(ways(&mut stations, 1, ALL, B), [0, 2]);
        // It has moved.
        assert_eq!(ways(&mut stations, 2, A, B), [0]);
        assert_eq!(ways(&mut stations, 0, B, A), [2]);
        assert!(ways(&mut stations, 2, B, A).is_empty(), "both are there");
    }

    #[test]
    fn groups_are_nobodys_place_and_links_keep_their_own() {
        let mut stations = Stations::new(3);
        ways(&mut stations, 2, B, ALL);
        assert_eq!(ways(&mut stations, 0, ALL, A), [1, 2]);
        assert!(ways(&mut stations, 0, [0x01, 0x80, 0xc2, 0, 0, 0x0e], A).is_empty());
        assert_eq!(ways(&mut stations, 0, [0x01, 0x80, 0xc2, 0, 0, 0x10], A), [1, 2]);
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let mut stations = Stations::new(2);
        ways(&mut stations, 0, B, A);
        for number in 0..2 * MOST as u32 {
            let [a, b, c, d] = number.to_be_bytes();
            ways(&mut stations, 1, A, [4, 0, a, b, c, d]);
        }
        assert_eq!(stations.known.len(), MOST);
        assert_eq!(ways(&mut stations, 1, A, B), [0], "known is known");
    }
}
